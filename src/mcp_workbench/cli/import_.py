"""`mcp-workbench import`: imports the servers of hosts as toolboxes. It does not change the hosts."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mcp_workbench.cli.config_edit import Target, differences, to_import
from mcp_workbench.cli.display import Block, Words, is_terminal, write
from mcp_workbench.cli.host_report import ACCEPT, carried_lines, held_back, lost_lines, rules_json
from mcp_workbench.cli.import_preview import Import, prepare_import
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.terminal import is_agreed
from mcp_workbench.config.environment import HOST_FOLDERS
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts.discovery import HostServer, HostSource
from mcp_workbench.hosts.import_plan import Planned, by_toolbox
from mcp_workbench.text.sanitize import count, escape, slashed

HELP = """Import the servers of your MCP hosts into the configuration of the workbench.

The command reads the files of Claude Code, Claude Desktop, Cursor, VS Code, Windsurf, Codex, Gemini CLI and
Zed: your own and those in this folder. It changes none of them; 'mcp-workbench install' does.

A server that several hosts have is imported once. Toolboxes such as 'code' or 'databases' group servers by
purpose; use --by-host for one toolbox per host, or --toolbox to put all servers into one. Secrets are not
copied: they become ${NAME}, and the output lists the variables to set. Tools that a host excludes are
excluded here too; a server with a rule that can't be carried over is not imported."""


def run(options: Mapping[str, str]) -> int:
    with to_import(options) as before:
        return _import(options, before)


def _import(options: Mapping[str, str], before: Target) -> int:
    done = prepare_import(options, before)
    is_dry = "dry_run" in options
    if "json" not in options:
        write(*report(done))
        if is_dry:
            write("", *differences(done.before, done.after))
    is_written = bool(done.new or done.lacking) and not is_dry and _may_write(done, options)
    if is_written:
        done.after.write()
    if "json" in options:
        print_json(as_json(done, written=is_written))
    else:
        write("", *outcome(done, written=is_written, is_dry=is_dry))
    return 0


def _may_write(done: Import, options: Mapping[str, str]) -> bool:
    """Whether the file is new, or the user agrees to the change. Raises `ConfigError` without a terminal."""
    if done.before.known is None or "force" in options:
        return True
    if "json" in options or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        hint = "Pass --force to add to it, or --dry-run to see what would change."
        raise ConfigError("the file exists already", file=done.before.path, hint=hint)
    return is_agreed(f"Add {counted(done)} to {done.before.path}?")


def report(done: Import) -> Iterator[Block]:
    """The servers that were found, and their toolboxes."""
    if not done.sources:
        yield "No host has MCP servers here."
    for source in done.sources:
        yield Words(f"{source.host_file.host.title}: {done.around.shown(source.host_file.path)}", "strong")
        yield from _source_lines(done, source)
    for name, servers in by_toolbox(done.new):
        yield ""
        yield from _toolbox_lines(done, name, servers)
    yield from _lacking_lines(done.lacking)
    yield from variable_lines(done.variables)


def _toolbox_lines(done: Import, name: str, servers: list[Planned]) -> Iterator[Block]:
    description = done.after.descriptions()[name]
    yield Words(f"toolbox {escape(name)}: {escape(description, len(description))}", "strong")
    for server in servers:
        also = f" (in {', '.join(server.sources)})" if len(server.sources) > 1 else ""
        off = ", disabled" if server.entry.get("disabled") is True else ""
        yield f"  {escape(server.name)}{also}{off}"
    if unknown := done.unknown(name):
        names = ", ".join(escape(server.name) for server in unknown)
        command = f"mcp-workbench describe {shlex.quote(escape(name))} TEXT"
        yield Words(f"  not recognized: {names}; say what an agent can do with it: {command}", "doubtful")


def _source_lines(done: Import, source: HostSource) -> Iterator[Block]:
    if source.error is not None:
        yield Words(f"  left alone: {source.error}", "bad")
    for server in source.servers:
        if server.converted is None:
            yield Words(f"  {escape(server.name)}: not taken: {server.reason}", "doubtful")
            continue
        if not done.takes(server):
            reason = f"{held_back(server.rules, done.around)}; {ACCEPT}"
            yield Words(f"  {escape(server.name)}: not taken: {reason}", "doubtful")
            continue
        yield f"  {escape(server.name)}"
        yield from carried_lines(server.rules, done.around, "    ")
        yield from lost_lines(server.rules, done.around, "    ")
        for note in server.converted.notes:
            yield Words(f"    {note}", "quiet")
    if source.host_file.host.unread and source.servers:
        yield Words(f"  check: {source.host_file.host.unread}; exclude them with toolFilters", "doubtful")


