"""`mcp-workbench install`: the workbench is put into the configuration of a host."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_workbench import __version__
from mcp_workbench.cli.answering import answered, print_json
from mcp_workbench.cli.display import Words, write
from mcp_workbench.cli.options import Given
from mcp_workbench.cli.target import Target, opened
from mcp_workbench.config.locate import VARIABLE, user_config
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts import files
from mcp_workbench.hosts.documents import Document
from mcp_workbench.hosts.installing import Installation, held_by, prepare
from mcp_workbench.hosts.known import HOSTS, NAME, Host, host_named
from mcp_workbench.hosts.ours import CONFIG, SERVE, Movable, Ours
from mcp_workbench.hosts.places import Place, Surroundings, here, place_of
from mcp_workbench.hosts.record import backup_of
from mcp_workbench.hosts.references import looks_up
from mcp_workbench.nearest import nearest_or_known
from mcp_workbench.shown import shown

HELP = """Put the workbench into the configuration of a host, so that the host starts it.

HOST is claude-code, claude-desktop, cursor, vscode, windsurf, codex, gemini or zed. With
--remove-imported, servers that the workbench has now are taken out of the host, and the values of their
variables stay in its file, in the entry of the workbench. A copy of the file as it was lies beside it, and
'mcp-workbench uninstall HOST' puts everything back. Comments and layout of the file stay as they are."""

_PROGRAM = "mcp-workbench"
_FLEETING = (
    ("/archive-v", "uv", ("tool", "run")),
    ("/pipx/.cache/", "pipx", ("run",)),
    ("/.cache/pipx/", "pipx", ("run",)),
)
"""What is in the path of an environment that lasts for one command; what made it, and how it is asked for another."""


def run(options: Given) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Given) -> int:
    around = here(os.environ)
    place = chosen_place(options, around)
    config, name = _config(options), options.get("name", NAME)
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ConfigError(
            f"'{shown(name)}' is no name that every host takes", hint="Use letters, digits, - and _ only."
        )
    target = opened(config or Path(user_config(os.environ)))
    ours = Ours(place, around, _command(options, config), target.servers(), _values(options.all("env"), place.host))
    with files.alone(place.path):
        moved = _imported(ours, target, name) if "remove_imported" in options else []
        planned = prepare(place, name, ours.entry, [one.server.path for one in moved if not one.others])
        planned.write(files.SHARED if place.file.level == "project" else files.PRIVATE)
    _tell(options, ours, planned, [one for one in moved if one.others])
    if "json" not in options and not (config or Path(user_config(os.environ))).exists():
        write(Words("There is no configuration yet: mcp-workbench import makes one of your hosts'.", "doubtful"))
    return 0


def chosen_place(options: Mapping[str, str], around: Surroundings) -> Place:
    """The file of the host that was named. Raises `ConfigError`."""
    host = _host(options["host"])
    place = place_of(host, "project" if "project" in options else "user", around)
    if place is None:
        raise ConfigError(f"{host.title} keeps no servers by project", hint="Leave out --project.")
    return place


def _host(name: str) -> Host:
    host = host_named(name)
    if host is None:
        hint = nearest_or_known(name, [one.key for one in HOSTS], "hosts")
        raise ConfigError(f"there is no host '{shown(name)}'", hint=hint)
    return host


def _config(options: Mapping[str, str]) -> Path | None:
    """The configuration that the host's workbench is given; None where it finds it by itself."""
    named = options.get("config") or os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else None


