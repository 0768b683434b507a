"""The seam between a client's request and the servers that answer it. It imports nothing of a front.

An `Exchange` is one logical call. Servers reach the client that caused their work through it and
through nothing else: `notify` for progress and logs, `ask` for questions. It outlives the wire
request it came with: a modern client is asked by answering its request with the question, and
comes back with the answer on a new one (`attach`). `ask` is the only step that knows the era.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from mcp_workbench.errors import InputUnavailable
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import Id, Params

PROGRESS = "notifications/progress"


class Line(Protocol):
    """The wire request that is attached now: what can be sent while it is open."""

    @property
    def request_id(self) -> Id | None: ...

    def notify(self, method: str, params: Params) -> None:
        """Send a notification, in order with everything else on this line."""
        ...

    async def ask(self, method: str, params: Params) -> Raw:
        """Send a request to the client and return its result. Raises `ServerRefused`."""
        ...


class Answer(msgspec.Struct, frozen=True):
    """The call is done."""

    result: Raw


class Question(msgspec.Struct, frozen=True):
    """The call waits for its client: `requests` maps keys of ours to what is asked."""

    requests: Mapping[str, Mapping[str, Any]]


class Exchange:
    """One logical call, from the request that starts it to its answer."""

    def __init__(
        self, caller: Caller, line: Line, *, progress_token: Raw | None = None, meta: Mapping[str, Raw] | None = None
    ) -> None:
        self.caller = caller
        self.progress_token = progress_token
        """The client's own token; servers get another one."""
        self.meta = meta or {}
        """What of the request's `_meta` travels to the server."""
        self._line: Line | None = line
        self._work: asyncio.Task[Raw] | None = None
        self._open: dict[str, tuple[Mapping[str, Any], asyncio.Future[Raw]]] = {}
        self._asked: asyncio.Future[None] | None = None
        self._count = 0

    def notify(self, method: str, params: Params) -> None:
        """Tell the client. Progress is stamped with its own token, or left out if it has none.

        While a modern client is being asked no line is attached, and there is nobody to tell.
        """
        if self._line is None:
            return
        if method == PROGRESS:
            if self.progress_token is None:
                return
            params = {**params, "progressToken": self.progress_token}
        self._line.notify(method, params)

    async def ask(self, method: str, params: Params) -> Raw:
        """Ask the client: at once in the handshake era, else as the outcome of its request.

        Raises `InputUnavailable` where the client did not declare that it can be asked.
        """
        if not self.caller.can_be_asked:
            raise InputUnavailable("its client can't be asked")
        if not self.caller.modern and self._line is not None:
            return await self._line.ask(method, params)
        self._count += 1
        key = f"q{self._count}"
        answer = asyncio.get_running_loop().create_future()
        self._open[key] = ({"method": method, "params": params}, answer)
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)
        try:
            return await answer
        finally:
            self._open.pop(key, None)

    async def run(self, work: Coroutine[Any, Any, Raw]) -> Answer | Question:
        """Do the work and return the first outcome.

        A caller that can't be asked needs no second task. If this is cancelled, so is the work.
        """
        if not (self.caller.modern and self.caller.can_be_asked):
            return Answer(await work)
        self._work = asyncio.ensure_future(work)
        return await self.outcome()

    def attach(self, line: Line, answers: Mapping[str, Raw], progress_token: Raw | None = None) -> None:
        """The client came back with answers, on a new wire request with a token of its own."""
        self._line = line
        self.progress_token = progress_token
        for key, answer in answers.items():
            if key in self._open and not (future := self._open[key][1]).done():
                future.set_result(answer)

    async def outcome(self) -> Answer | Question:
        """The answer, or what must be asked first. Cancelling this cancels the call."""
        if self._work is None:
            raise RuntimeError("nothing runs in this exchange")
        try:
            while not self._work.done():
                if unanswered := {key: asked for key, (asked, future) in self._open.items() if not future.done()}:
                    self._line = None
                    return Question(unanswered)
                await self._next_event()
        except asyncio.CancelledError:
            self.cancel("the client went away")
            raise
        return Answer(self._work.result())

    async def _next_event(self) -> None:
        """Wait until the work is done or asks something new."""
        if self._work is None:
            return
        self._asked = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._work, self._asked), return_when=asyncio.FIRST_COMPLETED)

    def cancel(self, reason: str) -> None:
        """Stop the work. Synchronous, since after a cancellation every await is cancelled again."""
        if self._work is not None and not self._work.done():
            self._work.cancel(reason)
