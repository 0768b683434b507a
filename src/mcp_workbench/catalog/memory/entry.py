"""One list as it is remembered, and the bytes that stand for it on disk.

What was written is read back as it was, or not at all: a checksum finds what SQLite does not look for, such as a
flipped bit in the text of a description. Items are any bytes; what they mean is not looked at.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.storage.secure_files import Damaged

Kind: TypeAlias = Literal["tools", "prompts", "resources", "templates", "skills", "era"]
"""Which list. An `era` entry has no items: it records which era the server spoke with clients of one era, and when."""

_CHECKSUM_BYTES = 4


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """What a server listed, and what it was then."""

    items: tuple[Raw, ...]
    """The list as it was sent, before any filter."""
    fingerprint: bytes
    """Tells cheaply whether a list is another one."""
    modern: bool
    """Whether the server spoke the modern era."""
    offers: frozenset[str]
    """The names of its capabilities and extensions."""
    listed_at: float
    """When, as `time.time()` has it."""
    is_lent: bool = False
    """Whether it was listed for a client of the other era and serves as a fallback. Not stored."""
    instructions: Raw = Raw(b'""')
    """Its instructions, as a JSON string."""
    ttl_seconds: float | None = None
    """The list's time to live as the server stated it; None if it stated none or 0."""


class Head(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """All of an entry but its items."""

    fingerprint: bytes
    modern: bool
    offers: frozenset[str]
    listed_at: float
    instructions: bytes
    ttl_seconds: float | None = None


_heads = msgspec.msgpack.Decoder(Head)
_bodies = msgspec.msgpack.Decoder(tuple[bytes, ...])


def fingerprint(items: Sequence[Raw]) -> bytes:
    """A digest of a whole list: of its items, their order, and where each ends."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(b"%d:" % len(item))
        digest.update(item)
    return digest.digest()


def write_head(key: bytes, entry: Entry) -> bytes:
    """All but the items, sealed for the key under which it is found."""
    head = Head(
        fingerprint=entry.fingerprint,
        modern=entry.modern,
        offers=entry.offers,
        listed_at=entry.listed_at,
        instructions=bytes(entry.instructions),
        ttl_seconds=entry.ttl_seconds,
    )
    return seal(key, msgspec.msgpack.encode(head))


def write_body(key: bytes, entry: Entry) -> bytes:
    """The items, sealed for the key and the fingerprint: no other head fits them."""
    return seal(key + entry.fingerprint, msgspec.msgpack.encode([bytes(item) for item in entry.items]))


def read_head(key: bytes, sealed: bytes) -> Head:
    """Raises `Damaged`."""
    try:
        return _heads.decode(unseal(key, sealed))
    except msgspec.DecodeError:
        raise Damaged("it is damaged") from None


def read_entry(key: bytes, sealed_head: bytes, sealed_body: bytes) -> Entry:
    """Raises `Damaged`."""
    head = read_head(key, sealed_head)
    try:
        items = _bodies.decode(unseal(key + head.fingerprint, sealed_body))
    except msgspec.DecodeError:
        raise Damaged("it is damaged") from None
    return Entry(
        items=tuple(Raw(item) for item in items),
        fingerprint=head.fingerprint,
        modern=head.modern,
        offers=head.offers,
        listed_at=head.listed_at,
        instructions=Raw(head.instructions),
        ttl_seconds=head.ttl_seconds,
    )


def seal(key: bytes, data: bytes) -> bytes:
    """Bytes that are read back for the same key alone."""
    return zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM_BYTES) + data


def unseal(key: bytes, sealed: bytes) -> memoryview:
    """Raises `Damaged`."""
    data = memoryview(sealed)[_CHECKSUM_BYTES:]
    if zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM_BYTES) != sealed[:_CHECKSUM_BYTES]:
        raise Damaged("it is damaged")
    return data
