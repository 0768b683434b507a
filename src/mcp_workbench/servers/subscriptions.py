"""Subscriptions at one server: changed lists, and the resources and tasks that clients watch.

A handshake server sends list changes without a request, and takes one request per resource. A modern server takes one
long-running request that names everything; when the set changes, a new request replaces it. A restarted server gets the
requests again.
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
"""The longest pause before a subscription or a stream is reopened: pauses double up to it."""

LISTEN: Final = "subscriptions/listen"


class Subscriptions:
    """The subscriptions at one server, counted, so that several clients can share one."""

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
        """Subscribe to everything on a new connection."""
        self._acknowledged = None
        if connection.agreement.modern:
            self._due = connection
            self._listen_now()  # at once, so that no change by the first request is missed
            return
        for uri in self._uris:
            self._in_background(connection, "resources/subscribe", {"uri": uri})

    @property
    def is_used(self) -> bool:
        """Whether a client watches something."""
        return bool(self._uris or self._tasks)

    def accepts(self, method: str, params: dict[str, Raw]) -> bool:
        """Whether to pass a notification on: not if it belongs to a subscription that was replaced."""
        tag = jsonrpc.members(params.get("_meta")).get(eras.SUBSCRIPTION_ID)
        if method == eras.ACKNOWLEDGED:
            self._acknowledged = tag
            return False
        return tag is None or self._acknowledged is None or bytes(tag) == bytes(self._acknowledged)

    async def subscribe(self, connection: Connection, uri: str) -> None:
        """Subscribe to a resource. Raises the refusal of a handshake server; a modern one does not refuse."""
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
        """End a subscription to a resource. The server is told when nobody is left."""
        if not _decrement(self._uris, uri) or connection is None:
            return
        if connection.agreement.modern:
            self._listen(connection)
        else:
            self._in_background(connection, "resources/unsubscribe", {"uri": uri})

    def watch_task(self, connection: Connection, task: str) -> None:
        """Subscribe to the progress of a modern server's task."""
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
        """Continue the resource subscriptions of a predecessor. Its tasks ended with its server."""
        self._uris |= other._uris

    def close(self) -> None:
        self._is_closed = True
        if self._listening is not None:
            self._listening.cancel()

    def _listen(self, connection: Connection) -> None:
        """Replace the request soon, once for many changes."""
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
            # Only after the new one was sent, so that nothing is missed in between.
            asyncio.get_running_loop().call_soon(before.cancel)

    async def _keep_listening(self, connection: Connection, wanted: dict[str, Any]) -> None:
        """Repeat a subscription when it ends or its HTTP stream breaks off, but not when it is refused."""
        pause = self._limits.relist_interval_seconds
        while not connection.channel.ended.done():
            try:
                await connection.request(LISTEN, {"notifications": wanted})
                pause = self._limits.relist_interval_seconds
            except ServerUnavailable:
                pause = min(pause * 2, RESUME_MOST_SECONDS)
            except Fault as fault:
                logger.debug("a subscription failed", method=LISTEN, code=fault.code)
                return
            await asyncio.sleep(pause)

    def _in_background(self, connection: Connection, method: str, params: dict[str, Any]) -> None:
        self._running.start(self._request_quietly(connection, method, params))

    async def _request_quietly(self, connection: Connection, method: str, params: dict[str, Any]) -> None:
        """Only log a failure: a refusal is harmless, and a lost connection is reported elsewhere."""
        try:
            await connection.request(method, params, hard_seconds=self._limits.list_page_timeout_seconds)
        except Fault as fault:
            logger.debug("a subscription failed", method=method, code=fault.code)


def _decrement(counts: Counter[str], key: str) -> bool:
    """Whether that was the last one."""
    if not counts[key]:
        return False
    counts[key] -= 1
    if is_last := not counts[key]:
        del counts[key]
    return is_last
