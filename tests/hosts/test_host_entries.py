"""What an entry of a host becomes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.hosts.conversion import NotConvertible, convert, is_workbench
from mcp_workbench.hosts.registry import References
from mcp_workbench.hosts.variables import VariableScope, variable_name

HOME, PROJECT = Path("/home/me"), Path("/work/größe")


def entry(raw: Any, style: References = "braces", project: Path | None = None) -> dict[str, Any]:
    return convert(raw, VariableScope(style, HOME, project)).entry


def notes(raw: Any) -> tuple[str, ...]:
    return convert(raw, VariableScope("braces", HOME)).notes


@pytest.mark.parametrize(
    ("style", "text", "expected"),
    [
        ("none", "${A} $A", "$${A} $A"),
        ("braces", "${A} ${A:-b} $A", "${A} ${A:-b} $A"),
        ("braces", "${not closed", "$${not closed"),
        ("editor", "${env:A} ${A}", "${A} ${A}"),
        ("editor", "${env:A:fallback}", "${A:-fallback}"),
        ("editor", "${input:api-key}", "${API_KEY}"),
        ("editor", "${userHome}${/}x${pathSeparator}y", "/home/me/x/y"),
        ("editor", "${workspaceFolder}/x", "/work/größe/x"),
        ("editor", "${workspaceFolderBasename}", "größe"),
        ("editor", "${config:my.setting}", "${CONFIG_MY_SETTING}"),
        ("shell", "$A-${B} $1", "${A}-${B} $1"),
    ],
)
def test_references_become_our_own(style: References, text: str, expected: str):
    raw = {"command": "/x", "args": [text], "cwd": "/y"}
    assert entry(raw, style, PROJECT)["args"] == [expected]


@pytest.mark.parametrize("style", ["none", "braces", "editor", "shell"])
def test_a_server_that_replaces_its_own_variables_in_its_arguments_still_does(style: References):
    raw = {"command": "mcp-remote", "args": ["Authorization:${AUTH}"], "env": {"AUTH": "Bearer x"}}
    assert entry(raw, style)["args"] == ["Authorization:$${AUTH}"]


@pytest.mark.parametrize(
    ("style", "reference"), [("braces", "${AUTH}"), ("editor", "${env:AUTH}"), ("shell", "$AUTH"), ("shell", "${AUTH}")]
)
def test_a_variable_that_a_server_is_only_passed_is_replaced_in_its_arguments(style: References, reference: str):
    raw = {"command": "x", "args": [reference], "env": {"AUTH": reference}}
    assert entry(raw, style) == {"command": "x", "args": ["${AUTH}"], "env": {"AUTH": "${AUTH}"}}


def test_the_folder_of_an_editor_is_a_variable_where_there_is_no_project():
    assert entry({"command": "${workspaceFolder}/x"}, "editor")["command"] == "${workspaceFolder}/x"


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"url": "https://a/mcp", "type": "http"}, {"url": "https://a/mcp"}),
        ({"url": "https://a/x", "type": "sse"}, {"url": "https://a/x", "transport": "sse"}),
        ({"url": "https://a/sse"}, {"url": "https://a/sse", "transport": "sse"}),
        ({"url": "https://a/sse", "type": "streamable-http"}, {"url": "https://a/sse"}),
        ({"serverUrl": "https://a/mcp"}, {"url": "https://a/mcp"}),
        ({"httpUrl": "https://a/mcp", "url": "https://a/other"}, {"url": "https://a/mcp"}),
        ({"type": "stdio", "command": "x", "env": {}, "args": []}, {"command": "x"}),
        ({"command": "x", "env": {"PORT": 8080, "GONE": None}}, {"command": "x", "env": {"PORT": "8080"}}),
        ({"command": "x", "enabled": False}, {"command": "x", "disabled": True}),
        ({"command": "x", "disabled": False, "alwaysLoad": True, "trust": True}, {"command": "x"}),
        ({"command": "x", "disabledTools": ["a"]}, {"command": "x", "toolFilters": ["!a"]}),
        (
            {"command": "x", "includeTools": ["a"], "excludeTools": ["b"]},
            {"command": "x", "toolFilters": ["a", "!b"]},
        ),
        ({"command": {"path": "x", "args": ["y"]}, "settings": {}}, {"command": "x", "args": ["y"]}),
        (
            {"command": "x", "env_vars": ["A", {"name": "B"}], "startup_timeout_sec": 5, "tool_timeout_sec": 9.5},
            {"command": "x", "inheritEnv": ["A", "B"], "startupTimeout": 5, "callTimeout": 9.5},
        ),
        (
            {
                "url": "https://a",
                "bearer_token_env_var": "T",
                "env_http_headers": {"X": "V"},
                "http_headers": {"Y": "1"},
            },
            {"url": "https://a", "headers": {"X": "${V}", "Authorization": "Bearer ${T}", "Y": "1"}},
        ),
        (
            {"url": "https://me:p%40ss@a.example/mcp"},
            {"url": "https://a.example/mcp", "headers": {"Authorization": "Basic bWU6cEBzcw=="}},
        ),
    ],
)
def test_each_form_of_an_entry_becomes_ours(raw: dict[str, Any], expected: dict[str, Any]):
    assert entry(raw) == expected


@pytest.mark.parametrize(
    ("raw", "transport"),
    [
        ({"url": "https://a/mcp"}, None),
        ({"httpUrl": "https://a/mcp"}, None),
        ({"url": "https://a/sse"}, "sse"),
        ({"url": "https://a/sse", "type": "http"}, None),
        ({"url": "https://a/mcp", "type": "sse"}, "sse"),
        ({"serverUrl": "https://a/b/sse?x=1"}, "sse"),
    ],
)
def test_an_address_is_reached_as_its_entry_says(raw: Any, transport: str | None):
    assert entry(raw).get("transport") == transport


def test_a_login_is_taken_however_its_host_writes_it():
    codex = {"url": "https://a/mcp", "scopes": ["r"], "oauth": {"client_id": "me", "callback_port": 8123}}
    assert entry(codex)["oauth"] == {"clientId": "me", "scopes": ["r"], "callbackPort": 8123}
    zed = {"url": "https://a/mcp", "oauth": {"client_id": "me", "client_secret": "s"}}
    assert entry(zed)["oauth"] == {"clientId": "me", "clientSecret": "s"}
    assert "oauth" not in entry({"command": "x", "scopes": ["r"]})
    assert "oauth" not in entry({"url": "https://a/mcp"})


def test_a_timeout_in_milliseconds_becomes_one_in_seconds():
    assert entry({"command": "x", "startup_timeout_ms": 5500})["startupTimeout"] == 5.5
    assert entry({"command": "x", "startup_timeout_ms": 5500, "startup_timeout_sec": 7})["startupTimeout"] == 7


def test_where_a_host_has_no_references_the_variables_of_its_headers_are_still_meant():
    raw = {"url": "https://a", "bearer_token_env_var": "T", "http_headers": {"X": "${no}"}}
    assert entry(raw, "none")["headers"] == {"Authorization": "Bearer ${T}", "X": "$${no}"}


def test_a_server_of_a_project_runs_in_its_folder():
    assert entry({"command": "./run"}, project=PROJECT) == {"command": "/work/größe/run", "cwd": "/work/größe"}
    assert entry({"command": "npx", "cwd": "sub"}, project=PROJECT)["cwd"] == "/work/größe/sub"
    assert entry({"command": "/bin/x", "cwd": "${D}"}, project=PROJECT) == {"command": "/bin/x", "cwd": "${D}"}
    assert "cwd" not in entry({"url": "https://a"}, project=PROJECT)


def test_what_is_left_out_is_named_and_its_value_is_not():
    said = notes({"command": "x", "somethingNew": "hunter2", "envFile": ".env", "timeout": 5, "icon": "x"})
    assert [note.split()[0] for note in said] == ["'somethingNew'", "'envFile'", "'timeout'"]
    assert "hunter2" not in " ".join(said)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("text", "is not an object"),
        ({"source": "extension", "settings": {"a": 1}}, "extension of the host"),
        ({"command": "x", "args": "y"}, "args: must be a list"),
        ({"command": ""}, "command: cannot be empty"),
        ({"url": "ftp://hunter2"}, "url: must be an address"),
        ({"url": "https://${A}:${B}@x"}, "cannot hold a name and a password"),
    ],
)
def test_an_entry_that_the_configuration_would_refuse_is_not_taken(raw: Any, reason: str):
    with pytest.raises(NotConvertible, match=reason) as caught:
        entry(raw)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("raw", "is_one"),
    [
        ({"command": "/opt/bin/mcp-workbench", "args": ["serve"]}, True),
        ({"command": "uvx", "args": ["mcp-workbench@0.12"]}, True),
        ({"command": "uvx", "args": ["workbench-mcp"]}, True),
        ({"command": "python", "args": ["-m", "mcp_workbench"]}, True),
        ({"command": "uvx", "args": ["--from", "mcp-workbench[http]==1.0", "mcp-workbench", "serve"]}, True),
        ({"command": "uv", "args": ["--directory", "/src", "run", "mcp-workbench", "serve"]}, True),
        ({"command": "bash", "args": ["-c", "exec mcp-workbench serve"]}, True),
        ({"command": "docker", "args": ["run", "-i", "ghcr.io/x/mcp-workbench:1.0"]}, True),
        ({"command": "sh", "args": ["-c", "exec uvx mcp-workbench@0.12"]}, True),
        ({"command": "cmd", "args": ["/c", "uvx", "mcp-workbench"]}, True),
        ({"command": "env A=1 uvx mcp-workbench"}, True),
        ({"command": {"path": "mcp-workbench"}}, True),
        ({"command": "", "args": ["mcp-server", 1]}, False),
        ({"command": "npx", "args": ["-y", "server-filesystem", "/src/mcp-workbench"]}, False),
        ({"command": "uvx", "args": ["mcp-server-git", "--repository", "/src/mcp-workbench"]}, False),
        ({"command": "", "args": []}, False),
        ({"command": "npx", "args": ["-y", "server"]}, False),
        ({"url": "https://a"}, False),
        ("text", False),
    ],
)
def test_the_workbench_itself_is_known(raw: Any, *, is_one: bool):
    assert is_workbench(raw) is is_one


@pytest.mark.parametrize(
    ("words", "name"), [("github-token", "GITHUB_TOKEN"), ("9 lives", "VALUE_9_LIVES"), ("ä", "VALUE")]
)
def test_any_words_become_the_name_of_a_variable(words: str, name: str):
    assert variable_name(words) == name
