"""HTTP client for authorization servers. Their addresses come from others, so each is checked before it is used.

Guarantees: it uses https, or plain http on this machine for a server that runs here, too. It follows no redirects of an
authorization server. It bounds the size and the time of a response. Every failure is a `LoginFailed` without secrets.
"""

from __future__ import annotations

import asyncio
from typing import Final, Self
from urllib.parse import quote

import httpx2

from mcp_workbench import logger
from mcp_workbench.command_errors import LoginFailed
from mcp_workbench.config.model import Endpoint, OAuthClient
from mcp_workbench.errors import Fault
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.client import KEEPING_METHOD, Transport, is_same_origin, is_within
from mcp_workbench.servers.http.network_guard import Dialer, Resolve, is_loopback, resolve

_LEFT_OUT: Final = ("content-encoding", "content-length", "transfer-encoding")


def server_url(endpoint: Endpoint) -> httpx2.URL:
    """The address of a server as the key of its logins, without user information and fragment."""
    return httpx2.URL(endpoint.url).copy_with(userinfo=b"", fragment=None)


def login_key(url: str, client: OAuthClient) -> str:
    """The key under which a login is stored. Logins of different configured clients have different keys."""
    return f"{url}#{quote(client.client_id, safe='')}" if client.client_id else url


def origin_text(url: httpx2.URL) -> str:
    """The origin of an address, safe to show to people."""
    return logger.foreign(f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}")


def check_address(url: httpx2.URL, server: httpx2.URL) -> None:
    """Raise `LoginFailed` unless secrets may be sent to `url`, an address that the server at `server` announced."""
    if is_same_origin(url, server):
        return
    if url.scheme not in ("http", "https") or not url.host or url.userinfo:
        raise LoginFailed("the server announces an address for its logins that is not valid")
    if is_loopback(url.host) and not is_loopback(server.host):
        raise LoginFailed(f"the server sends logins to this machine ({origin_text(url)}), which is not its own")
    if url.scheme != "https" and not is_loopback(url.host):
        raise LoginFailed(f"the server sends logins to {origin_text(url)}, where anyone on the way can read them")


class Authority:
    """Sends requests to a remote server and to its authorization server."""

    def __init__(self, endpoint: Endpoint, limits: Limits, *, resolve: Resolve = resolve) -> None:
        self.server = server_url(endpoint)
        self.is_old = endpoint.transport == "sse"
        self._limits = limits
        stays_here = self.server.scheme == "http" and not endpoint.allow_insecure
        dial = Dialer(self.server.host, stays_here=stays_here, resolve=resolve)
        self._client = httpx2.AsyncClient(
            transport=Transport(dial, limits),
            trust_env=False,
            follow_redirects=False,
            timeout=httpx2.Timeout(limits.login_http_seconds),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def ask_server(self, request: httpx2.Request) -> httpx2.Response:
        """The response of the protected server, without its body, after redirects within its origin."""
        response = await self.send(request, with_body=False)
        for _ in range(self._limits.redirects):
            there = response.next_request
            if there is None or response.status_code not in KEEPING_METHOD or not is_within(there.url, self.server):
                break
            response = await self.send(there, with_body=False)
        return response

    async def send(self, request: httpx2.Request, *, with_body: bool = True) -> httpx2.Response:
        """Send a request and return the response with its body. Raises `LoginFailed`."""
        check_address(request.url, self.server)
        request.headers.setdefault("user-agent", "mcp-workbench")
        request.headers["accept-encoding"] = "identity"
        try:
            async with asyncio.timeout(self._limits.login_http_seconds):
                return await self._answer(request, with_body=with_body)
        except TimeoutError:
            raise self._failure(request, "did not answer in time") from None
        except Fault as fault:  # a connection error, which contains no secret
            raise self._failure(request, f"could not be reached: {fault}") from None
        except httpx2.HTTPError as error:
            raise self._failure(request, f"could not be reached ({type(error).__name__})") from None

    async def _answer(self, request: httpx2.Request, *, with_body: bool) -> httpx2.Response:
        response = await self._client.send(request, stream=True)
        try:
            body = await self._body(response) if with_body else b""
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _LEFT_OUT]
        answer = httpx2.Response(response.status_code, headers=headers, content=body, request=request)
        answer.next_request = response.next_request
        return answer

    async def _body(self, response: httpx2.Response) -> bytes:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise self._failure(response.request, "answered with a content encoding that was not requested")
        parts: list[bytes] = []
        size = 0
        async for part in response.aiter_raw():
            size += len(part)
            if size > self._limits.login_body_bytes:
                raise self._failure(response.request, "sent a response that is too large for a login")
            parts.append(part)
        return b"".join(parts)

    def _failure(self, request: httpx2.Request, what: str) -> LoginFailed:
        return LoginFailed(f"{origin_text(request.url)} {what}")
