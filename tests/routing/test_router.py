"""A client's router: its own connections, shared only where that is safe, and gone with it."""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import pytest
from msgspec import Raw

from mcp_workbench.activity.recorder import Recorder
from mcp_workbench.errors import Overloaded, ShuttingDown
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.routing.calls import RecordedCalls
from mcp_workbench.routing.requests import ForwardedRequest
from mcp_workbench.wire import eras
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.workbench import Workbench
from tests.support.library import DeafLine, ListeningClient
from tests.support.memory import LISTEN, MemoryServer, serving
from tests.support.procs import wait_until
from tests.wire.pair import settle

A = ServerIdentifier("dev", "a")
ROOTS_CHANGED = "notifications/roots/list_changed"


def client(audience: str = "one", *, modern: bool = True, **capabilities: Any) -> Caller:
    declared = json.dumps(capabilities).encode()
    version = "2026-07-28" if modern else "2025-11-25"
    key = (audience, modern, declared)
    return Caller(version=version, modern=modern, audience=audience, capabilities=Raw(declared), key=key)


async def use(workbench: Workbench, caller: Caller, method: str = "tools/call") -> None:
    exchange = Exchange(caller, DeafLine())
    await workbench.at(caller).calls.call(ForwardedRequest(A, method, {"name": "t"}, exchange))


def declared_in(server: MemoryServer, method: str) -> list[Any]:
    return [params["_meta"][eras.CLIENT_CAPABILITIES] for params in server.asked(method)]


# -- how many


async def test_a_client_has_no_more_places_than_it_may_and_others_are_not_concerned():
    async with serving({"dev": {}}, places=2) as workbench:
        first, second = workbench.at(client()), workbench.at(client(x=1))
        assert workbench.at(client()) is first
        with pytest.raises(Overloaded, match="2 different sets of capabilities"):
            workbench.at(client(x=2))
        assert workbench.at(client("two", x=2)) not in (first, second)
        assert workbench.at(client(x=1)) is second
        assert workbench.routers("one") == [first, second]


async def test_looking_for_a_place_makes_none():
    async with serving({"dev": {}}) as workbench:
        assert workbench.find(client()) is None
        router = workbench.at(client())
        assert workbench.find(client()) is router
        await workbench.close()
        assert workbench.find(client()) is None
        with pytest.raises(ShuttingDown):
            workbench.at(client())


async def test_leaving_ends_the_servers_of_one_audience_and_makes_room_again():
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}, places=2) as workbench:
        for caller in (client(), client(x=1), client("two"), LIBRARY):
            await use(workbench, caller)
        assert server.starts == 4
        await workbench.leave("one")
        states = {
            audience: [router.pool.handle(A).supervisor.state for router in workbench.routers(audience)]
            for audience in ("one", "two", "")
        }
        assert states == {"one": [], "two": ["ready"], "": ["ready"]}
        for number in range(2):
            workbench.at(client(x=number + 10))


async def test_who_left_is_told_no_more():
    server, listener = MemoryServer("a"), ListeningClient()
    async with serving({"dev": {"a": server}}) as workbench:
        workbench.join("one", listener)
        await use(workbench, client(modern=False))
        server.say("notifications/message", level="info")
        await workbench.leave("one")
        server.say("notifications/message", level="info")
    assert listener.told == [(A, "notifications/message")]


# -- what is shared


async def test_a_modern_server_is_one_for_all_that_a_client_declares_and_hears_it_with_each_request():
    server = MemoryServer("a", modern=True)
    async with serving({"dev": {"a": server}}) as workbench:
        for caller in (client(), client(roots={}), client(tasks={})):
            await use(workbench, caller)
        assert server.starts == 1
        assert declared_in(server, "tools/call") == [{}, {"roots": {}}, {"tasks": {}}]
        await workbench.at(client(roots={})).open("dev")
        assert declared_in(server, "tools/list") == [{"roots": {}}]
        await use(workbench, client("two"))
        assert server.starts == 2


@pytest.mark.parametrize("modern", [False, True])
async def test_a_handshake_server_is_one_for_each_that_a_client_declares(*, modern: bool):
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}) as workbench:
        for caller in (client(modern=modern), client(roots={}, modern=modern), client(modern=modern)):
            await use(workbench, caller)
    assert server.starts == 2
    assert [params["capabilities"] for params in server.asked("initialize")] == [{}, {"roots": {}}]


async def test_what_a_shared_server_says_is_told_once():
    server, listener = MemoryServer("a", modern=True), ListeningClient()
    async with serving({"dev": {"a": server}}, relist_interval_seconds=0.01) as workbench:
        workbench.join("one", listener)
        for number in range(3):
            await use(workbench, client(x=number))
            await workbench.at(client(x=number)).items("resources", ["dev"])
        await settle()
        assert len(server.asked(LISTEN)) == 1
        listener.told.clear()
        server.say("notifications/resources/updated", uri="x:1")
        assert listener.told == [(A, "notifications/resources/updated")]


