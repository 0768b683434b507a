"""Typed access to the values of a parsed file, with the position of each.

Guarantees: every value that it returns has the type that `keys.py` declares. Every failure is a `ConfigError` with
file, line, column, path and a hint; it never repeats a value. This module knows nothing about servers or toolboxes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_workbench.config.jsonc.parser import Array, Node, Object, Scalar, kind_of
from mcp_workbench.config.jsonc.source import SourceText, extend_path
from mcp_workbench.config.keys import Key, did_you_mean, is_comment
from mcp_workbench.config.model import ConfigWarning
from mcp_workbench.text.sanitize import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcp_workbench.errors import ConfigError


class ValuePosition(NamedTuple):
    """A value of the file and its position. `key_start` is the offset of its key."""

    source: SourceText
    node: Node
    path: str
    key_start: int

    def __repr__(self) -> str:
        return f"ValuePosition({self.path!r})"

    def error(self, problem: str, hint: str = "") -> ConfigError:
        """An error at the value."""
        return self.source.error(self.node.start, problem, path=self.path, hint=hint)

    def key_error(self, problem: str, hint: str = "") -> ConfigError:
        """An error at the key."""
        return self.source.error(self.key_start, problem, path=self.path, hint=hint)

    def warning(self, message: str) -> ConfigWarning:
        line, column = self.source.position(self.key_start)
        return ConfigWarning(path=self.path, message=message, line=line, column=column)

    def members(self) -> dict[str, ValuePosition]:
        """The members of an object by name."""
        if not isinstance(self.node, Object):
            raise self.error(f"must be an object, not {kind_of(self.node)}")
        return {
            member.name: ValuePosition(self.source, member.value, extend_path(self.path, member.name), member.key.start)
            for member in self.node.members
        }

    def keyed(self) -> dict[str, ValuePosition]:
        """The members of an object, without comments."""
        return {name: member for name, member in self.members().items() if not is_comment(name)}

    def items(self) -> list[ValuePosition]:
        """The items of a list."""
        if not isinstance(self.node, Array):
            raise self.error(f"must be a list, not {kind_of(self.node)}", self._list_hint())
        return [
            ValuePosition(self.source, item, extend_path(self.path, index), item.start)
            for index, item in enumerate(self.node.items)
        ]

    def _list_hint(self) -> str:
        lone = isinstance(self.node, Scalar) and isinstance(self.node.value, str)
        return "Put it in square brackets." if lone else ""


def read_string(position: ValuePosition) -> str:
    node = position.node
    if isinstance(node, Scalar) and isinstance(node.value, str):
        return node.value
    quotable = isinstance(node, Scalar) and node.value is not None
    raise position.error(f"must be a string, not {kind_of(node)}", "Put it in double quotes." if quotable else "")


def read_text(position: ValuePosition) -> str:
    text = read_string(position)
    if not text.strip():
        raise position.error("cannot be empty")
    return text


def read_boolean(position: ValuePosition) -> bool:
    if isinstance(position.node, Scalar) and isinstance(position.node.value, bool):
        return position.node.value
    text = isinstance(position.node, Scalar) and isinstance(position.node.value, str)
    hint = "Write true or false without quotes." if text else ""
    raise position.error(f"must be true or false, not {kind_of(position.node)}", hint)


def read_number(position: ValuePosition) -> float:
    value = position.node.value if isinstance(position.node, Scalar) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    hint = "Write it without quotes." if isinstance(value, str) else ""
    raise position.error(f"must be a number, not {kind_of(position.node)}", hint)


def read_whole(position: ValuePosition) -> int:
    value = read_number(position)
    if not value.is_integer():
        raise position.error("must be a whole number")
    return int(value)


def read_strings(position: ValuePosition) -> tuple[str, ...]:
    return tuple(read_string(item) for item in position.items())


def read_names(position: ValuePosition) -> tuple[str, ...]:
    return tuple(read_text(item) for item in position.items())


def read_map(position: ValuePosition) -> dict[str, str]:
    return {name: read_string(member) for name, member in position.members().items()}


def read_objects(position: ValuePosition) -> dict[str, ValuePosition]:
    members = position.members()
    for member in members.values():
        member.members()
    return members


def _accept(position: ValuePosition) -> None:
    """Accept any value."""
    del position


_READERS = {
    "section": ValuePosition.members,
    "text": read_text,
    "boolean": read_boolean,
    "number": read_number,
    "whole": read_whole,
    "strings": read_strings,
    "names": read_names,
    "map": read_map,
    "object": read_objects,
    "any": _accept,
}


def check_value(position: ValuePosition, key: Key) -> None:
    """Raise `ConfigError` unless the value is what `key` declares."""
    value = _READERS[key.kind](position)
    if key.inside:
        read_members(position, key.inside, dict.fromkeys(key.foreign, ""))
    if key.choices and value not in key.choices:
        allowed = ", ".join(f"'{choice}'" for choice in key.choices)
        raise position.error(f"must be one of {allowed}", did_you_mean(str(value), key.choices))
    if key.filled and not value:
        raise position.error("cannot be empty", key.filled)
    _check_bounds(position, key, value)


def _check_bounds(position: ValuePosition, key: Key, value: object) -> None:
    if not isinstance(value, int | float):
        return
    hint = f"It is a number of {key.unit}." if key.unit else ""
    if key.above is not None and value <= key.above:
        raise position.error(f"must be more than {key.above:g}", hint)
    if key.at_least is not None and value < key.at_least:
        raise position.error(f"must be at least {key.at_least:.0f}", hint)
    if key.at_most is not None and value > key.at_most:
        raise position.error(f"must be at most {key.at_most:.0f}", hint)


def read_bounds(members: Mapping[str, ValuePosition], keys: Iterable[Key]) -> dict[str, float]:
    """The limits that an object sets, by their names in `limits.py`."""
    keys_set = (key for key in keys if key.limit and key.name in members)
    return {
        key.limit: read_whole(members[key.name]) if key.kind == "whole" else read_number(members[key.name])
        for key in keys_set
    }


def read_members(
    position: ValuePosition, keys: Iterable[Key], also: Mapping[str, str] | None = None
) -> dict[str, ValuePosition]:
    """The members of an object without comments, checked against `keys`. Names in `also` are allowed too."""
    declared = {key.name: key for key in keys}
    members = position.keyed()
    for name, member in members.items():
        if name in declared:
            check_value(member, declared[name])
        elif name not in (also or {}):
            raise unknown_key(member, name, (*declared, *(also or {})), tuple(declared))
    for key in declared.values():
        if key.required and key.name not in members:
            raise position.error(f"'{key.name}' is missing", f'Add "{key.name}": {key.about[0].lower()}{key.about[1:]}')
    return members


def unknown_key(member: ValuePosition, name: str, known: Iterable[str], shown_keys: Iterable[str]) -> ConfigError:
    known_keys = f"Known keys: {', '.join(shown_keys)}."
    return member.key_error(f"unknown key '{escape(name)}'", did_you_mean(name, known, known_keys))
