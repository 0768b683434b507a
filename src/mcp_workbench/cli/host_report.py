"""The report of `install` as text and as JSON, and the lines about rules that `import` shares with it."""

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
    """One line per rule that was carried over."""
    for rule in rules:
        if rule.obstacle:
            continue
        kept = "disabled" if rule.disables else f"{'only' if rule.only else 'excluded'}: {', '.join(_names(rule))}"
        where = f"; it was only for {around.shown(rule.project)} and now applies everywhere" if rule.project else ""
        yield Words(f"{indent}{kept} ({_origin(rule, around)}{where})", "quiet")


def lost_lines(rules: Iterable[Rule], around: HostEnvironment, indent: str) -> Iterator[Block]:
    """One line per rule that is lost, as `--without-rules` accepts."""
    for rule in rules:
        if rule.obstacle:
            yield Words(f"{indent}lost: {_origin(rule, around)}: {escape(rule.obstacle)}", "doubtful")


def held_back(rules: Iterable[Rule], around: HostEnvironment) -> str:
    """Why a server is not imported."""
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
    """The tools of a rule, without patterns that only cover unusual characters in their names."""
    plain = [name for name in rule.filters if "[" not in name]
    return [escape(name.removeprefix("!")) for name in rule.only or plain or rule.filters]


def _origin(rule: Rule, around: HostEnvironment) -> str:
    return f"{escape(rule.text)} in {around.shown(rule.file)}"


class Installed(NamedTuple):
    """The result of an installation in one host."""

    ours: WorkbenchEntry
    planned: Installation
    imported: Sequence[Movable]
    """With `--remove-imported`: the servers in the host's file that the workbench has too."""
    twice: Sequence[Movable]
    """The same servers, without `--remove-imported`."""
    was_found: bool
    """Whether the host was found on this machine."""

    @property
    def stay(self) -> list[Movable]:
        return [one for one in self.imported if one.stays]

    @property
    def moved(self) -> list[Movable]:
        return [one for one in self.imported if not one.stays]

    @property
    def backup(self) -> Path | None:
        """The copy of the old file; None if there was no file."""
        copy = backup_of(self.ours.host_file.path)
        return copy if copy.exists() else None


def as_json(done: Installed, config: str) -> dict[str, Any]:
    """The JSON document that docs/commands/install.md describes; it is stable."""
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
    """What changed, and the next step."""
    ours, place = done.ours, done.ours.host_file
    file = ours.environment.shown(place.path)
    if not done.planned.change.has_effect:
        yield f"{place.host.title} already has the workbench: {file}"
        yield from _staying_lines(done.stay, ours.environment)
        yield from _twice_lines(done)
        return
    yield Words(f"{place.host.title} now starts the workbench: {file}", "good")
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
    """Servers that agents see twice: from the host and through the workbench."""
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
        yield Words("  this file belongs to the project: if these are secrets, do not commit it", "doubtful")
    if shutil.which(program := str(ours.program["command"])) is None:
        yield Words(f"  check: there is no program {escape(program)} on this machine", "doubtful")
    yield from _missing_lines(place.host.title, ours.missing(done.planned.entry))


def _missing_lines(title: str, missing: Sequence[str]) -> Iterator[Block]:
    """Variables without a value. Some hosts fill in folders; the user must set all others."""
    folders = [name for name in missing if name in HOST_FOLDERS]
    others = [name for name in missing if name not in folders]
    if others:
        yield Words(f"  not set here; set them where {title} starts: {', '.join(others)}", "doubtful")
    if folders:
        names = ", ".join(folders)
        yield Words(f"  {title} does not fill in these variables, so servers that need them fail: {names}", "doubtful")


def _staying_lines(stay: Sequence[Movable], around: HostEnvironment) -> Iterator[Block]:
    for one in stay:
        for reason in staying_reasons(one, around):
            yield Words(f"  stays in the host: {escape(one.server.name)}: {reason}", "doubtful")
