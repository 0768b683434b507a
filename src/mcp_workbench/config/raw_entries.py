"""The server entries as written in the file: variables are not expanded, and disabled servers are included.

For code that examines the file itself. It expects a file that `config_of` accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from mcp_workbench.config.fields import ValuePosition, read_boolean, read_string
from mcp_workbench.config.jsonc.parser import Array, Object, parse
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.keys import SERVER, URL_KEYS, Key, is_comment
from mcp_workbench.config.load import DEFAULT_TOOLBOX
from mcp_workbench.limits import DEFAULTS, Limits

_REFERENCE: Final = r"(\$\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}$]|\$(?!\{))*+))?\}"
"""An escape, or a variable and its default."""


class Text(NamedTuple):
    """A string of the file, with its position and its key."""

    path: str
    line: int
    column: int
    name: str
    """Its key. For an item of a list, the key of the list."""
    written: str

    @property
    def literal(self) -> str:
        """The text without its references, but with their defaults."""
        return re.sub(_REFERENCE, lambda match: "${" if match[1] else match[3] or "", self.written)


class WrittenServer(NamedTuple):
    """One entry of `mcpServers`."""

    toolbox: str
    name: str
    place: ValuePosition
    shared: tuple[str, ...] = ()
    """The variables that the top of the file lets every server inherit."""

    @property
    def path(self) -> str:
        return self.place.path

    @property
    def is_disabled(self) -> bool:
        members = self.place.members()
        off = "disabled" in members and read_boolean(members["disabled"])
        return off or ("enabled" in members and not read_boolean(members["enabled"]))

    @property
    def url(self) -> str:
        """Its address; empty for a local server."""
        return next((address for key in URL_KEYS if (address := self.text(key))), "")

    def text(self, key: str) -> str:
        member = self.place.members().get(key)
        return read_string(member) if member is not None else ""

    def texts(self, key: str) -> tuple[Text, ...]:
        """The items of a list."""
        member = self.place.members().get(key)
        return tuple(strings(member, key)) if member is not None else ()

    def inherits(self) -> list[str]:
        """The names and patterns of the variables that it inherits, without duplicates; none for a remote server."""
        own = (text.written for text in self.texts("inheritEnv"))
        return list(dict.fromkeys((*self.shared, *own))) if self.text("command") else []

    def map(self, key: str) -> dict[str, str]:
        member = self.place.members().get(key)
        members: Mapping[str, ValuePosition] = member.members() if member is not None else {}
        return {name: read_string(one) for name, one in members.items()}

    def variables(self) -> list[str]:
        """The environment variables that it refers to, without duplicates."""
        texts = (text for value in _expanding(self.place, SERVER) for text in strings(value))
        found = (match[2] for text in texts for match in re.finditer(_REFERENCE, text.written))
        return list(dict.fromkeys(name for name in found if name))


def written_servers(source: SourceText, limits: Limits = DEFAULTS) -> list[WrittenServer]:
    """Every server of the file, in its order."""
    members = ValuePosition(source, parse(source, limits), "", 0).members()
    shared = tuple(text.written for text in strings(members["inheritEnv"])) if "inheritEnv" in members else ()
    if "toolboxes" not in members:
        servers = members["mcpServers"].members() if "mcpServers" in members else {}
        return [WrittenServer(DEFAULT_TOOLBOX, name, place, shared) for name, place in servers.items()]
    return [
        WrittenServer(toolbox, name, place, shared)
        for toolbox, box in members["toolboxes"].members().items()
        for name, place in box.members()["mcpServers"].members().items()
    ]


def _expanding(place: ValuePosition, keys: Iterable[Key]) -> Iterator[ValuePosition]:
    """The values in which variables are expanded."""
    members = place.members()
    for key in (key for key in keys if key.name in members):
        if key.inside:
            yield from _expanding(members[key.name], key.inside)
        elif key.expands:
            yield members[key.name]


def commented(place: ValuePosition) -> Iterator[Text]:
    """Every string under a key that starts with `_`."""
    for name, member in place.members().items() if isinstance(place.node, Object) else ():
        yield from strings(member) if is_comment(name) else commented(member)


def strings(place: ValuePosition, name: str = "") -> Iterator[Text]:
    """Every string in a value, in order."""
    if isinstance(place.node, Object):
        for key, member in place.members().items():
            yield from strings(member, key)
    elif isinstance(place.node, Array):
        for item in place.items():
            yield from strings(item, name)
    elif isinstance(place.node.value, str):
        yield Text(place.path, *place.source.position(place.node.start), name, place.node.value)
