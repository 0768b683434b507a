"""Adapter for the OAuth client of the SDK. Only this module uses it; importing it imports `mcp`, see `login.py`.

The SDK does discovery, registration, PKCE, the checks of issuer and resource, and builds all requests. We send them
(`Authority`), ask the person (`Ask`), and store the result: `Login` includes the endpoints, which the SDK would
otherwise discover again after a restart.

On failure the SDK logs whole responses and states. So its logger is disabled, and its errors are replaced by our own.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import (
    build_protected_resource_metadata_discovery_urls,
    create_oauth_metadata_request,
    extract_scope_from_www_auth,
    handle_protected_resource_response,
    union_scopes,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from pydantic import AnyHttpUrl, AnyUrl

from mcp_workbench import logger
from mcp_workbench.command_errors import LoginFailed, LoginRefused
from mcp_workbench.config.model import OAuthClient
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.authority import Authority, check_address, login_key, origin_text
from mcp_workbench.servers.http.client_login import AccessToken
from mcp_workbench.servers.http.credential_stores import Login
from mcp_workbench.servers.http.status_errors import TOO_MANY, UNAUTHORIZED
from mcp_workbench.wire import eras
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS, MODERN_VERSIONS

LOGIN_MARGIN_SHARE = 0.2
"""A token is renewed this share of its lifetime before it expires, if that is less than `login_margin_seconds`."""

logging.getLogger("mcp.client.auth.oauth2").disabled = True

CLIENT_NAME = "MCP Workbench"
_SUCCESS = range(200, 300)
REFUSALS = ("invalid_grant", "invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_target")
"""Errors of RFC 6749 and RFC 8707 with which a token endpoint refuses for good."""
_SENDABLE = r"[\x21-\x7e]+"
"""The characters that a token may contain."""


class _Probe(NamedTuple):
    """A request that a server answers with a challenge if it requires a login."""

    method: str
    version: str
    params: dict[str, Any]

    def request(self, server: httpx2.URL) -> httpx2.Request:
        body = {"jsonrpc": "2.0", "id": 1, "method": self.method, "params": self.params}
        headers = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": self.version,
            "mcp-method": self.method,
        }
        return httpx2.Request("POST", server, content=msgspec.json.encode(body), headers=headers)


_MODERN, _HANDSHAKE = MODERN_VERSIONS[-1], HANDSHAKE_VERSIONS[-1]
_ENVELOPE = {eras.PROTOCOL_VERSION: _MODERN, eras.CLIENT_INFO: eras.SELF, eras.CLIENT_CAPABILITIES: {}}
_GREETING = {"protocolVersion": _HANDSHAKE, "capabilities": {}, "clientInfo": eras.SELF}
PROBES = (
    _Probe("server/discover", _MODERN, {"_meta": _ENVELOPE}),
    _Probe("initialize", _HANDSHAKE, _GREETING),
)
"""What `serve` sends first. A server of one era may refuse the other's request before it looks at credentials."""


class AuthorizationResponse(NamedTuple):
    """The parameters with which the browser returned. Its state was already checked."""

    code: str
    iss: str | None = None


Ask = Callable[[str, str], Awaitable[AuthorizationResponse]]
"""Has a person log in at an address that carries this state. Raises `LoginFailed`."""


class LoginEnded(Exception):
    """The authorization server does not renew the login: it has ended."""


class _MemoryStorage:
    """The SDK's `TokenStorage`, in memory, for the time of a login."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self._client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Raises `LoginFailed` for a token that can't be sent."""
        logger.log.redact.hide(filter(None, (tokens.access_token, tokens.refresh_token)))
        if not re.fullmatch(_SENDABLE, tokens.access_token):
            raise LoginFailed("the authorization server issued a token that is not valid")
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        logger.log.redact.hide(filter(None, (client_info.client_secret,)))
        self._client = client_info


