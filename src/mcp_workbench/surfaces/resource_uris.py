"""URIs of resources: maps the URIs of servers to the URIs that a client sees, and back.

A resource keeps its URI if only one server has it. If several servers have it, each gets a URI that names the server
and contains the server's own URI, so it needs no table and outlives a connection. Hosts recognise some resources by
their scheme (`ui://`, `skill://`): these keep it and name the server in front of the path. A server's resources are
those that it lists, the UIs that its tools name, and the files of its skills.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, unquote

from mcp_workbench.catalog import linked_resources, skills
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Scope
from mcp_workbench.wire.caller import Caller

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router


SCHEME = "mcp-workbench://resource/"
SCHEMES = ("ui://", "skill://")
"""Schemes that hosts recognise."""
_WITH_TOOLBOX = "+"
"""Separates toolbox and server if the server's name is ambiguous. Percent-encoded names never contain it."""
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
    """A URI or template that names the server, followed by the unchanged URI or template of the server."""
    return f"{SCHEME}{quote(server.toolbox, safe='')}/{quote(server.server, safe='')}/{uri}"


def read_qualified(uri: str) -> Located | None:
    """The inverse of `qualified`: the server and its own URI; None if `uri` names no server."""
    if not uri.startswith(SCHEME):
        return None
    toolbox, _, rest = uri[len(SCHEME) :].partition("/")
    server, _, own = rest.partition("/")
    if not (toolbox and server and own):
        return None
    return Located(ServerIdentifier(unquote(toolbox), unquote(server)), own)


class Labelled(NamedTuple):
    """The parts of a URI that keeps its scheme: the server's name, optionally its toolbox, and the server's own URI."""

    toolbox: str | None
    server: str
    uri: str


def has_kept_scheme(uri: str) -> bool:
    """Whether a URI keeps its scheme when the server's name is added."""
    return uri.startswith(SCHEMES)


def labelled(server: ServerIdentifier, uri: str, *, with_toolbox: bool) -> Iterator[str]:
    """URIs that name the server and keep the scheme of `uri`; `read_labelled` inverts each of them."""
    scheme = next((scheme for scheme in SCHEMES if uri.startswith(scheme)), None)
    parts = (server.toolbox, server.server) if with_toolbox else (server.server,)
    if scheme is not None and len(uri) > len(scheme):
        for encode in (_encoded, _encoded_whole):
            yield f"{scheme}{_WITH_TOOLBOX.join(map(encode, parts))}/{uri[len(scheme) :]}"


def read_labelled(uri: str) -> Labelled | None:
    """The inverse of `labelled`; None if it can't have made this URI."""
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
    """Find the templates that match a URI with the most literal text: its length, or -1, and their servers.

    Templates beyond `most_bytes` in total are ignored.
    """
    fitting: list[tuple[int, ServerIdentifier]] = []
    size = 0
    for template in templates:
        size += len(template.uri)
        if size > most_bytes:
            break
        if fits(uri, template.uri):
            fitting.append((_literal_length(template.uri), template.server))
    most = max((length for length, _ in fitting), default=-1)
    return most, {server for length, server in fitting if length == most}


def fits(uri: str, template: str) -> bool:
    """Whether a URI can be an expansion of a template. Takes linear time for any template."""
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

    It errs on the safe side: some odd URIs that all clients can parse are rejected.
    """
    if (match := re.match(_SCHEME, uri, re.DOTALL)) is None:
        return False
    scheme, authority = match[1].lower(), match[2]
    is_web = scheme in _WEB_SCHEMES
    if authority is None:  # browsers find a host in `http:x`, and treat a backslash as a slash
        return not is_web or (scheme == "file" and "\\" not in uri)
    if (parts := re.fullmatch(_AUTHORITY, authority)) is None:
        return False
    user, host, port = parts.groups()
    if (not host or scheme == "file") and (user is not None or port is not None):
        return False
    return _is_host(host, is_name=is_web) if host else scheme == "file" or not is_web


def _is_host(host: str, *, is_name: bool) -> bool:
    """Whether every client accepts a host. With `is_name`, only hostnames and IP addresses are allowed."""
    if host.startswith("["):
        return ":" in host and _is_address(host[1:-1])
    is_domain = re.fullmatch(_DOMAIN, host) is not None and "xn--" not in host.lower()
    return not is_name or is_domain or _is_address(host)


def _is_address(text: str) -> bool:
    import ipaddress  # noqa: PLC0415 -- few URIs have an address

    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text  # a zone id is only valid on one machine


class ResourceIndex:
    """Maps the URIs of servers to those that a client sees. It never creates a URI that a server itself uses."""

    def __init__(self, owned: Mapping[ServerIdentifier, Collection[str]], visible: Iterable[ServerIdentifier]) -> None:
        """`owned` has the URIs of the servers that the client sees; `visible` are all servers that a URI may name."""
        self._owners = Counter(uri for owned_uris in owned.values() for uri in set(owned_uris))
        self._namesakes = Counter(server.server for server in visible)

    def is_shared(self, uri: str) -> bool:
        """Whether several servers have a URI."""
        return self._owners[uri] > 1

    def shown(self, server: ServerIdentifier, uri: str) -> str:
        """The URI under which the client sees a resource: the server's own unless another server has it too."""
        return self.qualified(server, uri) if self.is_shared(uri) or uri.startswith(SCHEME) else uri

    def qualified(self, server: ServerIdentifier, uri: str) -> str:
        """A URI that names the server."""
        is_ambiguous = self._namesakes[server.server] > 1
        for candidate in labelled(server, uri, with_toolbox=is_ambiguous):
            if candidate not in self._owners:
                return candidate
        return qualified(server, uri)


