"""Restrictions that stand in the entry of a server itself, next to its command or address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from mcp_workbench.hosts.restrictions.filters import CHOSEN_KEYS, EXCLUDED_KEYS, NOTHING, chosen_name
from mcp_workbench.hosts.restrictions.rule import ASKS, Rule, Subject, excluded, not_carried

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
