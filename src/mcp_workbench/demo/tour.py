"""The guided tour behind `mcp-workbench demo`.

It starts the real workbench as a child process with three toolboxes of demo servers, talks to it like an agent's host,
and shows the important messages. Guarantees: every step checks that the workbench did what the text says; the tour ends
within a deadline, leaves no process and no file behind, and returns 0 only if every step succeeded. On failure it shows
the end of the workbench's log.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import msgspec
from msgspec import Raw

from mcp_workbench.cli.display import Tone, Words, terminal_look, wrap, write
from mcp_workbench.demo.connection import PipeConnection
from mcp_workbench.identity import ToolIdentifier, historical_names
from mcp_workbench.text.sanitize import count
from mcp_workbench.wire import eras
from mcp_workbench.wire.exchange import OnProgress
from mcp_workbench.wire.jsonrpc import number_or_none
from mcp_workbench.wire.peer import Peer

JsonObject = dict[str, Any]

PACKAGE = "mcp_workbench.demo.servers"
WIDTH = 100
"""The widest output, in columns."""
_SHOWN_LINES = 6
"""Lines shown of an answer; errors are shown in full."""
_DEADLINE_SECONDS = 30
"""The tour takes about two seconds; after this long something is wrong."""
_END_SECONDS = 5
"""How long the workbench may take to exit before it is killed."""
_LOG = "workbench.log"
_LOG_LINES = 15
_BYTES_PER_TOKEN = 4
"""An estimate instead of a tokenizer: close enough to compare."""

_PROC = Path("/proc")
_INHERITED = ("HOME", "LANG", "PATH", "PYTHONPATH", "USER")
_STAMP = {
    eras.PROTOCOL_VERSION: eras.MODERN_VERSIONS[-1],
    eras.CLIENT_INFO: {**eras.SELF, "name": "mcp-workbench-demo"},
    eras.CLIENT_CAPABILITIES: {},
}
_TOOLBOXES = {
    "writing": ("Notes and text: keep notes, count words, compare and search texts", ("notes", "text")),
    "data": ("Numbers and tables: arithmetic, statistics, units, SQL", ("calculator", "database")),
    "planning": ("Dates, weekdays and time zones", ("calendar",)),
}
_WAY_ON = """
1. mcp-workbench import: groups the MCP servers of your hosts into toolboxes.
2. mcp-workbench doctor: starts each server once and reports problems.
3. mcp-workbench install --all --remove-imported: moves them behind it; uninstall --all undoes that.
No servers yet? mcp-workbench add has examples: mcp-workbench add --help
"""

_ADD_NOTE = ToolIdentifier("writing", "notes", "add_note")
_SEARCH_NOTES = ToolIdentifier("writing", "notes", "search")
_MISSPELT = ToolIdentifier("writing", "notes", "serch")
_SEARCH_TEXT = ToolIdentifier("writing", "text", "search")
_DAYS_BETWEEN = ToolIdentifier("planning", "calendar", "days_between")
_COUNT_PRIMES = ToolIdentifier("data", "calculator", "count_primes")
_QUERY = {"query": "friday"}


class TourError(Exception):
    """A step did not do what its text says."""


class Display:
    """Writes the tour to `out`, at most 100 columns wide, with colours only at a terminal."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._width = min(terminal_look(out)[0], WIDTH)
        self._steps = 0

    def step(self, title: str) -> None:
        """Write a numbered title after a blank line."""
        self._steps += 1
        self.show("")
        self.show(title, f"{self._steps}. ", "strong", indent=0)

    def aside(self, text: str) -> None:
        """Write a remark."""
        self.show(text, tone="quiet")

    def show(self, text: str, mark: str = "", tone: Tone = "", *, indent: int = 3, most: int | None = None) -> None:
        """Write a paragraph after a mark, cut after `most` lines."""
        room = self._width - indent - len(mark)
        pieces = [piece for line in text.splitlines() or [""] for piece in wrap(line.expandtabs(), room)]
        for number, piece in enumerate(pieces[:most]):
            write(Words(f"{' ' * len(mark) if number else mark}{piece}", tone, indent), to=self._out)
        if most is not None and len(pieces) > most:
            self.show(f"... ({count(len(pieces) - most, 'more line')})", tone="quiet", indent=indent + len(mark))
        self._out.flush()


