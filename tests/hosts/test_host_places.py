"""Where the files of hosts are."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_workbench.hosts.registry import HOSTS, HostEnvironment, all_host_files, host_file_of, host_named

HOME, PROJECT = Path("/home/me"), Path("/home/me/work")
ON_LINUX = {
    ("claude-code", "user"): "/home/me/.claude.json",
    ("claude-code", "project"): "/home/me/work/.mcp.json",
    ("claude-desktop", "user"): "/home/me/.config/Claude/claude_desktop_config.json",
    ("cursor", "user"): "/home/me/.cursor/mcp.json",
    ("cursor", "project"): "/home/me/work/.cursor/mcp.json",
    ("vscode", "user"): "/home/me/.config/Code/User/mcp.json",
    ("vscode", "project"): "/home/me/work/.vscode/mcp.json",
    ("windsurf", "user"): "/home/me/.codeium/windsurf/mcp_config.json",
    ("codex", "user"): "/home/me/.codex/config.toml",
    ("codex", "project"): "/home/me/work/.codex/config.toml",
    ("gemini", "user"): "/home/me/.gemini/settings.json",
    ("gemini", "project"): "/home/me/work/.gemini/settings.json",
    ("zed", "user"): "/home/me/.config/zed/settings.json",
    ("zed", "project"): "/home/me/work/.zed/settings.json",
}
ON_MACOS = ON_LINUX | {
    ("claude-desktop", "user"): "/home/me/Library/Application Support/Claude/claude_desktop_config.json",
    ("vscode", "user"): "/home/me/Library/Application Support/Code/User/mcp.json",
}


def written(environ: dict[str, str], *, is_mac: bool = False) -> dict[tuple[str, str], str]:
    around = HostEnvironment({"HOME": str(HOME), **environ}, PROJECT, is_mac)
    places = [host_file_of(host, level, around) for host in HOSTS for level in ("user", "project")]
    return {(place.host.key, place.file.level): str(place.path) for place in places if place}


def test_each_host_has_its_files_on_linux():
    assert written({}) == ON_LINUX


def test_each_host_has_its_files_on_macos():
    assert written({}, is_mac=True) == ON_MACOS


@pytest.mark.parametrize(
    ("variable", "host", "expected"),
    [
        ("CLAUDE_CONFIG_DIR", "claude-code", "/elsewhere/.claude.json"),
        ("CODEX_HOME", "codex", "/elsewhere/config.toml"),
        ("GEMINI_CLI_HOME", "gemini", "/elsewhere/.gemini/settings.json"),
        ("XDG_CONFIG_HOME", "zed", "/elsewhere/zed/settings.json"),
        ("XDG_CONFIG_HOME", "vscode", "/elsewhere/Code/User/mcp.json"),
    ],
)
def test_a_variable_moves_the_files_of_a_host(variable: str, host: str, expected: str):
    assert written({variable: "/elsewhere"})[host, "user"] == expected


@pytest.mark.parametrize("value", ["", "relative/folder"])
def test_a_variable_that_is_no_absolute_path_moves_nothing(value: str):
    assert written({"XDG_CONFIG_HOME": value, "CODEX_HOME": value}) == ON_LINUX


def test_older_places_are_read_and_not_written():
    around = HostEnvironment({"HOME": str(HOME)}, PROJECT)
    read_only = {str(place.path) for place in all_host_files(around)} - set(ON_LINUX.values())
    assert read_only == {"/home/me/.config/Code/User/settings.json", "/home/me/.codeium/mcp_config.json"}


def test_a_host_without_files_of_projects_has_none():
    desktop = host_named("claude-desktop")
    assert desktop is not None
    assert host_file_of(desktop, "project", HostEnvironment({}, PROJECT)) is None


def test_a_path_is_shown_as_people_write_it():
    around = HostEnvironment({"HOME": str(HOME)}, PROJECT)
    assert around.shown(HOME / ".mcp.json") == "~/.mcp.json"
    assert around.shown(Path("/etc/x")) == "/etc/x"


def test_in_the_home_folder_a_file_of_the_project_is_the_users_and_there_once():
    paths = [str(place.path) for place in all_host_files(HostEnvironment({"HOME": str(HOME)}, HOME))]
    assert len(set(paths)) == len(paths)
    assert "/home/me/.cursor/mcp.json" in paths
