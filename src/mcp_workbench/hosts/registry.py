"""Every host, once, as data: its files, where servers stand in them, and how an entry is written.

The rest of the package reads this table and knows no host by name, except `restrictions`, since every host has rules
of its own. A host is added by adding to it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

Entry = dict[str, Any]
"""A server in a configuration: a member of `mcpServers`."""
Syntax = Literal["json", "toml"]
Level = Literal["user", "project"]
References = Literal["none", "braces", "editor", "shell"]
"""How a host writes the value of a variable: not at all, `${X}`, `${env:X}` and `${input:x}`, or `$X` and `${X}`."""

NAME = "workbench"
"""What the workbench is called in the file of a host."""


MILLISECOND = 0.001

FOLDER_VARIABLES: Mapping[str, str] = {
    "workspaceFolder": "WORKSPACE_FOLDER",
    "workspaceRoot": "WORKSPACE_FOLDER",
    "workspaceFolderBasename": "WORKSPACE_FOLDER_BASENAME",
    "cwd": "WORKSPACE_CWD",
}
"""What editors replace by the folder that is open."""
CLAUDE_FOLDER = "CLAUDE_PROJECT_DIR"
"""The variable for the folder that is open in Claude Code, which it gives to every server."""
_NO_FOLDERS: Mapping[str, str] = dict.fromkeys(FOLDER_VARIABLES, "")


class File(NamedTuple):
    """A file in which a host keeps servers."""

    linux: str
    """Its path: `~` is the home folder, `{XDG_CONFIG_HOME}` and the like are variables or what they are by default."""
    macos: str = ""
    """Its path on macOS, where that is another one."""
    level: Level = "user"
    servers: tuple[str, ...] = ("mcpServers",)
    """The path of the object that holds the servers."""
    in_projects: bool = False
    """Whether each object in `projects` holds servers too, by the folder of the project."""
    syntax: Syntax = "json"
    old: bool = False
    """Read, and never written: the host itself has moved on."""


class Host(NamedTuple):
    """A program that starts MCP servers."""

    key: str
    title: str
    files: tuple[File, ...]
    references: References
    entry: Mapping[str, object] = {}
    """What an entry for the workbench has beside its command."""
    variables_key: str = ""
    """The key for the variables that a server is given, where the host keeps some or all from it."""
    variable: str = ""
    """How the value of one is written there, with `NAME` for its name; where it is empty, the key lists the names."""
    timeout_unit: float = 0
    """The unit of an entry's `timeout` in seconds; 0 where the host has no such key."""
    timeout_default: str = ""
    """The key at the top of its file for the `timeout` of all servers."""
    folders: Mapping[str, str] = {}
    """The names for folders in `${…}`, and what each is called in our configuration; empty where it replaces none."""
    sets: frozenset[str] = frozenset()
    """Variables that it gives to every server by itself."""
    unread: str = ""
    """What it restricts in a place that can't be read here, for people to check."""
    program: str = ""
    """The name of its program, if that tells that the host is installed."""
    folder: str = ""
    """Its own folder, where its files are in the home folder."""
    restart: str = ""
    """What a person does so that the host reads its file."""

    def file(self, level: Level) -> File | None:
        """The file that is written on a level."""
        return next((file for file in self.files if file.level == level and not file.old), None)


