"""What a host restricts is restricted behind the workbench too, or the server stays in the host."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.snapshot import ToolFilter
from mcp_workbench.hosts.registry import HostEnvironment
from mcp_workbench.hosts.restrictions import claude_code
from mcp_workbench.hosts.restrictions.rules import Subject, lacking, remainders, strictest
from tests.support.users import User

HERE = "größe/"
"""The folder of the project, below the home folder."""
SYSTEM = "../system/"
CLAUDE, CLAUDE_SETTINGS, GEMINI = ".claude.json", ".claude/settings.json", ".gemini/settings.json"


class Case(NamedTuple):
    """A server `git-hub` in a host, and files of that host."""

    name: str
    host: str
    files: Mapping[str, Any]
    filters: tuple[str, ...] = ()
    disabled: bool = False
    obstacle: str = ""
    """A part of the reason why it stays."""
    entry: Mapping[str, Any] = {}


def deny(*rules: str, **more: Any) -> dict[str, Any]:
    return {"permissions": {"deny": list(rules)}, **more}


def policy(**rule: Any) -> str:
    return "[[rule]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in rule.items())


CASES = (
    Case("a tool", "claude-code", {CLAUDE_SETTINGS: deny("mcp__git-hub__drop")}, ("!drop",)),
    Case(
        "an underscore may be any character",
        "claude-code",
        {CLAUDE_SETTINGS: deny("mcp__git-hub__mail_send")},
        ("!mail_send", "!mail[!0-9A-Za-z-]send"),
    ),
    Case("a glob", "claude-code", {CLAUDE_SETTINGS: deny("mcp__git-hub__drop*")}, ("!drop*",)),
    Case(
        "a glob over servers",
        "claude-code",
        {CLAUDE_SETTINGS: deny("mcp__*hub__drop")},
        ("!*hub__drop", "!*hub[!0-9A-Za-z-][!0-9A-Za-z-]drop", "!drop"),
    ),
    Case("all tools", "claude-code", {CLAUDE_SETTINGS: deny("mcp__git-hub__*")}, disabled=True),
    Case("the server", "claude-code", {CLAUDE_SETTINGS: deny("mcp__git-hub")}, disabled=True),
    Case("every MCP tool", "claude-code", {CLAUDE_SETTINGS: deny("mcp__*")}, disabled=True),
    Case(
        "other servers and tools",
        "claude-code",
        {CLAUDE_SETTINGS: deny("mcp__git", "mcp__git-hub2__x", "mcp__hub__x", "Bash(rm:*)", "WebFetch", "git-hub__x")},
    ),
    Case("an argument", "claude-code", {CLAUDE_SETTINGS: deny("mcp__git-hub__x(a:b)")}, obstacle="arguments"),
    Case("any argument", "claude-code", {CLAUDE_SETTINGS: deny("mcp__git-hub__x(*)")}, ("!x",)),
    Case("a question", "claude-code", {CLAUDE_SETTINGS: {"permissions": {"ask": ["mcp__git-hub__x"]}}}, obstacle="ask"),
    Case("a permission", "claude-code", {CLAUDE_SETTINGS: {"permissions": {"allow": ["mcp__git-hub__x"]}}}),
    Case("local settings", "claude-code", {f"{HERE}.claude/settings.local.json": deny("mcp__git-hub__x")}, ("!x",)),
    Case("settings of the project", "claude-code", {f"{HERE}.claude/settings.json": deny("mcp__git-hub__x")}, ("!x",)),
    Case(
        "settings of another project",
        "claude-code",
        {"other/.claude/settings.json": deny("mcp__git-hub__x"), CLAUDE: {"projects": {"HOME/other": {}}}},
        ("!x",),
    ),
    Case(
        "off in one project",
        "claude-code",
        {CLAUDE: {"projects": {"HOME/other": {"disabledMcpServers": ["git-hub"]}}}},
        obstacle="other alone",
    ),
    Case(
        "of an administrator",
        "claude-code",
        {f"{SYSTEM}etc/claude-code/managed-settings.json": deny("mcp__git-hub__x")},
        ("!x",),
    ),
    Case(
        "of an administrator, in parts",
        "claude-code",
        {f"{SYSTEM}etc/claude-code/managed-settings.d/10-mcp.json": deny("mcp__git-hub__x")},
        ("!x",),
    ),
    Case("denied", "claude-code", {CLAUDE_SETTINGS: {"deniedMcpServers": [{"serverName": "git-hub"}]}}, disabled=True),
    Case(
        "denied by command",
        "claude-code",
        {CLAUDE_SETTINGS: {"deniedMcpServers": [{"serverCommand": ["run", "it"]}]}},
        disabled=True,
    ),
    Case("not allowed", "claude-code", {CLAUDE_SETTINGS: {"allowedMcpServers": []}}, disabled=True),
    Case("allowed", "claude-code", {CLAUDE_SETTINGS: {"allowedMcpServers": [{"serverName": "git-hub"}]}}),
    Case(
        "a hook",
        "claude-code",
        {CLAUDE_SETTINGS: {"hooks": {"PreToolUse": [{"matcher": "mcp__git-hub__.*", "hooks": []}]}}},
        obstacle="hooks",
    ),
    Case(
        "a hook for others",
        "claude-code",
        {CLAUDE_SETTINGS: {"hooks": {"PreToolUse": [{"matcher": "mcp__git-hub2__.*"}, {"matcher": "Bash"}]}}},
    ),
    Case("broken settings", "claude-code", {CLAUDE_SETTINGS: '{"permissions": {"deny": ['}, obstacle="not valid JSON"),
    Case("no list", "claude-code", {CLAUDE_SETTINGS: {"permissions": {"deny": "x"}}}, obstacle="not a list"),
    Case("tools of an entry", "claude-code", {}, ("!a",), entry={"toolPermissions": {"a": "blocked", "b": "allow"}}),
    Case("a question of an entry", "claude-code", {}, obstacle="ask", entry={"toolPermissions": {"a": "ask"}}),
    Case(
        "a policy of an entry",
        "claude-code",
        {},
        ("!a",),
        entry={"tools": [{"name": "a", "permission_policy": "always_deny"}, {"name": "b"}]},
    ),
    Case("a list", "gemini", {}, ("a", "!b"), entry={"includeTools": ["a(x)"], "excludeTools": ["b"]}),
    Case("an empty list", "gemini", {}, ("!*",), entry={"includeTools": []}),
    Case("a tool of any server", "gemini", {GEMINI: {"tools": {"exclude": ["drop"]}}}, ("!drop",)),
    Case("a qualified tool", "gemini", {GEMINI: {"tools": {"exclude": ["mcp_git-hub_drop"]}}}, ("!drop",)),
    Case("all tools", "gemini", {GEMINI: {"tools": {"exclude": ["mcp_git-hub_*"]}}}, disabled=True),
    Case("the old key", "gemini", {GEMINI: {"excludeTools": ["drop", "run_shell_command(rm)"]}}, ("!drop",)),
    Case("a question", "gemini", {GEMINI: {"tools": {"confirmationRequired": ["mcp_git-hub_drop"]}}}, obstacle="ask"),
    Case("built-in tools", "gemini", {GEMINI: {"tools": {"exclude": ["run_shell_command", "WriteFileTool"]}}}),
    Case("excluded", "gemini", {GEMINI: {"mcp": {"excluded": ["Git-Hub"]}}}, disabled=True),
    Case("not allowed", "gemini", {GEMINI: {"mcp": {"allowed": ["other"]}}}, disabled=True),
    Case("no list of servers", "gemini", {GEMINI: {"mcp": {"excluded": "git-hub"}}}, obstacle="not a list"),
    Case("excluded here", "gemini", {f"{HERE}{GEMINI}": {"mcp": {"excluded": ["git-hub"]}}}, obstacle="alone"),
    Case(
        "of an administrator",
        "gemini",
        {f"{SYSTEM}etc/gemini-cli/settings.json": {"mcp": {"excluded": ["git-hub"]}}},
        disabled=True,
    ),
    Case(
        "gemini mcp disable",
        "gemini",
        {".gemini/mcp-server-enablement.json": {"git-hub": {"enabled": False}}},
        disabled=True,
    ),
    Case(
        "a policy",
        "gemini",
        {".gemini/policies/p.toml": policy(mcpName="git-hub", toolName=["a", "b"], decision="deny", priority=1)},
        ("!a", "!b"),
    ),
    Case(
        "a policy for a qualified name",
        "gemini",
        {".gemini/policies/p.toml": policy(toolName="mcp_git-hub_a", decision="deny", priority=1)},
        ("!a",),
    ),
    Case(
        "a policy for the server",
        "gemini",
        {f"{SYSTEM}etc/gemini-cli/policies/p.toml": policy(mcpName="git-hub", decision="deny", priority=1)},
        disabled=True,
    ),
    Case(
        "a policy for others",
        "gemini",
        {".gemini/policies/p.toml": policy(toolName="run_shell_command", commandPrefix="rm", decision="deny")},
    ),
    Case(
        "a policy that asks",
        "gemini",
        {".gemini/policies/p.toml": policy(mcpName="git-hub", decision="ask_user", priority=1)},
        obstacle="ask",
    ),
    Case(
        "a policy with conditions",
        "gemini",
        {".gemini/policies/p.toml": policy(mcpName="git-hub", argsPattern="x", decision="deny", priority=1)},
        obstacle="conditions",
    ),
    Case(
        "policies that contradict",
        "gemini",
        {
            ".gemini/policies/a.toml": policy(mcpName="*", decision="deny", priority=1),
            ".gemini/policies/b.toml": policy(mcpName="git-hub", toolName="a", decision="allow", priority=9),
        },
        obstacle="priorities",
    ),
    Case("a broken policy", "gemini", {".gemini/policies/p.toml": "[[rule"}, obstacle="not valid TOML"),
    Case("lists", "codex", {}, ("a", "!b"), entry={"enabled_tools": ["a"], "disabled_tools": ["b"]}),
    Case("an empty list", "codex", {}, ("!*",), entry={"enabled_tools": []}),
    Case("a tool that asks", "codex", {}, obstacle="ask", entry={"tools": {"a": {"approval_mode": "prompt"}}}),
    Case("approved tools", "codex", {}, entry={"tools": {"a": {"approval_mode": "approve"}}}),
    Case("all ask", "codex", {}, obstacle="ask", entry={"default_tools_approval_mode": "prompt"}),
    Case(
        "another layer",
        "codex",
        {f"{HERE}.codex/config.toml": '[mcp_servers.git-hub]\ndisabled_tools = ["x"]\n'},
        ("!x",),
    ),
    Case(
        "of an administrator",
        "codex",
        {f"{SYSTEM}etc/codex/requirements.toml": '[mcp_servers.other.identity]\ncommand = "x"\n'},
        disabled=True,
    ),
    Case(
        "a permission",
        "zed",
        {
            ".config/zed/settings.json": {
                "agent": {"tool_permissions": {"tools": {"mcp:git-hub:a": {"default": "deny"}}}}
            }
        },
        ("!a",),
    ),
    Case(
        "a permission that asks",
        "zed",
        {
            ".config/zed/settings.json": {
                "agent": {"tool_permissions": {"tools": {"mcp:git-hub:a": {"always_confirm": [{"pattern": "."}]}}}}
            }
        },
        obstacle="ask",
    ),
    Case(
        "a profile",
        "zed",
        {
            ".config/zed/settings.json": {
                "agent": {
                    "profiles": {
                        "write": {"context_servers": {"git-hub": {"tools": {"a": False, "b": True}}}},
                        "ask": {
                            "enable_all_context_servers": False,
                            "context_servers": {"git-hub": {"tools": {"c": False}}},
                        },
                    }
                }
            }
        },
        ("!a",),
    ),
    Case("variables in a file", "cursor", {}, obstacle="the workbench does not read it", entry={"envFile": ".env"}),
    Case("its list", "windsurf", {}, ("!a",), entry={"disabledTools": ["a"]}),
    Case("the command line", "cursor", {".cursor/cli-config.json": deny("Mcp(git-hub:a)", "Shell(rm)")}, ("!a",)),
    Case("any server", "cursor", {f"{HERE}.cursor/cli.json": deny("Mcp(*:drop_*)", "Mcp(other:b)")}, ("!drop_*",)),
    Case("a server", "cursor", {".cursor/cli-config.json": deny("Mcp(git-hub:*)")}, disabled=True),
    Case("a sandbox", "vscode", {}, obstacle="sandbox", entry={"sandboxEnabled": True}),
)
PLACES = {
    "claude-code": (CLAUDE, "mcpServers"),
    "gemini": (GEMINI, "mcpServers"),
    "codex": (".codex/config.toml", "mcp_servers"),
    "zed": (".config/zed/settings.json", "context_servers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
}


def write(user: User, path: str, content: Any) -> None:
    file = user.home / path
    file.parent.mkdir(parents=True, exist_ok=True)
    text = content if isinstance(content, str) else json.dumps(content)
    file.write_text(text.replace("HOME/", f"{user.home}/"))


def toml(value: Mapping[str, Any], name: str) -> str:
    tables = [key for key, one in value.items() if isinstance(one, dict)]
    plain = "".join(f"{key} = {json.dumps(one)}\n" for key, one in value.items() if key not in tables)
    return f"[{name}]\n{plain}" + "".join(toml(value[key], f"{name}.{key}") for key in tables)


def has(user: User, host: str, entry: Mapping[str, Any], files: Mapping[str, Any]) -> None:
    """A server in a host, which may keep its rules in the same file."""
    place, key = PLACES[host]
    server = {"command": "run", "args": ["it"], **entry}
    for path, content in files.items():
        write(user, path, content)
    (user.home / "other").mkdir(exist_ok=True)
    if host == "codex":
        write(user, place, toml(server, f"{key}.git-hub"))
        return
    rest = files.get(place, {})
    write(user, place, {**rest, key: {"git-hub": server}})


def taken(user: User) -> dict[str, Any]:
    return user.entries().get("git-hub", {})


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.host}: {case.name}")
def test_a_rule_of_a_host_is_carried_over_or_stops_the_move(user: User, case: Case):
    has(user, case.host, case.entry, case.files)
    before = user.files()
    done = user.run("import_")
    assert done.status == 0, done.err
    entry = taken(user)
    assert bool(entry) is not bool(case.obstacle), done.out
    assert (tuple(entry.get("toolFilters", ())), entry.get("disabled", False)) == (case.filters, case.disabled)
    assert "git-hub: not taken: a rule can't be carried over:" in done.out if case.obstacle else True
    assert case.obstacle in done.out
    assert user.files() == before


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.host}: {case.name}")
def test_a_server_leaves_its_host_only_with_its_rules(user: User, case: Case):
    """The configuration of an earlier version has none of them."""
    has(user, case.host, {}, {})
    user.run("import_")
    has(user, case.host, case.entry, case.files)
    before = user.files()
    done = user.run("install", host=case.host, remove_imported="true", json="true").document
    is_restricted = bool(case.filters or case.disabled or case.obstacle)
    assert done["moved"] == ([] if is_restricted else ["git-hub"])
    if is_restricted:
        [reason] = done["reasons"]["git-hub"]
        assert case.obstacle in reason
        assert all(f'"{name}"' in reason for name in case.filters)
    # Importing again adds what is missing, and then it moves.
    user.run("import_", force="true")
    done = user.run("install", host=case.host, remove_imported="true", json="true").document
    assert (done["moved"] == ["git-hub"] or not is_restricted) is not bool(case.obstacle)
    if not case.obstacle:
        assert taken(user).get("toolFilters", []) == list(case.filters)
    assert user.run("uninstall", host=case.host).status == 0
    assert user.files() == before


def test_a_loss_can_be_accepted_and_is_named(user: User):
    rules = {"permissions": {"ask": ["mcp__git-hub__x"], "deny": ["mcp__git-hub__y"]}}
    has(user, "claude-code", {}, {CLAUDE_SETTINGS: rules})
    done = user.run("import_", without_rules="true")
    assert "lost: permissions.ask mcp__git-hub__x in ~/.claude/settings.json" in done.out
    assert taken(user)["toolFilters"] == ["!y"]
    stays = user.run("install", host="claude-code", remove_imported="true", json="true").document
    assert (stays["moved"], stays["stay"]) == ([], ["git-hub"])
    moved = user.run("install", host="claude-code", remove_imported="true", without_rules="true")
    assert "moved behind it: git-hub\n    excluded: y (permissions.deny mcp__git-hub__y in " in moved.out
    assert "lost: permissions.ask mcp__git-hub__x" in moved.out


def test_a_server_of_two_hosts_has_the_restrictions_of_both(user: User):
    has(user, "claude-code", {}, {CLAUDE_SETTINGS: deny("mcp__git-hub__x")})
    has(user, "windsurf", {"disabledTools": ["y"], "disabled": True}, {})
    has(user, "cursor", {}, {})
    done = user.run("import_")
    assert taken(user)["toolFilters"] == ["!x", "!y"]
    assert taken(user)["disabled"] is True
    assert "  git-hub (in Claude Code, Cursor, Windsurf), disabled\n" in done.out
    assert "excluded: x (Claude Code: permissions.deny mcp__git-hub__x in ~/.claude/settings.json)" in done.out


def test_a_rule_that_one_host_would_lose_keeps_the_server_out_for_all(user: User):
    has(user, "claude-code", {}, {CLAUDE_SETTINGS: {"permissions": {"ask": ["mcp__git-hub"]}}})
    has(user, "windsurf", {}, {})
    user.run("import_")
    assert not user.config.exists()


def test_what_is_carried_over_is_told_to_programs(user: User):
    has(user, "claude-code", {}, {CLAUDE_SETTINGS: deny("mcp__git-hub__x")})
    [source] = user.run("import_", json="true").document["sources"]
    rule = {"rule": "permissions.deny mcp__git-hub__x", "file": str(user.home / CLAUDE_SETTINGS)}
    expected = [{**rule, "toolFilters": ["!x"], "disabled": False, "carried": True, "reason": None}]
    assert source["servers"][0]["rules"] == expected
    told = user.run("install", host="claude-code", remove_imported="true", json="true").document
    assert told["rules"] == {"git-hub": expected}


def only_entry(user: User) -> dict[str, Any]:
    [toolbox] = json.loads(user.config.read_text())["toolboxes"].values()
    return toolbox["mcpServers"]["git-hub"]


def test_what_an_entry_itself_excludes_is_shown(user: User):
    has(user, "gemini", {"includeTools": ["a", "b(text)"], "excludeTools": ["b"]}, {})
    lines = "    only: a, b (includeTools in ~/.gemini/settings.json)\n    excluded: b (excludeTools in ~/.gemini/"
    assert f"  git-hub\n{lines}" in user.run("import_").out
    assert only_entry(user)["toolFilters"] == ["a", "b", "!b"]
    moved = user.run("install", host="gemini", remove_imported="true")
    assert f"  moved behind it: git-hub\n{lines}" in moved.out


def test_a_list_of_allowed_tools_stays_the_strictest_of_two_hosts(user: User):
    has(user, "gemini", {"includeTools": ["a", "b"]}, {})
    has(user, "codex", {"enabled_tools": ["b", "c"]}, {})
    done = user.run("import_")
    assert only_entry(user)["toolFilters"] == ["b"]
    assert "only: a, b (Gemini CLI: includeTools in ~/.gemini/settings.json)" in done.out


@pytest.mark.parametrize("host", ["cursor", "vscode"])
def test_hosts_whose_choices_can_not_be_read_are_told(user: User, host: str):
    has(user, host, {}, {})
    assert ("check: tools that you turned off in Cursor's settings can't be read" in user.run("import_").out) is (
        host == "cursor"
    )


def test_rules_that_a_server_brings_to_a_known_one_keep_the_rest_of_its_entry(user: User):
    has(user, "claude-code", {}, {})
    user.run("import_")
    text = user.config.read_text().replace(
        '"command": "run",', '// mine\n          "command": "run", "toolFilters": ["a*"],'
    )
    user.config.write_text(text)
    write(user, CLAUDE_SETTINGS, deny("mcp__git-hub__x", "mcp__git-hub__ab"))
    done = user.run("import_", force="true")
    assert 'code/git-hub: "!x", "!ab"' in done.out
    assert "wrote restrictions for 1 server to" in done.out
    assert "// mine" in user.config.read_text()
    assert '"toolFilters": ["a*", "!x", "!ab"]' in re.sub(r"\s+", " ", user.config.read_text()).replace(
        "[ ", "["
    ).replace(" ]", "]")


# -- VS Code keeps them in a database


def selected(user: User, tools: Mapping[str, bool], sets: Mapping[str, bool] | None = None) -> None:
    path = user.home / ".config/Code/User/globalStorage/state.vscdb"
    path.parent.mkdir(parents=True)
    state = {"version": 2, "toolEntries": list(tools.items()), "toolSetEntries": list((sets or {}).items())}
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        database.execute("INSERT INTO ItemTable VALUES ('chat/selectedTools', ?)", (json.dumps(state),))
    database.close()


@pytest.mark.parametrize(
    ("tools", "sets", "expected"),
    [
        ({"mcp_git-hub_list": True}, {}, {}),
        ({"mcp_git-hub_drop": False, "run_in_terminal": False}, {}, {"toolFilters": ["!drop"]}),
        ({"mcp_git-hub_mcp_x": False}, {}, {"toolFilters": ["!mcp_x", "!mcp[._]x", "!x"]}),
        ({}, {"mcp.config.usrlocal.git-hub": False}, {"disabled": True}),
        ({"mcp_git-hub_a": True}, {"mcp.config.usrlocal.git-hub": False}, {}),
        ({"mcp_other_x": False}, {}, None),
        ({"mcp_workbench_use_tool": False}, {}, {}),
    ],
)
def test_tools_that_were_turned_off_in_vscode_are_excluded(
    user: User, tools: dict[str, bool], sets: dict[str, bool], expected: dict[str, Any] | None
):
    has(user, "vscode", {}, {})
    selected(user, tools, sets)
    before = user.files()
    user.run("import_")
    assert taken(user) == ({} if expected is None else {"command": "run", "args": ["it"], **expected})
    assert user.files() == before


def test_a_database_that_can_not_be_read_stops_the_move(user: User):
    has(user, "vscode", {}, {".config/Code/User/globalStorage/state.vscdb": "no database"})
    assert "can't be read for the tools that are turned off" in user.run("import_").out
    assert not user.config.exists()


# -- whatever the rules and names are

NAMES = st.text(st.sampled_from("ab_-. é"), min_size=1, max_size=6)
RULES = st.text(st.sampled_from("ab_-*"), min_size=0, max_size=8)


def named(server: str, tool: str) -> str:
    """A tool as Claude Code calls it."""
    return f"mcp__{claude_code.normal(server)}__{claude_code.normal(tool)}"


def definition(name: str) -> Definition:
    return Definition(name, Raw(json.dumps({"name": name}).encode()))


def denies(rule: str, name: str) -> bool:
    """Whether a rule of Claude Code with wildcards denies a tool."""
    return re.fullmatch(".*".join(map(re.escape, rule.split("*"))), name, re.DOTALL) is not None


def denies_in_claude_code(rule: str, name: str) -> bool:
    """The same as Claude Code decides it, which takes names apart at the first two separators."""
    if denies(rule, name):
        return True
    start, server, *tool = [*rule.split("__", 2), ""][: 3 if rule.count("__") > 1 else 2]
    _, other, rest = name.split("__", 2)
    if start != "mcp" or not server or server != other:
        return False
    return not tool or ("*" in tool[0] and denies(tool[0], rest))


@example("__", "_", "", "mcp__")
@example("-_", "_", "-", "mcp__")
@given(NAMES, NAMES, RULES, st.sampled_from(["mcp__", "mcp__SERVER", "mcp__SERVER__"]))
def test_a_denied_tool_is_never_callable_and_no_other_is_lost(server: str, tool: str, rest: str, start: str):
    rule = start.replace("SERVER", claude_code.normal(server)) + rest
    found = list(claude_code.denied("text", rule, server, Path("/f")))
    assert not any(one.obstacle for one in found)
    filters = ToolFilter([name for one in found for name in one.filters])
    is_gone = any(one.disables for one in found) or not filters.allows(definition(tool))
    is_denied = denies_in_claude_code(rule, named(server, tool))
    assert is_gone is (is_denied or rule == named(server, "").removesuffix("__"))


@given(RULES, st.text(st.sampled_from("ab_"), max_size=4), st.text(st.sampled_from("ab_"), min_size=1, max_size=4))
def test_what_is_left_of_a_pattern_matches_exactly_what_follows_the_prefix(pattern: str, prefix: str, rest: str):
    assert any(denies(one, rest) for one in remainders(pattern, prefix)) is denies(pattern, prefix + rest)


@given(*(st.lists(st.sampled_from(["a", "b", "!a", "!b", "!c"]), max_size=4) for _ in range(2)))
def test_the_strictest_of_two_entries_offers_what_both_offer(one: list[str], other: list[str]):
    both = ToolFilter(strictest({"toolFilters": one}, {"toolFilters": other}).get("toolFilters", []))
    for name in "abcd":
        tool = definition(name)
        assert both.allows(tool) is (ToolFilter(one).allows(tool) and ToolFilter(other).allows(tool))


@given(*(st.lists(st.sampled_from(["a", "b", "!a", "!b", "!a*", "!*"]), max_size=4) for _ in range(2)))
def test_an_entry_that_lacks_nothing_offers_no_more_than_is_allowed(have: list[str], needed: list[str]):
    if not lacking({"toolFilters": have}, needed):
        for name in ("a", "b", "c", "ab"):
            tool = definition(name)
            assert ToolFilter(needed).allows(tool) or not ToolFilter(have).allows(tool)


def test_a_rule_for_a_longer_name_is_not_split(tmp_path: Path):
    (tmp_path / ".claude").mkdir()
    rules = deny("mcp__a__b__x", "mcp__a__y", "mcp__c")
    (tmp_path / ".claude" / "settings.json").write_text(json.dumps(rules))
    of = claude_code.load(HostEnvironment({"HOME": str(tmp_path)}, tmp_path / "p", system=tmp_path / "system"))
    filters = {name: [one for rule in of(Subject(name, {})) for one in rule.filters] for name in ("a", "a__b", "b")}
    assert filters == {"a": ["!b__x", "!b[!0-9A-Za-z-][!0-9A-Za-z-]x", "!y"], "a__b": ["!x"], "b": []}
    assert [rule.disables for rule in of(Subject("c__d", {}))] == [True]  # Claude Code does that too
