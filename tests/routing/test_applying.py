"""A workbench that is given another configuration while it works."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from mcp_workbench import ToolIdentifier, Workbench
from mcp_workbench.config.diff import Changes
from mcp_workbench.config.model import ServerConfig
from mcp_workbench.errors import ConnectFailed, ServerExited, ServerNotFound, ToolboxNotFound, WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.surfaces.server_info import EVERYTHING, View
from mcp_workbench.wire.caller import LIBRARY
from tests.config.test_changes import Shape, config_of
from tests.support.library import text_of
from tests.support.memory import MemoryChannel, MemoryServer
from tests.support.near import near
from tests.support.procs import wait_until
from tests.support.wire import Era, Wire, result_of

ERAS: list[Era] = ["handshake", "modern"]


class Gate:
    """A tool that answers when it is let, and the calls that wait there."""

    def __init__(self, server: MemoryServer) -> None:
        self.waiting = 0
        self._open = asyncio.Event()
        self._answer: Callable[[Any], Any] = server.methods["tools/call"]
        server.methods["tools/call"] = self._call

    async def _call(self, params: Any) -> Any:
        self.waiting += 1
        await self._open.wait()
        return self._answer(params)

    def open(self) -> None:
        self._open.set()


class Bench:
    """A workbench whose servers are found by their command: another command is another server."""

    def __init__(self, workbench: Workbench, servers: dict[str, MemoryServer]) -> None:
        self.workbench = workbench
        self.servers = servers

    def apply(self, shape: Shape, **settings: Any) -> Changes:
        return self.workbench.apply(replace(config_of(shape), **settings))

    async def use(self, server: str = "s", tool: str = "t", toolbox: str = "dev") -> str:
        return text_of(await self.workbench.use(ToolIdentifier(toolbox, server, tool)))

    def begin(self, server: str = "s") -> asyncio.Task[str]:
        return asyncio.ensure_future(self.use(server))


@contextlib.asynccontextmanager
async def bench(shape: Shape, *servers: MemoryServer, **limits: Any) -> AsyncIterator[Bench]:
    known = {server.methods["initialize"]["serverInfo"]["name"]: server for server in servers}

    async def opened(config: ServerConfig, *_: object) -> MemoryChannel:
        return await known[config.target.command].open()  # type: ignore[union-attr]

    with mock.patch("mcp_workbench.routing.server_handle.open_channel", opened):
        async with Workbench(config_of(shape), limits=Limits(**limits)) as workbench:
            yield Bench(workbench, known)


def one(command: str, *, server: str = "s", about: str = "About") -> Shape:
    return {"dev": (about, {server: command})}


async def raised(work: Awaitable[object]) -> WorkbenchError:
    with pytest.raises(WorkbenchError) as caught:
        await work
    return caught.value


@pytest.mark.row("C9")
async def test_c9_a_server_that_is_as_it_was_goes_on_also_with_a_call_under_way():
    kept, other = MemoryServer("kept"), MemoryServer("other")
    async with bench({"dev": ("About", {"s": "kept", "gone": "other"})}, kept, other) as at:
        gate = Gate(kept)
        call = at.begin()
        await wait_until(lambda: gate.waiting == 1, what="the call")
        at.apply({"new": ("Another", {"s": "other"}), "dev": ("Otherwise", {"s": "kept"})})
        gate.open()
        assert await call == await at.use() == "kept:t"
        assert await at.use(toolbox="new") == "other:t"
        assert kept.starts == 1


@pytest.mark.row("C9")
async def test_c9_a_removed_server_ends_when_its_calls_have_and_takes_no_more():
    server = MemoryServer("old")
    done_when_closed: list[bool] = []
    async with bench(one("old"), server, drain_seconds=0.0) as at:
        gate = Gate(server)
        call = at.begin()
        await wait_until(lambda: gate.waiting == 1, what="the call")

        async def close() -> None:
            done_when_closed.append(call.done())

        server.channels[0].close = close
        found = at.apply({"dev": ("About", {})})
        assert found.removed == (ServerIdentifier("dev", "s"),)
        assert isinstance(await raised(at.use()), ServerNotFound)
        await asyncio.wait((call,), timeout=0.1)  # as long as it may take to end a server that is not waited for
        assert done_when_closed == []
        gate.open()
        assert await call == "old:t"
        await wait_until(lambda: bool(done_when_closed), what="its end")
        assert done_when_closed == [True]
        at.apply({})
        assert isinstance(await raised(at.use()), ToolboxNotFound)
        assert isinstance(await raised(at.workbench.open("dev")), ToolboxNotFound)
        assert server.starts == 1


@pytest.mark.row("C9")
async def test_c9_a_changed_server_is_another_one_and_the_calls_of_the_first_end_there():
    old, new = MemoryServer("old"), MemoryServer("new", tools=("t", "u"))
    async with bench(one("old"), old, new, predecessor_seconds=0.05) as at:
        gate = Gate(old)
        call = at.begin()
        await wait_until(lambda: gate.waiting == 1, what="the call")
        assert at.apply(one("new")).changed == (ServerIdentifier("dev", "s"),)
        assert [await at.use(), await at.use(tool="u")] == ["new:t", "new:u"]
        assert not call.done()
        gate.open()
        assert await call == "old:t"
        assert (old.starts, new.starts) == (1, 1)


@pytest.mark.row("C9")
async def test_c9_a_changed_server_is_started_when_the_one_before_it_has_ended():
    old, new = MemoryServer("old"), MemoryServer("new")
    ended: list[int] = []

    async with bench(one("old"), old, new) as at:
        await at.use()

        async def close() -> None:
            await asyncio.sleep(0)
            ended.append(new.starts)

        with mock.patch.object(old.channels[0], "close", close):
            at.apply(one("new"))
            assert await at.use() == "new:t"
    assert ended == [0]


@pytest.mark.row("C9")
async def test_c9_a_call_that_waits_for_a_slot_goes_to_the_new_server():
    old, new = MemoryServer("old"), MemoryServer("new")
    async with bench(one("old"), old, new, in_flight=1, predecessor_seconds=0.05) as at:
        gate = Gate(old)
        first, second = at.begin(), at.begin()
        await wait_until(lambda: gate.waiting == 1, what="the first call")
        at.apply(one("new"))
        gate.open()
        assert [await first, await second] == ["old:t", "new:t"]


@pytest.mark.row("C9")
@pytest.mark.parametrize("is_gone", [False, True])
async def test_c9_who_waits_for_a_start_waits_for_that_of_the_new_server(*, is_gone: bool):
    old, new = MemoryServer("old"), MemoryServer("new")
    async with bench(one("old"), old, new) as at:
        began = asyncio.Event()

        async def stuck(_: Any) -> None:
            began.set()
            await asyncio.get_running_loop().create_future()

        old.methods["initialize"] = old.methods["server/discover"] = stuck
        work = [at.begin(), asyncio.ensure_future(at.workbench.open("dev"))]
        await began.wait()
        at.apply({"dev": ("About", {})} if is_gone else one("new"))
        call, opened = await asyncio.gather(*work, return_exceptions=True)
        if is_gone:
            assert isinstance(call, ServerNotFound)
            assert not getattr(opened, "found", ())
        else:
            assert call == "new:t"
            assert [tool.tool for tool, _ in opened.found] == ["t"]  # type: ignore[union-attr]


@pytest.mark.row("C9")
async def test_c9_what_the_old_server_lists_late_is_not_taken_for_the_new_ones():
    old, new = MemoryServer("old", tools=("old",)), MemoryServer("new", tools=("new",))
    async with bench(one("old"), old, new, predecessor_seconds=0.05) as at:
        gate = asyncio.Event()
        answer = old.methods["tools/list"]

        async def late(_: Any) -> Any:
            await gate.wait()
            return answer

        old.methods["tools/list"] = late
        blocked = Gate(old)
        router = at.workbench.at(LIBRARY)
        call = asyncio.ensure_future(router.pool.connect(ServerIdentifier("dev", "s")))
        await call
        listing = asyncio.ensure_future(router.pool.handle(ServerIdentifier("dev", "s")).lists.list_tools())
        await wait_until(lambda: old.asked("tools/list"), what="the listing")
        at.apply(one("new"))
        opened = await at.workbench.open("dev")
        gate.set()
        blocked.open()
        await asyncio.gather(listing, return_exceptions=True)
        assert [tool.tool for tool, _ in opened.found] == ["new"]
        assert [tool.tool for tool in router.catalog.known()] == ["new"]


@pytest.mark.row("C9")
async def test_c9_a_server_that_rests_is_tried_at_once_when_its_entry_is_changed():
    old, new = MemoryServer("old"), MemoryServer("new")
    async with bench(one("old"), old, new, backoff_first_seconds=60.0, backoff_patience_seconds=0.0) as at:
        old.methods["initialize"] = old.methods["server/discover"] = ServerExited("it died")
        assert isinstance(await raised(at.use()), ConnectFailed)
        at.apply(one("new"))
        assert await asyncio.wait_for(at.use(), 5) == "new:t"


@pytest.mark.row("C9")
async def test_c9_settings_of_the_whole_file_wait_for_the_next_start():
    async with bench({}) as at:
        found = at.apply({}, tool_mode="dynamic", record="full")
        assert found == Changes(settings=("toolMode", "record"))
        assert (at.workbench.config.tool_mode, at.workbench.config.record) == ("proxy", "calls")


@pytest.mark.row("C9")
async def test_c9_nothing_is_changed_while_it_closes():
    async with bench(one("old"), MemoryServer("old")) as at:
        before = at.workbench.config
        closing = asyncio.ensure_future(at.workbench.close())
        await asyncio.sleep(0)
        assert at.apply({}) == Changes()
        assert at.workbench.config is before
        await closing


@pytest.mark.row("C9")
async def test_c9_the_end_of_the_workbench_does_not_wait_for_a_server_that_drains():
    server = MemoryServer("old")
    async with bench(one("old"), server, drain_seconds=0.05) as at:
        gate = Gate(server)
        call = at.begin()
        await wait_until(lambda: gate.waiting == 1, what="the call")
        at.apply({})
        await asyncio.wait_for(at.workbench.close(), 5)
        call.cancel()


def stuck(server: MemoryServer, method: str) -> asyncio.Event:
    """From now on a method is not answered; somebody has asked for it when the event is set."""
    asked = asyncio.Event()

    async def wait(_: Any) -> None:
        asked.set()
        await asyncio.get_running_loop().create_future()

    server.methods[method] = wait
    return asked


@pytest.mark.row("C9")
@pytest.mark.parametrize("stage", ["initialize", "tools/list"])
async def test_c9_who_waits_while_several_changes_come_gets_what_the_last_one_says(stage: str):
    servers = [MemoryServer(name) for name in ("old", "new", "last")]
    async with bench(one("old"), *servers) as at:
        began = [stuck(server, stage) for server in servers[:2]]
        call, opening = at.begin(), asyncio.ensure_future(at.workbench.open("dev"))
        await began[0].wait()
        at.apply(one("new"))
        await began[1].wait()
        at.apply(one("last"))
        assert await asyncio.wait_for(call, 10) == "last:t"
        assert [tool.tool for tool, _ in (await asyncio.wait_for(opening, 10)).found] == ["t"]


@pytest.mark.row("C9")
@pytest.mark.parametrize("is_gone", [False, True])
async def test_c9_a_server_that_drains_takes_no_new_call(*, is_gone: bool):
    old, new = MemoryServer("old"), MemoryServer("new")
    async with bench(one("old"), old, new, predecessor_seconds=0.05) as at:
        router, server = at.workbench.at(LIBRARY), ServerIdentifier("dev", "s")
        await router.pool.connect(server)
        gate, lists = Gate(old), old.methods["tools/list"]
        supervisor = router.pool.handle(server).supervisor
        draining = asyncio.ensure_future(supervisor.forward("tools/call", {"name": "t"}, None))
        await wait_until(lambda: gate.waiting == 1, what="a call that drains")
        go, began = asyncio.Event(), asyncio.Event()

        async def late(_: Any) -> Any:
            began.set()
            await go.wait()
            return lists

        old.methods["tools/list"] = late
        call = at.begin()
        await began.wait()
        at.apply({"dev": ("About", {})} if is_gone else one("new"))
        go.set()
        [outcome] = await asyncio.wait_for(asyncio.gather(call, return_exceptions=True), 10)
        assert isinstance(outcome, ServerNotFound) if is_gone else outcome == "new:t"
        assert gate.waiting == 1
        gate.open()
        await draining


@pytest.mark.row("C9", "D3")
async def test_c9_nothing_is_started_for_who_waited_when_it_closes_after_a_change():
    old, new = MemoryServer("old"), MemoryServer("new")
    async with bench(one("old"), old, new) as at:
        began = stuck(old, "initialize")
        call = at.begin()
        await began.wait()
        at.apply(one("new"))
        await at.workbench.close()
        assert (await raised(call)).wire_code == "shutting_down"
        assert new.starts == 0


@pytest.mark.row("C9", "D6")
@pytest.mark.parametrize("is_used", [True, False])
async def test_c9_no_chain_is_kept_of_what_was_replaced(*, is_used: bool):
    """Also where all that is done with a server is to look for its tools."""
    servers = MemoryServer("old"), MemoryServer("new")
    async with bench(one("old"), *servers) as at:
        router = at.workbench.at(LIBRARY)
        handles: list[weakref.ref[object]] = []
        for command in ("new", "old", "new", "old"):
            at.apply(one(command))
            await (at.use() if is_used else router.search_all("t"))
            handles.append(weakref.ref(router.pool.find(ServerIdentifier("dev", "s"))))

        def left() -> int:
            for server in servers:
                server.channels.clear()
            gc.collect()
            return sum(handle() is not None for handle in handles)

        await wait_until(lambda: left() <= (1 if is_used else 2), what="the end of all that was replaced")


# -- what clients see


@pytest.mark.row("C9")
@pytest.mark.parametrize("era", ERAS)
async def test_c9_the_two_tools_name_the_toolboxes_that_there_are_now(era: Era):
    async with (
        bench(one("old"), MemoryServer("old"), MemoryServer("new")) as at,
        near(at.workbench, EVERYTHING, era, {}) as wire,
    ):
        await tools(wire)
        at.apply({"fresh": ("Brand new words", {"s": "new"})})
        said = str(await tools(wire))
        assert "Brand new words" in said
        assert "About" not in said
        assert text_of(await wire.use("fresh", "s", "t")) == "new:t"
        gone = await wire.use("dev", "s", "t")
        assert gone["_meta"]["mcp-workbench/error"]["code"] == "toolbox_not_found"


@pytest.mark.row("C9")
async def test_c9_a_client_is_told_once_that_its_tools_changed_and_not_of_what_it_does_not_see():
    async with (
        bench(one("old"), MemoryServer("old"), MemoryServer("new")) as at,
        near(at.workbench, EVERYTHING, "handshake", {}) as wire,
    ):
        await tools(wire)
        at.apply(one("new"))  # the two tools say nothing of it
        await tools(wire)
        assert told_lists(wire) == []
        at.apply({**one("new"), "more": ("Another", {"s": "old"}), "most": ("A third", {"s": "old"})})
        await tools(wire)
        assert told_lists(wire) == ["notifications/tools/list_changed"]


@pytest.mark.row("C9")
async def test_c9_a_client_of_one_toolbox_is_told_and_sees_the_tools_of_the_new_server():
    old, new = MemoryServer("old", tools=("a",)), MemoryServer("new", tools=("b",))
    async with bench(one("old"), old, new) as at, near(at.workbench, View("dev"), "handshake", {}) as wire:
        assert names(await tools(wire)) == ["a"]
        at.apply(one("new"))
        assert names(await tools(wire)) == ["b"]
        assert "notifications/tools/list_changed" in told_lists(wire)


@pytest.mark.row("C9")
@pytest.mark.parametrize("view", [View("dev"), View("dev", "s")])
async def test_c9_what_a_client_sees_alone_and_is_gone_is_an_error_and_no_defect(view: View):
    async with bench(one("old"), MemoryServer("old")) as at, near(at.workbench, view, "handshake", {}) as wire:
        await tools(wire)
        at.apply({})
        for method, params in (
            ("tools/list", {}),
            ("resources/list", {}),
            ("tasks/get", {"taskId": "s:1"}),
            ("resources/subscribe", {"uri": "x:1"}),
        ):
            answer = await wire.request(method, params)
            assert "error" in answer, method
            assert answer["error"]["code"] != -32603, answer
        called = await wire.request("tools/call", {"name": "t", "arguments": {}})
        assert "error" in called or called["result"]["isError"]


@pytest.mark.row("C9")
@pytest.mark.parametrize("era", ERAS)
async def test_c9_a_watched_resource_is_watched_at_the_new_server_too(era: Era):
    old, new = (MemoryServer(name, resources=("x:1",)) for name in ("old", "new"))
    for server in (old, new):
        server.methods["resources/subscribe"] = {}
    async with bench(one("old"), old, new) as at, near(at.workbench, View("dev", "s"), era, {}) as wire:
        if era == "handshake":
            result_of(await wire.request("resources/subscribe", {"uri": "x:1"}))
        else:
            await wire.begin("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["x:1"]}})
            await wait_until(lambda: bool(old.asked("resources/subscribe")), what="the subscription")
        at.apply(one("new"))
        await wait_until(lambda: bool(new.asked("resources/subscribe")), what="the same at the new server")
        new.say("notifications/resources/updated", uri="x:1")
        await wait_until(
            lambda: any(one["method"] == "notifications/resources/updated" for one in wire.notifications),
            what="the news",
        )


@pytest.mark.row("C9")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("stage", ["initialize", "tools/list"])
async def test_c9_a_first_list_during_a_change_is_that_of_the_new_server(era: Era, stage: str):
    old, new = MemoryServer("old", tools=("a",)), MemoryServer("new", tools=("b",))
    async with bench(one("old"), old, new) as at, near(at.workbench, View("dev"), era, {}) as wire:
        began = stuck(old, stage)
        listing = asyncio.ensure_future(tools(wire))
        await began.wait()
        at.apply(one("new"))
        assert names(await asyncio.wait_for(listing, 10)) == ["b"]


@pytest.mark.row("C9")
async def test_c9_a_name_leads_to_the_server_that_has_it_now():
    old, new = MemoryServer("old"), MemoryServer("new")
    async with bench(one("old"), old, new) as at, near(at.workbench, View("dev"), "modern", {}) as wire:
        assert text_of(await wire.call("t")) == "old:t"
        at.apply(one("new", server="renamed"))
        assert text_of(await wire.call("t")) == "new:t"


@pytest.mark.row("C9")
async def test_c9_a_client_of_one_server_is_told_that_another_one_is_in_its_place():
    old, new = MemoryServer("old", tools=("a",)), MemoryServer("new", tools=("b",))
    async with bench(one("old"), old, new) as at, near(at.workbench, View("dev", "s"), "handshake", {}) as wire:
        assert names(await tools(wire)) == ["a"]
        at.apply(one("old", about="Another"))
        assert names(await tools(wire)) == ["a"]
        assert told_lists(wire) == []
        at.apply(one("new"))
        assert names(await tools(wire)) == ["b"]
        assert told_lists(wire).count("notifications/tools/list_changed") == 1


@pytest.mark.row("C9")
@pytest.mark.parametrize("view", [View("dev"), View("dev", "s")])
async def test_c9_a_server_that_is_there_again_can_be_watched_again(view: View):
    old = MemoryServer("old", resources=("x:1",))
    old.methods["resources/subscribe"] = {}
    async with bench(one("old"), old) as at, near(at.workbench, view, "handshake", {}) as wire:
        for times in (1, 2):
            await tools(wire)
            result_of(await wire.request("resources/subscribe", {"uri": "x:1"}))
            assert len(old.asked("resources/subscribe")) == times
            at.apply({"dev": ("About", {})})
            at.apply(one("old"))


@pytest.mark.row("C9")
async def test_c9_a_search_finds_what_there_is_now():
    old, new = MemoryServer("old", tools=("paint",)), MemoryServer("new", tools=("paint_walls",))
    async with bench(one("old"), old, new) as at:
        router = at.workbench.at(LIBRARY)
        await at.workbench.open("dev")
        assert [tool.tool for tool, _ in (await router.search("paint")).found] == ["paint"]
        at.apply(one("old", about="Watercolours and brushes"))
        assert [tool.tool for tool, _ in (await router.search("watercolours")).found] == ["paint"]
        at.apply(one("new", server="other"))
        assert (await router.search("paint")).found == ()
        await at.workbench.open("dev")
        assert [(tool.server, tool.tool) for tool, _ in (await router.search("paint")).found] == [
            ("other", "paint_walls")
        ]


@pytest.mark.row("C9")
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["a", "b"]),
            st.tuples(st.just("About"), st.dictionaries(st.sampled_from("xyz"), st.sampled_from(["old", "new"]))),
        ),
        max_size=5,
    )
)
@settings(max_examples=40)
def test_c9_after_any_changes_every_server_answers_as_the_last_configuration_says(shapes: list[Shape]):
    async def follow() -> None:
        async with bench({}, MemoryServer("old"), MemoryServer("new")) as at:
            for shape in shapes:
                at.apply(shape)
                for toolbox in ("a", "b"):
                    servers = shape.get(toolbox, ("", {}))[1]
                    for server in "xyz":
                        if server in servers:
                            assert await at.use(server, toolbox=toolbox) == f"{servers[server]}:t"
                        else:
                            assert isinstance(
                                await raised(at.use(server, toolbox=toolbox)), ServerNotFound | ToolboxNotFound
                            )

    asyncio.run(follow())


async def tools(wire: Wire) -> Any:
    return result_of(await wire.request("tools/list"))["tools"]


def told_lists(wire: Any) -> list[str]:
    return [one["method"] for one in wire.notifications if one["method"].endswith("list_changed")]


def names(listed: Any) -> list[str]:
    return [tool["name"] for tool in listed]