HOSTS: tuple[Host, ...] = (
    Host(
        "claude-code",
        "Claude Code",
        (
            File("{CLAUDE_CONFIG_DIR}/.claude.json", in_projects=True),
            File(".mcp.json", level="project"),
        ),
        "braces",
        {"type": "stdio", "alwaysLoad": True},
        timeout_unit=MILLISECOND,
        sets=frozenset((CLAUDE_FOLDER,)),
        program="claude",
        folder="~/.claude",
        restart="Start a new session of claude; /mcp shows the workbench.",
    ),
    Host(
        "claude-desktop",
        "Claude Desktop",
        (
            File(
                "{XDG_CONFIG_HOME}/Claude/claude_desktop_config.json",
                "~/Library/Application Support/Claude/claude_desktop_config.json",
            ),
        ),
        "none",
        unread="tools that you turned off in Claude Desktop can't be read",
        restart="Quit Claude Desktop and start it again.",
    ),
    Host(
        "cursor",
        "Cursor",
        (File("~/.cursor/mcp.json"), File(".cursor/mcp.json", level="project")),
        "editor",
        folders=FOLDER_VARIABLES,
        unread="tools that you turned off in Cursor's settings can't be read",
        program="cursor",
        restart="Cursor starts it automatically; Settings, MCP shows it.",
    ),
    Host(
        "vscode",
        "VS Code",
        (
            File(
                "{XDG_CONFIG_HOME}/Code/User/mcp.json",
                "~/Library/Application Support/Code/User/mcp.json",
                servers=("servers",),
            ),
            File(
                "{XDG_CONFIG_HOME}/Code/User/settings.json",
                "~/Library/Application Support/Code/User/settings.json",
                servers=("mcp", "servers"),
                old=True,
            ),
            File(".vscode/mcp.json", level="project", servers=("servers",)),
        ),
        "editor",
        {"type": "stdio"},
        folders=FOLDER_VARIABLES,
        program="code",
        restart="Run MCP: List Servers in VS Code and start the workbench.",
    ),
    Host(
        "windsurf",
        "Windsurf",
        (File("~/.codeium/windsurf/mcp_config.json"), File("~/.codeium/mcp_config.json", old=True)),
        "editor",
        folders=_NO_FOLDERS,
        program="windsurf",
        restart="Press the refresh button of the MCP panel in Windsurf.",
    ),
    Host(
        "codex",
        "Codex",
        (
            File("{CODEX_HOME}/config.toml", servers=("mcp_servers",), syntax="toml"),
            File(".codex/config.toml", level="project", servers=("mcp_servers",), syntax="toml"),
        ),
        "none",
        variables_key="env_vars",
        program="codex",
        restart="Start a new session of codex; /mcp shows the workbench.",
    ),
    Host(
        "gemini",
        "Gemini CLI",
        (File("{GEMINI_CLI_HOME}/.gemini/settings.json"), File(".gemini/settings.json", level="project")),
        "shell",
        variables_key="env",
        variable="$NAME",
        timeout_unit=MILLISECOND,
        program="gemini",
        restart="Start gemini again, in a folder that it trusts; /mcp shows the workbench.",
    ),
    Host(
        "zed",
        "Zed",
        (
            File("{XDG_CONFIG_HOME}/zed/settings.json", "~/.config/zed/settings.json", servers=("context_servers",)),
            File(".zed/settings.json", level="project", servers=("context_servers",)),
        ),
        "none",
        timeout_unit=1,
        timeout_default="context_server_timeout",
        restart="Zed starts it automatically; the settings of the Agent Panel show it.",
    ),
)

FOLDERS: Mapping[str, str] = {
    "CLAUDE_CONFIG_DIR": "~",
    "CODEX_HOME": "~/.codex",
    "GEMINI_CLI_HOME": "~",
    "XDG_CONFIG_HOME": "~/.config",
}
"""Variables that move the files of hosts, and where those are without."""


def host_named(key: str) -> Host | None:
    return next((host for host in HOSTS if host.key == key), None)


SYSTEM = Path("/")


class HostEnvironment(NamedTuple):
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


class HostFile(NamedTuple):
    """A file of a host."""

    host: Host
    file: File
    path: Path


def here(environ: Mapping[str, str]) -> HostEnvironment:
    return HostEnvironment(environ, Path.cwd(), sys.platform == "darwin", SYSTEM)


def every_place(around: HostEnvironment) -> Iterator[HostFile]:
    """All files in which servers may stand, whether they exist or not; in the home folder a project's is the user's."""
    seen: set[tuple[str, str]] = set()
    for host in HOSTS:
        for file in host.files:
            place = HostFile(host, file, _path(file, around))
            key = (host.key, os.path.realpath(place.path))
            if key not in seen:
                seen.add(key)
                yield place


def place_of(host: Host, level: Level, around: HostEnvironment) -> HostFile | None:
    """The file of a host that is written; None where it has none on that level."""
    file = host.file(level)
    return None if file is None else HostFile(host, file, _path(file, around))


def is_on_machine(host: Host, around: HostEnvironment) -> bool:
    """Whether this user has a host: one of its own files or folders is there, or its program is on the PATH."""
    own = [_path(file, around) for file in host.files if file.level == "user"]
    folders = [path.parent for path in own if path.parent != around.home]
    if host.folder:
        folders.append(_located(host.folder, around))
    if any(os.path.exists(path) for path in (*own, *folders)):  # noqa: PTH110 -- Path.exists raises for a closed folder
        return True
    return bool(host.program) and shutil.which(host.program, path=around.environ.get("PATH", "")) is not None


def _path(file: File, around: HostEnvironment) -> Path:
    return _located(file.macos if around.is_mac and file.macos else file.linux, around)


def _located(template: str, around: HostEnvironment) -> Path:
    for variable, usual in FOLDERS.items():
        template = template.replace(f"{{{variable}}}", _folder(variable, usual, around.environ))
    if template.startswith("~/"):
        return around.home / template[2:]
    return around.project / template


def config_home(around: HostEnvironment) -> Path:
    """The folder for the settings of programs on Linux."""
    named = _folder("XDG_CONFIG_HOME", "", around.environ)
    return Path(named) if named else around.home / ".config"


def _folder(variable: str, usual: str, environ: Mapping[str, str]) -> str:
    named = environ.get(variable, "")
    # The XDG specification: a relative path is invalid and to be ignored. Of the others none makes sense either.
    return named if named.startswith("/") else usual
