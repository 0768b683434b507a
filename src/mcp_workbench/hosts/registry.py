"""The table of hosts: their files, the path of the servers in them, and the form of an entry.

The rest of the package works from this table. Only `restrictions` knows hosts by name, since each has its own rules.
To add a host, add a row. The module also finds the files of hosts for this user, platform and folder.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

Entry = dict[str, Any]
"""A server in a configuration: a member of `mcpServers`."""
Syntax = Literal["json", "toml"]
Level = Literal["user", "project"]
References = Literal["none", "braces", "editor", "shell"]
"""How a host writes references: not at all, `${X}`, `${env:X}` and `${input:x}`, or `$X` and `${X}`."""

NAME = "workbench"
"""The default name of the workbench in the file of a host."""


MILLISECOND = 0.001

FOLDER_VARIABLES: Mapping[str, str] = {
    "workspaceFolder": "WORKSPACE_FOLDER",
    "workspaceRoot": "WORKSPACE_FOLDER",
    "workspaceFolderBasename": "WORKSPACE_FOLDER_BASENAME",
    "cwd": "WORKSPACE_CWD",
}
"""References that editors expand to the open folder, and our variables for them."""
CLAUDE_FOLDER = "CLAUDE_PROJECT_DIR"
"""The variable for the open folder, which Claude Code sets for every server."""
_NO_FOLDERS: Mapping[str, str] = dict.fromkeys(FOLDER_VARIABLES, "")


def object_of(value: Any) -> Entry:
    """A value that should be an object; anything else reads as an empty one."""
    return cast("Entry", value) if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    """A value that should be a list; anything else reads as an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


class File(NamedTuple):
    """A file in which a host keeps servers."""

    linux: str
    """Its path. `~` is the home folder; `{XDG_CONFIG_HOME}` is that variable or its default in `FOLDERS`."""
    macos: str = ""
    """Its path on macOS, if it differs."""
    level: Level = "user"
    servers: tuple[str, ...] = ("mcpServers",)
    """The path of the object that holds the servers."""
    in_projects: bool = False
    """Whether the members of `projects` hold servers too. Their names are the folders of the projects."""
    syntax: Syntax = "json"
    old: bool = False
    """Whether the host no longer uses this file. It is read and never written."""


class Host(NamedTuple):
    """A program that starts MCP servers."""

    key: str
    title: str
    files: tuple[File, ...]
    references: References
    entry: Mapping[str, object] = {}
    """Members of an entry for the workbench in addition to its command."""
    variables_key: str = ""
    """The key for variables to pass on, if the host does not pass on its whole environment."""
    variable: str = ""
    """The value that passes on the variable `NAME`. Empty: the key holds a list of names."""
    timeout_unit: float = 0
    """The unit of an entry's `timeout` in seconds; 0 if the host has no such key."""
    timeout_default: str = ""
    """The key at the top of its file for the default `timeout`."""
    folders: Mapping[str, str] = {}
    """Folder references, and our variables for them; an empty one if the host does not expand it."""
    sets: frozenset[str] = frozenset()
    """Variables that it sets for every server."""
    unread: str = ""
    """Restrictions that can't be read, for the user to check."""
    program: str = ""
    """Its program. If it is on PATH, the host is installed."""
    folder: str = ""
    """Its own folder, if its files are directly in the home folder."""
    restart: str = ""
    """How the user makes the host reload its file."""

    def file(self, level: Level) -> File | None:
        """The file to write on this level."""
        return next((file for file in self.files if file.level == level and not file.old), None)


HOSTS: tuple[Host, ...] = (
    Host(
        "claude-code",
        "Claude Code",
        (File("{CLAUDE_CONFIG_DIR}/.claude.json", in_projects=True), File(".mcp.json", level="project")),
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
"""Variables that move the files of hosts, and their defaults."""


def host_named(key: str) -> Host | None:
    return next((host for host in HOSTS if host.key == key), None)


SYSTEM = Path("/")


class HostEnvironment(NamedTuple):
    """The user's environment, which decides where files are."""

    environ: Mapping[str, str]
    project: Path
    """The current folder."""
    is_mac: bool = False
    system: Path = SYSTEM
    """The root folder of the files of administrators."""

    @property
    def home(self) -> Path:
        return Path(self.environ.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 -- Path.home may raise

    def shown(self, path: Path) -> str:
        """A path with `~` for the home folder."""
        return f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else str(path)


class HostFile(NamedTuple):
    """A file of a host."""

    host: Host
    file: File
    path: Path


def here(environ: Mapping[str, str]) -> HostEnvironment:
    return HostEnvironment(environ, Path.cwd(), sys.platform == "darwin", SYSTEM)


def all_host_files(environment: HostEnvironment) -> Iterator[HostFile]:
    """Every file that may hold servers, also missing ones. In the home folder, a project's file is the user's."""
    seen: set[tuple[str, str]] = set()
    for host in HOSTS:
        for file in host.files:
            host_file = HostFile(host, file, _path(file, environment))
            key = (host.key, os.path.realpath(host_file.path))
            if key not in seen:
                seen.add(key)
                yield host_file


def host_file_of(host: Host, level: Level, environment: HostEnvironment) -> HostFile | None:
    """The file of a host to write; None if it has none on this level."""
    file = host.file(level)
    return None if file is None else HostFile(host, file, _path(file, environment))


def is_on_machine(host: Host, environment: HostEnvironment) -> bool:
    """Whether a host is installed: one of its files or folders exists, or its program is on PATH."""
    own = [_path(file, environment) for file in host.files if file.level == "user"]
    folders = [path.parent for path in own if path.parent != environment.home]
    if host.folder:
        folders.append(_located(host.folder, environment))
    if any(os.path.exists(path) for path in (*own, *folders)):  # noqa: PTH110 -- Path.exists raises for an unreadable folder
        return True
    return bool(host.program) and shutil.which(host.program, path=environment.environ.get("PATH", "")) is not None


def _path(file: File, environment: HostEnvironment) -> Path:
    return _located(file.macos if environment.is_mac and file.macos else file.linux, environment)


def _located(template: str, environment: HostEnvironment) -> Path:
    for variable, usual in FOLDERS.items():
        template = template.replace(f"{{{variable}}}", _folder(variable, usual, environment.environ))
    if template.startswith("~/"):
        return environment.home / template[2:]
    return environment.project / template


def config_home(environment: HostEnvironment) -> Path:
    """The XDG configuration folder."""
    named = _folder("XDG_CONFIG_HOME", "", environment.environ)
    return Path(named) if named else environment.home / ".config"


def _folder(variable: str, usual: str, environ: Mapping[str, str]) -> str:
    named = environ.get(variable, "")
    # The XDG specification says to ignore a relative path. For the other variables it makes no sense either.
    return named if named.startswith("/") else usual
