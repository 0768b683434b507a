"""Logins while serving: sends stored tokens with requests and renews them in time.

Guarantees: it opens no browser and prompts nobody. If a login is needed, the request fails with `NeedsLogin`; after
`mcp-workbench auth` the next request uses the new login. A token is renewed once, however many calls and processes need
it, and goes only to the server's own origin. The SDK is imported when a token is renewed for the first time.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Final, NoReturn

import httpx2

from mcp_workbench import logger
from mcp_workbench.command_errors import LoginFailed
from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.errors import NeedsLogin, ServerUnavailable, login_command
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.authority import Authority, login_key, server_url
from mcp_workbench.servers.http.client import Auth, discard, is_same_origin, missing_scopes
from mcp_workbench.servers.http.client_login import LOGIN_PAUSE_SECONDS, client_login, load_oauth
from mcp_workbench.servers.http.credentials import Busy, Credentials, Login, Unusable, open_credentials
from mcp_workbench.servers.http.network_guard import is_loopback
from mcp_workbench.wire.background import BackgroundTasks

LOGIN_SCOPES_LENGTH = 1000
"""The most characters of missing scopes to collect from a server's refusals."""

_SCOPE_TOKENS: Final = r"[\x21\x23-\x5b\x5d-\x7e ]+"


def auth_for(server: ServerConfig, limits: Limits) -> Auth | None:
    """The `Auth` for a server.

    None if its configuration has credentials, or if a stored token would be sent unencrypted.
    """
    endpoint = server.target
    if not isinstance(endpoint, Endpoint) or has_own_credentials(endpoint):
        return None
    if endpoint.oauth.logs_in_itself:
        return client_login(endpoint, limits)
    if not is_private(endpoint):
        return None
    return StoredLogin(server, endpoint, open_credentials(os.environ, limits), limits)


def has_own_credentials(endpoint: Endpoint) -> bool:
    """Whether the configuration has an authorization header."""
    return any(name.lower() == "authorization" for name in endpoint.headers)


def is_private(endpoint: Endpoint) -> bool:
    """Whether a token may be sent to this endpoint."""
    url = httpx2.URL(endpoint.url)
    return url.scheme == "https" or endpoint.allow_insecure or is_loopback(url.host)


class StoredLogin(Auth):
    """Adds the token of a stored login to the requests to one server."""

    def __init__(self, server: ServerConfig, endpoint: Endpoint, credentials: Credentials, limits: Limits) -> None:
        self._server = server
        self._client = endpoint.oauth
        self._url = server_url(endpoint)
        self._credentials = credentials
        self._limits = limits
        self._pauses_until = 0.0
        self._renewals = Renewals(server, endpoint, credentials, limits)

    def __repr__(self) -> str:
        return "StoredLogin(...)"

    async def wait_finished(self) -> None:
        """Wait until a running renewal is stored: the authorization server may accept a refresh token only once."""
        await self._renewals.wait_finished()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Raises `NeedsLogin`, or `ServerUnavailable` if a login can't be renewed at the moment."""
        if not is_same_origin(request.url, self._url):
            yield request
            return
        login = await self._login()
        if login is not None:
            _sign(request, login)
        response = yield request
        if (scopes := missing_scopes(response)) is not None:
            await self._refuse_scope(scopes, login)
        if response.status_code != HTTPStatus.UNAUTHORIZED:
            return
        if login is None:
            if is_asked_to_log_in(response):
                raise self._login_needed()
            return
        await discard(response)
        _sign(request, await self._renewals.renew(login))
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            raise self._login_needed("the server refuses the stored login, and needs a new one")

    async def _login(self) -> Login | None:
        """The login, renewed if it is about to expire."""
        login = await self._credentials.find(login_key(str(self._url), self._client))
        if login is None:
            return None
        is_due = login.refresh_token and login.renew_at is not None and time.time() >= login.renew_at
        if is_due and time.monotonic() >= self._pauses_until:
            try:
                return await self._renewals.renew(login)
            except ServerUnavailable as fault:
                # The old token may still be valid: no call should wait for an authorization server that is down.
                self._pauses_until = time.monotonic() + LOGIN_PAUSE_SECONDS
                logger.debug("a login could not be renewed in time", server=self._server.identifier, reason=str(fault))
        return login

    async def _refuse_scope(self, scopes: str, login: Login | None) -> NoReturn:
        """Require a new login if the present one lacks scopes. `auth` then requests them."""
        is_noted = login is not None and not self._client.scopes and await self._store_missing_scopes(login, scopes)
        shown = f" ({logger.foreign(scopes)})" if scopes else ""
        where = "" if is_noted else "; see oauth.scopes"
        raise self._login_needed(f"the server needs a login with more scopes{shown}{where}")

    async def _store_missing_scopes(self, login: Login, scopes: str) -> bool:
        """Store the missing scopes of a login for `auth`. Returns whether that worked."""
        if not re.fullmatch(_SCOPE_TOKENS, scopes):
            return False
        wanted = " ".join(dict.fromkeys(f"{login.wanted} {scopes}".split()))
        if wanted == login.wanted:
            return True
        if len(wanted) > LOGIN_SCOPES_LENGTH:
            return False
        try:
            await self._credentials.add_missing_scopes(login, wanted)
        except Unusable as error:
            logger.debug(
                "the missing scopes of a login could not be stored", server=self._server.identifier, reason=str(error)
            )
            return False
        return True

    def _login_needed(self, why: str = "the server needs a login") -> NeedsLogin:
        return NeedsLogin(self._server.toolbox, self._server.name, why)


