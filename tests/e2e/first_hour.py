"""The first hour: three real hosts with eleven real servers move behind the workbench, use it, and move out again.

`make firsthour`. The file has no name that `make test` collects: the hosts are 850 MB. Nothing but loopback is reached.
The steps are those of the README: import, doctor, install --all, list and call in each host, uninstall --all. No step
needs an editor, and none needs a variable but the one secret.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client, StdioServerParameters

from tests.support.real_hosts import ClaudeCode, Codex, Gemini, Terminal
from tests.support.reference import CACHE, node_program, npm_program

Json = dict[str, Any]

pytestmark = pytest.mark.timeout(600)

SECRET = {"CONTEXT7_API_KEY": "ctx7sk-3f9c2b8e-71d4-4a06-9c55-e0b1d2a4f687"}


class Call(NamedTuple):
    """A tool, its arguments, and a part of its answer."""

    server: str
    tool: str
    arguments: Json
    answer: str


class Newcomer(NamedTuple):
    """A person with three hosts, whose files are as the hosts wrote them."""

    terminal: Terminal
    hosts: tuple[ClaudeCode, Codex, Gemini]
    calls: tuple[Call, ...]

    def workbench(self, *arguments: str) -> Json:
        """What a command answers with `--json`."""
        return json.loads(self.terminal.run("mcp-workbench", *arguments, "--json").stdout)

    def files(self) -> dict[str, bytes]:
        return {host.key: host.path.read_bytes() for host in self.hosts}

    def servers(self) -> dict[str, Json]:
        return {host.key: host.servers() for host in self.hosts}

    def arguments(self) -> list[Json]:
        """The arguments of `use_tool` for each call, with the toolboxes that `import` chose."""
        toolboxes = self.workbench("list")["toolboxes"]
        boxes = {server["server"]: box["toolbox"] for box in toolboxes for server in box["servers"]}
        named = [{"toolbox": boxes[one.server], "server": one.server, "tool": one.tool} for one in self.calls]
        return [{"tool": tool, "arguments": one.arguments} for tool, one in zip(named, self.calls, strict=True)]


def script(package: str, path: str, *arguments: str) -> list[str]:
    folder = "npm" if package.endswith(("everything", "filesystem", "memory")) else "npm-first-hour"
    return ["node", str(npm_program(folder, package, path)), *arguments]


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    home, project = tmp_path / "home", tmp_path / "home" / "shop"
    project.mkdir(parents=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), str(Path(node_program()).parent), "/usr/bin", "/bin"])
    environ = {"PATH": path, "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", **SECRET}
    terminal = Terminal(home, project, environ)
    make_repository(terminal)
    hosts = (claude_code(terminal), codex(terminal), gemini(terminal))
    calls = (
        Call("everything", "echo", {"message": "grüß dich"}, "Echo: grüß dich"),
        Call("filesystem", "list_directory", {"path": str(project)}, "[FILE] a.txt"),
        Call("git", "git_log", {"repo_path": str(project)}, "Add a"),
        Call("time", "get_current_time", {"timezone": "Asia/Tokyo"}, "+09:00"),
        Call("thinking", "sequentialthinking", THOUGHT, '"thoughtHistoryLength"'),
        Call("memory", "search_nodes", {"query": "cheese"}, '"entities"'),
        Call("everything", "get-env", {}, "Tool 'get-env' not found in server 'everything'"),
        Call("chrome", "evaluate_script", {}, "Tool 'evaluate_script' not found in server 'chrome'"),
    )
    return Newcomer(terminal, hosts, calls)


MEMORY = "@modelcontextprotocol/server-memory"
THOUGHT = {"thought": "first", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
DENIED = {"permissions": {"allow": ["mcp__memory__search_nodes"], "deny": ["mcp__everything__get-env", "Read(.env)"]}}


def make_repository(terminal: Terminal) -> None:
    (terminal.project / "a.txt").write_text("a\n")
    who = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    for command in (["init", "-q", "-b", "main"], ["add", "."], [*who, "commit", "-q", "-m", "Add a"]):
        terminal.run("git", *command)


def claude_code(terminal: Terminal) -> ClaudeCode:
    host = ClaudeCode(terminal)
    host.listed()  # the first run writes identifiers into its file
    host.add("everything", script("@modelcontextprotocol/server-everything", "dist/index.js", "stdio"))
    files = script("@modelcontextprotocol/server-filesystem", "dist/index.js", str(terminal.project))
    host.add("filesystem", files)
    host.add("memory", script(MEMORY, "dist/index.js"), MEMORY_FILE_PATH=str(terminal.home / "memory.json"))
    git = [str(CACHE / "mcp-server-git" / "bin" / "mcp-server-git"), "--repository", str(terminal.project)]
    host.add("git", git, scope="local")
    (terminal.home / ".claude").mkdir(exist_ok=True)
    (terminal.home / ".claude" / "settings.json").write_text(json.dumps(DENIED))
    return host


def codex(terminal: Terminal) -> Codex:
    host = Codex(terminal)
    host.path.parent.mkdir()
    host.path.write_text(
        '# mine\nmodel = "gpt-5"\ncheck_for_update_on_startup = false\n\n[analytics]\nenabled = false\n'
    )
    host.add("thinking", script("@modelcontextprotocol/server-sequential-thinking", "dist/index.js"))
    host.add("time", [str(CACHE / "mcp-server-time" / "bin" / "mcp-server-time"), "--local-timezone", "UTC"])
    host.add("charts", script("@antv/mcp-server-chart", "build/index.js"))
    devtools = script("chrome-devtools-mcp", "build/src/bin/chrome-devtools-mcp.js", "--no-usage-statistics")
    host.add("chrome", devtools)
    with host.path.open("a") as more:
        more.write('disabled_tools = ["evaluate_script"] # never\nstartup_timeout_sec = 30\n')
    return host


def gemini(terminal: Terminal) -> Gemini:
    host = Gemini(terminal)
    folder = host.path.parent
    folder.mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "trustedFolders.json").write_text(json.dumps({str(terminal.project): "TRUST_FOLDER"}))
    host.add("context7", script("@upstash/context7-mcp", "dist/index.js"), **SECRET)
    host.add("notion", script("@notionhq/notion-mcp-server", "bin/cli.mjs"))
    host.add("playwright", script("@playwright/mcp", "cli.js"))
    host.add("memory", script(MEMORY, "dist/index.js"), MEMORY_FILE_PATH=str(terminal.home / "memory.json"))
    return host


def move_in(newcomer: Newcomer) -> None:
    installed = newcomer.workbench("install", "--all", "--remove-imported")["hosts"]
    assert [one["host"] for one in installed] == [host.key for host in newcomer.hosts]
    assert [(one["stay"], one["missing"]) for one in installed] == [([], [])] * 3
    assert [list(host.servers()) for host in newcomer.hosts] == [["workbench"]] * 3


def move_out(newcomer: Newcomer) -> list[bool]:
    """Whether the file of each host is byte for byte as it was."""
    return [one["exact"] for one in newcomer.workbench("uninstall", "--all")["hosts"]]


async def call_as_client(newcomer: Newcomer) -> None:
    """Call a tool with the official client, by the entry that stands in each host's file."""
    arguments = newcomer.arguments()[0]
    for host in newcomer.hosts:
        entry = host.servers()["workbench"]
        own = {name: value for name, value in entry.get("env", {}).items() if value != f"${name}"}
        env = {**newcomer.terminal.environ, **own}
        parameters = StdioServerParameters(command=entry["command"], args=entry["args"], env=env)
        async with Client(parameters) as client:
            result = await client.call_tool("use_tool", arguments)
        assert [block.text for block in result.content] == [newcomer.calls[0].answer], host.key


def call_in_hosts(newcomer: Newcomer) -> None:
    arguments = newcomer.arguments()
    for host in newcomer.hosts:
        results = host.call(arguments)
        for call, result in zip(newcomer.calls, results, strict=True):
            assert call.answer in result, (host.key, call)


async def test_three_hosts_move_behind_the_workbench_use_it_and_move_out_again(newcomer: Newcomer):
    files, servers = newcomer.files(), newcomer.servers()
    imported = newcomer.workbench("import")
    assert list(imported["variables"]) == list(SECRET)

    examined = newcomer.workbench("doctor")
    assert [one["state"] for one in examined["servers"]] == ["ok"] * 11
    assert sum(one["tools"] for one in examined["servers"]) > 100

    move_in(newcomer)
    assert [host.listed() for host in newcomer.hosts] == [["workbench"]] * 3
    await call_as_client(newcomer)
    assert move_out(newcomer) == [True] * 3
    assert newcomer.files() == files

    # A session writes into the file of its host, so that is compared by what it says.
    move_in(newcomer)
    call_in_hosts(newcomer)
    move_out(newcomer)
    assert newcomer.servers() == servers