async def test_a_change_of_a_shared_server_is_read_by_every_place():
    server = MemoryServer("a", modern=True)
    async with serving({"dev": {"a": server}}, relist_interval_seconds=0.01) as workbench:
        routers = [workbench.at(client(x=number)) for number in range(3)]
        for router in routers:
            await router.open("dev")
        server.methods["tools/list"] = {"tools": [{"name": "new", "inputSchema": {}}]}
        server.say("notifications/tools/list_changed")
        await wait_until(lambda: all([tool.tool for tool in router.catalog.known()] == ["new"] for router in routers))


async def test_a_subscription_at_a_shared_server_is_one_whoever_made_it():
    server = MemoryServer("a", modern=True)
    async with serving({"dev": {"a": server}}) as workbench:
        one, other = client(), client(x=1)
        for caller in (one, other):
            await use(workbench, caller)
            await workbench.at(caller).pool.handle(A).subscribe(f"x:{bytes(caller.capabilities).decode()}")
        await settle()
        assert len(server.asked(LISTEN)[-1]["notifications"]["resourceSubscriptions"]) == 2
        workbench.at(other).pool.handle(A).unsubscribe('x:{"x": 1}')
        await settle()
        assert server.asked(LISTEN)[-1]["notifications"]["resourceSubscriptions"] == ["x:{}"]


# -- what is recorded


DEEP = b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(("result", "names"), [(b'{"content":[]}', ["content"]), (DEEP, [])], ids=["usual", "deep"])
async def test_a_call_is_recorded_though_its_result_is_nested_too_deep_to_be_read(result: bytes, names: list[str]):
    server, recorder = MemoryServer("a"), mock.MagicMock(spec=Recorder)
    server.methods["tools/call"] = result
    async with serving({"dev": {"a": server}}) as workbench:
        caller = client()
        params = {"name": Raw(b'"t"'), "arguments": Raw(b"{}")}
        request = ForwardedRequest(A, "tools/call", params, Exchange(caller, DeafLine()))
        answer = await RecordedCalls(workbench.at(caller).calls, recorder).call(request)
    assert bytes(answer) == result
    recorder.began.assert_called_once_with(ToolIdentifier("dev", "a", "t"))
    [recorded] = recorder.ended.call_args_list
    assert list(recorded.args[3]) == names


# -- what servers are told


@pytest.mark.parametrize(("modern", "told"), [(False, [(ROOTS_CHANGED, {})]), (True, [])])
async def test_a_notification_of_the_handshake_era_is_for_servers_of_that_era(told: list[Any], *, modern: bool):
    server = MemoryServer("a", modern=modern)
    async with serving({"dev": {"a": server}}) as workbench:
        caller = client(modern=False)
        await use(workbench, caller)
        server.channels[0].told.clear()
        workbench.at(caller).tell(ROOTS_CHANGED, {})
        assert server.channels[0].told == told
        workbench.at(caller).tell("notifications/vendor", {})
        assert server.channels[0].told == [*told, ("notifications/vendor", {})]


async def test_a_server_that_does_not_read_is_told_nothing_that_would_pile_up():
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}) as workbench:
        caller = client(modern=False)
        await use(workbench, caller)
        server.channels[0].told.clear()
        server.channels[0].congested = True
        workbench.at(caller).tell(ROOTS_CHANGED, {})
        assert server.channels[0].told == []
        server.channels[0].congested = False
        workbench.at(caller).tell(ROOTS_CHANGED, {})
        assert server.channels[0].told == [(ROOTS_CHANGED, {})]


async def test_a_server_that_does_not_run_is_told_nothing_and_not_started():
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}) as workbench:
        workbench.at(client()).pool.handle(A)
        workbench.at(client()).tell(ROOTS_CHANGED, {})
    assert server.starts == 0


async def test_a_level_holds_for_servers_that_run_and_for_those_that_start_later():
    servers = {name: MemoryServer(name) for name in "ab"}
    for server in servers.values():
        server.methods["logging/setLevel"] = {}
    async with serving({"dev": servers}) as workbench:
        router, caller = workbench.at(client(modern=False)), client(modern=False)
        await use(workbench, caller)
        router.pool.set_level("debug")
        b = ServerIdentifier("dev", "b")
        await router.calls.call(ForwardedRequest(b, "tools/call", {"name": "t"}, Exchange(caller, DeafLine())))
        await settle()
    assert [server.asked("logging/setLevel") for server in servers.values()] == [[{"level": "debug"}]] * 2