class _Provider(OAuthClientProvider):
    """The SDK's provider, for one login or one renewal."""

    async def _exchange_token_authorization_code(self, auth_code: str, code_verifier: str) -> httpx2.Request:
        logger.log.redact.hide((auth_code, code_verifier))
        client, metadata = self.context.client_info, self.context.oauth_metadata
        if client is not None and client.client_secret and client.token_endpoint_auth_method is None:
            client.token_endpoint_auth_method = _secret_method(metadata)
        return _with_redaction(await super()._exchange_token_authorization_code(auth_code, code_verifier))

    def login(self, url: str, tokens: OAuthToken, limits: Limits) -> Login:
        """The login to store."""
        context = self.context
        client, metadata = context.client_info, context.oauth_metadata
        if client is None:
            raise LoginFailed("the login has no registered client")
        revocation = metadata.revocation_endpoint if metadata else None
        return Login(
            url=url,
            issuer=str(metadata.issuer) if metadata else context.get_authorization_base_url(url),
            resource=context.get_resource_url(),
            token_endpoint=self._get_token_endpoint(),
            revocation_endpoint=str(revocation) if revocation else "",
            client_id=client.client_id,
            client_secret=client.client_secret or "",
            client_auth=client.token_endpoint_auth_method or "none",
            access_token=tokens.access_token,
            refresh_token=tokens.refresh_token or "",
            scope=tokens.scope or "",
            renew_at=_renew_at(tokens, limits),
        )

    async def refresh_request(self) -> httpx2.Request:
        return await self._refresh_token()

    async def refreshed(self, response: httpx2.Response) -> OAuthToken | None:
        """The new tokens; None if the response has none."""
        return self.context.current_tokens if await self._handle_refresh_response(response) else None


class _SecretProvider(ClientCredentialsOAuthProvider):
    """The SDK's provider for a client with a secret, sent by a method that the authorization server supports."""

    async def _exchange_token_client_credentials(self) -> httpx2.Request:
        if self.context.client_info is not None:
            self.context.client_info.token_endpoint_auth_method = _secret_method(self.context.oauth_metadata)
        return _with_redaction(await super()._exchange_token_client_credentials())


def _with_redaction(request: httpx2.Request) -> httpx2.Request:
    """The same request; registers its Basic credentials as a secret, since an authorization server may repeat them."""
    logger.log.redact.hide((request.headers.get("authorization", "").removeprefix("Basic "),))
    return request


def _secret_method(metadata: OAuthMetadata | None) -> Literal["client_secret_basic", "client_secret_post"]:
    """How a client authenticates with its secret."""
    known = (metadata and metadata.token_endpoint_auth_methods_supported) or ["client_secret_basic"]
    return "client_secret_basic" if "client_secret_basic" in known else "client_secret_post"


# -- client credentials


async def client_token(authority: Authority, client: OAuthClient, limits: Limits) -> AccessToken:
    """Fetch a token with client credentials. Raises `LoginRefused`, or `LoginFailed` if it may work later."""
    storage = _MemoryStorage(None)
    assertions: list[str] = []
    try:
        return await _client_token(authority, client, storage, assertions, limits)
    finally:
        logger.log.redact.forget(assertions)  # each login signs a new one, and errors are already redacted


async def _client_token(
    authority: Authority, client: OAuthClient, storage: _MemoryStorage, assertions: list[str], limits: Limits
) -> AccessToken:
    provider = _client_provider(str(authority.server), client, storage, assertions)
    scopes, request = _Scopes(client.scopes, None), _requests(authority)[0]
    status = await _run_flow(provider, authority, scopes, request)
    if storage.tokens is None:  # the server may require a login only for its tools
        status = await _run_flow(provider, authority, scopes, request, is_refused=True)
    if storage.tokens is None:
        raise LoginFailed("the authorization server issued no token")
    if status == UNAUTHORIZED[0]:
        raise LoginRefused(f"the server refuses the new token (HTTP {status})")
    seconds = _good_for_seconds(storage.tokens, limits)
    renew_at = time.monotonic() + seconds if seconds is not None else None
    return AccessToken(storage.tokens.access_token, storage.tokens.scope or "", renew_at)


