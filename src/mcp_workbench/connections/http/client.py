"""One remote server's HTTP client, with its guards.

Redirects are followed within the server's own origin only, and only where they keep the method, so what is
sent to a server never reaches another one. Certificates are checked. Proxies and credentials of the environment
are not used. There is no read timeout: the deadlines of calls decide.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

import httpcore2
import httpx2

from mcp_workbench.config.model import Endpoint
from mcp_workbench.connections.http.dial import Dial, Resolve, is_loopback, resolve
from mcp_workbench.connections.http.refusals import by_error
from mcp_workbench.errors import DownstreamUnavailable, InsecureTransport
from mcp_workbench.limits import Limits

if TYPE_CHECKING:
    import ssl

_KEEPING_METHOD: Final = (307, 308)


@cache
def trusted() -> ssl.SSLContext:
    """What certificates are checked against; reading it takes time, and every server has the same."""
    return httpx2.create_ssl_context(verify=True, trust_env=True)


class Client:
    """Makes requests to one remote server, and to no other."""

    def __init__(
        self, endpoint: Endpoint, limits: Limits, *, auth: httpx2.Auth | None = None, resolve: Resolve = resolve
    ) -> None:
        """Raises `InsecureTransport` where credentials would be readable on their way."""
        self.url = httpx2.URL(endpoint.url)
        self._headers = [(name.encode(), value.encode()) for name, value in endpoint.headers.items()]
        self._limits = limits
        is_plain = self.url.scheme == "http"
        is_secret = bool(endpoint.headers or auth is not None or self.url.userinfo)
        if is_plain and is_secret and not endpoint.allow_insecure and not is_loopback(self.url.host):
            raise InsecureTransport("its credentials would be sent over http, where everybody on the way can read them")
        stays_here = is_plain and is_secret and not endpoint.allow_insecure
        dial = Dial(self.url.host, stays_here=stays_here, resolve=resolve)
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
        """A request and its response, whose body is not read yet. Raises the `Fault` for what goes wrong in either."""
        try:
            response = await self._follow(method, url or self.url, headers, body)
            try:
                yield response
            finally:
                await response.aclose()
        except httpx2.HTTPError as error:
            raise by_error(error) from None
        except httpx2.InvalidURL:
            raise DownstreamUnavailable("its url is none", kind="dns", hint="Check its url.").unsent() from None

    async def _follow(
        self, method: str, url: httpx2.URL, headers: Mapping[str, str], body: bytes | None
    ) -> httpx2.Response:
        """The response after redirects that stay where they are; another redirect is the response."""
        sent = _merged([*self._headers, *((name.encode(), value.encode()) for name, value in headers.items())])
        followed = 0
        while True:
            request = self._client.build_request(method, url, headers=sent, content=body)
            response = await self._client.send(request, stream=True)
            there = response.next_request.url if response.next_request is not None else None
            keeps = response.status_code in _KEEPING_METHOD and followed < self._limits.redirects
            if not keeps or there is None or not is_within(there, self.url):
                return response
            await response.aclose()
            url = there
            followed += 1

    async def close(self) -> None:
        await self._client.aclose()


def is_within(url: httpx2.URL, server: httpx2.URL) -> bool:
    """Whether an address that a server names is its own, and brings no credentials of another one."""
    return url.origin == server.origin and not url.userinfo


def _merged(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """One value for each name, the last: ours win over configured ones."""
    return list({name.lower(): (name, value) for name, value in headers}.values())


class Transport(httpx2.AsyncHTTPTransport):
    """httpx2's own, with connections made by `Dial`."""

    def __init__(self, dial: Dial, limits: Limits) -> None:
        super().__init__(verify=trusted(), trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=trusted(),
            max_connections=None,  # the slots of the server bound the calls
            max_keepalive_connections=limits.idle_connections,
            keepalive_expiry=limits.idle_connection_seconds,
            network_backend=dial,
        )
