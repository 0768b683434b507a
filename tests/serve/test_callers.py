"""Who is calling: the first request decides the era of a connection, and each era has its rules."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.limits import DEFAULTS
from mcp_workbench.serve.callers import Callers
from mcp_workbench.surfaces.server_info import EVERYTHING, View
from mcp_workbench.wire.caller import CAPABILITIES_BYTES, Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.serve.fakes import MODERN, PREFIX, Client, envelope

HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


async def refused(client: Client, method: str, params: dict[str, Any] | None = None) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await client.send(method, params)
    return caught.value


# -- handshake


@pytest.mark.parametrize("version", HANDSHAKE)
async def test_a_version_of_the_handshake_era_is_agreed_on(version: str):
    assert (await Client().initialize(version))["protocolVersion"] == version


@pytest.mark.parametrize("version", ["1.0", "", "2024-10-07", "2099-01-01", MODERN])
async def test_for_any_other_version_the_newest_handshake_version_is_offered(version: str):
    assert (await Client().initialize(version))["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("params", [{}, {"protocolVersion": None}, {"protocolVersion": 5}, {"protocolVersion": []}])
async def test_initialize_without_a_version_is_invalid_and_can_be_repeated(params: dict[str, Any]):
    client = Client()
    assert (await refused(client, "initialize", params)).code == -32602
    await client.initialize()


async def test_capabilities_must_be_an_object():
    params = {"protocolVersion": "2025-11-25", "capabilities": []}
    assert (await refused(Client(), "initialize", params)).code == -32602


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "server/discover", "nonsense"])
async def test_nothing_but_ping_is_answered_before_initialize(method: str):
    client = Client()
    assert (await refused(client, method)).code == -32600
    assert await client.send("ping") == {}
    assert client.surface.exchanges == []
    await client.initialize()
    assert await client.send("ping") == {}


async def test_a_second_initialize_is_refused_and_the_first_one_stands():
    client = Client()
    await client.initialize("2024-11-05")
    assert (await refused(client, "initialize", {"protocolVersion": "2025-11-25"})).code == -32600
    assert await client.send("tools/list") == {"tools": [{"name": "handshake"}]}


async def test_an_envelope_on_a_handshake_connection_is_refused():
    client = Client()
    await client.initialize()
    assert (await refused(client, "tools/list", {"_meta": envelope()})).code == -32600
    assert await client.send("tools/list") == {"tools": [{"name": "handshake"}]}


async def test_initialize_with_an_envelope_is_a_handshake():
    client = Client()
    await client.send("initialize", {"protocolVersion": "2025-11-25", "_meta": envelope()})
    assert await client.send("tools/list") == {"tools": [{"name": "handshake"}]}


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({}, False),
        ({"roots": {}}, True),
        ({"sampling": {}}, True),
        ({"elicitation": {}}, True),
        ({"experimental": {}}, False),
    ],
)
async def test_a_client_can_be_asked_if_it_declared_what_for(capabilities: dict[str, Any], *, expected: bool):
    handshake, modern = Client(), Client()
    await handshake.initialize(**capabilities)
    await handshake.send("tools/call", {"name": "echo"})
    await modern.modern("tools/call", {"name": "echo"}, **capabilities)
    for client in (handshake, modern):
        assert bool(client.surface.exchanges[0].caller.answers) is expected


# -- modern


@pytest.mark.parametrize("key", ["protocolVersion", "clientCapabilities"])
async def test_a_missing_key_of_the_envelope_is_named(key: str):
    client = Client()
    await client.modern("tools/list")
    meta = {name: value for name, value in envelope().items() if name != f"{PREFIX}{key}"}
    error = await refused(client, "tools/list", {"_meta": meta})
    assert error.code == -32602
    assert f"{PREFIX}{key}" in error.message


@pytest.mark.parametrize("params", [{}, {"_meta": {}}, {"_meta": None}, {"_meta": []}, {"_meta": "x"}])
async def test_a_request_without_an_envelope_is_invalid_on_a_modern_connection(params: dict[str, Any]):
    client = Client()
    await client.modern("tools/list")
    assert (await refused(client, "tools/list", params)).code == -32602


@pytest.mark.parametrize("version", ["2025-11-25", "2099-01-01", ""])
async def test_another_version_is_unsupported_and_the_supported_ones_are_told(version: str):
    error = await refused(Client(), "server/discover", {"_meta": envelope(version)})
    assert error.code == -32022
    assert error.data == {"supported": [MODERN], "requested": version}


@pytest.mark.parametrize("version", [None, 5, [], {}])
async def test_a_version_that_is_no_string_is_invalid(version: object):
    assert (await refused(Client(), "server/discover", {"_meta": envelope(version)})).code == -32602


@pytest.mark.parametrize("capabilities", [None, [], "x"])
async def test_capabilities_of_the_envelope_must_be_an_object(capabilities: object):
    meta = envelope() | {f"{PREFIX}clientCapabilities": capabilities}
    assert (await refused(Client(), "server/discover", {"_meta": meta})).code == -32602


async def test_initialize_on_a_modern_connection_is_an_unsupported_version():
    client = Client()
    await client.modern("tools/list")
    error = await refused(client, "initialize", {"protocolVersion": "2025-11-25"})
    assert error.code == -32022
    assert error.data == {"supported": [MODERN], "requested": "2025-11-25"}


async def test_after_a_wrong_version_the_right_one_is_accepted():
    client = Client()
    await refused(client, "server/discover", {"_meta": envelope("2099-01-01")})
    assert (await client.modern("server/discover"))["supportedVersions"] == [MODERN]


async def test_the_log_level_of_a_request_is_its_callers():
    client = Client()
    await client.modern("tools/call", {"name": "echo", "_meta": {f"{PREFIX}logLevel": "debug"}})
    await client.modern("tools/call", {"name": "echo"})
    assert [exchange.caller.log_level for exchange in client.surface.exchanges] == ["debug", None]


@pytest.mark.parametrize(
    "method", ["ping", "resources/unknown", "nonsense", "logging/setLevel", "", "tools/list\u0000"]
)
async def test_an_unknown_method_is_not_found(method: str):
    client = Client()
    await client.modern("tools/list")
    assert (await refused(client, method, {"_meta": envelope()})).code == -32601


@pytest.mark.parametrize(
    "method", ["server/discover", "subscriptions/listen", "tasks/update", "nonsense", "resources/unknown"]
)
async def test_methods_of_the_other_era_are_not_found_in_the_handshake_era(method: str):
    client = Client()
    await client.initialize()
    assert (await refused(client, method)).code == -32601


# -- what is declared


JSON = st.recursive(st.none() | st.booleans() | st.integers(-9, 9), lambda inner: st.lists(inner, max_size=2))
TASKS = f"{PREFIX}tasks"
TOOLBOX, SERVER = View("dev"), View("dev", "a")
DECLARED = {"roots": {}, "tasks": {"requests": {}}, "extensions": {TASKS: {}, "vendor/x": {}}}


def calling(
    capabilities: bytes | Any, *, modern: bool, view: View = EVERYTHING, callers: Callers | None = None
) -> Caller:
    """Who a request with these capabilities is of."""
    callers = callers or Callers("client", view)
    raw = Raw(capabilities if isinstance(capabilities, bytes) else json.dumps(capabilities).encode())
    if not modern:
        return callers.of("initialize", {"protocolVersion": Raw(b'"2025-11-25"'), "capabilities": raw}, {})
    version = Raw(b'"%s"' % MODERN.encode())
    return callers.of("tools/list", {}, {f"{PREFIX}protocolVersion": version, f"{PREFIX}clientCapabilities": raw})


def padded(size: int) -> bytes:
    return b'{"x":"%s"}' % (b"x" * (size - len(b'{"x":""}')))


@pytest.mark.parametrize("modern", [False, True])
def test_capabilities_have_a_largest_size(*, modern: bool):
    assert calling(padded(CAPABILITIES_BYTES), modern=modern)
    with pytest.raises(RpcError) as caught:
        calling(padded(CAPABILITIES_BYTES + 1), modern=modern)
    assert caught.value.code == -32602


@pytest.mark.parametrize(
    ("view", "modern", "left"),
    [
        (EVERYTHING, False, {"extensions": {"vendor/x": {}}}),
        (EVERYTHING, True, {"extensions": {"vendor/x": {}}}),
        (TOOLBOX, False, {"extensions": {"vendor/x": {}}}),
        (TOOLBOX, True, {"extensions": {TASKS: {}, "vendor/x": {}}}),
        (SERVER, False, {"tasks": {"requests": {}}, "extensions": {"vendor/x": {}}}),
        (SERVER, True, {"tasks": {"requests": {}}, "extensions": {TASKS: {}, "vendor/x": {}}}),
    ],
)
def test_tasks_are_declared_to_servers_only_where_they_can_pass(view: View, left: dict[str, Any], *, modern: bool):
    caller = calling(DECLARED, modern=modern, view=view)
    assert json.loads(bytes(caller.capabilities)) == {"roots": {}, **left}
    assert json.loads(caller.key[2]) == {"roots": {}, **left}
    assert caller.answers == {"roots/list"}


def test_capabilities_that_need_no_change_travel_as_they_are_written():
    written = b'{ "roots" : { "listChanged":true },"x":1.50 }'
    assert bytes(calling(written, modern=True).capabilities) == written


@given(st.dictionaries(st.sampled_from(["roots", "sampling", "x", "y"]), JSON))
def test_the_same_capabilities_are_one_place_however_they_are_written(capabilities: dict[str, Any]):
    callers = Callers("client")
    turned = json.dumps(dict(reversed(capabilities.items())), indent=2).encode()
    keys = {calling(written, modern=True, callers=callers).key for written in (capabilities, turned)}
    assert len(keys) == 1
    more = {**capabilities, "another": {}}
    assert calling(more, modern=True, callers=callers).key not in keys


def test_each_client_and_each_era_has_places_of_its_own():
    keys = {calling({}, modern=modern, callers=Callers(name)).key for modern in (False, True) for name in ("a", "b")}
    assert len(keys) == 4


def test_a_client_that_declares_something_else_each_time_makes_nothing_grow():
    callers = Callers("client")

    def capabilities(number: int) -> Raw:
        return calling({"x": number}, modern=True, callers=callers).capabilities

    declared = [capabilities(number) for number in range(200)]
    assert [json.loads(bytes(one)) for one in declared] == [{"x": number} for number in range(200)]
    remembered = itertools.takewhile(lambda number: capabilities(number) is declared[number], reversed(range(200)))
    assert 0 < len(list(remembered)) <= DEFAULTS.places


def test_after_a_handshake_that_failed_the_client_may_begin_again():
    callers = Callers("client")
    calling({}, modern=False, callers=callers)
    callers.forget()
    assert calling({"roots": {}}, modern=False, callers=callers).answers == {"roots/list"}
    callers.forget()
    assert calling({}, modern=True, callers=callers).modern
