"""The interface between a client and the servers that work for it. It imports neither side.

An `Exchange` is one logical call. A server reaches the calling client only through it: `notify` sends progress and
logs, `ask` sends questions. An exchange may outlive the request that started it: a modern client gets a question as the
response to its request, and returns with the answer on a new request (`attach`). `ask` hides that difference.

A `Client` is the session behind a call, for messages that belong to no call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from mcp_workbench.errors import InputUnavailable
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.wire.background import BackgroundTasks, consume_exception, in_background
from mcp_workbench.wire.caller import QUESTIONS, Caller
from mcp_workbench.wire.downgrade import Projection
from mcp_workbench.wire.jsonrpc import Id, Params, fields, number_or_none
from mcp_workbench.wire.memory_budget import Account

PROGRESS_STEP = 0.001
"""How much progress the workbench itself reports each time: hundreds of these are less than a server's first."""
MISSED_NOTIFICATIONS = 64
"""Progress and log messages that are kept while a modern client answers a question. The last ones are kept."""
MISSED_BYTES = 4096
"""The size of each of these. A larger one is dropped, so that a parked call stays small."""

PROGRESS = "notifications/progress"
T = TypeVar("T")

OnProgress: TypeAlias = Callable[[dict[str, Raw]], None]
"""Called with the members of a progress notification."""


class OpenRequest(Protocol):
    """An open request of the client, with the messages that can be sent while it is open."""

    @property
    def request_id(self) -> Id | None: ...

    def notify(self, method: str, params: Params) -> None:
        """Send a notification, in order with all other messages of this request."""
        ...

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        """Send a request to the client and return its result. Raises `ServerRefused`."""
        ...

    def adjourn(self) -> None:
        """End the response early; the client reconnects for the rest. Does nothing if the client can't."""
        ...


class Withdrawn(Exception):
    """The call ended before its client answered the question."""


class Answer(msgspec.Struct, frozen=True):
    """The call is done and has a result."""

    result: Raw


class Question(msgspec.Struct, frozen=True):
    """The call waits for its client to answer `requests`, each under a key that the workbench chose."""

    requests: Mapping[str, Mapping[str, Any]]


