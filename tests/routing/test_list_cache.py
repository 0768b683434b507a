"""A list is in one place and in one state, whoever looks at it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcp_workbench.errors import ConnectFailed
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.routing.server_lists import Kind
from mcp_workbench.wire.caller import LIBRARY
from mcp_workbench.workbench import Workbench
from tests.support.library import tool
from tests.support.procs import wait_until
from tests.support.remembering import Shop, remembering

A = ServerIdentifier("dev", "a")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "catalog.sqlite"


def state(bench: Workbench) -> str:
    return bench.at(LIBRARY).pool.handle(A).lists.tools.state


async def test_a_list_is_unknown_then_current_and_remembered_when_its_server_rests(store: Path):
    async with remembering(store, {"dev": {"a": Shop()}}) as bench:
        assert state(bench) == "unknown"
        await bench.open("dev")
        assert state(bench) == "current"
        bench.at(LIBRARY).pool.handle(A).supervisor.stop_when_idle()
        assert state(bench) == "remembered"
    async with remembering(store, {"dev": {"a": Shop()}}) as bench:
        assert state(bench) == "unknown"  # nothing is read before somebody asks
        await bench.open("dev")
        assert state(bench) == "remembered"


async def test_a_list_that_changed_is_refreshing_until_the_server_has_listed_again(store: Path):
    shop, asked, gate = Shop(tools=["t"]), asyncio.Event(), asyncio.Event()
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        await bench.open("dev")
        reply = shop.methods["tools/list"]

        async def slowly(_params: object) -> object:
            asked.set()
            await gate.wait()
            return reply

        shop.methods["tools/list"] = slowly
        cache = bench.at(LIBRARY).pool.handle(A).lists.tools
        cache.invalidate()
        assert cache.state == "refreshing"
        await asked.wait()
        assert cache.state == "refreshing"  # what stands is still the old list
        gate.set()
        await wait_until(lambda: cache.state == "current", what="the new list")


async def test_the_list_of_a_server_that_cannot_be_reached_is_lost_until_it_lists_again(store: Path):
    shop = Shop(tools=["t"])
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        await bench.open("dev")
        router = bench.at(LIBRARY)
        router.pool.handle(A).supervisor.stop_when_idle()
        shop.fail()
        with pytest.raises(ConnectFailed):
            await router.pool.connect(A)
        assert state(bench) == "lost"
        assert [one.tool for one in router.catalog.known()] == ["t"]  # a call still finds its way
        assert list(router.catalog.present()) == []
        assert (await router.search("t")).found == ()
        shop.heal()
        await bench.open("dev")
        assert state(bench) == "current"


async def test_listing_search_and_call_read_the_same_definition(store: Path):
    async with remembering(store, {"dev": {"a": Shop(tools=["paint"])}}) as bench:
        router = bench.at(LIBRARY)
        [(_, opened)] = (await router.open("dev")).found
        [(_, found)] = (await router.search("paint")).found
        assert opened is found is router.catalog.tool(tool("a", "paint"))


@pytest.mark.parametrize("kind", ["prompts", "resources", "templates"])
async def test_the_other_lists_have_the_same_states(store: Path, kind: Kind):
    shop = Shop(capabilities={"tools": {}, "prompts": {}, "resources": {}})
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        router = bench.at(LIBRARY)
        cache = router.pool.handle(A).lists.caches[kind]
        assert cache.state == "unknown"
        await router.items(kind, ["dev"])
        assert cache.state == "current"
        router.pool.handle(A).supervisor.stop_when_idle()
        assert cache.state == "remembered"
        shop.fail()
        with pytest.raises(ConnectFailed):
            await router.pool.connect(A)
        assert cache.state == "lost"
        shop.heal()
        await bench.open("dev")
        assert cache.state != "lost"
