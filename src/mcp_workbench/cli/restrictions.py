"""How `import` and `install` show the rules of hosts: what was carried over, and what was not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mcp_workbench.cli.display import Block, Words
from mcp_workbench.hosts.registry import Surroundings
from mcp_workbench.hosts.restrictions import Rule
from mcp_workbench.hosts.workbench_entry import Movable
from mcp_workbench.text.sanitize import escape, slashed

ACCEPT = "--without-rules takes it anyway"


def carried_lines(rules: Iterable[Rule], around: Surroundings, indent: str) -> Iterator[Block]:
    """A line for each rule that was carried over."""
    for rule in rules:
        if rule.obstacle:
            continue
        kept = "disabled" if rule.disables else f"{'only' if rule.only else 'excluded'}: {', '.join(_names(rule))}"
        where = f"; it was for {around.shown(rule.project)} and applies everywhere now" if rule.project else ""
        yield Words(f"{indent}{kept} ({_origin(rule, around)}{where})", "quiet")


def lost_lines(rules: Iterable[Rule], around: Surroundings, indent: str) -> Iterator[Block]:
    """A line for each rule that is lost, since somebody accepted that."""
    for rule in rules:
        if rule.obstacle:
            yield Words(f"{indent}lost: {_origin(rule, around)}: {escape(rule.obstacle)}", "doubtful")


def held_back(rules: Iterable[Rule], around: Surroundings) -> str:
    """Why a server is not taken."""
    reasons = [f"{_origin(rule, around)}: {escape(rule.obstacle)}" for rule in rules if rule.obstacle]
    return f"{'a rule' if len(reasons) == 1 else 'rules'} can't be carried over: {'; '.join(reasons)}"


def staying_reasons(one: Movable, around: Surroundings) -> list[str]:
    """Why a server stays in its host."""
    reasons: list[str] = []
    if one.others:
        reasons.append(f"it has another value than the workbench of {', '.join(one.others)}")
    if one.held:
        reasons.append(f"{held_back(one.server.rules, around)}; {ACCEPT}")
    if one.lacks and one.there:
        lacks = ", ".join(f'"{escape(name)}"' for name in one.lacks)
        reasons.append(f"{slashed(*one.there)} in the workbench lacks {lacks}: run mcp-workbench import, which adds it")
    return reasons


def rules_json(rules: Iterable[Rule]) -> list[dict[str, Any]]:
    return [
        {
            "rule": rule.text,
            "file": str(rule.file),
            "toolFilters": [*rule.only, *rule.filters],
            "disabled": rule.disables,
            "carried": not rule.obstacle,
            "reason": rule.obstacle or None,
        }
        for rule in rules
    ]


def _names(rule: Rule) -> list[str]:
    """The tools that a rule is about, without the forms that only catch unusual characters in their names."""
    plain = [name for name in rule.filters if "[" not in name]
    return [escape(name.removeprefix("!")) for name in rule.only or plain or rule.filters]


def _origin(rule: Rule, around: Surroundings) -> str:
    return f"{escape(rule.text)} in {around.shown(rule.file)}"
