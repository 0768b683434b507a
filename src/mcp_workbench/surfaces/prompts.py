"""The prompts of the toolboxes that a client sees.

The protocol gives a prompt one string name, so it has a joined name, resolved by a table; where one
toolbox is served alone, its own name unless two servers share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Raw

from mcp_workbench.catalog.items import Item
from mcp_workbench.catalog.rendering import render
from mcp_workbench.identity import PromptIdentifier, ServerIdentifier, joined_name, native_names
from mcp_workbench.surfaces.base import forward
from mcp_workbench.surfaces.pages import Listed, page
from mcp_workbench.surfaces.scope import Scope
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
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
        """The prompt of this name. Raises `RpcError`."""
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
        """What there is now, by name. A name that was given out stays known, so that it can be called."""
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


def _listed(name: str, prompt: PromptIdentifier, item: Item) -> Listed:
    return Listed(item.raw, None if name == prompt.prompt else partial(render.prompt, name, prompt, item))