def _command(options: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    command, *args = [options["command"]] if "command" in options else running()
    args += [SERVE, *([CONFIG, str(config)] if config else [])]
    for one in (command, *args):
        if not _is_text(one):
            raise ConfigError(
                f"this path is no UTF-8: {shown(one)}", hint="Files of hosts can't hold it: choose another."
            )
    return {"command": command, "args": args}


def _values(names: Sequence[str], host: Host) -> dict[str, str]:
    """What these variables are here. Only their names are told: the values may be secrets."""
    if any("=" in name for name in names):
        raise ConfigError("--env takes the name of a variable alone", hint="Set it first: export NAME=value")
    unset = [shown(name) for name in names if name not in os.environ]
    if unset:
        raise ConfigError(f"not set in the environment: {', '.join(unset)}", hint="Set it first: export NAME=value")
    values = {name: os.environ[name] for name in names}
    for name, value in values.items():
        if looks_up(host.references, value):
            problem = f"{host.title} would take a part of the value of {shown(name)} for a variable"
            raise ConfigError(problem, hint=f"Leave out --env {shown(name)}; set it where {host.title} starts.")
        if not _is_text(value):
            raise ConfigError(f"the value of {shown(name)} is no UTF-8", hint="Files of hosts can't hold it.")
    return values


def _is_text(text: str) -> bool:
    """Whether it can be written into a file: what is no UTF-8 has halves of surrogate pairs in it."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def running() -> list[str]:
    """The absolute path of this program; hosts have another PATH than terminals.

    One that `uvx` or `pipx run` made for this moment is gone soon: then it is what makes it again.
    """
    for folder, runner, words in _FLEETING:
        program = os.environ.get("UV") if runner == "uv" else shutil.which(runner)
        if program and folder in Path(sys.prefix).as_posix():
            return [program, *words, f"{_PROGRAM}=={__version__}"]
    for found in (sys.argv[0], str(Path(sys.executable).with_name(_PROGRAM)), shutil.which(_PROGRAM) or ""):
        path = Path(found)
        if path.name == _PROGRAM and path.is_file() and os.access(path, os.X_OK):
            return [str(path.absolute())]
    return [sys.executable, "-m", "mcp_workbench"]


def _imported(ours: Ours, target: Target, name: str) -> list[Movable]:
    """The servers in the host's file that the workbench has too."""
    if target.known is None:
        raise ConfigError("there is no configuration yet", file=target.path, hint="Run mcp-workbench import first.")
    place = ours.place
    document = Document.decoded(files.read(place.path) or b"", place.file.syntax, str(place.path))
    return ours.movable(document, held_by(place, name))


def _tell(options: Mapping[str, str], ours: Ours, planned: Installation, stay: Sequence[Movable]) -> None:
    place, shown_path = ours.place, ours.around.shown
    backup = backup_of(place.path)
    copy = str(backup) if backup.exists() else None
    given, missing = ours.given(planned.entry), ours.missing(planned.entry)
    if "json" in options:
        print_json(
            {
                "ok": True,
                "host": place.host.key,
                "file": str(place.path),
                "changed": planned.change.is_one,
                "moved": list(planned.moved),
                "stay": [one.server.name for one in stay],
                "variables": given,
                "missing": missing,
                "backup": copy,
            }
        )
        return
    if not planned.change.is_one:
        write(f"{place.host.title} has the workbench already: {shown_path(place.path)}")
        _tell_stay(stay)
        return
    write(Words(f"{place.host.title} starts the workbench now: {shown_path(place.path)}", "good"))
    if place.file.level == "user" and planned.record.made_folders:
        write(Words(f"  its folder was not there: is {place.host.title} installed?", "doubtful"))
    for name in planned.moved:
        write(f"  moved behind it: {shown(name)}")
    _tell_stay(stay)
    if given:
        write(f"  its env has the values of: {', '.join(given)}")
    if ours.values and place.file.level == "project":
        write(Words("  the file is the project's: keep it out of version control if these are secrets", "doubtful"))
    if missing:
        write(Words(f"  not set here, so set where {place.host.title} starts: {', '.join(missing)}", "doubtful"))
    if copy:
        write(f"  as it was: {shown_path(backup)}")
    write(f"next: {place.host.restart}")


def _tell_stay(stay: Sequence[Movable]) -> None:
    for one in stay:
        names = ", ".join(one.others)
        write(
            Words(
                f"  stays, with another value than the workbench has of {names}: {shown(one.server.name)}", "doubtful"
            )
        )
