"""`mcp-workbench move`: moves a server to another toolbox. It starts nothing."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mcp_workbench.cli.config_edit import Target, to_edit, unknown
from mcp_workbench.cli.display import write
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.server_states import known_tools
from mcp_workbench.doctor.recognition import Traits, recognize, summary
from mcp_workbench.errors import ConfigError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.sanitize import escape, slashed

HELP = """Move a server to another toolbox.

The server's entry keeps its comments and layout, and everything else in the file stays as it is. If the
toolbox does not exist it is created, with --description or with a description of what the server does. A
toolbox whose last server moves away is removed. Use --from if several toolboxes have a server of that name.

\b
  mcp-workbench move github --to code
  mcp-workbench move postgres --from work --to data --description 'Query the data of the shop'"""

Servers = Mapping[str, Mapping[str, Any]]
"""The entries of a configuration, by toolbox and name."""


def run(options: Mapping[str, str]) -> int:
    server, to = options["server"], options.get("to", "")
    if not to:
        raise ConfigError(f"no toolbox to move '{escape(server)}' to", hint="Pass --to TOOLBOX.")
    with to_edit(options) as target:
        return _move(options, target)


def _move(options: Mapping[str, str], target: Target) -> int:
    server, to = options["server"], options["to"]
    servers = target.servers()
    source = _source(target, servers, options)
    if to in servers and "description" in options:
        hint = f"Leave out --description, or run: mcp-workbench describe {shlex.quote(escape(to))} TEXT"
        raise ConfigError(f"toolbox '{escape(to)}' exists already", file=target.path, hint=hint)
    description = options.get("description") or target.descriptions().get(to) or _propose(target, source, server)
    target.moved(server, source, to, description).write()
    move = _Move(server, source, to, description, created=to not in servers, removed=len(servers[source]) == 1)
    if "json" in options:
        print_json({"ok": True, "file": str(target.path), **move.as_json()})
    else:
        write(*move.lines(target.path))
    return 0


class _Move(NamedTuple):
    """The change, for the output."""

    server: str
    source: str
    to: str
    description: str
    """The description of the new toolbox."""
    created: bool
    removed: bool
    """Whether the old toolbox became empty and was removed."""

    def lines(self, file: Path) -> Iterator[str]:
        yield f"moved {slashed(self.source, self.server)} to {slashed(self.to, self.server)} in {file}"
        if self.created:
            yield f"created toolbox {escape(self.to)}: {escape(self.description, len(self.description))}"
        if self.removed:
            yield f"removed toolbox {escape(self.source)}, which has no servers left"

    def as_json(self) -> dict[str, Any]:
        fields = self._asdict()
        return {"from" if name == "source" else name: value for name, value in fields.items()}


def _source(target: Target, servers: Servers, options: Mapping[str, str]) -> str:
    """The toolbox that has the server now. Raises `ConfigError`."""
    server, to, named = options["server"], options["to"], options.get("from")
    if named is not None and named not in servers:
        raise unknown("toolbox", named, list(servers), target)
    searched = {name: inside for name, inside in servers.items() if name == (named or name)}
    holders = [name for name, inside in searched.items() if server in inside]
    if not holders:
        raise unknown("server", server, [name for inside in searched.values() for name in inside], target)
    if server in servers.get(to, {}):
        raise _there_already(target, server, to, [name for name in holders if name != to])
    if len(holders) > 1:
        listed = ", ".join(f"'{escape(name)}'" for name in holders)
        hint = f"Name one of them: --from {shlex.quote(escape(holders[0]))}"
        raise ConfigError(f"Server '{escape(server)}' is in several toolboxes: {listed}", file=target.path, hint=hint)
    return holders[0]


def _there_already(target: Target, server: str, to: str, others: list[str]) -> ConfigError:
    hint = "There is nothing to move."
    if others:
        hint = f"To remove the other one: mcp-workbench remove {shlex.join(map(escape, (others[0], server)))}"
    return ConfigError(f"Server '{escape(server)}' is in toolbox '{escape(to)}' already", file=target.path, hint=hint)


def _propose(target: Target, toolbox: str, server: str) -> str:
    """A description for a new toolbox with only this server."""
    config = target.checked()
    configured = config.toolboxes[toolbox].servers.get(server)
    known = known_tools(config, [configured] if configured is not None else [])
    listed = known.get(ServerIdentifier(toolbox, server))
    tools = listed.listing.tools if listed is not None else ()
    entry = target.servers()[toolbox][server]
    return summary([(server, recognize(Traits.of_entry(server, entry, tools).on_this_machine(os.environ)))])
