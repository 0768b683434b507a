"""Plans an import: finds servers in hosts, assigns them to toolboxes and computes the new configuration.

It reads host files, the configuration and the cached catalog. It starts nothing and writes nothing.
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
    """The sources and servers that were found, and the configuration before and after."""

    around: HostEnvironment
    sources: tuple[HostSource, ...]
    servers: tuple[Planned, ...]
    before: Target
    after: Target
    without_rules: bool = False

    @property
    def lacking(self) -> list[Planned]:
        """Servers in the configuration that have fewer restrictions than in their hosts."""
        return [server for server in self.servers if server.is_lacking]

    def takes(self, server: HostServer) -> bool:
        """Whether a host's server can be imported."""
        return server.converted is not None and (self.without_rules or not server.obstacles)

    @property
    def new(self) -> list[Planned]:
        return [server for server in self.servers if not server.is_there]

    @property
    def variables(self) -> dict[str, list[Planned]]:
        """Each variable that new servers need, with those servers."""
        needed: dict[str, list[Planned]] = {}
        for server in self.new:
            for name in server.variables:
                needed.setdefault(name, []).append(server)
        return needed

    def is_new(self, toolbox: str) -> bool:
        """Whether the import creates this toolbox."""
        return toolbox not in self.before.descriptions()

    def unknown(self, toolbox: str) -> list[Planned]:
        """The servers of a new toolbox whose purpose is unknown."""
        return [one for one in self.new if one.toolbox == toolbox and one.service is None and self.is_new(toolbox)]


def prepare_import(options: Mapping[str, str], before: Target) -> Import:
    """Plan an import. Raises `ConfigError` or `HostFileError`."""
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
    after = _add_restrictions(after, [server for server in servers if server.is_lacking])
    after.checked()
    return Import(around, sources, tuple(servers), before, after, without_rules)


def _chooser(options: Mapping[str, str], before: Target) -> Choose:
    """The function that assigns servers to toolboxes: by an option, or by purpose."""
    if "toolbox" in options and "by_host" in options:
        raise ConfigError("--toolbox and --by-host exclude each other", hint="Leave out one of them.")
    one = DEFAULT_TOOLBOX if before.is_bare else options.get("toolbox")

    def choose(found: Sequence[FoundServer]) -> list[Choice]:
        tools = _cached_tools(found, before)
        services = [_recognize(server.name, server.entry, names) for server, names in zip(found, tools, strict=True)]
        if one:
            toolboxes = [one] * len(found)
        elif "by_host" in options:
            toolboxes = [server.host for server in found]
        else:
            toolboxes = by_purpose(services, _configured_services(before))
        return [Choice(*pair) for pair in zip(toolboxes, services, strict=True)]

    return choose


def _configured_services(before: Target) -> dict[str, list[Service | None]]:
    """The purposes of the configured servers, by toolbox."""
    return {
        toolbox: [_recognize(name, entry) for name, entry in servers.items()]
        for toolbox, servers in before.servers().items()
    }


def _recognize(name: str, entry: Mapping[str, Any], tools: Sequence[str] = ()) -> Service | None:
    return recognize(Traits.of_entry(name, entry, tools).on_this_machine(os.environ))


def _cached_tools(found: Sequence[FoundServer], before: Target) -> list[list[str]]:
    """The cached tool names of each server, if a workbench listed them before."""
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


def _add_restrictions(target: Target, servers: list[Planned]) -> Target:
    """Add missing restrictions to configured servers."""
    for server in servers:
        place = target.place(server.toolbox, server.name)
        if server.filters:
            have = filters_of(target.servers()[server.toolbox][server.name])
            target = target.with_member((*place, KEY), [*have, *server.filters])
        if server.disables:
            target = target.with_member((*place, "disabled"), value=True)
    return target
