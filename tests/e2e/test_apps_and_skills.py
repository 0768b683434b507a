"""MCP Apps and skills through the workbench, with official clients of both eras, over stdio and HTTP.

Two servers in one toolbox have a UI, a listed UI and a skill under the same URIs. A host reads what a tool or a skill
names, and must get it from the server whose tool or skill that is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, types

from tests.e2e.test_http_front import connected
from tests.serve.http.serving import served
from tests.support.configs import Toolboxes, write_config
from tests.support.pairs import PEERS
from tests.support.reference import client_driver
from tests.support.typescript import Player, Scene, play, workbench_environment
from tests.support.wire import Era, Json, serving

Ask = Callable[[str, Json], Awaitable[Json]]
"""Sends a request; the members of its result."""

SKILLS, APPS = "io.modelcontextprotocol/skills", "io.modelcontextprotocol/ui"
NAMES = ("alpha", "beta")
OWN = {f"{what}_{name}": f"ui://widget/{what}" for name in NAMES for what in ("main", "listed")}
READABLE = {f"{what}_{name}": f"ui://{name}/widget/{what}" for name in NAMES for what in ("main", "listed")}
ALONE = {f"own_{name}": f"ui://{name}/own" for name in NAMES}


def toolboxes(*names: str) -> Toolboxes:
    command = {"command": sys.executable}
    return {"dev": {name: {**command, "args": ["-SE", str(PEERS / "apps_server.py"), name]} for name in names}}


async def ask_official(client: Client, method: str, params: Json) -> Json:
    """A request of the official client, also of a method that it does not know."""
    request = types.Request[dict[str, Any] | None, str](method=method, params=params)
    result = await client.session.send_request(request, AnyResult)
    return result.model_dump(mode="json", by_alias=True, exclude_unset=True)


class AnyResult(types.Result):
    model_config = types.Result.model_config | {"extra": "allow"}


async def apps_of(ask: Ask) -> dict[str, str]:
    """The UI of each tool, by the tool's own name. Both forms of it are the same."""
    found: dict[str, str] = {}
    for tool in (await ask("tools/list", {}))["tools"]:
        meta = tool.get("_meta") or {}
        if "ui" in meta:
            assert meta["ui"] == {"resourceUri": meta["ui/resourceUri"], "visibility": ["model", "app"]}
            found[meta.get("original_name", tool["name"])] = meta["ui/resourceUri"]
    return found


async def texts_of(ask: Ask, uris: dict[str, str]) -> dict[str, str]:
    """What a host reads for each."""
    return {name: (await ask("resources/read", {"uri": uri}))["contents"][0]["text"] for name, uri in uris.items()}


async def check_native(ask: Ask) -> None:
    """What a host does with the tools and skills of several servers."""
    apps = await apps_of(ask)
    assert apps == {**READABLE, **ALONE}
    assert await texts_of(ask, apps) == {tool: "<p>{} of {}</p>".format(*tool.split("_")) for tool in apps}
    listed = [one["uri"] for one in (await ask("resources/list", {}))["resources"]]
    assert listed == [
        f"{kind}://{name}/{uri}"
        for name in NAMES
        for kind, uri in (("ui", "widget/listed"), ("skill", "team/git/SKILL.md"))
    ]
    await check_skills(ask, {name: f"skill://{name}/team/git/" for name in NAMES})


