"""Rules: restrictions that a host puts on a server, and the tool filters that express them.

Guarantees: every rule excludes tools, turns the server off, or says why it can't be expressed. No rule is dropped
because it is malformed or its file can't be read. A tool name is never split: the host's prefix for the tools of a
known server is matched against the rule. This module also combines and compares filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from os.path import realpath
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts import files
from mcp_workbench.hosts.documents import HostDocument
from mcp_workbench.hosts.registry import Entry, Syntax, list_of

ASKS = "the workbench can't ask before a call"
ARGUMENTS = "it depends on the arguments of a call"


class Rule(NamedTuple):
    """One rule of a host that concerns one server."""

    text: str
    """The rule as the host writes it, with the key that holds it."""
    file: Path
    filters: tuple[str, ...] = ()
    """The `toolFilters` that replace it."""
    disables: bool = False
    """Whether it turns the whole server off."""
    obstacle: str = ""
    """Why it can't be carried over; empty if it can."""
    only: tuple[str, ...] = ()
    """The only tools that it allows. The converted entry has them as filters already."""
    project: Path | None = None
    """The only folder that it was written for, if it now applies to all folders."""


class Subject(NamedTuple):
    """A server that rules may concern."""

    name: str
    entry: Mapping[str, Any]
    project: Path | None = None
    is_shared: bool = False
    """Whether its file belongs to the project and not to the user."""


class Settings(NamedTuple):
    """The content of one settings file."""

    path: Path
    tree: Mapping[str, Any]
    project: Path | None = None

    def at(self, *keys: str) -> Any:
        """The value at a path; None if it does not exist."""
        value: Any = self.tree
        for key in keys:
            value = cast("Mapping[str, Any]", value).get(key) if isinstance(value, Mapping) else None
        return value

    def names(self, *keys: str) -> list[str]:
        """A list of strings. Raises `HostFileError` for anything else, since it may be a rule."""
        value = self.at(*keys)
        if value is None:
            return []
        items = cast("list[Any]", value) if isinstance(value, list) else [None]
        if not all(isinstance(item, str) for item in items):
            raise HostFileError(f"'{'.'.join(keys)}' is not a list of strings", self.path)
        return cast("list[str]", items)

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        """A list of objects. Raises `HostFileError` for anything else."""
        value = self.at(key)
        items = cast("list[Any]", value) if isinstance(value, list) else [] if value is None else [None]
        if not all(isinstance(item, Mapping) for item in items):
            raise HostFileError(f"'{key}' is not a list of objects", self.path)
        return cast("list[Mapping[str, Any]]", items)

    def table(self, *keys: str) -> Mapping[str, Any]:
        """An object. Raises `HostFileError` for anything else."""
        value = self.at(*keys)
        if value is not None and not isinstance(value, Mapping):
            raise HostFileError(f"'{'.'.join(keys)}' is not an object", self.path)
        return cast("Mapping[str, Any]", value or {})


def read(path: Path, project: Path | None = None, syntax: Syntax = "json") -> Iterator[Settings]:
    """The settings in a file, if it exists. Raises `HostFileError`."""
    data = files.read(path)
    if data is not None:
        yield Settings(path, HostDocument.decoded(data, syntax, str(path)).tree, project)


