"""The guarded HTTP client of one remote server.

It follows redirects only within the server's own origin, and only if they keep the method, so a request never reaches
another server. It checks certificates, and ignores proxies and credentials in the environment. There is no read
timeout: the deadlines of calls decide.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Generator, Mapping
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpcore2
import httpx2

from mcp_workbench.config.model import Endpoint
from mcp_workbench.errors import InsecureTransport, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.network_guard import Dialer, Resolve, expecting_head, is_loopback, resolve
from mcp_workbench.servers.http.response_body import read_refusal
from mcp_workbench.servers.http.status_errors import ServerUnreachable, fault_for_error
from mcp_workbench.wire.fairness import FairShare

if TYPE_CHECKING:
    import ssl

COOKIE_BYTES = 8192
"""The most bytes of cookies of one server; most servers refuse longer headers."""
IDLE_CONNECTIONS = 8
"""Idle connections to one server that are kept for the next call."""
IDLE_CONNECTION_SECONDS = 15.0
"""How long they are kept: many servers and load balancers close theirs after 60 s, some after 20."""
STREAM_END_SECONDS = 1.0
"""How long to wait for the end of a stream after its answer, so that the connection can be reused."""

KEEPING_METHOD: Final = (307, 308)
_LITTLE: Final = 3
"""The most digits in the content length of a body that is short enough to read and discard."""


@cache
def tls_context() -> ssl.SSLContext:
    """The TLS context of all servers, cached: reading the certificates takes time."""
    return httpx2.create_ssl_context(verify=True, trust_env=True)


class Auth(httpx2.Auth):
    """Adds credentials to requests."""

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response]:
        raise RuntimeError("only an asynchronous client can look up credentials")
        yield request

    async def wait_finished(self) -> None:
        """Wait for a running renewal, whose outcome would otherwise be lost."""


def missing_scopes(response: httpx2.Response) -> str | None:
    """The scopes that a refusal names as missing, perhaps none; None if it was refused for another reason."""
    challenge = response.headers.get("www-authenticate", "")
    if response.status_code != HTTPStatus.FORBIDDEN or "insufficient_scope" not in challenge:
        return None
    named = re.search(r'\bscope="([^"]{1,200})"', challenge)
    return named[1] if named else ""


async def discard(response: httpx2.Response) -> None:
    """Discard the body of a refusal, since httpx2 would read all of it, of any length, before the next request."""
    await response.aclose()
    response._content = b""  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] -- there is no other way to mark it as read


class HttpClient:
    """Sends requests to one remote server, and to no other."""

    def __init__(
        self, endpoint: Endpoint, limits: Limits, *, auth: Auth | None = None, resolve: Resolve = resolve
    ) -> None:
        """Raises `InsecureTransport` if credentials would be sent unencrypted."""
        self.url = httpx2.URL(endpoint.url)
        self._headers = [(name.encode(), value.encode()) for name, value in endpoint.headers.items()]
        self._limits = limits
        self._auth = auth
        self.share = FairShare()
        is_plain = self.url.scheme == "http"
        is_secret = bool(endpoint.headers or auth is not None or self.url.userinfo)
        if is_plain and is_secret and not endpoint.allow_insecure and not is_loopback(self.url.host):
            raise InsecureTransport("its credentials would be sent over http, where anyone on the way can read them")
        stays_here = is_plain and is_secret and not endpoint.allow_insecure
        dial = Dialer(self.url.host, stays_here=stays_here, resolve=resolve)
        self._client = httpx2.AsyncClient(
            transport=Transport(dial, limits),
            auth=auth,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(None, connect=limits.connect_seconds),
            headers={"user-agent": "mcp-workbench", "accept-encoding": "gzip, deflate"},
        )

    @contextlib.asynccontextmanager
    async def exchange(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, *, url: httpx2.URL | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        """Send a request and yield the response, whose body is not read yet. Raises a `Fault` if either fails."""
        try:
            response = await self._follow(method, url or self.url, headers, body)
            try:
                yield response
                await self._drained(response)
            finally:
                await response.aclose()
        except httpx2.HTTPError as error:
            raise fault_for_error(error) from None
        except httpx2.InvalidURL:
            raise ServerUnreachable("its url is not valid", kind="dns", hint="Check its url.") from None

    async def _follow(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes | None
    ) -> httpx2.Response:
        """The response after redirects within the origin. Any other redirect is itself the response."""
        ours = ((name.encode(), value.encode()) for name, value in headers.items())
        # One value for each name, the last: ours override configured ones.
        sent = list({name.lower(): (name, value) for name, value in (*self._headers, *ours)}.values())
        followed = 0
        while True:
            request = self._client.build_request(method, url, headers=sent, content=body)
            response = await self._answer(request)
            there = response.next_request.url if response.next_request is not None else None
            keeps = response.status_code in KEEPING_METHOD and followed < self._limits.redirects
            if not keeps or there is None or not is_within(there, self.url):
                return response
            await response.aclose()
            url = there
            followed += 1

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._client.send(request, stream=True)
        except httpx2.InvalidURL:  # of a redirect
            raise ServerUnavailable(
                "it redirects to an invalid address", kind="redirect", hint="Check its url in the configuration."
            ) from None
        if "set-cookie" in response.headers:
            self._bound_cookies()
        return response

    def _bound_cookies(self) -> None:
        """Drop all cookies of a server that sets too many."""
        jar = self._client.cookies.jar
        if sum(len(cookie.name) + len(cookie.value or "") for cookie in jar) > COOKIE_BYTES:
            jar.clear()

    async def _drained(self, response: httpx2.Response) -> None:
        """Read the rest of a short response, so that its connection can be reused."""
        length = response.headers.get("content-length", "")
        is_little = length.isdecimal() and len(length) <= _LITTLE
        is_note = response.status_code == HTTPStatus.ACCEPTED and "transfer-encoding" in response.headers
        if response.is_stream_consumed or not (is_little or is_note):
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STREAM_END_SECONDS):
                await read_refusal(response, self.share)

    async def close(self) -> None:
        if self._auth is not None:
            await self._auth.wait_finished()
        await self._client.aclose()


def is_same_origin(one: httpx2.URL, other: httpx2.URL) -> bool:
    """Whether two addresses have the same origin. httpx2 has removed default ports."""
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def is_within(url: httpx2.URL, server: httpx2.URL) -> bool:
    """Whether an address from a server has its own origin and contains no credentials."""
    return is_same_origin(url, server) and not url.userinfo


class Transport(httpx2.AsyncHTTPTransport):
    """The transport of httpx2, with connections from `Dialer` and a bounded response head."""

    def __init__(self, dial: Dialer, limits: Limits) -> None:
        super().__init__(verify=tls_context(), trust_env=False)
        self._limits = limits
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=tls_context(),
            max_connections=None,  # the slots of the server already bound the calls
            max_keepalive_connections=IDLE_CONNECTIONS,
            keepalive_expiry=IDLE_CONNECTION_SECONDS,
            network_backend=dial,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        with expecting_head():
            return await super().handle_async_request(request)
