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
from mcp_workbench.hosts.registry import Entry, Host, HostEnvironment, HostFile
from mcp_workbench.hosts.restrictions.rules import filters_of, lacking
from mcp_workbench.hosts.variables import inherited_in, inputs_in, texts_of, values_of, variables_in

SERVE, CONFIG = "serve", "--config"
_NAME = "NAME"


class Movable(NamedTuple):
    """A server that could move from the host to the workbench."""

    server: HostServer
    others: tuple[str, ...]
    """Variables that another server needs with a different value. They keep it in the host."""
    lacks: tuple[str, ...] = ()
    """Restrictions of the host that the configuration lacks. They keep it in the host until it has them."""
    there: tuple[str, str] | None = None
    """Its toolbox and name in the configuration; None if it is not there."""

    held: bool = False
    """Whether a rule that can't be carried over keeps it in the host."""

    @property
    def stays(self) -> bool:
        """Whether it stays in the host."""
        return bool(self.others or self.lacks or self.held)


class Ours(NamedTuple):
    """The parts of an entry."""

    place: HostFile
    around: HostEnvironment
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
        return f"Ours({str(self.place.path)!r})"

    def entry(self, base: HostDocument, out: Sequence[Sequence[str]], held: Mapping[str, object]) -> Entry:
        """The entry. `base` is the file without it, `out` the servers to take out, and `held` an earlier entry."""
        host, passed = self.place.host, self._passed()
        flat = flattened(dict(held))
        entry: Entry = {**host.entry, **flat, **self.program}
        entry["args"] = [*entry["args"], *_added_words(flat.get("args"))]
        asked = {name: host.variable.replace(_NAME, name) for name in passed} if host.variable else {}
        variables = {**asked, **self.kept(base, out), **self._held(flat), **self.values}
        entry.pop(VARIABLES, None)
        if host.variables_key and not host.variable:
            names = _listed(passed, entry.pop(host.variables_key, []))
            listed = [one for one in names if variable_of(one) not in variables]
            entry |= {host.variables_key: listed} if listed else {}
        return entry | ({VARIABLES: variables} if variables else {})

    def kept(self, base: HostDocument, out: Sequence[Sequence[str]]) -> dict[str, str]:
        """The values of our variables in the servers that are taken out of the file."""
        gone = {tuple(path) for path in out}
        values: dict[str, str] = {}
        for server, there in self.matched(base):
            if server.path in gone:
                values |= self._values(base, server, there.entry)
        return values

    def movable(self, document: HostDocument, held: Mapping[str, object]) -> list[Movable]:
        """The servers of a file that the configuration has, and those whose rules keep them in the host.

        A variable has one value. A server stays if it needs another value than the entry or an earlier server.
        """
        values: dict[str, Any] = {**self._held(held), **self.values}
        servers: list[Movable] = []
        for server, there in self.matched(document):
            own = {
                name: one
                for name, one in self._values(document, server, there.entry).items()
                if name not in self.values
            }
            others = tuple(name for name, one in own.items() if values.get(name, one) != one)
            is_held = bool(server.obstacles) and not self.without_rules
            one = Movable(server, others, _lacks(server, there.entry), (there.toolbox, there.name), is_held)
            values |= {} if one.stays else own
            servers.append(one)
        known = {one.server.path for one in servers}
        kept_out = [one for one in servers_in(document, self.place, self.around) if one.obstacles]
        return [*servers, *(Movable(one, (), held=True) for one in kept_out if one.path not in known)]

    def _values(self, document: HostDocument, server: HostServer, written: Entry) -> dict[str, str]:
        """The values in the file for the variables of a server's entry in the configuration."""
        if server.moved is None:
            return {}
        raw = flattened(dict(cast("Entry", document.at(server.path))))
        asked = inputs_in(raw)
        values = {name: asked[name] for name in variables_in(written) if name in asked}
        values |= values_of(written, server.moved.entry)
        return values if self.place.host.references == "none" else values | texts_of(written, raw)

    def _held(self, held: Mapping[str, object]) -> dict[str, Any]:
        """The values in an existing entry."""
        flat = flattened(dict(held))
        return {name: _members(flat, VARIABLES)[name] for name in self.given(flat)}

    def matched(self, document: HostDocument) -> list[tuple[HostServer, ConfiguredServer]]:
        """The servers of a file that the configuration has, each with its configured entry."""
        found = [(one, one.moved.entry) for one in servers_in(document, self.place, self.around) if one.moved]
        wanted = [ConfiguredServer(self.place.host.key, server.name, entry) for server, entry in found]
        places = ConfiguredServers(self.existing, self.around.environ).find(wanted)
        pairs = zip((server for server, _ in found), places, strict=True)
        return [
            (server, ConfiguredServer(*place, self.existing[place[0]][place[1]]))
            for server, place in pairs
            if place is not None
        ]

    def given(self, entry: Mapping[str, object]) -> list[str]:
        """The variables whose values are in the entry itself."""
        host = self.place.host
        return [name for name, one in _members(entry, VARIABLES).items() if not _is_asked(host, name, one)]

    def missing(self, entry: Mapping[str, object]) -> list[str]:
        """The variables that servers need and that neither the entry nor the host nor the environment has."""
        known = {*self.given(entry), *self.place.host.sets, *self.around.environ}
        used = [one for one in self._entries() if one.get("disabled") is not True]
        return [name for name in dict.fromkeys(variables_in(used)) if name not in known]

    def _entries(self) -> list[Entry]:
        return [entry for servers in self.existing.values() for entry in servers.values()]

    def _passed(self) -> list[str]:
        """The variables that the configuration refers to, for a host that passes on only listed ones."""
        host = self.place.host
        if not host.variables_key:
            return []
        entries = self._entries()
        # A host that writes values would set a variable with a default to the empty string.
        needed = set(variables_in(entries))
        referred = variables_in(entries, with_defaults=True)
        chosen = [name for name in referred if not host.variable or name in needed or name in self.around.environ]
        inherited = (name for entry in entries for name in inherited_in(entry))
        return list(dict.fromkeys([*chosen, *self.inherited, *inherited]))


def _lacks(server: HostServer, written: Entry) -> tuple[str, ...]:
    """The restrictions of a server that its configured entry lacks."""
    filters = lacking(written, filters_of(server.moved.entry) if server.moved else ())
    is_off = any(rule.disables for rule in server.rules) and written.get("disabled") is not True
    return (*filters, *(("disabled",) if is_off else ()))


def _is_asked(host: Host, name: str, value: Any) -> bool:
    """Whether a value tells the host to pass on a variable of its own environment."""
    return bool(host.variable) and value == host.variable.replace(_NAME, name)


def _added_words(args: Any) -> list[str]:
    """The arguments that a user added after `serve`, without `--config`, which is written again."""
    words = [word for word in cast("list[Any]", args) if isinstance(word, str)] if isinstance(args, list) else []
    added = words[words.index(SERVE) + 1 :] if SERVE in words else []
    if CONFIG in added:
        at = added.index(CONFIG)
        del added[at : at + 2]
    return [word for word in added if not word.startswith(f"{CONFIG}=")]


def _listed(passed: Sequence[str], held: Any) -> list[Any]:
    """The variables that a host must pass on and those that the user listed, without duplicates."""
    listed = {variable_of(one): one for one in cast("list[Any]", held if isinstance(held, list) else [])}
    return list({**dict(zip(passed, passed, strict=True)), **listed}.values())


def _members(entry: Mapping[str, object], key: str) -> dict[str, Any]:
    held = entry.get(key)
    return cast("dict[str, Any]", held) if isinstance(held, dict) else {}
