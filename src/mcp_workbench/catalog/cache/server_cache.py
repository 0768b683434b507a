"""What is remembered of the lists of servers, so that they need not run to be shown.

A `CachedServer` belongs to one configured server, one client era and one set of client capabilities: servers may list
different tools for each. If there is no list for a client's era, the list of the other era is the fallback. The key of
a record is a stamp of the whole expanded entry, so a list of another configuration is never shown. Secrets of the
configuration do not reach the file (`veil.py`).
"""

from __future__ import annotations

import hmac
import os
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.catalog.cache.entry import CacheKeys, declared_digest, load_key
from mcp_workbench.catalog.cache.store import CacheStore, Entry, Kind, StoredClient, fingerprint, store_path
from mcp_workbench.config.model import NO_STORE, Config, Refresh, ServerConfig
from mcp_workbench.config.secret_patterns import credentials_of
from mcp_workbench.limits import Limits
from mcp_workbench.text.redact import SECRET_LENGTH, Redactor

if TYPE_CHECKING:
    import asyncio


MARK_BYTES = 8
"""Bytes of the mark that stands for a secret in a remembered list: a server has a few, so none has another's."""

_BEGIN, _END, _BETWEEN = b"\x01", b"\x02", b"\x03"
"""No JSON text has these bytes in it."""


class SecretMask:
    """Hides and shows the secrets of one server."""

    def __init__(self, key: bytes, secrets: Collection[str]) -> None:
        self._key = key
        self._secrets = [secret for secret in secrets if len(secret) >= SECRET_LENGTH]

    def drawn(self, items: Sequence[Raw]) -> tuple[Raw, ...] | None:
        """The list as it may be written to disk; None where a secret would be left in it."""
        text = _BETWEEN.join(bytes(item) for item in items)
        if text.count(_BETWEEN) != max(0, len(items) - 1) or _BEGIN in text or _END in text:
            return None
        for mark, secret in self._marks():
            text = text.replace(secret, mark)
        redactor = Redactor()
        redactor.hide(self._secrets)
        return None if redactor.finds(text) else _split(text, items)

    def lifted(self, items: Sequence[Raw]) -> tuple[Raw, ...] | None:
        """The list as it was; None where it holds a secret that is not there any more."""
        text = _BETWEEN.join(items)
        if _BEGIN not in text:
            return tuple(items)
        for mark, secret in self._marks():
            text = text.replace(mark, secret)
        return None if _BEGIN in text else _split(text, items)

    def _marks(self) -> Iterator[tuple[bytes, bytes]]:
        """Each secret as JSON writes it, and what stands for it; the longest first: one may be part of another."""
        for secret in sorted(self._secrets, key=lambda one: (-len(one), one)):
            try:
                written = msgspec.json.encode(secret)[1:-1]
            except UnicodeEncodeError:  # bytes of the environment that are no text are in no JSON either
                continue
            digest = hmac.digest(self._key, written, "sha256")[:MARK_BYTES]
            yield _BEGIN + digest.hex().encode() + _END, written


def _split(text: bytes, items: Sequence[Raw]) -> tuple[Raw, ...]:
    return tuple(Raw(part) for part in text.split(_BETWEEN)) if items else ()


REVALIDATIONS = 4
"""Servers that are started at once only to check what is remembered of them: nobody waits for them."""

VARIABLE = "WORKBENCH_CATALOG"
_ERA = {modern: b"clients of the modern era" if modern else b"clients of the handshake era" for modern in (False, True)}
"""The digest that stores which era a server spoke with clients of each era, whatever they declared."""


