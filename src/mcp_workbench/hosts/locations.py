"""Where the files of hosts are for this user, on this platform, in this folder."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mcp_workbench.hosts.registry import FOLDERS, HOSTS, File, Host, Level

SYSTEM = Path("/")


class Surroundings(NamedTuple):
    """What decides where files are."""

    environ: Mapping[str, str]
    project: Path
    """The folder in which the command runs."""
    is_mac: bool = False
    system: Path = SYSTEM
    """The folder above the files of administrators."""

    @property
    def home(self) -> Path:
        return Path(self.environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 -- Path.home raises without one

    def shown(self, path: Path) -> str:
        """A path as people write it."""
        return f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)


class Place(NamedTuple):
    """A file of a host."""

    host: Host
    file: File
    path: Path


def here(environ: Mapping[str, str]) -> Surroundings:
    return Surroundings(environ, Path.cwd(), sys.platform == "darwin", SYSTEM)


def every_place(around: Surroundings) -> Iterator[Place]:
    """All files in which servers may stand, whether they exist or not; in the home folder a project's is the user's."""
    seen: set[tuple[str, str]] = set()
    for host in HOSTS:
        for file in host.files:
            place = Place(host, file, _path(file, around))
            key = (host.key, os.path.realpath(place.path))
            if key not in seen:
                seen.add(key)
                yield place


def place_of(host: Host, level: Level, around: Surroundings) -> Place | None:
    """The file of a host that is written; None where it has none on that level."""
    file = host.file(level)
    return None if file is None else Place(host, file, _path(file, around))


def is_on_machine(host: Host, around: Surroundings) -> bool:
    """Whether this user has a host: one of its own files or folders is there, or its program is on the PATH."""
    own = [_path(file, around) for file in host.files if file.level == "user"]
    folders = [path.parent for path in own if path.parent != around.home]
    if host.folder:
        folders.append(_located(host.folder, around))
    if any(os.path.exists(path) for path in (*own, *folders)):  # noqa: PTH110 -- Path.exists raises for a closed folder
        return True
    return bool(host.program) and shutil.which(host.program, path=around.environ.get("PATH", "")) is not None


def _path(file: File, around: Surroundings) -> Path:
    return _located(file.macos if around.is_mac and file.macos else file.linux, around)


def _located(template: str, around: Surroundings) -> Path:
    for variable, usual in FOLDERS.items():
        template = template.replace(f"{{{variable}}}", _folder(variable, usual, around.environ))
    if template.startswith("~/"):
        return around.home / template[2:]
    return around.project / template


def config_home(around: Surroundings) -> Path:
    """The folder for the settings of programs on Linux."""
    named = _folder("XDG_CONFIG_HOME", "", around.environ)
    return Path(named) if named else around.home / ".config"


def _folder(variable: str, usual: str, environ: Mapping[str, str]) -> str:
    named = environ.get(variable, "")
    # The XDG specification: a relative path is invalid and to be ignored. Of the others none makes sense either.
    return named if named.startswith("/") else usual
