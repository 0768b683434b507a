"""Entries of the cache, their encoding on disk, and the stamps by which they are found.

An entry is read back unchanged or not at all: a checksum finds errors that SQLite does not look for, such as a flipped
bit in a description. The items are opaque bytes.

A stamp identifies a configured server. It is an HMAC over everything in an expanded entry that can change what the
server lists: a token, a variable, an argument. Two entries have the same stamp only if they start the same program in
the same way. The key never leaves this machine, and without it nobody can guess secrets from stamps. Names of
toolboxes and servers, filters and limits are not part of a stamp: a renamed toolbox keeps its cached lists.
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
"""The kind of a list. An `era` entry has no items: it records which era the server spoke with clients of one era."""

_CHECKSUM_BYTES = 4


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A list of a server, and the server's state at that time."""

    items: tuple[Raw, ...]
    """The list as it was sent, before any filter."""
    fingerprint: bytes
    """A digest of the items, to compare lists cheaply."""
    modern: bool
    """Whether the server spoke the modern era."""
    offers: frozenset[str]
    """The names of its capabilities and extensions."""
    listed_at: float
    """The time of the listing, from `time.time()`."""
    is_fallback: bool = False
    """Whether it is a fallback that was listed for a client of the other era. Not stored."""
    instructions: Raw = Raw(b'""')
    """Its instructions, as a JSON string."""
    ttl_seconds: float | None = None
    """The list's time to live as the server stated it; None if it stated none or 0."""


class EntryHead(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An entry without its items."""

    fingerprint: bytes
    modern: bool
    offers: frozenset[str]
    listed_at: float
    instructions: bytes
    ttl_seconds: float | None = None


_heads = msgspec.msgpack.Decoder(EntryHead)
_bodies = msgspec.msgpack.Decoder(tuple[bytes, ...])


def fingerprint(items: Sequence[Raw]) -> bytes:
    """A digest of a list: the items, their order and their lengths."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(b"%d:" % len(item))
        digest.update(item)
    return digest.digest()


def write_head(key: bytes, entry: Entry) -> bytes:
    """Encode an entry without its items, sealed for its key."""
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
    """Encode the items, sealed for the key and the fingerprint, so that no other head matches them."""
    return seal(key + entry.fingerprint, msgspec.msgpack.encode([bytes(item) for item in entry.items]))


def read_head(key: bytes, sealed: bytes) -> EntryHead:
    """Decode what `write_head` made. Raises `Damaged`."""
    try:
        return _heads.decode(unseal(key, sealed))
    except msgspec.DecodeError:
        raise Damaged("it is damaged") from None


def read_entry(key: bytes, sealed_head: bytes, sealed_body: bytes) -> Entry:
    """Decode what `write_head` and `write_body` made. Raises `Damaged`."""
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
    """Add a checksum over the key and the data."""
    return zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM_BYTES) + data


def unseal(key: bytes, sealed: bytes) -> memoryview:
    """Check and remove the checksum. Raises `Damaged`."""
    data = memoryview(sealed)[_CHECKSUM_BYTES:]
    if zlib.crc32(data, zlib.crc32(key)).to_bytes(_CHECKSUM_BYTES) != sealed[:_CHECKSUM_BYTES]:
        raise Damaged("it is damaged")
    return data


# ruff: noqa: PTH104, PTH108, PTH118, PTH120 -- the first open waits for this, and importing pathlib takes longer


STORE_TRIES = 3
"""How often one process rebuilds a damaged store or key. After that, the disk is probably at fault."""
STORE_TOUCH_SECONDS = 7 * 86_400.0
"""How precisely the time of last use is recorded. Updating it is a write, which most opens should not need."""
STORE_KEY_BYTES = 32
"""The length of the key, the same as that of the stamps."""

KEY_NAME: Final = "catalog.key"


class CacheKeys:
    """Makes stamps with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def of(self, server: ServerConfig, environ: Mapping[str, str]) -> bytes:
        """The stamp of a server that would be started from this environment."""
        encoded = msgspec.json.encode(_launch_inputs(server.target, environ), order="sorted")
        return hmac.digest(self._key, encoded, "sha256")


def declared_digest(capabilities: Raw, *, modern: bool) -> bytes:
    """A digest of a client's era and capabilities. Details of roots are ignored: they do not change lists."""
    try:
        declared: dict[str, Any] = msgspec.json.decode(capabilities, type=dict[str, Any])
        if isinstance(declared.get("roots"), dict):
            declared["roots"] = {}
        canonical = msgspec.json.encode(declared, order="sorted")
    except (msgspec.DecodeError, RecursionError):
        canonical = bytes(capabilities)
    return hashlib.sha256((b"modern " if modern else b"handshake ") + canonical).digest()


def load_key(path: str) -> bytes | None:
    """Read or create the key next to the store at `path`; None, after a warning, if that fails."""
    file = os.path.join(os.path.dirname(secure_files.located(path)), KEY_NAME)
    try:
        secure_files.make_folder(file)
        return _found_key(file)
    except (secure_files.Unusable, OSError) as error:
        secure_files.warn_once("lists of servers are not kept on disk", file, secure_files.reason(error))
        return None


def _launch_inputs(target: Launch | Endpoint, environ: Mapping[str, str]) -> dict[str, Any]:
    """Everything that can change what a server lists, except the variables that every server gets (PATH, HOME)."""
    if isinstance(target, Endpoint):
        headers = {_plain(name): _plain(value) for name, value in target.headers.items()}
        inputs: dict[str, Any] = {"url": _plain(target.url), "headers": headers, "transport": target.transport}
        client = target.oauth
        if client.issuer or client.client_id or client.scopes:  # another OAuth client may see other tools
            inputs["client"] = [_plain(one) for one in (client.issuer, client.client_id, *client.scopes)]
        return inputs
    env = {**inherited(target.inherit_env, environ), **target.env}
    return {
        "command": _plain(target.command),
        "args": [_plain(one) for one in target.args],
        "env": {_plain(name): _plain(value) for name, value in env.items()},
        "cwd": _plain(str(target.cwd)) if target.cwd is not None else None,
    }


def _plain(text: str) -> str:
    """Make any text encodable as JSON: variables of the environment may not be valid Unicode."""
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _found_key(file: str) -> bytes:
    for _ in range(STORE_TRIES):  # another process may replace the key at the same time
        if (key := _read_key(file)) is not None:
            return key
        _make_key(file)
    raise secure_files.Unusable("it is damaged again and again")


def _read_key(file: str) -> bytes | None:
    """Read the key; None if it is missing, or was invalid and has been removed. Raises `Unusable` or `OSError`."""
    status = secure_files.inspect(file)
    if status is None:
        return None
    size = STORE_KEY_BYTES
    key = secure_files.read(file, size + 1)
    if len(key) > size:
        raise secure_files.Unusable("it is not a key, so it is not overwritten")
    if len(key) == size and any(key) and not secure_files.is_open(status):
        return key
    secure_files.remove(file, (status.st_dev, status.st_ino))
    return None


def _make_key(file: str) -> None:
    """Create a key atomically, unless another process has created one. Raises `OSError`."""
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
