"""The server entries as written in the file: variables are not expanded, and disabled servers are included.

For code that examines the file itself. It expects a file that `config_of` accepts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from mcp_workbench.config.fields import ValuePosition, read_string
from mcp_workbench.config.jsonc.parser import Array, Object, parse
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.keys import SERVER, URL_KEYS, Key, is_comment
from mcp_workbench.config.load import DEFAULT_TOOLBOX
from mcp_workbench.config.servers import is_disabled
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS, Limits

_REFERENCE: Final = r"(\$\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:[^}$]|\$(?!\{))*+))?\}"
"""An escape, or a variable and its default."""


class RawText(NamedTuple):
    """A string of the file, with its position and its key."""

    path: str
    line: int
    column: int
    name: str
    """Its key. For an item of a list, the key of the list."""
    raw: str

    @property
    def literal(self) -> str:
        """The text without its references, but with their defaults."""
        return re.sub(_REFERENCE, lambda match: "${" if match[1] else match[3] or "", self.raw)


class RawServer(NamedTuple):
    """One entry of `mcpServers`."""

    toolbox: str
    name: str
    position: ValuePosition
    shared: tuple[str, ...] = ()
    """The variables that the top of the file lets every server inherit."""

    @property
    def identifier(self) -> ServerIdentifier:
        return ServerIdentifier(self.toolbox, self.name)

    @property
    def path(self) -> str:
        return self.position.path

    @property
    def is_disabled(self) -> bool:
        return is_disabled(self.position.members())

    @property
    def url(self) -> str:
        """Its address; empty for a local server."""
        return next((address for key in URL_KEYS if (address := self.text(key))), "")

    def text(self, key: str) -> str:
        member = self.position.members().get(key)
        return read_string(member) if member is not None else ""

    def texts(self, key: str) -> tuple[RawText, ...]:
        """The items of a list."""
        member = self.position.members().get(key)
        return tuple(strings(member, key)) if member is not None else ()

    def inherits(self) -> list[str]:
        """The names and patterns of the variables that it inherits, without duplicates; none for a remote server."""
        own = (text.raw for text in self.texts("inheritEnv"))
        return list(dict.fromkeys((*self.shared, *own))) if self.text("command") else []

    def map(self, key: str) -> dict[str, str]:
        member = self.position.members().get(key)
        members: Mapping[str, ValuePosition] = member.members() if member is not None else {}
        return {name: read_string(value) for name, value in members.items()}

    def variables(self) -> list[str]:
        """The environment variables that it refers to, without duplicates."""
        texts = (text for value in _expandable_values(self.position, SERVER) for text in strings(value))
        names = (match[2] for text in texts for match in re.finditer(_REFERENCE, text.raw))
        return list(dict.fromkeys(name for name in names if name))


def raw_servers(source: SourceText, limits: Limits = DEFAULTS) -> list[RawServer]:
    """Every server of the file, in its order."""
    members = ValuePosition(source, parse(source, limits), "", 0).members()
    shared = tuple(text.raw for text in strings(members["inheritEnv"])) if "inheritEnv" in members else ()
    if "toolboxes" not in members:
        servers = members["mcpServers"].members() if "mcpServers" in members else {}
        return [RawServer(DEFAULT_TOOLBOX, name, position, shared) for name, position in servers.items()]
    return [
        RawServer(toolbox, name, position, shared)
        for toolbox, box in members["toolboxes"].members().items()
        for name, position in box.members()["mcpServers"].members().items()
    ]


def _expandable_values(position: ValuePosition, keys: Iterable[Key]) -> Iterator[ValuePosition]:
    """The values in which variables are expanded."""
    members = position.members()
    for key in (key for key in keys if key.name in members):
        if key.inside:
            yield from _expandable_values(members[key.name], key.inside)
        elif key.expands:
            yield members[key.name]


def strings_in_comments(position: ValuePosition) -> Iterator[RawText]:
    """Every string under a key that starts with `_`."""
    for name, member in position.members().items() if isinstance(position.node, Object) else ():
        yield from strings(member) if is_comment(name) else strings_in_comments(member)


def strings(position: ValuePosition, name: str = "") -> Iterator[RawText]:
    """Every string in a value, in order."""
    if isinstance(position.node, Object):
        for key, member in position.members().items():
            yield from strings(member, key)
    elif isinstance(position.node, Array):
        for item in position.items():
            yield from strings(item, name)
    elif isinstance(position.node.value, str):
        yield RawText(position.path, *position.source.position(position.node.start), name, position.node.value)
