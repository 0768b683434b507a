"""Cache of one list of one server (its tools, prompts, resources, templates or skills) that keeps itself current.

    unknown → remembered ⇄ current → refreshing → current
                  any → lost → current

Concurrent requests for the list share one listing. A list from the present connection is current until the server
announces a change or its time to live has passed. Without a connection the remembered list is used, and revalidated if
it is old: that may start the server, which is stopped again if nobody else needs it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Final, Generic, Literal, NamedTuple, TypeVar

from mcp_workbench import logger
from mcp_workbench.catalog.snapshot import ServerSnapshot
from mcp_workbench.errors import Fault, StillStarting
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.supervisor import Supervisor
from mcp_workbench.wire.background import BackgroundTasks

T = TypeVar("T")
_RECHECK_PAUSE: Final = 10
"""The pause after a recheck, as a multiple of its duration: rechecks take at most a tenth of a server's time."""


State = Literal["unknown", "remembered", "refreshing", "current", "lost"]
"""unknown: never listed. remembered: from the store or an earlier connection. current: from this connection.
refreshing: from this connection, but stale. lost: the server can't be reached."""


class Fetched(NamedTuple, Generic[T]):
    """A fetched list."""

    value: T
    ttl_seconds: float | None
    """How long it stays fresh; None means until the server announces a change."""


