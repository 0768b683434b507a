"""Tool filters of entries: combined, compared, and read from the keys that hosts have for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

from mcp_workbench.hosts.registry import Entry
from mcp_workbench.hosts.restrictions.rules import ASKS, Rule, Subject, excluded, not_carried

_SPECIAL = re.compile(r"[*?\[]")
KEY = "toolFilters"
NOTHING = "!*"
"""The filter that excludes every tool."""
CHOSEN_KEYS = ("enabled_tools", "enabledTools", "includeTools")
EXCLUDED_KEYS = ("disabled_tools", "disabledTools", "excludeTools")
"""The keys under which entries of hosts list tools."""


def filters_of(entry: Mapping[str, Any]) -> list[str]:
    value = entry.get(KEY)
    return [str(one) for one in cast("list[Any]", value)] if isinstance(value, list) else []


def with_filters(entry: Mapping[str, Any], filters: Iterable[str], *, disabled: bool) -> Entry:
    """The entry with more restrictions."""
    combined = list(dict.fromkeys((*filters_of(entry), *filters)))
    return {**entry, **({KEY: combined} if combined else {}), **({"disabled": True} if disabled else {})}


def strictest(one: Mapping[str, Any], other: Mapping[str, Any]) -> Entry:
    """The first entry, with the restrictions of both: a tool is offered only where both offer it."""
    chosen, also = _chosen(filters_of(one)), _chosen(filters_of(other))
    both = [name for name in chosen if name in also] if chosen and also else chosen or also
    nothing = [NOTHING] if chosen and also and not both else []
    excluded = [name for name in (*filters_of(one), *filters_of(other)) if name.startswith("!")]
    plain = {key: value for key, value in one.items() if key != KEY}
    return with_filters(plain, [*both, *nothing, *excluded], disabled=other.get("disabled") is True)


def lacking(written: Mapping[str, Any], required: Iterable[str]) -> list[str]:
    """The filters that an entry would need to be as strict as `required`."""
    if written.get("disabled") is True:
        return []
    have, needed = filters_of(written), list(required)
    chosen, wanted = _chosen(have), _chosen(needed)
    missing = [one for one in needed if one.startswith("!") and not _is_covered(one, have)]
    is_wider = bool(wanted) and (not chosen or not set(chosen) <= set(wanted)) and NOTHING not in have
    return [*(wanted if is_wider else []), *missing]


def chosen_name(name: str) -> str:
    """The tool that a host's list of allowed tools names; Gemini CLI takes `name(…)` for the name alone."""
    return name.partition("(")[0] or name


def _chosen(filters: Iterable[str]) -> list[str]:
    return [one for one in filters if not one.startswith("!")]


def _is_covered(exclusion: str, have: list[str]) -> bool:
    if exclusion in have or NOTHING in have:
        return True
    name = exclusion.removeprefix("!")
    others = [one.removeprefix("!") for one in have if one.startswith("!")]
    if not _SPECIAL.search(name):
        return any(fnmatchcase(name, other) for other in others)
    plain = _SPECIAL.split(name, maxsplit=1)[0]
    starts = [other[:-1] for other in others if other.endswith("*") and not _SPECIAL.search(other[:-1])]
    return any(plain.startswith(start) for start in starts)


_DENIES = frozenset({"always_deny", "blocked", "deny", "disabled"})
_ASKING = frozenset({"always_ask", "ask", "confirm", "prompt", "writes"})
_POLICY = ("permission_policy", "approval_mode", "default")


def lists_of_entry(subject: Subject, path: Path) -> Iterator[Rule]:
    """The lists of tools that an entry allows or excludes. The entry was read before, so they are lists of names."""
    for key in CHOSEN_KEYS:
        names = subject.entry.get(key)
        if names is not None:
            yield Rule(key, path, only=tuple(map(chosen_name, names))) if names else excluded(key, path, [NOTHING])
    for key in EXCLUDED_KEYS:
        if subject.entry.get(key):
            yield excluded(key, path, [f"!{name}" for name in subject.entry[key]])


def rules_of_entry(subject: Subject, path: Path) -> Iterator[Rule]:
    """What an entry says about single tools, in the ways of Claude Code and Codex."""
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
        yield from ((str(name), one) for name, one in cast("Mapping[Any, Any]", value).items())
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            name: Any = cast("Mapping[str, Any]", one).get("name") if isinstance(one, Mapping) else None
            if isinstance(name, str):
                yield name, one


def _rule(text: str, name: str, policy: Any, path: Path) -> Iterator[Rule]:
    held = cast("Mapping[str, Any]", policy) if isinstance(policy, Mapping) else {"default": policy}
    for said in (str(held.get(key)) for key in _POLICY):
        if said in _DENIES:
            yield excluded(f"{text}: {said}", path, [f"!{name}"])
        elif said in _ASKING:
            yield not_carried(f"{text}: {said}", path, ASKS)
    if held.get("enabled") is False or policy is False:
        yield excluded(f"{text}: false", path, [f"!{name}"])
