"""`mcp-workbench uninstall`: removes the workbench from the configuration of one host or of all hosts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_workbench.cli.display import Block, Words, write
from mcp_workbench.cli.host_selection import Done, finish, work_on_hosts
from mcp_workbench.hosts import files
from mcp_workbench.hosts.files import backup_of
from mcp_workbench.hosts.installation import Change, is_installed, last_copy_of, prepare_removal, undo
from mcp_workbench.hosts.registry import HostEnvironment, HostFile, here
from mcp_workbench.text.sanitize import escape

HELP = """Remove the workbench from the configuration of a host, or with --all of every host that has it.

If the file has not changed since 'mcp-workbench install', it is restored byte for byte. Otherwise other
changes stay, and the servers that were moved behind the workbench are restored."""


def run(options: Mapping[str, str]) -> int:
    around = here(os.environ)

    def work(place: HostFile) -> Done:
        with files.locked(place.path):
            change = prepare_removal(place, around)
            undo(change)
        return Done(list(_as_text(place, change, around)), _as_json(place, change))

    outcomes = work_on_hosts(options, around, work, lambda place: "" if is_installed(place) else "not installed there")
    if "json" not in options and not outcomes.hosts:
        write("the workbench is not installed in any host")
    return finish(outcomes, options)


def _as_text(place: HostFile, change: Change, around: HostEnvironment) -> Iterator[Block]:
    file = around.shown(place.path)
    if change.after is None:
        yield Words(f"removed {file}, which was created for the workbench", "good")
    elif change.exact:
        yield Words(f"restored {file}", "good")
    else:
        yield Words(f"removed the workbench from {file}; other changes stay", "good")
    for path in change.restored:
        yield f"  restored: {escape(path[-1])}"
    for name in change.unrestored:
        yield f"  left unchanged, since it was added later: {escape(name)}"
    if change.lost:
        names, last = ", ".join(map(escape, change.lost)), around.shown(last_copy_of(place.path))
        yield Words(f"  values that were only in its env are now in {last}: {names}", "doubtful")
    backup = backup_of(place.path)
    if backup.exists():
        yield Words(f"  there is no record of moved servers; see the backup: {around.shown(backup)}", "doubtful")


def _as_json(place: HostFile, change: Change) -> dict[str, Any]:
    return {
        "ok": True,
        "host": place.host.key,
        "file": str(place.path),
        "exact": change.exact,
        "removed": change.after is None,
        "back": [path[-1] for path in change.restored],
        "left": list(change.unrestored),
        "lost": list(change.lost),
    }
