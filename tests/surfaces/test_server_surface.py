"""One server, transparently: everything passes, and only what the eras and a restart ask for is different."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from mcp_workbench.errors import CallTimeout, Fault, Overloaded, ServerExited, ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.serve.session import Session
from mcp_workbench.surfaces.server import ServerSurface
from mcp_workbench.wire import eras
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench
from tests.serve.fakes import FakeLine
from tests.support.memory import EVERYTHING, LISTEN, MemoryServer, rejected, serving
from tests.support.procs import wait_until
from tests.surfaces.benches import AUDIENCE, HANDSHAKE, MODERN, answer, call, error_of
from tests.wire.pair import settle

A = ServerIdentifier("dev", "a")
SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"


def subscribing(*, modern: bool = False, **options: Any) -> MemoryServer:
    server = MemoryServer("a", modern=modern, **options)
    server.methods |= {SUBSCRIBE: {}, UNSUBSCRIBE: {}}
    return server


async def refused(surface: ServerSurface, method: str, caller: Caller = HANDSHAKE, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await answer(surface, method, caller, **params)
    return caught.value


# -- who it is


@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN])
@pytest.mark.parametrize("modern", [False, True])
async def test_the_server_speaks_for_itself_but_for_tasks_of_the_other_era(caller: Caller, *, modern: bool):
    declared = {**EVERYTHING, "extensions": {eras.TASKS: {}, "vendor/x": {}}, "vendor": [1]}
    async with serving({"dev": {"a": MemoryServer("a", modern=modern, capabilities=declared)}}) as workbench:
        hello = await ServerSurface(workbench, A).server_info(caller)
    expected = dict(declared)
    if caller.modern != modern:
        del expected["tasks"]
        expected["extensions"] = {"vendor/x": {}}
    assert hello.capabilities == expected
    assert json.loads(bytes(hello.server_info)) == {"name": "a", "version": "1"}


GREETINGS = {False: "initialize", True: "server/discover"}
EXTRAS: dict[str, Any] = {"ttlMs": 60_000, "cacheScope": "public", "vendor/x": [1.5], "_meta": {"vendor/y": {"z": 1}}}


async def greeting(workbench: Workbench, caller: Caller) -> dict[str, Any]:
    session = Session(workbench, ServerSurface(workbench, A), FakeLine(None), AUDIENCE)
    return json.loads(bytes(await session.handle(caller, FakeLine(1), GREETINGS[caller.modern], {}, {})))


@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN])
@pytest.mark.parametrize("modern", [False, True])
async def test_what_else_a_server_says_of_itself_reaches_a_client_of_its_era(caller: Caller, *, modern: bool):
    server = MemoryServer("a", modern=modern)
    server.methods[GREETINGS[modern]] |= {**EXTRAS, "resultType": "complete"} if modern else EXTRAS
    async with serving({"dev": {"a": server}}) as workbench:
        found = await greeting(workbench, caller)
    if caller.modern != modern:
        assert found.keys().isdisjoint({"vendor/x"})
        assert not caller.modern or (found["ttlMs"], found["cacheScope"]) == (3_600_000, "private")
        return
    assert {name: found[name] for name in ("ttlMs", "cacheScope", "vendor/x")} == {
        name: EXTRAS[name] for name in ("ttlMs", "cacheScope", "vendor/x")
    }
    assert found["_meta"]["vendor/y"] == {"z": 1}
    if modern:
        assert found["_meta"][eras.SERVER_INFO] == {"name": "a", "version": "1"}
        assert (found["supportedVersions"], found["resultType"]) == (["2026-07-28"], "complete")
    else:
        assert (found["protocolVersion"], found["serverInfo"]) == (HANDSHAKE.version, {"name": "a", "version": "1"})


@pytest.mark.parametrize("ttl", [60_000, 0, "soon", -1])
async def test_a_greeting_that_is_older_than_its_time_to_live_promises_none(ttl: Any):
    server = MemoryServer("a", modern=True)
    server.methods["server/discover"] |= {"ttlMs": ttl}
    async with serving({"dev": {"a": server}}) as workbench:
        connection = await workbench.at(MODERN).pool.connect(A)
        connection.began -= 61
        assert (await greeting(workbench, MODERN))["ttlMs"] == 0


async def test_a_server_that_cannot_be_reached_is_an_error_with_its_code():
    server = MemoryServer("a")
    server.methods["initialize"] = server.methods["server/discover"] = ServerExited("it died")
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        with pytest.raises(RpcError) as caught:
            await surface.server_info(HANDSHAKE)
    assert caught.value.code == -31001


# -- what passes


async def test_any_method_passes_with_all_that_it_holds():
    server = MemoryServer("a")
    server.methods["vendor/x"] = lambda params: {"got": params}
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        assert json.loads(await answer(surface, "vendor/x", HANDSHAKE, y=[1])) == {"got": {"y": [1]}}
        assert (await refused(surface, "vendor/unknown")).code == -32601


@pytest.mark.parametrize("modern", [False, True])
async def test_tasks_pass_only_between_sides_of_one_era(*, modern: bool):
    server = MemoryServer("a", modern=modern)
    server.methods["tasks/get"] = {"taskId": "1"}
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        same, other = (MODERN, HANDSHAKE) if modern else (HANDSHAKE, MODERN)
        assert json.loads(await answer(surface, "tasks/get", same, taskId="1")) == {"taskId": "1"}
        assert (await refused(surface, "tasks/get", other, taskId="1")).code == -32601
        assert await surface.watch_task(MODERN, "1") is modern


async def test_a_refusal_is_the_servers_own_and_a_failure_is_a_result():
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        server.methods["tools/call"] = ServerRefused("as I said", rpc_code=-7)
        error = await refused(surface, "tools/call", name="t")
        assert (error.code, error.message) == (-7, "as I said")
        server.methods["tools/call"] = ServerExited("it died")
        assert "it died" in error_of(await call(surface, "t"))


@pytest.mark.parametrize(
    ("fault", "code", "more"),
    [
        (CallTimeout("no answer", hint="Ask for less."), "call_timeout", {}),
        (Overloaded("too many calls", hint="Try again later."), "overloaded", {"retry_after": 5}),
    ],
)
async def test_the_error_of_a_request_that_was_passed_on_has_its_hint_its_code_and_its_place(
    fault: Fault, code: str, more: dict[str, int]
):
    server = MemoryServer("a")
    server.methods["vendor/x"] = fault
    async with serving({"dev": {"a": server}}) as workbench:
        error = await refused(ServerSurface(workbench, A), "vendor/x")
    assert error.code == -31001
    assert error.message.endswith(f"{fault}\n{fault.hint}")
    assert error.data == {"code": code, "toolbox": "dev", "server": "a", **more}


async def test_tools_that_are_filtered_are_neither_listed_nor_called():
    server = MemoryServer("a", tools=["read", "write"])
    async with serving({"dev": {"a": server}}) as workbench:
        filtered = msgspec.structs.replace(workbench.config.toolboxes["dev"].servers["a"], tool_filters=("read",))
        workbench.config.toolboxes["dev"].servers["a"] = filtered  # type: ignore[index] -- a plain dict
        surface = ServerSurface(workbench, A)
        tools = json.loads(await answer(surface, "tools/list"))["tools"]
        assert [tool["name"] for tool in tools] == ["read"]
        assert (await call(surface, "read", {}))["content"][0]["text"] == "a:read"
        server.methods["tools/call"] = rejected("tools/call")
        assert (await refused(surface, "tools/call", name="write")).code == -32602
        assert (await refused(surface, "tools/list", cursor="1")).code == -32602


# -- subscriptions


async def test_in_the_handshake_era_a_subscription_is_a_set():
    server = subscribing()
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        for method in (SUBSCRIBE, SUBSCRIBE, UNSUBSCRIBE, UNSUBSCRIBE):
            await answer(surface, method, uri="x:1")
        await settle()
    assert [len(server.asked(method)) for method in (SUBSCRIBE, UNSUBSCRIBE)] == [1, 1]


async def test_what_is_too_long_or_too_many_is_not_watched():
    server = subscribing()
    async with serving({"dev": {"a": server}}, uri_length=10, subscriptions=2) as workbench:
        surface = ServerSurface(workbench, A)
        assert (await refused(surface, SUBSCRIBE, uri="x" * 11)).code == -32602
        for uri in ("x:1", "x:2", "x:1"):
            await answer(surface, SUBSCRIBE, uri=uri)
        assert (await refused(surface, SUBSCRIBE, uri="x:3")).code == -32602
        await answer(surface, UNSUBSCRIBE, uri="x:1")
        await answer(surface, SUBSCRIBE, uri="x:3")
    assert [params["uri"] for params in server.asked(SUBSCRIBE)] == ["x:1", "x:2", "x:3"]


async def test_a_handshake_client_is_told_of_what_it_watches_and_of_nothing_that_it_left():
    server = subscribing(modern=True)
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        await surface.server_info(HANDSHAKE)

        def told(uri: str) -> bool:
            return bool(list(surface.translate(A, eras.RESOURCE_UPDATED, {"uri": Raw(json.dumps(uri).encode())})))

        assert not told("x:1")
        await answer(surface, SUBSCRIBE, uri="x:1")
        assert [told(uri) for uri in ("x:1", "x:1/part", "x:12", "x:2")] == [True, True, False, False]
        await answer(surface, UNSUBSCRIBE, uri="x:1")
        assert not told("x:1")


async def test_what_cannot_be_watched_is_no_and_leaving_makes_no_place():
    server = MemoryServer("a", modern=True, capabilities={"tools": {}})
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        assert not await surface.subscribe(MODERN, "x:1")
        await workbench.close()
        assert not await surface.subscribe(MODERN, "x:1")
        assert not await surface.watch_task(MODERN, "1")
        surface.unsubscribe(MODERN, "x:1")
        surface.unwatch_task(MODERN, "1")
    assert server.asked(LISTEN) == []


# -- what the server says


async def test_a_storm_of_announcements_is_told_at_once_and_then_once():
    server = MemoryServer("a")
    line = FakeLine(None)
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ServerSurface(workbench, A)
        session = Session(workbench, surface, line, AUDIENCE, Limits(announce_interval_seconds=0.01))
        session.notice("notifications/initialized", {})
        await surface.server_info(HANDSHAKE)
        for _ in range(1000):
            server.say("notifications/tools/list_changed", x="y" * 100)
        server.say("notifications/prompts/list_changed")
        assert line.told == [(f"notifications/{kind}/list_changed", {}) for kind in ("tools", "prompts")]
        await wait_until(lambda: len(line.told) > 2, what="the end of the interval")
        assert line.told[2:] == [("notifications/tools/list_changed", {})]
        session.close()


async def test_a_server_is_asked_by_its_client_what_no_other_surface_passes():
    async with serving({"dev": {"a": MemoryServer("a")}}) as workbench:
        surface = ServerSurface(workbench, A)
        assert surface.question_params(A, "vendor/anything", {"x": 1}) == {"x": 1}


async def test_a_level_is_set_only_where_the_server_has_levels():
    for capabilities, code in ((EVERYTHING, None), ({"tools": {}}, -32601)):
        server = MemoryServer("a", capabilities=capabilities)
        server.methods["logging/setLevel"] = {}
        async with serving({"dev": {"a": server}}) as workbench:
            surface = ServerSurface(workbench, A)
            if code is None:
                assert (await refused(surface, "logging/setLevel", level="loud")).code == -32602
                await answer(surface, "logging/setLevel", level="debug")
                await settle()
                assert server.asked("logging/setLevel") == [{"level": "debug"}]
            else:
                assert (await refused(surface, "logging/setLevel", level="debug")).code == code
