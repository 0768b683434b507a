"""The demo servers with the official client, in both of its modes."""

import sys

import pytest
from mcp import Client, MCPError, StdioServerParameters

from tests.demo.lines import SOURCES

SERVERS = {
    "notes": ("2025-11-25", "add_note", {"title": "a", "text": "b"}),
    "text": ("2025-11-25", "slugify", {"text": "Hello, World"}),
    "calculator": ("2026-07-28", "evaluate", {"expression": "6 * 7"}),
    "calendar": ("2026-07-28", "weekday", {"date": "2026-07-28"}),
    "database": ("2025-11-25", "query", {"sql": "SELECT 1"}),
}


def connect(server: str, mode: str) -> Client:
    module = f"mcp_workbench.demo.servers.{server}"
    parameters = StdioServerParameters(command=sys.executable, args=["-m", module], env={"PYTHONPATH": SOURCES})
    return Client(parameters, mode=mode)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
@pytest.mark.parametrize("server", SERVERS)
async def test_the_official_client_connects_lists_and_calls(server, mode):
    version, tool, arguments = SERVERS[server]
    async with connect(server, mode) as client:
        assert client.protocol_version == ("2025-11-25" if mode == "legacy" else version)
        assert client.instructions
        listed = await client.list_tools()
        assert tool in [entry.name for entry in listed.tools]
        result = await client.call_tool(tool, arguments)
        assert not result.is_error
        assert result.structured_content


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_sees_progress_bad_input_and_unknown_tools(mode):
    seen = []

    async def note(progress, total, message):
        seen.append((progress, total, message))

    async with connect("calculator", mode) as client:
        await client.call_tool("count_primes", {"limit": 600_000}, progress_callback=note)
        refused = await client.call_tool("evaluate", {"expression": "1 / 0"})
        assert refused.is_error
        with pytest.raises(MCPError, match="Unknown tool: nothing"):
            await client.call_tool("nothing", {})
    assert seen[-1] == (600_000, 600_000, "49098 primes up to 600000")
