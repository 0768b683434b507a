"""What an import writes: the servers of all files, each once, in toolboxes, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from mcp_workbench.config.expand import expand
from mcp_workbench.hosts.entries import Entry
from mcp_workbench.hosts.found import Source
from mcp_workbench.hosts.references import inherited_in, variables_in
from mcp_workbench.hosts.secrets import Variables, without_secrets
from mcp_workbench.limits import DEFAULTS

_REFERENCE = re.compile(r"\$\{[^}]*\}")
_SAME = ("command", "args", "env", "url", "headers", "cwd")


Existing = Mapping[str, Mapping[str, Entry]]
"""The entries of a configuration, by toolbox and name."""


class Found(NamedTuple):
    """A server as a host has it, in our form: it holds its secrets."""

    name: str
    entry: Entry
    host: str
    sources: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Found({self.name!r}, {self.host!r})"


class Planned(NamedTuple):
    """A server as it is written."""

    toolbox: str
    name: str
    entry: Entry
    sources: tuple[str, ...]
    """The hosts that have it, by title."""
    is_there: bool = False
    """Whether the configuration has it already; then nothing is written."""

    def __repr__(self) -> str:
        return f"Planned({self.toolbox!r}, {self.name!r})"

    @property
    def variables(self) -> list[str]:
        """What it needs from the environment, in order."""
        return list(dict.fromkeys(variables_in(self.entry)))


class Standing(NamedTuple):
    """An entry, and where it stands in the configuration or would come to."""

    toolbox: str
    name: str
    entry: Entry

    def __repr__(self) -> str:
        return f"Standing({self.toolbox!r}, {self.name!r})"


class Matches:
    """The servers that a configuration has, each to be found once."""

    def __init__(self, existing: Existing, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._places: dict[str, list[Standing]] = {}
        for toolbox, servers in existing.items():
            for name, entry in servers.items():
                self._places.setdefault(_likeness(entry), []).append(Standing(toolbox, name, entry))

    def find(self, servers: Sequence[Standing]) -> list[tuple[str, str] | None]:
        """Where each of them is, whatever the variables for its secrets are called.

        The same place comes first, then the same name: several hosts may have one server, each with its account.
        """
        found: list[tuple[str, str] | None] = [None] * len(servers)
        for fits in (self._is_in_place, self._is_namesake, self._is_alike):
            for number, one in enumerate(servers):
                if found[number] is None:
                    found[number] = self._take(one, fits)
        return found

    def _take(self, one: Standing, fits: Callable[[Standing, Standing], bool]) -> tuple[str, str] | None:
        places = self._places.get(_likeness(one.entry), [])
        for place in places:
            if fits(place, one):
                places.remove(place)
                return place.toolbox, place.name
        return None

    def _is_in_place(self, there: Standing, one: Standing) -> bool:
        return (there.toolbox, there.name) == (one.toolbox, one.name)

    def _is_namesake(self, there: Standing, one: Standing) -> bool:
        return there.name == one.name and self._is_alike(there, one)

    def _is_alike(self, there: Standing, one: Standing) -> bool:
        return not _differs(there.entry, one.entry, self._environ)


def _differs(written: Any, found: Any, environ: Mapping[str, str]) -> bool:
    """Whether the variables that are set here show that two of one likeness are not the same: two accounts, perhaps."""
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
    """What makes two entries the same server."""
    return json.dumps({key: entry[key] for key in _SAME if entry.get(key)}, sort_keys=True)


def _likeness(entry: Entry) -> str:
    """What is the same of a server with its secrets, and without them under any names of variables."""
    return _REFERENCE.sub("${}", _identity(without_secrets(entry, "", Variables())))


class Plan:
    """The servers of an import, one after the other."""

    def __init__(self, existing: Existing, toolbox: str | None, environ: Mapping[str, str]) -> None:
        """`existing` are the entries that the configuration has; `toolbox` is the one for all, if any."""
        self._existing = existing
        self._environ = environ
        self._toolbox = toolbox
        self._found: dict[str, Found] = {}

    def add(self, source: Source) -> None:
        """Take the servers of a file."""
        host = source.place.host
        for server in source.servers:
            if server.moved is not None:
                found = Found(server.name, server.moved.entry, host.key, (host.title,))
                same = self._found.setdefault(_identity(found.entry), found)
                titles = tuple(dict.fromkeys((*same.sources, host.title)))
                self._found[_identity(found.entry)] = same._replace(sources=titles)

    def servers(self) -> list[Planned]:
        """All of them, each with its place."""
        wanted = [Standing(self._toolbox or one.host, one.name, one.entry) for one in self._found.values()]
        known = Matches(self._existing, self._environ).find(wanted)
        taken = {name: set(servers) for name, servers in self._existing.items()}
        variables = Variables(self._referred(), self._environ)
        planned: list[Planned] = []
        for one, there in zip(self._found.values(), known, strict=True):
            if there is not None:
                planned.append(Planned(*there, one.entry, one.sources, is_there=True))
                continue
            toolbox = self._toolbox or one.host
            name = _free(one.name, taken.setdefault(toolbox, set()))
            planned.append(Planned(toolbox, name, without_secrets(one.entry, one.name, variables), one.sources))
        return planned

    def _referred(self) -> Iterator[str]:
        """The variables whose values the servers take from the environment as it is, known ones and new ones."""
        written = [entry for servers in self._existing.values() for entry in servers.values()]
        for entry in (*written, *(one.entry for one in self._found.values())):
            yield from (*variables_in(entry, with_defaults=True), *inherited_in(entry))


def _free(name: str, taken: set[str]) -> str:
    """A name that is not taken yet, and is then."""
    base = chosen = _usable(name)
    number = 2
    while chosen in taken:
        chosen, number = f"{base}-{number}", number + 1
    taken.add(chosen)
    return chosen


def _usable(name: str) -> str:
    """A name that the configuration takes."""
    cleaned = re.sub(r"[\x00-\x1f\x7f-\x9f]", "", name)[: DEFAULTS.name_length - len("-100")]
    return cleaned or "server"


def described(servers: Sequence[Planned]) -> str:
    """What a new toolbox is for, as far as that is known: agents choose by it, and the names of servers tell most."""
    titles = dict.fromkeys(title for server in servers for title in server.sources)
    return f"{', '.join(server.name for server in servers)} (from {', '.join(titles)})"


def by_toolbox(servers: Iterable[Planned]) -> Iterator[tuple[str, list[Planned]]]:
    """The servers in their toolboxes, in order."""
    grouped: dict[str, list[Planned]] = {}
    for server in servers:
        grouped.setdefault(server.toolbox, []).append(server)
    yield from grouped.items()