class ListCache(Generic[T]):
    """The last version of a list, and the means to list again."""

    def __init__(
        self,
        label: ServerIdentifier,
        supervisor: Supervisor,
        connect: Callable[[], Awaitable[Connection]],
        read: Callable[[Connection], Awaitable[Fetched[T]]],
        limits: Limits,
        *,
        kept: ServerSnapshot[T],
        listed: Callable[[T | None, bool], None],
        recall: Callable[[], bool | None],
        turn: asyncio.Semaphore,
    ) -> None:
        """`read` lists on a connection; `connect` returns one, or raises the `Fault` that prevents it.

        `kept` holds the list. `listed` is called after each listing with the previous list and whether it changed.
        `recall` loads the remembered list and returns whether it is current, or None if it must not be used. `turn`
        limits how many servers are started only to revalidate a list.
        """
        self.kept = kept
        self._label = label
        self._supervisor = supervisor
        self._connect = connect
        self._read = read
        self._limits = limits
        self._listed = listed
        self._recall = recall
        self._turn = turn
        self._checking: asyncio.Task[None] | None = None
        self._is_used = False
        self._listings = BackgroundTasks()
        self._listing: asyncio.Task[T] | None = None
        self._relisting: asyncio.Task[None] | None = None
        self._rechecking: asyncio.Task[None] | None = None
        self._rechecked_at = -math.inf
        self._listed_at = 0.0
        self._listing_seconds = 0.0
        self._expires_at = math.inf
        self._completed_before = 0
        """How many client requests the server had completed when the listing began."""
        self._tried_on: Connection | None = None
        self._listed_on: Connection | None = None
        self.is_outdated = False
        self._is_replacing = False
        """Whether the listing under way replaces a stale list."""

    async def get(self, seconds: float | None = None) -> T:
        """The list. Starts the server and lists if needed.

        While the server does not run, the remembered list is returned, and revalidated in the background if it is old.
        Otherwise a first listing may take `seconds`, and a newer one `refresh_wait_seconds`; if that is not enough, or
        fails, the list of this connection is returned. Raises the `Fault` that prevented the listing, or
        `StillStarting` while the start goes on.
        """
        known = self.get_now()
        return known if known is not None else await self._get(seconds)

    def get_now(self) -> T | None:
        """The list if it is known without waiting: the current one, or the remembered one of a stopped server."""
        self._supervisor.touch()
        if self.state == "current":
            return self.kept.value
        return self._remembered() if self._supervisor.current is None else None

    async def fresh(self) -> T:
        """The list as the server has it now. Starts the server if needed. Raises the `Fault` that prevented it."""
        is_recent = asyncio.get_running_loop().time() - self._listed_at < self._limits.relist_interval_seconds
        if self.is_live and is_recent and (known := self.kept.value) is not None:
            return known
        return await asyncio.shield(self._list_once())

    async def recheck(self) -> None:
        """List again on a running server, for a caller who did not find a name in the list.

        Concurrent callers share one listing. The next one follows after a multiple of its duration, at most after
        `relist_interval_seconds`. If the server has completed no request since the last listing, the list is still
        valid.
        A listing that is already under way may be too old: another one follows if the server has completed a request
        since. Each wait ends after `refresh_wait_seconds`.
        """
        loop = asyncio.get_running_loop()
        asked_at = loop.time()
        for _ in range(2):
            if self._listing is not None and self._is_listing:
                await asyncio.wait((self._listing,), timeout=self._limits.refresh_wait_seconds)
            if self._supervisor.current is None or self._is_just_listed or self._listed_at >= asked_at:
                return
            if self._rechecking is None or self._rechecking.done():
                self._rechecking = loop.create_task(self._recheck())
            await asyncio.wait((self._rechecking,))

    async def _get(self, seconds: float | None) -> T:
        listing = self._list_once()
        patience = seconds if self._fallback() is None else self._limits.refresh_wait_seconds
        await asyncio.wait((listing,), timeout=patience)
        if listing.done() and listing.exception() is None:
            return listing.result()
        if (known := self._fallback()) is not None:
            return known
        if not listing.done():
            raise StillStarting("still starting")
        return listing.result()

    @property
    def state(self) -> State:
        if self.kept.value is None:
            return "unknown"
        if self.kept.is_lost:
            return "lost"
        if not self.is_live:
            return "remembered"
        return "refreshing" if self.is_stale or self._is_replacing else "current"

    @property
    def is_live(self) -> bool:
        """Whether the list is from the present connection."""
        current = self._supervisor.current
        return current is not None and self._listed_on is current

    @property
    def is_stale(self) -> bool:
        """Whether the list must be fetched again before it counts as current."""
        return self.is_outdated or asyncio.get_running_loop().time() >= self._expires_at

    @property
    def is_remembered(self) -> bool:
        """Whether the list is only from the store."""
        return self._is_used and self._listed_on is None

    @property
    def was_tried(self) -> bool:
        """Whether a listing was tried on the present connection, with or without success."""
        current = self._supervisor.current
        return current is not None and self._tried_on is current

    @property
    def is_in_use(self) -> bool:
        """Whether the list was used or is being fetched."""
        return self._is_used or self._is_listing

    @property
    def _is_listing(self) -> bool:
        return self._listing is not None and not self._listing.done()

    def invalidate(self) -> None:
        """Mark the list as changed and list again, at most once per `relist_interval_seconds`."""
        self.is_outdated = True
        if self._relisting is None or self._relisting.done():
            self._relisting = asyncio.get_running_loop().create_task(self._relist())

    def close(self) -> None:
        """Stop refreshing. A listing under way fails when the connection ends."""
        for task in (self._relisting, self._rechecking, self._checking):
            if task is not None:
                task.cancel()

    # -- the remembered list

    def _fallback(self) -> T | None:
        """The list to use if a new one does not arrive."""
        is_shown = self.is_live or (self.is_remembered and self._supervisor.current is not None)
        return self.kept.value if is_shown else None

    def _remembered(self) -> T | None:
        """The remembered list, if it may be used. An old one is revalidated in the background."""
        if (is_current := self._recall()) is None:
            return None
        if not is_current and (self._checking is None or self._checking.done()):
            self._checking = asyncio.get_running_loop().create_task(self._check())
        self._is_used = True
        return self.kept.value

    async def _check(self) -> None:
        """List, and stop the server again if it was started only for this."""
        async with self._turn:
            listing = self._list_once()
            await asyncio.wait((listing,))
        if not listing.cancelled() and (fault := listing.exception()) is not None:
            logger.info("a cached list could not be revalidated", server=self._label, reason=str(fault))
        self._supervisor.stop_when_idle()

    # -- listing

    def _list_once(self) -> asyncio.Task[T]:
        """The listing under way, or a new one."""
        if self._listing is None or not self._is_listing:
            self._listing = self._listings.start(self._list())
        return self._listing

    async def _list(self) -> T:
        with self._supervisor.in_use():
            return await self._list_now()

    async def _list_now(self) -> T:
        connection = self._tried_on = await self._connect()
        self._listed_at = asyncio.get_running_loop().time()
        self._completed_before = self._supervisor.done
        self._is_replacing = self.is_stale
        self.is_outdated = False  # later changes are not in this listing
        try:
            fetched = await self._read(connection)
        except Fault:
            self.is_outdated = True
            raise
        finally:
            self._is_replacing = False
        self._listing_seconds = asyncio.get_running_loop().time() - self._listed_at
        self._is_used = True
        self._listed_on = connection
        self._expires_at = math.inf
        if fetched.ttl_seconds is not None:
            self._expires_at = self._listed_at + max(fetched.ttl_seconds, self._limits.relist_interval_seconds)
        before = self.kept.value
        self._listed(before, self.kept.put(fetched.value))
        return self.kept.value or fetched.value

    @property
    def _is_just_listed(self) -> bool:
        """Whether the list is recent and the server has completed no request since."""
        if not self.is_live or self._is_listing or self._supervisor.done != self._completed_before:
            return False
        return asyncio.get_running_loop().time() - self._listed_at < self._pause_seconds

    @property
    def _pause_seconds(self) -> float:
        """How long unknown names cause no new listing."""
        return min(self._limits.relist_interval_seconds, _RECHECK_PAUSE * self._listing_seconds)

    async def _recheck(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._rechecked_at + self._pause_seconds - loop.time()))
        if self._supervisor.current is None:
            return
        self._rechecked_at = loop.time()
        await asyncio.wait((self._list_once(),), timeout=self._limits.refresh_wait_seconds)

    async def _relist(self) -> None:
        """List until the list is current or the connection is gone; then the next use lists."""
        loop = asyncio.get_running_loop()
        while self.is_outdated:
            await asyncio.sleep(max(0.0, self._listed_at + self._limits.relist_interval_seconds - loop.time()))
            if self._supervisor.current is None or not self.is_outdated:
                return
            listing = self._list_once()
            await asyncio.wait((listing,))
            if listing.cancelled() or listing.exception() is not None:
                logger.warning("a changed list could not be read", server=self._label)
                return
