"""Methods shared by all surfaces with several servers: prompts, resources, skills, completion and log level.

`Aggregate` combines them into one table of methods. A prompt has a joined name, which a table resolves; if one toolbox
is served alone, it keeps its own name unless two servers share that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from mcp_workbench.catalog.definition import Item
from mcp_workbench.catalog.rendering import render
from mcp_workbench.errors import WorkbenchError
from mcp_workbench.identity import PromptIdentifier, ServerIdentifier, joined_name, native_names
from mcp_workbench.surfaces.base import ListedItem, Method, Scope, forward, page, read_text
from mcp_workbench.surfaces.resources import Resources
from mcp_workbench.surfaces.skills import Skills
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import LEVELS, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router


class Prompts:
    """Lists and gets prompts."""

    def __init__(self, workbench: Workbench, scope: Scope, *, native: bool) -> None:
        self._workbench = workbench
        self._scope = scope
        self._native = native
        self._names: dict[str, PromptIdentifier] = {}

    async def list(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        found = await self._workbench.at(exchange.caller).items("prompts", self._scope.of(exchange.caller))
        async with self._workbench.rendering(exchange.caller) as renderer:
            prompts = [_listed(name, *item) for name, item in self._named(found).items()]
            return await page("prompts", prompts, params, self._workbench.limits, renderer)

    async def get(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        router = self._workbench.at(exchange.caller)
        prompt = await self.find(router, exchange.caller, params.get("name"))
        server = ServerIdentifier(prompt.toolbox, prompt.server)
        return await forward(router, server, "prompts/get", {**params, "name": prompt.prompt}, exchange)

    async def find(self, router: Router, caller: Caller, raw: Raw | None) -> PromptIdentifier:
        """Find a prompt by name. Raises `RpcError`."""
        name = jsonrpc.text_or_none(raw)
        if name is None:
            raise RpcError(jsonrpc.INVALID_PARAMS, "The name of a prompt must be a string")
        if name not in self._names:
            await self._learn(router, caller)
        if name not in self._names:
            await router.recheck(self._scope.of(caller), "prompts")
            await self._learn(router, caller)
        if (prompt := self._names.get(name)) is None:
            hint = nearest_or_known(name, self._names, "prompts")
            raise RpcError(jsonrpc.INVALID_PARAMS, f"Prompt '{escape(name)}' not found. {hint}")
        return prompt

    async def _learn(self, router: Router, caller: Caller) -> None:
        found = await router.items("prompts", self._scope.of(caller))
        async with self._workbench.rendering(caller):
            self._named(found)

    def _named(self, found: Mapping[ServerIdentifier, Sequence[Item]]) -> dict[str, tuple[PromptIdentifier, Item]]:
        """The listed prompts by name. A name that was once listed stays valid."""
        items = {
            PromptIdentifier(server.toolbox, server.server, item.name): item
            for server, listed in found.items()
            for item in listed
        }
        named = native_names(items) if self._native else {joined_name(prompt): prompt for prompt in items}
        if len(self._names) > self._workbench.limits.known_names:
            self._names = {}
        self._names |= named
        return {name: (prompt, items[prompt]) for name, prompt in named.items()}


def _listed(name: str, prompt: PromptIdentifier, item: Item) -> ListedItem:
    return ListedItem(item.raw, None if name == prompt.prompt else partial(render.prompt, name, prompt, item))


_FORWARDED = (eras.LOGGED, eras.ELICITED)


class Aggregate:
    """Prompts and resources of several servers, for one client."""

    def __init__(self, workbench: Workbench, scope: Scope, *, native_prompts: bool = False) -> None:
        self._workbench = workbench
        self._scope = scope
        self.prompts = Prompts(workbench, scope, native=native_prompts)
        self.resources = Resources(workbench, scope)
        self.skills = Skills(workbench, scope, self.resources, native=native_prompts)
        self.methods: dict[str, Method] = {
            "prompts/list": self.prompts.list,
            "prompts/get": self.prompts.get,
            "resources/list": self.resources.list,
            "resources/templates/list": self.resources.templates,
            "resources/read": self.resources.read,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }

    def extensions(self, caller: Caller) -> dict[str, Any]:
        """The extensions that native surfaces declare, as far as they are known without starting a server."""
        router, toolboxes = self._workbench.at(caller), self._scope.all()
        found: dict[str, Any] = {eras.SKILLS: {}} if router.having_list("skills", toolboxes) else {}
        if any(server.toolbox in toolboxes for server in router.declaring(eras.APPS)):
            found[eras.APPS] = {}
        return found

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        """A server's notification as the client sees it. Unknown notifications are dropped."""
        if method == eras.RESOURCE_UPDATED and (uri := jsonrpc.text_or_none(params.get("uri"))) is not None:
            return [{**params, "uri": name} for name in self.resources.names_of(source, uri)]
        return [params] if method in _FORWARDED else []

    def notice(self, caller: Caller, method: str, params: dict[str, Raw]) -> None:
        """Forward a change of the client's roots to its servers."""
        if method == "notifications/roots/list_changed":
            for router in self._workbench.routers(caller.audience):
                router.tell(method, params)

    async def subscribe(self, caller: Caller, uri: str) -> bool:
        try:
            await self.resources.subscribe(caller, uri)
        except (RpcError, WorkbenchError):
            return False
        return True

    async def _subscribe(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        await self.resources.subscribe(exchange.caller, read_text(params, "uri"))
        return jsonrpc.EMPTY_OBJECT

    async def _unsubscribe(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        self.resources.unsubscribe(exchange.caller, read_text(params, "uri"))
        return jsonrpc.EMPTY_OBJECT

    async def _complete(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        """Complete a prompt's argument or a template's variable, on the server that has it."""
        reference = jsonrpc.members(params.get("ref"))
        router = self._workbench.at(exchange.caller)
        match jsonrpc.text_or_none(reference.get("type")):
            case "ref/prompt":
                prompt = await self.prompts.find(router, exchange.caller, reference.get("name"))
                server = ServerIdentifier(prompt.toolbox, prompt.server)
                own: dict[str, Any] = {**reference, "name": prompt.prompt}
            case "ref/resource":
                uri = read_text(reference, "uri")
                found = await self.resources.resolve_template(router, exchange.caller, uri)
                server, own = found.server, {**reference, "uri": found.uri}
            case _:
                raise RpcError(jsonrpc.INVALID_PARAMS, "ref.type must be ref/prompt or ref/resource")
        return await forward(router, server, "completion/complete", {**params, "ref": own}, exchange)

    async def _set_level(self, exchange: Exchange, params: dict[str, Raw]) -> Raw:
        self._workbench.at(exchange.caller).pool.set_level(read_level(params))
        return jsonrpc.EMPTY_OBJECT


class AggregateSurface:
    """Base of the surfaces with several servers: forwards notifications and subscriptions to its `Aggregate`."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self._methods: dict[str, Method] = dict(aggregate.methods)

    def method(self, name: str) -> Method | None:
        return self._methods.get(name)

    def translate(self, source: ServerIdentifier, method: str, params: dict[str, Raw]) -> Iterable[dict[str, Any]]:
        return self._aggregate.translate(source, method, params)

    def notice(self, caller: Caller, method: str, params: dict[str, Raw]) -> None:
        self._aggregate.notice(caller, method, params)

    async def subscribe(self, caller: Caller, uri: str) -> bool:
        return await self._aggregate.subscribe(caller, uri)

    def unsubscribe(self, caller: Caller, uri: str) -> None:
        self._aggregate.resources.unsubscribe(caller, uri)


def read_level(params: dict[str, Raw]) -> str:
    """Read the level of a `logging/setLevel` request. Raises `RpcError`."""
    level = read_text(params, "level")
    if level not in LEVELS:
        raise RpcError(jsonrpc.INVALID_PARAMS, f"level must be one of {', '.join(LEVELS)}")
    return level
