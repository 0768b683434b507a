"""The key of a stored list: a configured server, and the client that it was listed for.

A stamp is an HMAC over all of an expanded entry that can change what a server lists: a token, a variable, an argument.
Two entries have the same stamp only where they start the same program in the same way. Without the key, which never
leaves this machine, nobody can try out what the secrets in it may have been. Names of toolboxes and servers, filters
and limits are no part of it: a renamed toolbox keeps what is remembered.
"""

# ruff: noqa: PTH104, PTH108, PTH118, PTH120 -- on the way to a first open, and importing pathlib takes longer than all of this

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from mcp_workbench.config.environment import inherited
from mcp_workbench.config.model import Endpoint, Launch, ServerConfig
from mcp_workbench.storage import secure_files

STORE_TRIES = 3
"""How often one process rebuilds a damaged store or key. After that, the disk is at fault."""
STORE_TOUCH_SECONDS = 7 * 86_400.0
"""How exactly it is known when a list was used: to note it is a write, which an open should not need."""
STORE_KEY_BYTES = 32
"""The key of the stamps, as long as what it makes."""

KEY_NAME: Final = "catalog.key"


class Stamps:
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
