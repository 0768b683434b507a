"""The everything server is the same over stdio and over HTTP, and asks as its client's era has it."""

import contextlib

import pytest
from mcp import Client, StdioServerParameters, types

from tests.conformance import stage
from tests.conformance.fixtures import OWN
from tests.support.wire import lasting

MODES = ("legacy", "2026-07-28")


@pytest.fixture(scope="module")
def far(shared_loop, tmp_path_factory):
    """The address of the server over HTTP."""
    with lasting(shared_loop, stage.over_http(tmp_path_factory.mktemp("everything"))) as url:
        yield url


class Asked:
    """What a client was asked; it answers."""

    def __init__(self):
        self.messages = []

    async def answer(self, context, params):  # noqa: ARG002 -- the SDK's
        self.messages.append(params.message)
        return types.ElicitResult(action="accept", content={"username": "ada", "email": "a@b"})


@contextlib.asynccontextmanager
async def connected(transport, mode, far, asked):
    program = StdioServerParameters(**stage.stdio_entry())
    target = program if transport == "stdio" else far
    async with Client(target, mode=mode, elicitation_callback=asked.answer) as client:
        yield client


async def lists(client):
    found = [await client.list_tools(), await client.list_resources(), await client.list_prompts()]
    return [one.model_dump(exclude={"meta"}) for one in found]


@pytest.mark.parametrize("mode", MODES)
async def test_it_shows_the_same_over_both_transports_and_asks_its_client(far, mode):
    shown = {}
    for transport in ("stdio", "http"):
        asked = Asked()
        async with connected(transport, mode, far, asked) as client:
            shown[transport] = await lists(client)
            result = await client.call_tool("test_elicitation", {"message": "Who?"})
        assert asked.messages == ["Who?"]
        assert '"username": "ada"' in result.content[0].text
    assert shown["stdio"] == shown["http"]
    assert shown["stdio"][0]["tools"]


async def test_without_the_modern_era_it_refuses_that_version(tmp_path):
    async with stage.over_http(tmp_path, OWN, "--handshake-only") as url, Client(url) as client:
        assert client.protocol_version == "2025-11-25"
        assert (await client.call_tool("test_simple_text")).content
