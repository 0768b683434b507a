"""Lists and gets the skills of the toolboxes that a client sees.

The URI of its `SKILL.md` identifies a skill. If two servers share a URI, the skill and all of its files get URIs that
name the server. Skills of an early draft of the protocol have names instead, which are joined like those of prompts.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from mcp_workbench.catalog import skills
from mcp_workbench.catalog.definition import Item
from mcp_workbench.catalog.rendering import render
from mcp_workbench.identity import ServerIdentifier, SkillIdentifier, joined_name, native_names
from mcp_workbench.surfaces.base import ListedItem, Method, Scope, forward, page
from mcp_workbench.surfaces.resource_uris import Located, ResourceIndex
from mcp_workbench.surfaces.resources import Resources
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router


class Skills:
    """Lists and gets skills."""

    def __init__(self, workbench: Workbench, scope: Scope, resources: Resources, *, native: bool) -> None:
        self._workbench = workbench
        self._scope = scope
        self._resources = resources
        self._native = native
        self._names: dict[str, SkillIdentifier] = {}
        self.methods: dict[str, Method] = {"skills/list": self.list, "skills/get": self.get}

    async def list(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        router = self._workbench.at(exchange.caller)
        listed = await router.items("skills", self._scope.of(exchange.caller))
        servers = router.servers_of(self._scope.of(exchange.caller))
        await self._resources.known.learn(router, servers)
        async with self._workbench.rendering(exchange.caller) as renderer:
            names = {skill: name for name, skill in self._named(listed).items()}
            index = self._resources.known.known_index(router, servers)
            found = [
                ListedItem(item.raw, partial(_shown, server, item, names, index))
                for server, items in listed.items()
                for item in items
            ]
            return await page("skills", found, params, self._workbench.limits, renderer)

    async def get(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        router = self._workbench.at(exchange.caller)
        if (uri := jsonrpc.text_or_none(params.get("uri"))) is not None:
            return await self._get(router, exchange, params, uri)
        skill = await self._find(router, exchange.caller, params.get("name"))
        server = ServerIdentifier(skill.toolbox, skill.server)
        return await forward(router, server, "skills/get", {**params, "name": skill.skill}, exchange)

    async def _get(self, router: Router, exchange: Exchange, params: dict[str, Raw], uri: str) -> Raw:
        """The skill that a URI identifies, with file URIs that the client can read."""
        if candidates := await self._resources.locate(router, exchange.caller, uri):
            found = self._resources.only(router, candidates, uri, modern=exchange.caller.modern)
            result = await forward(router, found.server, "skills/get", {**params, "uri": found.uri}, exchange)
        else:
            found, result = await self._ask_all(router, exchange, params, uri)
        fields = jsonrpc.fields(result)
        skill = fields.get("skill", jsonrpc.NOTHING)
        if not jsonrpc.is_object(skill):
            return result
        index = await self._resources.known.index(router, exchange.caller)
        if found.uri == uri and not _is_renamed(found.server, skill, index):
            router.links.add(found.server, skills.file_uris(skill))  # the files may be in no list
            return result
        fields["skill"] = skills.with_uris(skill, partial(index.qualified, found.server))
        return Raw(jsonrpc.encode(fields))

    async def _ask_all(
        self, router: Router, exchange: Exchange, params: dict[str, Raw], uri: str
    ) -> tuple[Located, Raw]:
        """Get an unlisted skill from the only server that has it. Raises `RpcError`."""
        servers = router.having_list("skills", self._scope.of(exchange.caller))
        results: dict[Located, Raw] = {}
        for group in ({Located(server, uri) for server in servers}, self._resources.known.labelled(router, uri)):
            for one in sorted(group) if not results else ():
                try:
                    results[one] = await forward(router, one.server, "skills/get", {**params, "uri": one.uri}, exchange)
                except RpcError as error:
                    if error.code == jsonrpc.SERVER_FAILED:  # any other error means that the server has no such skill
                        raise
        found = self._resources.only(router, set(results), uri, modern=True)
        return found, results[found]

    async def _find(self, router: Router, caller: Caller, raw: Raw | None) -> SkillIdentifier:
        """Find a skill by name. Raises `RpcError`."""
        if (name := jsonrpc.text_or_none(raw)) is None:
            raise RpcError(jsonrpc.INVALID_PARAMS, "uri must be a string")
        if name not in self._names:
            self._named(await router.items("skills", self._scope.of(caller)))
        if (skill := self._names.get(name)) is None:
            hint = nearest_or_known(name, self._names, "skills")
            raise RpcError(jsonrpc.INVALID_PARAMS, f"Skill '{escape(name)}' not found. {hint}")
        return skill

    def _named(self, listed: dict[ServerIdentifier, tuple[Item, ...]]) -> dict[str, SkillIdentifier]:
        """The listed skills that have names. A name that was once listed stays valid."""
        found = [
            SkillIdentifier(server.toolbox, server.server, name)
            for server, items in listed.items()
            for item in items
            if (name := skills.own_name(item.raw))
        ]
        named = native_names(found) if self._native else {joined_name(skill): skill for skill in found}
        if len(self._names) > self._workbench.limits.known_names:
            self._names = {}
        self._names |= named
        return named


def _shown(server: ServerIdentifier, item: Item, names: dict[SkillIdentifier, str], index: ResourceIndex) -> Raw:
    own = skills.own_name(item.raw)
    name = names.get(SkillIdentifier(server.toolbox, server.server, own), own)
    raw = item.raw if name == own else render.skill(name, item)
    return skills.with_uris(raw, partial(index.qualified, server)) if _is_renamed(server, raw, index) else raw


def _is_renamed(server: ServerIdentifier, skill: Raw, index: ResourceIndex) -> bool:
    """Whether a file of the skill needs a new URI. Then all of its files get one, so that they stay in one folder."""
    return any(index.shown(server, uri) != uri for uri in skills.file_uris(skill))
