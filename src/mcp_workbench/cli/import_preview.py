"""What an import does: the servers found in hosts, the toolboxes they go to, and the configuration before and after.

It reads files of hosts, the configuration and the catalog on disk. It starts nothing and writes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_workbench.cli.config_edit import Target
from mcp_workbench.cli.server_states import known_tools
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.load import DEFAULT_TOOLBOX, config_of
from mcp_workbench.doctor.recognition import Service, Traits, recognize
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts.discovery import HostServer, HostSource, find_sources, read_one
from mcp_workbench.hosts.import_plan import (
    Choice,
    Choose,
    FoundServer,
    Plan,
    Planned,
    by_purpose,
    by_toolbox,
    described,
    with_shared_rules,
)
from mcp_workbench.hosts.registry import HostEnvironment, here
from mcp_workbench.hosts.restrictions.rules import KEY, filters_of
from mcp_workbench.hosts.variables import inherited_in


class Import(NamedTuple):
    """What was found, and what becomes of it."""

    around: HostEnvironment
    sources: tuple[HostSource, ...]
    servers: tuple[Planned, ...]
    before: Target
    after: Target
    without_rules: bool = False

    @property
    def lacking(self) -> list[Planned]:
        """The servers that the configuration has with fewer restrictions than their hosts."""
        return [server for server in self.servers if server.is_lacking]

    def takes(self, server: HostServer) -> bool:
        """Whether a server of a host can be taken."""
        return server.converted is not None and (self.without_rules or not server.obstacles)

    @property
    def new(self) -> list[Planned]:
        return [server for server in self.servers if not server.is_there]

    @property
    def variables(self) -> dict[str, list[Planned]]:
        """The variables that the new servers need, each with its servers."""
        needed: dict[str, list[Planned]] = {}
        for server in self.new:
            for name in server.variables:
                needed.setdefault(name, []).append(server)
        return needed

    def is_new(self, toolbox: str) -> bool:
        """Whether the import makes this toolbox."""
        return toolbox not in self.before.descriptions()

    def unknown(self, toolbox: str) -> list[Planned]:
        """The servers of a new toolbox that were not recognized."""
        return [one for one in self.new if one.toolbox == toolbox and one.service is None and self.is_new(toolbox)]


def prepare_import(options: Mapping[str, str], before: Target) -> Import:
    """Plan an import. Raises `ConfigError`, or `HostFileError`."""
    around = here(os.environ)
    named = options.get("from")
    found = (read_one(Path(named).expanduser(), around),) if named else tuple(find_sources(around))
    sources, without_rules = tuple(with_shared_rules(found)), "without_rules" in options
    plan = Plan(before.servers(), os.environ, inherited_in(before.tree), without_rules=without_rules)
    for source in sources:
        plan.add(source)
    servers = plan.servers(_chooser(options, before))
    after = before
    for name, inside in by_toolbox(server for server in servers if not server.is_there):
        for server in inside:
            after = after.with_server(name, server.name, server.entry, described(inside))
    after = _restricted(after, [server for server in servers if server.is_lacking])
    after.checked()
    return Import(around, sources, tuple(servers), before, after, without_rules)


def _chooser(options: Mapping[str, str], before: Target) -> Choose:
    """How toolboxes are chosen: as an option says, or by what servers are for."""
    if "toolbox" in options and "by_host" in options:
        raise ConfigError("--toolbox and --by-host exclude each other", hint="Leave out one of them.")
    one = DEFAULT_TOOLBOX if before.is_bare else options.get("toolbox")

    def choose(found: Sequence[FoundServer]) -> list[Choice]:
        tools = _remembered(found, before)
        services = [_recognized(server.name, server.entry, names) for server, names in zip(found, tools, strict=True)]
        if one:
            toolboxes = [one] * len(found)
        elif "by_host" in options:
            toolboxes = [server.host for server in found]
        else:
            toolboxes = by_purpose(services, _existing(before))
        return [Choice(*pair) for pair in zip(toolboxes, services, strict=True)]

    return choose


def _existing(before: Target) -> dict[str, list[Service | None]]:
    """What the servers of the configuration are for, by toolbox."""
    return {
        toolbox: [_recognized(name, entry) for name, entry in servers.items()]
        for toolbox, servers in before.servers().items()
    }


def _recognized(name: str, entry: Mapping[str, Any], tools: Sequence[str] = ()) -> Service | None:
    return recognize(Traits.of_entry(name, entry, tools).on_this_machine(os.environ))


def _remembered(found: Sequence[FoundServer], before: Target) -> list[list[str]]:
    """The tools of each server, if a workbench has listed them before."""
    entries = {str(number): server.entry for number, server in enumerate(found)}
    toolboxes = {"import": {"description": "import", "mcpServers": entries}}
    tree = {key: value for key, value in before.tree.items() if key != "mcpServers"} | {"toolboxes": toolboxes}
    try:
        config = config_of(SourceText(json.dumps(tree), str(before.path)), strict=False)
    except ConfigError:  # an entry can't be used: `prepare_import` reports it by its name
        return [[] for _ in found]
    known = known_tools(config, config.servers())
    tools = {identifier.server: list(one.listing.tools) for identifier, one in known.items()}
    return [tools.get(name, []) for name in entries]


def _restricted(target: Target, servers: list[Planned]) -> Target:
    """The configuration with the restrictions that its servers lack."""
    for server in servers:
        place = target.place(server.toolbox, server.name)
        if server.filters:
            have = filters_of(target.servers()[server.toolbox][server.name])
            target = target.with_member((*place, KEY), [*have, *server.filters])
        if server.disables:
            target = target.with_member((*place, "disabled"), value=True)
    return target