class ServerCache:
    """The records of one workbench. The file is opened when the first one is needed, by the thread that asks."""

    def __init__(self, config: Config, limits: Limits) -> None:
        self._config = config
        self._limits = limits
        self._store: CacheStore | None = None
        self._stamps: CacheKeys | None = None
        self._key = b""
        self._environ: Mapping[str, str] = {}
        self._path = ""
        self._is_open = False

    @cached_property
    def turn(self) -> asyncio.Semaphore:
        """Who starts a server only to check what is remembered takes a turn."""
        import asyncio  # noqa: PLC0415 -- who only reads what is remembered has no use for it

        return asyncio.Semaphore(REVALIDATIONS)

    @property
    def exists(self) -> bool:
        """Whether there is a file: what only reads need not make one."""
        return os.path.exists(self._located())  # noqa: PTH110 -- pathlib is not loaded for it

    def prepare(self) -> None:
        """Open the file, if it is there."""
        if self.exists:
            self._open()

    def of(self, servers: Sequence[ServerConfig], declared: Raw, *, modern: bool) -> list[CachedServer]:
        """The records of servers, for clients of this era that declare this.

        The record of a server with a missing variable is empty. All tools are read in one query: for many servers
        that is several times faster than one by one.
        """
        self._open()
        refresh = self._config.catalog.refresh
        stamps = [self._stamp(server) for server in servers]
        own, other = (declared_digest(declared, modern=era) for era in (modern, not modern))
        found: dict[bytes, Entry] = {}
        if self._store is not None:
            found = _found(self._store, stamps, own)
            lent = _found(self._store, [stamp for stamp in stamps if stamp not in found], other)
            found |= {
                stamp: msgspec.structs.replace(entry, is_lent=True)
                for stamp, entry in lent.items()
                if _may_be_lent(entry, modern=modern)
            }
        return [
            CachedServer(
                self._store if stamp else None,
                server,
                ListKey(stamp, own, other, modern),
                tools=found.get(stamp),
                veil=SecretMask(self._key, {*server.secrets, *credentials_of(server)}),
                refresh=refresh,
                limits=self._limits,
            )
            for server, stamp in zip(servers, stamps, strict=True)
        ]

    def _stamp(self, server: ServerConfig) -> bytes:
        return self._stamps.of(server, self._environ) if self._stamps is not None and not server.missing else b""

    def forget(self, server: ServerConfig) -> None:
        """Delete all lists of a server, for every client: from now on it may see us as a different account."""
        self.prepare()
        if self._store is not None and (stamp := self._stamp(server)):
            self._store.drop(stamp)

    def saw(self, declared: Raw, *, modern: bool) -> None:
        """Record that a client of this era declared this; it will again."""
        self._open()
        if self._store is not None:
            self._store.saw(declared, modern=modern)

    def declared(self) -> list[StoredClient]:
        """What clients declared lately, the newest first."""
        self._open()
        return self._store.declared(self._limits.places) if self._store is not None else []

    @property
    def problem(self) -> str | None:
        """Why nothing is remembered; None if it is."""
        self._open()
        if self._store is not None and self._store.is_usable:
            return None
        return "the store is 'none'" if self._path == NO_STORE else f"{self._path} can't be used"

    def close(self) -> None:
        if self._store is not None:
            self._store.close()

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        path = self._path = self._located()
        if path == NO_STORE:
            return
        store = CacheStore.open(path, self._limits)
        if store.is_usable and (key := load_key(path)) is not None:
            self._store, self._stamps, self._key = store, CacheKeys(key), key
            self._environ = dict(os.environ)
        else:
            store.close()

    def _located(self) -> str:
        named = os.environ.get(VARIABLE)
        return os.path.expanduser(named) if named else self._config.catalog.path or store_path(os.environ)  # noqa: PTH111


class ListKey(NamedTuple):
    """Identifies the lists of a record. `own` is the digest of its clients, `other` their digest in the other era."""

    stamp: bytes
    own: bytes
    other: bytes
    modern: bool
    """The era of its clients."""


