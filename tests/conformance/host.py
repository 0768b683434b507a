"""A workbench with the suite's server in its configuration, and a host that uses it over stdio."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters, types
from mcp.client.context import ClientRequestContext

from tests.conformance.stage import TOOLBOX, Entry, configured
from tests.support.wire import environment

SERVER = "remote"
MODERN = "2026-07-28"

Json = dict[str, Any]


class Host:
    """What an agent's host does with one workbench."""

    def __init__(self, folder: Path, entry: Entry) -> None:
        self._config = configured(folder, entry, SERVER)
        self.env = environment(folder / "home")

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "mcp_workbench"]

    @property
    def config(self) -> str:
        return str(self._config)

    @contextlib.asynccontextmanager
    async def connected(self, *options: str) -> AsyncGenerator[Client]:
        """`serve` on stdio, in the era of the scenario, with everything that a host can answer."""
        program, *arguments = [*self.command, "serve", "--config", self.config, *options]
        started = StdioServerParameters(command=program, args=arguments, env=self.env)
        modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION") == MODERN
        async with Client(
            started,
            mode="auto" if modern else "legacy",
            elicitation_callback=accept_defaults,
            sampling_callback=sampled,
            list_roots_callback=no_roots,
        ) as client:
            yield client

    async def use(self, client: Client, tool: str, arguments: Json | None = None) -> types.CallToolResult:
        identifier = {"toolbox": TOOLBOX, "server": SERVER, "tool": tool}
        answer = await client.call_tool("use_tool", {"tool": identifier, "arguments": arguments or {}})
        print(f"{tool}: {answer.model_dump_json(exclude_none=True)[:500]}", file=sys.stderr)
        return answer

    async def open(self, client: Client) -> types.CallToolResult:
        answer = await client.call_tool("open_toolbox", {"toolbox": TOOLBOX})
        print(f"open_toolbox: {answer.model_dump_json(exclude_none=True)[:500]}", file=sys.stderr)
        return answer


# -- what a host answers


async def accept_defaults(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """Yes, with the defaults of the form, and `true` where a required field has none."""
    del context
    schema = params.requested_schema if isinstance(params, types.ElicitRequestFormParams) else {}
    fields: dict[str, Json] = schema.get("properties", {})
    required = schema.get("required", [])
    content = {
        name: field.get("default", True) for name, field in fields.items() if "default" in field or name in required
    }
    return types.ElicitResult(action="accept", content=content)


async def sampled(context: ClientRequestContext, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
    del context, params
    content = types.TextContent(type="text", text="Sampled.")
    return types.CreateMessageResult(role="assistant", content=content, model="none")


async def no_roots(context: ClientRequestContext) -> types.ListRootsResult:
    del context
    return types.ListRootsResult(roots=[])
