"""Which protocol a server speaks: both can be asked, the first good answer wins."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import Fault, NegotiationFailed, ServerExited, ServerRefused, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import HANDSHAKE_FIRST, HANDSHAKE_ONLY, MODERN_FIRST, Agreement, negotiate
from mcp_workbench.wire.caller import LIBRARY, Caller
from tests.servers.fakes import FakeChannel
from tests.support.procs import wait_until
from tests.wire.pair import settle

MODERN = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
DISCOVERED = {"supportedVersions": [MODERN], "capabilities": {"tools": {"listChanged": True}}}
INITIALIZED = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
NOT_FOUND = ServerRefused("Method not found", rpc_code=-32601)
UNSUPPORTED = ServerRefused("Unsupported protocol version", rpc_code=-32022)
IMPATIENT = Limits(probe_patience_seconds=0.01)
PATIENT = Limits(probe_patience_seconds=60)


def caller(declared: bytes = b"{}", version: str = "2025-11-25") -> Caller:
    return Caller(version=version, modern=version == MODERN, capabilities=Raw(declared))


async def agreed(
    answers: dict[str, Any],
    limits: Limits = PATIENT,
    *,
    order: tuple[bool, ...] = MODERN_FIRST,
    client: Caller = LIBRARY,
    is_remote: bool = False,
) -> tuple[Agreement, FakeChannel]:
    channel = FakeChannel(answers)
    return await asyncio.wait_for(negotiate(channel, limits, client, order, is_remote=is_remote), 5), channel


async def test_a_modern_server_answers_the_probe_and_is_not_initialized():
    agreement, channel = await agreed({"server/discover": DISCOVERED})
    assert (agreement.version, agreement.modern) == (MODERN, True)
    assert channel.methods == ["server/discover"]
    assert channel.notified == []
    meta = channel.requests[0][1]["_meta"]
    assert meta[f"{PREFIX}protocolVersion"] == MODERN
    assert set(meta) == {f"{PREFIX}{key}" for key in ("protocolVersion", "clientInfo", "clientCapabilities")}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_server_that_refuses_the_probe_is_initialized_and_told_so(version: str):
    answers = {"server/discover": NOT_FOUND, "initialize": INITIALIZED | {"protocolVersion": version}}
    agreement, channel = await agreed(answers)
    assert (agreement.version, agreement.modern) == (version, False)
    assert channel.methods == ["server/discover", "initialize"]
    assert channel.requests[1][1]["protocolVersion"] == "2025-11-25"
    assert channel.notified == ["notifications/initialized"]


@pytest.mark.parametrize(
    "probe",
    [
        UNSUPPORTED,
        ServerRefused("", rpc_code=0),
        {},
        [],
        None,
        b'"x"',
        {"supportedVersions": []},
        {"supportedVersions": "x"},
    ],
)
async def test_any_other_answer_to_the_probe_means_the_handshake(probe: Any):
    agreement, _ = await agreed({"server/discover": probe, "initialize": INITIALIZED})
    assert not agreement.modern


async def test_a_server_known_to_be_of_the_handshake_era_is_not_probed():
    _, channel = await agreed({"initialize": INITIALIZED}, order=HANDSHAKE_ONLY)
    assert channel.methods == ["initialize"]


# -- a client of the handshake era, in front of a server that speaks both


async def test_with_the_handshake_first_a_server_that_speaks_both_is_not_probed():
    answers = {"server/discover": DISCOVERED, "initialize": INITIALIZED}
    agreement, channel = await agreed(answers, order=HANDSHAKE_FIRST)
    assert not agreement.modern
    assert channel.methods == ["initialize"]
    assert channel.notified == ["notifications/initialized"]


@pytest.mark.parametrize("refusal", [NOT_FOUND, UNSUPPORTED, {}, ServerUnavailable("404", kind="status")])
async def test_with_the_handshake_first_a_server_that_does_not_know_it_is_probed(refusal: Any):
    answers = {"server/discover": DISCOVERED, "initialize": refusal}
    agreement, channel = await agreed(answers, order=HANDSHAKE_FIRST)
    assert agreement.modern
    assert channel.methods == ["initialize", "server/discover"]
    assert channel.notified == []


async def test_a_server_that_is_slow_to_answer_the_handshake_is_asked_for_nothing_else():
    channel = FakeChannel()
    task = asyncio.ensure_future(negotiate(channel, IMPATIENT, LIBRARY, HANDSHAKE_FIRST, is_remote=True))
    await asyncio.wait((task,), timeout=IMPATIENT.probe_patience_seconds * 10)
    assert channel.methods == ["initialize"]
    channel.answer("initialize", INITIALIZED)
    assert not (await asyncio.wait_for(task, 5)).modern


async def test_with_the_handshake_first_a_connection_that_ended_is_not_asked_again():
    channel = FakeChannel({"initialize": ServerExited("it went"), "server/discover": DISCOVERED})
    with pytest.raises(ServerExited):
        await negotiate(channel, PATIENT, LIBRARY, HANDSHAKE_FIRST)
    assert channel.methods == ["initialize"]


async def test_with_the_handshake_first_a_server_that_refuses_both_is_told_by_the_handshake():
    refused = ServerRefused("not today", rpc_code=-1)
    with pytest.raises(NegotiationFailed, match="not today"):
        await agreed({"initialize": refused, "server/discover": NOT_FOUND}, order=HANDSHAKE_FIRST)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
async def test_a_server_is_initialized_with_the_version_of_its_client_and_may_answer_with_another(version: str):
    """It answers 2025-06-18 to all of them."""
    agreement, channel = await agreed(
        {"initialize": INITIALIZED}, order=HANDSHAKE_FIRST, client=caller(version=version)
    )
    assert channel.requests[0][1]["protocolVersion"] == version
    assert agreement.version == "2025-06-18"


@pytest.mark.parametrize("client", [LIBRARY, caller(version=MODERN), caller(version="2020-01-01")])
async def test_a_client_without_a_handshake_version_that_we_know_has_the_newest_one_asked_for(client: Caller):
    _, channel = await agreed({"initialize": INITIALIZED}, order=HANDSHAKE_ONLY, client=client)
    assert channel.requests[0][1]["protocolVersion"] == "2025-11-25"


# -- silence


async def test_after_a_silent_probe_initialize_is_sent_too():
    agreement, channel = await agreed({"initialize": INITIALIZED}, IMPATIENT)
    assert not agreement.modern
    assert channel.methods == ["server/discover", "initialize"]
    assert channel.waiting["server/discover"].cancelled()


async def test_after_a_silent_handshake_a_local_server_is_probed_too():
    agreement, channel = await agreed({"server/discover": DISCOVERED}, IMPATIENT, order=HANDSHAKE_FIRST)
    assert agreement.modern
    assert channel.methods == ["initialize", "server/discover"]
    assert channel.waiting["initialize"].cancelled()
    assert channel.notified == []


async def test_a_slow_server_that_speaks_both_keeps_to_the_era_of_its_client():
    for _ in range(20):
        channel, task = await both_asked(HANDSHAKE_FIRST)
        channel.answer("server/discover", DISCOVERED)
        channel.answer("initialize", INITIALIZED)
        assert not (await asyncio.wait_for(task, 5)).modern


async def test_a_slow_server_that_agrees_to_the_handshake_is_not_used_before_it_has_coped_with_the_probe():
    """Some exit on a request that they do not know, and would do so during the first call."""
    channel = FakeChannel()
    task = asyncio.ensure_future(negotiate(channel, Limits(probe_patience_seconds=0.2), LIBRARY, HANDSHAKE_FIRST))
    await wait_until(lambda: len(channel.waiting) == 2)
    channel.answer("initialize", INITIALIZED)
    await settle()
    assert not task.done()
    channel.answer("server/discover", ServerExited("unexpected message"))
    assert not (await asyncio.wait_for(task, 5)).modern
    assert channel.ended.done()


async def test_within_its_patience_nothing_but_the_probe_is_sent():
    channel = FakeChannel()
    task = asyncio.ensure_future(negotiate(channel, PATIENT, LIBRARY, MODERN_FIRST))
    await settle()
    assert channel.methods == ["server/discover"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await settle()
    assert channel.waiting["server/discover"].cancelled()


async def both_asked(order: tuple[bool, ...] = MODERN_FIRST) -> tuple[FakeChannel, asyncio.Task[Agreement]]:
    """A server that answers nothing until both questions are there, as one that starts slowly."""
    channel = FakeChannel()
    task = asyncio.ensure_future(negotiate(channel, IMPATIENT, LIBRARY, order))
    await wait_until(lambda: len(channel.waiting) == 2)
    return channel, task


async def test_a_late_answer_to_the_probe_wins_if_it_comes_first():
    channel, task = await both_asked()
    channel.answer("server/discover", DISCOVERED)
    assert (await asyncio.wait_for(task, 5)).modern
    await settle()
    assert channel.waiting["initialize"].cancelled()
    assert channel.notified == []


async def test_a_late_refusal_of_the_probe_leaves_the_handshake_its_time():
    channel, task = await both_asked()
    channel.answer("server/discover", NOT_FOUND)
    await settle()
    assert not task.done()
    channel.answer("initialize", INITIALIZED)
    assert not (await asyncio.wait_for(task, 5)).modern


async def test_a_refusal_and_a_good_answer_in_the_same_moment_are_an_agreement():
    """A handshake server that starts slowly reads both questions at once and answers both at once."""
    for _ in range(20):
        channel, task = await both_asked()
        channel.answer("server/discover", NOT_FOUND)
        channel.answer("initialize", INITIALIZED)
        assert not (await asyncio.wait_for(task, 5)).modern


async def test_a_good_probe_and_a_refused_handshake_in_the_same_moment_are_an_agreement():
    for _ in range(20):
        channel, task = await both_asked()
        channel.answer("server/discover", DISCOVERED)
        channel.answer("initialize", UNSUPPORTED)
        assert (await asyncio.wait_for(task, 5)).modern


async def test_two_good_answers_in_the_same_moment_are_one_agreement():
    channel, task = await both_asked()
    channel.answer("server/discover", DISCOVERED)
    channel.answer("initialize", INITIALIZED)
    assert (await asyncio.wait_for(task, 5)).version in {MODERN, "2025-06-18"}


async def test_nothing_is_left_unheard_when_both_answer_at_once(caplog: pytest.LogCaptureFixture):
    for _ in range(10):
        channel, task = await both_asked()
        channel.answer("server/discover", NOT_FOUND)
        channel.answer("initialize", INITIALIZED)
        await asyncio.gather(task, return_exceptions=True)
        del channel, task
    await settle()
    assert "never retrieved" not in caplog.text


async def test_if_both_are_refused_the_reason_is_told():
    channel, task = await both_asked()
    channel.answer("server/discover", NOT_FOUND)
    await settle()
    channel.answer("initialize", ServerRefused("go away\x1b[0m", rpc_code=-1))
    with pytest.raises(NegotiationFailed, match=r"refused to initialize: go away\\x1b"):
        await asyncio.wait_for(task, 5)


@pytest.mark.parametrize(
    "answer", [{}, [], None, b'"x"', {"protocolVersion": 5}, {"protocolVersion": "1.0"}, {"protocolVersion": MODERN}]
)
async def test_garbage_for_an_answer_to_initialize_is_no_agreement(answer: Any):
    with pytest.raises(NegotiationFailed):
        await agreed({"server/discover": NOT_FOUND, "initialize": answer})


@pytest.mark.parametrize(
    "answers",
    [{"server/discover": ServerExited("gone")}, {"server/discover": NOT_FOUND, "initialize": ServerExited("gone")}],
)
async def test_the_end_of_the_connection_is_told_as_it_is(answers: dict[str, Fault]):
    with pytest.raises(ServerExited):
        await agreed(answers)


async def test_neither_question_may_be_cancelled_on_the_wire():
    _, channel = await agreed({"server/discover": NOT_FOUND, "initialize": INITIALIZED})
    assert [options["cancellable"] for options in channel.options] == [False, False]


async def test_requests_to_a_modern_server_carry_the_envelope_and_others_nothing():
    params = {"name": "t", "_meta": {"trace": 1, f"{PREFIX}protocolVersion": "forged"}}
    channel, slots = FakeChannel({"tools/call": {}}), Slots(1, 1, 1)
    handshake = Connection(channel, Agreement(version="2025-11-25", modern=False), slots, Limits())
    await handshake.request("tools/call", params)
    assert channel.requests == [("tools/call", params)]
    modern, _ = await agreed({"server/discover": DISCOVERED}, client=caller(b'{"elicitation":{"form":{}}}'))
    await Connection(channel, modern, slots, Limits()).request("tools/call", params)
    meta = channel.requests[-1][1]["_meta"]
    assert meta["trace"] == 1
    assert meta[f"{PREFIX}protocolVersion"] == MODERN
    assert bytes(meta[f"{PREFIX}clientCapabilities"]) == b'{"elicitation":{"form":{}}}'
    assert meta[f"{PREFIX}clientInfo"]["name"] == "mcp-workbench"
    assert modern.stamp().keys() == meta.keys() - {"trace"}
    assert modern.stamp("debug").keys() - meta.keys() == {f"{PREFIX}logLevel"}


@pytest.mark.parametrize(
    ("capabilities", "declared"),
    [
        (b'{"tools":{"listChanged":true}}', True),
        (b'{"tools":{"listChanged":1}}', False),
        (b'{"tools":{}}', False),
        (b'{"tools":[]}', False),
        (b"[]", False),
        (b"null", False),
        (b'{"tools":{"listChanged":true},"x":1e400}', False),
    ],
)
async def test_a_capability_is_declared_or_not_whatever_the_server_sent(capabilities: bytes, *, declared: bool):
    discovered = b'{"supportedVersions":["%s"],"capabilities":%s}' % (MODERN.encode(), capabilities)
    initialized = b'{"protocolVersion":"2025-06-18","capabilities":%s}' % capabilities
    modern, _ = await agreed({"server/discover": discovered})
    handshake, _ = await agreed({"server/discover": NOT_FOUND, "initialize": initialized})
    assert (modern.modern, handshake.modern) == (True, False)
    for agreement in (modern, handshake):
        assert agreement.declares("tools", "listChanged") is declared


async def test_what_the_client_declared_is_declared_to_the_server_in_either_era():
    client = caller(b'{"sampling":{},"x":1.00}')
    _, modern = await agreed({"server/discover": DISCOVERED}, client=client)
    assert modern.requests[0][1]["_meta"][f"{PREFIX}clientCapabilities"] is client.capabilities
    _, handshake = await agreed({"initialize": INITIALIZED}, order=HANDSHAKE_ONLY, client=client)
    assert handshake.requests[0][1]["capabilities"] is client.capabilities


async def test_the_whole_first_answer_is_kept_in_either_era():
    modern, _ = await agreed({"server/discover": DISCOVERED | {"instructions": "how to"}})
    assert json.loads(bytes(modern.hello)) == DISCOVERED | {"instructions": "how to"}
    handshake, _ = await agreed({"server/discover": NOT_FOUND, "initialize": INITIALIZED})
    assert json.loads(bytes(handshake.hello)) == INITIALIZED
    assert (modern.offers, handshake.offers) == ({"tools": {"listChanged": True}}, {"tools": {}})


def test_an_extension_without_a_prefix_does_not_pass_for_a_capability():
    offers = {"tools": {}, "extensions": {"vendor/x": {}, "prompts": {}}, "experimental": {"resources": {}}}
    assert Agreement(version="2025-11-25", modern=False, offers=offers).features == {
        "tools",
        "extensions",
        "experimental",
        "vendor/x",
    }
