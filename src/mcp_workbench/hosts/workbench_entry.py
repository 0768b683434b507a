"""Builds the entry with which a host starts the workbench, with the variables that its servers need.

Guarantees: additions and changed values that a user made in an earlier entry stay. Every value in the entry comes from
a server that is taken out of the same file, or the user asked for it by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_workbench.hosts.conversion import flattened, variable_of
from mcp_workbench.hosts.discovery import HostServer, servers_in
from mcp_workbench.hosts.documents import HostDocument
from mcp_workbench.hosts.import_plan import ConfiguredServer, ConfiguredServers, Existing
from mcp_workbench.hosts.installation import VARIABLES
from mcp_workbench.hosts.registry import Entry, Host, HostEnvironment, HostFile, list_of, object_of
from mcp_workbench.hosts.restrictions.rules import filters_of, lacking
from mcp_workbench.hosts.variables import inherited_in, inputs_in, texts_of, values_of, variables_in

SERVE, CONFIG = "serve", "--config"
_NAME = "NAME"


class Movable(NamedTuple):
    """A server that could move from the host to the workbench."""

    server: HostServer
    conflicting: tuple[str, ...]
    """Variables that another server needs with a different value. They keep it in the host."""
    lacking: tuple[str, ...] = ()
    """Restrictions of the host that the configuration lacks. They keep it in the host until it has them."""
    configured: tuple[str, str] | None = None
    """Its toolbox and name in the configuration; None if it is not there."""

    is_held: bool = False
    """Whether a rule that can't be carried over keeps it in the host."""

    @property
    def stays(self) -> bool:
        """Whether it stays in the host."""
        return bool(self.conflicting or self.lacking or self.is_held)