class Tour:
    """The steps of the tour, on the workbench behind `peer`."""

    def __init__(self, peer: Peer, display: Display) -> None:
        self._peer = peer
        self._display = display

    async def take(self) -> None:
        """Run the steps of the first session."""
        start = await self._connect()
        read = start + await self._open_first()
        await self._call()
        await self._answer_mistakes()
        await self._compare(start, read)
        self._display.step("The agent need not know where a tool is: it can search every toolbox.")
        found = (await self._open("*", query="how many days until a date"))["tools"]
        best = [ToolIdentifier.of(tool) for tool in found[:1]]
        _expect(best == [_DAYS_BETWEEN], "the best match is another tool")
        self._display.show(f"best of {len(found)}: {json.dumps(best[0].params())}", "- ")

    async def come_back(self) -> None:
        """Run the step of a second session."""
        self._display.step("The agent comes back tomorrow. Toolboxes open from the cache; no server starts.")
        answer = await self._open("writing")
        _expect(answer.get("stored") is True, "the toolbox was not opened from the cache")
        tools, servers = count(len(answer["tools"]), "tool"), count(answer["servers_connected"], "server")
        self._display.show(f"{tools} of {servers}, from the cache", "- ")
        self._show_processes(0)

    async def _connect(self) -> int:
        """Connect; returns how many tokens that costs the agent."""
        self._display.step("An agent connects. This is all it sees:")
        instructions = (await self._request("server/discover", {}))["instructions"]
        tools = (await self._request("tools/list", {}))["tools"]
        _expect([tool["name"] for tool in tools] == ["open_toolbox", "use_tool"], "the list is not the two tools")
        for tool in tools:
            first = tool["description"].partition("\n")[0].partition(". ")[0].rstrip(".")
            self._display.show(f"{tool['name']}: {first}.", "- ")
        self._display.show("and these instructions:")
        for line in instructions.splitlines():
            self._display.show(line, "| ")
        cost = _tokens(tools) + _tokens(instructions)
        self._display.aside(f"About {cost} tokens in all (estimated: bytes / {_BYTES_PER_TOKEN}).")
        self._show_processes(0)
        return cost

    async def _open_first(self) -> int:
        """Open the first toolbox; returns how many tokens that costs the agent."""
        self._display.step("It opens the toolbox that it needs. Only now do that toolbox's servers start.")
        answer = await self._open("writing")
        for server in _TOOLBOXES["writing"][1]:
            names = [tool["name"] for tool in answer["tools"] if tool["source_server"] == server]
            _expect(bool(names), f"{server} did not answer")
            self._display.show(f"{server} answered with {count(len(names), 'tool')}: {', '.join(names)}", "- ")
        self._display.aside(f"Each comes with its full definition: about {_tokens(answer)} tokens.")
        self._show_processes(2)
        return _tokens(answer)

    async def _call(self) -> None:
        self._display.step("It calls tools. A tool is named by three fields: toolbox, server and tool.")
        note = {"title": "Launch", "text": "Ship the release on Friday", "tags": ["work"]}
        await self._use(_ADD_NOTE, note, "Ship the release")
        await self._use(_SEARCH_NOTES, _QUERY, "Ship the release")
        self._display.aside("The second call found the note of the first: both reached the same server process.")
        self._display.step("Another server has a tool with the same name. They do not collide, and neither is renamed.")
        await self._use(_SEARCH_TEXT, {"text": "Monday: plan\nFriday: ship\n", **_QUERY}, '"line": 2')
        self._show_processes(2)
        self._display.step("A call does not need an open toolbox: only the server with that tool starts.")
        await self._use(_DAYS_BETWEEN, {"start": "2026-07-28", "end": "2026-12-24"}, '"days": 149')
        self._display.aside("It speaks MCP 2026-07-28, the other two only older versions. The agent need not know.")
        self._show_processes(3)
        self._display.step("A longer call reports its progress through the workbench.")
        await self._use(_COUNT_PRIMES, {"limit": 2_000_000}, "148933", reports=True)
        self._show_processes(4)

    async def _answer_mistakes(self) -> None:
        self._display.step("The answer to a mistake helps the model to correct it.")
        await self._use(_MISSPELT, _QUERY, "Did you mean 'search'?", fails=True)
        self._display.step("A joined name from older versions is answered with the call to send instead.")
        await self._show_call(historical_names(_SEARCH_NOTES)[-1], _QUERY, '"notes"', fails=True)

    async def _compare(self, start: int, read: int) -> None:
        self._display.step("What the agent did not have to read (to compare, the demo now opens the other toolboxes).")
        opened = [await self._open(toolbox, is_shown=False) for toolbox in _TOOLBOXES]
        tools = [tool for answer in opened for tool in answer["tools"]]
        added = ("toolbox_name", "source_server")
        flat = _tokens([{key: value for key, value in tool.items() if key not in added} for tool in tools])
        show, mark = self._display.show, "- "
        show(f"{flat:5} tokens: all {len(tools)} tools of the five servers, if each were added directly", mark)
        show(f"{start:5} tokens: the start with the workbench, regardless of the number of tools", mark)
        show(f"{read:5} tokens: the start and the opened toolbox", mark)
        show(f"{flat - read:5} tokens saved, and more for every tool in a toolbox that stays closed", mark)
        self._display.aside(f"All are estimates (bytes / {_BYTES_PER_TOKEN}), for five small servers.")
        self._show_processes(5)

    # -- requests

    async def _open(self, toolbox: str, *, is_shown: bool = True, **more: str) -> JsonObject:
        params = {"name": "open_toolbox", "arguments": {"toolbox": toolbox, **more}}
        if is_shown:
            self._display.show(f"open_toolbox {json.dumps(params['arguments'])}", "-> ", "good")
        answer = await self._request("tools/call", params)
        _expect(not answer.get("isError"), _text(answer))
        return json.loads(_text(answer))

    async def _use(self, tool: ToolIdentifier, arguments: JsonObject, expected: str, **flags: bool) -> None:
        await self._show_call("use_tool", {"tool": tool.params(), "arguments": arguments}, expected, **flags)

    async def _show_call(
        self, name: str, arguments: JsonObject, expected: str, *, fails: bool = False, reports: bool = False
    ) -> None:
        """Call a tool and show the answer, which must contain `expected`."""
        self._display.show(f"{name} {json.dumps(arguments)}", "-> ", "good")
        progress: list[str] = []

        def note(fields: dict[str, Raw]) -> None:
            done, total = (number_or_none(fields.get(name)) or 1.0 for name in ("progress", "total"))
            progress.append(f"{100 * done / total:.0f} %")

        params = {"name": name, "arguments": arguments}
        answer = await self._request("tools/call", params, note if reports else None)
        if progress:
            self._display.show(f"progress: {', '.join(progress)}", indent=6)
        failed = answer.get("isError", False)
        text = _text(answer)
        self._display.show(text, "<- ", "doubtful" if failed else "", most=None if failed else _SHOWN_LINES)
        _expect(failed is fails, f"{name} {'failed' if failed else 'succeeded'} unexpectedly")
        _expect(bool(progress) is reports, "no progress was reported")
        _expect(expected in text, f"the answer does not contain {expected}")

    async def _request(self, method: str, params: JsonObject, on_progress: OnProgress | None = None) -> JsonObject:
        return msgspec.json.decode(await self._peer.request(method, params, on_progress, stamp=_STAMP))

    def _show_processes(self, expected: int) -> None:
        if (servers := running_servers()) is None:
            return
        names = f" ({', '.join(sorted(servers.values()))})" if servers else ""
        self._display.aside(f"Server processes running: {len(servers)}{names}")
        _expect(len(servers) == expected, f"{expected} server processes were expected")


