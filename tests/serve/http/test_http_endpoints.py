"""What is where: endpoints and the names in them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import pytest

from mcp_workbench.errors import ConfigError
from mcp_workbench.serve.http.address import Address, read_address
from tests.serve.http.serving import Handshake, greeting, modern, post_modern, rpc, served
from tests.support.configs import rogue, starts, write_config

NAMES = ("dev", "with space", "a/b", "a%2Fb", "ümläut", "a?b#c", "+", "日本")


@pytest.mark.parametrize("name", NAMES)
async def test_a_toolbox_and_a_server_of_any_name_have_an_endpoint(tmp_path: Path, name: str):
    async with served(write_config(tmp_path, {name: {name: rogue("ok", "mine")}})) as running, running.client() as http:
        part = quote(name, safe="")
        for path in (f"/mcp/{part}", f"/mcp/{part}/{part}", f"/mcp/{part}/"):
            listed = (await post_modern(http, modern("tools/list"), path)).json()["result"]["tools"]
            assert [tool["name"] for tool in listed] == ["mine"]
            client = await Handshake.begin(http, path)
            assert [tool["name"] for tool in (await client.request("tools/list"))["result"]["tools"]] == ["mine"]


UNKNOWN = {
    "/mcp/dec": "Toolbox 'dec' not found\nDid you mean 'dev'?",
    "/mcp/DEV": "Toolbox 'DEV' not found\nDid you mean 'dev'?",
    "/mcp/dev/fss": "Server 'fss' not found in toolbox 'dev'\nDid you mean 'fs'?",
    "/mcp/x/y": "Toolbox 'x' not found\nAvailable toolboxes: 'dev'",
    "/mcp/dev/fs/echo": "Not found\nEndpoints: /mcp, /mcp/{toolbox}, /mcp/{toolbox}/{server}",
    "/": "Not found\nEndpoints: /mcp, /mcp/{toolbox}, /mcp/{toolbox}/{server}",
    "/mcp%2Fdev": "Not found\nEndpoints: /mcp, /mcp/{toolbox}, /mcp/{toolbox}/{server}",
    "/mcp/%FF": "Not found\nEndpoints: /mcp, /mcp/{toolbox}, /mcp/{toolbox}/{server}",
    "/mcp//fs": "Toolbox '' not found\nAvailable toolboxes: 'dev'",
}


@pytest.mark.parametrize("path", UNKNOWN)
async def test_an_endpoint_that_there_is_not_names_the_nearest(tmp_path: Path, path: str):
    log = tmp_path / "log"
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as running, running.client() as http:
        for answer in (
            await http.post(path, json=greeting()),
            await post_modern(http, modern("tools/list", {}, 0), path),
        ):
            assert answer.status_code == 404
            assert answer.json()["id"] == 0
            assert answer.json()["error"]["message"] == UNKNOWN[path]
    assert starts(log) == []


async def test_the_endpoints_of_one_workbench_do_not_disturb_each_other(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("ok", "one")}, "ops": {"fs": rogue("ok", "two")}})
    async with served(config) as running, running.client() as http:
        seen = {}
        for path in ("/mcp", "/mcp/dev", "/mcp/ops", "/mcp/dev/fs"):
            client = await Handshake.begin(http, path)
            seen[path] = [tool["name"] for tool in (await client.request("tools/list"))["result"]["tools"]]
        assert seen == {
            "/mcp": ["open_toolbox", "use_tool"],
            "/mcp/dev": ["one"],
            "/mcp/ops": ["two"],
            "/mcp/dev/fs": ["one"],
        }


async def test_dynamic_mode_is_at_the_root(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("ok", "one")}}, toolMode="dynamic")
    async with served(config) as running, running.client() as http:
        listed = (await post_modern(http, modern("tools/list"))).json()["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["open_toolbox", "use_tool", "dev__fs__one"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD", "TRACE", "OPTIONS"])
async def test_other_methods_are_not_allowed(tmp_path: Path, method: str):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        response = await http.request(method, "/mcp")
        assert response.status_code == 405
        assert response.headers["allow"] == "GET, POST, DELETE"


@pytest.mark.parametrize("accept", ["", "application/json", "text/html", "text/event-stream"])
async def test_a_client_that_reads_no_streams_is_told(tmp_path: Path, accept: str):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        assert (await client.post(rpc("tools/list"), accept=accept)).status_code == 406


ADDRESSES = {
    "": Address("127.0.0.1", 8300),
    "9000": Address("127.0.0.1", 9000),
    ":9000": Address("127.0.0.1", 9000),
    "localhost": Address("localhost", 8300),
    "localhost:9000": Address("localhost", 9000),
    "0.0.0.0:9000": Address("0.0.0.0", 9000),  # noqa: S104 -- an example
    "[::1]": Address("::1", 8300),
    "[::1]:9000": Address("::1", 9000),
}


@pytest.mark.parametrize("text", ADDRESSES)
def test_an_address_is_read_as_it_is_meant(text: str):
    assert read_address(text) == ADDRESSES[text]


@pytest.mark.parametrize(
    "text", ["::1", "host:port", "host:70000", "[::1", "[::1]x", "http://host", "a b:1", "host:-1"]
)
def test_an_address_that_is_none_is_refused(text: str):
    with pytest.raises(ConfigError):
        read_address(text)
