"""Which configuration files of projects this user trusts: each by where it lies and by what is in it.

Guarantees: a file is used only if it is byte for byte the one that was trusted, in the same folder; the bytes that are
compared are those that are parsed, since they are read once. A file that was never trusted is not even read. Where the
record of trust can't be used, nothing is trusted.

A file is known by the real path of its folder and its own name, and not by where a link of that name leads: commands
in it are relative to the folder, so a link in another folder to a trusted file would start other programs.
"""

# ruff: noqa: PTH109, PTH118 -- on the way of a start, where importing pathlib is noticeable

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import msgspec

from mcp_workbench import logger
from mcp_workbench.command_errors import TrustFailed
from mcp_workbench.config.jsonc.source import SourceText, read_source
from mcp_workbench.config.locate import FILE_NAME, own_file
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import LOGIN_POLL_SECONDS, Unusable

TRUST_STORE_BYTES = 1024 * 1024
"""The file that lists trusted projects: a few hundred bytes for each."""
TRUST_LOCK_SECONDS = 5.0
"""How long one `mcp-workbench trust` waits for another. Each writes a small file."""

Standing: TypeAlias = Literal["trusted", "changed", "gone"]

STORE_NAME: Final = "trusted.json"
VERSION: Final = 1
_HOW = "mcp-workbench trust"


class TrustedFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file, as it was when somebody trusted it."""

    path: str
    sha256: str
    since: str
    """When that was: a date and time in UTC."""


class _TrustFile(msgspec.Struct, frozen=True):
    version: int
    files: list[TrustedFile] = []


class _TrustVersion(msgspec.Struct, frozen=True):
    version: int


def store_path(environ: Mapping[str, str]) -> str:
    """Where the record of trust is: in the user's state folder."""
    return own_file(environ, "state", STORE_NAME)


def place_of(file: str) -> str:
    """How a file is known: the real path of its folder, and its own name. Raises `OSError`."""
    folder, name = os.path.split(os.path.join(os.getcwd(), file))
    return os.path.join(os.path.realpath(folder), name)


def digest(source: SourceText) -> str:
    """What stands for the bytes of a file; its text is exactly them, since they are UTF-8."""
    return _sha256(source.text.encode())


def _sha256(content: bytes) -> str:
    import hashlib  # noqa: PLC0415 -- only where a file is trusted, or is to be

    return hashlib.sha256(content).hexdigest()


class Trust:
    """The record of one user. Raises `TrustFailed` for what it can't do."""

    def __init__(self, environ: Mapping[str, str], limits: Limits = DEFAULTS) -> None:
        self.path = secure_files.located(store_path(environ))
        self._limits = limits

    def files(self) -> list[TrustedFile]:
        """What is trusted, in the order in which that came about."""
        with self._explained("read"):
            return self._read()

    def find(self, place: str) -> TrustedFile | None:
        """What is known of the file at a place."""
        return next((file for file in self.files() if file.path == place), None)

    def add(self, place: str, sha256: str) -> None:
        """Trust the file at a place, if it is this one."""
        try:
            place.encode()
        except UnicodeEncodeError:
            raise TrustFailed(
                "its path is no UTF-8", hint="Rename the folder, or pass the file with --config."
            ) from None
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        new = TrustedFile(path=place, sha256=sha256, since=since)
        self._change(lambda files: [*(file for file in files if file.path != place), new])

    def remove(self, place: str) -> bool:
        """Trust it no more; whether it was."""
        was = self.find(place) is not None
        if was:
            self._change(lambda files: [file for file in files if file.path != place])
        return was

    def _change(self, change: Callable[[list[TrustedFile]], list[TrustedFile]]) -> None:
        with self._explained("written"):
            secure_files.make_folder(self.path)
            with secure_files.alone(self.path, TRUST_LOCK_SECONDS, LOGIN_POLL_SECONDS):
                newest = change(self._read())[-self._limits.trusted_files :]
                secure_files.replace(
                    self.path, msgspec.json.format(msgspec.json.encode(_TrustFile(VERSION, newest)), indent=2)
                )

    def _read(self) -> list[TrustedFile]:
        status = secure_files.inspect(self.path)
        if status is None:
            return []
        if secure_files.is_writable_by_others(status):
            raise Unusable("others can write it")
        content = secure_files.read(self.path, TRUST_STORE_BYTES + 1)
        if len(content) > TRUST_STORE_BYTES:
            raise Unusable("it is too large")
        try:
            if msgspec.json.decode(content, type=_TrustVersion).version > VERSION:
                raise Unusable("it was written by a newer version of mcp-workbench")
            return msgspec.json.decode(content, type=_TrustFile).files
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise Unusable("it is damaged") from None

    @contextmanager
    def _explained(self, doing: str) -> Any:
        try:
            yield
        except (OSError, Unusable) as error:
            hint = "Put that right, or remove the file: nothing is trusted then, and you can trust files anew."
            problem = f"what you trust can't be {doing}: {self.path}: {secure_files.reason(error)}"
            raise TrustFailed(problem, hint=hint) from None


def renew(environ: Mapping[str, str], file: str, before: bytes, after: bytes) -> None:
    """Keep a file trusted whose user changed it with one of our commands, if it was trusted as it was before.

    Raises `TrustFailed`.
    """
    try:
        place = place_of(file)
    except OSError as error:
        raise TrustFailed(f"its folder can't be found: {secure_files.reason(error)}") from None
    trust = Trust(environ)
    known = trust.find(place)
    if known is not None and known.sha256 == _sha256(before):
        trust.add(place, _sha256(after))


def standing(file: TrustedFile, limits: Limits = DEFAULTS) -> Standing:
    """Whether a file that was trusted is still as it was."""
    try:
        source = read_source(file.path, limits)
    except ConfigError:
        return "changed" if os.path.lexists(file.path) else "gone"
    return "trusted" if digest(source) == file.sha256 else "changed"


def trusted_source(environ: Mapping[str, str], limits: Limits = DEFAULTS) -> SourceText | None:
    """The configuration of the current folder, which is there, if it is trusted as it is now; the log says so."""
    try:
        place = place_of(FILE_NAME)
        known = Trust(environ, limits).find(place)
        source = read_source(place, limits) if known is not None else None
    except (OSError, TrustFailed, ConfigError) as error:
        logger.warning("the configuration of this folder is not used", reason=error)
        return None
    if known is None or source is None:
        logger.info("the configuration of this folder is not trusted and not used", file=place, trust=_HOW)
        return None
    if digest(source) != known.sha256:
        logger.warning("the configuration of this folder changed since you trusted it", file=place, trust=_HOW)
        return None
    logger.info("the configuration of this folder is used, which you trust", file=place)
    return source


def trusted_again(environ: Mapping[str, str], limits: Limits = DEFAULTS) -> SourceText:
    """The configuration of the current folder, which was in force before, if it is trusted as it is now.

    Raises `ConfigError` or `TrustFailed`.
    """
    try:
        place = place_of(FILE_NAME)
    except OSError as error:
        raise ConfigError(f"its folder can't be found: {secure_files.reason(error)}", hint="Start it anew.") from None
    known = Trust(environ, limits).find(place)
    source = read_source(place, limits)
    if known is None or digest(source) != known.sha256:
        raise ConfigError("it is not trusted as it is now", file=place, hint=f"Look at it, then run '{_HOW}' there.")
    return source
