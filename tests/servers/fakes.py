"""A channel without a server: requests wait until the test answers them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

from msgspec import Raw

from mcp_workbench.errors import Fault, ServerExited
from mcp_workbench.servers.base import Inbound
from mcp_workbench.wire.exchange import OnProgress
from mcp_workbench.wire.jsonrpc import with_meta


class FakeChannel:
    """`answers` answer at once; what has none waits for `answer` or `fail`."""

    def __init__(self, answers: dict[str, Any] | None = None) -> None:
        self.answers = answers or {}
        self.requests: list[tuple[str, Any]] = []
        self.options: list[dict[str, Any]] = []
        self.on_progress: list[OnProgress | None] = []
        self.notified: list[str] = []
        self.waiting: dict[str, asyncio.Future[Raw]] = {}
        self.peer: Any = self
        self.received_at = 0.0
        self.has_paused_deadlines = False
        self.ended: asyncio.Future[Fault] = asyncio.get_running_loop().create_future()

    async def request(self, method: str, params: Any, on_progress: OnProgress | None = None, **options: Any) -> Raw:
        self.on_progress.append(on_progress)
        if stamp := options.get("stamp"):
            params = with_meta(params, stamp)
        self.requests.append((method, params))
        self.options.append(options)
        future = self.waiting[method] = asyncio.get_running_loop().create_future()
        if method in self.answers:
            self.answer(method, self.answers[method])
        return await future

    def answer(self, method: str, answer: Any) -> None:
        """Raw JSON, a value, a fault, or a function of the params."""
        self.received_at = asyncio.get_running_loop().time()
        future = self.waiting[method]
        if isinstance(answer, Fault):
            if isinstance(answer, ServerExited) and not self.ended.done():
                self.ended.set_result(answer)
            future.set_exception(answer)
        elif isinstance(answer, bytes):
            future.set_result(Raw(answer))
        else:
            future.set_result(Raw(json.dumps(answer).encode()))

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.requests]

    def notify(self, method: str, params: Any) -> None:
        del params
        self.notified.append(method)

    def listen(self, inbound: Inbound) -> None:
        del inbound

    @contextlib.contextmanager
    def pause_deadlines(self, owner: object = None) -> Iterator[None]:
        del owner
        yield

    @property
    def noise(self) -> str:
        return ""

    def stderr_tail(self) -> str:
        return ""

    def give_up(self, fault: Fault) -> None:
        if not self.ended.done():
            self.ended.set_result(fault)

    async def close(self) -> None:
        return
