"""`mcp-workbench uninstall`: the workbench is taken out of the configuration of a host."""

from __future__ import annotations

import os
from collections.abc import Mapping

from mcp_workbench.cli.answering import answered, print_json
from mcp_workbench.cli.display import Words, write
from mcp_workbench.cli.install import chosen_place
from mcp_workbench.hosts import files
from mcp_workbench.hosts.installing import Change
from mcp_workbench.hosts.places import Place, Surroundings, here
from mcp_workbench.hosts.record import backup_of
from mcp_workbench.hosts.removing import last_of, prepare_removal, undo
from mcp_workbench.shown import shown

HELP = """Take the workbench out of the configuration of a host.

Where nobody changed the file since 'mcp-workbench install', it is as it was, to the byte. Otherwise the
other changes stay, and the servers that were moved behind the workbench come back."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Mapping[str, str]) -> int:
    around = here(os.environ)
    place = chosen_place(options, around)
    with files.alone(place.path):
        change = prepare_removal(place, around)
        undo(change)
    if "json" in options:
        print_json(_as_json(place, change))
    else:
        _tell(place, change, around)
    return 0


def _tell(place: Place, change: Change, around: Surroundings) -> None:
    file = around.shown(place.path)
    if change.after is None:
        write(Words(f"removed {file}, which was made for the workbench", "good"))
    elif change.exact:
        write(Words(f"{file} is as it was", "good"))
    else:
        write(Words(f"took the workbench out of {file}; what changed there since stays", "good"))
    for path in change.back:
        write(f"  back again: {shown(path[-1])}")
    for name in change.left:
        write(f"  left as it is, since it was added meanwhile: {shown(name)}")
    if change.lost:
        names, last = ", ".join(map(shown, change.lost)), around.shown(last_of(place.path))
        write(Words(f"  values that stood in its env alone are in {last}: {names}", "doubtful"))
    backup = backup_of(place.path)
    if backup.exists():
        write(Words(f"  there is no note of what was moved; as it was: {around.shown(backup)}", "doubtful"))


def _as_json(place: Place, change: Change) -> dict[str, object]:
    return {
        "ok": True,
        "host": place.host.key,
        "file": str(place.path),
        "exact": change.exact,
        "removed": change.after is None,
        "back": [path[-1] for path in change.back],
        "left": list(change.left),
        "lost": list(change.lost),
    }
