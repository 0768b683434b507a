"""The text of a host's file in JSON or TOML: reads its values, and sets or removes members.

Guarantees: the text after a change contains exactly the intended values, or the change raises `HostFileError`. No
message repeats a value of the file.
"""

from __future__ import annotations

import copy
import functools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.config.jsonc.edit import parse, remove_members, set_member
from mcp_workbench.config.jsonc.parser import plain
from mcp_workbench.config.jsonc.source import BOM, SourceText
from mcp_workbench.config.jsonc.transfer import restore_members
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts import toml_edit
from mcp_workbench.hosts.files import HOST_FILE_BYTES
from mcp_workbench.hosts.registry import Syntax
from mcp_workbench.limits import Limits

HOST_FILE_VALUES = 500_000
"""Values in a configuration of a host. Reading so many takes ten seconds."""

Tree = dict[str, Any]

_LIMITS = Limits(config_values=HOST_FILE_VALUES, config_bytes=HOST_FILE_BYTES)
_FIX = "Fix the file. Nothing was changed."


class HostDocument:
    """The text of one file and its values. Immutable: every change returns a new document."""

    def __init__(self, text: str, syntax: Syntax, file: str) -> None:
        self.text = text
        self.syntax: Syntax = syntax
        self.file = file
        self.tree = self._read(text)

    @classmethod
    def decoded(cls, data: bytes, syntax: Syntax, file: str) -> HostDocument:
        """Decode a file. Raises `HostFileError`."""
        try:
            return cls(data.decode(), syntax, file)
        except UnicodeDecodeError:
            raise HostFileError("is not UTF-8", file, hint=_FIX) from None

    def at(self, path: Sequence[str]) -> Any:
        """The value at `path`; None if it does not exist."""
        value: Any = self.tree
        for name in path:
            if not isinstance(value, dict) or name not in value:
                return None
            value = cast("Tree", value)[name]
        return value

    def with_member(self, path: Sequence[str], value: Mapping[str, object]) -> HostDocument:
        """The document with `value` at `path`."""
        if self.syntax == "toml":
            base = self.without_member(path).text if self.at(path) is not None else self.text
            return self._changed(toml_edit.with_table(base, path, value), (path, value))
        return self._changed(self._json(lambda text: set_member(text, path, value, self.file, _LIMITS)), (path, value))

    def without_member(self, path: Sequence[str]) -> HostDocument:
        """The document without the member at `path`."""
        return self.without_members([path])

    def without_members(self, paths: Iterable[Sequence[str]]) -> HostDocument:
        """The document without the members at these paths."""
        document = self
        for path, names in _grouped(paths):
            document = document._without(path, names)
        return document

    def _without(self, parent: tuple[str, ...], names: list[str]) -> HostDocument:
        paths = [(*parent, name) for name in names]
        if self.syntax == "json":
            text = self._json(lambda text: remove_members(text, parent, names, self.file, _LIMITS))
        else:
            text = functools.reduce(toml_edit.without_table, paths, self.text)
        return self._changed(text, *((path, None) for path in paths))

    def with_members_of(self, paths: Iterable[Sequence[str]], original: HostDocument) -> HostDocument:
        """The document with the members at these paths of another text, exactly as they are written there."""
        document = self
        for path, names in _grouped(paths):
            document = document._with_members_of(path, names, original)
        return document

    def _with_members_of(self, parent: tuple[str, ...], names: list[str], original: HostDocument) -> HostDocument:
        paths, source = [(*parent, name) for name in names], original.text
        if self.syntax == "json":
            text = self._json(lambda text: restore_members(text, parent, names, source, file=self.file, limits=_LIMITS))
        else:
            text = functools.reduce(lambda text, path: toml_edit.with_table_of(text, path, source), paths, self.text)
        return self._changed(text, *((path, original.at(path)) for path in paths))

    def _json(self, change: Callable[[str], str]) -> str:
        blank = not self.text.removeprefix(BOM).strip()
        try:
            return change(f"{self.text}{{}}\n" if blank else self.text)
        except ConfigError as error:
            raise self._error(error) from None

    def _changed(self, text: str, *changes: tuple[Sequence[str], object]) -> HostDocument:
        """The document with another text, after a check that exactly these values differ."""
        try:
            changed = HostDocument(text, self.syntax, self.file)
        except HostFileError:
            raise self._damage_error() from None
        actual, expected = copy.deepcopy(changed.tree), copy.deepcopy(self.tree)
        for path, value in changes:
            _set(expected, path, value)
            if self.syntax == "toml":  # where most tables exist only as long as they have members
                _prune(actual, path)
                _prune(expected, path)
        if actual != expected:
            raise self._damage_error()
        return changed

    def _damage_error(self) -> HostFileError:
        return HostFileError("can't be changed without damage to the rest of it", self.file, hint="Edit it by hand.")

    def _read(self, text: str) -> Tree:
        if not text.removeprefix(BOM).strip():
            return {}
        tree = self._read_toml(text) if self.syntax == "toml" else self._read_json(text)
        if not isinstance(tree, dict):
            raise HostFileError("must hold an object", self.file, hint=_FIX)
        return cast("Tree", tree)

    def _read_json(self, text: str) -> object:
        try:
            # Most hosts write plain JSON, some of them megabytes, and this parser is a hundred times as fast.
            return msgspec.json.decode(text.removeprefix(BOM).encode())
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            pass
        try:
            return plain(parse(SourceText(text, self.file), _LIMITS))
        except ConfigError as error:
            raise self._error(error) from None

    def _read_toml(self, text: str) -> Tree:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            # The rest of the message may repeat a value.
            match = re.search(r"at line (\d+), column (\d+)", str(error))
            position = f": line {match[1]}, column {match[2]}" if match else ""
            raise HostFileError(f"is not valid TOML{position}", self.file, hint=_FIX) from None

    def _error(self, error: ConfigError) -> HostFileError:
        position = f"line {error.line}, column {error.column}: {error.problem}" if error.line else error.problem
        return HostFileError(f"is not valid JSON: {position}", self.file, hint=_FIX)


def _grouped(paths: Iterable[Sequence[str]]) -> Iterable[tuple[tuple[str, ...], list[str]]]:
    """The names in each object, by its path."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        groups.setdefault(tuple(path[:-1]), []).append(path[-1])
    return groups.items()


def _set(tree: Tree, path: Sequence[str], value: object) -> None:
    """Set the value at `path`; None removes it."""
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    if value is None:
        tree.pop(path[-1], None)
    else:
        tree[path[-1]] = value


def _prune(tree: Tree, path: Sequence[str]) -> None:
    """Remove the empty objects on the way to `path`."""
    if len(path) > 1 and isinstance(tree.get(path[0]), dict):
        _prune(tree[path[0]], path[1:])
        if not tree[path[0]]:
            del tree[path[0]]
