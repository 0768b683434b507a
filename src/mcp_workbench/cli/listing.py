"""`mcp-workbench list`: lists toolboxes, servers with their states, and tools. It starts nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from mcp_workbench.catalog.rendering.render import first_sentence
from mcp_workbench.catalog.snapshot import ServerTools
from mcp_workbench.cli import display
from mcp_workbench.cli.config_selection import read_config
from mcp_workbench.cli.display import Block, Column, Table, Words
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.server_states import DISABLED, Known, State, known_tools, state_of
from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig, find_server, find_toolbox

HELP = """List toolboxes with their servers; the servers of one toolbox with their tools; or the tools of one server.

Nothing is started: you see the last list of each server, and its age. A server lists its tools for the first
time when its toolbox is opened, or when you run 'mcp-workbench refresh'."""

_SERVERS = (Column(is_whole=True), Column())
_TOOLS = (Column(tone="strong", is_whole=True), Column())


class Row(NamedTuple):
    """One server, with its state and cached list."""

    name: str
    state: State
    config: ServerConfig | None = None
    known: Known | None = None


class Group(NamedTuple):
    """One toolbox with the servers to show."""

    toolbox: ToolboxConfig
    rows: tuple[Row, ...]


def run(options: Mapping[str, str]) -> int:
    config = read_config(options)
    groups = tuple(_groups(config, options.get("toolbox", ""), options.get("server", "")))
    has_tools = "toolbox" in options
    if "json" in options:
        told = [_group_json(group, has_tools=has_tools) for group in groups]
        print_json({"ok": True, "file": config.file, "toolboxes": told})
    else:
        display.write(*_as_text(config, groups, has_tools=has_tools))
    return 0


def _groups(config: Config, toolbox: str, server: str) -> Iterator[Group]:
    boxes = [find_toolbox(config, toolbox)] if toolbox else list(config.toolboxes.values())
    if server:
        chosen = [find_server(config, toolbox, server)]
    else:
        chosen = [one for box in boxes for one in box.servers.values()]
    known = known_tools(config, chosen)
    for box in boxes:
        rows = [_row(one, known.get(one.identifier)) for one in chosen if one.toolbox == box.name]
        rows += [Row(name, DISABLED) for name in box.disabled if not server]
        yield Group(box, tuple(rows))


def _row(server: ServerConfig, known: Known | None) -> Row:
    return Row(server.name, state_of(server, known), server, known)


# -- for people


def _as_text(config: Config, groups: tuple[Group, ...], *, has_tools: bool) -> Iterator[Block]:
    if not groups:
        yield f"There are no toolboxes in {config.file}."
    for number, group in enumerate(groups):
        if number:
            yield ""
        yield Words(f"{group.toolbox.name}: {' '.join(group.toolbox.description.split())}", "strong")
        if has_tools:
            for row in group.rows:
                yield from _with_tools(row)
        else:
            yield Table(_SERVERS, [(row.name, row.state.words) for row in group.rows], indent=2)


def _with_tools(row: Row) -> Iterator[Block]:
    yield Table(_SERVERS, [(row.name, row.state.words)], indent=2)
    if row.known is not None:
        yield Table(_TOOLS, list(_tool_rows(row.known.listing)), indent=4)


def _tool_rows(listing: ServerTools) -> Iterator[tuple[display.Cell, display.Cell]]:
    for definition in listing.tools.values():
        yield definition.name, first_sentence(definition)
    for withheld in listing.withheld:
        yield Words(withheld.name or "(no name)", "quiet"), Words(f"withheld: {withheld.reason}", "doubtful")


# -- for programs


def _group_json(group: Group, *, has_tools: bool) -> dict[str, Any]:
    servers = [_row_json(row, has_tools=has_tools) for row in group.rows]
    return {"toolbox": group.toolbox.name, "description": group.toolbox.description, "servers": servers}


def _row_json(row: Row, *, has_tools: bool) -> dict[str, Any]:
    told: dict[str, Any] = {"server": row.name, "state": row.state.kind}
    if row.config is not None and row.config.missing:
        told["missing"] = [missing.variable for missing in row.config.missing]
    if row.known is not None:
        listing = row.known.listing
        told["listedAt"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(row.known.listed_at))
        told["toolCount"], told["withheldCount"] = listing.count
        if has_tools:
            told["tools"] = [{"name": one.name, "description": first_sentence(one)} for one in listing.tools.values()]
            told["withheld"] = [{"name": one.name, "reason": one.reason} for one in listing.withheld]
    return told
