"""The resources that a client sees: which server an URI belongs to, and who may see it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.surfaces.resource_uris import SCHEME, qualified
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.support.memory import LISTEN, MemoryServer, never, serving
from tests.surfaces.benches import HANDSHAKE, MODERN, answer
from tests.wire.pair import settle

A, B = ServerIdentifier("dev", "a"), ServerIdentifier("dev", "b")
UPDATED = "notifications/resources/updated"
SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"


def servers(*, modern: bool = False, **resources: list[str]) -> dict[str, MemoryServer]:
    boxes = {name: MemoryServer(name, modern=modern, resources=listed) for name, listed in resources.items()}
    for server in boxes.values():
        server.methods |= {SUBSCRIBE: {}, UNSUBSCRIBE: {}}
    return boxes


async def listed(surface: Surface, caller: Caller = MODERN) -> list[str]:
    return [one["uri"] for one in json.loads(await answer(surface, "resources/list", caller))["resources"]]


async def read(surface: Surface, uri: Any, caller: Caller = MODERN) -> str:
    """Which server was read."""
    ((content),) = json.loads(await answer(surface, "resources/read", caller, uri=uri))["contents"]
    return content["text"]


async def refused(surface: Surface, uri: Any, caller: Caller = MODERN, method: str = "resources/read") -> RpcError:
    with pytest.raises(RpcError) as caught:
        await answer(surface, method, caller, uri=uri)
    return caught.value


def names_of(surface: ToolboxSurface, server: ServerIdentifier, uri: str) -> list[str]:
    """Under which names the client is told of a change."""
    told = surface.translate(server, UPDATED, {"uri": Raw(json.dumps(uri).encode())})
    return [json.loads(jsonrpc.encode(params))["uri"] for params in told]


# -- which server has it


async def test_a_resource_that_one_server_has_keeps_its_uri_and_a_shared_one_names_the_server():
    async with serving({"dev": servers(a=["x:1", "x:same"], b=["x:same"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        shared = [qualified(A, "x:same"), qualified(B, "x:same")]
        assert await listed(surface) == ["x:1", *shared]
        assert [await read(surface, uri) for uri in ("x:1", *shared)] == ["a", "a", "b"]
        error = await refused(surface, "x:same")
        assert error.code == -32602
        assert all(uri in error.message for uri in shared)


async def test_a_resource_whose_uri_clients_would_refuse_is_listed_under_one_that_names_its_server():
    async with serving({"dev": servers(a=["x:1", "README.md"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await listed(surface) == ["x:1", qualified(A, "README.md")]
        assert [await read(surface, uri) for uri in (qualified(A, "README.md"), "README.md")] == ["a", "a"]


async def test_reading_one_of_two_by_its_server_does_not_say_which_is_meant_without_it():
    async with serving({"dev": servers(a=["x:same"], b=["x:same"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await listed(surface)
        assert await read(surface, qualified(A, "x:same")) == "a"
        assert (await refused(surface, "x:same")).code == -32602


async def test_a_server_that_hangs_does_not_delay_the_read_of_what_another_has_listed():
    boxes = {"dev": servers(a=["x:1"], b=[])}
    boxes["dev"]["b"].methods["resources/list"] = never
    async with serving(boxes, refresh_wait_seconds=60, open_timeout_seconds=60) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await workbench.at(MODERN).pool.handle(A).lists.items("resources")
        await answer(surface, "tools/call", MODERN, name="dev__b__t")
        assert await asyncio.wait_for(read(surface, "x:1"), 5) == "a"


async def test_a_server_that_hangs_is_waited_for_once():
    boxes = {"dev": servers(a=[], b=[])}
    boxes["dev"]["a"].methods["resources/templates/list"] = {"resourceTemplates": [{"uriTemplate": "x:{n}"}]}
    boxes["dev"]["b"].methods["resources/list"] = never
    async with serving(boxes, refresh_wait_seconds=60, open_timeout_seconds=0.2) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        for _ in range(3):
            assert await asyncio.wait_for(read(surface, "x:1"), 5) == "a"
    assert len(boxes["dev"]["b"].asked("resources/list")) == 1


@pytest.mark.parametrize("first", ["listed", "not listed"])
async def test_a_link_does_not_take_the_place_of_a_resource_that_another_server_lists(first: str):
    boxes = {"dev": servers(a=["file:///secret"], b=[])}
    boxes["dev"]["b"].methods["tools/call"] = {"content": [{"type": "resource_link", "uri": "file:///secret"}]}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        if first == "listed":
            assert await read(surface, "file:///secret") == "a"
        await answer(surface, "tools/call", MODERN, name="dev__b__t")
        assert await read(surface, "file:///secret") == "a"
        assert await surface.subscribe(MODERN, "file:///secret")
        assert boxes["dev"]["b"].asked(SUBSCRIBE) == []


async def test_what_one_server_links_to_is_read_there_though_no_list_has_it():
    boxes = {"dev": servers(a=[], b=[])}
    boxes["dev"]["b"].methods["tools/call"] = {"content": [{"type": "resource_link", "uri": "x:hidden"}]}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert (await refused(surface, "x:hidden")).code == -32602
        await answer(surface, "tools/call", MODERN, name="dev__b__t")
        assert await read(surface, "x:hidden") == "b"


async def test_what_two_servers_link_to_is_read_at_neither_without_its_name():
    boxes = {"dev": servers(a=[], b=[])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        for name, server in boxes["dev"].items():
            server.methods["tools/call"] = {"content": [{"type": "resource_link", "uri": "x:hidden"}]}
            await answer(surface, "tools/call", MODERN, name=f"dev__{name}__t")
        error = await refused(surface, "x:hidden")
        assert qualified(A, "x:hidden") in error.message
        assert qualified(B, "x:hidden") in error.message
        assert await read(surface, qualified(A, "x:hidden")) == "a"


async def test_a_link_says_which_of_those_that_list_it_is_meant():
    boxes = {"dev": servers(a=["x:same"], b=["x:same"])}
    boxes["dev"]["b"].methods["tools/call"] = {"content": [{"type": "resource_link", "uri": "x:same"}]}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await answer(surface, "tools/call", MODERN, name="dev__b__t")
        assert await read(surface, "x:same") == "b"


async def test_an_unlisted_resource_of_the_only_server_is_passed_on_to_it_also_when_it_does_not_run_yet():
    async with serving({"dev": servers(a=[])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await read(surface, "x:hidden") == "a"


async def test_what_no_list_has_is_read_at_the_server_whose_template_fits_best():
    boxes = {"dev": {"a": MemoryServer("a", templates=["x:{id}"]), "b": MemoryServer("b", templates=["x:b/{id}"])}}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert [await read(surface, uri) for uri in ("x:1", "x:b/1")] == ["a", "b"]


@pytest.mark.parametrize(("caller", "code"), [(HANDSHAKE, -32002), (MODERN, -32602)])
async def test_what_nobody_has_is_not_found_in_the_words_of_the_era(caller: Caller, code: int):
    async with serving({"dev": servers(a=[], b=[])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert (await refused(surface, "x:nothing", caller)).code == code


@pytest.mark.parametrize("uri", [None, 5, [], {}])
async def test_an_uri_that_is_no_string_is_invalid(uri: Any):
    async with serving({"dev": servers(a=["x:1"])}) as workbench:
        assert (await refused(ToolboxSurface(workbench, "dev"), uri)).code == -32602


# -- URIs of our own scheme


@pytest.mark.parametrize("victim", ["dev/b/file:///secret", "dev/b/", "nowhere"])
async def test_a_server_that_lists_an_uri_of_our_scheme_reads_no_other_server(victim: str):
    boxes = {"dev": servers(a=[f"{SCHEME}{victim}"], b=["file:///secret"])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        forged, secret = await listed(surface)
        assert forged == qualified(A, f"{SCHEME}{victim}")
        assert [await read(surface, forged), await read(surface, secret)] == ["a", "b"]
    assert boxes["dev"]["a"].asked("resources/read")[0]["uri"] == f"{SCHEME}{victim}"


async def test_a_link_to_an_uri_of_our_scheme_leads_where_it_says():
    boxes = {"dev": servers(a=[], b=["file:///secret"])}
    forged = qualified(B, "file:///secret")
    boxes["dev"]["a"].methods["tools/call"] = {"content": [{"type": "resource_link", "uri": forged}]}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await answer(surface, "tools/call", MODERN, name="dev__a__t")
        assert await read(surface, forged) == "b"


# -- who may see it


@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN])
async def test_a_toolbox_that_is_served_alone_is_no_way_to_another(caller: Caller):
    boxes = {"dev": servers(a=["x:1"]), "ops": servers(b=["file:///secret"])}
    escape = qualified(ServerIdentifier("ops", "b"), "file:///secret")
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        not_found = -32602 if caller.modern else -32002
        assert (await refused(surface, escape, caller)).code == not_found
        assert (await refused(surface, escape, caller, SUBSCRIBE)).code == not_found
        assert not await surface.subscribe(caller, escape)
        reference = {"type": "ref/resource", "uri": escape}
        with pytest.raises(RpcError):
            await answer(surface, "completion/complete", caller, ref=reference, argument={"name": "x", "value": ""})
    assert boxes["ops"]["b"].starts == 0


async def test_what_another_toolbox_links_to_is_not_read_through_this_one():
    boxes = {"dev": servers(a=[], c=[]), "ops": servers(b=[])}
    boxes["ops"]["b"].methods["tools/call"] = {"content": [{"type": "resource_link", "uri": "x:hidden"}]}
    async with serving(boxes) as workbench:
        await answer(ToolboxSurface(workbench, "ops"), "tools/call", MODERN, name="t")
        assert (await refused(ToolboxSurface(workbench, "dev"), "x:hidden")).code == -32602
    assert boxes["ops"]["b"].asked("resources/read") == []


async def test_all_toolboxes_are_within_reach_of_the_default_surface():
    boxes = {"dev": servers(a=["x:1"]), "ops": servers(b=["x:2"])}
    async with serving(boxes) as workbench:
        surface = ProxySurface(workbench)
        assert await read(surface, qualified(ServerIdentifier("ops", "b"), "x:2"), HANDSHAKE) == "b"
        for nowhere in (ServerIdentifier("no", "b"), ServerIdentifier("ops", "no")):
            assert (await refused(surface, qualified(nowhere, "x:2"))).code in (-32602, -32002)
    assert boxes["dev"]["a"].starts == 0


# -- subscriptions


async def test_in_the_handshake_era_a_subscription_is_a_set():
    boxes = {"dev": servers(a=["x:1"])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        for _ in range(2):
            await answer(surface, SUBSCRIBE, HANDSHAKE, uri="x:1")
        assert names_of(surface, A, "x:1") == ["x:1"]
        await answer(surface, UNSUBSCRIBE, HANDSHAKE, uri="x:1")
        await settle()
        assert names_of(surface, A, "x:1") == []
    assert [len(boxes["dev"]["a"].asked(method)) for method in (SUBSCRIBE, UNSUBSCRIBE)] == [1, 1]


async def test_in_the_modern_era_two_that_watch_one_resource_leave_one_by_one():
    boxes = {"dev": servers(a=["x:1"], modern=True)}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        for _ in range(2):
            assert await surface.subscribe(MODERN, "x:1")
        surface.unsubscribe(MODERN, "x:1")
        assert names_of(surface, A, "x:1") == ["x:1"]
        surface.unsubscribe(MODERN, "x:1")
        assert names_of(surface, A, "x:1") == []
        await settle()
        assert "resourceSubscriptions" not in boxes["dev"]["a"].asked(LISTEN)[-1]["notifications"]


async def test_a_change_is_told_under_the_name_that_the_client_watches_and_for_that_server_only():
    boxes = {"dev": servers(a=["x:same"], b=["x:same"])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        watched = qualified(A, "x:same")
        assert await surface.subscribe(MODERN, watched)
        assert names_of(surface, A, "x:same") == [watched]
        assert names_of(surface, A, "x:same/part") == [f"{watched}/part"]
        assert names_of(surface, A, "x:samebutlonger") == []
        assert names_of(surface, B, "x:same") == []
        assert names_of(surface, A, "x:other") == []


async def test_what_a_server_says_of_a_resource_that_is_not_watched_there_is_not_told():
    boxes = {"dev": servers(a=["x:1"], b=["x:2"])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await surface.subscribe(MODERN, "x:1")
        told = {
            server: list(surface.translate(ServerIdentifier("dev", server), UPDATED, {"uri": Raw(b'"x:1"')}))
            for server in "ab"
        }
    assert [len(one) for one in told.values()] == [1, 0]


async def test_what_is_too_long_or_too_many_is_not_watched():
    boxes = {"dev": servers(a=["x:1", "x:2", "x:3"])}
    async with serving(boxes, uri_length=10, subscriptions=2) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert (await refused(surface, "x:" + "1" * 9, HANDSHAKE, SUBSCRIBE)).code == -32602
        for uri in ("x:1", "x:2", "x:1"):
            await answer(surface, SUBSCRIBE, HANDSHAKE, uri=uri)
        assert "at most 2" in (await refused(surface, "x:3", HANDSHAKE, SUBSCRIBE)).message
        await answer(surface, UNSUBSCRIBE, HANDSHAKE, uri="x:2")
        await answer(surface, SUBSCRIBE, HANDSHAKE, uri="x:3")
    assert [params["uri"] for params in boxes["dev"]["a"].asked(SUBSCRIBE)] == ["x:1", "x:2", "x:3"]


async def test_what_its_server_refuses_is_not_watched_and_said_in_its_words():
    boxes = {"dev": servers(a=["x:1"])}
    boxes["dev"]["a"].methods[SUBSCRIBE] = ServerRefused("not this one", rpc_code=-7)
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        error = await refused(surface, "x:1", HANDSHAKE, SUBSCRIBE)
        assert (error.code, error.message) == (-7, "not this one")
        assert not await surface.subscribe(MODERN, "x:1")
        assert names_of(surface, A, "x:1") == []


async def test_leaving_makes_no_place_and_is_no_error_when_the_workbench_closes():
    boxes = {"dev": servers(a=["x:1"])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await surface.subscribe(MODERN, "x:1")
        await workbench.close()
        surface.unsubscribe(MODERN, "x:1")
        assert names_of(surface, A, "x:1") == []
        surface.unsubscribe(MODERN, "x:never")


async def test_a_client_that_has_no_place_left_watches_nothing():
    async with serving({"dev": servers(a=["x:1"])}, places=1) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await surface.subscribe(MODERN, "x:1")
        other = Caller(version="2026-07-28", modern=True, audience=MODERN.audience, key=(MODERN.audience, True, b"x"))
        assert not await surface.subscribe(other, "x:1")
