"""Whether a server that says nothing still lives.

A call that ended without a word of its server is the occasion; the server is asked something that it can
answer at once, and given up where it stays silent. One that waits for a client is not asked.
"""

from __future__ import annotations

import asyncio
import contextlib

from mcp_workbench.errors import Fault, Unresponsive
from mcp_workbench.limits import Limits
from mcp_workbench.servers.connection import Connection
from mcp_workbench.wire.caller import Caller


class Liveness:
    """The checks of one server's connections."""

    def __init__(self, caller: Caller, limits: Limits) -> None:
        self._caller = caller
        self._limits = limits
        self._checks: dict[Connection, asyncio.Task[None]] = {}

    def suspect(self, connection: Connection, silent_seconds: float) -> None:
        """A call ended, and the server has said nothing at all since it began, so long ago.

        One that was cancelled early says little: a busy server may be silent for as long as a call may.
        """
        channel = connection.channel
        if connection in self._checks or channel.peer.is_held or channel.ended.done():
            return
        limits = self._limits
        seconds = max(limits.alive_seconds, limits.call_idle_timeout_seconds - silent_seconds)
        check = asyncio.get_running_loop().create_task(self._check(connection, seconds))
        self._checks[connection] = check
        check.add_done_callback(lambda _: self._checks.pop(connection, None))

    def close(self) -> None:
        """No more checks."""
        for check in self._checks.values():
            check.cancel()

    async def _check(self, connection: Connection, seconds: float) -> None:
        """Any word of it will do, even a refusal."""
        channel = connection.channel
        before = channel.peer.heard_at
        method = "server/discover" if connection.agreement.modern else "ping"
        with contextlib.suppress(Fault):
            await connection.request(method, {}, caller=self._caller, hard_seconds=seconds)
        if channel.peer.heard_at == before and not channel.peer.is_held and not channel.ended.done():
            channel.give_up(Unresponsive(f"it said nothing for {seconds:.0f} s, not even to a {method}"))
