"""What a server shall tell of by itself: lists that change, and the resources and tasks that are watched.

Handshake servers tell of lists unasked, and are asked for each resource. Modern ones are asked with one
long request that names everything; when that changes, a new one replaces it. A server that was started
again is asked again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Final

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import Fault, ServerRefused, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.connection import Connection
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.jsonrpc import METHOD_NOT_FOUND

RESUME_MOST_SECONDS = 60.0
"""The longest such pause, whatever the server says, and what it doubles up to."""

LISTEN: Final = "subscriptions/listen"


class Subscriptions:
    """The subscriptions of one place at one server."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._uris: Counter[str] = Counter()
        self._tasks: Counter[str] = Counter()
        self._running = BackgroundTasks()
        self._listening: asyncio.Task[Any] | None = None
        self._due: Connection | None = None
        self._is_closed = False
        self._acknowledged: Raw | None = None

    def connected(self, connection: Connection) -> None:
        """Ask a new connection for everything that is wanted."""
        self._acknowledged = None
        if connection.agreement.modern:
            self._due = connection
            self._listen_now()  # at once: what the first request changes must be told too
            return
        for uri in self._uris:
            self._in_background(connection, "resources/subscribe", {"uri": uri})

    @property
    def is_used(self) -> bool:
        """Whether a client watches something."""
        return bool(self._uris or self._tasks)

    def hears(self, method: str, params: dict[str, Raw]) -> bool:
        """Whether a server's notification is news: not of a subscription that another one has replaced."""
        tag = jsonrpc.members(params.get("_meta")).get(eras.SUBSCRIPTION_ID)
        if method == eras.ACKNOWLEDGED:
            self._acknowledged = tag
            return False
        return tag is None or self._acknowledged is None or bytes(tag) == bytes(self._acknowledged)

    async def subscribe(self, connection: Connection, uri: str) -> None:
        """Hear of changes of a resource. Raises a handshake server's refusal; a modern one does not say."""
        if not connection.agreement.declares("resources", "subscribe"):
            raise ServerRefused("The server of this resource has no subscriptions", rpc_code=METHOD_NOT_FOUND)
        self._uris[uri] += 1
        if self._uris[uri] > 1:
            return
        try:
            if connection.agreement.modern:
                self._listen(connection)
            else:
                seconds = self._limits.list_page_timeout_seconds
                await connection.request("resources/subscribe", {"uri": uri}, hard_seconds=seconds)
        except BaseException:
            _decrement(self._uris, uri)
            raise

    def unsubscribe(self, connection: Connection | None, uri: str) -> None:
        """No longer. The last one to leave tells the server."""
        if not _decrement(self._uris, uri) or connection is None:
            return
        if connection.agreement.modern:
            self._listen(connection)
        else:
            self._in_background(connection, "resources/unsubscribe", {"uri": uri})

    def watch_task(self, connection: Connection, task: str) -> None:
        """Hear of a modern task's progress."""
        self._tasks[task] += 1
        if self._tasks[task] == 1:
            self._listen(connection)

    def unwatch_task(self, connection: Connection | None, task: str) -> None:
        if _decrement(self._tasks, task) and connection is not None:
            self._listen(connection)

    def watches(self, uri: str) -> bool:
        """Whether a client watches this resource."""
        return uri in self._uris

    def take_over(self, other: Subscriptions) -> None:
        """Watch the resources that were watched there; tasks ended with their server."""
        self._uris |= other._uris

    def close(self) -> None:
        self._is_closed = True
        if self._listening is not None:
            self._listening.cancel()

    def _listen(self, connection: Connection) -> None:
        """Soon, and once for many changes: one request for all that is wanted, in place of the one before."""
        if not connection.agreement.modern:
            return
        if self._due is None:
            asyncio.get_running_loop().call_soon(self._listen_now)
        self._due = connection

    def _listen_now(self) -> None:
        connection, self._due = self._due, None
        if connection is None or self._is_closed or connection.channel.ended.done():
            return
        wanted: dict[str, Any] = {
            f"{kind}ListChanged": True
            for kind in ("tools", "prompts", "resources")
            if connection.agreement.declares(kind, "listChanged")
        }
        if self._uris:
            wanted["resourceSubscriptions"] = list(self._uris)
        if self._tasks:
            wanted["taskIds"] = list(self._tasks)
        before, self._listening = self._listening, None
        if wanted:
            self._listening = self._running.start(self._keep_listening(connection, wanted))
        if before is not None:
            # After the new one has been sent: nothing is missed in between.
            asyncio.get_running_loop().call_soon(before.cancel)

    async def _keep_listening(self, connection: Connection, wanted: dict[str, Any]) -> None:
        """A server that ends a subscription politely is asked again, and over HTTP one whose stream broke off.

        One that refuses it is not.
        """
        pause = self._limits.relist_interval_seconds
        while not connection.channel.ended.done():
            try:
                await connection.request(LISTEN, {"notifications": wanted})
                pause = self._limits.relist_interval_seconds
            except ServerUnavailable:
                pause = min(pause * 2, RESUME_MOST_SECONDS)
            except Fault as fault:
                logger.debug("a server was not asked to tell of something", method=LISTEN, code=fault.code)
                return
            await asyncio.sleep(pause)

    def _in_background(self, connection: Connection, method: str, params: dict[str, Any]) -> None:
        self._running.start(self._request_quietly(connection, method, params))

    async def _request_quietly(self, connection: Connection, method: str, params: dict[str, Any]) -> None:
        """A refusal does no harm, and the end of the connection is reported elsewhere."""
        try:
            await connection.request(method, params, hard_seconds=self._limits.list_page_timeout_seconds)
        except Fault as fault:
            logger.debug("a server was not asked to tell of something", method=method, code=fault.code)


def _decrement(counts: Counter[str], key: str) -> bool:
    """Whether that was the last one."""
    if not counts[key]:
        return False
    counts[key] -= 1
    if is_last := not counts[key]:
        del counts[key]
    return is_last
