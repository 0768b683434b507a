"""The address that `serve --http` listens on, parsed from its option."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Final, NamedTuple

from mcp_workbench.errors import ConfigError

HTTP_PORT = 8300
"""The default port of `serve --http`: free on most machines, and used by no other MCP program."""

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_LARGEST_PORT = 65535
_NAME = r"(?=.{1,253}$)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"
_EXPECTED = "Write --http HOST:PORT, for example --http 127.0.0.1:8300 or --http [::1]:8300."


class Address(NamedTuple):
    """A host and a port; port 0 means any free port."""

    host: str = "127.0.0.1"
    port: int = HTTP_PORT

    @property
    def shown(self) -> str:
        """The form used in URLs."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_wildcard(self) -> bool:
        """Whether it means every address of the machine."""
        ip = ip_or_none(self.host)
        return ip is not None and ip.is_unspecified

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        ip = ip_or_none(self.host)
        return self.host.lower() == "localhost" if ip is None else ip.is_loopback

    @property
    def answers_loopback(self) -> bool:
        """Whether this machine can reach it as localhost."""
        return self.is_local or self.is_wildcard

    @property
    def reachable(self) -> Address:
        """The address for a client on this machine."""
        if not self.is_wildcard:
            return self
        return self._replace(host="::1" if ":" in self.host else "127.0.0.1")


def ip_or_none(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse a host that is an IP address."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def read_address(text: str) -> Address:
    """Parse the value of `--http`: `HOST:PORT`, `HOST`, `:PORT`, `PORT` or nothing. Raises `ConfigError`."""
    if not text:
        return Address()
    if text.isascii() and text.isdigit():
        return Address(port=_port(text))
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise ConfigError(f"--http {text} is not an address", hint=_EXPECTED)
        return Address(_host(host), _port(rest[1:]) if rest else HTTP_PORT)
    host, colon, port = text.partition(":")
    if ":" in port:
        raise ConfigError(f"--http {text} is not an address: IPv6 needs brackets", hint=_EXPECTED)
    return Address(_host(host) if host else Address().host, _port(port) if colon else HTTP_PORT)


def _host(text: str) -> str:
    """Normalize an IP address or a host name. Raises `ConfigError`."""
    if (ip := ip_or_none(text)) is not None:
        return str(ip)
    name = _ascii(text)
    if not re.fullmatch(_NAME, name) or _is_short_address(name):
        raise ConfigError(f"--http: {text!r} is not a host", hint=_EXPECTED)
    return name


def _ascii(name: str) -> str:
    """The name as clients send it, in punycode; empty if that is impossible."""
    try:
        return name if name.isascii() else name.encode("idna").decode()
    except UnicodeError:
        return ""


def _is_short_address(name: str) -> bool:
    """Whether it is shorthand like `0` or `127.1`, which systems accept as addresses but clients do not."""
    try:
        socket.inet_aton(name)
    except OSError:
        return False
    return True


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST_PORT:
        raise ConfigError(f"--http: {text!r} is not a port", hint=_EXPECTED)
    return int(text)
