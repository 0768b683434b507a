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
_SAME = ("command", "args", "env", "url", "headers", "cwd")


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
        self._places: dict[str, list[ConfiguredServer]] = {}
        for toolbox, servers in existing.items():
            for name, entry in servers.items():
                self._places.setdefault(_likeness(entry), []).append(ConfiguredServer(toolbox, name, entry))

    def find(self, servers: Sequence[ConfiguredServer]) -> list[tuple[str, str] | None]:
        """The toolbox and the name of each server here; None if it is new. Names of variables for secrets don't matter.

        A toolbox or a name with the key of the host matches first, then the same name: several hosts may have the same
        server with different accounts.
        """
        found: list[tuple[str, str] | None] = [None] * len(servers)
        for fits in (self._is_of_host, self._is_namesake, self._is_alike):
            for number, one in enumerate(servers):
                if found[number] is None:
                    found[number] = self._take(one, fits)
        return found

    def _take(
        self, one: ConfiguredServer, fits: Callable[[ConfiguredServer, ConfiguredServer], bool]
    ) -> tuple[str, str] | None:
        places = self._places.get(_likeness(one.entry), [])
        for place in places:
            if fits(place, one):
                places.remove(place)
                return place.toolbox, place.name
        return None

    def _is_of_host(self, there: ConfiguredServer, one: ConfiguredServer) -> bool:
        by_host = (there.toolbox, there.name) == (one.toolbox, one.name)
        return by_host or there.name == _with_host(one.name, one.toolbox)

    def _is_namesake(self, there: ConfiguredServer, one: ConfiguredServer) -> bool:
        return there.name == one.name and self._is_alike(there, one)

    def _is_alike(self, there: ConfiguredServer, one: ConfiguredServer) -> bool:
        return not _differs(_essential(there.entry), _essential(one.entry), self._environ)


def _differs(written: Any, found: Any, environ: Mapping[str, str]) -> bool:
    """Whether the variables that are set show that two similar entries differ, for example in their accounts."""
    if isinstance(written, Mapping) and isinstance(found, Mapping):
        pairs = [(one, cast("Entry", found).get(key)) for key, one in cast("Entry", written).items()]
        return any(_differs(one, other, environ) for one, other in pairs)
    if isinstance(written, list) and isinstance(found, list):
        items = zip(cast("list[Any]", written), cast("list[Any]", found), strict=False)
        return any(_differs(one, other, environ) for one, other in items)
    if not isinstance(written, str) or not isinstance(found, str):
        return False
    ours, theirs = expand(written, environ), expand(found, environ)
    return not ours.missing and not theirs.missing and ours.text != theirs.text


def _identity(entry: Mapping[str, Any]) -> str:
    """A key that is equal for entries of the same server."""
    return json.dumps(_essential(entry), sort_keys=True)


def _essential(entry: Mapping[str, Any]) -> Entry:
    """The parts of an entry that identify the server, without filters and limits."""
    return {key: entry[key] for key in _SAME if entry.get(key)}


