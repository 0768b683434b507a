"""`mcp-workbench call`: one call of one tool, from a terminal or a script."""

from __future__ import annotations

import asyncio
import sys
from shlex import quote

from msgspec import Raw

from mcp_workbench.cli import display, results
from mcp_workbench.cli.answering import answered, print_raw
from mcp_workbench.cli.arguments import Typed, read_arguments
from mcp_workbench.cli.named import find_server, read_config
from mcp_workbench.cli.options import Given
from mcp_workbench.cli.parameters import Parameters
from mcp_workbench.cli.person import AUDIENCE, CALLER, Person
from mcp_workbench.cli.remembered import Known, checked_tool, known_tools
from mcp_workbench.cli.states import known_since
from mcp_workbench.cli.terminal import FAILURE
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConnectFailed, Fault, InvalidParameters
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.shown import shown
from mcp_workbench.workbench import Workbench

HELP = """Call a tool. Its server is started for it, and ended again.

\b
Arguments are given in one of these ways:
  path=README.md limit=5 tags=a tags=b  typed as the tool's schema says
  path=README.md limit:=5               key:=JSON is JSON, whatever that says
  '{"path": "README.md", "limit": 5}'   all of them as JSON
  -                                     the same, from stdin

What is missing or unknown is told before anything is sent. The result is printed as text; with --json it is that of
the server, as it sent it. At a terminal progress is shown, and questions of the server are asked. The exit status is
1 if the tool or its server failed. Ctrl-C cancels the call."""


def run(options: Given) -> int:
    """The exit status."""
    return answered(options, lambda: _call(options))


def _call(options: Given) -> int:
    config = read_config(options)
    identifier = ToolIdentifier(options["toolbox"], options["server"], options["tool"])
    server = find_server(config, identifier.toolbox, identifier.server)
    known = known_tools(config, [server]).get(ServerIdentifier(server.toolbox, server.name))
    typed, arguments = Typed.read(options.words), None
    if known is not None and identifier.tool in known.listing.tools:
        arguments = _from_memory(typed, known, identifier)
    result = asyncio.run(_relayed(config, identifier, typed, arguments))
    _print(result, is_raw="json" in options)
    return FAILURE if results.is_error(result) else 0


def _from_memory(typed: Typed, known: Known, identifier: ToolIdentifier) -> Raw:
    """The arguments, by what is remembered of the tool: who is refused is told how old that is."""
    try:
        return read_arguments(typed, Parameters.of(known.listing.tools[identifier.tool]))
    except InvalidParameters as error:
        how = f"mcp-workbench refresh {quote(shown(identifier.toolbox))}"
        error.hint = f"{error.hint} (As listed {known_since(known)}; if it changed: {how})"
        raise


async def _relayed(config: Config, identifier: ToolIdentifier, typed: Typed, arguments: Raw | None) -> Raw:
    """The result. Where the tool is not known yet its server is asked, before the arguments are looked at."""
    person = Person()
    async with Workbench(config) as workbench:
        workbench.join(AUDIENCE, person)
        watching = asyncio.ensure_future(person.watch(identifier.server))
        try:
            if arguments is None:
                arguments = read_arguments(typed, await _listed(workbench, identifier))
            return await workbench.relay(identifier, arguments, person.exchange())
        finally:
            watching.cancel()
            person.done()


async def _listed(workbench: Workbench, identifier: ToolIdentifier) -> Parameters:
    """The parameters of a tool, from its server. Raises `ConnectFailed` or `ToolNotFound`."""
    provider = workbench.at(CALLER).provider(ServerIdentifier(identifier.toolbox, identifier.server))
    try:
        listing = await provider.lists.tools()
    except Fault as fault:
        raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
    checked_tool(listing, identifier)
    return Parameters.of(listing.tools[identifier.tool])


def _print(result: Raw, *, is_raw: bool) -> None:
    if is_raw:
        print_raw(result)
        return
    stream = sys.stderr if results.is_error(result) else sys.stdout
    for text in results.as_text(result):
        # A terminal obeys what it is sent, a file keeps it: only there is it safe to leave it as it is.
        told = "\n".join(display.lines_of(text)) if display.is_terminal(stream) else text
        stream.write(told if told.endswith("\n") else f"{told}\n")
