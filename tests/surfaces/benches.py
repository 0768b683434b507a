"""Workbenches for surfaces: some only know tools, without any process; some start rogue servers."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from msgspec import Raw

from mcp_workbench.catalog.snapshot import take_listing
from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Config, Launch, ServerConfig, ToolboxConfig
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.wire.exchange import Caller, Exchange
from mcp_workbench.wire.jsonrpc import NOTHING
from mcp_workbench.workbench import Workbench
from tests.support.configs import Toolboxes, write_config
from tests.support.library import DeafLine

HANDSHAKE = Caller(version="2025-11-25", modern=False)
MODERN = Caller(version="2026-07-28", modern=True)

Known = dict[str, dict[str, list[str]]]


def config_of(known: Known, **settings: Any) -> Config:
    """A configuration whose servers cannot be started."""
    toolboxes = {
        toolbox: ToolboxConfig(
            name=toolbox,
            description=f"The toolbox {toolbox}",
            servers={
                server: ServerConfig(name=server, toolbox=toolbox, target=Launch(command="/no/such/program"))
                for server in servers
            },
        )
        for toolbox, servers in known.items()
    }
    return Config(file="/etc/workbench-config.json", toolboxes=toolboxes, **settings)


def knowing(known: Known) -> Workbench:
    """A workbench that has heard of these tools: toolbox, server, names."""
    workbench = Workbench(config_of(known))
    for toolbox, servers in known.items():
        for server, names in servers.items():
            definitions = [Raw(json.dumps({"name": name}).encode()) for name in names]
            workbench.catalog.put(toolbox, server, take_listing(definitions, (), DEFAULTS))
    return workbench


@contextlib.asynccontextmanager
async def running(folder: Path, toolboxes: Toolboxes, mode: str = "dynamic", **limits: Any) -> AsyncIterator[Workbench]:
    config = load_config(write_config(folder, toolboxes, toolMode=mode))
    async with Workbench(config, limits=Limits(**limits)) as workbench:
        yield workbench


async def call(surface: Surface, name: str, arguments: Any = None, caller: Caller = HANDSHAKE) -> dict[str, Any]:
    """The result of a call, parsed."""
    given = NOTHING if arguments is None else Raw(json.dumps(arguments).encode())
    return json.loads(bytes(await surface.call(Exchange(caller, DeafLine()), name, given)))


async def listed(surface: Surface, caller: Caller = HANDSHAKE) -> list[dict[str, Any]]:
    return json.loads(bytes(await surface.list(caller)))


def error_of(result: dict[str, Any]) -> str:
    """The text of a result that must be an error with a code for programs."""
    assert result["isError"] is True, result
    assert result["_meta"]["mcp-workbench/error"]["code"]
    ((block),) = result["content"]
    assert block["type"] == "text"
    return block["text"]