class Exchange:
    """One logical call, from its first request to its answer."""

    __slots__ = (
        "__weakref__",
        "_count",
        "_has_ended",
        "_members",
        "_missed",
        "_new_question",
        "_questions",
        "_request",
        "_result",
        "_steps",
        "_work",
        "caller",
        "may_ask",
        "members",
        "meta",
        "progress_token",
        "projection",
    )

    def __init__(
        self,
        caller: Caller,
        line: OpenRequest,
        *,
        progress_token: Raw | None = None,
        meta: Mapping[str, Raw] | None = None,
        members: dict[str, Raw] | None = None,
        may_ask: bool = True,
    ) -> None:
        self.caller = caller
        self.progress_token = progress_token
        """The client's token. Servers get a different one."""
        self.meta = meta or {}
        """The part of the request's `_meta` that is passed on to the server."""
        self.members: dict[str, Raw] = members or {}
        """The other params that are passed on, without those that name the target."""
        self.may_ask = may_ask
        """Whether the protocol allows a question as the response to this request, in the modern era."""
        self.projection: Projection = "none"
        """How the result is projected for a handshake client."""
        self._has_ended = False
        self._steps = 0
        self._missed: list[tuple[str, Params]] = []
        self._request: OpenRequest | None = line
        self._work: asyncio.Task[Raw] | None = None
        self._questions: dict[str, tuple[Mapping[str, Any], asyncio.Future[Raw]]] = {}
        self._new_question: asyncio.Future[None] | None = None
        self._count = 0
        self._result: Raw | None = None
        self._members: dict[str, Raw] = {}

    def read(self, result: Raw) -> dict[str, Raw]:
        """The members of the call's result, decoded only once. Raises `msgspec.DecodeError`."""
        if result is not self._result:
            self._members, self._result = fields(result), result
        return self._members

    def notify(self, method: str, params: Params) -> None:
        """Send a notification to the client. Progress gets the client's token, or is dropped if it has none.

        While a modern client answers a question, no request is open: the last notifications are kept until it returns.
        """
        if self._request is None:
            self._keep_notification(method, params)
            return
        if method == PROGRESS:
            if self.progress_token is None:
                return
            params = {**params, "progressToken": self.progress_token}
        self._request.notify(method, params)

    def _keep_notification(self, method: str, params: Params) -> None:
        """Keep a copy of a notification for later, so that the message it came in can be freed."""
        kept = {name: value.copy() if isinstance(value, Raw) else value for name, value in params.items()}
        if sum(memoryview(value).nbytes for value in kept.values() if isinstance(value, Raw)) <= MISSED_BYTES:
            self._missed = [*self._missed[1 - MISSED_NOTIFICATIONS :], (method, kept)]

    def progressed(self, fields: dict[str, Raw]) -> None:
        """Pass on progress that the server reports."""
        if not self._steps or (number_or_none(fields.get("progress")) or 0.0) > self._steps * PROGRESS_STEP:
            self.notify(PROGRESS, fields)

    def say(self, message: str) -> None:
        """Report progress before the server does. The steps are small, since progress must increase."""
        self._steps += 1
        self.notify(PROGRESS, {"progress": self._steps * PROGRESS_STEP, "message": message})

    def adjourn(self) -> None:
        """End the client's response early too, because the server did, if the client uses the *server* surface.

        The workbench reconnects to the server on its own; other clients need not know.
        """
        if self._request is not None and self.caller.transparent:
            self._request.adjourn()

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        """Ask the client: directly in the handshake era, and as the response to its request in the modern era.

        Raises `InputUnavailable` if the client did not declare the capability, and `Withdrawn` if the call ends first.
        """
        if method in QUESTIONS and method not in self.caller.answers:
            raise InputUnavailable(f"its client did not declare support for {method}")
        if not self.caller.modern and self._request is not None:
            return await self._request.ask(method, params, on_progress)
        if method not in QUESTIONS or not self.may_ask:
            raise InputUnavailable(f"its client can't answer {method} here")
        return await self.pose(method, params)

    def pose(self, method: str, params: Params) -> asyncio.Future[Raw]:
        """Ask a modern client in the response to its request. Cancel the answer to withdraw the question."""
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self._count += 1
        key = f"q{self._count}"
        answer.add_done_callback(lambda answer: self._settle(key, answer))
        if self._has_ended:
            answer.set_exception(Withdrawn())
            return answer
        self._questions[key] = ({"method": method, "params": params}, answer)
        if self._new_question is not None and not self._new_question.done():
            self._new_question.set_result(None)
        return answer

    def _settle(self, key: str, answer: asyncio.Future[Raw]) -> None:
        self._questions.pop(key, None)
        consume_exception(answer)

    async def run(self, work: Coroutine[Any, Any, Raw]) -> Answer | Question:
        """Do the work and return the first outcome. Cancelling this cancels the work.

        For a caller that can't be asked, the work needs no task of its own.
        """
        if not (self.caller.modern and self.caller.answers and self.may_ask):
            return Answer(await work)
        self._work = BackgroundTasks().start(work)
        return await self.outcome()

    def attach(self, line: OpenRequest, answers: Mapping[str, Raw], progress_token: Raw | None = None) -> None:
        """Continue on a new request, with which the client returned its answers, and which has its own token."""
        self._request = line
        self.progress_token = progress_token
        missed, self._missed = self._missed, []
        for notification in missed:
            self.notify(*notification)
        for key, answer in answers.items():
            if key in self._questions and not (future := self._questions[key][1]).done():
                future.set_result(answer)

    async def outcome(self) -> Answer | Question:
        """The answer, or the questions that must be answered first. Cancelling this cancels the call."""
        if self._work is None:
            raise RuntimeError("this exchange does no work")
        try:
            while not self._work.done():
                if unanswered := {key: asked for key, (asked, future) in self._questions.items() if not future.done()}:
                    self._request = None
                    return Question(unanswered)
                await self._next_event()
        except asyncio.CancelledError:
            self.cancel("the client went away")
            raise
        self._end()
        return Answer(self._work.result())

    def _end(self) -> None:
        """Withdraw all open questions."""
        self._has_ended = True
        for _, answer in self._questions.values():
            if not answer.done():
                answer.set_exception(Withdrawn())

    async def _next_event(self) -> None:
        """Wait until the work is done or asks a new question."""
        if self._work is None:
            return
        self._new_question = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._work, self._new_question), return_when=asyncio.FIRST_COMPLETED)

    def cancel(self, reason: str) -> None:
        """Stop the work. Synchronous, since after a cancellation every await is cancelled again."""
        self._end()
        if self._work is not None and not self._work.done():
            self._work.cancel(reason)


class Client(Protocol):
    """A client session, as servers reach it."""

    def tell(
        self, source: ServerIdentifier, method: str, params: dict[str, Raw], exchange: Exchange | None = None
    ) -> None:
        """Pass on a server's notification. `exchange` is its call, if known."""
        ...

    def changed(self, toolbox: str, kind: str) -> None:
        """Notify of a changed list of a toolbox: `tools`, `prompts` or `resources`."""
        ...

    async def ask(
        self,
        source: ServerIdentifier,
        method: str,
        params: Params,
        on_progress: OnProgress | None,
        exchange: Exchange | None,
    ) -> Raw:
        """Ask a handshake client a server's question. `exchange` is its call, if known."""
        ...


class ClientRef(NamedTuple):
    """The client of a router."""

    caller: Caller
    """Any caller of the router: all have the same era and capabilities."""
    client: Callable[[], Client | None]
    """The client, if it is connected."""
    account: Account = Account()
    """The client's memory account."""

    def changed(self, toolbox: str, kind: str) -> None:
        """Notify the client of a changed list."""
        if (client := self.client()) is not None:
            client.changed(toolbox, kind)


async def with_progress(
    exchange: Exchange | None, work: Coroutine[Any, Any, T], describe: Callable[[], str], every_seconds: float
) -> T:
    """Await `work`, and report progress to a client that requested it. `describe` names the current step."""
    if exchange is None or exchange.progress_token is None:
        return await work
    began = asyncio.get_running_loop().time()
    with in_background(work) as task:
        while not (await asyncio.wait((task,), timeout=every_seconds))[0]:
            exchange.say(f"{describe()} ({asyncio.get_running_loop().time() - began:.0f} s)")
        return task.result()
