"""Where requests and credentials may go, and where they may not."""

from __future__ import annotations

import asyncio
import json
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Endpoint
from mcp_workbench.errors import ConfigError, InsecureTransport, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.client import HttpClient
from mcp_workbench.servers.http.network_guard import Dialer, is_forbidden, is_loopback
from mcp_workbench.servers.http.status_errors import ServerUnreachable
from tests.peers.rogue_http import rogue
from tests.servers.remote import agreed, call

SECRET = {"Authorization": "Bearer s3cret-token-123"}


# -- addresses


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.1.1",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",  # noqa: S104 -- not bound to
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "fe80::1",
        "ff02::1",
        "fd00:ec2::254",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
    ],
)
def test_addresses_that_are_no_servers_are_forbidden(address: str):
    assert is_forbidden(ip_address(address))


@pytest.mark.parametrize("address", ["127.0.0.1", "10.0.0.1", "192.168.1.1", "93.184.216.34", "::1", "2606:4700::1"])
def test_addresses_of_servers_are_not(address: str):
    assert not is_forbidden(ip_address(address))


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("a.localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("::ffff:127.0.0.1", True),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("10.0.0.1", False),
        ("example.com", False),
    ],
)
def test_it_is_told_what_stays_on_this_machine(host: str, here: bool):  # noqa: FBT001 -- a parameter of the test
    assert is_loopback(host) is here


def resolver(*answers: list[str]) -> tuple[Any, list[str]]:
    """One that gives these answers in turn, the last one for ever; and what it was asked."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        del port
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    return resolve, asked


@pytest.mark.row("E7")
async def test_the_address_that_was_checked_is_the_one_that_is_used():
    """The second answer would lead to the honeypot, but nobody asks a second time."""
    async with rogue() as server, rogue() as honeypot:
        resolve, asked = resolver(["127.0.0.1"], ["169.254.169.254"])
        dial = Dialer("server.test", resolve=resolve)
        stream = await dial.connect_tcp("server.test", server.port, 5)
        await stream.aclose()
        assert asked == ["server.test"]
        assert (server.connections, honeypot.connections) == (1, 0)


@pytest.mark.row("E7")
@pytest.mark.parametrize("answer", ["169.254.169.254", "fe80::1", "0.0.0.0"])  # noqa: S104 -- not bound to
async def test_a_name_that_leads_to_such_an_address_is_not_contacted(answer: str):
    resolve, _ = resolver([answer])
    client = HttpClient(Endpoint(url="http://server.test/mcp"), Limits(), resolve=resolve)
    with pytest.raises(ServerUnreachable) as caught:
        async with client.exchange("POST", {}, b"{}"):
            pass
    assert caught.value.kind == "blocked"
    await client.close()


async def test_of_several_addresses_the_good_ones_are_tried_in_turn():
    async with rogue() as server:
        resolve, _ = resolver(["169.254.169.254", "127.0.0.77", "127.0.0.1"])
        stream = await Dialer("server.test", resolve=resolve).connect_tcp("server.test", server.port, 5)
        await stream.aclose()
        assert server.connections == 1


@pytest.mark.parametrize("literal", ["2130706433", "0x7f000001"])
async def test_a_number_that_is_no_address_is_a_name_like_any_other(literal: str):
    resolve, asked = resolver(["169.254.169.254"])
    with pytest.raises(ServerUnavailable, match="no server's"):
        await Dialer(literal, resolve=resolve).connect_tcp(literal, 80, 5)
    assert asked == [literal]


async def test_an_address_that_takes_no_connection_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch):
    resolve, _ = resolver(["2001:db8::1", "203.0.113.1", "127.0.0.1"])
    dial, tried = Dialer("server.test", resolve=resolve), []

    async def connect(_: object, host: str, *__: object) -> str:
        tried.append(host)
        if host != "127.0.0.1":
            await asyncio.Event().wait()
        return "connected"

    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)
    assert await dial.connect_tcp("server.test", 80, 1.0)
    assert tried == ["2001:db8::1", "203.0.113.1", "127.0.0.1"]


async def test_another_host_that_is_written_as_an_address_is_checked_too():
    """The server's own url may name any address; what it refers to may not."""
    with pytest.raises(ServerUnavailable, match="no server's"):
        await Dialer("server.test").connect_tcp("169.254.169.254", 80, 5)


async def test_credentials_for_localhost_do_not_leave_the_machine_though_its_name_leads_elsewhere():
    resolve, _ = resolver(["10.1.2.3"])
    endpoint = Endpoint(url="http://localhost:9/mcp", headers=SECRET)
    client = HttpClient(endpoint, Limits(), resolve=resolve)
    with pytest.raises(ServerUnavailable) as caught:
        async with client.exchange("POST", {}, b"{}"):
            pass
    assert caught.value.kind == "blocked"
    await client.close()


async def test_a_name_that_nobody_knows_is_told_so():
    async def resolve(host: str, port: int) -> list[str]:
        del host, port
        raise OSError(-2, "Name or service not known")

    client = HttpClient(Endpoint(url="https://nowhere.test/mcp"), Limits(), resolve=resolve)
    with pytest.raises(ServerUnreachable) as caught:
        async with client.exchange("POST", {}, b"{}"):
            pass
    assert caught.value.kind == "dns"
    await client.close()


