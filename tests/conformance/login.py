"""The scenarios about logins: `mcp-workbench auth` in a browser that always agrees, then the calls of a host."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from mcp import Client, MCPError, types

from tests.conformance.host import SERVER, Host
from tests.conformance.stage import TOOLBOX

LOGINS = 4
"""A step up to more scopes is a login of its own; more of them than this is a loop."""
LOGIN_SECONDS = 60.0
NEEDED = "mcp-workbench auth"
"""The command by which the workbench tells the agent that a person has to log in, for the first time or again."""

BROWSER = """
import sys, urllib.request
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=30).read()
"""
"""It opens the address that it is given and follows where it leads, as the browser of a person who agrees."""


def entry(url: str) -> dict[str, Any]:
    """The server, with the client that the scenario registered beforehand, if it did."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    oauth = {"clientId": context.get("client_id"), "clientSecret": context.get("client_secret")}
    known = {name: value for name, value in oauth.items() if value}
    return {"url": url, **({"oauth": known} if known else {})}


async def drive(host: Host, scenario: str) -> None:
    """Use the first tool; where the workbench says that a login is needed, make one and try again."""
    del scenario
    async with host.connected() as client:
        for _ in range(LOGINS):
            needed = await _first_call(host, client)
            if not needed or not await log_in(host):
                return


async def _first_call(host: Host, client: Client) -> bool:
    """Whether a login is needed before the toolbox opens, or for its first tool."""
    try:
        opened = await host.open(client)
        if opened.is_error:
            return _needs_login(opened)
        tools = _tools(opened)
        return bool(tools) and _needs_login(await host.use(client, tools[0]))
    except MCPError as error:
        return NEEDED in str(error)


def _needs_login(answer: types.CallToolResult) -> bool:
    return any(NEEDED in block.text for block in answer.content if isinstance(block, types.TextContent))


def _tools(opened: types.CallToolResult) -> list[str]:
    """The names of the tools in what `open_toolbox` said."""
    told = "".join(block.text for block in opened.content if isinstance(block, types.TextContent))
    return [tool["name"] for tool in json.loads(told)["tools"]]


async def log_in(host: Host) -> bool:
    """`mcp-workbench auth`, with a browser that follows every redirect; whether it worked."""
    command = [*host.command, "auth", TOOLBOX, SERVER, "--config", host.config]
    env = host.env | {"BROWSER": f"{sys.executable} -c '{BROWSER}' %s"}
    process = await asyncio.create_subprocess_exec(
        *command, env=env, stdin=asyncio.subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr
    )
    try:
        await asyncio.wait_for(process.wait(), LOGIN_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()
    return process.returncode == 0
