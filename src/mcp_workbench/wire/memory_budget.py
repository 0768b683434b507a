"""The memory budget of the process, for everything that waits for a peer.

An `Account` counts the bytes that one client or connection makes the process hold: unread answers, answers that are
being built, requests that are being handled, events kept for a broken stream, and messages that are still arriving.
That costs two integer additions per message. As the total grows, the budget acts at three thresholds:

    refuse   clients that hold more than a fair share get no new calls
    shed     kept events and held notifications are dropped, and the calls of the largest client are cancelled
    close    the connections that hold the most are closed; among similar ones, those that have held it longest

A client whose unread answers exceed its share is paused: the workbench does not read from its servers until the
client reads. So a slow client loses nothing, and one that never reads costs at most its share.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from functools import cache
from typing import Any, Final

from mcp_workbench import logger
from mcp_workbench.limits import Limits

MEMORY_REFUSE_SHARE = 0.6
"""When this share of the rest is held, clients that hold more than a fair share get no new calls."""
MEMORY_SHED_SHARE = 0.75
"""At this share, kept events are dropped and the calls of the largest client are cancelled."""
MEMORY_CLOSE_SHARE = 0.9
"""At this share, the connections that hold the most are closed."""
MEMORY_CLIENT_SHARE = 0.25
"""The share that one client may hold: room for twelve answers of the largest size, so eight unread ones at once are
safe."""
MEMORY_RELIEF = 0.9
"""Each level ends below this share of its threshold, so that it does not flap with every message."""
MEMORY_REVIEW_SECONDS = 0.1
"""How often the accounts are reviewed under pressure. Only a few of the largest messages can arrive in that time."""
MEMORY_SMALL_BYTES = 16 * 1024
"""Requests up to this size are not counted while they are answered. A thousand of them are a fair share."""

CALM, REFUSE, SHED, CLOSE = range(4)
LEVELS: Final = ("calm", "refuse", "shed", "close")
_SIMILAR_SHARE: Final = 0.5
"""An account that holds this share of the largest one may be closed instead of it, if it has held it longer."""
_MIB: Final = 1024 * 1024


class _Unlimited:
    """A budget without limits, for code that runs without a workbench and for ended accounts."""

    def __init__(self) -> None:
        self.held = 0
        self.ceiling = self.share = float("inf")
        self.floor = float("-inf")

    def rise(self) -> None: ...

    def fall(self) -> None: ...


class Account:
    """The bytes that one client or connection makes the process hold."""

    __slots__ = (
        "_budget",
        "_building",
        "_client",
        "_watchers",
        "cancel",
        "close",
        "held",
        "is_paused",
        "kept",
        "label",
        "limit",
        "shed",
        "since",
        "unread",
    )

    def __init__(self, budget: MemoryBudget | _Unlimited | None = None, label: str = "") -> None:
        self._budget = budget or _Unlimited()
        self._client = self
        self._building: asyncio.Lock | None = None
        self._watchers: list[Callable[[bool], None]] = []
        self.label = label
        self.held = 0
        self.unread = 0
        """The bytes that the client has not read."""
        self.kept = 0
        """The bytes that can be dropped under pressure, and so do not count against the client."""
        self.limit = self._budget.share
        self.since = 0.0
        """When it last began to hold anything."""
        self.is_paused = False
        """Whether reading from its servers is paused, because the client does not read."""
        self.shed: Callable[[], None] | None = None
        """Drops the kept bytes."""
        self.cancel: Callable[[], None] | None = None
        """Cancels the client's calls."""
        self.close: Callable[[], None] | None = None
        """Closes the connections that hold the bytes."""

    @property
    def is_full(self) -> bool:
        """Whether a new call of this client is refused."""
        return self.held - self.kept > self.limit

    def reserve(self, size: int) -> None:
        budget = self._budget
        if not self.held:
            self.since = time.monotonic()
        self.held += size
        budget.held += size
        if budget.held > budget.ceiling:
            budget.rise()

    def release(self, size: int) -> None:
        budget = self._budget
        self.held -= size
        budget.held -= size
        if budget.held < budget.floor:
            budget.fall()

    def change(self, size: int) -> None:
        """Reserve bytes, or release them if `size` is negative."""
        self.reserve(size) if size > 0 else self.release(-size)

    def keep(self, size: int) -> None:
        """Count bytes that are kept in case the client reconnects; a negative `size` ends that."""
        self.kept += size
        self.change(size)

    def wrote(self, size: int) -> None:
        """Count bytes that wait for the client to read them."""
        self.unread += size
        self.reserve(size)
        if self.unread > self.limit and not self.is_paused:
            self._pause(True)  # noqa: FBT003 -- a state, not an option

    def was_read(self, size: int) -> None:
        self.unread -= size
        self.release(size)
        if self.is_paused and self.unread <= self.limit:
            self._pause(False)  # noqa: FBT003

    def set_limit(self, limit: float) -> None:
        """Set how much it may hold."""
        self.limit = limit
        if (self.unread > limit) != self.is_paused:
            self._pause(not self.is_paused)

    def watch(self, watcher: Callable[[bool], None]) -> None:
        """Call `watcher` with True when the client is paused, and with False when it resumes."""
        self._client._watchers.append(watcher)  # noqa: SLF001 -- of the same class
        if self._client.is_paused:
            watcher(True)  # noqa: FBT003

    def unwatch(self, watcher: Callable[[bool], None]) -> None:
        if watcher in (watchers := self._client._watchers):  # noqa: SLF001
            watchers.remove(watcher)

    async def unpaused(self) -> None:
        """Wait until the client has read enough."""
        if not self._client.is_paused:
            return
        room: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def watcher(paused: bool) -> None:  # noqa: FBT001 -- a callback's state
            if not paused and not room.done():
                room.set_result(None)

        self.watch(watcher)
        try:
            await room
        finally:
            self.unwatch(watcher)

    @contextlib.asynccontextmanager
    async def building(self) -> AsyncGenerator[Callable[[int], None]]:
        """Build an answer that may be large: one at a time per client, and none while the client is paused.

        Yields a function that counts the bytes of the answer while it is built.
        """
        made = 0

        def count(size: int) -> None:
            nonlocal made
            made += size
            self.reserve(size)

        self._building = self._building or asyncio.Lock()
        async with self._building:
            await self.unpaused()
            try:
                yield count
            finally:
                self.release(made)

    def open(self, label: str, close: Callable[[], None] | None = None) -> Account:
        """Open the account of a connection that works for this client and is paused with it."""
        account = self._budget.open(label, close) if isinstance(self._budget, MemoryBudget) else Account(label=label)
        account._client = self  # noqa: SLF001 -- of the same class
        return account

    def end(self) -> None:
        """Stop counting. The held bytes are freed with their owner."""
        if isinstance(self._budget, MemoryBudget):
            self._budget.forget(self)
        self._budget = _Unlimited()
        self.shed = self.cancel = self.close = None
        self.set_limit(self._budget.share)
        self._watchers.clear()

    def _pause(self, paused: bool) -> None:  # noqa: FBT001 -- a state
        self.is_paused = paused
        for watcher in tuple(self._watchers):
            watcher(paused)


