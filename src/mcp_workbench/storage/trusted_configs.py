"""The project configurations that this user trusts, each identified by its path and its content.

Guarantees: a file is used only if it has the same bytes and the same path as when it was trusted; the compared bytes
are the parsed ones, since they are read once. A file that was never trusted is not even read. If the list can't be
used, nothing is trusted.

The path is the real path of the folder with the file's own name. Links of that name are not followed: commands in the
file are relative to its folder, so a link to it from another folder would start other programs.
"""

# ruff: noqa: PTH109, PTH118 -- imported at startup, which pathlib would slow down

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
    """A trusted file, as it was when the user trusted it."""

    path: str
    sha256: str
    since: str
    """The date and time in UTC."""


class _TrustFile(msgspec.Struct, frozen=True):
    version: int
    files: list[TrustedFile] = []


class _TrustVersion(msgspec.Struct, frozen=True):
    version: int


def store_path(environ: Mapping[str, str]) -> str:
    """The file with the list, in the user's state folder."""
    return own_file(environ, "state", STORE_NAME)


def place_of(file: str) -> str:
    """The path that identifies a file: the real path of its folder, and its own name. Raises `OSError`."""
    folder, name = os.path.split(os.path.join(os.getcwd(), file))
    return os.path.join(os.path.realpath(folder), name)


def digest(source: SourceText) -> str:
    """The hash of a file's bytes, which are exactly its text in UTF-8."""
    return _sha256(source.text.encode())


def _sha256(content: bytes) -> str:
    import hashlib  # noqa: PLC0415 -- only needed for trusted files

    return hashlib.sha256(content).hexdigest()


class Trust:
    """The list of one user's trusted files. Its methods raise `TrustFailed`."""

    def __init__(self, environ: Mapping[str, str], limits: Limits = DEFAULTS) -> None:
        self.path = secure_files.located(store_path(environ))
        self._limits = limits

    def files(self) -> list[TrustedFile]:
        """The trusted files, in the order in which they were trusted."""
        with self._explained("read"):
            return self._read()

    def find(self, place: str) -> TrustedFile | None:
        """The entry of a file."""
        return next((file for file in self.files() if file.path == place), None)

    def add(self, place: str, sha256: str) -> None:
        """Trust a file with this content."""
        try:
            place.encode()
        except UnicodeEncodeError:
            raise TrustFailed(
                "its path is not valid UTF-8", hint="Rename the folder, or pass the file with --config."
            ) from None
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        new = TrustedFile(path=place, sha256=sha256, since=since)
        self._change(lambda files: [*(file for file in files if file.path != place), new])

    def remove(self, place: str) -> bool:
        """Stop trusting a file; False if it was not trusted."""
        if self.find(place) is None:
            return False
        self._change(lambda files: [file for file in files if file.path != place])
        return True

    def _change(self, change: Callable[[list[TrustedFile]], list[TrustedFile]]) -> None:
        with self._explained("written"):
            secure_files.make_folder(self.path)
            with secure_files.locked(self.path, TRUST_LOCK_SECONDS, LOGIN_POLL_SECONDS):
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
            hint = "Fix that, or remove the file: then nothing is trusted, and you can trust files again."
            problem = f"the list of trusted projects can't be {doing}: {self.path}: {secure_files.reason(error)}"
            raise TrustFailed(problem, hint=hint) from None


def renew(environ: Mapping[str, str], file: str, before: bytes, after: bytes) -> None:
    """Trust a file again after one of our commands changed it, if it was trusted before. Raises `TrustFailed`."""
    try:
        place = place_of(file)
    except OSError as error:
        raise TrustFailed(f"its folder can't be found: {secure_files.reason(error)}") from None
    trust = Trust(environ)
    known = trust.find(place)
    if known is not None and known.sha256 == _sha256(before):
        trust.add(place, _sha256(after))


def standing(file: TrustedFile, limits: Limits = DEFAULTS) -> Standing:
    """Whether a trusted file is unchanged."""
    try:
        source = read_source(file.path, limits)
    except ConfigError:
        return "changed" if os.path.lexists(file.path) else "gone"
    return "trusted" if digest(source) == file.sha256 else "changed"


def trusted_source(environ: Mapping[str, str], limits: Limits = DEFAULTS) -> SourceText | None:
    """The existing configuration of the current folder, if the user trusts its content; logs whether it is used."""
    try:
        place = place_of(FILE_NAME)
        known = Trust(environ, limits).find(place)
        source = read_source(place, limits) if known is not None else None
    except (OSError, TrustFailed, ConfigError) as error:
        logger.warning("the configuration of this folder is not used", reason=error)
        return None
    if known is None or source is None:
        logger.info("the configuration of this folder is not used: you have not trusted it", file=place, trust=_HOW)
        return None
    if digest(source) != known.sha256:
        logger.warning(
            "the configuration of this folder is not used: it changed since you trusted it", file=place, trust=_HOW
        )
        return None
    logger.info("using the trusted configuration of this folder", file=place)
    return source


def trusted_again(environ: Mapping[str, str], limits: Limits = DEFAULTS) -> SourceText:
    """The configuration of the current folder, which was used before, if the user trusts its present content.

    Raises `ConfigError` or `TrustFailed`.
    """
    try:
        place = place_of(FILE_NAME)
    except OSError as error:
        raise ConfigError(f"its folder can't be found: {secure_files.reason(error)}", hint="Restart it.") from None
    known = Trust(environ, limits).find(place)
    source = read_source(place, limits)
    if known is None or digest(source) != known.sha256:
        raise ConfigError("you have not trusted its present content", file=place, hint=f"Review it, then run '{_HOW}'.")
    return source
