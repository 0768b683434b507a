"""`mcp-workbench import`: what hosts have becomes toolboxes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from mcp_workbench.config.load import load_config
from tests.docs.markdown import ROOT, blocks
from tests.hosts import samples
from tests.hosts.samples import SAMPLES, SECRETS, Sample
from tests.support.users import Done, User, made_user

NOTHING = (
    "No host has MCP servers here.\n\nnothing to import\n"
    "next: mcp-workbench add TOOLBOX SERVER --description TEXT -- COMMAND\n"
)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    return made_user(tmp_path, monkeypatch, capsys)


def written(user: User) -> dict[str, dict[str, object]]:
    toolboxes = json.loads(user.config.read_text())["toolboxes"]
    return {name: toolbox["mcpServers"] for name, toolbox in toolboxes.items()}


def assert_no_secret(done: Done, user: User) -> None:
    kept = user.config.read_text() if user.config.exists() else ""
    for secret in SECRETS:
        assert secret not in done.out + done.err + kept


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.path)
def test_the_servers_of_each_host_can_become_a_toolbox(user: User, sample: Sample):
    user.has(sample)
    before = user.files()
    done = user.run("import_", by_host="true")
    assert done.status == 0, done.err
    if sample.servers:
        assert written(user) == {sample.host: {name: written(user)[sample.host][name] for name in sample.servers}}
        load_config(user.config, strict=False)
    else:
        assert not user.config.exists()
    assert user.files() == before
    assert_no_secret(done, user)


def test_servers_go_into_toolboxes_by_what_they_do_and_one_of_two_hosts_is_taken_once(user: User):
    user.has(*SAMPLES)
    before = user.files()
    done = user.run("import_")
    assert done.status == 0, done.err
    assert {name: list(servers) for name, servers in written(user).items()} == {
        "code": ["github", "files", "files-codex", "git"],
        "monitoring": ["sentry"],
        "notes": ["memory"],
        "projects": ["linear"],
        "other": ["here", "api", "events", "mine", "older", "remote"],
        "web": ["perplexity", "fetch"],
        "automation": ["zapier"],
        "design": ["figma"],
        "utilities": ["time", "maps"],
    }
    assert "github (in Claude Code, Cursor)" in done.out
    assert user.files() == before
    assert_no_secret(done, user)


def test_a_description_says_what_an_agent_can_do(user: User):
    user.has(*SAMPLES)
    told = user.run("import_", json="true").document["toolboxes"]
    assert told["code"]["description"] == (
        "Manage repositories, issues and pull requests on GitHub; read and write files; work with Git repositories"
    )
    assert (told["code"]["new"], told["code"]["unknown"]) == (True, [])
    assert told["other"]["unknown"] == list(told["other"]["servers"])
    held = json.loads(user.config.read_text())["toolboxes"]
    assert {name: one["description"] for name, one in told.items()} == {
        name: one["description"] for name, one in held.items()
    }


@pytest.mark.parametrize(
    ("sample", "toolbox", "description"),
    [
        (samples.VSCODE_OLD, "web", "Fetch web pages"),
        (
            samples.CURSOR,
            "main",
            "Manage repositories, issues and pull requests on GitHub; manage issues and projects in Linear",
        ),
        (samples.GEMINI, "main", "Work with Git repositories; find places and routes; use the tools of events"),
        (samples.ZED, "main", "Use the tools of mine, older, remote"),
    ],
)
def test_few_servers_share_one_toolbox(user: User, sample: Sample, toolbox: str, description: str):
    user.has(sample)
    done = user.run("import_")
    assert list(written(user)) == [toolbox]
    assert f"toolbox {toolbox}: {description}\n" in done.out
    assert (f"an agent can do with it: mcp-workbench describe {toolbox} TEXT" in done.out) is (
        "the tools of" in description
    )


def test_a_new_server_joins_the_toolbox_of_its_kind_whatever_that_is_called(user: User):
    user.config.parent.mkdir(parents=True)
    servers = {name: {"command": "npx", "args": [f"mcp-server-{name}"]} for name in ("git", "gitlab", "filesystem")}
    toolboxes = {"mine": {"description": "d", "mcpServers": servers}}
    user.config.write_text(json.dumps({"toolboxes": toolboxes}))
    user.has(samples.CURSOR)
    told = user.run("import_", force="true", json="true").document["toolboxes"]
    assert {name: (list(one["servers"]), one["new"]) for name, one in told.items()} == {
        "mine": (["github"], False),
        "projects": (["linear"], True),
    }


def test_a_server_that_was_listed_before_is_recognized_by_its_tools(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("WORKBENCH_CATALOG", str(user.home / "catalog.sqlite"))
    copied = user.home / "opaque.py"
    copied.write_text("import runpy\nrunpy.run_module('mcp_workbench.demo.servers.notes', run_name='__main__')\n")
    entry = {"command": sys.executable, "args": [str(copied)]}
    user.has(samples.CURSOR._replace(text=json.dumps({"mcpServers": {"x": entry}})))
    assert list(user.run("import_", dry_run="true", json="true").document["toolboxes"]) == ["main"]
    assert not (user.home / "catalog.sqlite").exists()
    user.project.joinpath("other.json").write_text(json.dumps({"mcpServers": {"y": entry}}))
    assert user.run("refresh", config="other.json").status == 0
    assert list(user.run("import_", dry_run="true", json="true").document["toolboxes"]) == ["notes"]


def test_one_toolbox_for_all_and_one_for_each_host_exclude_each_other(user: User):
    user.has(samples.CURSOR)
    done = user.run("import_", toolbox="mine", by_host="true")
    assert (done.status, done.err) == (
        2,
        "error: --toolbox and --by-host exclude each other\nhint: Leave out one of them.\n",
    )


def test_the_variables_are_named_with_those_who_need_them(user: User):
    user.has(samples.CLAUDE_CODE, samples.ZED)
    done = user.run("import_", json="true")
    assert done.document["variables"] == {
        "GITHUB_PERSONAL_ACCESS_TOKEN": [{"toolbox": "code", "server": "github"}],
        "SENTRY_TOKEN": [{"toolbox": "monitoring", "server": "sentry"}],
        "SENTRY_X_API_KEY": [{"toolbox": "monitoring", "server": "sentry"}],
        "MINE_TOKEN": [{"toolbox": "other", "server": "mine"}],
        "DATABASE_URL_PASSWORD": [{"toolbox": "other", "server": "older"}],
        "REMOTE_AUTHORIZATION": [{"toolbox": "other", "server": "remote"}],
        "REMOTE_CLIENT_SECRET": [{"toolbox": "other", "server": "remote"}],
    }
    assert_no_secret(done, user)


@pytest.mark.parametrize(
    ("lists", "disabled"),
    [
        ('{"excluded": [" GIT "]}', ["git"]),
        ('{"allowed": ["git"]}', ["maps", "events"]),
        ('{"allowed": ["git", "maps"], "excluded": ["git"]}', ["git", "events"]),
        ('{"allowed": [], "excluded": []}', []),
    ],
)
def test_a_server_that_a_host_does_not_start_is_disabled_here_too(user: User, lists: str, disabled: list[str]):
    user.has(samples.GEMINI._replace(text=samples.GEMINI.text.replace("{", f'{{"mcp": {lists},', 1)))
    user.run("import_")
    assert [name for name, entry in user.entries().items() if entry.get("disabled") is True] == disabled


def test_one_toolbox_can_hold_them_all(user: User):
    user.has(samples.CURSOR, samples.CODEX, samples.CLAUDE_CODE_PROJECT)
    assert user.run("import_", toolbox="mine").status == 0
    assert list(written(user)) == ["mine"]
    assert list(written(user)["mine"]) == ["files", "github", "linear", "files-codex", "figma"]


def test_two_accounts_at_one_server_are_two_servers_with_two_variables(user: User):
    entry = {"command": "npx", "args": ["server-github"]}
    servers = {name: entry | {"env": {"GITHUB_TOKEN": f"ghp_{name * 20}"}} for name in ("home", "work")}
    user.has(samples.CURSOR._replace(text=json.dumps({"mcpServers": servers})))
    user.run("import_")
    assert list(tokens(user).values()) == ["${GITHUB_TOKEN}", "${WORK_GITHUB_TOKEN}"]
    assert user.run("import_", force="true", json="true").document["written"] is False


def test_a_second_account_is_taken_where_the_first_is_known(user: User):
    entry = {"command": "npx", "args": ["server-github"]}
    home, work = (entry | {"env": {"GITHUB_TOKEN": f"ghp_{name * 20}"}} for name in ("home", "work"))
    user.has(samples.CURSOR._replace(text=json.dumps({"mcpServers": {"home": home}})))
    user.run("import_")
    user.has(samples.CURSOR._replace(text=json.dumps({"mcpServers": {"work": work, "home": home}})))
    assert user.run("import_", force="true").status == 0
    assert tokens(user) == {"code/home": "${GITHUB_TOKEN}", "code/work": "${WORK_GITHUB_TOKEN}"}


def test_another_account_under_another_name_is_not_taken_for_the_one_that_is_known(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    entry = {"command": "npx", "args": ["server-github"]}
    home, work = (entry | {"env": {"GITHUB_TOKEN": f"ghp_{name * 20}"}} for name in ("home", "work"))
    user.has(samples.CURSOR._replace(text=json.dumps({"mcpServers": {"home": home}})))
    user.run("import_")
    monkeypatch.setenv("GITHUB_TOKEN", f"ghp_{'home' * 20}")
    user.has(samples.CURSOR._replace(text=json.dumps({"mcpServers": {"work": work, "same": home}})))
    moved = user.run("install", host="cursor", remove_imported="true", json="true").document["moved"]
    assert moved == ["same"]
    new = user.run("import_", force="true", json="true").document["toolboxes"]
    assert list(new["code"]["servers"]) == ["work"]


GITHUB = {"command": "npx", "args": ["server-github"]}


def with_token(sample: Sample, token: str) -> Sample:
    servers = {"github": GITHUB | {"env": {"GITHUB_TOKEN": token}}}
    return sample._replace(text=json.dumps({"mcpServers": servers}))


def tokens(user: User) -> dict[str, str]:
    """What each server of the configuration has for a token."""
    servers = [(f"{box}/{name}", one) for box, inside in written(user).items() for name, one in inside.items()]
    return {name: one["env"]["GITHUB_TOKEN"] for name, one in servers}  # pyright: ignore[reportIndexIssue]


def test_hosts_with_one_server_and_an_account_each_keep_their_own(user: User):
    user.has(with_token(samples.CURSOR, "ghp_cursor"), with_token(samples.WINDSURF, "ghp_windsurf"))
    assert user.run("import_", from_=str(user.path(samples.WINDSURF))).status == 0
    assert user.run("import_", force="true").status == 0
    assert tokens(user) == {"code/github": "${GITHUB_TOKEN}", "code/github-windsurf": "${GITHUB_GITHUB_TOKEN}"}
    for sample, env in (
        (samples.CURSOR, {"GITHUB_TOKEN": "ghp_cursor"}),
        (samples.WINDSURF, {"GITHUB_GITHUB_TOKEN": "ghp_windsurf"}),
    ):
        done = user.run("install", host=sample.host, remove_imported="true", json="true")
        assert done.document["moved"] == ["github"]
        assert json.loads(user.path(sample).read_text())["mcpServers"]["workbench"]["env"] == env


def test_another_account_in_another_host_is_not_taken_for_the_one_that_is_known(
    user: User, monkeypatch: pytest.MonkeyPatch
):
    user.has(with_token(samples.WINDSURF, "ghp_windsurf"))
    assert user.run("import_").status == 0
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_windsurf")
    user.has(with_token(samples.CURSOR, "ghp_cursor"))
    assert user.run("install", host="cursor", remove_imported="true", json="true").document["moved"] == []
    new = user.run("import_", force="true", json="true").document["toolboxes"]
    assert list(new["code"]["servers"]) == ["github-cursor"]


def test_a_variable_that_has_another_value_does_not_stand_for_a_secret(user: User, monkeypatch: pytest.MonkeyPatch):
    user.has(with_token(samples.CURSOR, "ghp_cursor"))
    for value, name in (("ghp_other", "GITHUB_GITHUB_TOKEN"), ("ghp_cursor", "GITHUB_TOKEN")):
        monkeypatch.setenv("GITHUB_TOKEN", value)
        user.config.unlink(missing_ok=True)
        assert user.run("import_").status == 0
        assert tokens(user) == {"code/github": f"${{{name}}}"}


@pytest.mark.parametrize("reference", ["${env:GITHUB_TOKEN}", "${env:GITHUB_TOKEN:none}"])
def test_a_variable_that_another_host_refers_to_does_not_stand_for_a_secret(user: User, reference: str):
    user.has(with_token(samples.CURSOR, "ghp_cursor"), with_token(samples.WINDSURF, reference))
    assert user.run("import_").status == 0
    assert tokens(user)["code/github"] == "${GITHUB_GITHUB_TOKEN}"
    assert tokens(user)["code/github-windsurf"].startswith("${GITHUB_TOKEN")


def test_a_variable_that_a_server_inherits_does_not_stand_for_a_secret(user: User):
    codex = samples.CODEX._replace(text='[mcp_servers.x]\ncommand = "x"\nenv_vars = ["GITHUB_TOKEN"]\n')
    user.has(with_token(samples.CURSOR, "ghp_cursor"), codex)
    assert user.run("import_").status == 0
    assert user.entries()["github"]["env"] == {"GITHUB_TOKEN": "${GITHUB_GITHUB_TOKEN}"}


def test_a_variable_that_every_server_inherits_does_not_stand_for_a_secret(user: User):
    user.has(with_token(samples.CURSOR, "ghp_cursor"))
    user.project.joinpath("own.json").write_text('{"inheritEnv": ["GITHUB_TOKEN"], "toolboxes": {}}', "utf-8")
    assert user.run("import_", config="own.json", force="true").status == 0
    text = user.project.joinpath("own.json").read_text("utf-8")
    assert '"${GITHUB_GITHUB_TOKEN}"' in text
    assert '"${GITHUB_TOKEN}"' not in text


def test_servers_of_a_project_run_in_its_folder_and_those_of_one_that_is_gone_are_not_taken(user: User):
    local = {"type": "stdio", "command": "./bin/db", "args": [], "env": {}}
    projects = {str(user.project): {"mcpServers": {"db": local}}, "/gone/größe": {"mcpServers": {"old": local}}}
    user.has(samples.CLAUDE_CODE._replace(text=json.dumps({"projects": projects})))
    done = user.run("import_")
    assert user.entries() == {"db": {"command": str(user.project / "bin/db"), "cwd": str(user.project)}}
    assert "old: not taken: the folder of its project is gone" in done.out
    moved = user.run("install", host="claude-code", remove_imported="true", json="true").document["moved"]
    assert moved == ["db"]


def test_the_workbench_itself_is_not_taken(user: User):
    text = json.dumps({"mcpServers": {"workbench": {"command": "/x/mcp-workbench", "args": ["serve"]}}})
    user.has(samples.CURSOR._replace(text=text))
    done = user.run("import_")
    assert done.out == NOTHING
    assert not user.config.exists()


EXISTING = """{
  // mine
  "toolboxes": {
    "cursor": {
      "description": "what I chose", // kept
      "mcpServers": {
        "linear": {"command": "other"}, // another one of that name
      },
    },
  },
}
"""


def test_an_existing_file_is_not_changed_unasked(user: User):
    user.has(samples.CURSOR)
    user.config.parent.mkdir(parents=True)
    user.config.write_text(EXISTING)
    done = user.run("import_")
    assert done.status == 2
    assert done.err.startswith(f"error: {user.config}: the file exists already\nhint: Pass --force")
    assert user.config.read_text() == EXISTING


def test_an_existing_file_is_added_to_and_keeps_its_comments_and_order(user: User):
    user.has(samples.CURSOR)
    user.config.parent.mkdir(parents=True)
    user.config.write_text(EXISTING)
    assert user.run("import_", force="true").status == 0
    text = user.config.read_text()
    for line in EXISTING.splitlines():
        assert line in text.splitlines()
    assert list(load_config(user.config, strict=False).toolboxes["cursor"].servers) == [
        "linear",
        "github",
        "linear-cursor",
    ]


def test_importing_again_changes_nothing(user: User):
    user.has(*SAMPLES)
    user.run("import_")
    before = user.config.read_bytes()
    done = user.run("import_")
    assert done.status == 0
    assert done.out.endswith(f"nothing to import: {user.config} has all of them\n")
    assert user.config.read_bytes() == before


def test_a_server_whose_variables_were_renamed_is_still_known(user: User):
    user.has(samples.CURSOR)
    user.run("import_")
    renamed = user.config.read_text().replace("${GITHUB_PERSONAL_ACCESS_TOKEN}", "${MINE}")
    user.config.write_text(renamed)
    assert len(user.run("import_", force="true", json="true").document["known"]) == 2
    assert user.config.read_text() == renamed
    done = user.run("install", host="cursor", remove_imported="true", json="true")
    assert done.document["moved"] == ["github", "linear"]


def test_comment_keys_stay_and_change_nothing(user: User):
    user.has(samples.CURSOR)
    user.run("import_")
    note = '"_note": "was ghp_OldOldOldOldOldOldOldOldOld01, now ${NO_VARIABLE}"'
    commented = user.config.read_text().replace("{", f"{{ {note},", 1).replace('"command":', f'{note}, "command":')
    user.config.write_text(commented)
    assert len(user.run("import_", force="true", json="true").document["known"]) == 2
    assert user.config.read_text() == commented
    done = user.run("install", host="cursor", remove_imported="true", json="true")
    assert done.document["moved"] == ["github", "linear"]
    assert "NO_VARIABLE" not in done.out
    user.has(samples.GEMINI)
    user.run("import_", force="true", toolbox="more")
    user.run("add", "x", toolbox="more", server="mine")
    user.run("remove", toolbox="more")
    assert user.config.read_text() == commented


def test_a_server_that_stands_there_with_its_secret_is_known_too(user: User):
    user.has(samples.CURSOR)
    user.run("import_")
    inline = user.config.read_text().replace("${GITHUB_PERSONAL_ACCESS_TOKEN}", samples.CANARY)
    user.config.write_text(inline)
    done = user.run("import_", force="true", json="true")
    assert len(done.document["known"]) == 2
    assert samples.CANARY not in done.out
    assert user.config.read_text() == inline


def test_a_file_as_hosts_write_it_is_added_to_as_it_is(user: User):
    user.has(samples.GEMINI)
    user.config.parent.mkdir(parents=True)
    user.config.write_text('{"mcpServers": {"a": {"command": "x"}}}')
    assert user.run("import_", force="true").status == 0
    assert list(json.loads(user.config.read_text())["mcpServers"]) == ["a", "git", "maps", "events"]


CONFIGURED = '"github": {"command": "npx", "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_Aa0Aa0Aa0Aa0Aa0Aa0Aa0Aa0Aa0"}}'
REMOTE = '{"url": "https://%s.example/mcp", "headers": {"Authorization": "Bearer %s-0123456789abcdefghij"}}'
OF_THE_PAGE = {
    ".claude.json": f'{{"mcpServers": {{{CONFIGURED}, "sentry": {REMOTE % ("sentry", "s")}}}}}',
    ".cursor/mcp.json": f'{{"mcpServers": {{{CONFIGURED}, "linear": {REMOTE % ("linear", "l")}}}}}',
    ".config/zed/settings.json": (
        '{"context_servers": {"files": {"command": "mcp-server-filesystem"}, "wiki": {"command": "team-wiki"}, '
        '"postgres-context-server": {"settings": {}}}}'
    ),
}


def test_the_example_of_its_page_is_what_it_prints(user: User):
    for name, text in OF_THE_PAGE.items():
        path = user.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    page = (ROOT / "docs" / "commands" / "import.md").read_text(encoding="utf-8")
    [console] = [block.text for block in blocks(page) if block.language == "console"]
    [document] = [json.loads(block.text) for block in blocks(page) if block.language == "json"]
    told = user.run("import_", dry_run="true", json="true").document
    assert {"LINEAR_AUTHORIZATION": told["variables"]["LINEAR_AUTHORIZATION"]} == document["variables"]
    assert {"projects": told["toolboxes"]["projects"]} == document["toolboxes"]
    assert set(told) == set(document)
    done = user.run("import_")
    assert f"$ mcp-workbench import\n{done.out.replace(str(user.home), '/home/me')}".strip() == console.strip()


def test_a_dry_run_shows_the_difference_without_secrets_and_writes_nothing(user: User):
    user.has(samples.CLAUDE_CODE)
    user.config.parent.mkdir(parents=True)
    existing = {"dev": {"description": "d", "mcpServers": {"s": {"command": "x", "env": {"A_TOKEN": samples.HEADER}}}}}
    user.config.write_text(json.dumps({"toolboxes": existing}, indent=2))
    before = user.config.read_text()
    done = user.run("import_", dry_run="true", toolbox="dev")
    assert done.status == 0
    assert '+        "github": {' in done.out
    assert '"A_TOKEN": "***"' in done.out
    assert "nothing was written: this would add 2" in done.out
    assert user.config.read_text() == before
    for secret in SECRETS:
        assert secret not in done.out + done.err


def test_a_dry_run_shows_no_secret_of_a_comment_or_with_an_unusual_name(user: User):
    user.has(samples.CURSOR)
    user.config.parent.mkdir(parents=True)
    old = '"_old": "was ghp_OldOldOldOldOldOldOldOldOld02"'
    started = '"command": "x", "args": ["--pin", "4711-hunter"], "env": {"SESSION": "hunter2hunter2"}'
    servers = f'"s": {{{old}, {started}}}'
    comment = "// was ghp_OldOldOldOldOldOldOldOldOld01"
    user.config.write_text(
        f'{{\n"toolboxes": {{"cursor": {{"description": "d", "mcpServers": {{ {comment}\n{servers}\n}}}}}}\n}}'
    )
    done = user.run("import_", dry_run="true")
    assert '+"github": {' in done.out.replace(" ", "").replace(":{", ": {")
    assert "hunter" not in done.out
    assert '"_old": "***"' in done.out
    assert "OldOld" not in done.out


def test_a_broken_file_is_told_and_the_others_are_taken(user: User):
    user.has(samples.CODEX, samples.CURSOR._replace(text='{"mcpServers": {"a": hunter2'))
    done = user.run("import_", json="true")
    assert done.status == 0
    broken, good = done.document["sources"]
    assert broken["error"].endswith(
        ".cursor/mcp.json: is not valid JSON: line 1, column 22: expected a value, found a bare word"
    )
    assert [server["name"] for server in good["servers"]] == ["files", "figma"]
    assert "hunter2" not in done.out


def test_settings_that_are_broken_and_hold_no_servers_are_nobodys_concern(user: User):
    user.has(samples.VSCODE_OLD._replace(text='{"a": '))
    assert user.run("import_").out == NOTHING
    user.has(samples.VSCODE_OLD._replace(text='{"mcp": {"servers": {}}, "a": '))
    assert "settings.json: is not valid JSON" in user.run("import_").out


def test_what_can_not_be_taken_is_told_with_its_reason(user: User):
    user.has(samples.ZED, samples.VSCODE)
    done = user.run("import_")
    assert "postgres-context-server: not taken: has neither a command nor an address" in done.out
    assert "'somethingNew' has no meaning here" in done.out


@pytest.mark.parametrize(
    ("name", "sample"),
    [("x.json", samples.VSCODE), ("y.toml", samples.CODEX), ("z.json", samples.ZED), ("w.json", samples.CURSOR)],
)
def test_one_file_is_taken_whatever_its_kind(user: User, name: str, sample: Sample):
    user.has(samples.GEMINI)
    (user.project / name).write_bytes(sample.data)
    done = user.run("import_", from_=name, toolbox="t")
    assert done.status == 0, done.err
    assert list(written(user)) == ["t"]
    assert list(written(user)["t"]) == list(sample.servers)


def test_the_file_of_a_plugin_may_have_its_servers_alone(user: User):
    plugin = {"files": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}, "remote": {"type": "http", "url": "https://a/mcp"}}
    (user.project / ".mcp.json").write_text(json.dumps(plugin))
    assert user.run("import_", from_=".mcp.json", toolbox="t").status == 0
    assert written(user)["t"] == {"files": {"command": "${CLAUDE_PLUGIN_ROOT}/run"}, "remote": {"url": "https://a/mcp"}}


@pytest.mark.parametrize(("text", "problem"), [("{}", "holds no MCP servers"), ("{", "is not valid JSON")])
def test_a_file_that_is_no_hosts_is_refused(user: User, text: str, problem: str):
    (user.project / "x.json").write_text(text)
    done = user.run("import_", from_="x.json")
    assert done.status == 1
    assert problem in done.err
    assert not user.config.exists()


def test_a_file_that_is_not_there_is_told_to_programs_too(user: User):
    done = user.run("import_", from_="x.json", json="true")
    assert done.status == 1
    assert done.document["code"] == "host_file"


def test_another_configuration_can_be_named(user: User):
    user.has(samples.CURSOR)
    assert user.run("import_", config="sub/mine.json").status == 0
    assert (user.project / "sub" / "mine.json").exists()
    assert not user.config.exists()


def test_at_a_terminal_a_yes_is_enough(user: User, monkeypatch: pytest.MonkeyPatch):
    user.has(samples.CURSOR)
    user.config.parent.mkdir(parents=True)
    for answer, changed in (("n\n", False), ("\n", False), ("y\n", True)):
        user.config.write_text(EXISTING)
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        monkeypatch.setattr("mcp_workbench.cli.import_.is_terminal", lambda _stream: True)
        assert user.run("import_").status == 0
        assert (user.config.read_text() != EXISTING) is changed
