"""Stores for logins: a file that only its user can read, or the keyring of the system.

Guarantees: the file is never half written, and no change of another process is lost. A damaged file is moved aside; a
file of another kind stays untouched. Both stores raise `Unusable`, and nothing else, when an operation fails.
"""

# ruff: noqa: PTH105 -- importing pathlib is noticeable before a first call

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Protocol, TypeVar

import msgspec

from mcp_workbench.limits import Limits
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import LOGIN_POLL_SECONDS, Unusable

LOGIN_STORE_BYTES = 4 * 1024 * 1024
"""The largest file of logins, enough for thousands of them."""

T = TypeVar("T")

VERSION = 1
SERVICE = "mcp-workbench"
"""The service name of our entries in a keyring."""


class Login(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The tokens and endpoints of one login, for one server and from one issuer."""

    url: str
    issuer: str
    resource: str = ""
    """The resource that the tokens are for; empty if the server does not say."""
    token_endpoint: str
    revocation_endpoint: str = ""
    client_id: str
    client_secret: str = ""
    client_auth: str = "none"
    """How the client authenticates: `token_endpoint_auth_method` of RFC 7591."""
    access_token: str
    refresh_token: str = ""
    scope: str = ""
    wanted: str = ""
    """Scopes that the server reported as missing. The next login requests them."""
    renew_at: float | None = None
    """The wall-clock time after which the token is renewed before use."""

    def __repr__(self) -> str:
        return "Login(...)"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values to redact."""
        return tuple(filter(None, (self.access_token, self.refresh_token, self.client_secret)))


class CredentialStore(Protocol):
    """A store for logins. Every method raises `Unusable` if it fails."""

    is_slow: bool
    """Whether reading it may take longer than a few system calls."""

    def load(self, url: str) -> Login | None: ...

    def save(self, login: Login) -> None:
        """Store a login, in place of an earlier one for the same server."""
        ...

    def remove(self, url: str) -> None: ...


class _File(msgspec.Struct, frozen=True):
    version: int
    logins: list[Login] = []


class _Version(msgspec.Struct, frozen=True):
    version: int


class _Damaged(Exception):
    """The content is not a file of logins."""


class FileStore:
    """All logins of a user in one file."""

    is_slow = False

    def __init__(self, path: str, limits: Limits) -> None:
        self._path = secure_files.located(path)
        self._limits = limits
        self._seen: tuple[int, int, int] | None = None
        self._logins: dict[str, Login] = {}

    def load(self, url: str) -> Login | None:
        with _os_errors_as_unusable():
            self._refresh()
        return self._logins.get(url)

    def save(self, login: Login) -> None:
        self._change(lambda logins: logins | {login.url: login})

    def remove(self, url: str) -> None:
        self._change(lambda logins: {other: login for other, login in logins.items() if other != url})

    def _refresh(self) -> None:
        """Read the file again if it changed."""
        status = secure_files.inspect(self._path)
        seen = (status.st_ino, status.st_mtime_ns, status.st_size) if status else None
        if status is not None and secure_files.is_open(status):
            secure_files.check(self._path)
            secure_files.warn_once("others could read the stored logins, and no longer can", self._path, "file mode")
        if seen != self._seen or seen is None:
            self._logins, self._seen = {}, None
            if status is None:
                return
            secure_files.check_folder(self._path)
            try:
                self._logins = self._read()
            except _Damaged:
                raise Unusable("it is damaged") from None
            self._seen = seen

    def _read(self) -> dict[str, Login]:
        content = secure_files.read(self._path, LOGIN_STORE_BYTES + 1)
        if len(content) > LOGIN_STORE_BYTES:
            raise Unusable("it is too large for a file of logins")
        try:
            version = msgspec.json.decode(content, type=_Version).version
            if version > VERSION:
                raise Unusable("it was written by a newer version of mcp-workbench")
            return {login.url: login for login in msgspec.json.decode(content, type=_File).logins}
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _Damaged from None

    def _change(self, change: Callable[[dict[str, Login]], dict[str, Login]]) -> None:
        with _os_errors_as_unusable():
            secure_files.make_folder(self._path)
            with secure_files.locked(self._path, self._limits.login_lock_seconds, LOGIN_POLL_SECONDS):
                secure_files.sweep(self._path)
                new = change(self._current())
                secure_files.replace(self._path, msgspec.json.encode(_File(VERSION, list(new.values()))))

    def _current(self) -> dict[str, Login]:
        """The logins in the file; a damaged file is moved aside."""
        if secure_files.check(self._path) is None:
            return {}
        try:
            return self._read()
        except _Damaged:
            aside = f"{self._path}.damaged"
            os.replace(self._path, aside)
            secure_files.warn_once("the stored logins are damaged and were set aside", aside, "not a file of logins")
            return {}


class KeyringStore:
    """Keeps each login as an entry in the keyring of the system."""

    is_slow = True

    def load(self, url: str) -> Login | None:
        text = _with_keyring(lambda keyring: keyring.get_password(SERVICE, url))
        if text is None:
            return None
        try:
            login = msgspec.json.decode(text, type=Login)
        except msgspec.DecodeError:
            raise Unusable("its entry in the keyring is damaged") from None
        return login if login.url == url else None

    def save(self, login: Login) -> None:
        _with_keyring(lambda keyring: keyring.set_password(SERVICE, login.url, msgspec.json.encode(login).decode()))

    def remove(self, url: str) -> None:
        def remove(keyring: Any) -> None:
            if keyring.get_password(SERVICE, url) is not None:
                keyring.delete_password(SERVICE, url)

        _with_keyring(remove)


def _with_keyring(question: Callable[[Any], T]) -> T:
    try:
        keyring: Any = import_module("keyring")  # an optional dependency
    except ImportError:
        raise Unusable("the package 'keyring' is not installed") from None
    try:
        return question(keyring)
    except Exception as error:  # noqa: BLE001 -- each backend has its own errors
        raise Unusable(f"the keyring can't be used ({type(error).__name__})") from None


@contextmanager
def _os_errors_as_unusable() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise Unusable(secure_files.reason(error)) from None
