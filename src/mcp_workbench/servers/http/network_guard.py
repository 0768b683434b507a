"""Guards connections to remote servers against DNS rebinding, forbidden addresses and endless response heads.

A host name is resolved once, and the connection goes to the address that was checked. A name never leads to a
link-local address (among them the metadata services of clouds), a multicast address or the unspecified address.

The HTTP library reads interim responses such as `100 Continue` without a limit and without yielding. Here they are read
in small pieces, other tasks run in between, and the request fails if the server sends too many.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextvars import ContextVar
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final, TypeAlias, cast

import httpcore2

from mcp_workbench.errors import ProtocolViolation
from mcp_workbench.servers.http.status_errors import ServerUnreachable

RESPONSE_HEAD_BYTES = 64 * 1024
"""The most bytes that a server may send before the body: the response head, and interim responses before it."""

_PIECE_BYTES: Final = 4096
"""How much of a head to read before other tasks run: all of most heads, or 150 interim responses, which take 3 ms."""


class _ResponseHead:
    """Counts the bytes of a response before its body."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0

    def add(self, data: bytes) -> None:
        self._bytes += len(data)

    def check(self) -> None:
        """Raise `ProtocolViolation` if the head exceeds its limit."""
        if self._bytes >= self._most_bytes:
            raise ProtocolViolation(
                f"it sent {self._bytes} bytes without a complete response head, perhaps endless interim responses",
                hint="Check its url, and any proxy on the way, which may have sent them.",
            )

    def restart(self) -> None:
        """Start counting again, for the next request."""
        self._bytes = 0


_head: ContextVar[_ResponseHead | None] = ContextVar("_head", default=None)


@contextlib.contextmanager
def expecting_head() -> Generator[None]:
    """Count what this task reads from a `BoundedStream` during the block as a response head."""
    token = _head.set(_ResponseHead(RESPONSE_HEAD_BYTES))
    try:
        yield
    finally:
        _head.reset(token)


class BoundedStream(httpcore2.AsyncNetworkStream):
    """A network stream that bounds the response head."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        if (head := _head.get()) is None:
            return await self._stream.read(max_bytes, timeout)
        head.check()
        data = await self._stream.read(min(max_bytes, _PIECE_BYTES), timeout)
        head.add(data)
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if (head := _head.get()) is not None:
            head.restart()
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        return BoundedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


Address: TypeAlias = IPv4Address | IPv6Address
Resolve: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Looks up the addresses of a name. Raises `OSError`."""

_METADATA: Final = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Metadata services that are not link-local: Alibaba, Azure, Oracle, AWS and Google over IPv6."""
_NAT64: Final = b"\x00\x64\xff\x9b" + bytes(8)


async def resolve(host: str, port: int) -> list[str]:
    """The addresses of a name, best first."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def literal(host: str) -> Address | None:
    """The address if `host` is one, None if it is a name."""
    try:
        return ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, as far as its name tells."""
    address = literal(host)
    if address is None:
        name = host.rstrip(".").lower()
        return name == "localhost" or name.endswith(".localhost")
    return _plain(address).is_loopback


def is_forbidden(address: Address) -> bool:
    """Whether a name must not lead to this address."""
    address = _plain(address)
    broadcast = isinstance(address, IPv4Address) and address.packed == b"\xff\xff\xff\xff"
    special = address.is_link_local or address.is_multicast or address.is_unspecified
    return special or broadcast or address in _METADATA


def _plain(address: Address) -> Address:
    """The IPv4 address that an IPv6 address embeds, else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address.packed.startswith(_NAT64):
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour or address


class Dialer(httpcore2.AsyncNetworkBackend):
    """Opens the connections of one remote server."""

    def __init__(self, host: str, *, stays_here: bool = False, resolve: Resolve = resolve) -> None:
        """`host` is the server's configured host. If it is a literal address, any address is allowed.

        With `stays_here`, a name of this machine must resolve to a loopback address, since the traffic is not
        encrypted.
        """
        self._host = host.lower()
        self._stays_here = stays_here
        self._resolve = resolve
        self._sockets = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of httpcore2
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._addresses(host, port)
                return BoundedStream(await self._first(addresses, port, timeout, local_address, socket_options))
        except TimeoutError:
            raise httpcore2.ConnectTimeout from None

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 -- the signature of httpcore2
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        del path, timeout, socket_options
        raise httpcore2.ConnectError("a server with a url has no Unix socket")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _addresses(self, host: str, port: int) -> list[str]:
        """The allowed addresses of a host. Raises `ServerUnreachable` if there are none."""
        is_own = host.lower() == self._host
        if literal(host) is not None:
            found = [host.strip("[]")]
        else:
            found = await self._found(host, port)
        named = is_own and literal(host) is not None
        allowed = [one for one in found if (address := literal(one)) and (named or not is_forbidden(address))]
        if self._stays_here and is_loopback(host):
            allowed = [one for one in allowed if is_loopback(one)]
        if not allowed:
            raise ServerUnreachable(
                "its name leads to an address that is no server's, so it was not contacted",
                kind="blocked",
                hint="If this is intended, write the address itself in its url.",
            )
        return allowed

    async def _found(self, host: str, port: int) -> list[str]:
        try:
            return await self._resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ServerUnreachable(
                f"its name can't be looked up ({_reason(error)})",
                kind="dns",
                hint="Check the host in its url, and the network.",
            ) from None

    async def _first(
        self,
        addresses: list[str],
        port: int,
        seconds: float | None,
        local_address: str | None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address that accepts. Each address gets an equal share of the time."""
        share = seconds / len(addresses) if seconds is not None else None
        for address in addresses[:-1]:
            with contextlib.suppress(httpcore2.ConnectError, TimeoutError):
                async with asyncio.timeout(share):
                    return await self._sockets.connect_tcp(address, port, None, local_address, socket_options)
        return await self._sockets.connect_tcp(addresses[-1], port, None, local_address, socket_options)


def _reason(error: Exception) -> str:
    return error.strerror or type(error).__name__ if isinstance(error, OSError) else "it is not a valid name"
