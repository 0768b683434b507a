"""Index of the URIs that a client's servers have, and of the URIs under which the client sees them.

A server's resources are those that it lists, the UIs that its tools name, and the files of its skills.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from mcp_workbench.catalog import apps, skills
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces import uris
from mcp_workbench.surfaces.scope import Scope
from mcp_workbench.wire.caller import Caller

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router


class ResourceIndex:
    """Decides which URIs name their server. It never creates a URI that a server itself uses."""

    def __init__(self, owned: Mapping[ServerIdentifier, Collection[str]], visible: Iterable[ServerIdentifier]) -> None:
        """`owned` has the URIs of each server that the client sees; `visible` are all servers that a URI may name."""
        self._owners = Counter(uri for owned_uris in owned.values() for uri in set(owned_uris))
        self._namesakes = Counter(server.server for server in visible)

    def is_shared(self, uri: str) -> bool:
        """Whether several servers have it."""
        return self._owners[uri] > 1

    def shown(self, server: ServerIdentifier, uri: str) -> str:
        """The URI under which the client sees a server's resource: its own unless another server has it too."""
        return self.qualified(server, uri) if self.is_shared(uri) or uri.startswith(uris.SCHEME) else uri

    def qualified(self, server: ServerIdentifier, uri: str) -> str:
        """A URI that names the server."""
        is_ambiguous = self._namesakes[server.server] > 1
        for candidate in uris.labelled(server, uri, with_toolbox=is_ambiguous):
            if candidate not in self._owners:
                return candidate
        return uris.qualified(server, uri)


class KnownResources:
    """The known resources that a client may read."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope

    async def learn(self, router: Router, servers: Iterable[ServerIdentifier], *, tools: bool = True) -> None:
        """Have servers list what is not known yet: resources, skills, and the tools that name UIs."""
        if not (chosen := tuple(servers)):
            return
        asked = [router.learn("resources", chosen), router.learn("skills", chosen)]
        await asyncio.gather(*asked, *([router.learn_tools(chosen)] if tools else []))

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
        owned = self._owned(router) if uri.startswith(apps.SCHEME) else self._listed(router)
        return {server for server, one in owned if one == uri}

    def labelled(self, router: Router, uri: str) -> set[uris.Located]:
        """The resources that a URI refers to if it names a server and keeps its scheme."""
        if (read := uris.read_labelled(uri)) is None:
            return set()
        return {
            uris.Located(server, read.uri)
            for server in self._visible(router)
            if server.server == read.server and read.toolbox in (None, server.toolbox)
        }

    def fitting(self, router: Router, uri: str, most_bytes: int) -> set[uris.Located]:
        """The resources of the best-matching templates. A URI may match as is, or without the server that it names."""
        templates = list(self._templates(router))
        most, servers = uris.longest_match(uri, templates, most_bytes)
        found = {uris.Located(server, uri) for server in servers}
        for one in self.labelled(router, uri):
            own = [template for template in templates if template.server == one.server]
            length, _ = uris.longest_match(one.uri, own, most_bytes)
            if length >= 0 and length + len(uri) - len(one.uri) > most:
                most, found = length + len(uri) - len(one.uri), {one}
        return found

    def _visible(self, router: Router) -> list[ServerIdentifier]:
        return router.servers_of(self._scope.all())

    def _owned(self, router: Router) -> Iterator[tuple[ServerIdentifier, str]]:
        return chain(self._listed(router), self._allowed(apps.named_in(router.catalog)))

    def _listed(self, router: Router) -> Iterator[tuple[ServerIdentifier, str]]:
        """The listed resources, and the files of listed skills."""
        listed = ((server, item.name) for server, item in router.known_items("resources"))
        files = ((server, uri) for server, item in router.known_items("skills") for uri in item.uris)
        return self._allowed(chain(listed, files))

    def _templates(self, router: Router) -> Iterator[uris.Located]:
        """The templates of servers, and the folders of their skills."""
        listed = ((server, item.name) for server, item in router.known_items("templates"))
        folders = ((server, skills.folder_template(item)) for server, item in router.known_items("skills"))
        return (uris.Located(*one) for one in self._allowed(chain(listed, folders)) if one[1])

    def _allowed(self, found: Iterable[tuple[ServerIdentifier, str]]) -> Iterator[tuple[ServerIdentifier, str]]:
        return (one for one in found if self._scope.allows(one[0].toolbox))
