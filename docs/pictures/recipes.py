"""What each picture shows: what a person types, and what was there before."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, BinaryIO, NamedTuple, cast

from docs.pictures import home as people
from docs.pictures.emulator import DEADLINE, ROWS, Emulator
from docs.pictures.home import Home

GIT = {
    "description": "The history of my projects",
    "mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git==2026.10.19"]}},
}
"""A toolbox whose server can't be started: the person has not installed `uvx`."""


class Recipe(NamedTuple):
    """A picture: its title, and how the screen comes about that it shows."""

    title: str
    cook: Callable[[Emulator, Home], None]
    rows: int = ROWS
    """The height of the screen; a program that fills it is shown as it is."""

    @property
    def is_full(self) -> bool:
        return self.rows != ROWS


def _listed(terminal: Emulator, home: Home) -> None:
    """With servers that have listed what they have."""
    home.configure(people.toolboxes())
    terminal.run("mcp-workbench refresh")
    terminal.clear()


def _after(*commands: str) -> Callable[[Emulator, Home], None]:
    def cook(terminal: Emulator, home: Home) -> None:
        _listed(terminal, home)
        for command in commands:
            terminal.run(command)

    return cook


def _progress(terminal: Emulator, home: Home) -> None:
    _listed(terminal, home)
    terminal.start("mcp-workbench call data calculator count_primes limit=50000000")
    seen = re.compile(r"[4-9]0% \d+ primes up to \d{8} *$")
    terminal.wait_until(lambda: any(seen.search(line) for line in terminal.screen.display[1:]), "progress")


def _doctor(terminal: Emulator, home: Home) -> None:
    toolboxes = people.toolboxes()
    toolboxes["writing"]["mcpServers"]["text"] = people.server("text", toolFilters=["serch", "count_*", "wrap_*"])
    toolboxes["data"]["mcpServers"]["calculator"] = people.server(
        "calculator", env={"RATES_API_KEY": "not-a-real-key-8f2c41d09b"}
    )
    toolboxes["dev"] = GIT
    home.configure(toolboxes)
    terminal.run("mcp-workbench doctor")


def _with_hosts(home: Home) -> None:
    home.write(".cursor/mcp.json", people.CURSOR)
    home.write(".claude.json", people.CLAUDE_CODE)


def _import(terminal: Emulator, home: Home) -> None:
    _with_hosts(home)
    terminal.run("mcp-workbench import")


def _install(terminal: Emulator, home: Home) -> None:
    _with_hosts(home)
    terminal.run("mcp-workbench import")
    terminal.clear()
    for command in (
        "mcp-workbench install cursor --remove-imported",
        "head -5 ~/.cursor/mcp.json",
        "mcp-workbench uninstall cursor",
        "head -4 ~/.cursor/mcp.json",
    ):
        terminal.run(command)


def _add(terminal: Emulator, home: Home) -> None:
    del home
    for command in (
        "mcp-workbench add dev git --description 'My projects' -- uvx mcp-server-git==2026.10.19",
        "mcp-workbench add dev issues --url https://tracker.example/mcp --header 'X-Key=${TRACKER_KEY}'",
        "mcp-workbench check",
        "mcp-workbench remove dev issues",
    ):
        terminal.run(command)


def _trust(terminal: Emulator, home: Home) -> None:
    servers = {"database": people.server("database", env={"DB_PASSWORD": "${DB_PASSWORD}"})}
    toolboxes = {"shop": {"description": "The shop's data", "mcpServers": servers}}
    home.write("src/shop/workbench-config.json", json.dumps({"toolboxes": toolboxes}, indent=2))
    terminal.run("cd ~/src/shop")
    terminal.clear()
    terminal.start("mcp-workbench trust")
    terminal.wait_for("[y/N]")
    terminal.type("y\n")
    terminal.wait_until(terminal.is_ready, "the end")


def _completion(terminal: Emulator, home: Home) -> None:
    _listed(terminal, home)
    terminal.run('eval "$(mcp-workbench completion bash)"')
    terminal.type("mcp-workbench call data c\t")
    terminal.wait_for_line("data calculator")
    terminal.type("\t\t")
    terminal.wait_for_line("data calculator", after="statistics")
    terminal.type("conv\t")
    terminal.wait_for_line("convert_units", after="statistics")
    terminal.type("source=k\t\t")
    terminal.wait_for_line("source=k", after="kg")


USED = (
    ("writing", "notes", "add_note", {"title": "Milk", "text": "Two bottles"}),
    ("writing", "notes", "search", {"query": "milk"}),
    ("writing", "text", "count_words", {"text": "one two three"}),
    ("writing", "text", "count_words", {"text": "four five"}),
    ("data", "database", "query", {"sql": "SELECT name FROM planets"}),
    ("data", "database", "query", {"sql": "SELECT nme FROM planets"}),
    ("data", "calculator", "count_primes", {"limit": 20_000_000}),
)
"""What the agent of the picture of `status` calls."""


