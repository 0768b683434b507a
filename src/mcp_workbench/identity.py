"""A tool's identity: three strings, compared byte for byte, never joined and never taken apart.

`ToolIdentifier` is the only way that code, logs, errors and the wire name a tool. Where the
protocol leaves room for one string only (dynamic mode), `joined_name` makes it and a `NameTable`
resolves it: by looking it up, so it is exact for any characters in any part.

This module must not postpone annotations: `NotRequired` in a string has no effect at run time, so every key of
`ToolInfo` would be required.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Generic, NotRequired, Self, TypeVar

import msgspec
from typing_extensions import TypedDict  # pydantic accepts no other before Python 3.12. msgspec has imported it.

from mcp_workbench.errors import InvalidToolIdentifier

NAME_LENGTH = 128
"""Characters in the name of a toolbox or a server."""
JOINED_NAME_LENGTH = 128
"""The longest tool name that the protocol allows."""

SEPARATOR = "__"
ABSENT = object()
"""Stands for a part that was not given; None is a part of the wrong type."""
EVERY_TOOLBOX = "*"
"""Stands for all of them in a search, and so is no name of one."""
EXPECTED = "expected an object with toolbox, server and tool"

# Patterns are text here and compiled at their first use: only dynamic mode needs them.
_ILLEGAL = r"[^A-Za-z0-9_.-]"
_HASH_LENGTH = 8
_LOOKS_HASHED = r"_[0-9a-f]{8}\Z"
_FORM = r"(?s:.+__.+__.+)"


class ToolInfo(TypedDict):
    """A full entry of an `open_toolbox` answer: an MCP Tool plus its toolbox and server."""

    toolbox_name: str
    source_server: str
    name: str
    inputSchema: dict[str, Any]
    title: NotRequired[str]
    description: NotRequired[str]
    outputSchema: NotRequired[dict[str, Any]]
    annotations: NotRequired[dict[str, Any]]
    execution: NotRequired[dict[str, Any]]
    icons: NotRequired[list[dict[str, Any]]]
    _meta: NotRequired[dict[str, Any]]


class ServerIdentifier(msgspec.Struct, frozen=True, order=True):
    """Which server, in which toolbox."""

    toolbox: str
    server: str

    def params(self) -> dict[str, str]:
        """Its parts by name."""
        return {"toolbox": self.toolbox, "server": self.server}

    def parts(self) -> tuple[str, str]:
        """Toolbox and server, in this order."""
        return (self.toolbox, self.server)


class PromptIdentifier(msgspec.Struct, frozen=True, order=True):
    """Which prompt: of which server, in which toolbox."""

    toolbox: str
    server: str
    prompt: str

    def parts(self) -> tuple[str, str, str]:
        """Toolbox, server and prompt, in this order."""
        return (self.toolbox, self.server, self.prompt)


class SkillIdentifier(msgspec.Struct, frozen=True, order=True):
    """Identifies a skill that has a name; most skills are identified by their URI instead."""

    toolbox: str
    server: str
    skill: str

    def parts(self) -> tuple[str, str, str]:
        """Toolbox, server and skill, in this order."""
        return (self.toolbox, self.server, self.skill)


class ToolIdentifier(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """Which tool: of which server, in which toolbox.

    >>> ToolIdentifier("dev", "filesystem", "read_file").params()
    {'toolbox': 'dev', 'server': 'filesystem', 'tool': 'read_file'}
    """

    toolbox: str
    server: str
    tool: str

    def __post_init__(self) -> None:
        if (
            type(self.toolbox) is str
            and type(self.server) is str
            and type(self.tool) is str
            and self.toolbox
            and self.server
            and self.tool
        ):
            return
        for name, value in zip(self.__struct_fields__, self.parts(), strict=True):
            check_part(name, value)

    @classmethod
    def of(cls, info: ToolInfo | Mapping[str, Any]) -> Self:
        """The identifier of an `open_toolbox` entry, whatever its `detail`."""
        entry: Mapping[str, Any] = info
        for part, field in zip(cls.__struct_fields__, ("toolbox_name", "source_server", "name"), strict=True):
            check_part(part, entry.get(field, ABSENT))
        return cls(entry["toolbox_name"], entry["source_server"], entry["name"])

    def params(self) -> dict[str, str]:
        """Ready to be the `tool` of a `use_tool` call."""
        return {"toolbox": self.toolbox, "server": self.server, "tool": self.tool}

    def parts(self) -> tuple[str, str, str]:
        """Toolbox, server and tool, in this order."""
        return (self.toolbox, self.server, self.tool)


Named = TypeVar("Named", ToolIdentifier, PromptIdentifier, SkillIdentifier)


def check_part(name: str, value: object) -> None:
    """Raise with the wire's text unless `value` can be the part `name` of an identifier."""
    if value is ABSENT:
        raise InvalidToolIdentifier(f"{name} is missing")
    if not isinstance(value, str):
        raise InvalidToolIdentifier(f"{name} must be a string")
    if not value:
        raise InvalidToolIdentifier(f"{name} cannot be empty")


