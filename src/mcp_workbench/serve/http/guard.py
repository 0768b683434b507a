"""Checks the host, the origin and the token of every request before its body is read."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from mcp_workbench.serve.http.address import LOOPBACK_NAMES, Address, ip_or_none
from mcp_workbench.serve.http.request import RequestHead, RequestRefused, cached_if_short

_PORT_DIGITS: Final = 5


class HostPort(NamedTuple):
    host: str
    port: int


class Guard:
    """Checks every request, on every route."""

    def __init__(self, address: Address, tokens: Mapping[str, str]) -> None:
        """`tokens` maps the name of each client to its token."""
        self._port = address.port
        self._tokens = [(name, token.encode()) for name, token in tokens.items()]
        self._names: set[str] = {address.host.lower()}
        if address.answers_loopback:
            self._names.update(LOOPBACK_NAMES)
        self._any_address = address.is_wildcard
        if self._any_address:
            self._names.add(socket.gethostname().lower())

    def check_place(self, head: RequestHead) -> None:
        """Check the host, the origin and the framing. Raises `RequestRefused`."""
        host = _host_port(head.single("host") or "")
        if host is None or not self._is_ours(host):
            raise RequestRefused(HTTPStatus.MISDIRECTED_REQUEST, "This host is not served here")
        if "origin" in head.headers:
            origin = head.single("origin")
            if origin is None or not self._is_own_origin(origin, host):
                raise RequestRefused(HTTPStatus.FORBIDDEN, "Requests from this origin are not allowed")
        _check_framing(head)

    def owner(self, head: RequestHead) -> str:
        """The name of the client with this token. Raises the same `RequestRefused` for every invalid token."""
        token = _bearer(head.single("authorization") or "")
        found = ""
        for name, known in self._tokens:  # compare all, so that the time reveals nothing
            if hmac.compare_digest(token, known):
                found = name
        if not found:
            raise RequestRefused(HTTPStatus.UNAUTHORIZED, "A bearer token is required", www_authenticate="Bearer")
        return found

    def _is_own_origin(self, origin: str, host: HostPort) -> bool:
        """Whether an origin is ours. On a wildcard address, an IP counts only if the request was sent to it."""
        scheme, separator, rest = origin.partition("://")
        given = _host_port(rest)
        if not separator or scheme.lower() != "http" or given is None:
            return False
        return given == host or (given.port == self._port and given.host in self._names)

    def _is_ours(self, given: HostPort) -> bool:
        if given.port != self._port:
            return False
        # DNS rebinding can't redirect an IP address
        return given.host in self._names or (self._any_address and ip_or_none(given.host) is not None)


def _check_framing(head: RequestHead) -> None:
    """Refuse bodies with ambiguous framing and bodies that nobody reads. Raises `RequestRefused`."""
    length, is_chunked = head.headers.get("content-length", ""), "transfer-encoding" in head.headers
    if length and is_chunked:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "A request can have Content-Length or Transfer-Encoding, not both")
    if head.method != "POST" and (is_chunked or length.strip("0")):
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "Only POST may have a body")


def _bearer(value: str) -> bytes:
    scheme, _, token = value.partition(" ")
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else b""


@cached_if_short
def _host_port(text: str) -> HostPort | None:
    """Parse exactly `HOST` or `HOST:PORT`."""
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, "80"
    if not _is_port(port) or not host or any(mark in host for mark in "/@?# \t\\"):
        return None
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed != (":" in host):
        return None
    return HostPort(host.strip("[]").lower() if bracketed else host.lower(), int(port))


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _PORT_DIGITS and not text.startswith("0")