def _client_provider(
    url: str, client: OAuthClient, storage: _MemoryStorage, assertions: list[str]
) -> OAuthClientProvider:
    """The SDK's provider for the configured credentials. It appends the assertions that it signs to `assertions`."""
    if client.client_secret:
        return _SecretProvider(url, storage, client.client_id, client.client_secret, issuer=client.issuer)
    signed = SignedJWTParameters(
        issuer=client.client_id,
        subject=client.client_id,
        signing_key=client.private_key,
        signing_algorithm=client.signing_algorithm,
    )
    sign = signed.create_assertion_provider()

    async def assertion(audience: str) -> str:
        assertions.append(await sign(audience))
        logger.log.redact.hide(assertions)
        return assertions[-1]

    return PrivateKeyJWTOAuthProvider(url, storage, client.client_id, assertion, issuer=client.issuer)


# -- a new login


async def log_in(
    authority: Authority,
    client: OAuthClient,
    redirect_uri: str,
    ask: Ask,
    limits: Limits,
    *,
    before: Login | None = None,
) -> Login | None:
    """Log a person in; None if the server requires no login. `before` is the present login. Raises `LoginFailed`."""
    state = ""

    async def redirect(address: str) -> None:
        nonlocal state
        check_address(httpx2.URL(address), authority.server)
        state = parse_qs(urlsplit(address).query).get("state", [""])[-1]
        if not state:
            raise LoginFailed("the address of the authorization server's page has no state")
        returned.append(await ask(address, state))

    async def callback() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=returned[0].code, state=state, iss=returned[0].iss)

    returned: list[AuthorizationResponse] = []
    url = str(authority.server)
    storage = _MemoryStorage(_configured(client, redirect_uri))
    metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(redirect_uri)], client_name=CLIENT_NAME)
    provider = _Provider(url, metadata, storage, redirect, callback)
    status = await _probe(provider, authority, storage, _Scopes(client.scopes, before))
    if storage.tokens is None:
        if status in UNAUTHORIZED:
            raise LoginFailed(f"the server refuses the request without offering a login (HTTP {status})")
        return None
    if status in UNAUTHORIZED:
        raise LoginFailed(f"the server refuses the login that it required (HTTP {status})")
    return provider.login(login_key(url, client), storage.tokens, limits)


async def _probe(provider: _Provider, authority: Authority, storage: _MemoryStorage, scopes: _Scopes) -> int:
    """Provoke a challenge and log in, if the server requires a login. Returns the last status."""
    statuses: list[int] = []
    for request in (requests := _requests(authority)):
        statuses.append(status := await _run_flow(provider, authority, scopes, request))
        if storage.tokens is not None or status in UNAUTHORIZED:
            return status
    if await _offers_logins(authority):  # it may require a login only for its tools
        return await _run_flow(provider, authority, scopes, requests[-1], is_refused=True)
    if not any(status in _SUCCESS for status in statuses):
        raise LoginFailed(
            f"the server does not say whether it requires a login: it refuses the requests (HTTP {statuses[-1]})",
            hint="Check its url.",
        )
    return statuses[-1]


def _requests(authority: Authority) -> list[httpx2.Request]:
    """Requests that a server answers with a challenge if it requires a login."""
    if authority.is_old:
        return [httpx2.Request("GET", authority.server, headers={"accept": "text/event-stream"})]
    return [probe.request(authority.server) for probe in PROBES]


async def _offers_logins(authority: Authority) -> bool:
    """Whether a server that answers without a login announces an authorization server."""
    url = str(authority.server)
    for place in build_protected_resource_metadata_discovery_urls(None, url):
        with _translate_errors(authority.server):
            found = await handle_protected_resource_response(await authority.send(create_oauth_metadata_request(place)))
            if found is not None:
                asked = resource_url_from_server_url(url)
                return check_resource_allowed(requested_resource=asked, configured_resource=str(found.resource))
    return False


