"""How a configured server has been doing, and when it may be started next.

It belongs to the server, not to a connection: every client's starts count. A failed start is followed by
a pause that doubles; too many failures in a row by a rest, after which one start is tried. A server is
never given up, and one answered request makes it well. It starts nothing and keeps no timer.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import Literal

from mcp_workbench.errors import Fault, ServerResting, Unresponsive
from mcp_workbench.limits import Limits
from mcp_workbench.servers.connection import Connection
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.caller import Caller

BACKOFF_JITTER = 0.2
"""It is longer or shorter by up to this part, so that servers that failed together do not start together."""


def chance() -> float:
    """A random number from 0 up to 1, without the cost of loading `random`."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Health:
    """Failures in a row, and what follows from them."""

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = chance,
        changed: Callable[[Fault | None], None] = lambda _fault: None,
    ) -> None:
        """`changed` is told whenever a connection to the server is made, lost or fails, and why."""
        self.changed = changed
        self._limits = limits
        self._clock = clock
        self._chance = chance
        self._last: Fault | None = None
        self._next_start = 0.0
        self._tries = 0
        self.failures = 0
        """Failures of connections since a request was answered."""

    @property
    def state(self) -> Literal["idle", "failing", "resting"]:
        """How a server that does not run is doing."""
        if not self.failures:
            return "idle"
        return "resting" if self._is_exhausted else "failing"

    def pause(self) -> float:
        """Seconds until the server may be started. Raises `ServerResting` if that is longer than a caller waits."""
        if self._last is None:
            return 0.0
        seconds = self._next_start - self._clock()
        if self._is_exhausted and self._tries:
            # One try decides for all; how long it takes is not known.
            seconds = max(seconds, self._limits.backoff_first_seconds)
            raise ServerResting(self.failures, self._last, seconds)
        if seconds > self._limits.backoff_patience_seconds or (seconds > 0 and self._is_exhausted):
            raise ServerResting(self.failures, self._last, seconds)
        return max(0.0, seconds)

    def trying(self) -> None:
        """A start begins; `tried` follows."""
        self._tries += 1

    def tried(self) -> None:
        """A start is over."""
        self._tries -= 1

    def failed(self, fault: Fault, *, was_ready: bool) -> None:
        """A connection could not be made, or was lost. The first one that is lost is replaced at once."""
        self.failures += 1
        self._last = fault
        self._next_start = self._clock() + self._delay(was_ready=was_ready)

    def succeeded(self) -> None:
        """The server answered a request."""
        self.failures = 0
        self._last = None

    @property
    def _is_exhausted(self) -> bool:
        return self.failures >= self._limits.breaker_failures

    def _delay(self, *, was_ready: bool) -> float:
        limits = self._limits
        if self._is_exhausted:
            rests = self.failures - limits.breaker_failures + 1
            return min(limits.rest_seconds * rests, limits.rest_most_seconds)
        if was_ready and self.failures == 1:
            return 0.0
        delay = min(limits.backoff_first_seconds * 2 ** (self.failures - 1), limits.backoff_most_seconds)
        return delay * (1 + BACKOFF_JITTER * (2 * self._chance() - 1))


class Liveness:
    """The checks of one server's connections."""

    def __init__(self, caller: Caller, limits: Limits) -> None:
        self._caller = caller
        self._limits = limits
        self._checks = BackgroundTasks()
        self._checked: set[Connection] = set()

    def suspect(self, connection: Connection, silent_seconds: float) -> None:
        """A call ended, and the server has said nothing at all since it began, so long ago.

        One that was cancelled early says little: a busy server may be silent for as long as a call may.
        """
        channel = connection.channel
        if connection in self._checked or channel.peer.has_paused_deadlines or channel.ended.done():
            return
        limits = self._limits
        seconds = max(limits.alive_seconds, limits.call_idle_timeout_seconds - silent_seconds)
        self._checked.add(connection)
        self._checks.start(self._check(connection, seconds))

    def close(self) -> None:
        """No more checks."""
        self._checks.cancel()

    async def _check(self, connection: Connection, seconds: float) -> None:
        """Any word of it will do, even a refusal."""
        channel = connection.channel
        before = channel.peer.received_at
        method = "server/discover" if connection.agreement.modern else "ping"
        with contextlib.suppress(Fault):
            await connection.request(method, {}, caller=self._caller, hard_seconds=seconds)
        self._checked.discard(connection)
        if channel.peer.received_at == before and not channel.peer.has_paused_deadlines and not channel.ended.done():
            channel.give_up(Unresponsive(f"it said nothing for {seconds:.0f} s, not even to a {method}"))
