"""The seam between a client and the servers that work for it. It imports neither side.

An `Exchange` is one logical call. A server reaches the client that caused its work only through it: `notify` sends
progress and logs, `ask` sends questions. An exchange outlives the request it came with. A modern client gets a question
as the response to its request and returns with the answer on a new request (`attach`). `ask` hides that difference.

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
from mcp_workbench.wire.background import consume_exception, in_background
from mcp_workbench.wire.caller import QUESTIONS, Caller
from mcp_workbench.wire.jsonrpc import Id, Params, fields, number_or_none
from mcp_workbench.wire.memory_budget import Account
from mcp_workbench.wire.projection import Projection

PROGRESS_STEP = 0.001
"""How much progress we report each time: hundreds of them are less than a server's first."""
MISSED_NOTIFICATIONS = 64
"""Progress and log messages that are kept while a modern client answers a question. The last ones are kept."""
MISSED_BYTES = 4096
"""The size of each of these. A larger one is dropped, so that a parked call stays small."""

PROGRESS = "notifications/progress"
T = TypeVar("T")

OnProgress: TypeAlias = Callable[[dict[str, Raw]], None]
"""Called with the members of a progress notification."""


class OpenRequest(Protocol):
    """The wire request that is attached now: what can be sent while it is open."""

    @property
    def request_id(self) -> Id | None: ...

    def notify(self, method: str, params: Params) -> None:
        """Send a notification, in order with everything else on this line."""
        ...

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        """Send a request to the client and return its result. Raises `ServerRefused`."""
        ...

    def adjourn(self) -> None:
        """End the response to this request: its client comes back for the rest. Nothing, where it could not."""
        ...


class Withdrawn(Exception):
    """The call ended before its client could be asked, so nobody will answer."""


class Answer(msgspec.Struct, frozen=True):
    """The call is done."""

    result: Raw


class Question(msgspec.Struct, frozen=True):
    """The call waits for its client: `requests` maps keys of ours to what is asked."""

    requests: Mapping[str, Mapping[str, Any]]


