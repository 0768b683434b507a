"""Identifiers of servers, tools, prompts and skills: separate strings, compared byte for byte and never parsed.

Code, logs, errors and messages name a tool by its `ToolIdentifier`. Where the protocol has room for one string only
(dynamic mode), `joined_name` makes it and a `NameTable` looks it up, which is exact for any characters.

This module has no `from __future__ import annotations`: inside a string annotation, `NotRequired` has no effect at
run time, and every key of `ToolInfo` would be required.
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
"""Marks a missing part. None is a part of the wrong type."""
EVERY_TOOLBOX = "*"
"""Means all toolboxes in a search, so no toolbox may have this name."""
EXPECTED = "expected an object with toolbox, server and tool"

# Patterns are text here and compiled at their first use: only dynamic mode needs them.
_ILLEGAL = r"[^A-Za-z0-9_.-]"
_HASH_LENGTH = 8
_LOOKS_HASHED = r"_[0-9a-f]{8}\Z"
_FORM = r"(?s:.+__.+__.+)"


class ToolInfo(TypedDict):
    """A full entry of an `open_toolbox` answer: an MCP Tool with its toolbox and server."""

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
    """Identifies a server within its toolbox."""

    toolbox: str
    server: str

    def params(self) -> dict[str, str]:
        """Its parts by name."""
        return {"toolbox": self.toolbox, "server": self.server}

    def parts(self) -> tuple[str, str]:
        """Toolbox and server, in this order."""
        return (self.toolbox, self.server)


class PromptIdentifier(msgspec.Struct, frozen=True, order=True):
    """Identifies a prompt by toolbox, server and name."""

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
    """Identifies a tool by toolbox, server and name.

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
        """The identifier of an `open_toolbox` entry of any `detail`."""
        entry: Mapping[str, Any] = info
        for part, field in zip(cls.__struct_fields__, ("toolbox_name", "source_server", "name"), strict=True):
            check_part(part, entry.get(field, ABSENT))
        return cls(entry["toolbox_name"], entry["source_server"], entry["name"])

    def params(self) -> dict[str, str]:
        """The `tool` argument of a `use_tool` call."""
        return {"toolbox": self.toolbox, "server": self.server, "tool": self.tool}

    def parts(self) -> tuple[str, str, str]:
        """Toolbox, server and tool, in this order."""
        return (self.toolbox, self.server, self.tool)


Named = TypeVar("Named", ToolIdentifier, PromptIdentifier, SkillIdentifier)


def check_part(name: str, value: object) -> None:
    """Raise `InvalidToolIdentifier` unless `value` is valid as the part `name` of an identifier."""
    if value is ABSENT:
        raise InvalidToolIdentifier(f"{name} is missing")
    if not isinstance(value, str):
        raise InvalidToolIdentifier(f"{name} must be a string")
    if not value:
        raise InvalidToolIdentifier(f"{name} cannot be empty")


def joined_name(identifier: ToolIdentifier | PromptIdentifier | SkillIdentifier) -> str:
    """The name of a tool, prompt or skill as one string, for protocols that have no other.

    It depends on the identifier alone and is injective. A hash of the three parts is added if the plain form is
    ambiguous, is not a legal name, or looks hashed already. So no server can take the name of another server's tool.
    """
    plain = SEPARATOR.join(identifier.parts())
    legal = re.sub(_ILLEGAL, "_", plain)
    clean = _is_clean(identifier.toolbox) and _is_clean(identifier.server)
    fits = legal == plain and len(plain) <= JOINED_NAME_LENGTH
    if clean and fits and not re.search(_LOOKS_HASHED, plain):
        return plain
    return f"{legal[: JOINED_NAME_LENGTH - _HASH_LENGTH - 1]}_{_hash(identifier)}"


def _is_clean(part: str) -> bool:
    """Whether the first separator after `part` certainly ends it."""
    return SEPARATOR not in part and not part.startswith("_") and not part.endswith("_")


def _hash(identifier: ToolIdentifier | PromptIdentifier | SkillIdentifier) -> str:
    import hashlib  # noqa: PLC0415 -- only unusual names need it, every start would pay for it

    return hashlib.sha256(ascii(identifier.parts()).encode()).hexdigest()[:_HASH_LENGTH]


def has_joined_form(name: str) -> bool:
    """Whether `name` could be a joined name. Nothing is extracted."""
    return re.fullmatch(_FORM, name) is not None


def historical_names(identifier: ToolIdentifier) -> tuple[str, str, str]:
    """The joined names of the tool before 0.4.0, in 0.4.0 and since 0.5.0."""
    toolbox, server, tool = identifier.parts()
    return (
        f"{server}_{tool}",
        f"{toolbox}{SEPARATOR}{server}_{tool}",
        f"{toolbox}{SEPARATOR}{server}{SEPARATOR}{tool}",
    )


def tools_once_named(name: str, known: Iterable[ToolIdentifier]) -> list[ToolIdentifier]:
    """The known tools that had `name` in a historical format, found by comparison."""
    return [identifier for identifier in known if name in historical_names(identifier)]


class NameTable(Generic[Named]):
    """Joined names, and the tools or prompts that they stand for."""

    def __init__(self) -> None:
        self._holders: dict[str, Named] = {}

    def register(self, identifier: Named) -> str | None:
        """The name of `identifier`; None if another one holds it already, by a forged hash, and keeps it."""
        name = joined_name(identifier)
        holder = self._holders.setdefault(name, identifier)
        return name if holder == identifier else None

    def resolve(self, name: str) -> Named | None:
        """The identifier that was registered under `name`; None if there is none."""
        return self._holders.get(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._holders)

    def __len__(self) -> int:
        return len(self._holders)


def native_names(identifiers: Iterable[Named]) -> dict[str, Named]:
    """Each identifier under its own name, or under its joined name if the own name is ambiguous."""
    listed = list(identifiers)
    own = Counter(identifier.parts()[2] for identifier in listed)
    joined = {joined_name(identifier): identifier for identifier in listed}
    named: dict[str, Named] = {}
    for identifier in listed:
        name = identifier.parts()[2]
        named[joined_name(identifier) if own[name] > 1 or name in joined else name] = identifier
    return named
