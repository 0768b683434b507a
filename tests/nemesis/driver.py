"""Does what a plan says: to servers, and on behalf of the clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal

from tests.nemesis.checker import HEAL_SECONDS
from tests.nemesis.clients import Client
from tests.nemesis.history import Calmed, Fault, Peopled, Struck
from tests.nemesis.plan import GARBAGE, Step, wrong_requests
from tests.nemesis.scene import SERVERS, TOOLBOX_OF, Scene, now
from tests.support.procs import census

TIDY_SECONDS = 10.0
"""How long servers that were replaced, and what they started, may take to end on a busy machine."""
LAST_SECONDS = 20.0
"""How long requests that have no outcome after the healing are waited for."""
RETRY_SECONDS = 0.2


class Driver:
    """Does what the plan says."""

    def __init__(self, scene: Scene, clients: dict[str, Client]) -> None:
        self._scene = scene
        self._clients = clients
        self._deeds = {
            "use": self._use,
            "cancel": self._use,
            "flood": self._use,
            "pause": self._pause,
            "open": self._open,
            "list": self._list,
            "wrong": self._wrong,
            "garbage": self._garbage,
            "kill": self._strike,
            "stop": self._strike,
            "reload": self._reload,
            "leave": self._leave,
        }

    async def join(self) -> None:
        await asyncio.gather(*(client.join() for client in self._clients.values()))

    async def be_wrong(self) -> None:
        """Before any server is needed: every wrong request of every client, and each kind of garbage."""
        for client in self._clients.values():
            ops = [await self._ask_wrongly(client, index) for index in range(len(wrong_requests("")))]
            for data in GARBAGE:
                await client.garbage(data)
            for op in ops:
                await client.outcome(op)

    async def carry_out(self, steps: list[Step]) -> None:
        began = now()
        async with asyncio.TaskGroup() as group:
            for step in steps:
                await asyncio.sleep(began + step.at - now())
                group.create_task(self._deeds[step.do](step))

    async def heal(self) -> None:
        """From now on nothing is done to servers: see how long each takes to answer each client."""
        self._scene.calm.touch()
        self._scene.note(Calmed(at=now()))
        until = now() + HEAL_SECONDS
        clients = self._clients.values()
        await asyncio.gather(*(self._heal(client, server, until) for client in clients for server in SERVERS))

    async def count_people(self) -> None:
        """See that there is one process of a server for each client, once what was replaced had time to end."""
        workbenches: dict[str, list[Client]] = {}
        for client in self._clients.values():
            workbenches.setdefault(client.workbench, []).append(client)
        for name, clients in workbenches.items():
            until = now() + TIDY_SECONDS
            while any(count > len(clients) for count in self._scene.people(clients[0].marker).values()):
                if now() > until:
                    break
                await asyncio.sleep(RETRY_SECONDS)
            for server, count in self._scene.people(clients[0].marker).items():
                self._scene.note(Peopled(at=now(), workbench=name, server=server, count=count, most=len(clients)))

    async def finish(self) -> None:
        """Let every request have its outcome, then hang up."""
        if waiting := [future for client in self._clients.values() for future in client.waiting]:
            await asyncio.wait(waiting, timeout=LAST_SECONDS)
        for client in self._clients.values():
            await client.leave("eof", final=True)
        for client in self._clients.values():
            await client.gone()

    # -- deeds

    async def _use(self, step: Step) -> None:
        client = self._clients[step.client]
        for _ in range(step.count):
            op = await client.use(step.server, step.tool, step.arguments, progress=step.progress)
            if step.do == "cancel":
                await asyncio.sleep(step.after)
                await client.cancel(op)

    async def _pause(self, step: Step) -> None:
        """Ask for large results, and read nothing for a while."""
        client = self._clients[step.client]
        async with client.paused(step.after):
            for _ in range(step.count):
                await client.use(step.server, step.tool, step.arguments)

    async def _open(self, step: Step) -> None:
        toolbox = TOOLBOX_OF[step.server]
        call = {"name": "open_toolbox", "arguments": {"toolbox": toolbox}}
        await self._clients[step.client].ask("open", "tools/call", call, progress=True, server=step.server)

    async def _list(self, step: Step) -> None:
        await self._clients[step.client].ask("list", "tools/list")

    async def _wrong(self, step: Step) -> None:
        await self._ask_wrongly(self._clients[step.client], int(step.pick * len(wrong_requests(""))))

    async def _ask_wrongly(self, client: Client, index: int) -> str:
        nonce = client.nonce()
        method, params = wrong_requests(nonce)[index]
        return await client.ask("wrong", method, params, nonce=nonce, wrong=True)

    async def _garbage(self, step: Step) -> None:
        await self._clients[step.client].garbage(GARBAGE[int(step.pick * len(GARBAGE))])

    async def _leave(self, step: Step) -> None:
        client = self._clients[step.client]
        if await client.leave(step.how) is not None:
            await client.join()

    async def _reload(self, step: Step) -> None:
        """Change a server's entry in the configuration of a client's workbench, which serves meanwhile."""
        if self._clients[step.client].reload(step.server):
            self._scene.note(Struck(at=now(), fault="reload", server=step.server, client=step.client, pid=0))

    async def _strike(self, step: Step) -> None:
        """Kill or stop one of the processes of a server, if there is one; perhaps let it go on."""
        marker = self._clients[step.client].marker
        running = sorted(process.pid for process in census(marker) if f"server.py {step.server} " in process.command)
        if not running:
            return
        pid = running[int(step.pick * len(running))]
        self._signal(step, pid, "kill" if step.do == "kill" else "stop")
        if step.do == "stop" and step.after >= 0:
            await asyncio.sleep(step.after)
            if any(process.pid == pid for process in census(marker)):
                self._signal(step, pid, "go")

    def _signal(self, step: Step, pid: int, fault: Fault) -> None:
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "go": signal.SIGCONT}[fault]
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            self._scene.note(Struck(at=now(), fault=fault, server=step.server, client=step.client, pid=pid))

    async def _heal(self, client: Client, server: str, until: float) -> None:
        while now() < until:
            answer = await client.outcome(await client.use(server, "echo", what="heal"), until - now())
            if answer.code == "ok":
                return
            await asyncio.sleep(max(0.0, min(answer.retry_after or RETRY_SECONDS, until - now())))
