"""`mcp-workbench import`: the servers that hosts have become toolboxes of the workbench. Hosts are not changed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcp_workbench.cli.answering import answered, print_json
from mcp_workbench.cli.consent import is_agreed
from mcp_workbench.cli.differences import differences
from mcp_workbench.cli.display import Block, Words, is_terminal, write
from mcp_workbench.cli.target import Target, to_import
from mcp_workbench.config.load import DEFAULT_TOOLBOX
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts.found import Source, find_all, read_one
from mcp_workbench.hosts.places import Surroundings, here
from mcp_workbench.hosts.plan import Plan, Planned, by_toolbox, described
from mcp_workbench.shown import shown, slashed

HELP = """Take the servers of your MCP hosts into the configuration of the workbench.

Looks at Claude Code, Claude Desktop, Cursor, VS Code, Windsurf, Codex, Gemini CLI and Zed, at their
user's files and at those of this folder. The same server in several hosts is taken once. Each host becomes
a toolbox, or all go into one with --toolbox. Secrets are not copied: they become ${NAME}, and you are told
which variables to set. The files of the hosts stay as they are; 'mcp-workbench install' changes them."""


class Import(NamedTuple):
    """What was found, and what becomes of it."""

    around: Surroundings
    sources: tuple[Source, ...]
    servers: tuple[Planned, ...]
    before: Target
    after: Target

    @property
    def new(self) -> list[Planned]:
        return [server for server in self.servers if not server.is_there]

    @property
    def variables(self) -> dict[str, list[Planned]]:
        """The variables that the new servers need, and which of them."""
        needed: dict[str, list[Planned]] = {}
        for server in self.new:
            for name in server.variables:
                needed.setdefault(name, []).append(server)
        return needed


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Mapping[str, str]) -> int:
    done = _prepare(options)
    is_dry = "dry_run" in options
    if "json" not in options:
        write(*_report(done))
        if is_dry:
            write("", *differences(done.before, done.after))
    is_written = bool(done.new) and not is_dry and _may_write(done, options)
    if is_written:
        done.after.write()
    if "json" in options:
        print_json(_as_json(done, written=is_written))
    else:
        write("", *_outcome(done, written=is_written, is_dry=is_dry))
    return 0


def _prepare(options: Mapping[str, str]) -> Import:
    around = here(os.environ)
    named = options.get("from")
    sources = (read_one(Path(named).expanduser(), around),) if named else tuple(find_all(around))
    before = to_import(options)
    toolbox = DEFAULT_TOOLBOX if before.is_bare else options.get("toolbox")
    plan = Plan(before.servers(), toolbox, os.environ)
    for source in sources:
        plan.add(source)
    servers = plan.servers()
    after = before
    for name, inside in by_toolbox(server for server in servers if not server.is_there):
        for server in inside:
            after = after.with_server(name, server.name, server.entry, described(inside))
    after.checked()
    return Import(around, sources, tuple(servers), before, after)


def _may_write(done: Import, options: Mapping[str, str]) -> bool:
    """Whether the file is new, or somebody agrees to its change. Raises `ConfigError` where nobody can be asked."""
    if done.before.known is None or "force" in options:
        return True
    if "json" in options or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        hint = "Pass --force to add to it, or --dry-run to see what would change."
        raise ConfigError("the file exists already", file=done.before.path, hint=hint)
    return is_agreed(f"Add {_counted(done.new)} to {done.before.path}?")


def _report(done: Import) -> Iterator[Block]:
    if not done.sources:
        yield "No host has MCP servers here."
    for source in done.sources:
        yield Words(f"{source.place.host.title}: {done.around.shown(source.place.path)}", "strong")
        yield from _source_lines(source)
    for name, servers in by_toolbox(done.new):
        yield ""
        yield Words(f"toolbox {shown(name)}", "strong")
        for server in servers:
            also = f" (in {', '.join(server.sources)})" if len(server.sources) > 1 else ""
            yield f"  {shown(server.name)}{also}"
    if done.variables:
        yield ""
        yield Words("Set these variables: their values were not copied.", "doubtful")
        for name, servers in done.variables.items():
            is_set = " (is set here)" if name in os.environ else ""
            yield f"  {name}{is_set}  for {', '.join(slashed(one.toolbox, one.name) for one in servers)}"


def _source_lines(source: Source) -> Iterator[Block]:
    if source.error is not None:
        yield Words(f"  left alone: {source.error}", "bad")
    for server in source.servers:
        if server.moved is None:
            yield Words(f"  {shown(server.name)}: not taken: {server.reason}", "doubtful")
            continue
        yield f"  {shown(server.name)}"
        for note in server.moved.notes:
            yield Words(f"    {note}", "quiet")


def _outcome(done: Import, *, written: bool, is_dry: bool) -> Iterator[Block]:
    if not done.new:
        known = [server for server in done.servers if server.is_there]
        yield f"nothing to import{f': {done.before.path} has all of them' if known else ''}"
        if not done.sources:
            yield "next: mcp-workbench add TOOLBOX SERVER --description TEXT -- COMMAND"
    elif is_dry:
        yield f"nothing was written: this would add {_counted(done.new)} to {done.after.path}"
    elif written:
        yield Words(f"wrote {_counted(done.new)} to {done.after.path}", "good")
        yield "next: mcp-workbench doctor, and mcp-workbench install HOST"
    else:
        yield "nothing was written"


def _counted(servers: list[Planned]) -> str:
    return f"{len(servers)} server{'' if len(servers) == 1 else 's'}"


def _as_json(done: Import, *, written: bool) -> dict[str, Any]:
    return {
        "ok": True,
        "file": str(done.after.path),
        "written": written,
        "sources": [_source_json(source) for source in done.sources],
        "toolboxes": {
            name: {server.name: {"from": list(server.sources)} for server in servers}
            for name, servers in by_toolbox(done.new)
        },
        "known": [_named(one) for one in done.servers if one.is_there],
        "variables": {name: [_named(one) for one in servers] for name, servers in done.variables.items()},
    }


def _named(server: Planned) -> dict[str, str]:
    return {"toolbox": server.toolbox, "server": server.name}


def _source_json(source: Source) -> dict[str, Any]:
    return {
        "host": source.place.host.key,
        "level": source.place.file.level,
        "file": str(source.place.path),
        "error": str(source.error) if source.error else None,
        "servers": [
            {
                "name": server.name,
                "taken": server.moved is not None,
                "reason": server.reason or None,
                "notes": list(server.moved.notes) if server.moved else [],
            }
            for server in source.servers
        ],
    }
