"""The clients of a run: two have a workbench process each, two share one in the driver's own process.

All of them speak raw JSON-RPC over pipes, and write down everything that they ask and hear.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

import msgspec

from mcp_workbench import Workbench, load_config
from mcp_workbench.limits import Limits
from tests.nemesis.history import (
    EXPECTED_STATUS,
    Begun,
    Cancelled,
    CutOff,
    Ended,
    Heard,
    Leaving,
    Left,
    Paused,
    Swept,
    Unforeseen,
    nonces_in,
)
from tests.nemesis.scene import END_SECONDS, TOOLBOX_OF, Scene, longest, now
from tests.nemesis.wires import Indoors, Recorder, defects, descendants, read_answer, remaining
from tests.support.procs import Process, new_marker
from tests.support.wire import CLIENT_INFO, HANDSHAKE_VERSION, Era, Json, use_params

SIGNALS = {"term": signal.SIGTERM, "kill": signal.SIGKILL}
PATIENCE_SECONDS = 3 * END_SECONDS
"""How long what must be over in `END_SECONDS` is watched."""
POLL_SECONDS = 0.05


class Answer(NamedTuple):
    """How a request ended; `code` is empty where nobody will tell."""

    code: str = ""
    retry_after: float = 0.0


class Client:
    """One client, through all its comings and goings."""

    def __init__(self, name: str, era: Era, scene: Scene, limits: Limits, capabilities: Json | None = None) -> None:
        self.name = name
        self.workbench = name
        """Whose workbench it uses."""
        self.era: Era = era
        self._scene = scene
        self._limits = limits
        self._capabilities = capabilities or {}
        self._visits = 0
        self._nonces = 0
        self._is_greeted = False
        self._answers = 0
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self.wire: Recorder | None = None
        self.marker = new_marker()

    # -- coming and going

    async def join(self) -> None:
        """Start a workbench and greet it."""
        self._visits += 1
        self._is_greeted = False
        self._answers = 0
        self.wire = wire = await self._enter()
        visit = f"{self.name}.{self._visits}"
        wire.listen(lambda message, line: self._heard(visit, message, line))
        wire.capabilities = self._capabilities
        self._watch(self._attend(wire))
        if self.era == "handshake":
            params = {
                "protocolVersion": HANDSHAKE_VERSION,
                "capabilities": self._capabilities,
                "clientInfo": CLIENT_INFO,
            }
            await self.outcome(await self.ask("greet", "initialize", params))
            await self._send(wire.notify("notifications/initialized"))
        else:
            await self.outcome(await self.ask("greet", "server/discover"))
        self._is_greeted = self.wire is wire  # else it left meanwhile, and another visit may have begun

    async def _enter(self) -> Recorder:
        self.marker = self._scene.mark()
        config = self._scene.config(f"{self.name}-{self._visits}", self.marker)
        return await Recorder.start(config, era=self.era)

    def reload(self, server: str) -> bool:
        """Change a server's entry in the file that the workbench was started with; whether there is one."""
        if self.wire is not None:
            self._scene.change(f"{self.name}-{self._visits}", self.marker, server)
        return self.wire is not None

    async def leave(self, how: Leaving, *, final: bool = False) -> asyncio.Task[None] | None:
        """Hang up. What is left of the client is watched by the task; None where it is not there."""
        wire, self.wire = self.wire, None
        if wire is None:
            return None
        kin = descendants(wire.process.pid) if wire.process.pid else []
        self._scene.note(Left(at=now(), client=self.name, how=how, final=final))
        self._check_running(wire)
        if how == "eof":
            assert wire.process.stdin is not None
            wire.process.stdin.close()
        elif wire.process.returncode is None:
            wire.process.send_signal(SIGNALS[how])
        for future in self._open.values():
            if not future.done():
                future.set_result(Answer())
        self._open.clear()
        swept = Swept(at=now(), client=self.name, how=how, status=-1, seconds=0.0, fresh=self._answers <= 1)
        return self._watch(self._sweep(wire, swept, self.marker, kin))

    async def _sweep(self, wire: Recorder, swept: Swept, marker: dict[str, str], kin: list[Process]) -> None:
        """Wait until nothing is left, and write down when that was, or what is left."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wire.process.wait(), PATIENCE_SECONDS)
        left = remaining(marker, kin)
        while left and now() < swept.at + PATIENCE_SECONDS:
            await asyncio.sleep(POLL_SECONDS)
            left = remaining(marker, kin)
        status = wire.process.returncode if wire.process.returncode is not None else -1
        commands = tuple(process.command for process in left)
        ended = {"at": now(), "status": status, "seconds": now() - swept.at, "left": commands}
        self._scene.note(msgspec.structs.replace(swept, **ended))
        await wire.close()

    async def _attend(self, wire: Recorder) -> None:
        """See that a workbench ends only when its client is gone, and what it says of itself."""
        await wire.process.wait()
        if self.wire is wire:
            self._check_running(wire)
        await asyncio.wait(wire.readers)
        was_killed = wire.process.returncode == EXPECTED_STATUS["kill"]
        for stray in wire.stray:
            if stray.endswith(b"\n"):
                self._unforeseen(f"no message: {stray[:200]!r}")
            elif not was_killed:
                self._scene.note(CutOff(at=now(), client=self.name))
        for line in defects(wire.stderr):
            self._unforeseen(line)

    def _check_running(self, wire: Recorder) -> None:
        if (status := wire.process.returncode) is not None:
            self._unforeseen(f"the workbench ended by itself with status {status}: {wire.stderr[-500:]}")

    async def gone(self) -> None:
        """Until nothing is watched any more."""
        while self._watching:
            await asyncio.wait(self._watching)

    def _watch(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)
        return task

    # -- asking

    def nonce(self) -> str:
        self._nonces += 1
        return f"n_{self.name}_{self._nonces}_"

    async def use(
        self,
        server: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        what: str = "use",
        progress: bool = False,
    ) -> str:
        """Call a tool; the name of the request."""
        nonce = self.nonce()
        params = use_params(TOOLBOX_OF[server], server, tool, {"nonce": nonce, **(arguments or {})})
        call: Json = {"name": "use_tool", "arguments": params}
        return await self.ask(what, "tools/call", call, progress=progress, server=server, tool=tool, nonce=nonce)

    async def ask(
        self, what: str, method: str, params: Json | None = None, *, progress: bool = False, **fields: Any
    ) -> str:
        """Make a request; its name, which is empty where the client is not there."""
        wire = self.wire
        if wire is None:
            return ""
        op = f"{self.name}.{self._visits}.{wire.next_id}"
        self._open[op] = asyncio.get_running_loop().create_future()
        if progress:
            params = {**(params or {}), "_meta": {"progressToken": op}}
        seconds = longest(what, self._limits) + (0 if self._is_greeted else longest("greet", self._limits))
        self._scene.note(Begun(at=now(), op=op, client=self.name, what=what, seconds=seconds, **fields))
        await self._send(wire.begin(method, params))
        return op

    async def cancel(self, op: str) -> None:
        """No longer want the answer, if it is not there yet."""
        if self.wire is not None and (future := self._open.pop(op, None)) is not None:
            self._scene.note(Cancelled(at=now(), op=op))
            future.set_result(Answer())
            number = int(op.rpartition(".")[2])
            await self._send(self.wire.notify("notifications/cancelled", {"requestId": number}))

    async def garbage(self, data: bytes) -> None:
        if self.wire is not None:
            await self._send(self.wire.raw(data + b"\n"))

    @contextlib.asynccontextmanager
    async def paused(self, seconds: float) -> AsyncIterator[None]:
        """Read nothing for a while, if it is there; what is asked meanwhile may have to wait."""
        if (wire := self.wire) is None:
            yield
            return
        self._scene.note(Paused(at=now(), client=self.name, seconds=seconds))
        wire.pause()
        again = asyncio.get_running_loop().call_later(seconds, wire.resume)
        try:
            yield
        finally:
            await asyncio.sleep(again.when() - asyncio.get_running_loop().time())

    async def outcome(self, op: str, seconds: float = PATIENCE_SECONDS) -> Answer:
        """How a request ended, as soon as that is known; none where it takes longer."""
        if (future := self._open.get(op)) is None:
            return Answer()
        await asyncio.wait((future,), timeout=max(0.0, seconds))
        return future.result() if future.done() else Answer()

    @property
    def waiting(self) -> list[asyncio.Future[Answer]]:
        return [future for future in self._open.values() if not future.done()]

    async def _send(self, writing: Any) -> None:
        with contextlib.suppress(ConnectionError):  # its workbench was killed this moment
            await writing

    # -- hearing

    def _heard(self, visit: str, message: Json, line: bytes) -> None:
        nonces = nonces_in(line.decode(errors="replace"))
        if "method" in message:
            self._told(message, nonces)
        elif (number := message.get("id")) is not None:  # without: the answer to garbage
            op = f"{visit}.{number}"
            self._answers += visit == f"{self.name}.{self._visits}"  # another's may come late
            code, text, retry_after = read_answer(message)
            self._scene.note(Ended(at=now(), op=op, client=self.name, code=code, nonces=nonces, text=text))
            if (future := self._open.pop(op, None)) is not None and not future.done():
                future.set_result(Answer(code, retry_after))

    def _told(self, message: Json, nonces: tuple[str, ...]) -> None:
        if "id" in message:
            self._unforeseen(f"it was asked {message['method']}")
        op = str(message.get("params", {}).get("progressToken", ""))
        if op or nonces:
            self._scene.note(Heard(at=now(), client=self.name, method=message["method"], op=op, nonces=nonces))

    def _unforeseen(self, text: str) -> None:
        self._scene.note(Unforeseen(at=now(), client=self.name, text=text))


class Lodger(Client):
    """A client of the workbench in this process; its servers carry the mark of that workbench."""

    def __init__(
        self, name: str, era: Era, scene: Scene, *, workbench: Workbench, marker: dict[str, str], able: Json
    ) -> None:
        super().__init__(name, era, scene, workbench.limits, able)
        self.workbench = "indoors"
        self._workbench = workbench
        self.marker = marker

    async def _enter(self) -> Recorder:
        return Recorder(await Indoors.enter(self._workbench), self.era)  # type: ignore[arg-type]

    def reload(self, server: str) -> bool:
        self._workbench.apply(load_config(self._scene.change("indoors", self.marker, server)))
        return True

    async def leave(self, how: Leaving, *, final: bool = False) -> asyncio.Task[None] | None:
        del how
        servers, self.marker = self.marker, new_marker()  # other clients have servers of this mark too
        try:
            return await super().leave("eof", final=final)
        finally:
            self.marker = servers
