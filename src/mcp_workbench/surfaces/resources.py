"""Lists, reads and subscribes to the resources of the toolboxes that a client sees.

A resource keeps its own URI if only one server has it; otherwise its URI names the server. Resources that a tool's
definition or result names can be read even if they are not listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from mcp_workbench.catalog import linked_resources
from mcp_workbench.catalog.definition import Definition, Item
from mcp_workbench.catalog.rendering import render
from mcp_workbench.errors import WorkbenchError
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.surfaces import resource_uris
from mcp_workbench.surfaces.base import ListedItem, Scope, forward, page, read_text
from mcp_workbench.surfaces.failures import as_rpc_error, rpc_errors
from mcp_workbench.surfaces.resource_uris import KnownResources, ResourceIndex
from mcp_workbench.text.sanitize import NAMES_SHOWN, escape
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router
    from mcp_workbench.routing.server_lists import Kind

TEMPLATE_BYTES = 256 * 1024
"""Total size of the templates that are matched against a URI. They take 20 ms of the event loop."""


class Resources:
    """Lists, reads and watches resources."""

    def __init__(self, workbench: Workbench, scope: Scope) -> None:
        self._workbench = workbench
        self._scope = scope
        self.known = KnownResources(scope)
        self._watched: dict[resource_uris.Located, Counter[str]] = {}
        """The URIs under which the client subscribed to a server's resource, and how often."""

    async def list(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        return await self._page(exchange, params, "resources", "resources", "uri")

    async def templates(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        return await self._page(exchange, params, "templates", "resourceTemplates", "uriTemplate")

    async def read(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        router = self._workbench.at(exchange.caller)
        found = await self.resolve(router, exchange.caller, read_text(params, "uri"))
        return await forward(router, found.server, "resources/read", {**params, "uri": found.uri}, exchange)

    async def subscribe(self, caller: Caller, uri: str) -> None:
        """Raises `RpcError`."""
        if len(uri) > self._workbench.limits.uri_length:
            raise RpcError(jsonrpc.INVALID_PARAMS, "uri is too long")
        router = self._workbench.at(caller)
        found = await self.resolve(router, caller, uri)
        handle = router.pool.find(found.server)
        is_watched = handle is not None and handle.subscriptions.watches(found.uri)
        if not caller.modern and is_watched and uri in self._watched.get(found, ()):
            return  # in the handshake era, subscribing twice has no effect
        if len(self._watched) >= self._workbench.limits.subscriptions:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"Too many subscriptions (at most {len(self._watched)})")
        with rpc_errors(found.server, "resources/subscribe", modern=caller.modern):
            await router.pool.connect(found.server)
            await router.pool.handle(found.server).subscribe(found.uri)
        self._watched.setdefault(found, Counter())[uri] += 1

    def unsubscribe(self, caller: Caller, uri: str) -> None:
        """End a subscription, if there is one."""
        for found, names in tuple(self._watched.items()):
            if uri in names:
                names[uri] -= 1
                self._watched[found] = +names
                if not self._watched[found]:
                    del self._watched[found]
                router = self._workbench.find(caller)
                if router is not None and (handle := router.pool.find(found.server)) is not None:
                    handle.unsubscribe(found.uri)
                return

    def names_of(self, server: ServerIdentifier, uri: str) -> Iterable[str]:
        """The names under which the client subscribed to a changed resource, or to one that contains it."""
        found: dict[str, None] = {}
        for watched, names in self._watched.items():
            if watched.server == server and (uri == watched.uri or uri.startswith(f"{watched.uri}/")):
                found |= dict.fromkeys(name + uri[len(watched.uri) :] for name in names)
        return found

    async def resolve(self, router: Router, caller: Caller, uri: str) -> resource_uris.Located:
        """Find the server that has a resource, and the server's own URI. Raises `RpcError`."""
        candidates = await self.locate(router, caller, uri) or self._unlisted(router, uri)
        if not candidates:
            candidates = await self._search_again(router, self._scope.of(caller), uri)
        return self.only(router, candidates, uri, modern=caller.modern)

    async def locate(self, router: Router, caller: Caller, uri: str) -> set[resource_uris.Located]:
        """The resources that a URI may mean, according to lists, definitions and results."""
        if (found := self._qualified(router, caller, uri)) is not None:
            return {found}
        scope = self._scope.of(caller)
        servers = {server for server in self.known.owners(router, uri) if server.toolbox in scope}
        if len(servers) != 1:
            servers = await self._named(router, uri)
        return _located(servers, uri) or await self._search(router, scope, uri)

    async def resolve_template(self, router: Router, caller: Caller, template: str) -> resource_uris.Located:
        """The same as `resolve` for a completion, whose reference may be a template."""
        if (found := self._qualified(router, caller, template)) is not None:
            return found
        await router.learn("templates", router.servers_of(self._scope.of(caller)))
        own = _located(self._listing(router, "templates", template), template)
        labelled = self.known.labelled(router, template)
        candidates = own or {one for one in labelled if one.server in self._listing(router, "templates", one.uri)}
        if candidates:
            return self.only(router, candidates, template, modern=caller.modern)
        return await self.resolve(router, caller, template)

    async def learn_apps(self, caller: Caller) -> None:
        """Fetch the lists that the UI URIs of tools are compared with, if any tool has one."""
        router = self._workbench.at(caller)
        await self._workbench.turns.take()
        if any(linked_resources.named_by(definition) for _, definition in router.catalog.present()):
            await self.known.learn(router, router.servers_of(self._scope.of(caller)))

    async def with_readable_apps(
        self, caller: Caller, tools: Mapping[ToolIdentifier, Definition]
    ) -> dict[ToolIdentifier, Definition]:
        """Replace the UI URIs in definitions with those that the client can read."""
        if not any(linked_resources.named_by(definition) for definition in tools.values()):
            return dict(tools)
        index = await self.known.index(self._workbench.at(caller), caller)
        return {
            tool: linked_resources.with_uris(
                definition, partial(index.shown, ServerIdentifier(tool.toolbox, tool.server))
            )
            for tool, definition in tools.items()
        }

    def _qualified(self, router: Router, caller: Caller, uri: str) -> resource_uris.Located | None:
        """The resource of a URI that names its server; None for other URIs. Starts no server. Raises `RpcError`."""
        if (found := resource_uris.read_qualified(uri)) is None:
            return None
        if not self._scope.allows(found.server.toolbox):
            raise _not_found(uri, modern=caller.modern)
        try:
            router.pool.handle(found.server)
        except WorkbenchError as error:
            raise as_rpc_error(error) from None
        return found

    async def _named(self, router: Router, uri: str) -> set[ServerIdentifier]:
        """The running servers that list a URI, or that named it in a result. Lists take precedence over results."""
        await router.learn("resources", self._running(router))
        listing, named = self.known.owners(router, uri), self._linked(router, uri)
        if not listing and self.known.labelled(router, uri):
            return set()  # we may have made this URI for another server's resource: the search decides
        return named & listing or listing or named

    def _linked(self, router: Router, uri: str) -> set[ServerIdentifier]:
        return {server for server in router.links.find(uri) if self._scope.allows(server.toolbox)}

    def _running(self, router: Router) -> set[ServerIdentifier]:
        """The running servers that have resources."""
        return {server for server in router.offering("resources") if self._scope.allows(server.toolbox)}

    async def _search(self, router: Router, scope: tuple[str, ...], uri: str) -> set[resource_uris.Located]:
        """Find a URI in the servers' lists. An unlisted URI may name its server, or match a template."""
        labelled = self.known.labelled(router, uri)
        everywhere = {*router.servers_of(scope), *(one.server for one in labelled)}
        await self.known.learn(router, everywhere, tools=uri.startswith(linked_resources.SCHEME))
        if servers := self.known.owners(router, uri):
            return _located(servers, uri)
        if known := {one for one in labelled if one.server in self.known.owners(router, one.uri)}:
            return known
        if servers := self._linked(router, uri):
            return _located(servers, uri)
        await router.learn("templates", everywhere)
        return self.known.fitting(router, uri, TEMPLATE_BYTES)

    def _unlisted(self, router: Router, uri: str) -> set[resource_uris.Located]:
        """Candidates for an unlisted resource: the server that its URI names, or the only running server."""
        labelled, running = self.known.labelled(router, uri), self._running(router)
        if len(running) == 1 and {one.server for one in labelled} <= running:
            return _located(running, uri)
        return labelled

    async def _search_again(self, router: Router, scope: tuple[str, ...], uri: str) -> set[resource_uris.Located]:
        """Refresh the lists of the running servers and search again: the resource may be new and unannounced."""
        await router.recheck(scope, "resources", "templates")
        return await self._search(router, scope, uri)

    def _listing(self, router: Router, kind: Kind, name: str) -> set[ServerIdentifier]:
        """The servers that are known to list a name."""
        return {
            server
            for server, item in router.known_items(kind)
            if item.name == name and self._scope.allows(server.toolbox)
        }

    async def _page(self, exchange: Exchange, params: dict[str, Raw], kind: Kind, member: str, uri: str) -> Raw:
        """A page of a list. `uri` is the member with an item's URI or template."""
        caller = exchange.caller
        router, scope = self._workbench.at(caller), self._scope.of(caller)
        listed = await router.items(kind, scope)
        has_more_owners = kind == "resources" and any(
            resource_uris.has_kept_scheme(item.name) for items in listed.values() for item in items
        )
        if has_more_owners:  # tools and skills may name the same resources
            await self.known.learn(router, router.servers_of(scope))
        async with self._workbench.rendering(caller) as renderer:
            if has_more_owners:
                index = self.known.known_index(router, router.servers_of(scope))
            else:
                owned = {server: [item.name for item in items] for server, items in listed.items()}
                index = self.known.index_of(router, owned)

            def entry(server: ServerIdentifier, item: Item) -> Raw:
                shown_uri = _listed_uri(index, kind, server, item.name)
                return item.raw if shown_uri == item.name else render.resource(uri, shown_uri, server, item)

            found = [ListedItem(item.raw, partial(entry, server, item)) for server in listed for item in listed[server]]
            return await page(member, found, params, self._workbench.limits, renderer)

    def only(
        self, router: Router, found: set[resource_uris.Located], uri: str, *, modern: bool
    ) -> resource_uris.Located:
        """The only resource in `found`. Raises `RpcError` if there are several or none."""
        if len(found) == 1:
            return next(iter(found))
        if not found:
            raise _not_found(uri, modern=modern)
        index = self.known.known_index(router, router.servers_of(self._scope.all()))
        several = "\n".join(sorted(index.qualified(*one) for one in found)[:NAMES_SHOWN])
        text = f"Several servers have {escape(uri)}. Read one of:\n{several}"
        raise RpcError(jsonrpc.INVALID_PARAMS, text, {"uri": uri})


def _located(servers: Iterable[ServerIdentifier], uri: str) -> set[resource_uris.Located]:
    return {resource_uris.Located(server, uri) for server in servers}


def _listed_uri(index: ResourceIndex, kind: Kind, server: ServerIdentifier, name: str) -> str:
    """The URI in a list, which all clients must be able to parse. They do not parse templates."""
    uri = index.shown(server, name)
    return uri if kind == "templates" or resource_uris.is_parsable(uri) else index.qualified(server, name)


def _not_found(uri: str, *, modern: bool) -> RpcError:
    code = jsonrpc.INVALID_PARAMS if modern else jsonrpc.RESOURCE_NOT_FOUND
    return RpcError(code, f"Resource not found: {escape(uri)}", {"uri": uri})