def _status(terminal: Emulator, home: Home) -> None:
    _listed(terminal, home)
    with _host(home) as ask:
        for toolbox, query in (("writing", "count words"), ("data", "query")):
            ask("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": toolbox, "query": query}})
        for used in USED:
            ask("tools/call", _use(*used))
        _recorded(home)
        terminal.run("mcp-workbench status")


def _watch(terminal: Emulator, home: Home) -> None:
    _listed(terminal, home)
    with _host(home) as ask:
        for used in USED[2:5]:
            ask("tools/call", _use(*used))
        for _ in range(8):  # one after the other, so that some are under way when the record is written
            ask("tools/call", _use("data", "calculator", "count_primes", {"limit": 50_000_000}), waits=False)
        terminal.start("mcp-workbench status --watch")
        terminal.wait_for("count_primes  for")
        terminal.wait_for("servers")
        terminal.wait_until(lambda: any(line.rstrip().endswith(" ms") for line in terminal.screen.display), "times")


def _logs(terminal: Emulator, home: Home) -> None:
    toolboxes = people.toolboxes()
    toolboxes["dev"] = GIT
    home.configure(toolboxes)
    with _host(home) as ask:
        for toolbox in ("planning", "dev"):
            ask("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": toolbox}})
        toolboxes.pop("dev")
        home.configure(toolboxes)
        _until(home, "logs", lambda printed: b"in force" in printed)
        terminal.run("mcp-workbench logs")


def _use(toolbox: str, server: str, tool: str, arguments: Any) -> Any:
    which = {"toolbox": toolbox, "server": server, "tool": tool}
    return {"name": "use_tool", "arguments": {"tool": which, "arguments": arguments}}


def _recorded(home: Home) -> None:
    """Wait until the record has all calls: it is written about once a second."""

    def has_all(printed: bytes) -> bool:
        return sum(tool["calls"] for run in json.loads(printed)["runs"] for tool in run["tools"]) >= len(USED)

    _until(home, "status --json", has_all)


def _until(home: Home, command: str, is_so: Callable[[bytes], bool]) -> None:
    """Wait until a command prints something."""
    line, end = [f"{home.folder}/.local/bin/mcp-workbench", *command.split()], time.monotonic() + DEADLINE
    while not is_so(subprocess.run(line, env=home.environ, capture_output=True, check=True, timeout=DEADLINE).stdout):
        if time.monotonic() > end:
            raise TimeoutError(f"{command} did not print what it should")


@contextmanager
def _host(home: Home) -> Generator[Callable[..., Any]]:
    """A host with a workbench, as far as a picture needs one."""
    command, ids = [f"{home.folder}/.local/bin/mcp-workbench", "serve"], count(1)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=home.environ, cwd=home.folder, bufsize=0, **pipes) as program:

        def ask(method: str, params: Any, *, waits: bool = True) -> Any:
            requests, answers = cast("BinaryIO", program.stdin), cast("BinaryIO", program.stdout)
            request = {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": params}
            requests.write(json.dumps(request).encode() + b"\n")
            return waits and next(message for message in map(json.loads, answers) if message.get("id") == request["id"])

        ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "me"}})
        yield ask
        cast("BinaryIO", program.stdin).close()


RECIPES: Mapping[str, Recipe] = {
    "list": Recipe("mcp-workbench list", _after("mcp-workbench list")),
    "list-toolbox": Recipe("mcp-workbench list data", _after("mcp-workbench list data")),
    "show": Recipe(
        "mcp-workbench show writing text wrap_text",
        _after("mcp-workbench show writing text wrap_text"),
    ),
    "search": Recipe("mcp-workbench search", _after("mcp-workbench search how long is it until a day")),
    "call": Recipe(
        "mcp-workbench call",
        _after(
            "mcp-workbench call data calculator convert_units value=26.2 source=mi target=km",
            "mcp-workbench call data database query sql='SELECT name, moons FROM planets WHERE moons > 50'",
            "mcp-workbench call writing text diff_texts before='a quiet day' after='a quiet night'",
        ),
    ),
    "call-progress": Recipe("mcp-workbench call, while the tool works", _progress),
    "doctor": Recipe("mcp-workbench doctor", _doctor),
    "status": Recipe("mcp-workbench status", _status),
    "status-watch": Recipe("mcp-workbench status --watch", _watch, rows=24),
    "logs": Recipe("mcp-workbench logs", _logs),
    "tokens": Recipe("mcp-workbench tokens", _after("mcp-workbench tokens")),
    "trust": Recipe("mcp-workbench trust", _trust),
    "import": Recipe("mcp-workbench import", _import),
    "add": Recipe("mcp-workbench add, check and remove", _add),
    "install": Recipe("mcp-workbench install and uninstall", _install),
    "error": Recipe(
        "Errors in two lines",
        _after(
            "mcp-workbench call data calculatr evaluate expression=1+1",
            "mcp-workbench list --jsn",
            "mcp-workbench install crusor",
        ),
    ),
    "completion": Recipe("Completion in bash", _completion),
}
