"""`mcp-workbench search`: the tools that fit a query, as an agent finds them."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering.render import first_sentence
from mcp_workbench.catalog.search.finder import Finder
from mcp_workbench.catalog.snapshot import Catalog, Matches
from mcp_workbench.cli import display
from mcp_workbench.cli.config_selection import read_config
from mcp_workbench.cli.display import SENTENCE_COLUMNS, TERMINAL_COLUMNS, Block, Column, Table, Words
from mcp_workbench.cli.json_output import answered, print_json
from mcp_workbench.cli.options import Given
from mcp_workbench.cli.server_states import Found, known_tools
from mcp_workbench.config.model import Config, ServerConfig, find_toolbox
from mcp_workbench.errors import InvalidParameters
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import slashed

HELP = """Find tools by what they do, in every toolbox or in one. The best match comes first, as for an agent that
passes a query to open_toolbox.

Nothing is started. Servers that have never listed their tools can't be searched; the output names them."""

_NAMES = (Column("toolbox", is_whole=True), Column("server", is_whole=True))
_COLUMNS = (*_NAMES, Column("tool", tone="strong", is_whole=True), Column())
_GAP = 2


def run(options: Given) -> int:
    """The exit status."""
    return answered(options, lambda: _search(options))


def _search(options: Given) -> int:
    query = " ".join(options.words).strip()
    if not query:
        raise InvalidParameters("there is nothing to search for", hint="mcp-workbench search read a file")
    config = read_config(options)
    toolbox = options.get("toolbox")
    boxes = [find_toolbox(config, toolbox)] if toolbox else config.toolboxes.values()
    known = known_tools(config, config.servers())  # all servers, since they determine how rare a word is
    searched = _found(config, known, query, toolbox)
    servers = [server for box in boxes for server in box.servers.values()]
    unknown = [one for one in servers if ServerIdentifier(one.toolbox, one.name) not in known]
    if "json" in options:
        print_json(_as_json(config.file, query, searched, unknown))
        return 0
    display.write(*_as_text(searched))
    if unknown:
        names = ", ".join(slashed(one.toolbox, one.name) for one in unknown)
        note = f"not searched, since they have never listed their tools: {names} (mcp-workbench refresh)"
        display.write(Words(note, "quiet"), to=sys.stderr)
    return 0


def _found(config: Config, known: Found, query: str, toolbox: str | None) -> Matches:
    catalog = Catalog({name: tuple(box.servers) for name, box in config.toolboxes.items()})
    for server, one in known.items():
        catalog.snapshot(server.toolbox, server.server).put(one.listing)
    finder = Finder(config, catalog, DEFAULTS.bounded(config.bounds), lambda server: known[server].offer)
    return asyncio.run(finder.search(query, toolbox))


def _as_text(searched: Matches) -> Iterator[Block]:
    rows = [(*hit.parts(), _sentence(hit, definition, searched)) for hit, definition in searched.found]
    if searched.is_weak or not rows:
        yield "No tool fits well. The nearest:" if rows else "No tool fits."
    if _has_room(rows):
        yield Table(_COLUMNS, rows)
    else:
        for *names, sentence in rows:
            yield Words(shlex.join(names), "strong")
            yield Words(sentence, indent=2)


def _sentence(hit: ToolIdentifier, definition: Definition, searched: Matches) -> str:
    others = ", ".join(slashed(*server.parts()) for server in searched.also_in.get(hit, ()))
    return f"{first_sentence(definition)} (also in {others})" if others else first_sentence(definition)


def _has_room(rows: Sequence[Sequence[str]]) -> bool:
    """True if sentences fit next to the names; output that is not for a terminal always has room."""
    if not rows or not display.is_terminal(sys.stdout):
        return bool(rows)
    names = sum(max(len(row[column]) for row in rows) + _GAP for column in range(3))
    return shutil.get_terminal_size((TERMINAL_COLUMNS, 0)).columns >= names + SENTENCE_COLUMNS


def _as_json(file: str, query: str, searched: Matches, unknown: Sequence[ServerConfig]) -> dict[str, Any]:
    tools = [
        {
            **hit.params(),
            "description": first_sentence(definition),
            "alsoIn": [{"toolbox": one.toolbox, "server": one.server} for one in searched.also_in.get(hit, ())],
        }
        for hit, definition in searched.found
    ]
    never = [{"toolbox": server.toolbox, "server": server.name} for server in unknown]
    head = {"ok": True, "file": file, "query": query, "weak": searched.is_weak}
    return head | {"tools": tools, "neverListed": never}