def _configured(client: OAuthClient, redirect_uri: str) -> OAuthClientInformationFull | None:
    if not client.client_id:
        return None
    return OAuthClientInformationFull(
        client_id=client.client_id,
        client_secret=client.client_secret or None,
        token_endpoint_auth_method=None if client.client_secret else "none",
        redirect_uris=[AnyUrl(redirect_uri)],
    )


async def _run_flow(
    provider: OAuthClientProvider,
    authority: Authority,
    scopes: _Scopes,
    request: httpx2.Request,
    *,
    is_refused: bool = False,
) -> int:
    """Run the SDK's flow for a request. Returns the last status of the server's response to it.

    With `is_refused`, act as if the server had required a login.
    """
    flow = provider.async_auth_flow(request)
    status = 0
    try:
        outgoing = await anext(flow)
        while True:
            if is_refused:
                response, is_refused = httpx2.Response(UNAUTHORIZED[0], request=request), False
            else:
                send = authority.ask_server if outgoing is request else authority.send
                response = await send(outgoing)
            if outgoing is request:
                status = response.status_code
                scopes.add_to(response)
                await _end_session(authority, request, response)
            _raise_refusal(outgoing, response)
            with _translate_errors(outgoing.url, response.status_code):
                outgoing = await flow.asend(response)
    except StopAsyncIteration:
        return status
    finally:
        await flow.aclose()


@contextlib.contextmanager
def _translate_errors(url: httpx2.URL, status: int = 0) -> Generator[None]:
    """Turn errors of the SDK into `LoginFailed`. Their texts may repeat tokens and secrets, so most are dropped."""
    try:
        yield
    except (LoginFailed, StopAsyncIteration):
        raise
    except OAuthRegistrationError:
        raise LoginFailed(f"{origin_text(url)} did not register a usable client (HTTP {status})") from None
    except OAuthTokenError:
        raise LoginFailed(f"{origin_text(url)} issued no usable token (HTTP {status})") from None
    except OAuthFlowError as error:
        raise LoginFailed(f"the login failed: {logger.foreign(str(error))}") from None
    except Exception as error:  # noqa: BLE001 -- a response can be anything, and the SDK may fail in any way
        raise LoginFailed(f"the login failed: {type(error).__name__}") from None


class _Scopes:
    """The scopes to request, unless the server decides."""

    def __init__(self, configured: tuple[str, ...], before: Login | None) -> None:
        self._configured = " ".join(configured)
        self._more = union_scopes(before.scope, before.wanted) if before is not None and before.wanted else None

    def add_to(self, response: httpx2.Response) -> None:
        """Put the scopes into a challenge: the configured ones, else the present and the missing ones."""
        if response.status_code not in UNAUTHORIZED or not (self._configured or self._more):
            return
        scope = self._configured or union_scopes(self._more, extract_scope_from_www_auth(response))
        said = response.headers.get("www-authenticate", "")
        response.headers["www-authenticate"] = f'Bearer scope="{scope}", {said}'  # the first one counts


async def _end_session(authority: Authority, request: httpx2.Request, response: httpx2.Response) -> None:
    """End a session that the server opened, which we don't need."""
    if response.is_success and (session := response.headers.get("mcp-session-id")):
        headers = {"mcp-session-id": session, "mcp-protocol-version": _HANDSHAKE}
        if "authorization" in request.headers:
            headers["authorization"] = request.headers["authorization"]
        try:
            await authority.send(httpx2.Request("DELETE", authority.server, headers=headers), with_body=False)
        except LoginFailed as error:
            logger.debug("a session was left to expire", reason=str(error))