def read_folder(folder: Path, suffix: str, syntax: Syntax = "json") -> Iterator[Settings]:
    """The settings in the files of a folder, in order of their names. Raises `HostFileError`."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == suffix and not path.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise files.unusable(folder, error) from None
    for path in paths:
        yield from read(path, syntax=syntax)


def scoped(rules: Iterable[Rule], folder: Path | None, subject: Subject) -> Iterator[Rule]:
    """The rules of a file that concern a server. `folder` is the folder that the file applies to; None: all folders.

    If a rule of one folder concerns a server of all folders, its tools are excluded everywhere, since the workbench has
    one set of filters. It does not turn the server off, which would remove it from the other folders.
    """
    is_own_folder = subject.project is not None and folder is not None and realpath(folder) == realpath(subject.project)
    for rule in rules:
        if folder is None or is_own_folder:
            yield rule
        elif subject.project is None and rule.disables:
            yield rule._replace(disables=False, obstacle=f"it is for {folder} alone")
        elif subject.project is None:
            yield rule._replace(project=folder)


def turned_off(text: str, path: Path) -> Rule:
    return Rule(text, path, disables=True)


def excluded(text: str, path: Path, filters: Iterable[str]) -> Rule:
    return Rule(text, path, filters=tuple(dict.fromkeys(filters)))


def not_carried(text: str, path: Path, reason: str) -> Rule:
    return Rule(text, path, obstacle=reason)


_ODD = "[!0-9A-Za-z-]"
"""A pattern for an underscore, and for every character that hosts replace by one."""
_WORD = re.compile(r"[A-Za-z0-9_*-]+")
EVERYTHING = "*"


def remainders(pattern: str, prefix: str) -> list[str]:
    """The patterns for the rest after `prefix` in the strings that `pattern` matches. `*` matches any text."""
    positions = {0}
    for character in prefix:
        positions = {after for at in positions for after in _steps(pattern, at, character)}
    rests = {pattern[at:] for at in positions} - {""}
    return [EVERYTHING] if any(not rest.strip("*") for rest in rests) else sorted(rests)


def _steps(pattern: str, at: int, character: str) -> Iterator[int]:
    while at < len(pattern) and pattern[at] == EVERYTHING:
        yield at
        at += 1
    if at < len(pattern) and pattern[at] == character:
        yield at + 1


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern matches the whole text. Only `*` is special."""
    return re.fullmatch(".*".join(re.escape(part) for part in pattern.split(EVERYTHING)), text, re.DOTALL) is not None


def exclusions(name: str) -> list[str]:
    """The filters that exclude the tools that a host calls `name`. Hosts replace unusual characters by underscores.

    A tool `mail.send` is `mail_send` there, so a rule for that name has to exclude both.
    """
    if not _WORD.fullmatch(name):
        return []  # no tool in the host has such a name
    return [f"!{name}", *([f"!{name.replace('_', _ODD)}"] if "_" in name else [])]


_CONTENT = re.compile(r"(.*?)\((.*)\)", re.DOTALL)


def name_and_content(rule: str) -> tuple[str, str]:
    """The parts of a rule such as `name(content)`; the content may be missing."""
    match = _CONTENT.fullmatch(rule)
    return (match[1], match[2]) if match else (rule, "")


_SPECIAL = re.compile(r"[*?\[]")
KEY = "toolFilters"
NOTHING = "!*"
"""The filter that excludes every tool."""
CHOSEN_KEYS = ("enabled_tools", "enabledTools", "includeTools")
EXCLUDED_KEYS = ("disabled_tools", "disabledTools", "excludeTools")
"""The keys of entries that list excluded tools; `CHOSEN_KEYS` list allowed ones."""


def filters_of(entry: Mapping[str, Any]) -> list[str]:
    return [str(item) for item in list_of(entry.get(KEY))]


def with_filters(entry: Mapping[str, Any], filters: Iterable[str], *, disabled: bool) -> Entry:
    """The entry with these additional restrictions."""
    combined = list(dict.fromkeys((*filters_of(entry), *filters)))
    return {**entry, **({KEY: combined} if combined else {}), **({"disabled": True} if disabled else {})}


def strictest(entry: Mapping[str, Any], other: Mapping[str, Any]) -> Entry:
    """The first entry with the restrictions of both: it offers a tool only if both do."""
    chosen, also = _chosen(filters_of(entry)), _chosen(filters_of(other))
    both = [name for name in chosen if name in also] if chosen and also else chosen or also
    nothing = [NOTHING] if chosen and also and not both else []
    excluded = [name for name in (*filters_of(entry), *filters_of(other)) if name.startswith("!")]
    plain = {key: value for key, value in entry.items() if key != KEY}
    return with_filters(plain, [*both, *nothing, *excluded], disabled=other.get("disabled") is True)