def _expect(condition: bool, problem: str) -> None:  # noqa: FBT001 -- reads like an assertion
    if not condition:
        raise TourError(problem)


def _text(answer: JsonObject) -> str:
    return "\n".join(block.get("text", "") for block in answer["content"])


def _tokens(value: object) -> int:
    """Estimate the tokens of `value` as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) // _BYTES_PER_TOKEN


# -- processes


def running_servers() -> dict[int, str] | None:
    """The demo servers among our descendants, by PID; None on systems without /proc."""
    if not (_PROC / "self" / "stat").is_file():
        return None
    parents: dict[int, int] = {}
    for entry in _PROC.glob("[0-9]*"):
        with suppress(OSError):  # the program's name is in brackets and may contain anything
            parents[int(entry.name)] = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    ours = [os.getpid()]
    for ancestor in ours:  # the list grows during the loop: each process adds its children
        ours += [pid for pid, parent in parents.items() if parent == ancestor]
    return {pid: name for pid in ours if (name := server_name(pid))}


def server_name(pid: int) -> str | None:
    """The name of the demo server in a process, else None."""
    with suppress(OSError):
        words = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        return next((word.removeprefix(f"{PACKAGE}.") for word in words if word.startswith(f"{PACKAGE}.")), None)
    return None


def configuration() -> dict[str, Any]:
    """The configuration of the demo, with this interpreter as the command."""
    command = {"command": sys.executable, "env": _environment("PYTHONPATH")}
    toolboxes: JsonObject = {}
    for name, (description, servers) in _TOOLBOXES.items():
        entries = {server: {**command, "args": ["-m", f"{PACKAGE}.{server}"]} for server in servers}
        toolboxes[name] = {"description": description, "mcpServers": entries}
    return {"toolboxes": toolboxes}


def _environment(*names: str) -> dict[str, str]:
    return {name: value for name in names if (value := os.environ.get(name))}


@asynccontextmanager
async def _workbench(folder: Path) -> AsyncGenerator[Peer]:
    """Run a workbench that stores everything in `folder`, with a connection to it."""
    file = folder / "workbench-config.json"
    file.write_text(json.dumps(configuration(), indent=2), encoding="utf-8")
    stored = dict.fromkeys(("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"), str(folder))
    catalog = {"WORKBENCH_CATALOG": str(folder / "catalog.sqlite"), "WORKBENCH_RECORD": "none"}
    command = (sys.executable, "-m", "mcp_workbench", "serve", "--config", str(file))
    env = {**_environment(*_INHERITED), **stored, **catalog}
    (stdin, sink), (source, stdout) = os.pipe(), os.pipe()
    with (folder / _LOG).open("ab") as log:
        process = await asyncio.create_subprocess_exec(*command, stdin=stdin, stdout=stdout, stderr=log, env=env)
    os.close(stdin)
    os.close(stdout)
    connection = PipeConnection()
    try:
        await connection.open(source, sink)
        yield connection.peer
    finally:
        await connection.close()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


# -- the whole demo


async def run(out: TextIO | None = None) -> int:
    """Show the tour on `out`, by default stdout. Returns 0 on success, else 1."""
    display = Display(out or sys.stdout)
    display.show("MCP Workbench: one MCP server in front of many", tone="strong", indent=0)
    with tempfile.TemporaryDirectory(prefix="mcp-workbench-demo-") as name:
        folder = Path(name)
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                await _show(display, folder)
        except TimeoutError:
            return _failed(display, folder, f"The demo did not end within {_DEADLINE_SECONDS} seconds.")
        except Exception as error:  # noqa: BLE001 -- any failure becomes text and an exit status
            reason = str(error) if isinstance(error, TourError) else f"{type(error).__name__}: {error}"
            return _failed(display, folder, f"The demo failed: {reason}")
    return 0


async def _show(display: Display, folder: Path) -> None:
    started = time.perf_counter()
    async with _workbench(folder) as peer:
        await Tour(peer, display).take()
        pids = running_servers() or {}
    left = [name for pid in pids if (name := server_name(pid))]
    _expect(not left, f"still running after the agent left: {', '.join(left)}")
    display.aside("The agent has left, and no server process is running any more." if pids else "The agent has left.")
    async with _workbench(folder) as peer:
        await Tour(peer, display).come_back()
    display.aside(f"All of this took {time.perf_counter() - started:.1f} seconds.")
    show_way_on(display)


def _failed(display: Display, folder: Path, reason: str) -> int:
    display.show(f"\n{reason}", tone="bad", indent=0)
    log = (folder / _LOG).read_text(encoding="utf-8", errors="replace") if (folder / _LOG).exists() else ""
    if lines := log.splitlines()[-_LOG_LINES:]:
        display.show("The workbench's log ends with:", indent=0)
        display.show("\n".join(lines), indent=2)
    return 1


def show_way_on(display: Display) -> None:
    """Show what to do next; after `make demo` the program is not on the shell's PATH."""
    display.show("\nTo go on:", indent=0)
    display.show(_WAY_ON.strip())
    if shutil.which("mcp-workbench") is None:
        display.show(f"Your shell does not find mcp-workbench. Use its path: {Path(sys.argv[0])}")