class Renewals:
    """Renews the login of one server, once for all concurrent callers."""

    def __init__(self, server: ServerConfig, endpoint: Endpoint, credentials: Credentials, limits: Limits) -> None:
        self._server = server
        self._endpoint = endpoint
        self._credentials = credentials
        self._limits = limits
        self._running = BackgroundTasks()
        self._tasks: dict[str, asyncio.Task[Login]] = {}

    async def wait_finished(self) -> None:
        """Wait for running renewals."""
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def renew(self, stale: Login) -> Login:
        """A login newer than `stale`. Cancelling a caller does not cancel the renewal: a token may work only once."""
        token = stale.access_token
        if token not in self._tasks:
            self._tasks[token] = self._running.start(self._renew(stale), name="renewal of a login")
        return await asyncio.shield(self._tasks[token])

    async def _renew(self, stale: Login) -> Login:
        try:
            async with self._credentials.locked(stale.url):
                login = await self._credentials.find(stale.url, fresh=True)
                if login is None:
                    raise NeedsLogin(self._server.toolbox, self._server.name)
                if login.access_token != stale.access_token:
                    return login  # another process has renewed it already
                return await self._renew_now(login)
        except (LoginFailed, Busy) as error:
            hint = f"If this persists, log in again: {login_command(self._server.toolbox, self._server.name)}"
            why = f"its login could not be renewed: {error}"
            raise ServerUnavailable(why, kind="login", counts=False, hint=hint) from None
        finally:
            del self._tasks[stale.access_token]

    async def _renew_now(self, login: Login) -> Login:
        if not login.refresh_token:
            self._raise_ended()
        await load_oauth()
        from mcp_workbench.servers.http import oauth  # noqa: PLC0415 -- loaded in a thread

        async with Authority(self._endpoint, self._limits) as authority:
            try:
                new = await oauth.renew(authority, login, self._limits)
            except oauth.LoginEnded:
                await self._forget(login)
                self._raise_ended()
        await self._credentials.renew(login, new)
        return new

    async def _forget(self, login: Login) -> None:
        """Remove a login that can't be renewed any more."""
        try:
            await self._credentials.remove(login.url)
        except Unusable as error:
            logger.debug("a login that ended could not be removed", server=self._server.identifier, reason=str(error))

    def _raise_ended(self) -> NoReturn:
        raise NeedsLogin(self._server.toolbox, self._server.name, "the login has ended, and the server needs a new one")


def is_asked_to_log_in(response: httpx2.Response) -> bool:
    """Whether a refusal asks for a bearer token."""
    challenges = response.headers.get_list("www-authenticate")
    return any(re.search(r"(?i)(?:^|,)\s*bearer\b", challenge) for challenge in challenges)


def _sign(request: httpx2.Request, login: Login) -> None:
    request.headers["authorization"] = f"Bearer {login.access_token}"