async def check_skills(ask: Ask, folders: dict[str, str]) -> None:
    """Each skill is readable under the URIs that it is listed with, and its files have the digests that it tells."""
    skills = (await ask("skills/list", {}))["skills"]
    expected = [uri for name, folder in folders.items() for uri in (f"{folder}SKILL.md", f"skill://{name}/SKILL.md")]
    assert [one["uri"] for one in skills] == expected
    for one in skills:
        assert (await ask("skills/get", {"uri": one["uri"]}))["skill"] == one
        assert one["uri"].split("/")[-2] == one["frontmatter"]["name"]
        for file in one["resources"]:
            (content,) = (await ask("resources/read", {"uri": file["uri"]}))["contents"]
            assert file["digest"] == "sha256:" + hashlib.sha256(content["text"].encode()).hexdigest()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_host_over_http_gets_the_ui_and_the_skill_of_the_right_server(mode: str, tmp_path: Path):
    async with served(write_config(tmp_path, toolboxes(*NAMES), toolMode="dynamic")) as running:
        for endpoint in ("/mcp", "/mcp/dev"):
            async with connected(running, endpoint, mode) as client:
                if endpoint == "/mcp":
                    await client.call_tool("open_toolbox", {"toolbox": "dev"})
                assert SKILLS in (client.server_capabilities.extensions or {})
                await check_native(partial(ask_official, client))
        async with connected(running, "/mcp/dev/alpha", mode) as client:
            ask = partial(ask_official, client)
            assert (client.server_capabilities.extensions or {}).keys() == {SKILLS, APPS}
            assert await apps_of(ask) == {tool: uri for tool, uri in {**OWN, **ALONE}.items() if tool.endswith("alpha")}
            await check_skills(ask, {"alpha": "skill://team/git/"})


@pytest.mark.parametrize("player", [Player("ts1"), Player("ts2", "modern")], ids=str)
async def test_a_typescript_host_over_stdio_gets_the_ui_and_the_skill_of_the_right_server(
    player: Player, tmp_path: Path
):
    client_driver(player.driver)
    config = write_config(tmp_path, toolboxes(*NAMES))
    command = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), "--toolbox", "dev"]
    steps = {
        "tools/list": {"do": "listTools"},
        "skills/list": {"do": "request", "method": "skills/list", "params": {}},
        **{
            uri: {"do": "readResource", "params": {"uri": uri}}
            for uri in (*READABLE.values(), *ALONE.values(), *(f"skill://{name}/team/git/x.md" for name in NAMES))
        },
        "skills/get": {"do": "request", "method": "skills/get", "params": {"uri": "skill://beta/team/git/SKILL.md"}},
    }
    played = await asyncio.to_thread(play, Scene(player, command, steps, workbench_environment(tmp_path)), tmp_path)

    async def ask(method: str, params: Json) -> Json:
        return played.result(params.get("uri", method))

    assert await apps_of(ask) == {**READABLE, **ALONE}
    assert await texts_of(ask, READABLE) == {tool: "<p>{} of {}</p>".format(*tool.split("_")) for tool in READABLE}
    files = {name: f"skill://{name}/team/git/x.md" for name in NAMES}
    assert await texts_of(ask, files) == {name: f"x of {name}\n" for name in NAMES}
    listed = {one["uri"]: one for one in played.result("skills/list")["skills"]}
    assert played.result("skills/get")["skill"] == listed["skill://beta/team/git/SKILL.md"]


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_under_the_two_meta_tools_a_ui_can_be_read_and_an_ambiguous_one_says_how(era: Era, tmp_path: Path):
    async with serving(write_config(tmp_path, toolboxes(*NAMES)), era=era) as wire:
        opened = await wire.open("dev", detail="full")
        entries = {tool["name"]: tool["_meta"]["ui"]["resourceUri"] for tool in opened["tools"]}
        assert entries == {**OWN, **ALONE}
        refused = await wire.request("resources/read", {"uri": "ui://widget/main"})
        for name in NAMES:
            qualified = f"ui://{name}/widget/main"
            assert qualified in refused["error"]["message"]
            read = await wire.request("resources/read", {"uri": qualified})
            assert read["result"]["contents"][0]["text"] == f"<p>main of {name}</p>"
        assert (await wire.request("skills/list"))["error"]["code"] == -32601


async def test_a_qualified_uri_outlives_its_connection(tmp_path: Path):
    config = write_config(tmp_path, toolboxes(*NAMES))
    for _ in range(2):
        async with serving(config, "--toolbox", "dev") as wire:
            read = await wire.request("resources/read", {"uri": "ui://beta/widget/main"})
            assert json.dumps(read["result"]).count("main of beta") == 1
