"""The client scenarios that are about no login: what a host does with the workbench in each of them."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.conformance import login
from tests.conformance.host import SERVER, Host, Json
from tests.conformance.stage import TOOLBOX

Scenario = Callable[[Host], Awaitable[None]]


def calls(*tools: tuple[str, Json]) -> Scenario:
    """Open the toolbox, then call these."""

    async def drive(host: Host) -> None:
        async with host.connected() as client:
            await host.open(client)
            for tool, arguments in tools:
                await host.use(client, tool, arguments)

    return drive


async def calls_of_the_suite(host: Host) -> None:
    """The calls that the scenario brings with it."""
    context: Json = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    wanted: list[tuple[str, Json]] = [
        (call["name"], call.get("arguments") or {}) for call in context.get("toolCalls", [])
    ]
    await calls(*wanted)(host)


async def every_tool(host: Host) -> None:
    """Call all tools that the workbench shows, with the least arguments."""
    async with host.connected("--toolbox", TOOLBOX, "--server", SERVER) as client:
        for tool in (await client.list_tools()).tools:
            await client.call_tool(tool.name, least_arguments(tool.input_schema))


async def schema_echoed(host: Host) -> None:
    """Give the schema of a tool back as it was shown."""
    async with host.connected("--toolbox", TOOLBOX, "--server", SERVER) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        await client.call_tool("json_schema_echo", {"schema": tools["json_schema_2020_12_tool"].input_schema})


def least_arguments(schema: Json) -> Json:
    values: Json = {"string": "x", "integer": 0, "number": 0, "boolean": False, "object": {}, "array": []}
    properties = schema.get("properties", {})
    return {name: values.get(properties.get(name, {}).get("type"), "x") for name in schema.get("required", [])}


ADDED = ("add_numbers", {"a": 5, "b": 3})
SCENARIOS: dict[str, Scenario] = {
    "initialize": calls(),
    "json-schema-ref-no-deref": calls(),
    "json-schema-2020-12-preservation": schema_echoed,
    "tools_call": calls(ADDED),
    "request-metadata": calls(ADDED),
    "http-standard-headers": calls(ADDED),
    "http-custom-headers": calls_of_the_suite,
    "http-invalid-tool-headers": every_tool,
    "sse-retry": calls(("test_reconnection", {})),
    "elicitation-sep1034-client-defaults": calls(("test_client_elicitation_defaults", {})),
    "sep-2322-client-request-state": calls(
        ("test_mrtr_echo_state", {}),
        ("test_mrtr_unrelated", {}),
        ("test_mrtr_no_state", {}),
        ("test_mrtr_no_result_type", {}),
    ),
}


async def drive(scenario: str, url: str) -> None:
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        if scenario.startswith("auth/"):
            await login.drive(Host(Path(folder), login.entry(url)), scenario)
        elif scenario in SCENARIOS:
            await SCENARIOS[scenario](Host(Path(folder), {"url": url}))
        else:
            sys.exit(f"No such scenario: {scenario}")
