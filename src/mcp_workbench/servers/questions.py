"""The questions that a handshake server asks, and the calls of its client that they belong to.

Over HTTP a question comes on the response stream of its call. On stdio a server does not say which call its question
belongs to. A handshake client need not know: it gets the question as a request. A modern client gets the question as
the answer to one of its calls. That must be the right call, so calls take turns (`CallTurns`). A question between calls
goes to the next call.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Coroutine, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from msgspec import Raw

from mcp_workbench.errors import InputUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel
from mcp_workbench.servers.call_slots import CallTurns, Slots
from mcp_workbench.wire.background import BackgroundTasks, in_background
from mcp_workbench.wire.exchange import Exchange, Withdrawn
from mcp_workbench.wire.jsonrpc import Params

T = TypeVar("T")
Posed: TypeAlias = tuple[Exchange, asyncio.Future[Raw]]
"""The call that a question was put to, and its client's answer."""


class _Waiting(NamedTuple):
    """A question that waits for a call to put it to."""

    method: str
    params: Params
    posed: asyncio.Future[Posed]
    task: asyncio.Task[Any] | None
    """The task that will answer the server."""


class Questions:
    """The running calls of one connection, and the questions that the server asks meanwhile."""

    def __init__(self, channel: Channel, slots: Slots, limits: Limits, *, takes_turns: bool = False) -> None:
        """Each call holds one of `slots`. With `takes_turns`, calls that take questions run one at a time."""
        self.takes_turns = takes_turns
        self._channel = channel
        self._slots = slots
        self._limits = limits
        self._turns = CallTurns(limits) if takes_turns else None
        self._tasks = BackgroundTasks()
        self._asking: dict[asyncio.Task[Any], Exchange] = {}
        self._background: set[asyncio.Task[Any]] = set()
        self._waiting: list[_Waiting] = []
        self.settled_at = 0.0
        """Until when the server may still be processing an answer to a question that it asked between calls."""
        self._lent: set[Exchange] = set()
        self.calls: dict[Exchange, None] = {}
        """The calls that the server is working on, in order."""

    # -- calls

    async def turn(self, call: Exchange) -> None:
        """Wait until the call may start. Raises `Overloaded`."""
        if self._turns is not None and call.may_ask:
            await self._turns.take(call)

    def begin(self, call: Exchange) -> Sequence[asyncio.Task[Any]]:
        """Register a call, and put the waiting questions to it if it takes questions.

        Returns the tasks that will answer what the server asked between calls.
        """
        self.calls[call] = None
        if not (self._waiting and call.may_ask):
            return tuple(self._background)
        tasks: list[asyncio.Task[Any]] = []
        for waiting in self._waiting:
            if not waiting.posed.done():
                waiting.posed.set_result((call, call.pose(waiting.method, waiting.params)))
                tasks += [waiting.task] if waiting.task is not None else []
        return tasks

    def call_of(self, owner: object, among: Iterable[Exchange] | None = None) -> Exchange | None:
        """The call under way that a message belongs to; None if unknown. For `owner` see `Inbound`.

        If the wire does not tell and only one call is possible, it is that one.
        """
        calls = tuple(self.calls if among is None else among)
        if owner is not None:
            return next((call for call in calls if call is owner), None)
        return calls[0] if len(calls) == 1 else None

    async def settle(self, call: Exchange, answering: Sequence[asyncio.Task[Any]]) -> None:
        """Wait until the server has its answers before it gets the call: it may need them, for example the roots.

        A modern client answers with this very call. For a handshake client the wait is short and happens once.
        """
        if answering:
            self._background.difference_update(answering)
            await asyncio.wait(answering, timeout=None if call.caller.modern else self._limits.turn_seconds)
        await asyncio.sleep(max(0.0, self.settled_at - asyncio.get_running_loop().time()))

    def end(self, call: Exchange) -> None:
        """Remove a call that ended."""
        del self.calls[call]
        if self._turns is not None:
            self._turns.leave(call)

    def withdraw(self, call: Exchange) -> None:
        """Cancel the questions of a call that was cancelled."""
        for question, asking in tuple(self._asking.items()):
            if asking is call:
                question.cancel()

    # -- questions

    async def ask(self, call: Exchange | None, question: Coroutine[Any, Any, T]) -> T:
        """Ask a client. Raises `Withdrawn` if the call that the question belongs to is cancelled.

        Meanwhile the server waits, so idle timeouts stop: for that call, or for all calls if the call is unknown.
        """
        task = self._tasks.start(question)
        if call is not None:
            self._asking[task] = call
        answering = asyncio.current_task()
        is_background = call is None and not self.calls
        if is_background and answering is not None:
            self._background.add(answering)
        try:
            with self._channel.peer.pause_deadlines(call), self._lending(call, task):
                await asyncio.wait((task,))
            if task.cancelled():
                raise Withdrawn
            return task.result()
        finally:
            if is_background:
                self._settle_later()
                asyncio.get_running_loop().call_soon(self._background.discard, answering)
            self._asking.pop(task, None)
            task.cancel()

    async def put(self, method: str, params: Params, owner: object = None) -> Raw:
        """Ask a modern client, in answer to one of its calls: one that runs now, or else its next one.

        For `owner` see `Inbound`. Raises `InputUnavailable` if `owner` is a call that takes no more questions.
        """
        after: Exchange | None = None
        while True:
            if isinstance(owner, Exchange) and (owner is after or owner not in self.calls or not owner.may_ask):
                raise InputUnavailable("the call that the question belongs to takes no more questions")
            now = self._call_for(owner, but=after)
            after, answer = (
                (now, now.pose(method, params)) if now is not None else await self._pose_later(method, params)
            )
            try:
                return await self.wait(after, answer)
            except Withdrawn:
                continue  # the call ended first: try another one
            finally:
                answer.cancel()
                if now is None:
                    self._settle_later()

    async def wait(self, call: Exchange, answer: Awaitable[T]) -> T:
        """Wait for a modern client's answer. If it takes long, the client's other calls get their turn."""
        if self._turns is not None:
            self._turns.claim(call)
        with in_background(self.ask(call, _wait(answer))) as asking:
            await asyncio.wait((asking,), timeout=self._limits.turn_seconds)
            if not asking.done() and self._turns is not None:
                self._turns.release(call)
                await asyncio.wait((asking,))
                if call in self.calls and asking.exception() is None:
                    await self._turns.take(call, again=True)
            return asking.result()

    def _call_for(self, owner: object, *, but: Exchange | None) -> Exchange | None:
        """The call under way that a question goes to: the one it belongs to, else the one whose turn it is."""
        calls = [call for call in self.calls if call.may_ask and call is not but]
        if not calls:
            return None
        holder = self._turns.holder if self._turns is not None else None
        return self.call_of(owner, calls) or (holder if holder is not None and holder in calls else calls[0])

    async def _pose_later(self, method: str, params: Params) -> Posed:
        """Put a question to the next call."""
        waiting = _Waiting(method, params, asyncio.get_running_loop().create_future(), asyncio.current_task())
        self._waiting.append(waiting)
        try:
            return await waiting.posed
        except asyncio.CancelledError:
            if waiting.posed.done() and not waiting.posed.cancelled():
                waiting.posed.result()[1].cancel()  # it was just put to a call: withdraw it
            raise
        finally:
            self._waiting.remove(waiting)

    def _settle_later(self) -> None:
        self.settled_at = asyncio.get_running_loop().time() + self._limits.settle_seconds

    @contextlib.contextmanager
    def _lending(self, call: Exchange | None, question: asyncio.Task[Any]) -> Generator[None]:
        """Release the call's slot while its client takes long to answer: the server only waits then."""
        if call is None:
            yield
            return
        lent: list[Exchange] = []

        def lend() -> None:
            if not question.done() and call not in self._lent:
                lent.append(call)
                self._lent.add(call)
                self._slots.release()

        timer = asyncio.get_running_loop().call_later(self._limits.turn_seconds, lend)
        try:
            yield
        finally:
            timer.cancel()
            if lent:
                self._lent.discard(call)
                self._slots.reclaim()


async def _wait(answer: Awaitable[T]) -> T:
    return await answer
