"""The logins of this user: found for a server, renewed by one process at a time, and never shown.

A store that can't be used is told once, in the log, and is as if it was empty: serving goes on. `WORKBENCH_CREDENTIALS`
names another file, or is `keyring`.
"""

# ruff: noqa: PTH111 -- on the way to a first call, and importing pathlib takes longer than all of this

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
"""Earlier tokens of a server that are still kept out of logs; those before them ended long ago."""

__all__ = ["Busy", "Credentials", "Login", "Unusable", "credentials_path", "open_credentials"]

VARIABLE: Final = "WORKBENCH_CREDENTIALS"
KEYRING: Final = "keyring"
FILE_NAME: Final = "credentials"


def credentials_path(environ: Mapping[str, str]) -> str:
    """The file of logins: `$WORKBENCH_CREDENTIALS`, or one in the user's data folder."""
    named = environ.get(VARIABLE, "")
    if named and named != KEYRING:
        return os.path.expanduser(named)
    return own_file(environ, "data", FILE_NAME)


def open_credentials(environ: Mapping[str, str], limits: Limits) -> Credentials:
    """The logins of whoever has this environment."""
    path = credentials_path(environ)
    in_keyring = environ.get(VARIABLE) == KEYRING
    store: CredentialStore = KeyringStore() if in_keyring else FileStore(path, limits)
    return Credentials(store, path, limits, name="the keyring" if in_keyring else path)


class Credentials:
    """Logins by the address of their server."""

    def __init__(self, store: CredentialStore, path: str, limits: Limits, *, name: str = "") -> None:
        """`path` is where the files lie that keep processes from renewing the same login at once."""
        self._store = store
        self._path = secure_files.located(path)
        self._limits = limits
        self.name = name or path
        """What people know the store by."""
        self._known: dict[str, Login | None] = {}
        self._superseded: deque[tuple[str, set[str]]] = deque()
        self._unsaved: dict[str, tuple[str, Login]] = {}

    async def find(self, url: str, *, fresh: bool = False) -> Login | None:
        """The login for a server. `fresh`: also of a store that is slow to ask, as it is now."""
        try:
            if not self._store.is_slow:
                self._noticed(url, self._store.load(url))
            elif fresh or self._known.get(url) is None:
                self._noticed(url, await asyncio.to_thread(self._store.load, url))
        except Unusable as error:
            secure_files.warn_once("the stored logins can't be used", self.name, error)
            self._known[url] = None
        return self._newest(url, self._known[url])

    async def read(self, url: str) -> Login | None:
        """The login for a server, as it is now. Raises `Unusable` where that can't be told."""
        self._noticed(url, await asyncio.to_thread(self._store.load, url))
        return self._known[url]

    async def save(self, login: Login) -> None:
        """Keep it. Raises `Unusable`."""
        self._noticed(login.url, login)
        await asyncio.to_thread(self._store.save, login)
        self._unsaved.pop(login.url, None)

    async def replace(self, login: Login) -> None:
        """Keep one that a person made, and let no renewal of another one undo it. Raises `Unusable`."""
        async with self._undisturbed(login.url):
            await self.save(login)

    async def forget(self, url: str) -> Login | None:
        """Forget it, whatever it was renewed to until then; what that was. Raises `Unusable`."""
        async with self._undisturbed(url):
            login = await self.read(url)
            if login is not None:
                await self.remove(url)
            return login

    async def lacks(self, login: Login, scopes: str) -> None:
        """Note what a login was too little for, for the next one. Raises `Unusable`."""
        async with self._undisturbed(login.url):
            current = await self.find(login.url, fresh=True)
            if current is not None and current.access_token == login.access_token:
                await self.save(msgspec.structs.replace(current, wanted=scopes))

    async def renew(self, old: Login, new: Login) -> None:
        """Keep what one was renewed to; where that can't be, for as long as this process lives."""
        try:
            await self.save(new)
        except Unusable as error:
            stored, _ = self._unsaved.get(new.url, (old.access_token, old))
            self._unsaved[new.url] = (stored, new)
            secure_files.warn_once(
                "a renewed login can't be kept, and is asked for again after a restart", self.name, error
            )

    async def remove(self, url: str) -> None:
        """Forget it. Raises `Unusable`."""
        self._known.pop(url, None)
        self._unsaved.pop(url, None)
        await asyncio.to_thread(self._store.remove, url)

    @contextlib.asynccontextmanager
    async def alone(self, url: str) -> AsyncGenerator[None]:
        """No other process renews this login meanwhile. Raises `Busy` where another takes too long for it.

        Where files can't be locked it is done without, and told.
        """
        try:
            descriptor = await self._lock(url)
        except (OSError, Unusable) as error:
            secure_files.warn_once(
                "logins are renewed without regard to other processes", self.name, secure_files.reason(error)
            )
            descriptor = None
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    @contextlib.asynccontextmanager
    async def _undisturbed(self, url: str) -> AsyncGenerator[None]:
        """As `alone`, for what fails by itself where files can't be locked."""
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
        """Raises `Busy`, `Unusable` or `OSError`."""
        path = f"{self._path}.{sha256(url.encode()).hexdigest()[:16]}.lock"
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._limits.login_lock_seconds
        secure_files.make_folder(path)
        while (descriptor := secure_files.lock(path)) is None:
            if loop.time() >= deadline:
                raise Busy("another process has been renewing this login for too long")
            await asyncio.sleep(LOGIN_POLL_SECONDS)
        return descriptor

    def _noticed(self, url: str, login: Login | None) -> None:
        """What is secret from now on; the tokens before it are for a while."""
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
        """What could not be stored counts until somebody stores another."""
        if url not in self._unsaved:
            return stored
        replaced, login = self._unsaved[url]
        if stored is not None and stored.access_token == replaced:
            return login
        del self._unsaved[url]
        return stored