def joined_name(identifier: ToolIdentifier | PromptIdentifier | SkillIdentifier) -> str:
    """The one string name of a tool or a prompt, for protocols that know no other.

    It depends on the identifier alone and is injective: where the plain form could be the name
    of another tool, or would be refused, a hash of the three parts follows. A plain form that
    looks hashed already is hashed too, so no server can choose the name of another one's tool.
    """
    plain = SEPARATOR.join(identifier.parts())
    legal = re.sub(_ILLEGAL, "_", plain)
    clean = _is_clean(identifier.toolbox) and _is_clean(identifier.server)
    fits = legal == plain and len(plain) <= JOINED_NAME_LENGTH
    if clean and fits and not re.search(_LOOKS_HASHED, plain):
        return plain
    return f"{legal[: JOINED_NAME_LENGTH - _HASH_LENGTH - 1]}_{_hash(identifier)}"


def _is_clean(part: str) -> bool:
    """Whether the first separator after `part` is certainly the one that ends it."""
    return SEPARATOR not in part and not part.startswith("_") and not part.endswith("_")


def _hash(identifier: ToolIdentifier | PromptIdentifier | SkillIdentifier) -> str:
    import hashlib  # noqa: PLC0415 -- only unusual names need it, every start would pay for it

    return hashlib.sha256(ascii(identifier.parts()).encode()).hexdigest()[:_HASH_LENGTH]


def has_joined_form(name: str) -> bool:
    """Whether `name` could be a joined name. A yes or a no; nothing is extracted."""
    return re.fullmatch(_FORM, name) is not None


def historical_names(identifier: ToolIdentifier) -> tuple[str, str, str]:
    """The names that this tool had before 0.4.0, in 0.4.0 and since 0.5.0."""
    toolbox, server, tool = identifier.parts()
    return (
        f"{server}_{tool}",
        f"{toolbox}{SEPARATOR}{server}_{tool}",
        f"{toolbox}{SEPARATOR}{server}{SEPARATOR}{tool}",
    )


def tools_once_named(name: str, known: Iterable[ToolIdentifier]) -> list[ToolIdentifier]:
    """The known tools that had `name` in any historical format, found by comparing."""
    return [identifier for identifier in known if name in historical_names(identifier)]


class NameTable(Generic[Named]):
    """Joined names, and the tools or prompts that they stand for.

    A name is resolved by looking it up; what was never registered resolves to None.
    """

    def __init__(self) -> None:
        self._holders: dict[str, Named] = {}

    def register(self, identifier: Named) -> str | None:
        """Its name; None if another one holds that name (a forged hash), which keeps it."""
        name = joined_name(identifier)
        holder = self._holders.setdefault(name, identifier)
        return name if holder == identifier else None

    def resolve(self, name: str) -> Named | None:
        """What was registered under `name`."""
        return self._holders.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._holders)

    def __len__(self) -> int:
        return len(self._holders)


def native_names(identifiers: Iterable[Named]) -> dict[str, Named]:
    """Each under its own name; joined names only where two share one, or one poses as another's joined name."""
    listed = list(identifiers)
    own = Counter(identifier.parts()[2] for identifier in listed)
    joined = {joined_name(identifier): identifier for identifier in listed}
    named: dict[str, Named] = {}
    for identifier in listed:
        name = identifier.parts()[2]
        named[joined_name(identifier) if own[name] > 1 or name in joined else name] = identifier
    return named
