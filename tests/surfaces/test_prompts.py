"""The prompts that a client sees: under which names, and of which servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.support.memory import MemoryServer, serving
from tests.surfaces.benches import HANDSHAKE, MODERN, answer


async def names(surface: Surface, caller: Caller = MODERN) -> list[str]:
    return [prompt["name"] for prompt in json.loads(await answer(surface, "prompts/list", caller))["prompts"]]


async def got(surface: Surface, name: Any, caller: Caller = MODERN) -> str:
    return json.loads(await answer(surface, "prompts/get", caller, name=name))["description"]


async def refused(surface: Surface, name: Any, caller: Caller = MODERN) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await got(surface, name, caller)
    return caught.value


def servers(**prompts: list[str]) -> dict[str, MemoryServer]:
    return {name: MemoryServer(name, prompts=listed) for name, listed in prompts.items()}


# -- one toolbox


async def test_in_one_toolbox_a_prompt_keeps_its_name_unless_two_servers_share_it():
    async with serving({"dev": servers(a=["plan", "same"], b=["same"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await names(surface) == ["plan", "dev__a__same", "dev__b__same"]
        assert [await got(surface, name) for name in await names(surface)] == ["a:plan", "a:same", "b:same"]
        assert "not found" in (await refused(surface, "same")).message


async def test_a_prompt_can_not_pose_as_another_ones_joined_name():
    async with serving({"dev": servers(a=["same"], b=["same"], c=["dev__a__same"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await got(surface, "dev__a__same") == "a:same"
        poser = [name for name in await names(surface) if name not in ("dev__a__same", "dev__b__same")]
        assert [await got(surface, name) for name in poser] == ["c:dev__a__same"]


async def test_under_its_own_name_a_prompt_is_what_its_server_listed_and_under_another_it_says_where_it_is_from():
    boxes = {"dev": servers(a=[], b=["same"])}
    listed = {"name": "same", "arguments": [{"name": "x"}], "description": "d"}
    boxes["dev"]["a"].methods["prompts/list"] = {"prompts": [{**listed, "name": "own"}, listed]}
    async with serving(boxes) as workbench:
        prompts = json.loads(await answer(ToolboxSurface(workbench, "dev"), "prompts/list", MODERN))["prompts"]
    assert prompts[0] == {**listed, "name": "own"}
    meta = {"source_server": "a", "toolbox_name": "dev", "original_name": "same"}
    assert prompts[1] == {**listed, "name": "dev__a__same", "title": "same", "_meta": meta}


async def test_a_toolbox_that_is_served_alone_has_no_prompts_of_another():
    boxes = {"dev": servers(a=["plan"]), "ops": servers(a=["secret"])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await names(surface) == ["plan"]
        for name in ("secret", "ops__a__secret"):
            assert (await refused(surface, name)).code == -32602
    assert boxes["ops"]["a"].starts == 0


# -- all toolboxes


async def test_a_handshake_client_has_the_prompts_of_what_it_opened_and_a_modern_one_all():
    boxes = {"dev": servers(a=["plan"]), "ops": servers(b=["plan"])}
    async with serving(boxes) as workbench:
        surface = ProxySurface(workbench)
        assert await names(surface, HANDSHAKE) == []
        await answer(surface, "tools/call", HANDSHAKE, name="open_toolbox", arguments={"toolbox": "ops"})
        assert await names(surface, HANDSHAKE) == ["ops__b__plan"]
        assert await names(surface, MODERN) == ["dev__a__plan", "ops__b__plan"]


@pytest.mark.parametrize("name", [None, 5, [], {}])
async def test_a_name_that_is_no_string_is_invalid(name: Any):
    async with serving({"dev": servers(a=["plan"])}) as workbench:
        assert (await refused(ToolboxSurface(workbench, "dev"), name)).code == -32602


async def test_a_prompt_can_be_got_without_listing_first():
    async with serving({"dev": servers(a=["plan"])}) as workbench:
        assert await got(ProxySurface(workbench), "dev__a__plan") == "a:plan"


# -- names over time


async def test_a_name_that_was_given_out_stays_good_though_its_server_renames_it():
    boxes = {"dev": servers(a=["old"])}
    async with serving(boxes, relist_interval_seconds=0.01) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await names(surface) == ["old"]
        boxes["dev"]["a"].methods["prompts/list"] = {"prompts": [{"name": "new"}]}
        boxes["dev"]["a"].say("notifications/prompts/list_changed")
        assert await names(surface) == ["new"]
        assert [await got(surface, name) for name in ("old", "new")] == ["a:old", "a:new"]


async def is_known(surface: Surface, name: str) -> bool:
    try:
        return await got(surface, name) == f"a:{name}"
    except RpcError:
        return False


async def test_a_server_that_renames_its_prompts_all_the_time_takes_no_more_than_its_room():
    boxes = {"dev": servers(a=[])}
    count = iter(range(1000))
    boxes["dev"]["a"].methods["prompts/list"] = lambda _params: {
        "prompts": [{"name": f"p{next(count)}"} for _ in range(3)]
    }
    async with serving(boxes, known_names=5, relist_interval_seconds=60) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        for _ in range(10):
            last = await names(surface)
            assert await got(surface, last[0]) == f"a:{last[0]}"
            boxes["dev"]["a"].say("notifications/prompts/list_changed")
        assert last == ["p27", "p28", "p29"]
        boxes["dev"]["a"].methods["prompts/list"] = {"prompts": [{"name": name} for name in last]}
        known = [name for name in (f"p{number}" for number in range(30)) if await is_known(surface, name)]
        assert set(last) <= set(known)
        assert len(known) <= 5 + 3