def lacking(entry: Mapping[str, Any], required: Iterable[str]) -> list[str]:
    """The filters that an entry lacks to be as strict as `required`."""
    if entry.get("disabled") is True:
        return []
    have, needed = filters_of(entry), list(required)
    chosen, needed_tools = _chosen(have), _chosen(needed)
    missing = [pattern for pattern in needed if pattern.startswith("!") and not _is_covered(pattern, have)]
    is_wider = bool(needed_tools) and (not chosen or not set(chosen) <= set(needed_tools)) and NOTHING not in have
    return [*(needed_tools if is_wider else []), *missing]


def chosen_name(name: str) -> str:
    """The tool that an item of a list of allowed tools names. Gemini CLI reads `name(…)` as `name`."""
    return name.partition("(")[0] or name


def _chosen(filters: Iterable[str]) -> list[str]:
    return [pattern for pattern in filters if not pattern.startswith("!")]


def _is_covered(exclusion: str, have: list[str]) -> bool:
    if exclusion in have or NOTHING in have:
        return True
    name = exclusion.removeprefix("!")
    others = [pattern.removeprefix("!") for pattern in have if pattern.startswith("!")]
    if not _SPECIAL.search(name):
        return any(fnmatchcase(name, other) for other in others)
    plain = _SPECIAL.split(name, maxsplit=1)[0]
    starts = [other[:-1] for other in others if other.endswith("*") and not _SPECIAL.search(other[:-1])]
    return any(plain.startswith(start) for start in starts)


_DENIES = frozenset({"always_deny", "blocked", "deny", "disabled"})
_ASKING = frozenset({"always_ask", "ask", "confirm", "prompt", "writes"})
_POLICY = ("permission_policy", "approval_mode", "default")


def lists_of_entry(subject: Subject, path: Path) -> Iterator[Rule]:
    """The rules of the tool lists in an entry. The conversion has checked that they are lists of names."""
    for key in CHOSEN_KEYS:
        names = subject.entry.get(key)
        if names is not None:
            yield Rule(key, path, only=tuple(map(chosen_name, names))) if names else excluded(key, path, [NOTHING])
    for key in EXCLUDED_KEYS:
        if subject.entry.get(key):
            yield excluded(key, path, [f"!{name}" for name in subject.entry[key]])


def rules_of_entry(subject: Subject, path: Path) -> Iterator[Rule]:
    """The rules of an entry about single tools, as Claude Code and Codex write them."""
    entry = subject.entry
    mode = entry.get("default_tools_approval_mode")
    if str(mode) in _ASKING:
        yield not_carried(f"default_tools_approval_mode = {mode}", path, ASKS)
    if entry.get("envFile"):
        yield not_carried("envFile", path, "the workbench does not read it: write its variables in env")
    for key in ("sandbox", "sandboxEnabled"):
        if entry.get(key):
            yield not_carried(key, path, "the workbench runs servers without a sandbox")
    for key in ("tools", "toolPermissions"):
        for tool, policy in _policies(entry.get(key)):
            yield from _rule(f"{key}.{tool}", tool, policy, path)


def _policies(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(name), policy) for name, policy in cast("Mapping[Any, Any]", value).items())
    elif isinstance(value, list):
        for policy in cast("list[Any]", value):
            name: Any = cast("Mapping[str, Any]", policy).get("name") if isinstance(policy, Mapping) else None
            if isinstance(name, str):
                yield name, policy


def _rule(text: str, name: str, policy: Any, path: Path) -> Iterator[Rule]:
    members = cast("Mapping[str, Any]", policy) if isinstance(policy, Mapping) else {"default": policy}
    for decision in (str(members.get(key)) for key in _POLICY):
        if decision in _DENIES:
            yield excluded(f"{text}: {decision}", path, [f"!{name}"])
        elif decision in _ASKING:
            yield not_carried(f"{text}: {decision}", path, ASKS)
    if members.get("enabled") is False or policy is False:
        yield excluded(f"{text}: false", path, [f"!{name}"])
