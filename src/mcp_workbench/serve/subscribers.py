"""The subscriptions of a modern client: long-lived requests that carry the notifications it selected."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
from msgspec import Raw

from mcp_workbench.limits import Limits
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import OpenRequest
from mcp_workbench.wire.jsonrpc import RpcError


class Filter(msgspec.Struct, rename="camel", omit_defaults=True):
    """The notifications that a subscription selects. Unknown members are ignored."""

    tools_list_changed: bool = False
    prompts_list_changed: bool = False
    resources_list_changed: bool = False
    resource_subscriptions: list[str] = []
    task_ids: list[str] = []

    def fits(self, method: str, params: dict[str, Any]) -> bool:
        """Whether the filter selects a notification."""
        if (kind := eras.LIST_CHANGED.get(method)) is not None:
            return bool(getattr(self, f"{kind}_list_changed"))
        if method == eras.RESOURCE_UPDATED:
            uri = _text(params.get("uri"))
            # A part of a resource may be reported under its own URI.
            return any(uri == watched or uri.startswith(f"{watched}/") for watched in self.resource_subscriptions)
        return method in eras.TASK_CHANGED and _text(params.get("taskId")) in self.task_ids


class Subscribers:
    """The open subscriptions of one client."""

    def __init__(self, surface: Surface, limits: Limits) -> None:
        self._surface = surface
        self._limits = limits
        self._open: dict[OpenRequest, Filter] = {}
        self._over = asyncio.Event()

    def tell(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification to every subscription that selects it."""
        for line, wanted in self._open.items():
            if wanted.fits(method, params):
                meta: Any = params.get("_meta", {})
                meta = jsonrpc.members(meta) if isinstance(meta, Raw) else meta
                line.notify(method, {**params, "_meta": {**meta, eras.SUBSCRIPTION_ID: line.request_id}})

    async def listen(self, caller: Caller, line: OpenRequest, params: dict[str, Raw]) -> Raw:
        """Answer `subscriptions/listen` when the session ends; the client may cancel it earlier."""
        wanted = self._read(caller, params)
        meta = {eras.SUBSCRIPTION_ID: line.request_id}
        honoured = Filter()
        try:
            await self._honour(caller, wanted, honoured)
            line.notify(eras.ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
            self._open[line] = honoured
            await self._over.wait()
        finally:
            self._open.pop(line, None)
            for uri in honoured.resource_subscriptions:
                self._surface.unsubscribe(caller, uri)
            for task in honoured.task_ids:
                self._surface.unwatch_task(caller, task)
        return Raw(jsonrpc.encode({"resultType": "complete", "_meta": meta}))

    def end(self) -> None:
        """End all subscriptions with their results."""
        self._over.set()

    def _read(self, caller: Caller, params: dict[str, Raw]) -> Filter:
        try:
            wanted = msgspec.json.decode(params.get("notifications", b"null"), type=Filter)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"params.notifications: {error}") from None
        if len(wanted.resource_subscriptions) + len(wanted.task_ids) > self._limits.subscriptions:
            most = self._limits.subscriptions
            raise RpcError(jsonrpc.INVALID_PARAMS, f"A subscription has at most {most} resources and tasks")
        if any(len(name) > self._limits.uri_length for name in (*wanted.resource_subscriptions, *wanted.task_ids)):
            raise RpcError(jsonrpc.INVALID_PARAMS, "A URI or a task id is too long")
        if wanted.task_ids:
            caller.require_tasks()
        return wanted

    async def _honour(self, caller: Caller, wanted: Filter, honoured: Filter) -> None:
        """Subscribe to what `wanted` selects, and record in `honoured` what succeeded."""
        offered = (await self._surface.server_info(caller)).capabilities
        for kind in ("tools", "prompts", "resources"):
            name = f"{kind}_list_changed"
            if getattr(wanted, name) and _declares(offered.get(kind), "listChanged"):
                setattr(honoured, name, True)
        honoured.resource_subscriptions = []
        for uri in dict.fromkeys(wanted.resource_subscriptions):
            if await self._surface.subscribe(caller, uri):
                honoured.resource_subscriptions.append(uri)
        honoured.task_ids = []
        for task in dict.fromkeys(wanted.task_ids):
            if await self._surface.watch_task(caller, task):
                honoured.task_ids.append(task)


def _declares(capability: Any, feature: str) -> bool:
    return isinstance(capability, dict) and cast("dict[str, Any]", capability).get(feature) is True


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return (jsonrpc.text_or_none(value) if isinstance(value, Raw) else None) or ""