class Exchange:
    """One logical call, from the request that starts it to its answer."""

    __slots__ = (
        "__weakref__",
        "_asked",
        "_count",
        "_line",
        "_members",
        "_missed",
        "_open",
        "_over",
        "_result",
        "_said",
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
        """The client's own token; servers get another one."""
        self.meta = meta or {}
        """What of the request's `_meta` travels to the server."""
        self.members: dict[str, Raw] = members or {}
        """What else the request holds besides what names its target: it travels too."""
        self.may_ask = may_ask
        """Whether the protocol lets a modern client be asked in answer to this request."""
        self.projection: Projection = "none"
        """How the result of a call is projected for a handshake client."""
        self._over = False
        self._said = 0
        self._missed: list[tuple[str, Params]] = []
        self._line: OpenRequest | None = line
        self._work: asyncio.Task[Raw] | None = None
        self._open: dict[str, tuple[Mapping[str, Any], asyncio.Future[Raw]]] = {}
        self._asked: asyncio.Future[None] | None = None
        self._count = 0
        self._result: Raw | None = None
        self._members: dict[str, Raw] = {}

    def read(self, result: Raw) -> dict[str, Raw]:
        """The members of its result, decoded once for all who look at them. Raises `msgspec.DecodeError`."""
        if result is not self._result:
            self._members, self._result = fields(result), result
        return self._members

    def notify(self, method: str, params: Params) -> None:
        """Tell the client. Progress is stamped with its own token, or left out if it has none.

        While a modern client is being asked no line is attached: it hears the last of it when it is back.
        """
        if self._line is None:
            self._miss(method, params)
            return
        if method == PROGRESS:
            if self.progress_token is None:
                return
            params = {**params, "progressToken": self.progress_token}
        self._line.notify(method, params)

    def _miss(self, method: str, params: Params) -> None:
        """Keep a notification for later, without the message that it came in."""
        kept = {name: value.copy() if isinstance(value, Raw) else value for name, value in params.items()}
        if sum(memoryview(value).nbytes for value in kept.values() if isinstance(value, Raw)) <= MISSED_BYTES:
            self._missed = [*self._missed[1 - MISSED_NOTIFICATIONS :], (method, kept)]

    def progressed(self, fields: dict[str, Raw]) -> None:
        """The server reports progress of this call."""
        if not self._said or (number_or_none(fields.get("progress")) or 0.0) > self._said * PROGRESS_STEP:
            self.notify(PROGRESS, fields)

    def say(self, message: str) -> None:
        """Progress of ours, before the server reports any. It is small: by the protocol, progress increases."""
        self._said += 1
        self.notify(PROGRESS, {"progress": self._said * PROGRESS_STEP, "message": message})

    def adjourn(self) -> None:
        """The server ended its response, and is asked for the rest by us; a client that sees it as it is does the same.

        Others need not know how we are connected to a server.
        """
        if self._line is not None and self.caller.transparent:
            self._line.adjourn()

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        """Ask the client: at once in the handshake era, else as the outcome of its request.

        Raises `InputUnavailable` where the client did not declare that it can be asked this, `Withdrawn`
        where the call is over first.
        """
        if method in QUESTIONS and method not in self.caller.answers:
            raise InputUnavailable(f"its client did not declare that it answers {method}")
        if not self.caller.modern and self._line is not None:
            return await self._line.ask(method, params, on_progress)
        if method not in QUESTIONS or not self.may_ask:
            raise InputUnavailable(f"its client can't be asked {method} here")
        return await self.pose(method, params)

    def pose(self, method: str, params: Params) -> asyncio.Future[Raw]:
        """Ask a modern client as the outcome of its request; its answer. Cancelling that takes the question back."""
        answer: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(consume_exception)
        if self._over:
            answer.set_exception(Withdrawn())
            return answer
        self._count += 1
        key = f"q{self._count}"
        self._open[key] = ({"method": method, "params": params}, answer)
        answer.add_done_callback(lambda _: self._open.pop(key, None))
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)
        return answer

    async def run(self, work: Coroutine[Any, Any, Raw]) -> Answer | Question:
        """Do the work and return the first outcome.

        A caller that can't be asked needs no second task. If this is cancelled, so is the work.
        """
        if not (self.caller.modern and self.caller.answers and self.may_ask):
            return Answer(await work)
        self._work = asyncio.ensure_future(work)
        self._work.add_done_callback(consume_exception)
        return await self.outcome()

    def attach(self, line: OpenRequest, answers: Mapping[str, Raw], progress_token: Raw | None = None) -> None:
        """The client came back with answers, on a new wire request with a token of its own."""
        self._line = line
        self.progress_token = progress_token
        missed, self._missed = self._missed, []
        for notification in missed:
            self.notify(*notification)
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
        self._end()
        return Answer(self._work.result())

    def _end(self) -> None:
        """Nobody is asked any more; whoever still waits for an answer is told."""
        self._over = True
        for _, answer in self._open.values():
            if not answer.done():
                answer.set_exception(Withdrawn())

    async def _next_event(self) -> None:
        """Wait until the work is done or asks something new."""
        if self._work is None:
            return
        self._asked = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._work, self._asked), return_when=asyncio.FIRST_COMPLETED)

    def cancel(self, reason: str) -> None:
        """Stop the work. Synchronous, since after a cancellation every await is cancelled again."""
        self._end()
        if self._work is not None and not self._work.done():
            self._work.cancel(reason)


class Client(Protocol):
    """Who hears what a server says, as far as it is for them."""

    def tell(
        self, source: ServerIdentifier, method: str, params: dict[str, Raw], exchange: Exchange | None = None
    ) -> None:
        """Pass on a server's notification; `exchange` is the call it belongs to, if known."""
        ...

    def changed(self, toolbox: str, kind: str) -> None:
        """A list of a toolbox changed: `tools`, `prompts` or `resources`."""
        ...

    async def ask(
        self,
        source: ServerIdentifier,
        method: str,
        params: Params,
        on_progress: OnProgress | None,
        exchange: Exchange | None,
    ) -> Raw:
        """Put a server's question to a handshake client; `exchange` is the call it belongs to, if that is known."""
        ...


class ClientRef(NamedTuple):
    """The client that a router works for."""

    caller: Caller
    """It stands for every call that is made for it: they declare the same and speak the same era."""
    client: Callable[[], Client | None]
    """The client, if it listens."""
    account: Account = Account()
    """The memory that is held for it."""

    def changed(self, toolbox: str, kind: str) -> None:
        """A list changed; the client hears of it."""
        if (client := self.client()) is not None:
            client.changed(toolbox, kind)


async def with_progress(
    exchange: Exchange | None, work: Coroutine[Any, Any, T], describe: Callable[[], str], every_seconds: float
) -> T:
    """Await `work` and report progress to a client that asked for it. `describe` names the current step."""
    if exchange is None or exchange.progress_token is None:
        return await work
    began = asyncio.get_running_loop().time()
    with in_background(work) as task:
        while not (await asyncio.wait((task,), timeout=every_seconds))[0]:
            exchange.say(f"{describe()} ({asyncio.get_running_loop().time() - began:.0f} s)")
        return task.result()
