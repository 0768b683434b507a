"""One list as it is remembered, and the bytes that stand for it on disk.

What was written is read back as it was, or not at all: a checksum finds what SQLite does not look for, such as a
flipped bit in the text of a description. Items are any bytes; what they mean is not looked at.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Raw

from mcp_workbench.config.environment import inherited
from mcp_workbench.config.model import Endpoint, Launch, ServerConfig
from mcp_workbench.storage import secure_files
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


class EntryHead(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """All of an entry but its items."""

    fingerprint: bytes
    modern: bool
    offers: frozenset[str]
    listed_at: float
    instructions: bytes
    ttl_seconds: float | None = None


_heads = msgspec.msgpack.Decoder(EntryHead)
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
    head = EntryHead(
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


def read_head(key: bytes, sealed: bytes) -> EntryHead:
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


# ruff: noqa: PTH104, PTH108, PTH118, PTH120 -- on the way to a first open, and importing pathlib takes longer than all of this


STORE_TRIES = 3
"""How often one process rebuilds a damaged store or key. After that, the disk is at fault."""
STORE_TOUCH_SECONDS = 7 * 86_400.0
"""How exactly it is known when a list was used: to note it is a write, which an open should not need."""
STORE_KEY_BYTES = 32
"""The key of the stamps, as long as what it makes."""

KEY_NAME: Final = "catalog.key"


class CacheKeys:
    """Makes stamps with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, server: ServerConfig, environ: Mapping[str, str]) -> bytes:
        """The stamp of a server that would be started from this environment."""
        written = msgspec.json.encode(_essence(server.target, environ), order="sorted")
        return hmac.digest(self._key, written, "sha256")


def declared_digest(capabilities: Raw, *, modern: bool) -> bytes:
    """Digest of a client's era and capabilities, the same for all that a server can't tell apart when it lists.

    Whether roots may change does not matter.
    """
    try:
        declared: dict[str, Any] = msgspec.json.decode(capabilities, type=dict[str, Any])
        if isinstance(declared.get("roots"), dict):
            declared["roots"] = {}
        canonical = msgspec.json.encode(declared, order="sorted")
    except (msgspec.DecodeError, RecursionError):
        canonical = bytes(capabilities)
    return hashlib.sha256((b"modern " if modern else b"handshake ") + canonical).digest()


def load_key(path: str) -> bytes | None:
    """The key beside the store at `path`, made if there is none; None, and people are told, where it can't be had."""
    file = os.path.join(os.path.dirname(secure_files.located(path)), KEY_NAME)
    try:
        secure_files.make_folder(file)
        return _found_key(file)
    except (secure_files.Unusable, OSError) as error:
        secure_files.warn_once("lists of servers are not kept on disk", file, secure_files.reason(error))
        return None


def _essence(target: Launch | Endpoint, environ: Mapping[str, str]) -> dict[str, Any]:
    """All that can change what a server lists. The basic variables that every server gets (PATH, HOME) are left out."""
    if isinstance(target, Endpoint):
        headers = {_plain(name): _plain(value) for name, value in target.headers.items()}
        essence: dict[str, Any] = {"url": _plain(target.url), "headers": headers, "transport": target.transport}
        client = target.oauth
        if client.issuer or client.client_id or client.scopes:  # another OAuth client may see other tools
            essence["client"] = [_plain(one) for one in (client.issuer, client.client_id, *client.scopes)]
        return essence
    env = {**inherited(target.inherit_env, environ), **target.env}
    return {
        "command": _plain(target.command),
        "args": [_plain(one) for one in target.args],
        "env": {_plain(name): _plain(value) for name, value in env.items()},
        "cwd": _plain(str(target.cwd)) if target.cwd is not None else None,
    }


def _plain(text: str) -> str:
    """Text in one form that JSON can hold, also where it is not Unicode, as a variable of the environment may be."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _found_key(file: str) -> bytes:
    for _ in range(STORE_TRIES):  # others may remove and make one at this moment
        if (key := _read_key(file)) is not None:
            return key
        _make_key(file)
    raise secure_files.Unusable("it is damaged again and again")


def _read_key(file: str) -> bytes | None:
    """The key; None where there is none, or it was of no use and is gone. Raises `Unusable` or `OSError`."""
    status = secure_files.inspect(file)
    if status is None:
        return None
    size = STORE_KEY_BYTES
    key = secure_files.read(file, size + 1)
    if len(key) > size:
        raise secure_files.Unusable("it is no key of a store; another file is not overwritten")
    if len(key) == size and any(key) and not secure_files.is_open(status):
        return key
    secure_files.remove(file, (status.st_dev, status.st_ino))
    return None


def _make_key(file: str) -> None:
    """Make one, whole from the first moment; that of a process that was quicker stays. Raises `OSError`."""
    draft = f"{file}.{os.urandom(8).hex()}"
    secure_files.create(draft, os.urandom(STORE_KEY_BYTES))
    try:
        os.link(draft, file)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        os.rename(draft, file)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
