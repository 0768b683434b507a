"""URIs of resources: which server one belongs to.

A resource keeps its URI if only one server has it. If several have it, each gets a URI that names the server and
contains the server's own URI, so it needs no table and outlives a connection. Hosts recognise some resources by their
scheme (`ui://`, `skill://`), so these keep it and name the server in front of the path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote, unquote

from mcp_workbench.identity import ServerIdentifier

SCHEME = "mcp-workbench://resource/"
SCHEMES = ("ui://", "skill://")
"""Schemes that hosts recognise."""
_WITH_TOOLBOX = "+"
"""Separates toolbox and server if the server's name alone is ambiguous. Percent-encoded names never contain it."""
_EXPRESSION = r"\{[^{}]*\}"
_SCHEME = r"([A-Za-z][A-Za-z0-9+.-]*):(?!.*[\t\r\n])(?://([^/?#]*))?"
_AUTHORITY = r"(.*@)?(\[[^\]]*\]|[^\x00-\x20\x7f<>^|\\\[\]:@]*)(?::([0-9]{0,4}|[1-5][0-9]{4}))?"
_DOMAIN = r"(?:[A-Za-z0-9_-]+\.)*[A-Za-z][A-Za-z0-9_-]*"
_WEB_SCHEMES = ("http", "https", "ws", "wss", "ftp", "file")
"""Schemes whose host must be a hostname or an IP address. Others may have any host."""


class Located(NamedTuple):
    """A resource of one server, under the server's own URI."""

    server: ServerIdentifier
    uri: str


def qualified(server: ServerIdentifier, uri: str) -> str:
    """An URI, or a template, that names the server too. The server's own follows as it is."""
    return f"{SCHEME}{quote(server.toolbox, safe='')}/{quote(server.server, safe='')}/{uri}"


def read_qualified(uri: str) -> Located | None:
    """The server and its own URI; None where `uri` names no server."""
    if not uri.startswith(SCHEME):
        return None
    toolbox, _, rest = uri[len(SCHEME) :].partition("/")
    server, _, own = rest.partition("/")
    if not (toolbox and server and own):
        return None
    return Located(ServerIdentifier(unquote(toolbox), unquote(server)), own)


class Labelled(NamedTuple):
    """A URI in the scheme of its resource: the server's name, perhaps its toolbox, and the server's own URI."""

    toolbox: str | None
    server: str
    uri: str


def has_kept_scheme(uri: str) -> bool:
    """Whether a URI keeps its scheme when the server's name is added."""
    return uri.startswith(SCHEMES)


def labelled(server: ServerIdentifier, uri: str, *, with_toolbox: bool) -> Iterator[str]:
    """URIs in the scheme of `uri` that name the server; `read_labelled` inverts each of them."""
    scheme = next((scheme for scheme in SCHEMES if uri.startswith(scheme)), None)
    parts = (server.toolbox, server.server) if with_toolbox else (server.server,)
    if scheme is not None and len(uri) > len(scheme):
        for encode in (_encoded, _encoded_whole):
            yield f"{scheme}{_WITH_TOOLBOX.join(map(encode, parts))}/{uri[len(scheme) :]}"


def read_labelled(uri: str) -> Labelled | None:
    """The inverse of `labelled`; None if the URI can't come from it."""
    for scheme in SCHEMES:
        if uri.startswith(scheme):
            label, _, rest = uri[len(scheme) :].partition("/")
            first, has_toolbox, second = label.partition(_WITH_TOOLBOX)
            toolbox, server = (unquote(first), unquote(second)) if has_toolbox else (None, unquote(first))
            return Labelled(toolbox, server, f"{scheme}{rest}") if rest else None
    return None


def _encoded(name: str) -> str:
    return quote(name, safe="")


def _encoded_whole(name: str) -> str:
    return "".join(f"%{byte:02X}" for byte in name.encode())


def longest_match(uri: str, templates: Iterable[Located], most_bytes: int) -> tuple[int, set[ServerIdentifier]]:
    """The length of the most literal text in a matching template (-1 if none matches), and the servers with such a one.

    Templates beyond `most_bytes` together are not looked at.
    """
    fitting: list[tuple[int, ServerIdentifier]] = []
    size = 0
    for router in templates:
        size += len(router.uri)
        if size > most_bytes:
            break
        if fits(uri, router.uri):
            fitting.append((_literal_length(router.uri), router.server))
    most = max((length for length, _ in fitting), default=-1)
    return most, {server for length, server in fitting if length == most}


def fits(uri: str, template: str) -> bool:
    """Whether an URI can be an expansion of a template. In linear time, whatever a server sends as one."""
    first, *rest = re.split(_EXPRESSION, template)
    if not rest:
        return uri == template
    *middle, last = rest
    if not (uri.startswith(first) and uri.endswith(last) and len(uri) >= len(first) + len(last)):
        return False
    position, end = len(first), len(uri) - len(last)
    for literal in middle:
        position = uri.find(literal, position, end)
        if position < 0:
            return False
        position += len(literal)
    return True


def _literal_length(template: str) -> int:
    return sum(len(literal) for literal in re.split(_EXPRESSION, template))


def is_parsable(uri: str) -> bool:
    """Whether every official client can parse a URI. The strictest ones parse it as browsers do.

    It errs on the safe side: some odd URIs that all clients can parse count as bad.
    """
    if (match := re.match(_SCHEME, uri, re.DOTALL)) is None:
        return False
    scheme, authority = match[1].lower(), match[2]
    is_web = scheme in _WEB_SCHEMES
    if authority is None:  # browsers see a host in `http:x`, and read a backslash as a slash
        return not is_web or (scheme == "file" and "\\" not in uri)
    if (parts := re.fullmatch(_AUTHORITY, authority)) is None:
        return False
    user, host, port = parts.groups()
    if (not host or scheme == "file") and (user is not None or port is not None):
        return False
    return _is_host(host, is_name=is_web) if host else scheme == "file" or not is_web


def _is_host(host: str, *, is_name: bool) -> bool:
    """`is_name`: only hostnames and IP addresses are allowed."""
    if host.startswith("["):
        return ":" in host and _is_address(host[1:-1])
    is_domain = re.fullmatch(_DOMAIN, host) is not None and "xn--" not in host.lower()
    return not is_name or is_domain or _is_address(host)


def _is_address(text: str) -> bool:
    import ipaddress  # noqa: PLC0415 -- few URIs have one

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone id is only valid on one machine
