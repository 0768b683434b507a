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
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.workbench import Workbench
from tests.support.configs import Toolboxes, write_config
from tests.support.library import DeafLine, ListeningClient

AUDIENCE = "client"
HANDSHAKE = Caller(version="2025-11-25", modern=False, audience=AUDIENCE, key=(AUDIENCE, False, b"{}"))
MODERN = Caller(version="2026-07-28", modern=True, audience=AUDIENCE, key=(AUDIENCE, True, b"{}"))

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
    """A workbench whose clients have heard of these tools: toolbox, server, names."""
    workbench = Workbench(config_of(known))
    for caller in (LIBRARY, HANDSHAKE, MODERN):
        for toolbox, servers in known.items():
            for server, names in servers.items():
                definitions = [Raw(json.dumps({"name": name}).encode()) for name in names]
                workbench.at(caller).catalog.snapshot(toolbox, server).put(take_listing(definitions, (), DEFAULTS))
    return workbench


@contextlib.asynccontextmanager
async def running(folder: Path, toolboxes: Toolboxes, mode: str = "dynamic", **limits: Any) -> AsyncIterator[Workbench]:
    config = load_config(write_config(folder, toolboxes, toolMode=mode))
    async with Workbench(config, limits=Limits(**limits)) as workbench:
        yield workbench


async def call(surface: Surface, name: str, arguments: Any = None, caller: Caller = HANDSHAKE) -> dict[str, Any]:
    """The result of a call, parsed."""
    given = {} if arguments is None else {"arguments": arguments}
    return json.loads(await answer(surface, "tools/call", caller, name=name, **given))


async def listed(surface: Surface, caller: Caller = HANDSHAKE) -> list[dict[str, Any]]:
    result = json.loads(await answer(surface, "tools/list", caller))
    assert list(result) == ["tools"]
    return result["tools"]


async def answer(surface: Surface, method: str, caller: Caller = HANDSHAKE, **params: Any) -> bytes:
    """The result of a request, as bytes."""
    handler = surface.method(method)
    assert handler is not None, method
    given = {key: Raw(json.dumps(value).encode()) for key, value in params.items()}
    return bytes(await handler(Exchange(caller, DeafLine()), given))


class Watching(ListeningClient):
    """The client of a surface, as far as its lists are concerned: which of them it was told to have changed."""

    def __init__(self, workbench: Workbench, surface: Surface) -> None:
        super().__init__()
        self._surface = surface
        self.kinds: list[str] = []
        surface.on_change(self.kinds.append)
        workbench.join(AUDIENCE, self)

    def changed(self, toolbox: str, kind: str) -> None:
        if self._surface.note_change(toolbox, kind):
            self.kinds.append(kind)


def error_of(result: dict[str, Any]) -> str:
    """The text of a result that must be an error with a code for programs."""
    assert result["isError"] is True, result
    assert result["_meta"]["mcp-workbench/error"]["code"]
    ((block),) = result["content"]
    assert block["type"] == "text"
    return block["text"]
