"""A symmetric JSON-RPC peer: requests, notifications, progress and cancellation, both ways.

Guarantees: every request that we send has exactly one outcome, whatever bytes arrive; the other side can't answer a
request that it did not get; messages are handled in order of arrival, and notifications are sent before the answer
that they precede; a cancelled caller notifies the other side. There is no thread and no queue per message. A peer does
not interpret methods and does not know whether the other side is a client or a server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from time import monotonic
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import CallTimeout, Fault, ServerRefused
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.background import in_background
from mcp_workbench.wire.batch import BatchElement, BatchResponse, first_request
from mcp_workbench.wire.deadlines import NEVER, Deadlines, Delivery, Pending
from mcp_workbench.wire.exchange import PROGRESS, OnProgress
from mcp_workbench.wire.fairness import FairShare
from mcp_workbench.wire.jsonrpc import Envelope, ErrorBody, Id, Message, Params, RpcError, Unreadable
from mcp_workbench.wire.memory_budget import MEMORY_SMALL_BYTES, Account

CANCELLED = "notifications/cancelled"
_NEVER_DROPPED = frozenset({*eras.LIST_CHANGED, eras.ACKNOWLEDGED})
"""Notifications that are sent only once, so a slow reader must still get them."""


class Handler(Protocol):
    """Handles the requests and notifications of the other side."""

    def request(self, method: str, params: dict[str, Raw], line: PeerRequest) -> Awaitable[Raw]:
        """Answer a request. Raises `RpcError` to answer with an error."""
        ...

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        """Handle a notification. Called in the order of arrival. For `owner` see `Peer.receive`."""
        ...

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        """Handle a line that is not a message."""
        ...

    def complaint(self, error: ErrorBody) -> None:
        """Handle an error without an id: the other side could not read one of our messages."""
        ...


class Writer(Protocol):
    """Sends messages to the other side."""

    @property
    def congested(self) -> bool:
        """Whether the other side does not read."""
        ...

    @property
    def is_closed(self) -> bool: ...

    async def drained(self) -> None:
        """Wait until it is no longer congested."""
        ...

    def write(self, envelope: Envelope) -> None:
        """Send a message, unless it may be dropped and the other side has many unread ones of that kind."""
        ...


class Peer:
    """One end of a connection."""

    def __init__(
        self,
        writer: Writer,
        handler: Handler,
        *,
        answers_always: bool = True,
        admit: Callable[[int, str, dict[str, Raw]], RpcError | Raw | None] = lambda _load, _method, _params: None,
        passes: Callable[[str, int], bool] = lambda _method, _size: True,
        over: Callable[[int], None] | None = None,
        adjourn: Callable[[Id], None] = lambda _: None,
        share: FairShare | None = None,
        account: Account | None = None,
    ) -> None:
        """Without `answers_always`, requests of a peer that does not read its answers are dropped.

        `admit` is called for each request with the number of requests under way. If it returns a value, that is sent as
        the answer. `passes` decides by method and size whether a notification is handled. `over` is called with the id
        of
        each of our requests when it has ended, and `adjourn` with the id of a request whose response should end early.
        `share` is charged for the work of every message that is not an answer. `account` counts the other side's
        requests while they are handled.
        """
        self._account = account or Account()
        self.adjourn = adjourn
        self._over = over
        self._answers_always = answers_always
        self._admit = admit
        self._passes = passes
        self._writer = writer
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._ids = jsonrpc.Ids()
        self._pending: dict[int, Pending] = {}
        self._inbound: dict[Id, asyncio.Task[None]] = {}
        self._batched: set[asyncio.Task[None]] = set()
        self._fault: Fault | None = None
        self._given_up: Fault | None = None
        self._share = share
        self._deadlines = Deadlines(self._pending.values())
        self.received_at = 0.0
        """When the last message of any kind arrived, in the time of the event loop; 0 if none did."""
        self.messages = 0
        """The number of received messages."""
        self.strays = 0
        """The number of answers that belong to no open request, and of requests that were dropped."""

    def pause_deadlines(self, owner: object = None) -> AbstractContextManager[None]:
        """See `Deadlines.pause`."""
        return self._deadlines.pause(owner)

    # -- our requests

    async def request(
        self,
        method: str,
        params: Params,
        on_progress: OnProgress | None = None,
        *,
        stamp: Mapping[str, Any] | None = None,
        owner: object = None,
        idle_seconds: float = 0,
        hard_seconds: float = 0,
        cancellable: bool = True,
        lenient: bool = False,
        about: Id | None = None,
        delivery: Delivery | None = None,
    ) -> Raw:
        """Send a request and return its raw result. Progress goes to `on_progress`.

        Raises the `Fault` that ended it: `ServerRefused` for a JSON-RPC error, `CallTimeout` after `idle_seconds`
        without an answer or progress, or after `hard_seconds` in all, or the fault that ended the connection. 0 means
        no deadline. For `about` see `Envelope`. `stamp` is added to the request's `_meta`. If `lenient`, the deepest
        parts of an answer that is nested too deep are left out. If the request fails, `delivery` says whether it was
        sent.
        """
        delivery = delivery or Delivery()
        if self._given_up is not None:
            delivery.was_sent = False
            raise self._given_up.copy_with()
        while (id_ := self._ids()) in self._pending:
            pass
        now, hard = self._loop.time(), hard_seconds or NEVER
        idle = idle_seconds or hard
        future = self._loop.create_future()
        pending = self._pending[id_] = Pending(
            future, delivery, on_progress, owner, lenient, now, idle, hard, now + hard
        )
        if (due := now + min(idle, hard)) < self._deadlines.due:
            self._deadlines.arm(due)
        sent = False
        try:
            if self._writer.congested or self._writer.is_closed:
                await self._wait_until_writable(pending)
            if stamp or idle_seconds or on_progress is not None:
                # Request progress under our own token, since it restarts the idle deadline.
                token = {"progressToken": id_} if idle_seconds or on_progress is not None else {}
                params = jsonrpc.with_meta(params, {**(stamp or {}), **token})
            self._writer.write(Envelope(params, id_, method, about))
            sent = True
            return await pending.future
        except (asyncio.CancelledError, CallTimeout) as ending:
            if not sent and isinstance(ending, CallTimeout):
                raise ending.copy_with(hint="The server does not read its input; it may be stuck.") from None
            if sent and cancellable and self._fault is None and id_ in self._pending:
                reason = "the caller cancelled it" if isinstance(ending, asyncio.CancelledError) else str(ending)
                self.notify(CANCELLED, {"requestId": id_, "reason": reason}, about)
            raise
        finally:
            self._pending.pop(id_, None)
            if self._over is not None:
                self._over(id_)

    def is_waiting(self, id_: int) -> bool:
        """Whether our request has no answer yet."""
        return id_ in self._pending

    def owner_of(self, id_: int) -> object:
        """The `owner` of our request, if it has no answer yet."""
        pending = self._pending.get(id_)
        return pending.owner if pending is not None else None

    def notify(self, method: str, params: Params, about: Id | None = None, *, may_drop: bool = False) -> None:
        self._writer.write(Envelope(params, None, method, about, may_drop))

    @property
    def has_paused_deadlines(self) -> bool:
        """Whether the other side waits for somebody else now."""
        return self._deadlines.is_paused

    @property
    def congested(self) -> bool:
        """Whether the other side does not read."""
        return self._writer.congested

    # -- received messages

    def receive(self, line: bytes, owner: object = None) -> None:
        """Handle one line. Never raises, never waits.

        `owner` is the `owner` of the request on whose response stream the line came; None if the wire has a single
        stream.
        """
        if self._fault is not None:
            return  # more lines of the same read
        share = self._share
        began = monotonic() if share is not None else 0.0
        try:
            message = jsonrpc.read(line)
        except Unreadable as problem:
            is_answer = self._receive_unreadable(line, problem, owner)
        else:
            is_answer = self.take(message, len(line), owner)
        if share is not None and not is_answer:
            share.charge(monotonic() - began)

    def _receive_unreadable(self, line: bytes, problem: Unreadable, owner: object) -> bool:
        """Handle a line that is not a valid message; whether it answered one of our requests."""
        ids = jsonrpc.recover_ids(line, self._pending.__contains__) if problem.is_deep else []
        if ids and self._pending[ids[0]].lenient:
            try:
                return self.take(jsonrpc.read(jsonrpc.cut_nesting(line)), len(line), owner)
            except Unreadable as second:
                problem = second
        self.received_at = self._loop.time()
        self._handler.unreadable(line, problem)
        return False

    def take(self, message: Message, size: int, owner: object = None) -> bool:
        """Handle a decoded message of `size` bytes; whether it answered one of our requests.

        Never raises, never waits. See `receive`.
        """
        self.received_at = self._loop.time()
        self.messages += 1
        return self._dispatch(message, size, owner)

    def _dispatch(self, message: Message, size: int, owner: object, batch: BatchResponse | None = None) -> bool:
        if message.method is None:
            return self._handle_answer(message)
        if message.id is jsonrpc.UNSET:
            self._handle_notification(message.method, message.params, owner, size)
        else:
            self._handle_request(message, message.method, size, owner, batch)
        return False

    def receive_batch(self, parts: Sequence[BatchElement]) -> None:
        """Handle a batch; its answers are sent together. Never raises, never waits."""
        answers = BatchResponse(first_request(parts), self._writer.write, self._account)
        for part in parts:
            if isinstance(part, RpcError):
                answers.write(Envelope(part))
            else:
                self._dispatch(part, sum(memoryview(value).nbytes for value in part.params.values()), None, answers)
        answers.complete()

    def fail_request(self, line: bytes, fault: Callable[[], Fault]) -> bool:
        """Fail the requests that an unreadable answer belongs to; False if they can't be identified."""
        ids = jsonrpc.recover_ids(line, self._pending.__contains__)
        for id_ in ids:
            self._fail(id_, fault())
        return bool(ids)

    def fail(self, id_: int, fault: Fault, *, was_sent: bool = True) -> None:
        """Fail one of our requests, unless it has ended."""
        if (pending := self._pending.get(id_)) is not None:
            pending.delivery.was_sent = was_sent
            self._fail(id_, fault)

    def refuse(self, line: bytes, error: RpcError) -> None:
        """Answer an unreadable request with an error, under its id if that is certain."""
        id_ = jsonrpc.leading_id(line)
        self._writer.write(Envelope(error, id_, about=id_))

    def give_up(self, fault: Fault) -> None:
        """Fail all our open and future requests with `fault`, since the other side will not answer."""
        self._given_up = self._given_up or fault
        for id_ in tuple(self._pending):
            self._fail(id_, fault)

    def close(self, fault: Fault) -> None:
        """End the connection: fail our requests with `fault` and cancel the other side's."""
        if self._fault is not None:
            return
        self._fault = fault
        self._deadlines.close()
        self.give_up(fault)
        for task in tuple(self._inbound.values()):
            task.cancel(str(fault))

    def shed(self, error: RpcError) -> None:
        """Cancel the other side's requests and answer them with `error`. Batches answer their own."""
        for id_, task in tuple(self._inbound.items()):
            if task not in self._batched:
                del self._inbound[id_]
                self._writer.write(Envelope(error, id_, about=id_))
            task.cancel(error.message)

    @property
    def serving(self) -> frozenset[asyncio.Task[None]]:
        """The tasks that handle the other side's requests."""
        return frozenset(self._inbound.values())

    # -- answers to our requests

    def _handle_answer(self, message: Message) -> bool:
        """Settle the request that a response belongs to; False if there is none."""
        id_ = message.id
        if id_ is None:
            self._handle_error_without_id(jsonrpc.error_body(message.error))
            return False
        if not isinstance(id_, int) or id_ not in self._pending:
            self.strays += 1
            logger.debug("an answer to no open request", id=id_, so_far=self.strays)
            return False
        if message.error is not jsonrpc.NOTHING:
            body = jsonrpc.error_body(message.error)
            self._fail(id_, ServerRefused(body.message, rpc_code=body.code, data=bytes(body.data)))
        elif (future := self._pending.pop(id_).future).done():
            self.strays += 1
        else:
            future.set_result(message.result)
        return True

    def _handle_error_without_id(self, error: ErrorBody) -> None:
        """Handle an error without an id. Only parse errors and invalid requests concern one of our requests."""
        self.strays += 1
        if error.code in (jsonrpc.PARSE_ERROR, jsonrpc.INVALID_REQUEST):
            self._handler.complaint(error)

    def _fail(self, id_: int, fault: Fault) -> None:
        if (future := self._pending.pop(id_).future).done():
            self.strays += 1
        else:
            future.set_exception(fault)

    async def _wait_until_writable(self, pending: Pending) -> None:
        """Wait until the other side has read enough, or the request ended before it was sent."""
        with in_background(self._writer.drained()) as drained:
            await asyncio.wait((drained, pending.future), return_when=asyncio.FIRST_COMPLETED)
        if pending.future.done() or self._writer.is_closed:
            try:
                await pending.future  # fails with the reason soon after the connection ended
            except Fault as fault:
                pending.delivery.was_sent = isinstance(fault, CallTimeout)
                raise

    # -- the other side's requests and notifications

    def _handle_notification(self, method: str, params: dict[str, Raw], owner: object, size: int) -> None:
        if method == PROGRESS:
            self._handle_progress(params, size)
        elif method == CANCELLED:
            self._handle_cancellation(params)
        elif self._passes(method, size):
            try:
                self._handler.notification(method, params, owner)
            except Exception as error:  # noqa: BLE001 -- later messages of the same read must not be lost
                logger.error("a notification failed inside the workbench", method=method, error=repr(error))

    def _handle_progress(self, params: dict[str, Raw], size: int) -> None:
        """Handle progress of our request: restart its idle deadline and notify its caller."""
        token = jsonrpc.id_or_none(params.get("progressToken"))
        pending = self._pending.get(token) if isinstance(token, int) else None
        if pending is None or pending.future.done():
            return
        pending.quiet_since = self._loop.time()
        if pending.on_progress is not None and self._passes(PROGRESS, size):
            pending.on_progress(params)

    def _handle_cancellation(self, params: dict[str, Raw]) -> None:
        """Cancel a request of the other side, unless it has ended."""
        id_ = jsonrpc.id_or_none(params.get("requestId"))
        if id_ is not None and (task := self._inbound.pop(id_, None)) is not None:
            # Free the id here: a task that never started does not clean up.
            task.cancel("the client cancelled it")

    def _handle_request(
        self, message: Message, method: str, size: int, owner: object, batch: BatchResponse | None
    ) -> None:
        id_: Any = message.id
        params = message.params
        out = self._writer if batch is None else batch
        if self._writer.congested and not self._answers_always:
            self.strays += 1
        elif id_ is None:
            problem = RpcError(jsonrpc.INVALID_REQUEST, "A request's id must be a string or a whole number")
            out.write(Envelope(problem))
        elif id_ in self._inbound:
            problem = RpcError(jsonrpc.INVALID_REQUEST, "A request with this id is still being answered")
            out.write(Envelope(problem, id_, about=id_))
        elif (refusal := self._admit(len(self._inbound), method, params)) is not None:
            out.write(Envelope(refusal, id_, about=id_))
        elif self._fault is None:
            line = PeerRequest(self, id_ if batch is None else batch.about, owner)
            task = self._inbound[id_] = self._loop.create_task(self._answer(id_, method, params, line, out))
            held = size if size > MEMORY_SMALL_BYTES else 0
            if held or batch is not None:  # most requests need no callback
                self._account.reserve(held)
                task.add_done_callback(lambda task: self._handled(task, held, batch))
            if batch is not None:
                batch.wait_for(task, id_)
                self._batched.add(task)

    def _handled(self, task: asyncio.Task[None], held: int, batch: BatchResponse | None) -> None:
        """Clean up after a request, even if its task was cancelled before its first step."""
        self._account.release(held)
        if batch is not None:
            self._batched.discard(task)
            batch.ended(task)

    async def _answer(
        self, id_: Id, method: str, params: dict[str, Raw], line: PeerRequest, out: Writer | BatchResponse
    ) -> None:
        try:
            result = await self._handler.request(method, params, line)
            out.write(Envelope(result, id_, about=id_))
        except RpcError as error:
            out.write(Envelope(error, id_, about=id_))
        except asyncio.CancelledError:
            # The protocol gives a cancelled request no answer, and nobody awaits this task.
            return
        except Exception as error:  # noqa: BLE001 -- a defect of ours must not end the connection
            logger.error("a request failed inside the workbench", method=method, error=repr(error))
            internal = RpcError(jsonrpc.INTERNAL_ERROR, "Internal error")
            out.write(Envelope(internal, id_, about=id_))
        finally:
            if self._inbound.get(id_) is asyncio.current_task():
                del self._inbound[id_]


class PeerRequest(msgspec.Struct, eq=False):
    """An open request of the other side."""

    peer: Peer
    request_id: Id | None
    owner: object = None
    """See `Peer.receive`."""

    def notify(self, method: str, params: Params) -> None:
        # Notifications that are soon outdated must not pile up for a client that does not read.
        self.peer.notify(method, params, self.request_id, may_drop=method not in _NEVER_DROPPED)

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        return await self.peer.request(method, params, on_progress, about=self.request_id)

    def adjourn(self) -> None:
        if self.request_id is not None:
            self.peer.adjourn(self.request_id)
