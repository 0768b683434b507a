"""Servers that speak both eras do for a handshake client behind the workbench what they do for it directly."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client, StdioServerParameters, types

from tests.support.configs import Server, received, rogue, starts, write_config
from tests.support.procs import poll_until, wait_until
from tests.support.remote import sdk_over_http
from tests.support.warm import Warm, warm_servers
from tests.support.wire import environment, lasting, serving

Surface = Literal["default", "dynamic", "toolbox", "server"]
VIEWS: dict[Surface, list[str]] = {
    "default": [],
    "dynamic": [],
    "toolbox": ["--toolbox", "dev"],
    "server": ["--toolbox", "dev", "--server", "s"],
}
ROOT = "file:///project"


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with warm_servers() as entry:
        yield entry


@pytest.fixture(scope="module")
def address(shared_loop: asyncio.Runner) -> Iterator[str]:
    with lasting(shared_loop, sdk_over_http("http", "both_eras_server")) as url:
        yield url


class Official:
    """The official client in its handshake mode: it answers what it is asked, and writes down what it hears."""

    def __init__(self) -> None:
        self.logged: list[Any] = []
        self.heard: list[str] = []

    @contextlib.asynccontextmanager
    async def at(self, surface: Surface, folder: Path, server: Server) -> AsyncIterator[Client]:
        mode = {"toolMode": "dynamic"} if surface == "dynamic" else {}
        config = write_config(folder, {"dev": {"s": server}}, **mode)
        program = StdioServerParameters(
            command=sys.executable,
            args=["-m", "mcp_workbench", "serve", "--config", str(config), *VIEWS[surface]],
            env=environment(folder / "home"),
        )
        async with Client(
            program,
            mode="legacy",
            elicitation_callback=self.elicited,
            sampling_callback=self.sampled,
            list_roots_callback=self.roots,
            logging_callback=self.log,
            message_handler=self.message,
        ) as client:
            yield client

    async def elicited(self, _context: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert params.message == "Really?"
        return types.ElicitResult(action="accept", content={"answer": "yes"})

    async def sampled(self, *_: object) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text="sampled")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(self, _context: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=ROOT)])

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logged.append(params.data)

    async def message(self, message: object) -> None:
        self.heard.append(getattr(message, "method", type(message).__name__))


async def use(client: Client, surface: Surface, tool: str, **arguments: Any) -> str:
    """The text of a result, whatever the tool is called on this surface."""
    match surface:
        case "default":
            named = {"toolbox": "dev", "server": "s", "tool": tool}
            result = await client.call_tool("use_tool", {"tool": named, "arguments": arguments})
        case "dynamic":
            result = await client.call_tool(f"dev__s__{tool}", arguments)
        case _:
            result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.content[0].text  # type: ignore[union-attr]


async def has_tool(client: Client, surface: Surface, name: str) -> bool:
    if surface == "default":
        opened = await client.call_tool("open_toolbox", {"toolbox": "dev"})
        return f'"{name}"' in opened.content[0].text  # type: ignore[union-attr]
    return any(tool.name.endswith(name) for tool in (await client.list_tools()).tools)


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("surface", VIEWS)
async def test_a_handshake_client_has_all_that_a_server_of_both_eras_can_do(
    surface: Surface, transport: str, warm: Warm, address: str, tmp_path: Path
):
    entry: Server = warm("both_eras_server", "stdio") if transport == "stdio" else {"url": address}
    official = Official()
    async with official.at(surface, tmp_path, entry) as client:
        if surface in ("default", "dynamic"):
            await client.call_tool("open_toolbox", {"toolbox": "dev"})
        version, first = (await use(client, surface, "whoami")).split()
        assert version == "2025-11-25"
        assert await use(client, surface, "elicit") == "accept yes"
        assert await use(client, surface, "sample") == "sampled"
        assert await use(client, surface, "roots") == ROOT
        assert await use(client, surface, "log") == "logged"
        await wait_until(lambda: official.logged == ["noted"], what="the log message")
        added = f"added_{surface}_{transport}"
        await use(client, surface, "grow", name=added)
        if surface != "default":  # its tools are always the same two
            await wait_until(lambda: "notifications/tools/list_changed" in official.heard, what="the news of its list")
        await poll_until(lambda: has_tool(client, surface, added), what="the new tool")
        assert (await use(client, surface, added)).split() == [version, first]


@pytest.mark.parametrize("surface", VIEWS)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_a_server_is_initialized_with_the_version_of_its_client(tmp_path: Path, surface: Surface, version: str):
    log = tmp_path / "log"
    mode = {"toolMode": "dynamic"} if surface == "dynamic" else {}
    config = write_config(tmp_path, {"dev": {"s": rogue(log=log)}}, **mode)
    async with serving(config, *VIEWS[surface], greet=False) as wire:
        hello = await wire.handshake(version=version)
        assert hello["protocolVersion"] == version
        if surface in ("default", "dynamic"):
            await wire.open("dev")
        else:
            await wire.list_tools()
    (greeting,) = received(log, "initialize")
    assert greeting["params"]["protocolVersion"] == version
    assert len(starts(log)) == 1