def _raise_refusal(request: httpx2.Request, response: httpx2.Response) -> None:
    """Raise an error response of RFC 6749, with only its code and description: the rest may repeat a secret."""
    if request.method != "POST" or response.is_success or not (problem := _problem(response)):
        return
    is_passing = response.is_server_error or response.status_code == TOO_MANY
    failure = LoginFailed if is_passing else LoginRefused
    raise failure(f"{origin_text(request.url)} refused the login: {problem}")


def _problem(response: httpx2.Response) -> str:
    try:
        members: Any = msgspec.json.decode(response.content)
        told = [members[name] for name in ("error", "error_description") if members.get(name)]
    except (ValueError, AttributeError, RecursionError):
        return ""
    return logger.foreign(": ".join(map(str, told)))


# -- using a stored login


async def renew(authority: Authority, login: Login, limits: Limits) -> Login:
    """Renew a login. Raises `LoginEnded`, or `LoginFailed` if it may work later."""
    provider = _provider(login)
    response = await authority.send(await provider.refresh_request())
    if not response.is_success and _problem(response).partition(": ")[0] in REFUSALS:
        raise LoginEnded
    url = httpx2.URL(login.token_endpoint)
    with _translate_errors(url, response.status_code):
        tokens = await provider.refreshed(response) if response.is_success else None
    if tokens is None:
        where = origin_text(url)
        raise LoginFailed(f"{where} did not renew the login (HTTP {response.status_code})")
    return msgspec.structs.replace(
        login,
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or "",
        scope=tokens.scope or "",
        renew_at=_renew_at(tokens, limits),
    )


async def revoke(authority: Authority, login: Login) -> bool:
    """Revoke the tokens of a login. Returns whether the server confirmed it. Raises `LoginFailed`."""
    done = bool(login.revocation_endpoint)
    for kind in ("refresh_token", "access_token") if done else ():
        token = getattr(login, kind)
        if token:
            data = {"token": token, "token_type_hint": kind, "client_id": login.client_id}
            data, headers = _provider(login).context.prepare_token_auth(data, {})
            request = httpx2.Request("POST", login.revocation_endpoint, data=data, headers=headers)
            done &= (await authority.send(request)).is_success
    return done


def _provider(login: Login) -> _Provider:
    """The SDK's provider, restored from a stored login."""
    client = OAuthClientInformationFull(
        client_id=login.client_id,
        client_secret=login.client_secret or None,
        token_endpoint_auth_method=login.client_auth,
        issuer=login.issuer,
    )
    provider = _Provider(
        login.url, OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1/")]), _MemoryStorage(client)
    )
    context = provider.context
    context.client_info = client
    context.current_tokens = OAuthToken(
        access_token=login.access_token, refresh_token=login.refresh_token or None, scope=login.scope or None
    )
    issuer, endpoint = AnyHttpUrl(login.issuer), AnyHttpUrl(login.token_endpoint)
    context.oauth_metadata = OAuthMetadata(issuer=issuer, authorization_endpoint=endpoint, token_endpoint=endpoint)
    context.protocol_version = _MODERN
    if login.resource:
        context.protected_resource_metadata = ProtectedResourceMetadata(
            resource=AnyHttpUrl(login.resource), authorization_servers=[issuer]
        )
    return provider


def _renew_at(tokens: OAuthToken, limits: Limits) -> float | None:
    """The wall-clock time at which a token is renewed; None if it does not expire."""
    seconds = _good_for_seconds(tokens, limits)
    return time.time() + seconds if seconds is not None else None


def _good_for_seconds(tokens: OAuthToken, limits: Limits) -> float | None:
    """The seconds until a token is renewed, a while before it expires; None if it does not expire."""
    if tokens.expires_in is None or tokens.expires_in <= 0:  # some servers mean that it never expires
        return None
    return tokens.expires_in - min(limits.login_margin_seconds, tokens.expires_in * LOGIN_MARGIN_SHARE)
