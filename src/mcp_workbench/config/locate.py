"""Finds the configuration: `--config`, `$WORKBENCH_CONFIG`, or the file in the user's configuration folder.

Guarantees: `find_config` never returns a file merely because it is in the current folder, since a cloned repository
must not be able to start programs. `has_project_file` reports such a file; `storage/trusted_configs.py` and
`cli/config_selection.py` decide whether to use it. A file that the user named is returned even if it does not exist:
reading it reports the error.

Paths are strings here and in the reader, because importing pathlib would noticeably delay the start of `serve`.
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
"""The folders of a user: the variable that sets one, its default, and its name on macOS."""

_FIRST_STEPS = (
    "Run 'mcp-workbench import' to import the servers of your hosts, or 'mcp-workbench add' to add one; "
    "or pass a file with --config FILE. A file of an MCP host with mcpServers works too."
)


def find_config(flag: str | None, environ: Mapping[str, str]) -> str:
    """The file that the user named, or the one in the configuration folder. Raises `ConfigError` if neither exists."""
    named = flag or environ.get(VARIABLE)
    if named:
        return _expand_home(named)
    own = user_config(environ)
    # lexists: a broken link is meant to be the file, and reading it reports the error.
    if os.path.lexists(own):
        return own
    if os.path.lexists(FILE_NAME):
        raise ConfigError(
            "no configuration: the file in this folder is not used automatically: it decides which programs start",
            hint=f"If you trust it, run 'mcp-workbench trust' in this folder, or pass --config ./{FILE_NAME}",
        )
    searched = f"${VARIABLE} (not set), ./{FILE_NAME}, {own}"
    raise ConfigError(f"no configuration found; looked at {searched}", hint=_FIRST_STEPS)


def has_project_file(flag: str | None, environ: Mapping[str, str]) -> bool:
    """Whether the current folder has a configuration other than the user's, and the user named no file."""
    if flag or environ.get(VARIABLE) or not os.path.lexists(FILE_NAME):
        return False
    return os.path.realpath(os.path.dirname(user_config(environ))) != os.getcwd()


def user_config(environ: Mapping[str, str]) -> str:
    """The file in the user's configuration folder."""
    return own_file(environ, "config", FILE_NAME)


def own_file(environ: Mapping[str, str], kind: Kind, name: str) -> str:
    """The path of a file of the workbench in one of the user's folders on this platform."""
    home = environ.get("HOME") or os.path.expanduser("~")
    variable, default, on_macos = _FOLDERS[kind]
    if sys.platform == "darwin":
        return os.path.join(home, "Library", on_macos, FOLDER_NAME, name)
    xdg = environ.get(variable, "")
    # The XDG specification says to ignore a relative path.
    folder = xdg if xdg.startswith("/") else os.path.join(home, default)
    return os.path.join(folder, FOLDER_NAME, name)


def _expand_home(name: str) -> str:
    """Expand `~`: hosts start programs without a shell, so it arrives unexpanded."""
    return os.path.expanduser(name)


Stamp: TypeAlias = "tuple[tuple[int, ...], ...]"
"""Identifies the state of files: it differs if one of them may have changed."""


class Origin(NamedTuple):
    """The files behind a configuration, and how to reload it."""

    files: tuple[str, ...]
    """The files that determine the configuration. If one changes, it is reloaded."""
    stamp: Stamp
    """The state of the files before they were read."""
    read: Callable[[], Config]
    """Loads the configuration in the same way as at the start. Raises `WorkbenchError`."""


def origin_of(files: Sequence[str], read: Callable[[], Config]) -> Origin:
    """An origin with the current state of its files."""
    return Origin(tuple(files), stamp_of(files), read)


def stamp_of(files: Sequence[str]) -> Stamp:
    return tuple(map(_file_stamp, files))


def _file_stamp(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)
    except (OSError, ValueError):
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