class MemoryBudget:
    """All accounts of the process, and the reactions as they grow."""

    def __init__(self, limits: Limits, changed: Callable[[], None] = lambda: None) -> None:
        """`changed` is called whenever the level changes."""
        self._changed = changed
        self._review_seconds = MEMORY_REVIEW_SECONDS
        self._relief = MEMORY_RELIEF
        self.capacity = max(limits.memory_bytes - limits.memory_base_bytes, 0)
        shares = (MEMORY_REFUSE_SHARE, MEMORY_SHED_SHARE, MEMORY_CLOSE_SHARE)
        self._thresholds = [self.capacity * share for share in shares]
        self.share = self.capacity * MEMORY_CLIENT_SHARE
        self.held = 0
        self.level = self._highest = CALM
        self.ceiling = self._thresholds[CALM]
        self.floor = float("-inf")
        self._accounts: set[Account] = set()
        self._timer: asyncio.Handle | None = None
        self._logged: set[tuple[str, str]] = set()

    @property
    def state(self) -> str:
        return LEVELS[self.level]

    def open(self, label: str, close: Callable[[], None] | None = None) -> Account:
        """Open an account. `close` closes its connection."""
        account = Account(self, label)
        account.close = close
        self._accounts.add(account)
        if self.level:
            account.set_limit(self._fair_share())
        return account

    def forget(self, account: Account) -> None:
        """Remove an ended account."""
        if account in self._accounts:
            self._accounts.discard(account)
            self.held -= account.held
            if self.held < self.floor:
                self.fall()

    def rise(self) -> None:
        """Raise the level, since the total exceeds the ceiling."""
        before = self.level
        while self.level < CLOSE and self.held > self._thresholds[self.level]:
            self.level += 1
        self._update_bounds(before)
        # Not at once: the caller that reserved the bytes is in the middle of its work.
        if self._timer is None or self.level != before:
            self._schedule(0)

    def fall(self) -> None:
        """Lower the level, since the total is below the floor."""
        before = self.level
        while self.level and self.held < self._floor_of(self.level):
            self.level -= 1
        self._update_bounds(before)
        if not self.level:
            self._logged.clear()
            self._set_limits()

    def _floor_of(self, level: int) -> float:
        return self._thresholds[level - 1] * self._relief

    def _update_bounds(self, before: int) -> None:
        self.ceiling = self._thresholds[min(self.level, CLOSE - 1)]
        self.floor = self._floor_of(self.level) if self.level else float("-inf")
        if self.level == before:
            return
        held, capacity = (round(size / _MIB) for size in (self.held, self.capacity))
        if self.level > self._highest:
            logger.warning("memory pressure", level=self.state, held_mib=held, of_mib=capacity)
            self._highest = self.level
        elif not self.level:
            logger.info("the memory pressure is over", was=LEVELS[self._highest], held_mib=held, of_mib=capacity)
            self._highest = CALM
        self._changed()

    # -- reactions to pressure

    def _schedule(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._review)

    def _review(self) -> None:
        self._timer = None
        if self.level >= SHED:
            self._shed()
        if self.level >= CLOSE:
            self._close()
        trim()
        if self.level:
            self._set_limits()
            self._schedule(self._review_seconds)

    def _set_limits(self) -> None:
        limit = self._fair_share() if self.level else self.share
        for account in tuple(self._accounts):
            account.set_limit(limit)

    def _fair_share(self) -> float:
        holders = sum(account.held > account.kept for account in self._accounts)
        return min(self.share, self._thresholds[CALM] / max(holders, 1))

    def _shed(self) -> None:
        for account in tuple(self._accounts):
            if account.shed is not None:
                account.shed()
        clients = [account for account in self._accounts if account.cancel is not None and account.is_full]
        if self.level >= SHED and clients:
            largest = max(clients, key=lambda account: account.held)
            self._log_once("a client's calls are cancelled to free memory", largest)
            if largest.cancel is not None:
                largest.cancel()

    def _close(self) -> None:
        """Close connections until the total will be below the threshold."""
        excess = self.held - self._floor_of(CLOSE)
        candidates = [account for account in self._accounts if account.close is not None and account.held > 0]
        while excess > 0 and candidates:
            most = max(account.held for account in candidates) * _SIMILAR_SHARE
            victim = min((one for one in candidates if one.held >= most), key=lambda account: account.since)
            candidates.remove(victim)
            excess -= victim.held
            self._log_once("connections are closed to free memory", victim)
            if victim.close is not None:
                victim.close()

    def _log_once(self, what: str, account: Account) -> None:
        """Log a message once per holder, until the pressure is over."""
        if (what, account.label) not in self._logged:
            self._logged.add((what, account.label))
            logger.warning(what, holder=account.label, mib=round(account.held / _MIB))


def trim() -> None:
    """Return freed memory to the system if the C library is glibc; others do so themselves.

    After blocks of up to 32 MiB were freed, glibc serves such blocks from its heap. That is fast, but one small object
    above freed messages keeps them all mapped: 709 MB of RSS with 383 MB in use. Mapping each large block separately
    would cost a third more CPU time for large messages. A trim takes 8 ms for 100 MB, and 0.3 ms if little is free.
    """
    _malloc_trim()(0)


@cache
def _malloc_trim() -> Callable[[int], Any]:
    try:
        import ctypes  # noqa: PLC0415 -- most programs that serve never need it

        return ctypes.CDLL(None).malloc_trim
    except (ImportError, AttributeError, OSError, TypeError):  # another C library, or a Python without ctypes
        return lambda _pad: 0
