"""What a request to an agreed connection carries, for whom."""

from __future__ import annotations

import pytest
from msgspec import Raw

from mcp_workbench.errors import ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.wire import eras
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import RpcError
from tests.servers.fakes import FakeChannel
from tests.support.library import DeafLine

HANDSHAKE = Agreement(version="2025-11-25", modern=False)


def connected(channel: FakeChannel, limits: Limits | None = None) -> Connection:
    limits = limits or Limits()
    slots = Slots(limits.in_flight, limits.queued, limits.queue_wait_seconds)
    return Connection(channel, HANDSHAKE, slots, limits)


async def test_progress_is_handed_on_to_a_client_that_asked_for_it_and_to_no_other():
    channel = FakeChannel({"m": {}})
    connection = connected(channel)
    wants = Exchange(LIBRARY, DeafLine(), progress_token=Raw(b'"theirs"'))
    for exchange in (None, Exchange(LIBRARY, DeafLine()), wants):
        await connection.request("m", {}, exchange)
    assert channel.on_progress == [None, None, wants.progressed]


async def test_a_call_has_the_deadlines_of_a_call_and_a_request_those_it_is_given():
    channel = FakeChannel({"m": {}})
    limits = Limits(call_idle_timeout_seconds=7, call_hard_timeout_seconds=70)
    connection = connected(channel, limits)
    await connection.forward("m", {}, None)
    await connection.forward("m", {}, Exchange(LIBRARY, DeafLine()))
    await connection.request("m", {}, hard_seconds=3)
    deadlines = [(options["idle_seconds"], options["hard_seconds"]) for options in channel.options]
    assert deadlines == [(7, 70), (7, 70), (0, 3)]


@pytest.mark.parametrize("member", ["requestState", "inputResponses"])
async def test_a_handshake_server_is_not_called_again_with_a_state_that_it_never_gave(member: str):
    channel = FakeChannel({"tools/call": {}})
    connection = connected(channel)
    modern = Caller(version="2026-07-28", modern=True)
    with pytest.raises(RpcError) as caught:
        await connection.forward("tools/call", {"name": "t", member: Raw(b'"x"')}, Exchange(modern, DeafLine()))
    assert caught.value.code == -32602
    assert channel.requests == []
    assert connection.questions.calls == {}


@pytest.mark.parametrize("modern", [False, True])
async def test_tasks_pass_only_between_sides_of_one_era(*, modern: bool):
    for caller_is_modern in (False, True):
        channel = FakeChannel({"tools/call": {}})
        agreement = Agreement(version="", modern=modern)
        connection = Connection(channel, agreement, Slots(1, 1, 1), Limits())
        exchange = Exchange(Caller(version="", modern=caller_is_modern), DeafLine())
        await connection.forward("tools/call", {"name": "t", "task": {"ttl": 1}}, exchange)
        ((_, params),) = channel.requests
        assert ("task" in params) is (modern == caller_is_modern)
        assert params["name"] == "t"


async def test_a_handshake_server_hears_the_level_of_a_request_before_the_request():
    channel = FakeChannel({"tools/call": {}, "logging/setLevel": {}})
    connection = Connection(
        channel, Agreement(version="", modern=False, offers={"logging": {}}), Slots(1, 1, 1), Limits()
    )
    for level in ("debug", "debug", "error"):
        caller = Caller(version="2026-07-28", modern=True, log_level=level)
        await connection.forward("tools/call", {}, Exchange(caller, DeafLine()))
    assert channel.requests == [
        ("logging/setLevel", {"level": "debug"}),
        ("tools/call", {}),
        ("tools/call", {}),
        ("logging/setLevel", {"level": "error"}),
        ("tools/call", {}),
    ]


async def test_a_level_that_a_server_refuses_is_no_harm_to_the_call():
    channel = FakeChannel({"tools/call": {}, "logging/setLevel": ServerRefused("no", rpc_code=-1)})
    connection = Connection(
        channel, Agreement(version="", modern=False, offers={"logging": {}}), Slots(1, 1, 1), Limits()
    )
    caller = Caller(version="2026-07-28", modern=True, log_level="debug")
    assert bytes(await connection.forward("tools/call", {}, Exchange(caller, DeafLine()))) == b"{}"


async def test_a_modern_server_hears_in_each_request_what_its_caller_declares():
    channel = FakeChannel({"tools/call": {}})
    agreement = Agreement(version="", modern=True, envelope={eras.CLIENT_CAPABILITIES: "at the start"})
    connection = Connection(channel, agreement, Slots(1, 1, 1), Limits())
    for capabilities in (b'{"roots":{}}', b"{}"):
        caller = Caller(version="2026-07-28", modern=True, capabilities=Raw(capabilities))
        await connection.forward("tools/call", {}, Exchange(caller, DeafLine()))
    declared = [bytes(params["_meta"][eras.CLIENT_CAPABILITIES]) for _, params in channel.requests]
    assert declared == [b'{"roots":{}}', b"{}"]
