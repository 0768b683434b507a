"""The everything server is the same over stdio and over HTTP, and asks as its client's era has it."""

import contextlib
import sys

import pytest
from mcp import Client, StdioServerParameters, types

from tests.conformance import stage

MODES = ("legacy", "2026-07-28")


@contextlib.asynccontextmanager
async def connected(transport, mode, folder, **options):
    if transport == "stdio":
        target = StdioServerParameters(command=sys.executable, args=[str(stage.EVERYTHING)])
        async with Client(target, mode=mode, **options) as client:
            yield client
    else:
        async with stage.everything(folder) as url, Client(url, mode=mode, **options) as client:
            yield client


async def lists(transport, mode, folder):
    async with connected(transport, mode, folder) as client:
        found = [await client.list_tools(), await client.list_resources(), await client.list_prompts()]
    return [one.model_dump(exclude={"meta"}) for one in found]


@pytest.mark.parametrize("mode", MODES)
async def test_it_shows_the_same_over_both_transports(mode, tmp_path):
    over_stdio = await lists("stdio", mode, tmp_path)
    assert over_stdio == await lists("http", mode, tmp_path)
    assert over_stdio[0]["tools"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_tool_asks_its_client_in_either_era(transport, mode, tmp_path):
    asked = []

    async def answer(context, params):  # noqa: ARG001 -- the SDK's
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b"})

    async with connected(transport, mode, tmp_path, elicitation_callback=answer) as client:
        result = await client.call_tool("test_elicitation", {"message": "Who?"})
    assert asked == ["Who?"]
    assert '"username": "ada"' in result.content[0].text


async def test_without_the_modern_era_it_refuses_that_version(tmp_path):
    async with stage.everything(tmp_path, "--handshake-only") as url, Client(url) as client:
        assert client.protocol_version == "2025-11-25"
        assert (await client.call_tool("test_simple_text")).content