class WorkbenchEntry(NamedTuple):
    """The parts of an entry."""

    host_file: HostFile
    environment: HostEnvironment
    program: Mapping[str, object]
    """Its command and arguments."""
    existing: Existing
    """The servers of the configuration that the workbench will use."""
    values: Mapping[str, str] = {}
    """Values that the user gave for variables."""
    inherited: Sequence[str] = ()
    """The variables that the configuration lets every server inherit."""
    without_rules: bool = False
    """Whether servers move even if rules of the host are lost."""

    def __repr__(self) -> str:
        return f"Ours({str(self.host_file.path)!r})"

    def entry(self, base: HostDocument, removed: Sequence[Sequence[str]], current: Mapping[str, object]) -> Entry:
        """The entry. `base` is the file without it, `out` the servers to take out, and `held` an earlier entry."""
        host, passed = self.host_file.host, self._passed_variables()
        flat = flattened(dict(current))
        entry: Entry = {**host.entry, **flat, **self.program}
        entry["args"] = [*entry["args"], *_added_arguments(flat.get("args"))]
        references = {name: host.variable.replace(_NAME, name) for name in passed} if host.variable else {}
        variables = {**references, **self.kept(base, removed), **self._values_in(flat), **self.values}
        entry.pop(VARIABLES, None)
        if host.variables_key and not host.variable:
            names = _listed_variables(passed, entry.pop(host.variables_key, []))
            listed = [variable for variable in names if variable_of(variable) not in variables]
            entry |= {host.variables_key: listed} if listed else {}
        return entry | ({VARIABLES: variables} if variables else {})

    def kept(self, base: HostDocument, removed: Sequence[Sequence[str]]) -> dict[str, str]:
        """The values of our variables in the servers that are taken out of the file."""
        removed_paths = {tuple(path) for path in removed}
        values: dict[str, str] = {}
        for server, configured in self.matched(base):
            if server.path in removed_paths:
                values |= self._values(base, server, configured.entry)
        return values

    def movable(self, document: HostDocument, current: Mapping[str, object]) -> list[Movable]:
        """The servers of a file that the configuration has, and those whose rules keep them in the host.

        A variable has one value. A server stays if it needs another value than the entry or an earlier server.
        """
        values: dict[str, Any] = {**self._values_in(current), **self.values}
        servers: list[Movable] = []
        for server, there in self.matched(document):
            own_values = {
                name: candidate
                for name, candidate in self._values(document, server, there.entry).items()
                if name not in self.values
            }
            conflicting = tuple(
                name for name, candidate in own_values.items() if values.get(name, candidate) != candidate
            )
            is_held = bool(server.obstacles) and not self.without_rules
            candidate = Movable(
                server, conflicting, _lacking_restrictions(server, there.entry), (there.toolbox, there.name), is_held
            )
            values |= {} if candidate.stays else own_values
            servers.append(candidate)
        paths = {candidate.server.path for candidate in servers}
        kept_out = [
            candidate for candidate in servers_in(document, self.host_file, self.environment) if candidate.obstacles
        ]
        return [
            *servers,
            *(Movable(candidate, (), is_held=True) for candidate in kept_out if candidate.path not in paths),
        ]

    def _values(self, document: HostDocument, server: HostServer, configured: Entry) -> dict[str, str]:
        """The values in the file for the variables of a server's entry in the configuration."""
        if server.converted is None:
            return {}
        raw = flattened(dict(cast("Entry", document.at(server.path))))
        prompts = inputs_in(raw)
        values = {name: prompts[name] for name in variables_in(configured) if name in prompts}
        values |= values_of(configured, server.converted.entry)
        return values if self.host_file.host.references == "none" else values | texts_of(configured, raw)

    def _values_in(self, current: Mapping[str, object]) -> dict[str, Any]:
        """The values in an existing entry."""
        flat = flattened(dict(current))
        return {name: object_of(flat.get(VARIABLES))[name] for name in self.given(flat)}

    def matched(self, document: HostDocument) -> list[tuple[HostServer, ConfiguredServer]]:
        """The servers of a file that the configuration has, each with its configured entry."""
        converted_servers = [
            (server, server.converted.entry)
            for server in servers_in(document, self.host_file, self.environment)
            if server.converted
        ]
        candidates = [
            ConfiguredServer(self.host_file.host.key, server.name, entry) for server, entry in converted_servers
        ]
        matches = ConfiguredServers(self.existing, self.environment.environ).find(candidates)
        pairs = zip((server for server, _ in converted_servers), matches, strict=True)
        return [
            (server, ConfiguredServer(*match, self.existing[match[0]][match[1]]))
            for server, match in pairs
            if match is not None
        ]

    def given(self, entry: Mapping[str, object]) -> list[str]:
        """The variables whose values are in the entry itself."""
        host = self.host_file.host
        return [name for name, value in object_of(entry.get(VARIABLES)).items() if not _is_passed_on(host, name, value)]

    def missing(self, entry: Mapping[str, object]) -> list[str]:
        """The variables that servers need and that neither the entry nor the host nor the environment has."""
        known = {*self.given(entry), *self.host_file.host.sets, *self.environment.environ}
        used = [entry for entry in self._entries() if entry.get("disabled") is not True]
        return [name for name in dict.fromkeys(variables_in(used)) if name not in known]

    def _entries(self) -> list[Entry]:
        return [entry for servers in self.existing.values() for entry in servers.values()]

    def _passed_variables(self) -> list[str]:
        """The variables that the configuration refers to, for a host that passes on only listed ones."""
        host = self.host_file.host
        if not host.variables_key:
            return []
        entries = self._entries()
        # A host that writes values would set a variable with a default to the empty string.
        needed = set(variables_in(entries))
        referred = variables_in(entries, with_defaults=True)
        chosen = [name for name in referred if not host.variable or name in needed or name in self.environment.environ]
        inherited = (name for entry in entries for name in inherited_in(entry))
        return list(dict.fromkeys([*chosen, *self.inherited, *inherited]))


def _lacking_restrictions(server: HostServer, configured: Entry) -> tuple[str, ...]:
    """The restrictions of a server that its configured entry lacks."""
    filters = lacking(configured, filters_of(server.converted.entry) if server.converted else ())
    is_off = any(rule.disables for rule in server.rules) and configured.get("disabled") is not True
    return (*filters, *(("disabled",) if is_off else ()))


def _is_passed_on(host: Host, name: str, value: Any) -> bool:
    """Whether a value tells the host to pass on a variable of its own environment."""
    return bool(host.variable) and value == host.variable.replace(_NAME, name)


def _added_arguments(args: Any) -> list[str]:
    """The arguments that a user added after `serve`, without `--config`, which is written again."""
    words = [word for word in list_of(args) if isinstance(word, str)]
    added = words[words.index(SERVE) + 1 :] if SERVE in words else []
    if CONFIG in added:
        at = added.index(CONFIG)
        del added[at : at + 2]
    return [word for word in added if not word.startswith(f"{CONFIG}=")]


def _listed_variables(passed: Sequence[str], current: Any) -> list[Any]:
    """The variables that a host must pass on and those that the user listed, without duplicates."""
    listed = {variable_of(item): item for item in list_of(current)}
    return list({**dict(zip(passed, passed, strict=True)), **listed}.values())
