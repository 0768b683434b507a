"""Plans an import: the servers of all hosts without duplicates and secrets, sorted into toolboxes.

Guarantees: a planned entry has variables in place of secrets. A server that several hosts have gets the restrictions
of all of them. It writes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, Final, NamedTuple, cast

from mcp_workbench.config.environment import expand
from mcp_workbench.doctor.recognition import OTHER, Service, summary
from mcp_workbench.hosts.discovery import HostServer, HostSource
from mcp_workbench.hosts.registry import Entry
from mcp_workbench.hosts.restrictions import Rule
from mcp_workbench.hosts.restrictions.rules import filters_of, lacking, strictest
from mcp_workbench.hosts.secrets import Variables, without_secrets
from mcp_workbench.hosts.variables import inherited_in, variables_in
from mcp_workbench.identity import NAME_LENGTH

_REFERENCE = re.compile(r"\$\{[^}]*\}")
_SUFFIX_LENGTH = len("-claude-desktop")
_IDENTIFYING_KEYS = ("command", "args", "env", "url", "headers", "cwd")


Existing = Mapping[str, Mapping[str, Entry]]
"""The entries of a configuration, by toolbox and name."""


class FoundServer(NamedTuple):
    """A server of a host in our form, with its secrets."""

    name: str
    entry: Entry
    host: str
    sources: tuple[str, ...]
    disables: bool = False
    """Whether a rule of the host turns it off."""

    def __repr__(self) -> str:
        return f"FoundServer({self.name!r}, {self.host!r})"


class Planned(NamedTuple):
    """A server as the import will write it."""

    toolbox: str
    name: str
    entry: Entry
    sources: tuple[str, ...]
    """The hosts that have it, by title."""
    service: Service | None = None
    """The service of a new server, if it was recognized."""
    is_there: bool = False
    """Whether the configuration has it already. Then the import adds only missing restrictions."""
    filters: tuple[str, ...] = ()
    """The filters that the configured entry lacks."""
    disables: bool = False
    """Whether the configured entry lacks `disabled`."""

    def __repr__(self) -> str:
        return f"Planned({self.toolbox!r}, {self.name!r})"

    @property
    def is_lacking(self) -> bool:
        """Whether the configured entry has fewer restrictions than the hosts."""
        return bool(self.filters or self.disables)

    @property
    def variables(self) -> list[str]:
        """The environment variables that it needs, in order."""
        return list(dict.fromkeys(variables_in(self.entry)))


class Choice(NamedTuple):
    """The toolbox of a new server, and its service."""

    toolbox: str
    service: Service | None = None


Choose = Callable[[Sequence[FoundServer]], Sequence[Choice]]
"""Chooses a toolbox for each of the new servers."""


class ConfiguredServer(NamedTuple):
    """An entry with its toolbox and name. For a server of a host, `toolbox` is the key of the host."""

    toolbox: str
    name: str
    entry: Entry

    def __repr__(self) -> str:
        return f"ConfiguredServer({self.toolbox!r}, {self.name!r})"


class ConfiguredServers:
    """The servers of a configuration. Each can match one server of a host."""

    def __init__(self, existing: Existing, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._by_likeness: dict[str, list[ConfiguredServer]] = {}
        for toolbox, servers in existing.items():
            for name, entry in servers.items():
                self._by_likeness.setdefault(_similarity_key(entry), []).append(ConfiguredServer(toolbox, name, entry))

    def find(self, servers: Sequence[ConfiguredServer]) -> list[tuple[str, str] | None]:
        """The toolbox and the name of each server here; None if it is new. Names of variables for secrets don't matter.

        A toolbox or a name with the key of the host matches first, then the same name: several hosts may have the same
        server with different accounts.
        """
        matches: list[tuple[str, str] | None] = [None] * len(servers)
        for fits in (self._is_of_host, self._is_namesake, self._is_alike):
            for index, server in enumerate(servers):
                if matches[index] is None:
                    matches[index] = self._take(server, fits)
        return matches

    def _take(
        self, server: ConfiguredServer, fits: Callable[[ConfiguredServer, ConfiguredServer], bool]
    ) -> tuple[str, str] | None:
        candidates = self._by_likeness.get(_similarity_key(server.entry), [])
        for candidate in candidates:
            if fits(candidate, server):
                candidates.remove(candidate)
                return candidate.toolbox, candidate.name
        return None

    def _is_of_host(self, configured: ConfiguredServer, server: ConfiguredServer) -> bool:
        by_host = (configured.toolbox, configured.name) == (server.toolbox, server.name)
        return by_host or configured.name == _with_host(server.name, server.toolbox)

    def _is_namesake(self, configured: ConfiguredServer, server: ConfiguredServer) -> bool:
        return configured.name == server.name and self._is_alike(configured, server)

    def _is_alike(self, configured: ConfiguredServer, server: ConfiguredServer) -> bool:
        return not _differs(_identifying_parts(configured.entry), _identifying_parts(server.entry), self._environ)


def _differs(configured: Any, imported: Any, environ: Mapping[str, str]) -> bool:
    """Whether the variables that are set show that two similar entries differ, for example in their accounts."""
    if isinstance(configured, Mapping) and isinstance(imported, Mapping):
        pairs = [(value, cast("Entry", imported).get(key)) for key, value in cast("Entry", configured).items()]
        return any(_differs(value, counterpart, environ) for value, counterpart in pairs)
    if isinstance(configured, list) and isinstance(imported, list):
        items = zip(cast("list[Any]", configured), cast("list[Any]", imported), strict=False)
        return any(_differs(value, counterpart, environ) for value, counterpart in items)
    if not isinstance(configured, str) or not isinstance(imported, str):
        return False
    ours, theirs = expand(configured, environ), expand(imported, environ)
    return not ours.missing and not theirs.missing and ours.text != theirs.text


def _identity_key(entry: Mapping[str, Any]) -> str:
    """A key that is equal for entries of the same server."""
    return json.dumps(_identifying_parts(entry), sort_keys=True)


def _identifying_parts(entry: Mapping[str, Any]) -> Entry:
    """The parts of an entry that identify the server, without filters and limits."""
    return {key: entry[key] for key in _IDENTIFYING_KEYS if entry.get(key)}


def _similarity_key(entry: Entry) -> str:
    """A key for similar entries: secrets and references are replaced by the same placeholder."""
    return _REFERENCE.sub("${}", _identity_key(without_secrets(entry, "", Variables())))


class Plan:
    """Collects the servers of an import."""

    def __init__(
        self,
        existing: Existing,
        environ: Mapping[str, str],
        inherited: Sequence[str] = (),
        *,
        without_rules: bool = False,
    ) -> None:
        """`existing` are the entries of the configuration.

        `inherited` are the variables that the configuration lets every server inherit. `without_rules` includes servers
        even if rules of their hosts are lost.
        """
        self._without_rules = without_rules
        self._existing = existing
        self._inherited = inherited
        self._environ = environ
        self._servers: dict[str, FoundServer] = {}

    def add(self, source: HostSource) -> None:
        """Add the servers of a file."""
        host = source.host_file.host
        for server in source.servers:
            if server.converted is not None and (self._without_rules or not server.obstacles):
                is_disabled = any(rule.disables for rule in server.rules)
                candidate = FoundServer(server.name, server.converted.entry, host.key, (host.title,), is_disabled)
                first = self._servers.setdefault(_identity_key(candidate.entry), candidate)
                titles = tuple(dict.fromkeys((*first.sources, host.title)))
                entry = strictest(first.entry, candidate.entry)
                merged = first._replace(entry=entry, sources=titles, disables=first.disables or is_disabled)
                self._servers[_identity_key(candidate.entry)] = merged

    def servers(self, choose: Choose) -> list[Planned]:
        """All servers with their toolboxes and names."""
        servers = list(self._servers.values())
        matches = ConfiguredServers(self._existing, self._environ).find(
            [ConfiguredServer(server.host, server.name, server.entry) for server in servers]
        )
        choices = iter(
            choose([server for server, configured in zip(servers, matches, strict=True) if configured is None])
        )
        taken = {name: set(servers) for name, servers in self._existing.items()}
        variables = Variables(self._referenced_variables(), self._environ)
        planned: list[Planned] = []
        for server, configured in zip(servers, matches, strict=True):
            if configured is not None:
                planned.append(self._already_configured(server, *configured))
                continue
            toolbox, service = next(choices)
            name = _free_name(server.name, server.host, taken.setdefault(toolbox, set()))
            entry = without_secrets(server.entry, server.name, variables)
            planned.append(Planned(toolbox, name, entry, server.sources, service))
        return planned

    def _already_configured(self, server: FoundServer, toolbox: str, name: str) -> Planned:
        """A server that the configuration has, with the restrictions of its hosts that it lacks there."""
        configured = self._existing[toolbox][name]
        missing = lacking(configured, filters_of(server.entry))
        if any(not pattern.startswith("!") for pattern in filters_of(configured)):
            missing = [pattern for pattern in missing if pattern.startswith("!")]  # the user chose the others
        disables = server.disables and configured.get("disabled") is not True
        return Planned(
            toolbox, name, server.entry, server.sources, is_there=True, filters=tuple(missing), disables=disables
        )

    def _referenced_variables(self) -> Iterator[str]:
        """The variables that known and new servers already read from the environment."""
        yield from self._inherited
        entries = [entry for servers in self._existing.values() for entry in servers.values()]
        for entry in (*entries, *(server.entry for server in self._servers.values())):
            yield from (*variables_in(entry, with_defaults=True), *inherited_in(entry))


def with_shared_rules(sources: Iterable[HostSource]) -> list[HostSource]:
    """The same files. A server that several hosts have gets the rules of all of them."""
    all_sources = list(sources)
    rules: dict[str, list[tuple[str, Rule]]] = {}
    for source in all_sources:
        for server in source.servers:
            if server.converted is not None:
                server_rules = rules.setdefault(_identity_key(server.converted.entry), [])
                server_rules += [(source.host_file.host.title, rule) for rule in server.rules]
    return [
        source._replace(
            servers=tuple(_with_rules(server, source.host_file.host.title, rules) for server in source.servers)
        )
        for source in all_sources
    ]


def _with_rules(server: HostServer, title: str, rules: Mapping[str, list[tuple[str, Rule]]]) -> HostServer:
    if server.converted is None:
        return server
    foreign = [(host, rule) for host, rule in rules[_identity_key(server.converted.entry)] if host != title]
    return server.restricted((*server.rules, *(rule._replace(text=f"{host}: {rule.text}") for host, rule in foreign)))


def _free_name(name: str, host: str, taken: set[str]) -> str:
    """Reserve a free name, if necessary with the key of the host or a number."""
    base = _cleaned_name(name)
    names = chain((base, _with_host(base, host)), (f"{base}-{number}" for number in count(2)))
    free_name = next(candidate for candidate in names if candidate not in taken)
    taken.add(free_name)
    return free_name


def _with_host(name: str, host: str) -> str:
    """The name of a server in a toolbox that already has this name."""
    return f"{_cleaned_name(name)}-{host}"


def _cleaned_name(name: str) -> str:
    """A name that the configuration accepts."""
    cleaned = re.sub(r"[\x00-\x1f\x7f-\x9f]", "", name)[: NAME_LENGTH - _SUFFIX_LENGTH]
    return cleaned or "server"


def described(servers: Iterable[Planned]) -> str:
    """The description of a new toolbox."""
    return summary((server.name, server.service) for server in servers)


def by_toolbox(servers: Iterable[Planned]) -> Iterator[tuple[str, list[Planned]]]:
    """The servers by toolbox, in order. The toolbox of unrecognized servers comes last."""
    grouped: dict[str, list[Planned]] = {}
    for server in sorted(servers, key=lambda server: server.toolbox == OTHER):
        grouped.setdefault(server.toolbox, []).append(server)
    yield from grouped.items()


FEW: Final = 3
"""Up to this many servers share one toolbox: a choice between toolboxes would not help an agent."""
MAIN: Final = "main"
"""The toolbox of a few servers with different purposes."""

Services = Sequence[Service | None]
"""The services of some servers; None for one that was not recognized."""


def by_purpose(new: Services, existing: Mapping[str, Services]) -> list[str]:
    """A toolbox for each new server. `existing` are the servers of the configuration, by toolbox.

    Servers with the same purpose share a toolbox. If all servers of an existing toolbox have that purpose, the new ones
    join it under any name.
    """
    total = len(new) + sum(map(len, existing.values()))
    if total <= FEW and len(existing) <= 1:
        return [next(iter(existing), _common(new))] * len(new)
    toolbox_of_purpose = {
        purpose: name for name, services in existing.items() if (purpose := _common(services)) != MAIN
    }
    proposed = [service.toolbox if service is not None else OTHER for service in new]
    return [name if name in existing else toolbox_of_purpose.get(name, name) for name in proposed]


def _common(services: Services) -> str:
    """The proposed toolbox that all of them share, or `MAIN`."""
    purposes = {service.toolbox if service is not None else OTHER for service in services}
    return purposes.pop() if len(purposes) == 1 and OTHER not in purposes else MAIN