class KnownResources:
    """The known resources that a client may read."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def learn(self, router: Router, servers: Iterable[ServerIdentifier], *, tools: bool = True) -> None:
        """Fetch the lists of servers that are not known yet: resources, skills, and tools, which may name UIs."""
        if not (chosen := tuple(servers)):
            return
        requests = [router.learn("resources", chosen), router.learn("skills", chosen)]
        await asyncio.gather(*requests, *([router.learn_tools(chosen)] if tools else []))

    async def index(self, router: Router, caller: Caller) -> ResourceIndex:
        """An index of everything that this client sees."""
        servers = router.servers_of(self._scope.of(caller))
        await self.learn(router, servers)
        return self.known_index(router, servers)

    def known_index(self, router: Router, servers: Iterable[ServerIdentifier]) -> ResourceIndex:
        """An index of the known resources of these servers."""
        owned: dict[ServerIdentifier, set[str]] = {server: set() for server in servers}
        for server, uri in self._owned(router):
            if server in owned:
                owned[server].add(uri)
        return self.index_of(router, owned)

    def index_of(self, router: Router, owned: Mapping[ServerIdentifier, Collection[str]]) -> ResourceIndex:
        return ResourceIndex(owned, self._visible(router))

    def owners(self, router: Router, uri: str) -> set[ServerIdentifier]:
        """The servers that are known to have a resource."""
        owned = self._owned(router) if uri.startswith(linked_resources.SCHEME) else self._listed(router)
        return {server for server, one in owned if one == uri}

    def labelled(self, router: Router, uri: str) -> set[Located]:
        """The resources that a URI can mean if it was made by `labelled`."""
        if (read := read_labelled(uri)) is None:
            return set()
        return {
            Located(server, read.uri)
            for server in self._visible(router)
            if server.server == read.server and read.toolbox in (None, server.toolbox)
        }

    def fitting(self, router: Router, uri: str, most_bytes: int) -> set[Located]:
        """The resources of the templates that match best. A URI may match unchanged, or without its server's name."""
        templates = list(self._templates(router))
        most, servers = longest_match(uri, templates, most_bytes)
        found = {Located(server, uri) for server in servers}
        for one in self.labelled(router, uri):
            own = [template for template in templates if template.server == one.server]
            length, _ = longest_match(one.uri, own, most_bytes)
            if length >= 0 and length + len(uri) - len(one.uri) > most:
                most, found = length + len(uri) - len(one.uri), {one}
        return found

    def _visible(self, router: Router) -> list[ServerIdentifier]:
        return router.servers_of(self._scope.all())

    def _owned(self, router: Router) -> Iterator[tuple[ServerIdentifier, str]]:
        return chain(self._listed(router), self._allowed(linked_resources.named_in(router.catalog)))

    def _listed(self, router: Router) -> Iterator[tuple[ServerIdentifier, str]]:
        """The listed resources, and the files of listed skills."""
        listed = ((server, item.name) for server, item in router.known_items("resources"))
        files = ((server, uri) for server, item in router.known_items("skills") for uri in item.uris)
        return self._allowed(chain(listed, files))

    def _templates(self, router: Router) -> Iterator[Located]:
        """The templates of servers, and the folders of their skills."""
        listed = ((server, item.name) for server, item in router.known_items("templates"))
        folders = ((server, skills.folder_template(item)) for server, item in router.known_items("skills"))
        return (Located(*one) for one in self._allowed(chain(listed, folders)) if one[1])

    def _allowed(self, found: Iterable[tuple[ServerIdentifier, str]]) -> Iterator[tuple[ServerIdentifier, str]]:
        return (one for one in found if self._scope.allows(one[0].toolbox))
