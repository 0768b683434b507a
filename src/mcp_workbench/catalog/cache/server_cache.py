"""Cached lists of servers, so that their tools can be shown without starting them.

A `CachedServer` belongs to one configured server, one client era and one set of client capabilities: servers may list
different tools for each. If there is no list for a client's era, the list of the other era is the fallback. Lists are
found by a stamp of the whole expanded entry, so a list of another configuration is never shown.

Secrets of the configuration do not reach the file. A server may repeat its configuration in a description, such as the
name of a project, or a token. On disk, a mark replaces each secret: only the same configuration can restore it, and
without the key of the store nobody can guess it. A list that contains a secret in any other form is not stored.
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
from mcp_workbench.catalog.cache.entry import CacheKeys, Entry, Kind, declared_digest, fingerprint, load_key
from mcp_workbench.catalog.cache.store import VARIABLE, CacheStore, StoredClient, store_path
from mcp_workbench.config.model import NO_STORE, Config, Refresh, ServerConfig
from mcp_workbench.config.secret_patterns import credentials_of
from mcp_workbench.limits import Limits
from mcp_workbench.text.redact import SECRET_LENGTH, Redactor

if TYPE_CHECKING:
    import asyncio


MARK_BYTES = 8
"""Bytes of the mark that replaces a secret in a stored list. A server has few secrets, so marks do not collide."""

_BEGIN, _END, _BETWEEN = b"\x01", b"\x02", b"\x03"
"""Bytes that no JSON text contains."""


class SecretMask:
    """Masks and restores the secrets of one server in its lists."""

    def __init__(self, key: bytes, secrets: Collection[str]) -> None:
        self._key = key
        self._secrets = [secret for secret in secrets if len(secret) >= SECRET_LENGTH]

    def mask(self, items: Sequence[Raw]) -> tuple[Raw, ...] | None:
        """The list without its secrets, to be stored; None if a secret would remain."""
        text = _BETWEEN.join(bytes(item) for item in items)
        if text.count(_BETWEEN) != max(0, len(items) - 1) or _BEGIN in text or _END in text:
            return None
        for mark, secret in self._marks():
            text = text.replace(secret, mark)
        redactor = Redactor()
        redactor.hide(self._secrets)
        return None if redactor.finds(text) else _split(text, items)

    def restore(self, items: Sequence[Raw]) -> tuple[Raw, ...] | None:
        """The original list; None if it contains a secret that is no longer configured."""
        text = _BETWEEN.join(items)
        if _BEGIN not in text:
            return tuple(items)
        for mark, secret in self._marks():
            text = text.replace(mark, secret)
        return None if _BEGIN in text else _split(text, items)

    def _marks(self) -> Iterator[tuple[bytes, bytes]]:
        """The mark of each secret, and the secret as JSON; the longest first, since one may be part of another."""
        for secret in sorted(self._secrets, key=lambda one: (-len(one), one)):
            try:
                encoded = msgspec.json.encode(secret)[1:-1]
            except UnicodeEncodeError:  # bytes from the environment that are not text can't be in JSON
                continue
            digest = hmac.digest(self._key, encoded, "sha256")[:MARK_BYTES]
            yield _BEGIN + digest.hex().encode() + _END, encoded


def _split(text: bytes, items: Sequence[Raw]) -> tuple[Raw, ...]:
    return tuple(Raw(part) for part in text.split(_BETWEEN)) if items else ()


REVALIDATIONS = 4
"""Servers that are started at the same time only to check their cached lists. Nobody waits for them."""

_ERA = {modern: b"clients of the modern era" if modern else b"clients of the handshake era" for modern in (False, True)}
"""The key of `era` entries, by the era of the clients. It does not depend on their capabilities."""


class ServerCache:
    """The cached lists of one workbench. The thread that first needs the file opens it."""

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
    def revalidation_slots(self) -> asyncio.Semaphore:
        """Limits how many servers are started at the same time to check their cached lists."""
        import asyncio  # noqa: PLC0415 -- commands that only read the cache do not need it

        return asyncio.Semaphore(REVALIDATIONS)

    @property
    def exists(self) -> bool:
        """Whether the file exists: readers need not create it."""
        return os.path.exists(self._located())  # noqa: PTH110 -- importing pathlib takes time

    def prepare(self) -> None:
        """Open the file if it exists."""
        if self.exists:
            self._open()

    def of(self, servers: Sequence[ServerConfig], declared: Raw, *, modern: bool) -> list[CachedServer]:
        """The cached lists of servers, for clients of this era with these capabilities.

        Nothing is cached for a server with a missing variable. The tools of all servers are read in one transaction:
        for many servers that is several times faster.
        """
        self._open()
        refresh = self._config.catalog.refresh
        stamps = [self._stamp(server) for server in servers]
        own, other = (declared_digest(declared, modern=era) for era in (modern, not modern))
        found: dict[bytes, Entry] = {}
        if self._store is not None:
            found = _found(self._store, stamps, own)
            fallback = _found(self._store, [stamp for stamp in stamps if stamp not in found], other)
            found |= {
                stamp: msgspec.structs.replace(entry, is_fallback=True)
                for stamp, entry in fallback.items()
                if _is_valid_fallback(entry, modern=modern)
            }
        return [
            CachedServer(
                self._store if stamp else None,
                server,
                ListKey(stamp, own, other, modern),
                tools=found.get(stamp),
                mask=SecretMask(self._key, {*server.secrets, *credentials_of(server)}),
                refresh=refresh,
                limits=self._limits,
            )
            for server, stamp in zip(servers, stamps, strict=True)
        ]

    def _stamp(self, server: ServerConfig) -> bytes:
        return self._stamps.of(server, self._environ) if self._stamps is not None and not server.missing else b""

    def forget(self, server: ServerConfig) -> None:
        """Delete all lists of a server, for every client, since it may now see us as another account."""
        self.prepare()
        if self._store is not None and (stamp := self._stamp(server)):
            self._store.drop(stamp)

    def record_client(self, declared: Raw, *, modern: bool) -> None:
        """Record the capabilities of a client, which will probably connect again."""
        self._open()
        if self._store is not None:
            self._store.record_client(declared, modern=modern)

    def recent_clients(self) -> list[StoredClient]:
        """The capabilities that clients declared recently, newest first."""
        self._open()
        return self._store.recent_clients(self._limits.places) if self._store is not None else []

    @property
    def problem(self) -> str | None:
        """The reason why nothing is cached; None if the cache works."""
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
    """Identifies cached lists. `own` is the digest of their clients, `other` the same for the other era."""

    stamp: bytes
    own: bytes
    other: bytes
    modern: bool
    """The era of its clients."""


class CachedServer:
    """The cached lists of one server."""

    def __init__(
        self,
        store: CacheStore | None,
        server: ServerConfig,
        key: ListKey,
        *,
        tools: Entry | None,
        mask: SecretMask,
        refresh: Refresh,
        limits: Limits,
    ) -> None:
        """`tools` is the stored list of tools. The first `get` returns it; later ones read the store."""
        self._store = store
        self._server = server
        self._key = key
        self._tools = tools
        is_own = tools is not None and not tools.is_fallback and tools.modern == key.modern
        self._known_era = key.modern if is_own else None
        self._era: Entry | None = None
        self._mask = mask
        self._limits = limits
        self.refresh = refresh

    def get(self, kind: Kind) -> Entry | None:
        """The stored list; else the fallback for clients of the other era; else None."""
        if self._store is None:
            return None
        entry = None
        if kind == "tools":
            entry, self._tools = self._tools, None
        if entry is None:
            entry = self._store.get(self._key.stamp, self._key.own, kind)
        if entry is None:
            fallback = self._store.get(self._key.stamp, self._key.other, kind)
            may = fallback is not None and _is_valid_fallback(fallback, modern=self._key.modern)
            entry = msgspec.structs.replace(fallback, is_fallback=True) if fallback is not None and may else None
        restored = self._mask.restore((*entry.items, entry.instructions)) if entry is not None else None
        if entry is None or restored is None:
            return None
        *items, instructions = restored
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
        """Make an entry for a new list; None if it can't be stored. Safe in any thread."""
        encoded = Raw(msgspec.json.encode(instructions))
        masked = self._mask.mask((*items, encoded)) if self._store is not None else None
        if masked is None:
            return None
        *masked_items, masked_instructions = masked
        return Entry(
            items=tuple(masked_items),
            fingerprint=fingerprint(masked_items),
            modern=modern,
            offers=frozenset(offers),
            listed_at=time.time(),
            instructions=masked_instructions,
            ttl_seconds=ttl_seconds,
        )

    def put(self, kind: Kind, draft: Entry | None) -> None:
        """Replace the stored list. A list without a draft is deleted, since it can't be stored."""
        self._tools = self._known_era = None
        if self._store is None:
            return
        if draft is not None:
            self._store.put(self._key.stamp, self._key.own, kind, draft)
            return
        server = self._server.identifier
        logger.info("a list is not stored, because it contains a secret", server=server, list=kind)
        self._store.drop(self._key.stamp, self._key.own)

    def is_current(self, entry: Entry) -> bool:
        """Whether a list can be used without checking it: it is recent, and from the era of its clients.

        A list for clients of the other era counts too if the server speaks the same era with both.
        """
        if entry.is_fallback and self.refresh != "never":
            era = self.era()
            if entry.modern != (self._key.modern if era is None else era):
                return False
        return self._is_recent(entry)

    def era(self) -> bool | None:
        """Whether the server speaks the modern era with these clients; None if that is unknown or outdated.

        This expires like a list: the server's next version may speak another era.
        """
        if self._known_era is not None:
            return self._known_era
        entry = self._stored_era()
        return entry.modern if entry is not None and self._is_recent(entry) else None

    def record_era(self, *, modern: bool) -> None:
        """Store the era that the server has just spoken."""
        if self._store is None or self.era() == modern:
            return
        self._era = Entry(
            items=(), fingerprint=fingerprint(()), modern=modern, offers=frozenset(), listed_at=time.time()
        )
        self._store.put(self._key.stamp, _ERA[self._key.modern], "era", self._era)

    def _stored_era(self) -> Entry | None:
        if self._era is None and self._store is not None:
            self._era = self._store.get(self._key.stamp, _ERA[self._key.modern], "era")
        return self._era

    def _is_recent(self, entry: Entry) -> bool:
        """Whether an entry is recent. One from the future is not: the clock may have been set back."""
        age = time.time() - entry.listed_at
        most = self._limits.catalog_age_seconds
        if entry.ttl_seconds is not None:
            most = min(most, max(entry.ttl_seconds, self._limits.relist_interval_seconds))
        return self.refresh == "never" or 0 <= age < most


def _is_valid_fallback(entry: Entry, *, modern: bool) -> bool:
    """Whether a list for clients of the other era is a valid fallback for clients of this era.

    In the handshake era, servers that speak both wrap results that are not objects, and their output schemas. A client
    that validates results against the other era's schema would reject them.
    """
    return entry.modern == modern or not any(b'"outputSchema"' in bytes(item) for item in entry.items)


def _found(store: CacheStore, stamps: Sequence[bytes], digest: bytes) -> dict[bytes, Entry]:
    """The stored tools for clients of this digest, by the stamps of their servers."""
    entries = store.get_many([(stamp, digest) for stamp in stamps], "tools") if stamps else []
    return {stamp: entry for stamp, entry in zip(stamps, entries, strict=True) if entry is not None}
