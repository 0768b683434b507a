"""MCP Apps on surfaces with several servers: the UI that a tool names is the one that its host reads."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.dynamic import DynamicSurface
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.support.memory import MemoryServer, serving
from tests.surfaces.benches import HANDSHAKE, MODERN, answer, call, listed

MAIN = "ui://widget/main"
FLAT = "ui/resourceUri"


def app(name: str, *, uri: str = MAIN, listing: tuple[str, ...] = (), templates: tuple[str, ...] = ()) -> MemoryServer:
    """A server whose tool names a UI, in the form of today and in the older one."""
    server = MemoryServer(name, resources=listing, templates=templates)
    meta = {"ui": {"resourceUri": uri, "visibility": ["model", "app"]}, FLAT: uri, "own": 1.50}
    tool = {"name": f"show_{name}", "inputSchema": {"type": "object"}, "_meta": meta}
    server.methods["tools/list"] = {"tools": [tool]}
    return server


async def named(surface: Surface, caller: Caller = MODERN) -> dict[str, str]:
    """The URI of the UI of each tool, by the server that says so."""
    found: dict[str, str] = {}
    for tool in await listed(surface, caller):
        if "ui" in (meta := tool.get("_meta", {})):
            assert meta["ui"]["resourceUri"] == meta[FLAT]
            assert (meta["ui"]["visibility"], meta["own"]) == (["model", "app"], 1.5)
            found[tool["name"][-1]] = meta[FLAT]
    return found


async def read(surface: Surface, uri: str, caller: Caller = MODERN) -> str:
    """Which server was read, and under which URI."""
    ((content),) = json.loads(await answer(surface, "resources/read", caller, uri=uri))["contents"]
    return f"{content['text']} {content['uri']}"


async def refused(surface: Surface, uri: str) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await read(surface, uri)
    return caught.value


def each_listing(*listings: tuple[tuple[str, ...], tuple[str, ...]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("of_a", "of_b"), listings)


@each_listing(((MAIN,), (MAIN,)), ((MAIN,), ()), ((), ()))
@pytest.mark.parametrize("first", ["resources/list", "tools/list"])
async def test_a_ui_that_two_servers_share_names_the_server_in_its_own_scheme(of_a: Any, of_b: Any, first: str):
    async with serving({"dev": {"a": app("a", listing=of_a), "b": app("b", listing=of_b)}}) as workbench:
        for surface in (ToolboxSurface(workbench, "dev"), DynamicSurface(workbench)):
            await answer(surface, first, MODERN)
            assert await named(surface) == {"a": "ui://a/widget/main", "b": "ui://b/widget/main"}
            resources = json.loads(await answer(surface, "resources/list", MODERN))["resources"]
            assert [one["uri"] for one in resources] == [f"ui://a/{MAIN[5:]}"] * len(of_a) + [
                f"ui://b/{MAIN[5:]}"
            ] * len(of_b)
            for name, uri in (await named(surface)).items():
                assert await read(surface, uri) == f"{name} {MAIN}"
            error = await refused(surface, MAIN)
            assert error.code == -32602
            assert "ui://a/widget/main\nui://b/widget/main" in error.message


async def test_a_definition_whose_ui_nobody_else_has_is_passed_on_as_it_was():
    plain = app("a")
    async with serving({"dev": {"a": plain, "b": MemoryServer("b", resources=["ui://other"])}}) as workbench:
        result = await answer(ToolboxSurface(workbench, "dev"), "tools/list", MODERN)
        (definition,) = plain.methods["tools/list"]["tools"]
        assert json.dumps(definition, separators=(",", ":")).encode() in result


@pytest.mark.parametrize("surface", [ToolboxSurface, DynamicSurface, ProxySurface])
async def test_an_unlisted_ui_is_read_at_the_server_whose_tool_names_it(surface: Any):
    boxes = {"dev": {"a": app("a"), "b": app("b", uri="ui://other")}}
    async with serving(boxes) as workbench:
        made = surface(workbench, "dev") if surface is ToolboxSurface else surface(workbench)
        assert await read(made, MAIN) == f"a {MAIN}"


async def test_the_ui_in_an_entry_of_an_opened_toolbox_can_be_read_or_says_how():
    async with serving({"dev": {"a": app("a"), "b": app("b")}}) as workbench:
        surface = ProxySurface(workbench)
        opened = json.loads((await call(surface, "open_toolbox", {"toolbox": "dev"}))["content"][0]["text"])
        assert {tool["_meta"][FLAT] for tool in opened["tools"]} == {MAIN}
        assert "ui://a/widget/main\nui://b/widget/main" in (await refused(surface, MAIN)).message
        assert await read(surface, "ui://b/widget/main", HANDSHAKE) == f"b {MAIN}"


async def test_servers_of_one_name_in_two_toolboxes_are_named_with_their_toolbox():
    async with serving({"dev": {"a": app("a")}, "ops": {"a": app("z")}}) as workbench:
        surface = DynamicSurface(workbench)
        uris = {"a": "ui://dev+a/widget/main", "z": "ui://ops+a/widget/main"}
        assert await named(surface) == uris
        assert [await read(surface, uri) for uri in uris.values()] == [f"a {MAIN}", f"z {MAIN}"]
        assert (
            "ui://dev+a/widget/main\nui://ops+a/widget/main" in (await refused(surface, "ui://a/widget/main")).message
        )


async def test_a_uri_that_a_server_really_has_wins_over_one_that_names_a_server():
    forged = "ui://a/widget/main"
    boxes = {"dev": {"a": app("a"), "b": app("b"), "c": app("c", uri=forged), "d": MemoryServer("d")}}
    boxes["dev"]["d"].methods["tools/call"] = {"content": [], "_meta": {"ui": {"resourceUri": "ui://b/widget/main"}}}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await named(surface) == {"a": "ui://%61/widget/main", "b": "ui://b/widget/main", "c": forged}
        assert await read(surface, "ui://%61/widget/main") == f"a {MAIN}"
        assert await read(surface, forged) == f"c {forged}"
        await call(surface, "t", caller=MODERN)
        assert await read(surface, "ui://b/widget/main") == f"b {MAIN}"


async def test_a_server_that_is_named_like_its_own_uris_is_read_under_them():
    boxes = {"dev": {"weather": app("a", uri="ui://weather/main", templates=("ui://weather/{city}",)), "b": app("b")}}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await named(surface) == {"a": "ui://weather/main", "b": MAIN}
        for uri in ("ui://weather/main", "ui://weather/berlin"):
            assert await read(surface, uri) == f"a {uri}"


async def test_a_uri_that_names_a_server_that_fails_is_not_asked_of_another_one():
    boxes = {"dev": {"a": app("a"), "b": app("b")}}
    boxes["dev"]["b"].methods["initialize"] = ServerRefused("not today", rpc_code=-1)
    async with serving(boxes) as workbench:
        error = await refused(ToolboxSurface(workbench, "dev"), "ui://b/widget/main")
        assert (error.code, error.data["server"]) == (-31001, "b")
    assert boxes["dev"]["a"].asked("resources/read") == []


async def test_a_template_that_two_servers_share_names_the_server_in_its_own_scheme():
    shared, greedy = "ui://item/{id}", "ui://{+path}"
    boxes = {"dev": {"a": app("a", templates=(shared,)), "b": app("b", templates=(shared, greedy))}}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        found = json.loads(await answer(surface, "resources/templates/list", MODERN))["resourceTemplates"]
        assert [one["uriTemplate"] for one in found] == ["ui://a/item/{id}", "ui://b/item/{id}", greedy]
        assert await read(surface, "ui://a/item/7") == "a ui://item/7"
        assert await read(surface, "ui://elsewhere/7") == "b ui://elsewhere/7"
        for server in boxes["dev"].values():
            server.methods["completion/complete"] = {"completion": {"values": []}}
        reference = {"type": "ref/resource", "uri": "ui://a/item/{id}"}
        await answer(surface, "completion/complete", MODERN, ref=reference, argument={"name": "id", "value": ""})
        assert boxes["dev"]["a"].asked("completion/complete")[0]["ref"]["uri"] == shared


@pytest.mark.parametrize("meta", [{"ui": {"resourceUri": "ui://late"}}, {FLAT: "ui://late"}])
async def test_a_ui_that_a_result_names_can_be_read(meta: Any):
    boxes = {"dev": {"a": app("a"), "b": app("b")}}
    boxes["dev"]["b"].methods["tools/call"] = {"content": [], "_meta": meta}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await call(surface, "show_b", caller=MODERN)
        assert await read(surface, "ui://late") == "b ui://late"


async def test_a_shared_ui_is_watched_under_the_uri_that_names_its_server():
    boxes = {"dev": {"a": app("a", listing=(MAIN,)), "b": app("b", listing=(MAIN,))}}
    boxes["dev"]["b"].methods["resources/subscribe"] = {}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await surface.subscribe(MODERN, "ui://b/widget/main")
        changed = {"uri": Raw(json.dumps(MAIN).encode())}
        (told,) = surface.translate(ServerIdentifier("dev", "b"), "notifications/resources/updated", changed)
        assert told["uri"] == "ui://b/widget/main"


@pytest.mark.parametrize(
    "meta", [{"ui": 5}, {"ui": {"resourceUri": 5}}, {"ui": {"resourceUri": "file:///x"}}, {FLAT: None}]
)
async def test_a_definition_that_names_no_ui_is_left_alone(meta: Any):
    boxes = {"dev": {"a": app("a"), "b": app("b"), "c": MemoryServer("c")}}
    odd = {"name": "odd", "inputSchema": {"type": "object"}, "_meta": meta}
    boxes["dev"]["c"].methods["tools/list"] = {"tools": [odd]}
    async with serving(boxes) as workbench:
        tools = await listed(ToolboxSurface(workbench, "dev"), MODERN)
        assert odd in tools
