"""The workbench as a library, for faults whose deadlines a test must make small."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec import Raw

from mcp_workbench import ToolIdentifier, Workbench, load_config
from mcp_workbench.errors import CallFailed, ConnectFailed, Fault
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.routing.server_handle import ServerHandle
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.exchange import Exchange, OnProgress
from mcp_workbench.wire.jsonrpc import Params
from tests.support.configs import Toolboxes, write_config


@contextlib.asynccontextmanager
async def workbench(folder: Path, toolboxes: Toolboxes, **limits: Any) -> AsyncIterator[Workbench]:
    """A workbench with these limits, whose user folders are beside its configuration."""
    home = {f"XDG_{kind}_HOME": str(folder / kind) for kind in ("CONFIG", "CACHE", "STATE", "DATA")}
    with mock.patch.dict(os.environ, home):
        async with Workbench(load_config(write_config(folder, toolboxes)), limits=Limits(**limits)) as running:
            yield running


def tool(server: str, name: str, *, toolbox: str = "dev") -> ToolIdentifier:
    return ToolIdentifier(toolbox, server, name)


async def fault_of(call: Awaitable[object]) -> Fault:
    """The fault of a call that must fail on its connection."""
    with pytest.raises((CallFailed, ConnectFailed)) as caught:
        await call
    return caught.value.fault


class DeafLine:
    """The line of a client that hears everything and says nothing."""

    request_id = 1

    def __init__(self) -> None:
        self.heard: list[tuple[str, Mapping[str, Any]]] = []

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.heard.append((method, params))

    async def ask(self, method: str, params: Mapping[str, Any], on_progress: OnProgress | None = None) -> Raw:
        del on_progress
        raise AssertionError((method, params))


class ListeningClient:
    """A client that writes down what it is told outside of calls, and answers no question."""

    def __init__(self) -> None:
        self.told: list[tuple[ServerIdentifier, str]] = []
        self.changes: list[tuple[str, str]] = []

    def tell(
        self, source: ServerIdentifier, method: str, params: dict[str, Raw], exchange: Exchange | None = None
    ) -> None:
        del params, exchange
        self.told.append((source, method))

    def changed(self, toolbox: str, kind: str) -> None:
        self.changes.append((toolbox, kind))

    async def ask(
        self,
        source: ServerIdentifier,
        method: str,
        params: Params,
        on_progress: OnProgress | None,
        exchange: Exchange | None,
    ) -> Raw:
        raise AssertionError((source, method, params, on_progress, exchange))


def handle_of(running: Workbench, toolbox: str, server: str, caller: Caller = LIBRARY) -> ServerHandle:
    """A server as Python code, or a client, sees it."""
    handle = running.at(caller).pool.find(ServerIdentifier(toolbox, server))
    assert handle is not None
    return handle


async def use_with_progress(running: Workbench, identifier: ToolIdentifier, arguments: dict[str, Any]) -> Raw:
    """A call on behalf of a client that wants to hear of its progress."""
    caller = Caller(version="2025-11-25", modern=False)
    exchange = Exchange(caller, DeafLine(), progress_token=Raw(b'"token"'))
    return await running.relay(identifier, Raw(json.dumps(arguments).encode()), exchange)


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]
