"""Where the configuration is: `--config`, `$WORKBENCH_CONFIG`, or a file in a known place.

Guarantees: a server that a host starts (`terminal=False`) never uses a file for the only reason that
it lies in the current folder, since a cloned repository must not be able to start programs; one that
its user trusts is found by `trusted.py`. A file that was named is returned whether it exists or not;
reading it tells what is wrong.

Paths are strings here and in the reader: `serve` goes through both, and importing pathlib is a
noticeable part of its start.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Literal

from mcp_workbench.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def find_config(flag: str | None, environ: Mapping[str, str], *, terminal: bool) -> str:
    """The file to read; `terminal`: a person typed the command, so the current folder counts."""
    named = flag or environ.get(VARIABLE)
    if named:
        return _with_home(named)
    local, own = FILE_NAME, user_config(environ)
    places = [local, own] if terminal else [own]
    for place in places:
        # lexists: a broken link is a file that somebody meant, and reading it says what is wrong.
        if os.path.lexists(place):
            return place
    if os.path.lexists(local):
        raise ConfigError(
            "no configuration: the file in this folder is not used by itself, since it decides which programs start",
            hint=f"If you trust it, run 'mcp-workbench trust' in this folder, or pass --config ./{FILE_NAME}",
        )
    looked = ", ".join([f"${VARIABLE} (not set)", *(_display(place) for place in places)])
    raise ConfigError(f"no configuration found; looked at {looked}", hint=_START_HINT)


def has_project_file(flag: str | None, environ: Mapping[str, str]) -> bool:
    """Whether a file of the current folder is what a server uses, if its user trusts it."""
    return not flag and not environ.get(VARIABLE) and os.path.lexists(FILE_NAME)


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


def _display(place: str) -> str:
    return place if os.path.isabs(place) else f"./{place}"
