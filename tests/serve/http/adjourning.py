"""A server over HTTP that ends its stream in the middle of a call, as the test wants it; and of which era it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from tests.peers.rogue_http import MODES, Hangup, Json, Request, Rogue, rogue
from tests.support.configs import write_config

Eras = Literal["handshake", "modern", "both"]
NAME = "adjourning"


def part(number: int, call: Request) -> Json:
    """Progress of a call."""
    token = call.message["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": number, "message": f"part {number}"}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


class Adjourning:
    """A server whose call is answered on a stream that it ends first, each time that it is told to."""

    def __init__(self, server: Rogue) -> None:
        self.server = server
        self._steps: asyncio.Queue[Literal["end", "answer"]] = asyncio.Queue()
        self._called: Request | None = None

    def end(self) -> None:
        """End the stream that is there, or the next."""
        self._steps.put_nowait("end")

    def answer(self) -> None:
        self._steps.put_nowait("answer")

    def config(self, folder: Path, **fields: object) -> Path:
        return write_config(folder, {"dev": {"fs": {"url": self.server.url(NAME), **fields}}})

    @property
    def rpcs(self) -> list[str]:
        """What it was asked, in order."""
        return [one.rpc for one in self.server.requests if "id" in one.message]

    @property
    def comings(self) -> list[str]:
        """The events after which the rest was asked for."""
        return [one.headers["last-event-id"] for one in self.server.sent("GET") if "last-event-id" in one.headers]

    async def call(self, _: Rogue, request: Request) -> None:
        self._called = request
        await request.stream()
        await request.send(b"id: 0\nretry: 10\ndata:\n\n")
        await self._go_on(request)

    async def come_back(self, _: Rogue, request: Request) -> None:
        if "last-event-id" not in request.headers:
            await request.reply(405)
            return
        await request.stream()
        await self._go_on(request)

    async def _go_on(self, request: Request) -> None:
        assert self._called is not None
        number = len(self.comings)
        await request.event(part(number, self._called), id=f"part-{number}")
        if await self._steps.get() == "answer":
            await request.event(self._called.said("all of it"), id="answer")
        raise Hangup


async def _refuse(_: Rogue, request: Request) -> None:
    await request.error(400, -32601, "Method not found", request.message["id"])


@contextlib.asynccontextmanager
async def adjourning(eras: Eras = "handshake") -> AsyncIterator[Adjourning]:
    """Such a server, which will end its first stream."""
    async with rogue() as server:
        peer = Adjourning(server)
        peer.end()
        modes = {NAME: peer.call, f"{NAME} GET": peer.come_back}
        if eras != "handshake":
            modes[f"{NAME} server/discover"] = MODES["modern server/discover"]
        if eras == "modern":
            modes[f"{NAME} initialize"] = _refuse
        MODES.update(modes)
        try:
            yield peer
        finally:
            for name in modes:
                del MODES[name]
