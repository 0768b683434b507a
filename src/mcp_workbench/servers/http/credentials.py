"""The logins of this user: finds them by server, lets one process at a time renew them, and redacts their secrets.

If the store can't be used, the log says so once, and serving continues as if the store were empty.
`WORKBENCH_CREDENTIALS` names another file, or is `keyring`.
"""

# ruff: noqa: PTH111 -- importing pathlib takes longer than all of this

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from hashlib import sha256
from typing import Final

import msgspec

from mcp_workbench import logger
from mcp_workbench.config.locate import own_file
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.credential_stores import CredentialStore, FileStore, KeyringStore, Login
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import LOGIN_POLL_SECONDS, Busy, Unusable

LOGIN_TOKENS_HIDDEN = 20
"""How many superseded logins are still redacted in logs; older tokens have expired."""

__all__ = ["Busy", "Credentials", "Login", "Unusable", "credentials_path", "open_credentials"]

VARIABLE: Final = "WORKBENCH_CREDENTIALS"
KEYRING: Final = "keyring"
FILE_NAME: Final = "credentials"


def credentials_path(environ: Mapping[str, str]) -> str:
    """The path of the file of logins: `$WORKBENCH_CREDENTIALS`, or a file in the user's data folder."""
    named = environ.get(VARIABLE, "")
    if named and named != KEYRING:
        return os.path.expanduser(named)
    return own_file(environ, "data", FILE_NAME)


def open_credentials(environ: Mapping[str, str], limits: Limits) -> Credentials:
    """The logins of the user with this environment."""
    path = credentials_path(environ)
    in_keyring = environ.get(VARIABLE) == KEYRING
    store: CredentialStore = KeyringStore() if in_keyring else FileStore(path, limits)
    return Credentials(store, path, limits, name="the keyring" if in_keyring else path)


class Credentials:
    """The logins by the key of their server, see `authority.login_key`."""

    def __init__(self, store: CredentialStore, path: str, limits: Limits, *, name: str = "") -> None:
        """`path` is the prefix of the lock files that keep processes from renewing the same login at once."""
        self._store = store
        self._path = secure_files.located(path)
        self._limits = limits
        self.name = name or path
        """The name of the store in messages."""
        self._known: dict[str, Login | None] = {}
        self._superseded: deque[tuple[str, set[str]]] = deque()
        self._unsaved: dict[str, tuple[str, Login]] = {}

    async def find(self, url: str, *, fresh: bool = False) -> Login | None:
        """The login for a server, if there is one. `fresh`: read the store again even if it is slow."""
        try:
            if not self._store.is_slow:
                self._remember(url, self._store.load(url))
            elif fresh or self._known.get(url) is None:
                self._remember(url, await asyncio.to_thread(self._store.load, url))
        except Unusable as error:
            secure_files.warn_once("the stored logins can't be used", self.name, error)
            self._known[url] = None
        return self._newest(url, self._known[url])

    async def read(self, url: str) -> Login | None:
        """Read the login for a server from the store. Raises `Unusable`."""
        self._remember(url, await asyncio.to_thread(self._store.load, url))
        return self._known[url]

    async def save(self, login: Login) -> None:
        """Store a login. Raises `Unusable`."""
        self._remember(login.url, login)
        await asyncio.to_thread(self._store.save, login)
        self._unsaved.pop(login.url, None)

    async def replace(self, login: Login) -> None:
        """Store a new login of a person, so that no running renewal overwrites it. Raises `Unusable`."""
        async with self._locked_or_unusable(login.url):
            await self.save(login)

    async def forget(self, url: str) -> Login | None:
        """Remove a login, including a renewal that is running. Returns it. Raises `Unusable`."""
        async with self._locked_or_unusable(url):
            login = await self.read(url)
            if login is not None:
                await self.remove(url)
            return login

    async def add_missing_scopes(self, login: Login, scopes: str) -> None:
        """Record the scopes that a login lacks, for the next login. Raises `Unusable`."""
        async with self._locked_or_unusable(login.url):
            current = await self.find(login.url, fresh=True)
            if current is not None and current.access_token == login.access_token:
                await self.save(msgspec.structs.replace(current, wanted=scopes))

    async def renew(self, old: Login, new: Login) -> None:
        """Store a renewed login. If the store can't be used, keep it as long as this process lives."""
        try:
            await self.save(new)
        except Unusable as error:
            stored, _ = self._unsaved.get(new.url, (old.access_token, old))
            self._unsaved[new.url] = (stored, new)
            secure_files.warn_once(
                "a renewed login can't be stored; a new login will be needed after a restart", self.name, error
            )

    async def remove(self, url: str) -> None:
        """Remove a login. Raises `Unusable`."""
        self._known.pop(url, None)
        self._unsaved.pop(url, None)
        await asyncio.to_thread(self._store.remove, url)

    @contextlib.asynccontextmanager
    async def locked(self, url: str) -> AsyncGenerator[None]:
        """Keep other processes from renewing this login during the block. Raises `Busy` if one takes too long.

        If files can't be locked, log that and go on without a lock.
        """
        try:
            descriptor = await self._lock(url)
        except (OSError, Unusable) as error:
            secure_files.warn_once(
                "logins are renewed without a lock against other processes", self.name, secure_files.reason(error)
            )
            descriptor = None
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @contextlib.asynccontextmanager
    async def _locked_or_unusable(self, url: str) -> AsyncGenerator[None]:
        """Like `locked`, but raises `Unusable` if the file can't be locked."""
        try:
            descriptor = await self._lock(url)
        except Busy as error:
            raise Unusable(str(error)) from None
        except OSError as error:
            raise Unusable(secure_files.reason(error)) from None
        try:
            yield
        finally:
            os.close(descriptor)

    async def _lock(self, url: str) -> int:
        """Take the lock of a login and return its descriptor. Raises `Busy`, `Unusable` or `OSError`."""
        path = f"{self._path}.{sha256(url.encode()).hexdigest()[:16]}.lock"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.login_lock_seconds
        secure_files.make_folder(path)
        while (descriptor := secure_files.lock(path)) is None:
            if loop.time() >= deadline:
                raise Busy("another process has been renewing this login for too long")
            await asyncio.sleep(LOGIN_POLL_SECONDS)
        return descriptor

    def _remember(self, url: str, login: Login | None) -> None:
        """Redact the secrets of a login from now on. Those of its predecessors stay redacted for a while."""
        before, self._known[url] = self._known.get(url), login
        if login is None or login is before:
            return
        logger.log.redact.hide(login.secrets)
        if before is not None:
            self._superseded.append((url, set(before.secrets)))
        if len(self._superseded) > LOGIN_TOKENS_HIDDEN:
            replaced, secrets = self._superseded.popleft()
            current = self._known.get(replaced)
            logger.log.redact.forget(secrets - set(current.secrets if current else ()))

    def _newest(self, url: str, stored: Login | None) -> Login | None:
        """The unsaved renewal of a login, until another login is stored."""
        if url not in self._unsaved:
            return stored
        replaced, login = self._unsaved[url]
        if stored is not None and stored.access_token == replaced:
            return login
        del self._unsaved[url]
        return stored
