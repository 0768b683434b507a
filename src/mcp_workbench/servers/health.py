"""Health of a server: a circuit breaker for its starts, and liveness checks of its connections.

`Health` belongs to the configured server, not to a connection: the starts of every client count. After a failed start
comes a pause that doubles each time. After too many failures in a row the server rests, and then one start decides. The
workbench never gives a server up, and one answered request resets its health. `Health` starts nothing and keeps no
timer.

`Liveness` checks a server that was silent during a call. It sends a request that any server can answer at once, and
ends the connection if there is no answer. It does not check a server that waits for its client.
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
"""The share by which a pause varies, so that servers that failed together do not restart together."""


def chance() -> float:
    """A random number from 0 up to 1, without the cost of loading `random`."""
    return int.from_bytes(os.urandom(4)) / 2**32


class Health:
    """Counts failures in a row and decides when the next start is allowed."""

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        chance: Callable[[], float] = chance,
        changed: Callable[[Fault | None], None] = lambda _fault: None,
    ) -> None:
        """`changed` is called whenever a connection is opened, lost or fails, with the fault if there is one."""
        self.changed = changed
        self._limits = limits
        self._clock = clock
        self._chance = chance
        self._last: Fault | None = None
        self._next_start = 0.0
        self._tries = 0
        self.failures = 0
        """Failed connections since the last answered request."""

    @property
    def state(self) -> Literal["idle", "failing", "resting"]:
        """The state of a server that is not running."""
        if not self.failures:
            return "idle"
        return "resting" if self._is_exhausted else "failing"

    def pause(self) -> float:
        """Seconds until the server may be started. Raises `ServerResting` if that is longer than a caller waits."""
        if self._last is None:
            return 0.0
        seconds = self._next_start - self._clock()
        if self._is_exhausted and self._tries:
            # One attempt decides for all callers, and nobody knows how long it takes.
            seconds = max(seconds, self._limits.backoff_first_seconds)
            raise ServerResting(self.failures, self._last, seconds)
        if seconds > self._limits.backoff_patience_seconds or (seconds > 0 and self._is_exhausted):
            raise ServerResting(self.failures, self._last, seconds)
        return max(0.0, seconds)

    def trying(self) -> None:
        """A start begins. `tried` must follow."""
        self._tries += 1

    def tried(self) -> None:
        """A start ended."""
        self._tries -= 1

    def failed(self, fault: Fault, *, was_ready: bool) -> None:
        """A connection failed or was lost. The first lost connection is replaced without a pause."""
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
    """Checks whether the silent connections of one server are alive."""

    def __init__(self, caller: Caller, limits: Limits) -> None:
        self._caller = caller
        self._limits = limits
        self._checks = BackgroundTasks()
        self._checked: set[Connection] = set()

    def suspect(self, connection: Connection, silent_seconds: float) -> None:
        """Check a connection on which nothing arrived during a call that took `silent_seconds`.

        The check after a short call waits longer: a busy server may be silent for as long as a call may last.
        """
        channel = connection.channel
        if connection in self._checked or channel.peer.has_paused_deadlines or channel.ended.done():
            return
        limits = self._limits
        seconds = max(limits.alive_seconds, limits.call_idle_timeout_seconds - silent_seconds)
        self._checked.add(connection)
        self._checks.start(self._check(connection, seconds))

    def close(self) -> None:
        """Stop all checks."""
        self._checks.cancel()

    async def _check(self, connection: Connection, seconds: float) -> None:
        """End the connection unless something arrives on it. A refusal counts as a sign of life."""
        channel = connection.channel
        before = channel.peer.received_at
        method = "server/discover" if connection.agreement.modern else "ping"
        with contextlib.suppress(Fault):
            await connection.request(method, {}, caller=self._caller, hard_seconds=seconds)
        self._checked.discard(connection)
        if channel.peer.received_at == before and not channel.peer.has_paused_deadlines and not channel.ended.done():
            channel.give_up(Unresponsive(f"it sent nothing for {seconds:.0f} s, not even an answer to {method}"))
