"""`mcp-workbench show`: shows one tool with its schemas."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Final

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.snapshot import ServerTools
from mcp_workbench.cli import display
from mcp_workbench.cli.config_selection import read_config
from mcp_workbench.cli.display import Block, Verbatim, Words
from mcp_workbench.cli.json_output import print_raw
from mcp_workbench.cli.results import decoded, readable, word
from mcp_workbench.cli.server_states import checked_tool, known_tools
from mcp_workbench.config.model import Config, ServerConfig, find_server
from mcp_workbench.errors import ConnectFailed, Fault
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.wire import jsonrpc

HELP = """Show one tool: its signature, description, effects and schemas.

This is the definition that the server listed last. A server that has never listed its tools is started once.
The schemas are valid JSON that you can copy. --json prints the whole definition as the server sent it."""

_HINTS: Final = {
    "readOnlyHint": ("read-only", "not read-only"),
    "destructiveHint": ("destructive", "not destructive"),
    "idempotentHint": ("idempotent", "not idempotent"),
    "openWorldHint": ("open world", "closed world"),
}


def run(options: Mapping[str, str]) -> int:
    config = read_config(options, always_say_file=True)
    identifier = ToolIdentifier(options["toolbox"], options["server"], options["tool"])
    listing = listing_of(config, find_server(config, identifier.toolbox, identifier.server))
    checked_tool(listing, identifier)
    definition = listing.tools[identifier.tool]
    if "json" in options:
        print_raw(definition.raw)
    else:
        display.write(*_as_text(identifier, definition))
    return 0


def listing_of(config: Config, server: ServerConfig) -> ServerTools:
    """The cached list of a server, or a new one if there is none. Raises `ConnectFailed`."""
    known = known_tools(config, [server]).get(server.identifier)
    if known is not None:
        return known.listing
    display.write(f"'{server.name}' has never listed its tools: starting it", to=sys.stderr)
    import asyncio  # noqa: PLC0415 -- not needed for a cached list

    return asyncio.run(_list_tools(config, server))


async def _list_tools(config: Config, server: ServerConfig) -> ServerTools:
    from mcp_workbench.wire.caller import LIBRARY  # noqa: PLC0415 -- as above
    from mcp_workbench.workbench import Workbench  # noqa: PLC0415

    async with Workbench(config) as workbench:
        router = workbench.at(LIBRARY)
        try:
            return await router.pool.handle(server.identifier).lists.list_tools()
        except Fault as fault:
            raise ConnectFailed(server.toolbox, server.name, fault) from None


def _as_text(identifier: ToolIdentifier, definition: Definition) -> Iterator[Block]:
    from mcp_workbench.catalog.rendering.signature import signature  # noqa: PLC0415 -- not needed for JSON

    fields = jsonrpc.fields(definition.raw)
    schema = decoded(fields.get("inputSchema", jsonrpc.EMPTY_OBJECT))
    yield Words(f"{identifier.tool}{signature(schema)}", "strong")
    yield Words(f"of server '{identifier.server}' in toolbox '{identifier.toolbox}'", "quiet")
    for text in (word(fields.get("title")).strip(), word(fields.get("description")).strip()):
        if text:
            yield ""
            yield text
    if effects := ", ".join(_effects(definition)):
        yield ""
        yield f"Its server says: {effects}"
    for title, member in (("Input schema", "inputSchema"), ("Output schema", "outputSchema")):
        if member in fields:
            yield ""
            yield Words(f"{title}:", "strong")
            yield Verbatim(readable(fields[member]))


def _effects(definition: Definition) -> Iterator[str]:
    said = definition.annotations()
    for name, (yes, no) in _HINTS.items():
        if name in said:
            yield yes if said[name] else no
