"""`mcp-workbench call`: calls one tool, from a terminal or a script."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from shlex import quote
from typing import TextIO

from msgspec import Raw

from mcp_workbench.cli import display, results
from mcp_workbench.cli.arguments import TypedArguments, read_arguments
from mcp_workbench.cli.config_selection import read_config
from mcp_workbench.cli.json_output import print_raw
from mcp_workbench.cli.options import Given
from mcp_workbench.cli.output import Output
from mcp_workbench.cli.parameters import Parameters
from mcp_workbench.cli.server_states import Known, age_of, checked_tool, known_tools
from mcp_workbench.cli.terminal import FAILURE, note
from mcp_workbench.cli.terminal_client import AUDIENCE, CALLER, Person
from mcp_workbench.config.model import Config, find_server
from mcp_workbench.errors import ConnectFailed, Fault, InvalidParameters, RequestError
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire.background import in_background
from mcp_workbench.workbench import Workbench

HELP = """Call a tool. The command starts the tool's server and stops it afterwards.

\b
Pass arguments in one of these ways:
  path=README.md limit=5 tags=a tags=b  with the types of the tool's schema
  path=README.md limit:=5               key:=JSON is always JSON
  '{"path": "README.md", "limit": 5}'   all of them as JSON
  -                                     the same, from stdin

Missing and unknown arguments are reported before anything is sent. The result is printed as text, or with --json as
the server sent it. --output writes an image, audio or a large result to a file, or several into a folder.

At a terminal the command shows progress and passes on the server's questions. The exit status is 1 if the tool or its
server failed. Ctrl-C cancels the call."""

_SAVE_HINT = "hint: --output FILE writes it to a file"


def run(options: Given) -> int:
    output = _output(options)
    config = read_config(options, always_say_file=True)
    identifier = ToolIdentifier(options["toolbox"], options["server"], options["tool"])
    server = find_server(config, identifier.toolbox, identifier.server)
    known = known_tools(config, [server]).get(server.identifier)
    typed, arguments = TypedArguments.read(options.words), None
    if known is not None and identifier.tool in known.listing.tools:
        arguments = _read_with_cached_schema(typed, known, identifier)
    result = asyncio.run(_call_tool(config, identifier, typed, arguments))
    is_raw, has_failed = "json" in options, results.is_error(result)
    if output is None or has_failed:
        _print(result, is_raw=is_raw)
        return FAILURE if has_failed else 0
    written, told = output.divide(result, is_raw=is_raw)
    _print_texts(told, sys.stderr if output.is_stdout else sys.stdout)
    output.put(written)
    return 0


def _output(options: Given) -> Output | None:
    """The checked destination of the result; None for plain printing. Raises `RequestError`."""
    if "output" in options:
        return Output(options["output"], overwrites="force" in options)
    if "force" in options:
        raise RequestError("--force needs --output FILE", hint="It overwrites the file that the result goes to.")
    return None


def _read_with_cached_schema(typed: TypedArguments, known: Known, identifier: ToolIdentifier) -> Raw:
    """Read the arguments with the cached schema. An error says how old that is."""
    try:
        return read_arguments(typed, Parameters.of(known.listing.tools[identifier.tool]))
    except InvalidParameters as error:
        how = f"mcp-workbench refresh {quote(escape(identifier.toolbox))}"
        hint = f"{error.hint} (The schema was listed {age_of(known)}; to update it: {how})"
        raise error.copy_with(hint=hint) from None


async def _call_tool(config: Config, identifier: ToolIdentifier, typed: TypedArguments, arguments: Raw | None) -> Raw:
    """Call the tool and return its result. Without a cached schema, first ask the server for it."""
    person = Person()
    async with Workbench(config) as workbench:
        workbench.join(AUDIENCE, person)
        try:
            with in_background(person.watch(identifier.server)):
                if arguments is None:
                    arguments = read_arguments(typed, await _fetch_parameters(workbench, identifier))
                return await workbench.relay(identifier, arguments, person.exchange())
        finally:
            person.done()


async def _fetch_parameters(workbench: Workbench, identifier: ToolIdentifier) -> Parameters:
    """Ask the server for the parameters of a tool. Raises `ConnectFailed` or `ToolNotFound`."""
    handle = workbench.at(CALLER).pool.handle(ServerIdentifier(identifier.toolbox, identifier.server))
    try:
        listing = await handle.lists.list_tools()
    except Fault as fault:
        raise ConnectFailed(identifier.toolbox, identifier.server, fault) from None
    checked_tool(listing, identifier)
    return Parameters.of(listing.tools[identifier.tool])


def _print(result: Raw, *, is_raw: bool) -> None:
    if is_raw:
        print_raw(result)
        return
    _print_texts(results.as_text(result), sys.stderr if results.is_error(result) else sys.stdout)
    is_seen = display.is_terminal(sys.stdout) and display.is_terminal(sys.stderr)
    if is_seen and any(piece.is_media for piece in results.pieces(result)):
        note(_SAVE_HINT)


def _print_texts(texts: Iterable[str], stream: TextIO) -> None:
    for text in texts:
        # A terminal would execute escape sequences; a file gets the text unchanged.
        told = "\n".join(display.lines_of(text)) if display.is_terminal(stream) else text
        stream.write(told if told.endswith("\n") else f"{told}\n")
