"""The entry with which a host starts the workbench, and the variables that it is given there.

Guarantees: what a person added to an earlier entry stays, and so does a value that was changed there. A value that the
entry gets stood in the same file before, in a server that is taken out of it, or was asked for by its name.
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
    """A server that the workbench has too."""

    server: HostServer
    others: tuple[str, ...]
    """Variables of which it needs another value than there is: it can't be moved."""
    lacks: tuple[str, ...] = ()
    """The restrictions of the host that the configuration lacks: it can't be moved until that has them."""
    there: tuple[str, str] | None = None
    """The toolbox and the name that it has in the configuration; None where it is not there."""

    held: bool = False
    """Whether a rule that can't be carried over keeps it in the host."""

    @property
    def stays(self) -> bool:
        """Whether it is not taken out of the host."""
        return bool(self.others or self.lacks or self.held)


class Ours(NamedTuple):
    """What an entry is made of."""

    place: HostFile
    around: HostEnvironment
    program: Mapping[str, object]
    """Its command and arguments."""
    existing: Existing
    """The servers of the configuration that the workbench will use."""
    values: Mapping[str, str] = {}
    """What a person wants in it, by the names of variables."""
    inherited: Sequence[str] = ()
    """Variables that the configuration lets every server inherit."""
    without_rules: bool = False
    """Whether servers are moved though rules of the host are lost."""

    def __repr__(self) -> str:
        return f"Ours({str(self.place.path)!r})"

    def entry(self, base: HostDocument, out: Sequence[Sequence[str]], held: Mapping[str, object]) -> Entry:
        """The entry, for a file without it, servers that are taken out of that, and an entry that is there already."""
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
        """What the file has for our variables, in the servers that are taken out of it."""
        gone = {tuple(path) for path in out}
        values: dict[str, str] = {}
        for server, there in self.matched(base):
            if server.path in gone:
                values |= self._values(base, server, there.entry)
        return values

    def movable(self, document: HostDocument, held: Mapping[str, object]) -> list[Movable]:
        """The servers of a file that the configuration has, and those whose rules keep them out of it.

        A variable has one value: a server that needs another one, than the entry has or a server before it, stays.
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
        """What a server of a file has for the variables of its entry here."""
        if server.moved is None:
            return {}
        raw = flattened(dict(cast("Entry", document.at(server.path))))
        asked = inputs_in(raw)
        values = {name: asked[name] for name in variables_in(written) if name in asked}
        values |= values_of(written, server.moved.entry)
        return values if self.place.host.references == "none" else values | texts_of(written, raw)

    def _held(self, held: Mapping[str, object]) -> dict[str, Any]:
        """The values that an entry has already."""
        flat = flattened(dict(held))
        return {name: _members(flat, VARIABLES)[name] for name in self.given(flat)}

    def matched(self, document: HostDocument) -> list[tuple[HostServer, ConfiguredServer]]:
        """The servers of a file that the configuration has, each with its entry there."""
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
        """The variables whose values stand in the entry itself."""
        host = self.place.host
        return [name for name, one in _members(entry, VARIABLES).items() if not _is_asked(host, name, one)]

    def missing(self, entry: Mapping[str, object]) -> list[str]:
        """Variables that servers need, which neither the entry, the host nor the environment here has."""
        known = {*self.given(entry), *self.place.host.sets, *self.around.environ}
        used = [one for one in self._entries() if one.get("disabled") is not True]
        return [name for name in dict.fromkeys(variables_in(used)) if name not in known]

    def _entries(self) -> list[Entry]:
        return [entry for servers in self.existing.values() for entry in servers.values()]

    def _passed(self) -> list[str]:
        """The variables that the configuration refers to, for a host that passes on only those that it is told."""
        host = self.place.host
        if not host.variables_key:
            return []
        entries = self._entries()
        # Of a variable with a default, a host that writes values would make one that is set, and empty.
        needed = set(variables_in(entries))
        referred = variables_in(entries, with_defaults=True)
        chosen = [name for name in referred if not host.variable or name in needed or name in self.around.environ]
        inherited = (name for entry in entries for name in inherited_in(entry))
        return list(dict.fromkeys([*chosen, *self.inherited, *inherited]))


def _lacks(server: HostServer, written: Entry) -> tuple[str, ...]:
    """The restrictions of a server that its entry in the configuration lacks."""
    filters = lacking(written, filters_of(server.moved.entry) if server.moved else ())
    is_off = any(rule.disables for rule in server.rules) and written.get("disabled") is not True
    return (*filters, *(("disabled",) if is_off else ()))


def _is_asked(host: Host, name: str, value: Any) -> bool:
    """Whether a value is how the host is told to pass on a variable of its own environment."""
    return bool(host.variable) and value == host.variable.replace(_NAME, name)


def _added_words(args: Any) -> list[str]:
    """What a person wrote behind `serve`; which configuration it is, is said anew."""
    words = [word for word in cast("list[Any]", args) if isinstance(word, str)] if isinstance(args, list) else []
    added = words[words.index(SERVE) + 1 :] if SERVE in words else []
    if CONFIG in added:
        at = added.index(CONFIG)
        del added[at : at + 2]
    return [word for word in added if not word.startswith(f"{CONFIG}=")]


def _listed(passed: Sequence[str], held: Any) -> list[Any]:
    """The names that a host is to pass on, and what a person listed, each once."""
    listed = {variable_of(one): one for one in cast("list[Any]", held if isinstance(held, list) else [])}
    return list({**dict(zip(passed, passed, strict=True)), **listed}.values())


def _members(entry: Mapping[str, object], key: str) -> dict[str, Any]:
    held = entry.get(key)
    return cast("dict[str, Any]", held) if isinstance(held, dict) else {}
