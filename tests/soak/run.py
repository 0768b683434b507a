"""A soak: four clients on stdio and four over HTTP use workbenches for long, with crashes, cancels and large results.

    python -m tests.soak.run --seconds 600

At the end the memory and the descriptors of every workbench process must be what they were once it was warm.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol

import httpx2

from tests.nemesis.scene import SERVER
from tests.nemesis.wires import memory_of, read_answer
from tests.serve.http.serving import Handshake, answer_in, modern, modern_headers, program
from tests.soak.checker import GROWN_BYTES, Outcome, Sample, check
from tests.support.configs import write_config
from tests.support.procs import PROC
from tests.support.wire import Era, Json, Wire, serving, use_params

ECHOES = 10
LARGE_BYTES = 1_500_000
SAMPLE_SECONDS = 1.0
SAMPLES = 60
"""At least, however short a run is."""
CRASH_SECONDS = 15.0
"""Between two crashes of one client's server: a server that does nothing else rests for longer and longer."""
CANCEL_SECONDS = 0.05
PAUSE_SECONDS = 0.25
"""Between two rounds of a client, so that eight of them leave some of two processors to others."""
HTTP = "http"


class Caller(Protocol):
    """A client that calls tools."""

    name: str

    async def call(self, tool: str, arguments: Json) -> Json:
        """The answer to a call."""
        ...

    async def cancel(self, tool: str, arguments: Json) -> None:
        """Make a call and cancel it."""
        ...

    async def again(self) -> None:
        """Begin another session, where that needs no other process."""
        ...


class OnStdio:
    """A client with a workbench process of its own."""

    def __init__(self, name: str, wire: Wire) -> None:
        self.name = name
        self._wire = wire

    async def call(self, tool: str, arguments: Json) -> Json:
        return {"result": await self._wire.use("dev", "s", tool, arguments)}

    async def cancel(self, tool: str, arguments: Json) -> None:
        call = {"name": "use_tool", "arguments": use_params("dev", "s", tool, arguments)}
        number = await self._wire.begin("tools/call", call)
        await asyncio.sleep(CANCEL_SECONDS)
        await self._wire.notify("notifications/cancelled", {"requestId": number})

    async def again(self) -> None:
        """What was heard is not kept."""
        for kept in (self._wire.lines, self._wire.order, self._wire.notifications):
            kept.clear()


class OverHttp:
    """A client of the workbench that all of them share."""

    def __init__(self, name: str, http: httpx2.AsyncClient, era: Era) -> None:
        self.name = name
        self._era = era
        self._http = http
        self._session: Handshake | None = None

    async def call(self, tool: str, arguments: Json) -> Json:
        params = {"name": "use_tool", "arguments": use_params("dev", "s", tool, arguments)}
        if self._era == "modern":
            message = modern("tools/call", params)
            return answer_in(await self._http.post("/mcp", json=message, headers=modern_headers(message)))
        assert self._session is not None
        return await self._session.request("tools/call", params)

    async def cancel(self, tool: str, arguments: Json) -> None:
        """A client cancels by closing the stream of its request."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self.call(tool, arguments)

    async def again(self) -> None:
        if self._session is not None:
            await self._http.request("DELETE", "/mcp", headers=self._session.headers)
        if self._era == "handshake":
            self._session = await Handshake.begin(self._http)


class Soak:
    """One run."""

    def __init__(self, seconds: float, sample_seconds: float) -> None:
        self._began = time.monotonic()
        self._seconds = seconds
        self._sample_seconds = sample_seconds
        self.samples: list[Sample] = []
        self.outcomes: list[Outcome] = []

    @property
    def _is_over(self) -> bool:
        return time.monotonic() - self._began > self._seconds

    async def use(self, client: Caller) -> None:
        """Rounds of calls, until it is over."""
        crash_at = time.monotonic() + CRASH_SECONDS
        while not self._is_over:
            await client.again()
            await asyncio.gather(*(self._call(client, "echo", "echo", {}) for _ in range(ECHOES)))
            await self._call(client, "large", "large", {"count": LARGE_BYTES})
            await client.cancel("slow", {"nonce": "n", "seconds": 1})
            if time.monotonic() > crash_at:
                await self._call(client, "crash", "crash", {})
                crash_at = time.monotonic() + CRASH_SECONDS
            await asyncio.sleep(PAUSE_SECONDS)

    async def _call(self, client: Caller, kind: str, tool: str, arguments: Json) -> None:
        code, _, _ = read_answer(await client.call(tool, {"nonce": "n", **arguments}))
        self.outcomes.append(Outcome(client.name, kind, code))

    async def measure(self, processes: dict[str, int]) -> None:
        """Note what every process holds, until it is over."""
        while not self._is_over:
            for name, pid in processes.items():
                descriptors = len(os.listdir(PROC / str(pid) / "fd"))  # noqa: PTH208 -- a number is all
                at = time.monotonic() - self._began
                self.samples.append(Sample(at, name, memory_of(pid), descriptors))
            await asyncio.sleep(self._sample_seconds)


def _config(folder: Path) -> Path:
    folder.mkdir()
    options = {"log": os.devnull, "calm": str(folder / "calm"), "starts": os.devnull, "seed": 1}
    entry = {"command": sys.executable, "args": ["-SE", str(SERVER), "s", json.dumps(options)]}
    return write_config(folder, {"dev": {"s": entry}})


async def soak(seconds: float, folder: Path) -> Soak:
    """One run, and what was measured."""
    eras: tuple[Era, ...] = ("handshake", "modern", "handshake", "modern")
    async with contextlib.AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(serving(_config(folder / f"stdio{n}"), era=eras[n])) for n in range(4)]
        served = await stack.enter_async_context(program(_config(folder / HTTP)))
        assert served.process is not None
        clients: list[Caller] = [OnStdio(f"stdio{number}", wire) for number, wire in enumerate(wires)]
        for number, era in enumerate(eras):
            http = await stack.enter_async_context(served.client())
            clients.append(OverHttp(f"http{number}", http, era))
        processes = {f"stdio{number}": wire.process.pid for number, wire in enumerate(wires)}
        processes[HTTP] = served.process.pid
        run = Soak(seconds, min(SAMPLE_SECONDS, seconds / SAMPLES))
        await asyncio.gather(run.measure(processes), *(run.use(client) for client in clients))
    return run


def summary(run: Soak) -> str:
    """A line for each process: what it held when it was warm, at most and at the end."""
    lines = [f"{len(run.outcomes)} calls"]
    for name in sorted({one.name for one in run.samples}):
        own = [one for one in run.samples if one.name == name]
        at = [own[len(own) // 3], max(own, key=lambda one: one.size_bytes), own[-1]]
        sizes = "  ".join(f"{one.size_bytes / 1e6:6.1f} MB {one.descriptors:3} fds" for one in at)
        lines.append(f"{name:<8} after a third, at most, at the end:  {sizes}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run, print what was measured; 1 where something grew or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600, help="how long (600)")
    options: Any = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        run = asyncio.run(soak(options.seconds, Path(folder)))
    print(summary(run))
    found = check(run.samples, run.outcomes, options.seconds, GROWN_BYTES)
    print("\n".join(found) or "memory and descriptors are flat")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