class CachedServer:
    """What is remembered of one server."""

    def __init__(
        self,
        store: CacheStore | None,
        server: ServerConfig,
        key: ListKey,
        *,
        tools: Entry | None,
        veil: SecretMask,
        refresh: Refresh,
        limits: Limits,
    ) -> None:
        """`tools` is what of its tools was found in the store; it is handed out once."""
        self._store = store
        self._server = server
        self._key = key
        self._tools = tools
        is_own = tools is not None and not tools.is_lent and tools.modern == key.modern
        self._spoke = key.modern if is_own else None
        self._era: Entry | None = None
        self._veil = veil
        self._limits = limits
        self.refresh = refresh

    def get(self, kind: Kind) -> Entry | None:
        """The stored list, with what the server declared then; the one for clients of the other era as a fallback."""
        if self._store is None:
            return None
        entry = None
        if kind == "tools":
            entry, self._tools = self._tools, None
        if entry is None:
            entry = self._store.get(self._key.stamp, self._key.own, kind)
        if entry is None:
            lent = self._store.get(self._key.stamp, self._key.other, kind)
            may = lent is not None and _may_be_lent(lent, modern=self._key.modern)
            entry = msgspec.structs.replace(lent, is_lent=True) if lent is not None and may else None
        lifted = self._veil.lifted((*entry.items, entry.instructions)) if entry is not None else None
        if entry is None or lifted is None:
            return None
        *items, instructions = lifted
        return msgspec.structs.replace(entry, items=tuple(items), instructions=instructions)

    def draft(
        self,
        items: Sequence[Raw],
        *,
        modern: bool,
        offers: Collection[str],
        instructions: str = "",
        ttl_seconds: float | None = None,
    ) -> Entry | None:
        """An entry for a list that was just read; None where it can't be kept. Any thread may make it."""
        said = Raw(msgspec.json.encode(instructions))
        kept = self._veil.drawn((*items, said)) if self._store is not None else None
        if kept is None:
            return None
        *kept_items, kept_instructions = kept
        return Entry(
            items=tuple(kept_items),
            fingerprint=fingerprint(kept_items),
            modern=modern,
            offers=frozenset(offers),
            listed_at=time.time(),
            instructions=kept_instructions,
            ttl_seconds=ttl_seconds,
        )

    def put(self, kind: Kind, draft: Entry | None) -> None:
        """Remember it instead of what was remembered before."""
        self._tools = self._spoke = None
        if self._store is None:
            return
        if draft is not None:
            self._store.put(self._key.stamp, self._key.own, kind, draft)
            return
        server = self._server.identifier
        logger.info("a list is not stored, because it contains a secret", server=server, list=kind)
        self._store.drop(self._key.stamp, self._key.own)

    def is_current(self, entry: Entry) -> bool:
        """Whether a list need not be checked: it is recent, and was listed in the era of its clients.

        A list for clients of the other era counts too if the server speaks the same era with both.
        """
        if entry.is_lent and self.refresh != "never":
            era = self.era()
            if entry.modern != (self._key.modern if era is None else era):
                return False
        return self._is_recent(entry)

    def era(self) -> bool | None:
        """Whether the server speaks the modern era with these clients; None if that is not known or too old.

        "It does not speak their era" expires like a list: its next version may speak it.
        """
        if self._spoke is not None:
            return self._spoke
        entry = self._spoken()
        return entry.modern if entry is not None and self._is_recent(entry) else None

    def spoke(self, *, modern: bool) -> None:
        """Remember the era that the server has just spoken."""
        if self._store is None or self.era() == modern:
            return
        self._era = Entry(
            items=(), fingerprint=fingerprint(()), modern=modern, offers=frozenset(), listed_at=time.time()
        )
        self._store.put(self._key.stamp, _ERA[self._key.modern], "era", self._era)

    def _spoken(self) -> Entry | None:
        if self._era is None and self._store is not None:
            self._era = self._store.get(self._key.stamp, _ERA[self._key.modern], "era")
        return self._era

    def _is_recent(self, entry: Entry) -> bool:
        """An entry from the future is not recent: the clock may have been set back."""
        age = time.time() - entry.listed_at
        most = self._limits.catalog_age_seconds
        if entry.ttl_seconds is not None:
            most = min(most, max(entry.ttl_seconds, self._limits.relist_interval_seconds))
        return self.refresh == "never" or 0 <= age < most


def _may_be_lent(entry: Entry, *, modern: bool) -> bool:
    """Whether a list for clients of the other era is a valid fallback for clients of this era.

    In the handshake era, servers that speak both wrap results that are not objects, and their output schemas. A client
    that validates results against the other era's schema would reject them.
    """
    return entry.modern == modern or not any(b'"outputSchema"' in bytes(item) for item in entry.items)


def _found(store: CacheStore, stamps: Sequence[bytes], digest: bytes) -> dict[bytes, Entry]:
    """The stored tools for clients of this digest, by the stamps of their servers."""
    entries = store.get_many([(stamp, digest) for stamp in stamps], "tools") if stamps else []
    return {stamp: entry for stamp, entry in zip(stamps, entries, strict=True) if entry is not None}
