"""Tokens that the workbench fetches itself with client credentials (the OAuth 2 grant `client_credentials`).

Guarantees: no person is needed. All connections and calls of this process share one token. It is renewed before it
expires, or when the server refuses it. It stays in memory and goes only to the server's own origin; the credentials go
only to the configured issuer. The SDK is imported when the first token is fetched.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from http import HTTPStatus
from importlib import import_module
from typing import TypeAlias
from weakref import WeakValueDictionary

import httpx2
import msgspec

from mcp_workbench import logger
from mcp_workbench.command_errors import LoginFailed, LoginRefused
from mcp_workbench.config.model import Endpoint, OAuthClient
from mcp_workbench.errors import ClientRefused, Fault, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.authority import Authority, server_url
from mcp_workbench.servers.http.client import Auth, discard, is_same_origin, missing_scopes

LOGIN_PAUSE_SECONDS = 30.0
"""How long to wait after a failed early renewal. The server may accept the old token until then."""

_Key: TypeAlias = tuple[asyncio.AbstractEventLoop, str, str, OAuthClient]


class AccessToken(msgspec.Struct, frozen=True):
    """An access token, its scope, and when to renew it."""

    text: str
    scope: str = ""
    renew_at: float | None = None
    """When to renew it before use, on the clock of `time.monotonic()`; None if it does not expire."""

    def __repr__(self) -> str:
        return "Token(...)"


class AccessTokens:
    """The token of one client at one server."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self._endpoint = endpoint
        self._limits = limits
        self._token: AccessToken | None = None
        self._before: AccessToken | None = None
        self._lock = asyncio.Lock()
        self._failures = 0
        self._fault: Fault | None = None
        self._pauses_until = 0.0

    async def current(self) -> AccessToken:
        """The token; fetched if there is none, renewed if it is about to expire. Raises a `Fault`."""
        token = self._token
        if token is None:
            return await self.renew(None)
        is_due = token.renew_at is not None and time.monotonic() >= token.renew_at
        if is_due and time.monotonic() >= self._pauses_until:
            try:
                return await self.renew(token)
            except Fault as fault:
                # The old token may still be valid: no call should wait for an authorization server that is down.
                self._pauses_until = time.monotonic() + LOGIN_PAUSE_SECONDS
                logger.debug("a token could not be renewed in time", code=fault.code, reason=str(fault))
        return token

    async def renew(self, stale: AccessToken | None) -> AccessToken:
        """A token other than `stale`. Concurrent callers share one attempt, and its failure."""
        failures = self._failures
        async with self._lock:
            if self._token is not None and self._token is not stale:
                return self._token
            if self._fault is not None and self._failures != failures:
                raise self._fault
            try:
                token = await _fetch(self._endpoint, self._limits)
            except Fault as fault:
                self._fault = fault
                self._failures += 1
                raise
            self._keep(token)
            return token

    def _keep(self, token: AccessToken) -> None:
        """Use this token from now on. Its predecessor may still be in flight; older ones need no redaction any more."""
        if self._before is not None:
            logger.log.redact.forget({self._before.text} - {token.text})
        self._before, self._token = self._token, token


_shared: WeakValueDictionary[_Key, AccessTokens] = WeakValueDictionary()
"""The tokens of this process, kept while a connection uses them."""


def client_login(endpoint: Endpoint, limits: Limits) -> ClientLogin:
    """The `Auth` for client credentials. All connections of one OAuth client to one server share its token."""
    key = (asyncio.get_running_loop(), endpoint.url, endpoint.transport, endpoint.oauth)
    tokens = _shared.setdefault(key, AccessTokens(endpoint, limits))
    return ClientLogin(endpoint, tokens)


async def load_oauth() -> None:
    """Import the module that uses the SDK, without blocking the event loop: it takes most of a second."""
    await asyncio.to_thread(import_module, "mcp_workbench.servers.http.oauth")


async def _fetch(endpoint: Endpoint, limits: Limits) -> AccessToken:
    """Fetch a new token. Raises `ClientRefused`, or `ServerUnavailable` if it may work later."""
    await load_oauth()
    from mcp_workbench.servers.http import oauth  # noqa: PLC0415 -- loaded in a thread

    try:
        async with Authority(endpoint, limits) as authority:
            return await oauth.client_token(authority, endpoint.oauth, limits)
    except LoginRefused as error:
        raise ClientRefused(f"its client credentials are refused: {error}") from None
    except LoginFailed as error:
        why = f"its login with client credentials failed: {error}"
        hint = "If this persists, check issuer and privateKey in its oauth."
        raise ServerUnavailable(why, kind="login", hint=hint) from None


class ClientLogin(Auth):
    """Adds our access token to the requests to one server."""

    def __init__(self, endpoint: Endpoint, tokens: AccessTokens) -> None:
        self._url = server_url(endpoint)
        self._tokens = tokens

    def __repr__(self) -> str:
        return "ClientLogin(...)"

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Raises `ClientRefused`, or `ServerUnavailable` if no token can be fetched at the moment."""
        if not is_same_origin(request.url, self._url):
            yield request
            return
        token = await self._tokens.current()
        response = yield _signed(request, token)
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            await discard(response)
            response = yield _signed(request, await self._tokens.renew(token))
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            raise ClientRefused("the server refuses the token that its authorization server issued")
        if (scopes := missing_scopes(response)) is not None:
            shown = f" ({logger.foreign(scopes)})" if scopes else ""
            raise ClientRefused(f"the server requires more scopes{shown}", hint="Add them to scopes in its oauth.")


def _signed(request: httpx2.Request, token: AccessToken) -> httpx2.Request:
    request.headers["authorization"] = f"Bearer {token.text}"
    return request
