"""A file becomes a Config, or one error that says where and what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Config, Endpoint, Launch, MissingVariable

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def messages(config: Config) -> list[tuple[str, str]]:
    return [(warning.path, warning.message) for warning in config.warnings]


# -- what a good file becomes


def test_a_full_file_becomes_a_config_in_the_order_of_the_file(load, tmp_path, secret):
    config = load(
        """{ // comments and trailing commas
        "$schema": "./workbench-config.schema.json",
        "toolboxes": {
          "zeta": {"description": "Last letter", "mcpServers": {
            "fs": {"command": "npx", "args": ["-y", "${NAME}"], "env": {"KEY": "${TOKEN}"}, "cwd": "sub",
                   "inheritEnv": ["AWS_*"], "toolFilters": ["read_*", "!read_secret", "@readOnly"],},
            "api": {"url": "${ADDRESS}", "headers": {"Authorization": "Bearer ${TOKEN}"}, "transport": "sse"},
          }},
          "alpha": {"description": "First letter", "mcpServers": {"fs": {"command": "fs"}}},
        },
        "toolMode": "dynamic", "strict": true, "openTimeout": 5,
        }"""
    )
    assert config.source == tmp_path / "c.json"
    assert (config.tool_mode, config.strict, config.bounds) == ("dynamic", True, {"open_timeout_seconds": 5.0})
    assert [(s.toolbox, s.name) for s in config.servers()] == [("zeta", "fs"), ("zeta", "api"), ("alpha", "fs")]
    first, second = config.toolboxes["zeta"].servers.values()
    assert first.target == Launch(
        command="npx",
        args=("-y", "value"),
        env={"KEY": secret},
        cwd=tmp_path / "sub",
        inherit_env=("AWS_*",),
    )
    assert first.tool_filters == ("read_*", "!read_secret", "@readOnly")
    assert second.target == Endpoint(
        url="https://a.example/mcp", headers={"Authorization": f"Bearer {secret}"}, transport="sse"
    )
    assert config.warnings == ()


COMMENTED = """{
  "_comment": "Keys that start with _ are comments",
  "_documentation": "Set ${NOT_SET} first: ${",
  "toolboxes": {
    "_development": {
      "_owner": {"team": "tools", "since": 2025},
      "description": "Local paths and debug settings",
      "mcpServers": {
        "_files": {
          "_todo": ["pin the version"],
          "command": "npx", "args": ["-y", "files-server", "${NAME}/data"],
          "env": {"_LEVEL": "${LOG_LEVEL:-debug}"},
          "toolFilters": ["*"]
        },
        "remote": {"url": "${ADDRESS}", "headers": {"_x": "1"}, "oauth": {"_why": "given to us", "clientId": "c"}}
      }
    }
  },
  "catalog": {"_why": "slow servers", "maxAge": 60}
}"""


def test_keys_that_start_with_an_underscore_are_comments_where_keys_are_ours(load):
    config = load(COMMENTED)
    assert messages(config) == []
    assert [(server.toolbox, server.name) for server in config.servers()] == [
        ("_development", "_files"),
        ("_development", "remote"),
    ]
    files, remote = config.servers()
    assert not files.missing
    assert isinstance(files.target, Launch)
    assert files.target.env == {"_LEVEL": "debug"}
    assert isinstance(remote.target, Endpoint)
    assert (remote.target.headers, remote.target.oauth.client_id) == ({"_x": "1"}, "c")


def test_a_bare_file_may_hold_comments_without_a_warning(load):
    config = load({"_comment": "mine", "mcpServers": {"_s": {"command": "x", "_note": "n"}}})
    assert (messages(config), list(config.toolboxes["default"].servers)) == ([], ["_s"])


@pytest.mark.parametrize(
    ("place", "content"),
    [
        ("toolboxes._comment", {"toolboxes": {"_comment": "c"}}),
        ("mcpServers._comment", {"mcpServers": {"_comment": "c"}}),
        ("mcpServers.s.env._comment", {"mcpServers": {"s": {"command": "x", "env": {"_comment": 1}}}}),
        (
            "mcpServers.s.headers._comment",
            {"mcpServers": {"s": {"url": "https://a.example", "headers": {"_comment": 1}}}},
        ),
    ],
)
def test_a_name_of_the_user_is_never_a_comment(place, content, failure):
    assert f": {place}: must be " in str(failure(content))


def test_defaults_stand_in_for_what_is_left_out(load, toolbox):
    config = load(toolbox('{"command": "x"}'))
    assert (config.tool_mode, config.strict, config.bounds) == ("proxy", False, {})
    only = config.toolboxes["dev"].servers["fs"]
    assert only.target == Launch(command="x")
    assert (only.tool_filters, only.missing, only.secrets) == ((), (), frozenset())


def test_a_bare_file_is_one_toolbox_named_default(load):
    config = load({"mcpServers": {"a": {"command": "x"}, "b": {"url": "http://b.example"}}})
    assert list(config.toolboxes) == ["default"]
    assert config.toolboxes["default"].description == "All configured servers"
    assert list(config.toolboxes["default"].servers) == ["a", "b"]


def test_other_settings_of_a_host_are_accepted_with_a_warning(load):
    config = load({"globalShortcut": "", "mcpServers": {"a": {"command": "x"}}, "inputs": [1]})
    assert messages(config) == [
        ("globalShortcut", "'globalShortcut' has no effect here"),
        ("inputs", "'inputs' has no effect here"),
    ]


def test_search_by_meaning_is_gone_and_its_key_warned_about(load):
    config = load({"mcpServers": {"a": {"command": "x"}}, "catalog": {"semantic": True}})
    assert messages(config) == [("catalog.semantic", "'semantic' has no effect: search compares words only")]


@pytest.mark.parametrize("detail", ["auto", "full", "signature"])
def test_how_tools_are_shown_where_a_call_does_not_say_can_be_set(load, detail):
    servers = {"mcpServers": {"a": {"command": "x"}}}
    assert load({**servers, "openDetail": detail}).open_detail == detail
    assert load(servers).open_detail == "auto"


def test_the_file_may_be_given_as_text_and_relative(load, tmp_path, monkeypatch, toolbox):
    load(toolbox('{"command": "./run"}'))
    monkeypatch.chdir(tmp_path)
    config = load_config("c.json", environ={})
    assert config.source == tmp_path / "c.json"
    assert config.toolboxes["dev"].servers["fs"].target == Launch(command=str(tmp_path / "run"))


def test_without_an_environment_the_own_one_is_used(load, monkeypatch, toolbox):
    monkeypatch.setenv("FROM_OUTSIDE", "x-y")
    config = load(toolbox('{"command": "${FROM_OUTSIDE}"}'), environ=None)
    assert config.toolboxes["dev"].servers["fs"].target == Launch(command="x-y")


# -- commands and folders


@pytest.mark.parametrize(
    ("command", "becomes"),
    [
        ("npx", "npx"),
        ("/usr/bin/env", "/usr/bin/env"),
        ("./run", "{folder}/run"),
        ("bin/run", "{folder}/bin/run"),
        ("../run", "{folder}/../run"),
        ("~/run", "{home}/run"),
        ("~nobody-has-this-name/run", "{folder}/~nobody-has-this-name/run"),
    ],
)
def test_a_command_with_a_slash_becomes_absolute(server, tmp_path, monkeypatch, command, becomes):
    monkeypatch.setenv("HOME", "/home/me")
    target = server({"command": command}).target
    assert target == Launch(command=becomes.format(folder=tmp_path, home="/home/me"))


@pytest.mark.parametrize(
    ("cwd", "becomes"), [("a", "{folder}/a"), ("/b", "/b"), ("~", "/home/me"), ("~/c", "/home/me/c")]
)
def test_a_working_folder_becomes_absolute(server, tmp_path, monkeypatch, cwd, becomes):
    monkeypatch.setenv("HOME", "/home/me")
    assert server({"command": "x", "cwd": cwd}).target.cwd == Path(becomes.format(folder=tmp_path))


@pytest.mark.row("C8")
def test_c8_arguments_stay_as_they_are_whatever_a_shell_would_make_of_them(server):
    args = ["; touch /tmp/x", "$(id)", "`id`", "-rf", "a b", "*", "", "$HOME", "|"]
    assert server({"command": "x", "args": args}).target.args == tuple(args)


# -- types, addresses and switches


@pytest.mark.parametrize(
    ("given", "meaning"),
    [("http", "http"), ("streamable-http", "http"), ("streamableHttp", "http"), ("sse", "sse"), (None, "http")],
)
@pytest.mark.parametrize("key", ["type", "transport", "transportType"])
def test_a_remote_transport_is_read_from_either_key(server, key, given, meaning):
    entry = {"url": "https://a.example"} | ({key: given} if given else {})
    assert server(entry).target.transport == meaning


@pytest.mark.parametrize("given", ["stdio", "local"])
def test_a_command_may_say_stdio(server, given):
    assert server({"command": "x", "type": given, "transport": "stdio"}).target == Launch(command="x")


@pytest.mark.parametrize("key", ["httpUrl", "serverUrl"])
def test_other_names_of_url_are_understood(server, key):
    assert server({key: "https://a.example"}).target == Endpoint(url="https://a.example")


@pytest.mark.parametrize("switch", [{"disabled": True}, {"enabled": False}])
def test_a_disabled_server_is_left_out_and_its_variables_do_not_matter(load, switch):
    config = load(
        {"mcpServers": {"off": {"command": "${MISSING}", "args": ["${input:x}"], **switch}, "on": {"command": "x"}}},
        strict=True,
    )
    assert list(config.toolboxes["default"].servers) == ["on"]
    assert config.warnings == ()


def test_a_toolbox_whose_servers_are_all_disabled_is_empty_with_a_warning(load, toolbox):
    config = load(toolbox('{"command": "x", "disabled": true}'))
    assert config.toolboxes["dev"].servers == {}
    assert messages(config) == [("toolboxes.dev.mcpServers", "every server of this toolbox is disabled")]


def test_a_server_that_is_not_disabled_is_kept(server):
    assert server({"command": "x", "disabled": False, "enabled": True})


# -- names and other warnings


@pytest.mark.row("C10")
def test_c10_odd_names_are_accepted_with_a_warning_and_never_used_as_paths(load):
    config = load(
        {"mcpServers": {"../../etc/passwd": {"command": "x"}, "ünï": {"command": "x"}, "a__b-1": {"command": "x"}}}
    )
    assert [path for path, _ in messages(config)] == ['mcpServers["../../etc/passwd"]', "mcpServers.ünï"]
    assert all("letters, digits" in message for _, message in messages(config))


def test_names_that_differ_in_case_only_are_warned_about(load):
    config = load({"mcpServers": {"GitHub": {"command": "x"}, "github": {"command": "x"}}})
    assert messages(config) == [("mcpServers.github", "'github' and 'GitHub' differ in case only")]


def test_keys_of_hosts_are_accepted_with_a_warning_each_at_its_place(load, toolbox):
    config = load(toolbox('{"command": "x",\n "envFile": ".env",\n "disabledTools": [], "autoApprove": ["a"]}'))
    assert [(w.line, w.column, w.path) for w in config.warnings] == [
        (3, 2, "toolboxes.dev.mcpServers.fs.envFile"),
        (4, 2, "toolboxes.dev.mcpServers.fs.disabledTools"),
        (4, 23, "toolboxes.dev.mcpServers.fs.autoApprove"),
    ]
    assert "its variables are not set" in config.warnings[0].message
    assert "toolFilters" in config.warnings[1].message


@pytest.mark.parametrize(
    ("entry", "key"),
    [({"url": "http://a", "env": {"A": "${MISSING}"}}, "env"), ({"command": "x", "headers": {"A": "b"}}, "headers")],
)
def test_keys_of_the_other_kind_of_server_have_no_effect_and_a_warning(load, entry, key):
    config = load({"mcpServers": {"s": entry}}, strict=True)
    assert [path for path, _ in messages(config)] == [f"mcpServers.s.{key}"]


def test_a_secret_in_args_is_warned_about_and_an_ordinary_variable_is_not(load):
    config = load({"mcpServers": {"s": {"command": "x", "args": ["${NAME}", "--token=${TOKEN}", "${API_KEY:-none}"]}}})
    assert [path for path, _ in messages(config)] == ["mcpServers.s.args[1]"]
    assert "visible to other programs of this user (ps)" in config.warnings[0].message


@pytest.mark.row("C3")
@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o644, 0), (0o664, 1), (0o646, 1), (0o666, 1)])
def test_c3_a_file_that_others_can_write_is_warned_about(load, tmp_path, mode, warned, toolbox):
    load(toolbox('{"command": "x"}'))
    (tmp_path / "c.json").chmod(mode)
    warnings = load_config(tmp_path / "c.json", environ={}).warnings
    assert len(warnings) == warned
    assert all("other users can write this file" in warning.message for warning in warnings)


# -- variables


@pytest.mark.row("C4")
@pytest.mark.parametrize("strict", [None, False])
def test_c4_a_missing_variable_fails_its_server_alone_and_is_named_with_its_place(load, strict):
    config = load(
        '{"toolboxes": {"production": {"description": "d", "mcpServers": {\n'
        '  "database": {"command": "db", "env": {"API_KEY": "${MISSING}"}},\n'
        '  "other": {"command": "x"}}}}}',
        strict=strict,
    )
    database, other = config.servers()
    path = "toolboxes.production.mcpServers.database.env.API_KEY"
    assert database.missing == (MissingVariable("MISSING", path, 2, 52),)
    assert other.missing == ()


@pytest.mark.row("C4")
def test_c4_several_missing_variables_are_all_named(server):
    entry = {"command": "${M1}", "args": ["${M2}${M3}"], "cwd": "${M4}", "env": {"A": "${M5:-x}"}}
    assert [missing.variable for missing in server(entry).missing] == ["M1", "M2", "M3", "M4"]
    assert [missing.variable for missing in server({"url": "${M1}"}).missing] == ["M1"]


@pytest.mark.row("C4")
@pytest.mark.parametrize(("setting", "option"), [("true", None), ("false", True), ("true", True)])
def test_c4_a_missing_variable_stops_a_strict_start(failure, setting, option):
    text = f'{{"strict": {setting}, "mcpServers":\n{{"s": {{"command": "x", "args": ["${{MISSING}}"]}}}}}}'
    error = failure(text, strict=option)
    assert (error.line, error.column, error.path) == (2, 33, "mcpServers.s.args[0]")
    assert error.problem == "the environment variable MISSING is not set"
    assert error.hint == "Set it, or give a default: ${MISSING:-default}."


def test_an_explicit_false_overrides_the_file_so_that_all_missing_variables_can_be_reported(load):
    config = load({"strict": True, "mcpServers": {"s": {"command": "${MISSING}"}}}, strict=False)
    assert not config.strict
    assert [missing.variable for server in config.servers() for missing in server.missing] == ["MISSING"]


@pytest.mark.row("C4")
def test_c4_variables_are_replaced_in_values_of_the_six_fields_only(load):
    config = load(
        {
            "toolboxes": {
                "${NAME}": {
                    "description": "${NAME}",
                    "mcpServers": {
                        "${TOKEN}": {
                            "command": "${NAME}",
                            "env": {"${NAME}": "${NAME}"},
                            "toolFilters": ["${NAME}"],
                            "inheritEnv": ["${NAME}"],
                        }
                    },
                }
            }
        }
    )
    (only,) = config.servers()
    assert (only.toolbox, only.name, only.tool_filters) == ("${NAME}", "${TOKEN}", ("${NAME}",))
    assert only.target == Launch(command="value", env={"${NAME}": "value"}, inherit_env=("${NAME}",))
    assert config.toolboxes["${NAME}"].description == "${NAME}"


@pytest.mark.row("C4")
@same_folder
@given(st.text(alphabet="${}NAME:-x", max_size=12))
def test_c4_what_a_variable_brings_in_is_never_expanded(server, brought):
    target = server(
        {"command": "x", "args": ["${V}"], "env": {"A": "${V}"}}, environ={"V": brought, "NAME": "no"}
    ).target
    assert target.args == (brought,)
    assert target.env == {"A": brought}


def test_secrets_are_all_of_env_and_headers_and_every_value_that_a_variable_brought_in(server, secret):
    entry = {
        "command": "${NAME}",
        "args": ["--token=${TOKEN}", "${NONE:-a default}", "plain"],
        "env": {"A": "literal", "B": "${NONE:-fallback}", "C": "x${NAME}y", "D": "1", "E": ""},
    }
    assert server(entry).secrets == {"value", secret, "literal", "fallback", "xvaluey", "1"}
    remote = {"url": "${ADDRESS}?k=plain", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    assert server(remote).secrets == {"https://a.example/mcp", f"Bearer {secret}", secret}


def test_loading_imports_nothing_that_only_a_mistake_needs(tmp_path, toolbox):
    path = tmp_path / "c.json"
    path.write_text(toolbox('{"command": "x"}'))
    code = (
        "import sys; from mcp_workbench.config.load import load_config; load_config(sys.argv[1]);"
        "print([name for name in ('difflib', 'json', 'click', 'mcp') if name in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_a_file_without_toolboxes_yet_loads(load):
    assert load('{"toolboxes": {}}').toolboxes == {}


def test_a_host_file_without_servers_yet_has_no_toolboxes(load):
    assert load('{"mcpServers": {}}').toolboxes == {}


def test_secrets_are_the_values_that_a_server_inherits_too(server, secret):
    environ = {"MY_TOKEN": secret, "MY_EMPTY": "", "OTHER": "not inherited", "PATH": "/usr/bin"}
    assert server({"command": "x", "inheritEnv": ["MY_*"]}, environ=environ).secrets == {secret}


# -- times


def warnings_of(config) -> list[tuple[str, str]]:
    return [(warning.path, warning.message) for warning in config.warnings]


@pytest.mark.parametrize(
    ("root", "entry", "warned"),
    [
        ({}, {"callTimeout": 901}, "mcpServers.s.callTimeout"),
        ({}, {"callTimeout": 900}, None),
        ({}, {"callTimeout": 901, "maxCallTime": 1000}, None),
        ({}, {"callTimeout": 70, "maxCallTime": 60}, "mcpServers.s.callTimeout"),
        ({"maxCallTime": 60}, {"callTimeout": 70}, "mcpServers.s.callTimeout"),
        ({"maxCallTime": 60}, {"callTimeout": 70, "maxCallTime": 80}, None),
        ({"callTimeout": 70, "maxCallTime": 60}, {}, "callTimeout"),
        ({"callTimeout": 901}, {}, "callTimeout"),
        ({"callTimeout": 901, "maxCallTime": 1000}, {}, None),
    ],
)
def test_a_call_timeout_that_no_call_can_reach_is_warned_about(load, root, entry, warned):
    config = load({"mcpServers": {"s": {"command": "x", **entry}}, **root})
    found = [path for path, message in warnings_of(config) if "maxCallTime" in message]
    assert found == ([warned] if warned else [])


@pytest.mark.parametrize("key", ["startupTimeout", "callTimeout", "maxCallTime", "idleTimeout"])
@pytest.mark.parametrize(("seconds", "warned"), [(30_000, True), (600, False)])
def test_a_time_that_was_perhaps_meant_in_milliseconds_is_warned_about(load, key, seconds, *, warned):
    for config, path in (
        (load({"mcpServers": {"s": {"command": "x", key: seconds}}}), f"mcpServers.s.{key}"),
        (load({"mcpServers": {"s": {"command": "x"}}, key: seconds}), key),
    ):
        found = [where for where, message in warnings_of(config) if "hours" in message]
        assert found == ([path] if warned else [])
