"""How `install` shows what it did in a host: for people, and as JSON."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_workbench.cli.display import Block, Words
from mcp_workbench.config.environment import HOST_FOLDERS
from mcp_workbench.hosts.files import backup_of
from mcp_workbench.hosts.installation import Installation
from mcp_workbench.hosts.registry import HostEnvironment
from mcp_workbench.hosts.restrictions import Rule
from mcp_workbench.hosts.workbench_entry import Movable, WorkbenchEntry
from mcp_workbench.text.sanitize import escape, slashed

ACCEPT = "--without-rules takes it anyway"


def carried_lines(rules: Iterable[Rule], around: HostEnvironment, indent: str) -> Iterator[Block]:
    """A line for each rule that was carried over."""
    for rule in rules:
        if rule.obstacle:
            continue
        kept = "disabled" if rule.disables else f"{'only' if rule.only else 'excluded'}: {', '.join(_names(rule))}"
        where = f"; it was for {around.shown(rule.project)} and applies everywhere now" if rule.project else ""
        yield Words(f"{indent}{kept} ({_origin(rule, around)}{where})", "quiet")


def lost_lines(rules: Iterable[Rule], around: HostEnvironment, indent: str) -> Iterator[Block]:
    """A line for each rule that is lost, since somebody accepted that."""
    for rule in rules:
        if rule.obstacle:
            yield Words(f"{indent}lost: {_origin(rule, around)}: {escape(rule.obstacle)}", "doubtful")


def held_back(rules: Iterable[Rule], around: HostEnvironment) -> str:
    """Why a server is not taken."""
    reasons = [f"{_origin(rule, around)}: {escape(rule.obstacle)}" for rule in rules if rule.obstacle]
    return f"{'a rule' if len(reasons) == 1 else 'rules'} can't be carried over: {'; '.join(reasons)}"


def staying_reasons(one: Movable, around: HostEnvironment) -> list[str]:
    """Why a server stays in its host."""
    reasons: list[str] = []
    if one.conflicting:
        reasons.append(f"it has another value than the workbench of {', '.join(one.conflicting)}")
    if one.is_held:
        reasons.append(f"{held_back(one.server.rules, around)}; {ACCEPT}")
    if one.lacking and one.configured:
        lacks = ", ".join(f'"{escape(name)}"' for name in one.lacking)
        reasons.append(
            f"{slashed(*one.configured)} in the workbench lacks {lacks}: run mcp-workbench import, which adds it"
        )
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


def _origin(rule: Rule, around: HostEnvironment) -> str:
    return f"{escape(rule.text)} in {around.shown(rule.file)}"


class Installed(NamedTuple):
    """An installation that was done in one host."""

    ours: WorkbenchEntry
    planned: Installation
    imported: Sequence[Movable]
    """The servers in the host's file that the workbench has too, if they are to be moved."""
    twice: Sequence[Movable]
    """The same, if they are not."""
    was_found: bool
    """Whether the host was on this machine before."""

    @property
    def stay(self) -> list[Movable]:
        return [one for one in self.imported if one.stays]

    @property
    def moved(self) -> list[Movable]:
        return [one for one in self.imported if not one.stays]

    @property
    def backup(self) -> Path | None:
        """The copy of the file as it was; None where there was no file."""
        copy = backup_of(self.ours.host_file.path)
        return copy if copy.exists() else None


def as_json(done: Installed, config: str) -> dict[str, Any]:
    """Stable: docs/commands/install.md describes it."""
    ours, planned, place = done.ours, done.planned, done.ours.host_file
    return {
        "ok": True,
        "host": place.host.key,
        "file": str(place.path),
        "config": config,
        "changed": planned.change.has_effect,
        "moved": list(planned.moved),
        "stay": [one.server.name for one in done.stay],
        "twice": [one.server.name for one in done.twice],
        "reasons": {one.server.name: staying_reasons(one, ours.environment) for one in done.stay},
        "rules": {one.server.name: rules_json(one.server.rules) for one in done.moved if one.server.rules},
        "variables": ours.given(planned.entry),
        "missing": ours.missing(planned.entry),
        "backup": str(done.backup) if done.backup else None,
    }


def as_text(done: Installed) -> Iterator[Block]:
    """What was done, and what comes next."""
    ours, place = done.ours, done.ours.host_file
    file = ours.environment.shown(place.path)
    if not done.planned.change.has_effect:
        yield f"{place.host.title} has the workbench already: {file}"
        yield from _staying_lines(done.stay, ours.environment)
        yield from _twice_lines(done)
        return
    yield Words(f"{place.host.title} starts the workbench now: {file}", "good")
    if place.file.level == "user" and done.planned.record.made_folders and not done.was_found:
        yield Words(f"  its folder did not exist: is {place.host.title} installed?", "doubtful")
    yield from _moving_lines(done)
    yield from _variable_lines(done)
    if done.backup:
        yield f"  backup: {ours.environment.shown(done.backup)}"
    yield f"next: {place.host.restart}"


def _moving_lines(done: Installed) -> Iterator[Block]:
    around, host = done.ours.environment, done.ours.host_file.host
    for one in done.moved:
        yield f"  moved behind it: {escape(one.server.name)}"
        yield from carried_lines(one.server.rules, around, "    ")
        yield from lost_lines(one.server.rules, around, "    ")
    yield from _staying_lines(done.stay, around)
    yield from _twice_lines(done)
    if done.moved and host.unread:
        yield Words(f"  check: {host.unread}; exclude them with toolFilters", "doubtful")


def _twice_lines(done: Installed) -> Iterator[Block]:
    """Servers that the agent now sees twice: in the host, and behind the workbench."""
    if done.twice:
        host, names = done.ours.host_file.host, ", ".join(escape(one.server.name) for one in done.twice)
        project = " --project" if done.ours.host_file.file.level == "project" else ""
        yield Words(f"  {host.title} also starts these itself: {names}", "doubtful")
        yield f"  to move them behind the workbench: mcp-workbench install {host.key}{project} --remove-imported"


def _variable_lines(done: Installed) -> Iterator[Block]:
    ours, place = done.ours, done.ours.host_file
    if given := ours.given(done.planned.entry):
        yield f"  its env has the values of: {', '.join(given)}"
    if ours.values and place.file.level == "project":
        yield Words("  the file is the project's: keep it out of version control if these are secrets", "doubtful")
    if shutil.which(program := str(ours.program["command"])) is None:
        yield Words(f"  check: there is no program {escape(program)} on this machine", "doubtful")
    yield from _missing_lines(place.host.title, ours.missing(done.planned.entry))


def _missing_lines(title: str, missing: Sequence[str]) -> Iterator[Block]:
    """The variables that nobody sets: folders are filled in by editors, others by a person."""
    folders = [name for name in missing if name in HOST_FOLDERS]
    others = [name for name in missing if name not in folders]
    if others:
        yield Words(f"  not set here, so set where {title} starts: {', '.join(others)}", "doubtful")
    if folders:
        names = ", ".join(folders)
        yield Words(f"  {title} does not fill these in, so servers that need them fail there: {names}", "doubtful")


def _staying_lines(stay: Sequence[Movable], around: HostEnvironment) -> Iterator[Block]:
    for one in stay:
        for reason in staying_reasons(one, around):
            yield Words(f"  stays in the host: {escape(one.server.name)}: {reason}", "doubtful")