async def test_a_name_server_that_is_silent_is_waited_for_as_long_as_a_connection():
    async def resolve(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return [host, str(port)]

    client = HttpClient(Endpoint(url="https://slow.test/mcp"), Limits(connect_seconds=0.1), resolve=resolve)
    with pytest.raises(ServerUnavailable) as caught:
        async with client.exchange("POST", {}, b"{}"):
            pass
    assert caught.value.kind == "timeout"
    await client.close()


# -- redirects


async def test_a_redirect_within_the_origin_is_followed_with_credentials():
    async with rogue() as server, agreed(server.url("moved"), endpoint={"headers": SECRET}) as (channel, agreement):
        await call(channel, agreement)
        assert [one.path for one in server.got("tools/call")] == ["/moved", "/ok"]
        assert {one.headers["authorization"] for one in server.requests} == {"Bearer s3cret-token-123"}


@pytest.mark.row("E7")
@pytest.mark.parametrize("mode", ["moved_away", "moved_302"])
async def test_a_redirect_elsewhere_or_to_another_method_is_not_followed(mode: str):
    async with rogue() as server, rogue() as honeypot:
        server.elsewhere = honeypot.url("ok")
        async with agreed(server.url(mode), endpoint={"headers": SECRET}) as (channel, agreement):
            with pytest.raises(ServerUnavailable) as caught:
                await call(channel, agreement)
        assert caught.value.kind == "redirect"
        assert not honeypot.connections
        assert len(server.got("tools/call")) == 1


@pytest.mark.row("E7")
@pytest.mark.parametrize(
    "where", ["http://169.254.169.254/latest", "https://127.0.0.1:{port}/ok", "//user@127.0.0.1:{port}/ok"]
)
async def test_a_redirect_to_another_scheme_or_to_metadata_or_with_a_name_is_not_followed(where: str):
    async with rogue() as server:
        server.elsewhere = where.format(port=server.port)
        async with agreed(server.url("moved_away")) as (channel, agreement):
            with pytest.raises(ServerUnavailable) as caught:
                await call(channel, agreement)
        assert caught.value.kind == "redirect"


# -- credentials on open wires


@pytest.mark.row("E15")
@pytest.mark.parametrize("url", ["http://example.com/mcp", "http://10.0.0.1/mcp", "http://127.0.0.1.example.com/"])
async def test_credentials_are_not_sent_over_http_to_another_machine(url: str):
    with pytest.raises(InsecureTransport) as caught:
        HttpClient(Endpoint(url=url, headers=SECRET), Limits())
    assert "allowInsecure" in caught.value.hint
    assert "s3cret" not in str(caught.value)


@pytest.mark.row("E15")
@pytest.mark.parametrize(
    "endpoint",
    [
        Endpoint(url="http://example.com/mcp", headers=SECRET, allow_insecure=True),
        Endpoint(url="http://example.com/mcp"),
        Endpoint(url="https://example.com/mcp", headers=SECRET),
        Endpoint(url="http://localhost/mcp", headers=SECRET),
        Endpoint(url="http://[::1]/mcp", headers=SECRET),
    ],
)
async def test_they_are_where_that_is_allowed_or_nobody_reads_them(endpoint: Endpoint):
    await HttpClient(endpoint, Limits()).close()


def configured(folder: Path, **entry: Any) -> Endpoint:
    path = folder / "workbench-config.json"
    path.write_text(json.dumps({"mcpServers": {"far": entry}}), encoding="utf-8")
    (server,) = load_config(path).servers()
    assert isinstance(server.target, Endpoint)
    return server.target


@pytest.mark.row("E15")
def test_the_configuration_says_whether_an_open_wire_will_do(tmp_path: Path):
    assert configured(tmp_path, url="http://far.test", allowInsecure=True).allow_insecure
    assert not configured(tmp_path, url="http://far.test").allow_insecure


@pytest.mark.row("E15")
@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://far.test/mcp", True),
        ("http://127.0.0.1.far.test", True),
        ("http://localhost.far.test", True),
        ("http://localhost:80/mcp", False),
        ("http://127.0.0.1", False),
        ("http://[::1]:1/", False),
        ("https://far.test", False),
    ],
)
def test_a_check_warns_of_credentials_on_an_open_wire(tmp_path: Path, url: str, warned: bool):  # noqa: FBT001 -- same
    path = tmp_path / "workbench-config.json"
    path.write_text(json.dumps({"mcpServers": {"far": {"url": url, "headers": SECRET}}}), encoding="utf-8")
    warnings = [warning.message for warning in load_config(path).warnings]
    assert any("allowInsecure" in message for message in warnings) is warned


@pytest.mark.row("E15")
def test_a_name_and_a_password_in_an_address_are_refused_without_being_repeated(tmp_path: Path):
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, url="https://me:hunter22@far.test/mcp")
    assert "headers" in caught.value.hint
    assert "hunter22" not in str(caught.value)


@pytest.mark.parametrize("name", ["Host", "content-length", "Mcp-Session-Id", "MCP-Protocol-Version"])
def test_headers_that_are_ours_to_set_are_refused(tmp_path: Path, name: str):
    with pytest.raises(ConfigError, match="set by the workbench"):
        configured(tmp_path, url="https://far.test", headers={name: "x"})


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch):
    async with rogue() as server, rogue() as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with agreed(server.url("ok")) as (channel, agreement):
            await call(channel, agreement)
        assert not proxy.connections
