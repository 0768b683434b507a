"""Folders that a host replaces and limits that it sets work behind the workbench as they did in the host."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from mcp_workbench.config.environment import HOST_FOLDERS
from mcp_workbench.hosts.registry import FOLDER_VARIABLES, HOSTS
from tests.support.users import User

PLACES = {
    "claude-code": (".claude.json", "mcpServers"),
    "claude-code project": (".mcp.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "cursor project": (".cursor/mcp.json", "mcpServers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "vscode project": (".vscode/mcp.json", "servers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}


def has(user: User, host: str, entry: Mapping[str, Any], **rest: Any) -> None:
    place, key = PLACES[host]
    path = (user.project if host.endswith("project") else user.home) / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({key: {"s": {"command": "run", **entry}}, **rest}))


def host_entry(user: User, host: str) -> dict[str, Any]:
    """The entry of the workbench in the host's file."""
    place, key = PLACES[host]
    path = (user.project if host.endswith("project") else user.home) / place
    return json.loads(path.read_text())[key]["workbench"]


def taken(user: User) -> dict[str, Any]:
    return user.entries().get("s", {})


@pytest.mark.parametrize(
    ("host", "text", "written", "env"),
    [
        ("vscode", "${workspaceFolder}/x", "${WORKSPACE_FOLDER}/x", {"WORKSPACE_FOLDER": "${workspaceFolder}"}),
        (
            "vscode",
            "${workspaceFolderBasename}",
            "${WORKSPACE_FOLDER_BASENAME}",
            {"WORKSPACE_FOLDER_BASENAME": "${workspaceFolderBasename}"},
        ),
        ("vscode", "${cwd}", "${WORKSPACE_CWD}", {"WORKSPACE_CWD": "${cwd}"}),
        ("vscode", "${input:api-key}", "${API_KEY}", {"API_KEY": "${input:api-key}"}),
        ("vscode", "${config:a.b}", "${CONFIG_A_B}", {"CONFIG_A_B": "${config:a.b}"}),
        (
            "vscode",
            "${workspaceFolder:api}",
            "${WORKSPACEFOLDER_API}",
            {"WORKSPACEFOLDER_API": "${workspaceFolder:api}"},
        ),
        ("vscode", "${userHome}${pathSeparator}x", "~HOME/x", {}),
        ("vscode", "${env:ABC}", "${ABC}", {}),
        ("vscode project", "${workspaceFolder}${/}x", "~HERE/x", {}),
        ("cursor", "${workspaceFolder}/x", "${WORKSPACE_FOLDER}/x", {"WORKSPACE_FOLDER": "${workspaceFolder}"}),
        ("cursor", "${userHome}/${env:ABC}", "~HOME/${ABC}", {}),
        ("cursor project", "${workspaceFolderBasename}", "größe", {}),
        ("windsurf", "${workspaceFolder}/x", None, {}),
        ("windsurf", "${env:ABC}", "${ABC}", {}),
        ("windsurf", "${file:/run/key}", "${FILE_RUN_KEY}", {"FILE_RUN_KEY": "${file:/run/key}"}),
        ("claude-code", "${CLAUDE_PROJECT_DIR}/x", "${CLAUDE_PROJECT_DIR}/x", {}),  # it gives that to its servers
        ("claude-code project", "${CLAUDE_PROJECT_DIR:-.}/x", "~HERE/x", {}),
        ("gemini", "$ABC/${DEF}", "${ABC}/${DEF}", {"ABC": "$ABC", "DEF": "$DEF"}),
        ("zed", "${workspaceFolder}", "$${workspaceFolder}", {}),  # it replaces nothing
    ],
)
def test_what_a_host_replaces_it_goes_on_to_replace(
    user: User, host: str, text: str, written: str | None, env: dict[str, str]
):
    has(user, host, {"args": [text]})
    done = user.run("import_")
    if written is None:
        assert "s: not taken: refers to ${workspaceFolder}, which the host does not expand" in done.out
        assert not user.config.exists()
        return
    assert taken(user)["args"] == [written.replace("~HOME", str(user.home)).replace("~HERE", str(user.project))]
    key, _, level = host.partition(" ")
    install = partial(user.run, "install", host=key, remove_imported="true", json="true")
    installed = install(project="true") if level else install()
    assert installed.document["moved"] == ["s"]
    assert host_entry(user, host).get("env", {}) == env


@pytest.mark.parametrize(
    ("host", "entry", "rest", "expected"),
    [
        ("gemini", {"timeout": 30000}, {}, 30),
        ("gemini", {"timeout": 1500}, {}, 1.5),
        ("gemini", {"timeout": 10**12}, {}, 86400),
        ("claude-code", {"timeout": 600000}, {}, 600),
        ("claude-code", {"timeout": 60}, {}, None),  # Claude Code ignores less than a second
        ("zed", {"timeout": 60}, {}, 60),
        ("zed", {}, {"context_server_timeout": 90}, 90),
        ("zed", {"timeout": 5}, {"context_server_timeout": 90}, 5),
        ("cursor", {"timeout": 60}, {}, None),  # nobody knows the unit
        ("gemini", {"timeout": "soon"}, {}, None),
    ],
)
def test_a_limit_for_calls_is_converted(
    user: User, host: str, entry: dict[str, Any], rest: dict[str, Any], expected: float | None
):
    has(user, host, entry, **rest)
    done = user.run("import_")
    assert taken(user).get("callTimeout") == expected
    assert ("'timeout' has no effect here: use callTimeout, in seconds" in done.out) is (expected is None)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("startup_timeout_sec = 20", {"startupTimeout": 20}),
        ("startup_timeout_ms = 2500", {"startupTimeout": 2.5}),
        ("tool_timeout_sec = 7.5", {"callTimeout": 7.5}),
        ("tool_timeout_sec = 1e12", {"callTimeout": 86400}),
    ],
)
def test_the_limits_of_codex_are_converted(user: User, line: str, expected: dict[str, float]):
    path = user.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(f'[mcp_servers.s]\ncommand = "run"\n{line}\n')
    user.run("import_")
    assert taken(user) == {"command": "run", **expected}


def test_a_folder_that_an_editor_fills_in_is_not_one_to_set(user: User):
    has(user, "vscode", {"args": ["${workspaceFolder}", "${env:TOKEN}"]})
    out = user.run("import_").out
    assert "\nHosts fill these in, once 'install HOST --remove-imported' has moved the servers.\n  WORKSPACE" in out
    assert out.index("  TOKEN  for ") < out.index("Hosts fill")
    told = user.run("install", host="codex").out
    assert "  not set here; set them where Codex starts: TOKEN\n" in told
    assert "  Codex does not fill in these variables, so servers that need them fail: WORKSPACE_FOLDER\n" in told


def test_every_folder_that_a_host_fills_in_is_known_as_one():
    assert {*FOLDER_VARIABLES.values(), *(name for host in HOSTS for name in host.sets)} == HOST_FOLDERS


def test_a_folder_that_claude_code_fills_in_is_not_one_to_set(user: User):
    has(user, "claude-code", {"args": ["${CLAUDE_PROJECT_DIR}"]})
    out = user.run("import_").out
    assert "\nHosts fill these in, once 'install HOST --remove-imported' has moved the servers.\n  CLAUDE_" in out
    assert "Set these variables" not in out
    install = partial(user.run, "install", remove_imported="true")
    told = install(host="claude-code").out
    assert "moved behind it: s\n" in told
    assert "CLAUDE_PROJECT_DIR" not in told
    told = install(host="codex").out
    assert "  Codex does not fill in these variables, so servers that need them fail: CLAUDE_PROJECT_DIR\n" in told
