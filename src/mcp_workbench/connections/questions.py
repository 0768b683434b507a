"""The questions that a handshake server asks, and the calls of its client that they belong to.

On stdio such a server does not say which call it asks for. A handshake client need not know: it is asked
as the server would ask it. A modern client is asked by answering one of its calls, so it has to be the
right one: where several are under way the others get a moment to end, since the one that asks can't; and
from the first question of a server on, calls take turns. A question between calls is put to the next.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator
from typing import Any, NamedTuple, TypeAlias

from msgspec import Raw

from mcp_workbench.connections.base import Channel
from mcp_workbench.connections.slots import Slots
from mcp_workbench.connections.turns import Turns
from mcp_workbench.limits import Limits
from mcp_workbench.wire.exchange import Exchange, Withdrawn
from mcp_workbench.wire.jsonrpc import Params
from mcp_workbench.wire.tasks import heard

Posed: TypeAlias = tuple[Exchange, asyncio.Future[Raw]]
"""The call that a question was put to, and its client's answer."""


class _Waiting(NamedTuple):
    """A question that no call was there for."""

    method: str
    params: Params
    posed: asyncio.Future[Posed]


class Questions:
    """The calls under way on one connection, and what is asked meanwhile."""

    def __init__(self, channel: Channel, slots: Slots, limits: Limits, *, takes_turns: bool = False) -> None:
        """Calls come with one of `slots`. `takes_turns` where it matters which call a question belongs to."""
        self.takes_turns = takes_turns
        self._channel = channel
        self._slots = slots
        self._limits = limits
        self._turns = Turns(limits) if takes_turns else None
        self._has_asked = False
        self._asking: dict[asyncio.Task[Raw], Exchange] = {}
        self._waiting: list[_Waiting] = []
        self._lent: set[Exchange] = set()
        self._ended: asyncio.Future[None] | None = None
        self.calls: dict[Exchange, None] = {}
        """The calls that the server works on, in order."""

    # -- calls

    async def turn(self, call: Exchange) -> None:
        """Wait until the call may start. Raises `Overloaded`."""
        if self._turns is not None and call.may_ask and self._has_asked:
            await self._turns.take(call)

    def begin(self, call: Exchange) -> None:
        """A call starts; what waited for one is put to it."""
        self.calls[call] = None
        if self._waiting and call.may_ask:
            for waiting in self._waiting:
                if not waiting.posed.done():
                    waiting.posed.set_result((call, call.pose(waiting.method, waiting.params)))

    def end(self, call: Exchange) -> None:
        """It is over."""
        del self.calls[call]
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)
        if self._turns is not None:
            self._turns.leave(call)

    def take_back(self, call: Exchange) -> None:
        """It was cancelled: nobody need answer what it asked."""
        for question, asking in tuple(self._asking.items()):
            if asking is call:
                question.cancel()

    # -- questions

    async def ask(self, call: Exchange | None, question: Coroutine[Any, Any, Raw]) -> Raw:
        """A question to a client. Raises `Withdrawn` when the call that it belongs to is cancelled.

        Meanwhile the server waits, and its silence is not held against that call; against none, where it
        is not known which call it is.
        """
        task = asyncio.ensure_future(question)
        if call is not None:
            self._asking[task] = call
        try:
            with self._channel.held(call), self._lending(call, task):
                await asyncio.wait((task,))
            if task.cancelled():
                raise Withdrawn
            return task.result()
        finally:
            self._asking.pop(task, None)
            task.cancel()
            task.add_done_callback(heard)

    async def put(self, method: str, params: Params) -> Raw:
        """A question to a modern client, in answer to a call of its own, now or when it makes one."""
        after: Exchange | None = None
        while True:
            after, answer = await self._pose(method, params, after)
            try:
                return await self._answered(after, answer)
            except Withdrawn:
                continue  # the call ended first: it was not the one, or it is another one's turn

    async def _answered(self, call: Exchange, answer: asyncio.Future[Raw]) -> Raw:
        """The client's answer. When it takes its time, other calls of it get their turn."""
        if self._turns is not None:
            self._turns.claim(call)
        asking = asyncio.ensure_future(self.ask(call, _wait(answer)))
        try:
            await asyncio.wait((asking,), timeout=self._limits.turn_seconds)
            if not asking.done() and self._turns is not None:
                self._turns.release(call)
                await asyncio.wait((asking,))
                if call in self.calls and asking.exception() is None:
                    await self._turns.take(call, again=True)
            return asking.result()
        finally:
            asking.cancel()
            asking.add_done_callback(heard)

    async def _pose(self, method: str, params: Params, after: Exchange | None) -> Posed:
        """Put a question to the call that it belongs to, else to the next that comes; never to `after`."""
        self._has_asked = True
        loop = asyncio.get_running_loop()
        patience = loop.time() + self._limits.turn_seconds
        while calls := [call for call in self.calls if call.may_ask and call is not after]:
            holder = self._turns.holder if self._turns is not None else None
            left = patience - loop.time()
            if holder in calls or len(calls) == 1 or left <= 0:
                call = holder if holder is not None and holder in calls else calls[0]
                return call, call.pose(method, params)
            await self._next_end(left)
        waiting = _Waiting(method, params, loop.create_future())
        self._waiting.append(waiting)
        try:
            return await waiting.posed
        finally:
            self._waiting.remove(waiting)

    async def _next_end(self, seconds: float) -> None:
        """Wait until a call ends, at most `seconds`."""
        if self._ended is None or self._ended.done():
            self._ended = asyncio.get_running_loop().create_future()
        await asyncio.wait((self._ended,), timeout=seconds)

    @contextlib.contextmanager
    def _lending(self, call: Exchange | None, question: asyncio.Task[Raw]) -> Generator[None]:
        """While a client takes its time the call's slot is for others: its server only waits."""
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


async def _wait(answer: asyncio.Future[Raw]) -> Raw:
    return await answer
