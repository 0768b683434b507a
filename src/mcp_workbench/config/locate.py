"""Finds the configuration: `--config`, `$WORKBENCH_CONFIG`, or the file in the user's configuration folder.

Guarantees: `find_config` never returns a file only because it lies in the current folder, since a cloned
repository must not be able to start programs. `has_project_file` says that such a file exists;
`storage/trusted_configs.py`
and `cli/config_selection.py` decide whether it is used. A file that was named is returned whether it exists or not;
reading it tells what is wrong.

Paths are strings here and in the reader: `serve` goes through both, and importing pathlib is a
noticeable part of its start.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from mcp_workbench.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp_workbench.config.model import Config


VARIABLE = "WORKBENCH_CONFIG"
FILE_NAME = "workbench-config.json"
FOLDER_NAME = "mcp-workbench"

Kind = Literal["config", "data", "state", "cache"]
_FOLDERS: dict[Kind, tuple[str, str, str]] = {
    "config": ("XDG_CONFIG_HOME", ".config", "Application Support"),
    "data": ("XDG_DATA_HOME", ".local/share", "Application Support"),
    "state": ("XDG_STATE_HOME", ".local/state", "Application Support"),
    "cache": ("XDG_CACHE_HOME", ".cache", "Caches"),
}
"""The folders of a user: the variable that names one, where it is otherwise, and where macOS has it."""

_START_HINT = (
    "Run 'mcp-workbench import' to take the servers of your hosts along, or 'mcp-workbench add' for one; "
    "or pass a file with --config FILE: an MCP host's with mcpServers works too."
)


def find_config(flag: str | None, environ: Mapping[str, str]) -> str:
    """The file that was named, or the user's own. Raises `ConfigError` where there is neither."""
    named = flag or environ.get(VARIABLE)
    if named:
        return _with_home(named)
    own = user_config(environ)
    # lexists: a broken link is a file that somebody meant, and reading it says what is wrong.
    if os.path.lexists(own):
        return own
    if os.path.lexists(FILE_NAME):
        raise ConfigError(
            "no configuration: the file in this folder is not used by itself, since it decides which programs start",
            hint=f"If you trust it, run 'mcp-workbench trust' in this folder, or pass --config ./{FILE_NAME}",
        )
    looked = f"${VARIABLE} (not set), ./{FILE_NAME}, {own}"
    raise ConfigError(f"no configuration found; looked at {looked}", hint=_START_HINT)


def has_project_file(flag: str | None, environ: Mapping[str, str]) -> bool:
    """Whether the current folder has a configuration that is not the user's own, and no other file was named."""
    if flag or environ.get(VARIABLE) or not os.path.lexists(FILE_NAME):
        return False
    return os.path.realpath(os.path.dirname(user_config(environ))) != os.getcwd()


def user_config(environ: Mapping[str, str]) -> str:
    """The file in the user's configuration folder."""
    return own_file(environ, "config", FILE_NAME)


def own_file(environ: Mapping[str, str], kind: Kind, name: str) -> str:
    """Where a file of ours is in one of the user's folders, as the platform has them."""
    home = environ.get("HOME") or os.path.expanduser("~")
    variable, usual, on_macos = _FOLDERS[kind]
    if sys.platform == "darwin":
        return os.path.join(home, "Library", on_macos, FOLDER_NAME, name)
    xdg = environ.get(variable, "")
    # The XDG specification: a relative path is invalid and to be ignored.
    folder = xdg if xdg.startswith("/") else os.path.join(home, usual)
    return os.path.join(folder, FOLDER_NAME, name)


def _with_home(name: str) -> str:
    """Hosts start programs without a shell, so `~` in their files arrives here as it is."""
    return os.path.expanduser(name)


Stamp: TypeAlias = "tuple[tuple[int, ...], ...]"
"""What tells that files may be otherwise than before."""


class Origin(NamedTuple):
    """What a configuration was read from, and how it is read again."""

    files: tuple[str, ...]
    """Those that decide what it is: where one changes, it is read again."""
    stamp: Stamp
    """How they were before it was read."""
    read: Callable[[], Config]
    """Reads it as at the start. Raises `WorkbenchError`."""


def origin_of(files: Sequence[str], read: Callable[[], Config]) -> Origin:
    """An origin, as its files are now."""
    return Origin(tuple(files), stamp_of(files), read)


def stamp_of(files: Sequence[str]) -> Stamp:
    return tuple(map(_look, files))


def _look(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
