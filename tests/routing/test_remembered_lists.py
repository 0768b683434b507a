"""What a server listed before stands for it until it runs; when it is asked again, and who hears of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.cache import server_cache
from mcp_workbench.catalog.snapshot import Opened
from mcp_workbench.errors import CallFailed, ConnectFailed, ServerRefused, ToolboxFailed, ToolNotFound
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.routing.requests import ForwardedRequest
from mcp_workbench.routing.server_lists import Kind
from mcp_workbench.surfaces.dynamic import DynamicSurface
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.workbench import Workbench
from tests.support.library import DeafLine, ListeningClient, handle_of, tool
from tests.support.memory import never
from tests.support.procs import wait_until
from tests.support.remembering import Clock, Shop, Shops, own_clock, remembering, shop_config
from tests.surfaces.benches import AUDIENCE, HANDSHAKE, MODERN, Watching, answer, listed
from tests.wire.pair import settle

DAY = 86_400.0
META = ["open_toolbox", "use_tool"]
KINDS: tuple[Kind, ...] = ("prompts", "resources", "templates")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "catalog.sqlite"


@pytest.fixture
def clock() -> Iterator[Clock]:
    with own_clock() as clock:
        yield clock


def names(opened: Opened) -> list[str]:
    return [identifier.tool for identifier, _ in opened.found]


def counts(shops: Shops) -> dict[str, int]:
    """How often each server was started."""
    return {server: shop.tried for toolbox in shops.values() for server, shop in toolbox.items()}


async def opened_once(store: Path, shops: Shops, **options: Any) -> dict[str, Opened]:
    """What a workbench that is then closed answers for each toolbox."""
    async with remembering(store, shops, **options) as bench:
        return {toolbox: await bench.open(toolbox) for toolbox in shops}


# -- without a server


async def test_a_toolbox_that_was_open_before_starts_nothing_and_says_which_servers_are_from_memory(store: Path):
    shops = {"dev": {"a": Shop("a", tools=["x", "y"]), "b": Shop("b", tools=["z"])}}
    first = (await opened_once(store, shops))["dev"]
    assert (first.live, first.stored) == (("a", "b"), ())
    second = (await opened_once(store, shops))["dev"]
    assert (second.live, second.stored) == ((), ("a", "b"))
    assert second.entries == first.entries
    assert second.servers_connected == 2
    assert counts(shops) == {"a": 1, "b": 1}


def advising(shop: Shop, text: str) -> Shop:
    """A server whose first answer has instructions."""
    shop.methods["initialize"]["instructions"] = text
    return shop


async def test_the_instructions_of_a_server_are_remembered_with_its_tools(store: Path, clock: Clock):
    shop = advising(Shop(tools=["x"]), "Read first.")
    shops = {"dev": {"a": shop, "b": Shop("b")}}
    for _ in range(2):
        assert (await opened_once(store, shops))["dev"].instructions == {"a": "Read first."}
    async with remembering(store, shops) as bench:
        greeting = await ToolboxSurface(bench, "dev").server_info(LIBRARY)
        assert greeting.instructions.endswith("# a\nRead first.")
    assert shop.tried == 1
    advising(shop, "Write first.")
    clock.later(2 * DAY)
    async with remembering(store, shops) as bench:
        await bench.open("dev")
        await wait_until(lambda: shop.tried == 2 and not shop.is_running)
    assert (await opened_once(store, shops))["dev"].instructions == {"a": "Write first."}, "the tools are the same"


@pytest.mark.parametrize(
    ("caller", "capabilities", "declared"),
    [
        (HANDSHAKE, {"tools": {}}, False),
        (HANDSHAKE, {"tools": {}, "tasks": {}}, True),
        (MODERN, {"tools": {}, "extensions": {"vendor/x": {}}}, False),
        (MODERN, {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}, True),
    ],
)
async def test_whether_a_toolbox_has_tasks_is_known_before_a_server_runs(
    store: Path, caller: Caller, capabilities: Any, *, declared: bool
):
    shops = {"dev": {"a": Shop(modern=caller.modern, capabilities=capabilities)}}
    async with remembering(store, shops) as bench:
        await bench.at(caller).open("dev")
    async with remembering(store, shops) as bench:
        hello = await ToolboxSurface(bench, "dev").server_info(caller)
    assert ("tasks" in hello.capabilities or "extensions" in hello.capabilities) is declared
    assert counts(shops) == {"a": 1}


@pytest.mark.parametrize("tasks", [True, False])
async def test_what_a_server_declares_in_one_era_does_not_tell_whether_it_has_tasks_in_the_other(
    store: Path, *, tasks: bool
):
    own: dict[str, Any] = {"tasks": {}} if tasks else {}
    shop = Shop(capabilities={"tools": {}, **own})
    extension: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    shop.methods["server/discover"] = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, **extension}}
    shops = {"dev": {"a": shop}}
    async with remembering(store, shops) as bench:
        await bench.at(MODERN).open("dev")
    for is_known in (False, True):
        async with remembering(store, shops) as bench:
            hello = await ToolboxSurface(bench, "dev").server_info(HANDSHAKE)
            assert ("tasks" in hello.capabilities) == (tasks or not is_known)
            await bench.at(HANDSHAKE).pool.handle(ServerIdentifier("dev", "a")).lists.tools.fresh()


async def test_a_secret_in_instructions_does_not_reach_the_disk(store: Path):
    secret, advice = "swordfish-4711", 'Log in with "swordfish-4711".'
    shops = {"dev": {"a": advising(Shop(tools=["x"]), advice)}}
    config = shop_config(shops, secrets=[secret])
    for _ in range(2):
        async with remembering(store, shops, config) as bench:
            assert (await bench.open("dev")).instructions == {"a": advice}
    assert shops["dev"]["a"].tried == 1
    for file in store.parent.iterdir():
        assert secret.encode() not in file.read_bytes()


async def test_only_what_was_never_listed_is_started(store: Path):
    shops = {"dev": {"a": Shop(tools=["x"])}}
    await opened_once(store, shops)
    shops["dev"]["b"] = Shop(tools=["y"])
    opened = (await opened_once(store, shops))["dev"]
    assert (opened.live, opened.stored) == (("b",), ("a",))
    assert names(opened) == ["x", "y"]
    assert counts(shops) == {"a": 1, "b": 1}


async def test_the_order_is_that_of_the_configuration_whoever_had_to_be_asked(store: Path):
    known = {"a": Shop(tools=["x"]), "c": Shop(tools=["z"])}
    await opened_once(store, {"dev": known})
    opened = (await opened_once(store, {"dev": {"b": Shop(tools=["y"]), **known}}))["dev"]
    assert names(opened) == ["y", "x", "z"]
    assert (opened.live, opened.stored) == (("b",), ("a", "c"))


async def test_a_call_starts_the_server_of_its_tool_and_no_other(store: Path):
    shops = {"dev": {"a": Shop(), "b": Shop()}, "ops": {"c": Shop()}}
    await opened_once(store, shops)
    async with remembering(store, shops) as bench:
        await bench.use(tool("a", "t"))
        assert counts(shops) == {"a": 2, "b": 1, "c": 1}
        await wait_until(lambda: handle_of(bench, "dev", "a").lists.tools.is_live, what="its list")
        opened = await bench.open("dev")
        assert (opened.live, opened.stored) == (("a",), ("b",))
    assert counts(shops) == {"a": 2, "b": 1, "c": 1}


async def test_the_same_entry_under_another_name_is_the_same_server(store: Path):
    shops = {"dev": {"a": Shop(tools=["x"])}}
    await opened_once(store, shops)
    entry = shop_config(shops).toolboxes["dev"].servers["a"]
    other = shop_config({"ops": ["b"]})
    moved = type(entry)(name="b", toolbox="ops", target=entry.target)
    box = type(other.toolboxes["ops"])(name="ops", description="x", servers={"b": moved})
    config = type(other)(file=other.file, toolboxes={"ops": box})
    async with remembering(store, {"ops": {"b": Shop()}}, config) as bench:
        opened = await bench.open("ops")
        assert (opened.stored, names(opened)) == (("b",), ["x"])


async def test_clients_that_declare_something_else_have_lists_of_their_own(store: Path):
    shop = Shop()
    asked = type(HANDSHAKE)(
        version="2025-11-25", modern=False, capabilities=Raw(b'{"sampling":{}}'), key=("", False, b"s")
    )
    for expected in (1, 2, 2):
        async with remembering(store, {"dev": {"a": shop}}) as bench:
            await bench.at(asked if expected > 1 else LIBRARY).open("dev")
        assert shop.tried == expected


async def test_without_a_store_every_workbench_asks(tmp_path: Path):
    shops, folder = {"dev": {"a": Shop()}}, tmp_path / "a folder where the file should be"
    folder.mkdir()
    for number in (1, 2):
        opened = (await opened_once(folder, shops))["dev"]
        assert (opened.live, opened.stored, counts(shops)) == (("a",), (), {"a": number})


# -- age


async def test_an_old_list_is_shown_at_once_and_its_server_is_asked_and_ended(store: Path, clock: Clock):
    shop = Shop(tools=["before"])
    shops = {"dev": {"a": shop}}
    await opened_once(store, shops)
    shop.stock("after")
    clock.later(DAY - 1)
    assert names((await opened_once(store, shops))["dev"]) == ["before"]
    assert shop.tried == 1
    clock.later(1)
    async with remembering(store, shops) as bench:
        opened = await bench.open("dev")
        assert (opened.stored, names(opened)) == (("a",), ["before"])
        await wait_until(lambda: shop.closed == 2, what="the end of what was started to check")
        assert handle_of(bench, "dev", "a").supervisor.state == "idle"
        opened = await bench.open("dev")
        assert (opened.stored, names(opened)) == (("a",), ["after"])
    assert shop.tried == 2
    assert names((await opened_once(store, shops))["dev"]) == ["after"]
    assert shop.tried == 2


async def test_a_clock_that_was_set_back_makes_nothing_current_for_longer(store: Path, clock: Clock):
    shop = Shop()
    await opened_once(store, {"dev": {"a": shop}})
    clock.later(-10)
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        assert (await bench.open("dev")).stored == ("a",)
        await wait_until(lambda: shop.closed == 2, what="the check")


async def test_an_answer_does_not_wait_for_a_check_that_hangs(store: Path, clock: Clock):
    shop = Shop()
    await opened_once(store, {"dev": {"a": shop}})
    clock.later(DAY)
    shop.methods["tools/list"] = never
    async with remembering(store, {"dev": {"a": shop}}, open_timeout_seconds=1000.0) as bench:
        opened = await asyncio.wait_for(bench.open("dev"), 5)
        assert opened.stored == ("a",)
        await wait_until(lambda: len(shop.asked("tools/list")) == 2, what="the check")
    assert shop.closed == 2


async def test_who_opens_while_a_check_hangs_waits_a_little_and_has_what_is_remembered(store: Path, clock: Clock):
    shop = Shop(tools=["before"])
    await opened_once(store, {"dev": {"a": shop}})
    clock.later(DAY)
    shop.methods["tools/list"] = never
    async with remembering(store, {"dev": {"a": shop}}, refresh_wait_seconds=0.05) as bench:
        await bench.open("dev")
        await wait_until(lambda: len(shop.asked("tools/list")) == 2, what="the check")
        opened = await asyncio.wait_for(bench.open("dev"), 5)
        assert (opened.stored, names(opened)) == (("a",), ["before"])


async def test_many_at_once_have_one_check(store: Path, clock: Clock):
    shop = Shop()
    await opened_once(store, {"dev": {"a": shop}})
    clock.later(DAY)
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        for opened in await asyncio.gather(*(bench.open("dev") for _ in range(50))):
            assert opened.stored == ("a",)
        await wait_until(lambda: shop.closed == 2, what="the check")
    assert (shop.tried, len(shop.asked("tools/list"))) == (2, 2)


async def test_no_more_servers_than_the_limit_are_started_at_once_only_to_check(
    store: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
):
    shops = {"dev": {f"s{number}": Shop() for number in range(9)}}
    await opened_once(store, shops)
    clock.later(DAY)
    gate, under_way, most = asyncio.Event(), set[str](), 0

    def slowly(name: str, shop: Shop) -> Any:
        reply = shop.methods["tools/list"]

        async def answer_slowly(_params: object) -> Any:
            nonlocal most
            under_way.add(name)
            most = max(most, len(under_way))
            await gate.wait()
            under_way.discard(name)
            return reply

        return answer_slowly

    for name, shop in shops["dev"].items():
        shop.methods["tools/list"] = slowly(name, shop)
    monkeypatch.setattr(server_cache, "REVALIDATIONS", 3)
    async with remembering(store, shops) as bench:
        assert len((await bench.open("dev")).stored) == 9
        await wait_until(lambda: len(under_way) == 3, what="three checks")
        await settle(50)
        assert sum(counts(shops).values()) == 9 + 3
        gate.set()
        await wait_until(lambda: all(shop.closed == 2 for shop in shops["dev"].values()), what="every check")
    assert most == 3


async def test_a_server_that_was_started_for_a_check_stays_if_it_is_used_meanwhile(store: Path, clock: Clock):
    shop, gate = Shop(), asyncio.Event()
    await opened_once(store, {"dev": {"a": shop}})
    clock.later(DAY)
    reply = shop.methods["tools/list"]

    async def slowly(_params: object) -> Any:
        await gate.wait()
        return reply

    shop.methods["tools/list"] = slowly
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        await bench.open("dev")
        await wait_until(lambda: len(shop.asked("tools/list")) == 2, what="the check")
        await bench.use(tool("a", "t"))
        gate.set()
        await wait_until(lambda: handle_of(bench, "dev", "a").lists.tools.is_live, what="its list")
        await settle(50)
        assert shop.is_running
        await bench.use(tool("a", "t"))
    assert shop.tried == 2


async def test_a_check_of_tools_ends_its_server_though_other_lists_of_it_are_in_use(store: Path, clock: Clock):
    """They are read again too, since a new process may offer other things; then nobody needs it any more."""
    shop, gate = Shop(prompts=["p"]), asyncio.Event()
    shops, server = {"dev": {"a": shop}}, ServerIdentifier("dev", "a")
    await opened_once(store, shops)
    clock.later(DAY / 2)
    async with remembering(store, shops) as bench:
        await bench.at(LIBRARY).items("prompts", ["dev"])
    clock.later(DAY / 2)
    reply = shop.methods["prompts/list"]

    async def slowly(_params: object) -> Any:
        await gate.wait()
        return reply

    shop.methods["prompts/list"] = slowly
    async with remembering(store, shops) as bench:
        assert len((await bench.at(LIBRARY).items("prompts", ["dev"]))[server]) == 1
        assert shop.tried == 2
        assert (await bench.open("dev")).stored == ("a",)
        await wait_until(lambda: len(shop.asked("tools/list")) == 2, what="the check")
        await settle(50)
        gate.set()
        await wait_until(lambda: not shop.is_running, what="its end")


async def test_a_list_that_its_server_does_not_offer_is_not_checked_again_and_again(store: Path, clock: Clock):
    shop = Shop(capabilities={"tools": {}})
    await opened_once(store, {"dev": {"a": shop}})
    clock.later(DAY)
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        for _ in range(3):
            await bench.at(LIBRARY).items("prompts", ["dev"])
            await wait_until(lambda: not shop.is_running, what="the end of a check")
        await settle(50)
    assert shop.tried <= 2


async def test_closing_during_a_check_ends_it(store: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch):
    unexpected: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unexpected.append(context))
    shops = {"dev": {f"s{number}": Shop() for number in range(6)}}
    await opened_once(store, shops)
    clock.later(DAY)
    for shop in shops["dev"].values():
        shop.methods["tools/list"] = never
    monkeypatch.setattr(server_cache, "REVALIDATIONS", 2)
    async with remembering(store, shops) as bench:
        await bench.open("dev")
        await wait_until(lambda: sum(counts(shops).values()) == 8, what="two checks")
    await settle(20)
    assert not any(shop.is_running for shop in shops["dev"].values())
    assert sum(counts(shops).values()) == 8
    assert unexpected == []


# -- always, never


async def test_with_always_every_open_asks_as_if_nothing_was_remembered(store: Path):
    shop = Shop(tools=["before"])
    shops = {"dev": {"a": shop}}
    await opened_once(store, shops, refresh="always")
    shop.stock("after")
    opened = (await opened_once(store, shops, refresh="always"))["dev"]
    assert (opened.live, opened.stored, names(opened)) == (("a",), (), ["after"])
    assert shop.tried == 2
    # What it listed is remembered all the same, for who wants it.
    assert (await opened_once(store, shops))["dev"].stored == ("a",)


async def test_with_never_what_is_remembered_stands_however_old_it_is(store: Path, clock: Clock):
    shop = Shop(tools=["before"])
    shops = {"dev": {"a": shop}}
    await opened_once(store, shops, refresh="never")
    shop.stock("after")
    clock.later(1000 * DAY)
    async with remembering(store, shops, refresh="never") as bench:
        for _ in range(2):
            opened = await bench.open("dev")
            assert (opened.stored, names(opened)) == (("a",), ["before"])
        await settle(50)
        with pytest.raises(ToolNotFound, match="Tool 'after' not found"):
            await bench.use(tool("a", "after"))
        assert shop.tried == 1
        await bench.use(tool("a", "before"))
        await settle(50)
        assert (shop.tried, len(shop.asked("tools/list"))) == (2, 1)


async def test_with_never_a_server_that_runs_anyway_is_asked_at_an_open_and_not_before(store: Path):
    shop = Shop(tools=["before"])
    await opened_once(store, {"dev": {"a": shop}})
    shop.stock("after")
    async with remembering(store, {"dev": {"a": shop}}, refresh="never") as bench:
        await bench.use(tool("a", "before"))
        assert len(shop.asked("tools/list")) == 1
        opened = await bench.open("dev")
        assert (opened.live, names(opened)) == (("a",), ["after"])


async def test_with_never_what_was_never_listed_is_asked_for_once(store: Path):
    shops = {"dev": {"a": Shop()}}
    assert (await opened_once(store, shops, refresh="never"))["dev"].live == ("a",)
    assert (await opened_once(store, shops, refresh="never"))["dev"].stored == ("a",)
    assert counts(shops) == {"a": 1}


# -- who hears of a difference


async def test_a_difference_that_a_check_finds_is_told_and_no_difference_is_not(store: Path, clock: Clock):
    same, other = Shop(tools=["x"]), Shop(tools=["before"])
    shops = {"dev": {"same": same}, "ops": {"other": other}}
    async with remembering(store, shops) as bench:
        for toolbox in shops:
            await bench.at(HANDSHAKE).open(toolbox)
    other.stock("after")
    clock.later(DAY)
    client = ListeningClient()
    async with remembering(store, shops) as bench:
        bench.join(AUDIENCE, client)
        for toolbox in shops:
            await bench.at(HANDSHAKE).open(toolbox)
        assert client.changes == []
        await wait_until(lambda: same.closed == other.closed == 2, what="both checks")
        assert client.changes == [("ops", "tools")]


async def test_what_a_call_started_is_asked_once_beside_the_call_and_a_difference_is_told(store: Path):
    shop = Shop(tools=["t", "before"])
    shops = {"dev": {"a": shop}}
    await opened_once(store, shops)
    shop.stock("t", "after")
    async with remembering(store, shops) as bench:
        client = ListeningClient()
        bench.join("", client)
        assert names(await bench.open("dev")) == ["t", "before"]
        for _ in range(3):
            await bench.use(tool("a", "t"))
        await wait_until(lambda: client.changes == [("dev", "tools")], what="the news")
        opened = await bench.open("dev")
        assert (opened.live, names(opened)) == (("a",), ["t", "after"])
        assert len(shop.asked("tools/list")) == 2


async def test_in_dynamic_mode_the_list_of_a_client_changes_with_what_a_check_finds(store: Path, clock: Clock):
    shop = Shop(tools=["before"])
    shops = {"dev": {"a": shop}}
    config = shop_config(shops, mode="dynamic")
    async with remembering(store, shops, config) as bench:
        await bench.at(HANDSHAKE).open("dev")
    shop.stock("after")
    clock.later(DAY)
    async with remembering(store, shops, config) as bench:
        surface = DynamicSurface(bench)
        watching = Watching(bench, surface)
        await bench.at(HANDSHAKE).open("dev")
        surface.note_opened(HANDSHAKE, "dev")
        assert [one["name"] for one in await listed(surface)] == [*META, "dev__a__before"]
        watching.kinds.clear()
        await wait_until(lambda: watching.kinds == ["tools"], what="the news")
        assert [one["name"] for one in await listed(surface)] == [*META, "dev__a__after"]


# -- modern clients, who see everything from the start


async def test_a_modern_client_of_dynamic_mode_lists_what_is_remembered_and_starts_nothing(store: Path):
    shops = {"dev": {"a": Shop(tools=["x"])}, "ops": {"b": Shop(tools=["y"])}}
    config = shop_config(shops, mode="dynamic")
    expected = [*META, "dev__a__x", "ops__b__y"]
    for _ in range(2):
        async with remembering(store, shops, config) as bench:
            assert [one["name"] for one in await listed(DynamicSurface(bench), MODERN)] == expected
            await settle(50)
    assert counts(shops) == {"a": 1, "b": 1}


async def test_prompts_resources_and_templates_are_remembered_as_tools_are(store: Path):
    shop = Shop(prompts=["p"], resources=["r:1"], templates=["t:{x}"])
    shops, server = {"dev": {"a": shop}}, ServerIdentifier("dev", "a")

    async def all_items(bench: Workbench) -> list[list[str]]:
        found = [await bench.at(MODERN).items(kind, ["dev"]) for kind in KINDS]
        return [[item.name for item in one[server]] for one in found]

    async with remembering(store, shops) as bench:
        await bench.at(MODERN).open("dev")
        assert await all_items(bench) == [["p"], ["r:1"], ["t:{x}"]]
    async with remembering(store, shops) as bench:
        assert await all_items(bench) == [["p"], ["r:1"], ["t:{x}"]]
        await settle(50)
    assert shop.tried == 1


@pytest.mark.parametrize("method", ["prompts/list", "resources/list", "resources/templates/list"])
async def test_who_is_known_not_to_offer_a_list_is_not_started_for_it(store: Path, method: str):
    shop = Shop(capabilities={"tools": {}})
    shops = {"dev": {"a": shop}}
    async with remembering(store, shops) as bench:
        await bench.at(MODERN).open("dev")
    async with remembering(store, shops) as bench:
        assert json.loads(await answer(DynamicSurface(bench), method, MODERN))
        await settle(50)
    assert shop.tried == 1
    assert shop.asked(method) == []


async def test_prompts_that_a_call_shows_to_have_changed_are_told(store: Path):
    shop = Shop(prompts=["before"])
    shops = {"dev": {"a": shop}}
    async with remembering(store, shops) as bench:
        await bench.at(MODERN).open("dev")
        await bench.at(MODERN).items("prompts", ["dev"])
    shop.methods["prompts/list"] = {"prompts": [{"name": "after"}]}
    async with remembering(store, shops) as bench:
        client = ListeningClient()
        bench.join(AUDIENCE, client)
        await bench.at(MODERN).items("prompts", ["dev"])
        await bench.at(MODERN).pool.connect(ServerIdentifier("dev", "a"))
        await wait_until(lambda: client.changes == [("dev", "prompts")], what="the news")


def declaring(number: int) -> Caller:
    declared = b'{"x":%d}' % number
    key = (AUDIENCE, True, declared)
    return Caller(version="2026-07-28", modern=True, audience=AUDIENCE, capabilities=Raw(declared), key=key)


async def test_places_of_one_client_share_a_modern_server_that_is_known_from_before(store: Path):
    shop = Shop(modern=True)
    server = ServerIdentifier("dev", "a")
    for number in (1, 2):
        async with remembering(store, {"dev": {"a": shop}}) as bench:
            await bench.at(declaring(number)).open("dev")
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        for number in (1, 2):
            assert (await bench.at(declaring(number)).open("dev")).stored == ("a",)
        for number in (1, 2):
            exchange = Exchange(declaring(number), DeafLine())
            await bench.at(declaring(number)).calls.call(
                ForwardedRequest(server, "tools/call", {"name": "t"}, exchange)
            )
        assert shop.tried == 3


# -- servers that fail, and heal


@pytest.mark.parametrize("found_by", ["call", "check"])
async def test_a_server_that_fails_is_no_longer_shown_from_memory_until_it_lists_again(
    store: Path, clock: Clock, found_by: str
):
    shop = Shop(tools=["t"])
    shops = {"dev": {"a": shop, "b": Shop(tools=["u"])}}
    await opened_once(store, shops)
    shop.fail()
    if found_by == "check":
        clock.later(DAY)
    async with remembering(store, shops) as bench:
        assert (await bench.open("dev")).stored == ("a", "b")
        if found_by == "call":
            with pytest.raises(ConnectFailed, match="out of order"):
                await bench.use(tool("a", "t"))
        else:
            await wait_until(lambda: shop.tried == 2, what="the check")
            await settle(20)
        tried = shop.tried
        opened = await bench.open("dev")
        assert [(one.server, str(one.fault)) for one in opened.failed] == [("a", "it is out of order")]
        assert names(opened) == ["u"]
        assert shop.tried > tried
        shop.heal()
        opened = await bench.open("dev")
        assert (opened.failed, names(opened)) == ((), ["t", "u"])
        assert "a" in opened.live


async def test_a_toolbox_whose_only_server_fails_says_so_after_it_was_remembered(store: Path):
    shop = Shop()
    await opened_once(store, {"dev": {"a": shop}})
    shop.fail()
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        assert (await bench.open("dev")).stored == ("a",)
        with pytest.raises(ConnectFailed):
            await bench.use(tool("a", "t"))
        with pytest.raises(ToolboxFailed):
            await bench.open("dev")


# -- tools that are new, or gone


async def test_a_tool_that_is_not_in_the_remembered_list_is_asked_for(store: Path):
    shop = Shop(tools=["t"])
    await opened_once(store, {"dev": {"a": shop}})
    shop.stock("t", "new")
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        result = await bench.use(tool("a", "new"))
        assert result["content"][0]["text"] == "s:new"
    assert shop.tried == 2


async def test_a_tool_that_its_server_does_not_have_either_is_refused_with_what_it_has_now(store: Path):
    shop = Shop(tools=["t"])
    await opened_once(store, {"dev": {"a": shop}})
    shop.stock("reader")
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        with pytest.raises(ToolNotFound) as caught:
            await bench.use(tool("a", "raeder"))
        assert caught.value.hint == "Did you mean 'reader'? Available tools: 'reader'"
        assert shop.asked("tools/call") == []


def refusing(shop: Shop, way: str) -> None:
    """It no longer has the tool that is called, and says so in one of the ways of servers."""
    text = {"content": [{"type": "text", "text": "Unknown tool"}], "isError": True}
    refusal: Any = {"result": text, "invalid": refused(-32602), "unknown": refused(-32601)}[way]
    shop.methods["tools/call"] = refusal


def refused(code: int) -> ServerRefused:
    return ServerRefused("Unknown tool", rpc_code=code)


@pytest.mark.parametrize("way", ["result", "invalid", "unknown"])
async def test_a_call_of_a_tool_that_is_gone_says_so_and_what_there_is(store: Path, way: str):
    shop = Shop(tools=["read_file", "other"])
    await opened_once(store, {"dev": {"a": shop}})
    shop.stock("read_files", "other")
    refusing(shop, way)
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        with pytest.raises(ToolNotFound) as caught:
            await bench.use(tool("a", "read_file"))
        assert caught.value.hint == (
            "Its server no longer has it. Did you mean 'read_files'? Available tools: 'read_files', 'other'"
        )
        assert names(await bench.open("dev")) == ["read_files", "other"]
    assert shop.tried == 2


@pytest.mark.parametrize("way", ["result", "invalid"])
async def test_a_call_that_fails_for_another_reason_is_answered_as_its_server_did(store: Path, way: str):
    shop = Shop(tools=["t"])
    await opened_once(store, {"dev": {"a": shop}})
    refusing(shop, way)
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        if way == "result":
            assert (await bench.use(tool("a", "t")))["isError"] is True
        else:
            with pytest.raises(CallFailed, match="Unknown tool"):
                await bench.use(tool("a", "t"))


async def test_a_gone_tool_is_told_also_where_the_new_list_was_read_before_the_call_ended(store: Path):
    shop, gate = Shop(tools=["t"]), asyncio.Event()
    await opened_once(store, {"dev": {"a": shop}})
    shop.stock("other")
    refusing(shop, "result")
    refusal = shop.methods["tools/call"]

    async def slowly(_params: object) -> Any:
        await gate.wait()
        return refusal

    shop.methods["tools/call"] = slowly
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        await bench.open("dev")
        call = asyncio.ensure_future(bench.use(tool("a", "t")))
        await wait_until(lambda: handle_of(bench, "dev", "a").lists.tools.is_live, what="the new list")
        gate.set()
        with pytest.raises(ToolNotFound, match="Tool 't' not found"):
            await call


# -- on command


async def test_a_refresh_lists_everything_remembers_it_and_ends_the_server(store: Path):
    shop = Shop(tools=["before"], prompts=["p"], resources=["r:1"])
    shops, server = {"dev": {"a": shop}}, ServerIdentifier("dev", "a")
    await opened_once(store, shops)
    shop.stock("after")
    async with remembering(store, shops) as bench:
        assert list((await bench.at(LIBRARY).refresh(server)).tools) == ["after"]
        await wait_until(lambda: shop.closed == 2, what="its end")
    async with remembering(store, shops) as bench:
        assert names(await bench.open("dev")) == ["after"]
        for kind in KINDS:
            await bench.at(LIBRARY).items(kind, ["dev"])
    assert shop.tried == 2


async def test_a_refresh_of_a_server_that_fails_says_why(store: Path):
    shop = Shop()
    shop.fail()
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        with pytest.raises(ConnectFailed, match="out of order"):
            await bench.at(LIBRARY).refresh(ServerIdentifier("dev", "a"))


async def test_clients_of_late_are_expected_again_and_one_that_declares_nothing(store: Path):
    shops = {"dev": {"a": Shop()}}
    declared = [b'{"sampling":{}}', b'{"roots":{}}']
    for one in declared:
        caller = type(HANDSHAKE)(
            version="2025-11-25", modern=False, audience=AUDIENCE, capabilities=Raw(one), key=(AUDIENCE, False, one)
        )
        async with remembering(store, shops) as bench:
            bench.at(caller)
    async with remembering(store, shops) as bench:
        expected = [bytes(caller.capabilities) for caller in bench.expected()]
        assert sorted(expected) == sorted([*declared, b"{}"])
        assert len({caller.key for caller in bench.expected()}) == 3


async def test_a_client_of_late_is_expected_in_its_own_era(store: Path):
    for caller in (HANDSHAKE, MODERN):
        async with remembering(store, {"dev": {"a": Shop()}}) as bench:
            bench.at(caller)
    async with remembering(store, {"dev": {"a": Shop()}}) as bench:
        assert [(caller.modern, bytes(caller.capabilities)) for caller in bench.expected()] == [
            (True, b"{}"),
            (False, b"{}"),
        ]


# -- the era of the client


def dual() -> Shop:
    """A server that speaks both eras, and has another list in each."""
    shop, modern = Shop(), Shop(modern=True)
    shop.methods["server/discover"] = modern.methods["server/discover"]

    def listed(params: Any) -> Any:
        return {"tools": [{"name": "modern" if "_meta" in params else "handshake", "inputSchema": {}}]}

    shop.methods["tools/list"] = listed
    return shop


def greetings(shop: Shop) -> list[str]:
    return [method for method, _ in shop.requests if method in ("initialize", "server/discover")]


async def test_each_client_has_the_list_of_its_own_era_and_from_then_on_without_a_server(store: Path):
    shop = dual()
    for number in range(2):
        for caller, own in ((HANDSHAKE, "handshake"), (MODERN, "modern")):
            async with remembering(store, {"dev": {"a": shop}}) as bench:
                router = bench.at(caller)
                if number or caller is HANDSHAKE:
                    assert names(await router.open("dev")) == [own]
                else:
                    await router.refresh(ServerIdentifier("dev", "a"))
    assert shop.tried == 2
    assert greetings(shop) == ["initialize", "server/discover"]


async def test_a_client_of_the_other_era_is_shown_a_list_at_once_and_its_server_is_asked_in_its_own(store: Path):
    shop, client = dual(), ListeningClient()
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        await bench.at(HANDSHAKE).open("dev")
    async with remembering(store, {"dev": {"a": shop}}) as bench:
        bench.join(AUDIENCE, client)
        opened = await bench.at(MODERN).open("dev")
        assert (opened.stored, names(opened)) == (("a",), ["handshake"])
        await wait_until(lambda: shop.closed == 2, what="the check")
        assert names(await bench.at(MODERN).open("dev")) == ["modern"]
        assert client.changes == [("dev", "tools")]
    assert greetings(shop) == ["initialize", "server/discover"]


@pytest.mark.parametrize("modern", [False, True])
async def test_a_list_of_a_server_of_one_era_that_its_client_did_not_speak_is_right_for_clients_of_both(
    store: Path, *, modern: bool
):
    shop = Shop(modern=modern)
    for caller in (HANDSHAKE, MODERN) if modern else (MODERN, HANDSHAKE):
        async with remembering(store, {"dev": {"a": shop}}) as bench:
            await bench.at(caller).open("dev")
            await settle(50)
    assert shop.tried == 1


async def test_a_server_of_the_handshake_era_is_checked_once_for_modern_clients(store: Path):
    shop = Shop()
    await opened_once(store, {"dev": {"a": shop}})
    for _ in range(3):
        async with remembering(store, {"dev": {"a": shop}}) as bench:
            assert (await bench.at(MODERN).open("dev")).stored == ("a",)
            await wait_until(lambda: shop.closed == 2, what="the check")
    assert shop.tried == 2


async def test_with_never_a_list_of_the_other_era_stands(store: Path):
    shop = Shop()
    await opened_once(store, {"dev": {"a": shop}}, refresh="never")
    async with remembering(store, {"dev": {"a": shop}}, refresh="never") as bench:
        assert (await bench.at(MODERN).open("dev")).stored == ("a",)
        await settle(50)
    assert shop.tried == 1


async def test_a_refresh_finds_out_anew_which_era_a_server_speaks(store: Path):
    before, after = Shop(modern=True), dual()
    await opened_once(store, {"dev": {"a": before}})
    async with remembering(store, {"dev": {"a": after}}) as bench:
        await bench.at(LIBRARY).refresh(ServerIdentifier("dev", "a"))
    assert greetings(after) == ["initialize"]
