"""Lists stay fresh: the time to live that servers state is honoured, and what is missing is asked for once more."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_workbench.catalog.snapshot import Opened
from mcp_workbench.errors import ToolNotFound
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.routing.list_cache import ListCache
from mcp_workbench.routing.server_lists import Kind
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.dynamic import DynamicSurface
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire.caller import LIBRARY
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench
from tests.support.library import handle_of, tool
from tests.support.memory import never
from tests.support.procs import wait_until
from tests.support.remembering import Clock, Shop, own_clock, remembering, shop_config
from tests.surfaces.benches import HANDSHAKE, MODERN, answer, call, error_of
from tests.wire.pair import settle

HOUR_MS = 3_600_000
DAY = 86_400.0
QUIET: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}}
"""Capabilities of a server that does not announce changes."""
LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "templates": "resources/templates/list",
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "catalog.sqlite"


@pytest.fixture
def clock() -> Iterator[Clock]:
    with own_clock() as clock:
        yield clock


class Stated(Shop):
    """A modern server that states how long its lists stay fresh."""

    def __init__(self, ttl_ms: Any, *, capabilities: dict[str, Any] | None = None, **fields: Any) -> None:
        super().__init__(modern=True, capabilities=capabilities or QUIET, **fields)
        for method in LISTS.values():
            self.methods[method] |= {"ttlMs": ttl_ms, "cacheScope": "public", "resultType": "complete"}

    def add(self, kind: str, name: str) -> None:
        """Offer one thing more, and tell nobody."""
        member = {"templates": "resourceTemplates"}.get(kind, kind)
        named = {"resources": "uri", "templates": "uriTemplate"}.get(kind, "name")
        before = self.methods[LISTS[kind]]
        self.methods[LISTS[kind]] = before | {member: [*before[member], {named: name, "name": name, "inputSchema": {}}]}

    def lists(self, kind: str = "tools") -> int:
        return len(self.asked(LISTS[kind]))


class Silent(Stated):
    """A handshake server whose list grows without a word."""

    def __init__(self, **fields: Any) -> None:
        Shop.__init__(self, capabilities=QUIET, **fields)


def names(opened: Opened) -> list[str]:
    return [identifier.tool for identifier, _ in opened.found]


async def expired(bench: Workbench) -> None:
    tools = handle_of(bench, "dev", "a").lists.tools
    await wait_until(lambda: tools.is_stale, what="the end of its time to live")


# -- the time to live that a server states


async def test_a_list_whose_time_has_passed_is_asked_for_at_the_next_open_and_by_nobody_before(store: Path):
    shop = Stated(5, tools=["before"])
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        assert names(await bench.open("dev")) == ["before"]
        shop.add("tools", "after")
        await expired(bench)
        await settle(50)
        assert shop.lists() == 1
        opened = await asyncio.gather(*(bench.open("dev") for _ in range(20)))
        assert {tuple(names(one)) for one in opened} == {("before", "after")}
        assert shop.lists() == 2


async def test_a_search_in_every_toolbox_asks_running_servers_whose_list_is_stale(store: Path):
    shop, resting = Stated(5, tools=["before"]), Shop(tools=["other"])
    shops = {"dev": {"a": shop, "b": resting}}
    async with remembering(store, {"dev": {"b": resting, "a": Shop()}}) as bench:
        await bench.open("dev")
    async with remembering(store, shops) as bench:
        await bench.use(tool("a", "before"))
        shop.add("tools", "archive_mail")
        await expired(bench)
        found = (await bench.at(LIBRARY).search_all("archive mail")).found
        assert [identifier.tool for identifier, _ in found] == ["archive_mail"]
    assert resting.tried == 1


@pytest.mark.parametrize("kind", ["prompts", "resources", "templates"])
async def test_other_lists_have_a_time_to_live_too(store: Path, kind: Kind):
    shop = Stated(5)
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        router = bench.at(LIBRARY)
        assert (await router.items(kind, ["dev"]))[ServerIdentifier("dev", "a")] == ()
        shop.add(kind, "x:new")
        listing = handle_of(bench, "dev", "a").lists.caches[kind]
        await wait_until(lambda: listing.is_stale, what="the end of its time to live")
        assert [one.name for one in (await router.items(kind, ["dev"]))[ServerIdentifier("dev", "a")]] == ["x:new"]


@pytest.mark.parametrize(
    ("ttl_ms", "announces", "interval", "requests"),
    [
        (HOUR_MS, False, 0.0, 1),
        (0, False, 0.0, 3),  # always stale
        (0, False, 3600.0, 1),  # and yet not asked at every turn
        (0, True, 0.0, 1),  # it will say when it changes
        (1, False, 3600.0, 1),
        ("soon", False, 0.0, 1),
        (None, False, 0.0, 1),
    ],
)
async def test_how_often_three_opens_ask_a_running_server(
    store: Path, ttl_ms: Any, announces: object, interval: float, requests: int
):
    shop = Stated(ttl_ms, capabilities={"tools": {"listChanged": announces}})
    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=interval) as bench:
        for _ in range(3):
            await bench.open("dev")
    assert shop.lists() == requests


async def test_a_server_that_does_not_list_again_is_waited_for_shortly_and_its_list_stands(store: Path):
    shop = Stated(5, tools=["before"])
    async with remembering(store, {"dev": {"a": shop}}, refresh_wait_seconds=0.05) as bench:
        await bench.open("dev")
        await expired(bench)
        shop.methods["tools/list"] = never
        opened = await asyncio.wait_for(bench.open("dev"), 5)
        assert (opened.live, names(opened)) == (("a",), ["before"])


@pytest.mark.parametrize(
    ("ttl_ms", "lasts"),
    [(60_000, 60.0), (500, 2.0), (0, DAY), (None, DAY), (30 * HOUR_MS, DAY)],
)
async def test_a_remembered_list_is_current_for_no_longer_than_its_time_to_live(
    store: Path, clock: Clock, ttl_ms: Any, lasts: float
):
    shop = Stated(ttl_ms)
    shops = {"dev": {"a": shop}}
    async with remembering(store, shops) as bench:
        await bench.open("dev")
    clock.later(lasts - 0.5)
    async with remembering(store, shops, relist_interval_seconds=2.0) as bench:
        assert (await bench.open("dev")).stored == ("a",)
        await settle(50)
        assert shop.tried == 1
    clock.later(0.5)
    async with remembering(store, shops, relist_interval_seconds=2.0) as bench:
        assert (await bench.open("dev")).stored == ("a",)
        await wait_until(lambda: shop.closed == 2, what="the check")
        assert (await bench.open("dev")).stored == ("a",)
        await settle(50)
    assert shop.tried == 2


# -- what is missing in a list


async def test_a_tool_that_appeared_without_a_word_can_be_called_at_once(store: Path):
    shop = Silent(tools=["t"])
    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=3600.0) as bench:
        await bench.open("dev")
        await bench.use(tool("a", "t"))
        shop.add("tools", "new")
        assert (await bench.use(tool("a", "new")))["content"][0]["text"] == "s:new"
        assert shop.lists() == 2


async def test_a_tool_that_appears_right_after_the_list_is_found_though_the_server_did_nothing_else(store: Path):
    shop = Silent(tools=["early"])
    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=3600.0) as bench:
        await bench.open("dev")
        shop.add("tools", "late")
        async with asyncio.timeout(10):
            while True:
                try:
                    result = await bench.use(tool("a", "late"))
                    break
                except ToolNotFound:  # the list is a few milliseconds old
                    await asyncio.sleep(0.001)
    assert result["content"][0]["text"] == "s:late"


async def test_a_hundred_wrong_names_at_once_and_a_model_that_insists_cost_one_request(store: Path):
    shop = Silent(tools=["reader"])
    reply = shop.methods["tools/list"]

    async def slowly(_params: object) -> Any:
        await asyncio.sleep(0.1)  # so there is a second in which the list stands
        return reply

    shop.methods["tools/list"] = slowly
    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=3600.0) as bench:
        await bench.open("dev")
        await bench.use(tool("a", "reader"))
        wrong = [bench.use(tool("a", f"raeder{number}")) for number in range(100)]
        outcomes = await asyncio.gather(*wrong, return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {ToolNotFound}
        for _ in range(5):
            with pytest.raises(ToolNotFound, match="Tool 'raeder' not found") as caught:
                await bench.use(tool("a", "raeder"))
            assert caught.value.hint == "Did you mean 'reader'? Available tools: 'reader'"
        assert shop.lists() == 2


async def test_a_caller_who_comes_while_the_server_is_asked_again_waits_for_its_answer_too(store: Path):
    shop, gate = Silent(tools=["t"]), asyncio.Event()
    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=3600.0) as bench:
        await bench.open("dev")
        await bench.use(tool("a", "t"))
        shop.add("tools", "new")
        reply = shop.methods["tools/list"]

        async def slowly(_params: object) -> Any:
            await gate.wait()
            return reply

        shop.methods["tools/list"] = slowly
        first = asyncio.ensure_future(bench.use(tool("a", "new")))
        await wait_until(lambda: shop.lists() == 2, what="the request")
        second = asyncio.ensure_future(bench.use(tool("a", "new")))
        await settle(20)
        gate.set()
        assert await first == await second
        assert shop.lists() == 2


async def test_a_cold_server_is_not_asked_twice_for_a_wrong_name(store: Path):
    shop = Silent()
    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=3600.0) as bench:
        with pytest.raises(ToolNotFound):
            await bench.use(tool("a", "wrong"))
    assert shop.lists() == 1


@pytest.mark.parametrize(("interval", "pause"), [(60.0, 0.2), (0.1, 0.1)])
async def test_what_a_call_added_right_after_a_wrong_name_is_found_soon(store: Path, interval: float, pause: float):
    """The pause between two rechecks is ten times as long as a list takes, but no longer than the interval."""
    shop, asked_at = Silent(tools=["enable"]), list[float]()

    async def list_tools(_params: object) -> Any:
        asked_at.append(time.monotonic())
        await asyncio.sleep(0.02)
        return {"tools": [{"name": name, "inputSchema": {}} for name in ("enable", *added)]}

    added: list[str] = []
    shop.methods["tools/list"] = list_tools
    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=interval) as bench:
        await bench.open("dev")
        await bench.use(tool("a", "enable"))
        with pytest.raises(ToolNotFound):
            await bench.use(tool("a", "new"))
        await bench.use(tool("a", "enable"))
        added.append("new")
        results = await asyncio.gather(*(bench.use(tool("a", "new")) for _ in range(10)))
        assert {result["content"][0]["text"] for result in results} == {"s:new"}
    assert len(asked_at) == 3
    assert asked_at[2] - asked_at[1] > pause * 0.9


async def test_what_a_call_added_while_the_list_is_asked_for_is_found_by_asking_again(store: Path):
    """The list that is under way may have been made before: another client is the one that waits for it."""
    shop, asked, answer = Silent(tools=["enable"]), asyncio.Event(), asyncio.Event()
    before = shop.methods["tools/list"]

    async def list_slowly(_params: object) -> Any:
        shop.methods["tools/list"] = before
        asked.set()
        await answer.wait()
        return before

    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=0.0) as bench:
        await bench.open("dev")
        await bench.use(tool("a", "enable"))
        shop.methods["tools/list"] = list_slowly
        other = asyncio.create_task(bench.use(tool("a", "wrong")))
        await asked.wait()
        await bench.use(tool("a", "enable"))
        shop.add("tools", "new")
        mine = asyncio.create_task(bench.use(tool("a", "new")))
        await settle(50)
        answer.set()
        assert (await mine)["content"][0]["text"] == "s:new"
        with pytest.raises(ToolNotFound):
            await other


async def test_a_list_that_is_on_its_way_after_a_change_was_told_is_waited_for(store: Path):
    shop, asked, answer = Silent(tools=["enable"]), asyncio.Event(), asyncio.Event()

    async def list_slowly(_params: object) -> Any:
        asked.set()
        await answer.wait()
        return {"tools": [{"name": name, "inputSchema": {}} for name in ("enable", "new")]}

    async with remembering(store, {"dev": {"a": shop}}, relist_interval_seconds=0.3) as bench:
        await bench.open("dev")
        await bench.use(tool("a", "enable"))
        shop.methods["tools/list"] = list_slowly
        handle_of(bench, "dev", "a").lists.tools.invalidate()
        await asked.wait()
        mine = asyncio.create_task(bench.use(tool("a", "new")))
        await settle(50)
        answer.set()
        assert (await mine)["content"][0]["text"] == "s:new"
        assert shop.lists() == 2


async def test_a_server_that_hangs_does_not_hold_up_the_answer_to_a_wrong_name(store: Path):
    shop = Silent()
    async with remembering(store, {"dev": {"a": shop}}, refresh_wait_seconds=0.05) as bench:
        await bench.open("dev")
        shop.methods["tools/list"] = never
        with pytest.raises(ToolNotFound):
            await asyncio.wait_for(bench.use(tool("a", "wrong")), 5)


async def test_a_server_that_was_stopped_is_started_for_a_tool_that_its_list_does_not_have(store: Path):
    shop = Silent(tools=["t"])
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        await bench.open("dev")
        supervisor = handle_of(bench, "dev", "a").supervisor
        supervisor.stop_when_idle()
        assert supervisor.current is None
        shop.add("tools", "new")
        assert await bench.use(tool("a", "new"))
    assert shop.tried == 2


async def test_with_never_a_running_server_is_asked_and_none_is_started(store: Path):
    shop = Silent(tools=["t"])
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        await bench.open("dev")
    async with remembering(store, {"dev": {"a": shop}}, refresh="never") as bench:
        with pytest.raises(ToolNotFound):
            await bench.use(tool("a", "new"))
        assert shop.tried == 1
        await bench.use(tool("a", "t"))
        shop.add("tools", "new")
        assert await bench.use(tool("a", "new"))


# -- on surfaces with names of their own


async def native(surface: Surface, name: str) -> Any:
    return await call(surface, name)


async def opened_whole(surface: Surface, name: str) -> Any:
    return await call(surface, "open_toolbox", {"toolbox": "dev", "tools": [name]})


async def prompt(surface: Surface, name: str) -> Any:
    return json.loads(await answer(surface, "prompts/get", name=name))


async def resource(surface: Surface, uri: str) -> Any:
    return json.loads(await answer(surface, "resources/read", uri=uri))


def toolbox(bench: Workbench) -> Surface:
    return ToolboxSurface(bench, "dev")


class Missing(NamedTuple):
    """Something that a server offers from some moment on, and how a client asks for it."""

    surface: Callable[[Workbench], Surface]
    get: Callable[[Surface, str], Any]
    kind: str
    offered: str
    asked: str


MISSING = {
    "toolbox tool": Missing(toolbox, native, "tools", "new", "new"),
    "toolbox prompt": Missing(toolbox, prompt, "prompts", "new", "new"),
    "toolbox resource": Missing(toolbox, resource, "resources", "x:new", "x:new"),
    "toolbox template": Missing(toolbox, resource, "templates", "x:{name}", "x:new"),
    "dynamic tool": Missing(DynamicSurface, native, "tools", "new", "dev__a__new"),
    "dynamic prompt": Missing(DynamicSurface, prompt, "prompts", "new", "dev__a__new"),
    "meta prompt": Missing(ProxySurface, prompt, "prompts", "new", "dev__a__new"),
    "meta resource": Missing(ProxySurface, resource, "resources", "x:new", "x:new"),
    "meta tools": Missing(ProxySurface, opened_whole, "tools", "new", "new"),
}


@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING)
async def test_what_appeared_without_a_word_is_found_on_every_surface(store: Path, missing: Missing):
    shop, other = Silent(name="a"), Silent(name="b")
    shops = {"dev": {"a": shop, "b": other}}
    async with remembering(store, shops, relist_interval_seconds=3600.0) as bench:
        surface = missing.surface(bench)
        if not isinstance(surface, ToolboxSurface):
            await call(surface, "open_toolbox", {"toolbox": "dev"})
        await answer(surface, LISTS[missing.kind])  # by now both servers have listed these
        for listing in listings(bench, "a", "b"):
            listing._listing_seconds = 3600.0  # so the pause until the next request is long
        before = await refused(surface, missing)
        lists = (shop.lists(missing.kind), other.lists(missing.kind))
        assert await refused(surface, missing) == before
        assert (shop.lists(missing.kind), other.lists(missing.kind)) == lists  # no request for one who insists
        shop.add(missing.kind, missing.offered)
        for listing in listings(bench, "a", "b"):
            listing._listing_seconds = 0.0  # and the pause is over
        result = await missing.get(surface, missing.asked)
        assert not result.get("isError"), result


def listings(bench: Workbench, *servers: str) -> list[ListCache[Any]]:
    lists = [handle_of(bench, "dev", server, HANDSHAKE).lists for server in servers]
    return [listing for one in lists for listing in (one.tools, *one.caches.values())]


async def refused(surface: Surface, missing: Missing) -> str:
    try:
        return error_of(await missing.get(surface, missing.asked))
    except RpcError as error:
        return error.message


async def test_an_old_tool_name_in_dynamic_mode_is_no_reason_to_ask(store: Path):
    shop = Silent()
    config = shop_config({"dev": {"a": shop}}, mode="dynamic")
    async with remembering(store, {"dev": {"a": shop}}, config) as bench:
        surface = DynamicSurface(bench)
        await call(surface, "open_toolbox", {"toolbox": "dev"}, MODERN)
        assert "Invalid tool name format" in error_of(await call(surface, "no_such", caller=HANDSHAKE))
        assert shop.lists() == 1