def _likeness(entry: Entry) -> str:
    """A key for similar entries: secrets and references are replaced by the same placeholder."""
    return _REFERENCE.sub("${}", _identity(without_secrets(entry, "", Variables())))


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
        self._found: dict[str, FoundServer] = {}

    def add(self, source: HostSource) -> None:
        """Add the servers of a file."""
        host = source.place.host
        for server in source.servers:
            if server.moved is not None and (self._without_rules or not server.obstacles):
                off = any(rule.disables for rule in server.rules)
                found = FoundServer(server.name, server.moved.entry, host.key, (host.title,), off)
                same = self._found.setdefault(_identity(found.entry), found)
                titles = tuple(dict.fromkeys((*same.sources, host.title)))
                entry = strictest(same.entry, found.entry)
                both = same._replace(entry=entry, sources=titles, disables=same.disables or off)
                self._found[_identity(found.entry)] = both

    def servers(self, choose: Choose) -> list[Planned]:
        """All servers with their toolboxes and names."""
        found = list(self._found.values())
        known = ConfiguredServers(self._existing, self._environ).find(
            [ConfiguredServer(one.host, one.name, one.entry) for one in found]
        )
        choices = iter(choose([one for one, there in zip(found, known, strict=True) if there is None]))
        taken = {name: set(servers) for name, servers in self._existing.items()}
        variables = Variables(self._referred(), self._environ)
        planned: list[Planned] = []
        for one, there in zip(found, known, strict=True):
            if there is not None:
                planned.append(self._known(one, *there))
                continue
            toolbox, service = next(choices)
            name = _free(one.name, one.host, taken.setdefault(toolbox, set()))
            entry = without_secrets(one.entry, one.name, variables)
            planned.append(Planned(toolbox, name, entry, one.sources, service))
        return planned

    def _known(self, one: FoundServer, toolbox: str, name: str) -> Planned:
        """A server that the configuration has, with the restrictions of its hosts that it lacks there."""
        written = self._existing[toolbox][name]
        missing = lacking(written, filters_of(one.entry))
        if any(not have.startswith("!") for have in filters_of(written)):
            missing = [needed for needed in missing if needed.startswith("!")]  # the user chose the others
        disables = one.disables and written.get("disabled") is not True
        return Planned(toolbox, name, one.entry, one.sources, is_there=True, filters=tuple(missing), disables=disables)

    def _referred(self) -> Iterator[str]:
        """The variables that known and new servers already read from the environment."""
        yield from self._inherited
        written = [entry for servers in self._existing.values() for entry in servers.values()]
        for entry in (*written, *(one.entry for one in self._found.values())):
            yield from (*variables_in(entry, with_defaults=True), *inherited_in(entry))


def with_shared_rules(sources: Iterable[HostSource]) -> list[HostSource]:
    """The same files. A server that several hosts have gets the rules of all of them."""
    files = list(sources)
    rules: dict[str, list[tuple[str, Rule]]] = {}
    for source in files:
        for server in source.servers:
            if server.moved is not None:
                held = rules.setdefault(_identity(server.moved.entry), [])
                held += [(source.place.host.title, rule) for rule in server.rules]
    return [
        source._replace(servers=tuple(_with_rules(server, source.place.host.title, rules) for server in source.servers))
        for source in files
    ]


def _with_rules(server: HostServer, title: str, rules: Mapping[str, list[tuple[str, Rule]]]) -> HostServer:
    if server.moved is None:
        return server
    others = [(of, rule) for of, rule in rules[_identity(server.moved.entry)] if of != title]
    return server.restricted((*server.rules, *(rule._replace(text=f"{of}: {rule.text}") for of, rule in others)))


def _free(name: str, host: str, taken: set[str]) -> str:
    """Reserve a free name, if necessary with the key of the host or a number."""
    base = _usable(name)
    names = chain((base, _with_host(base, host)), (f"{base}-{number}" for number in count(2)))
    chosen = next(one for one in names if one not in taken)
    taken.add(chosen)
    return chosen


def _with_host(name: str, host: str) -> str:
    """The name of a server in a toolbox that already has this name."""
    return f"{_usable(name)}-{host}"


def _usable(name: str) -> str:
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
    number = len(new) + sum(map(len, existing.values()))
    if number <= FEW and len(existing) <= 1:
        return [next(iter(existing), _common(new))] * len(new)
    homes = {purpose: name for name, services in existing.items() if (purpose := _common(services)) != MAIN}
    wanted = [service.toolbox if service is not None else OTHER for service in new]
    return [name if name in existing else homes.get(name, name) for name in wanted]


def _common(services: Services) -> str:
    """The proposed toolbox that all of them share, or `MAIN`."""
    purposes = {service.toolbox if service is not None else OTHER for service in services}
    return purposes.pop() if len(purposes) == 1 and OTHER not in purposes else MAIN
