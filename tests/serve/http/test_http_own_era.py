"""The client of one server is served in its own era, where that server speaks it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.serve.http.adjourning import Adjourning, adjourning
from tests.serve.http.serving import Handshake, answer_in, modern, post_modern, served
from tests.support.configs import received, rogue, write_config

GREETINGS = {"initialize", "server/discover"}
AT, META = "/mcp/dev/fs", "/mcp"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a workbench remembers what it finds out."""
    file = tmp_path / "store" / "catalog.sqlite"
    monkeypatch.setenv("WORKBENCH_CATALOG", str(file))
    return file


async def handshake_tools(http: Any, path: str = AT) -> None:
    """What a handshake client does first; at `/mcp` it has the server started."""
    client = await Handshake.begin(http, path)
    if path != META:
        assert (await client.request("tools/list"))["result"]["tools"]
    else:
        await client.call({"name": "open_toolbox", "arguments": {"toolbox": "dev"}})


async def modern_tools(http: Any) -> None:
    assert answer_in(await post_modern(http, modern("server/discover"), AT))["result"]
    assert answer_in(await post_modern(http, modern("tools/list"), AT))["result"]["tools"]


async def greeted(peer: Adjourning, folder: Path, client: Any, *arguments: Any) -> list[str]:
    """How a workbench that is then closed greets the server for a client. It has a filter, and so a list of its own."""
    before = len(peer.rpcs)
    async with served(peer.config(folder, toolFilters=["*"])) as running, running.client() as http:
        await client(http, *arguments)
    return [rpc for rpc in peer.rpcs[before:] if rpc in GREETINGS]


async def test_each_client_of_one_server_has_it_greeted_in_its_own_era(tmp_path: Path):
    async with adjourning("both") as peer:
        assert await greeted(peer, tmp_path, handshake_tools) == ["initialize"]
        assert await greeted(peer, tmp_path, modern_tools) == ["server/discover"]


async def test_a_server_that_speaks_one_era_is_reached_by_clients_of_both(tmp_path: Path):
    async with adjourning("handshake") as peer:
        assert await greeted(peer, tmp_path, handshake_tools) == ["initialize"]
        assert await greeted(peer, tmp_path, modern_tools) == ["server/discover", "initialize"]
    async with adjourning("modern") as peer:
        assert await greeted(peer, tmp_path, handshake_tools) == ["initialize", "server/discover"]
        assert await greeted(peer, tmp_path, modern_tools) == ["server/discover"]


async def test_clients_of_both_eras_at_once_have_connections_of_their_own(tmp_path: Path):
    async with adjourning("both") as peer, served(peer.config(tmp_path)) as running, running.client() as http:
        await handshake_tools(http)
        await modern_tools(http)
        await handshake_tools(http)
        assert [rpc for rpc in peer.rpcs if rpc in GREETINGS] == ["initialize", "server/discover", "initialize"]


@pytest.mark.parametrize("path", [META, "/mcp/dev"])
async def test_the_meta_tools_and_a_toolbox_use_the_era_of_their_client_too(tmp_path: Path, path: str):
    async with adjourning("both") as peer:
        assert await greeted(peer, tmp_path, handshake_tools, path) == ["initialize"]
    async with adjourning("modern") as peer:
        assert await greeted(peer, tmp_path, handshake_tools, path) == ["initialize", "server/discover"]


async def test_a_program_is_greeted_in_the_era_of_its_client_too(tmp_path: Path):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})
    async with served(config) as running, running.client() as http:
        await handshake_tools(http)
    assert received(log, "server/discover") == []


# -- what is remembered


@pytest.mark.usefixtures("store")
async def test_that_a_server_spoke_the_handshake_era_because_it_was_asked_to_is_not_held_against_it(tmp_path: Path):
    async with adjourning("both") as peer:
        assert await greeted(peer, tmp_path, handshake_tools) == ["initialize"]
        assert await greeted(peer, tmp_path, modern_tools) == ["server/discover"]
        assert await greeted(peer, tmp_path, handshake_tools) == ["initialize"]
        assert await greeted(peer, tmp_path, modern_tools) == ["server/discover"]


@pytest.mark.usefixtures("store")
async def test_that_a_server_has_no_modern_era_stays_known_when_others_did_not_ask(tmp_path: Path):
    async with adjourning("handshake") as peer:
        assert await greeted(peer, tmp_path, modern_tools) == ["server/discover", "initialize"]
        assert await greeted(peer, tmp_path, handshake_tools) == ["initialize"]
        assert await greeted(peer, tmp_path, modern_tools) == ["initialize"]