def _lacking_lines(servers: list[Planned]) -> Iterator[Block]:
    if servers:
        yield ""
        yield Words("These servers are restricted in your hosts, but not yet in the configuration:", "doubtful")
    for server in servers:
        needed = [f'"{escape(one)}"' for one in (*server.filters, *(("disabled",) if server.disables else ()))]
        yield f"  {slashed(server.toolbox, server.name)}: {', '.join(needed)}"


def outcome(done: Import, *, written: bool, is_dry: bool) -> Iterator[Block]:
    """What was written, and the next step."""
    if not done.new and not done.lacking:
        known = [server for server in done.servers if server.is_there]
        where = f" into {done.before.path}" if done.before.known is not None else ""
        yield f"nothing to import{f': {done.before.path} has all of them' if known else where}"
        if not done.sources:
            yield "next: mcp-workbench add TOOLBOX SERVER --description TEXT -- COMMAND"
    elif is_dry:
        yield f"nothing was written: this would add {counted(done)} to {done.after.path}"
    elif written:
        yield Words(f"wrote {counted(done)} to {done.after.path}", "good")
        if done.new:
            yield "to change toolboxes: mcp-workbench move SERVER --to TOOLBOX, mcp-workbench describe TOOLBOX TEXT"
        yield "next: mcp-workbench doctor, and mcp-workbench install --all --remove-imported"
    else:
        yield "nothing was written"


def counted(done: Import) -> str:
    """The number of new servers, and of servers that get restrictions."""
    new, lacking = len(done.new), len(done.lacking)
    servers, restrictions = count(new, "server"), f"restrictions for {count(lacking, 'server')}"
    return " and ".join(part for part, number in ((servers, new), (restrictions, lacking)) if number)


def as_json(done: Import, *, written: bool) -> dict[str, Any]:
    """The JSON document that docs/commands/import.md describes; it is stable."""
    return {
        "ok": True,
        "file": str(done.after.path),
        "written": written,
        "sources": [_source_json(done, source) for source in done.sources],
        "toolboxes": {name: _toolbox_json(done, name, servers) for name, servers in by_toolbox(done.new)},
        "restricted": [
            {**_named(one), "toolFilters": list(one.filters), "disabled": one.disables} for one in done.lacking
        ],
        "known": [_named(one) for one in done.servers if one.is_there],
        "variables": {name: [_named(one) for one in servers] for name, servers in done.variables.items()},
    }


def _toolbox_json(done: Import, name: str, servers: list[Planned]) -> dict[str, Any]:
    return {
        "description": done.after.descriptions()[name],
        "new": done.is_new(name),
        "servers": {server.name: {"from": list(server.sources)} for server in servers},
        "unknown": [server.name for server in done.unknown(name)],
    }


def _named(server: Planned) -> dict[str, str]:
    return {"toolbox": server.toolbox, "server": server.name}


def _source_json(done: Import, source: HostSource) -> dict[str, Any]:
    return {
        "host": source.host_file.host.key,
        "level": source.host_file.file.level,
        "file": str(source.host_file.path),
        "error": str(source.error) if source.error else None,
        "check": source.host_file.host.unread or None,
        "servers": [_server_json(done, server) for server in source.servers],
    }


def _server_json(done: Import, server: HostServer) -> dict[str, Any]:
    reason = server.reason or (None if done.takes(server) else held_back(server.rules, done.around))
    return {
        "name": server.name,
        "taken": done.takes(server),
        "reason": reason,
        "rules": rules_json(server.rules),
        "notes": list(server.converted.notes) if server.converted else [],
    }


_SET = (
    "Set these variables to try the servers here. Their values were not copied.",
    "In a host, 'install HOST --remove-imported' keeps the values that its file has.",
)
_FILLED_IN = ("Hosts fill these in, once 'install HOST --remove-imported' has moved the servers.",)


def variable_lines(variables: Mapping[str, Sequence[Planned]]) -> Iterator[Block]:
    """Each variable with the servers that need it."""
    folders = {name: servers for name, servers in variables.items() if name in HOST_FOLDERS}
    others = {name: servers for name, servers in variables.items() if name not in folders}
    for heading, needed in ((_SET, others), (_FILLED_IN, folders)):
        if needed:
            yield ""
            yield from (Words(line, "doubtful") for line in heading)
        for name, servers in needed.items():
            is_set = " (is set here)" if name in os.environ else ""
            yield f"  {name}{is_set}  for {', '.join(slashed(one.toolbox, one.name) for one in servers)}"
