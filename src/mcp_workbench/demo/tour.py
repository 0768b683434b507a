"""The steps of the demo, each a call that an agent could make, with what came back.

Every step checks that the workbench did what its text says, and raises `TourError` if not, so the
demo cannot tell a story that did not happen.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mcp_workbench.demo.processes import running_servers
from mcp_workbench.identity import ToolIdentifier, historical_names
from mcp_workbench.text.sanitize import count

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

    from mcp_workbench.demo.display import Display

# No tokenizer is asked: about four bytes to a token is close enough to compare.
_BYTES_PER_TOKEN = 4

_ADD_NOTE = ToolIdentifier("writing", "notes", "add_note")
_SEARCH_NOTES = ToolIdentifier("writing", "notes", "search")
_SEARCH_TEXT = ToolIdentifier("writing", "text", "search")
_MISSPELT = ToolIdentifier("writing", "notes", "serch")
_DAYS_BETWEEN = ToolIdentifier("planning", "calendar", "days_between")
_COUNT_PRIMES = ToolIdentifier("data", "calculator", "count_primes")
_JOINED = historical_names(_SEARCH_NOTES)[-1]


class TourError(Exception):
    """A step did not do what it shows."""


def tokens(value: object) -> int:
    """About how many tokens `value` costs an agent that reads it as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(text.encode()) // _BYTES_PER_TOKEN


class Tour:
    """One walk through the workbench behind `client`."""

    def __init__(self, client: Client, display: Display) -> None:
        self._client = client
        self._display = display
        self._start_tokens = 0
        self._opened_tokens = 0

    async def take(self) -> None:
        """All steps, in order."""
        await self._connect()
        await self._open()
        await self._call()
        await self._call_the_same_name()
        await self._call_without_opening()
        await self._follow_progress()
        await self._misspell()
        await self._use_an_old_name()
        await self._compare()
        await self._search()

    async def come_back(self) -> None:
        """What a second session sees."""
        self._display.step("The agent comes back tomorrow. Toolboxes open from memory; no server starts for it.")
        self._display.sent("open_toolbox", {"toolbox": "writing"})
        answer = await self._opened("writing")
        _expect(answer.get("stored") is True, "the toolbox was not opened from memory")
        tools, servers = count(len(answer["tools"]), "tool"), count(answer["servers_connected"], "server")
        self._display.entry(f"{tools} of {servers}, as they were listed")
        self._show_processes(0)

    async def _connect(self) -> None:
        self._display.step("An agent connects. This is all that it sees:")
        listed = [_wire(tool) for tool in (await self._client.list_tools()).tools]
        _expect([tool["name"] for tool in listed] == ["open_toolbox", "use_tool"], "the list is not the two tools")
        for tool in listed:
            self._display.entry(f"{tool['name']}: {_first_sentence(tool['description'])}")
        instructions = self._client.instructions or ""
        self._display.say("and these instructions:")
        self._display.quote(instructions)
        self._start_tokens = tokens(listed) + tokens(instructions)
        self._display.aside(f"About {self._start_tokens} tokens in all (estimated: bytes / {_BYTES_PER_TOKEN}).")
        self._show_processes(0)

    async def _open(self) -> None:
        self._display.step("It opens the toolbox that it needs. Only now do that toolbox's servers start.")
        self._display.sent("open_toolbox", {"toolbox": "writing"})
        answer = await self._opened("writing")
        self._opened_tokens = tokens(answer)
        _expect(answer["servers_connected"] == len(_servers(answer)), "a server did not answer")
        for server, names in _servers(answer).items():
            self._display.entry(f"{server} answered with {count(len(names), 'tool')}: {', '.join(names)}")
        self._display.aside(f"Each comes with its full definition: about {self._opened_tokens} tokens.")
        self._show_processes(2)

    async def _call(self) -> None:
        self._display.step("It calls tools. A tool is named by three fields: toolbox, server and tool.")
        await self._use(_ADD_NOTE, {"title": "Launch", "text": "Ship the release on Friday", "tags": ["work"]})
        answer = await self._use(_SEARCH_NOTES, {"query": "friday"})
        _expect("Ship the release" in _text(answer), "the note was not found again")
        self._display.aside("The second call found what the first one kept: both reached the same server process.")

    async def _call_the_same_name(self) -> None:
        self._display.step("Another server has a tool with the same name. Nothing collides, nothing is renamed.")
        answer = await self._use(_SEARCH_TEXT, {"text": "Monday: plan\nFriday: ship\n", "query": "friday"})
        _expect('"line": 2' in _text(answer), "the text server did not answer")
        self._show_processes(2)

    async def _call_without_opening(self) -> None:
        self._display.step("A call may come without opening: the one server that it needs starts by itself.")
        answer = await self._use(_DAYS_BETWEEN, {"start": "2026-07-28", "end": "2026-12-24"})
        _expect('"days": 149' in _text(answer), "the calendar did not answer")
        self._display.aside("It can speak MCP 2026-07-28, the other two only older versions; the agent need not know.")
        self._show_processes(3)

    async def _follow_progress(self) -> None:
        self._display.step("A longer call reports its progress through the workbench.")
        reports: list[str] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001 -- the client's signature
            reports.append(f"{100 * progress / (total or progress):.0f} %")

        arguments = {"tool": _COUNT_PRIMES.params(), "arguments": {"limit": 2_000_000}}
        self._display.sent("use_tool", arguments)
        answer = await self._client.call_tool("use_tool", arguments, progress_callback=note)
        _expect(not answer.is_error and bool(reports), f"no progress or no answer: {_text(answer)}")
        self._display.say(f"   progress: {', '.join(reports)}")
        self._display.answered(_text(answer))
        self._show_processes(4)

    async def _misspell(self) -> None:
        self._display.step("Mistakes are answered with help that a model can act on.")
        answer = await self._use(_MISSPELT, {"query": "friday"}, fails=True)
        _expect("Did you mean 'search'?" in _text(answer), "no better name was offered")

    async def _use_an_old_name(self) -> None:
        self._display.step("A joined name, as older versions had them, is answered with the call to send instead.")
        arguments = {"query": "friday"}
        self._display.sent(_JOINED, arguments)
        answer = await self._client.call_tool(_JOINED, arguments)
        self._display.refused(_text(answer))
        _expect(answer.is_error and '"notes"' in _text(answer), "the structured call was not offered")

    async def _compare(self) -> None:
        self._display.step("What the agent did not have to read (to compare, the demo now opens the rest too).")
        answers = [await self._opened(toolbox) for toolbox in ("writing", "data", "planning")]
        flat = [_as_its_server_sent_it(tool) for answer in answers for tool in answer["tools"]]
        read = self._start_tokens + self._opened_tokens
        self._display.entry(
            f"{tokens(flat):5} tokens: all {len(flat)} tools of the five servers, had each been added alone"
        )
        self._display.entry(
            f"{self._start_tokens:5} tokens: the start with the workbench, however many tools there are"
        )
        self._display.entry(f"{read:5} tokens: the same with the toolbox that was opened")
        self._display.entry(
            f"{tokens(flat) - read:5} tokens not read, and more with every tool in a toolbox that stays closed"
        )
        self._display.aside(f"All are estimates (bytes / {_BYTES_PER_TOKEN}), for five small servers.")
        self._show_processes(5)

    async def _search(self) -> None:
        self._display.step("It need not know where a tool is: it can search every toolbox.")
        arguments = {"toolbox": "*", "query": "how many days until a date"}
        self._display.sent("open_toolbox", arguments)
        answer = await self._client.call_tool("open_toolbox", arguments)
        _expect(not answer.is_error, _text(answer))
        found = [ToolIdentifier.of(tool) for tool in json.loads(_text(answer))["tools"]]
        _expect(found[:1] == [_DAYS_BETWEEN], "the best match is another tool")
        self._display.entry(f"best of {len(found)}: {json.dumps(found[0].params())}")

    async def _use(self, tool: ToolIdentifier, arguments: dict[str, Any], *, fails: bool = False) -> CallToolResult:
        params = {"tool": tool.params(), "arguments": arguments}
        self._display.sent("use_tool", params)
        answer = await self._client.call_tool("use_tool", params)
        show = self._display.refused if answer.is_error else self._display.answered
        show(_text(answer))
        _expect(answer.is_error is fails, f"use_tool {'succeeded' if fails else 'failed'} unexpectedly")
        return answer

    async def _opened(self, toolbox: str) -> dict[str, Any]:
        answer = await self._client.call_tool("open_toolbox", {"toolbox": toolbox})
        _expect(not answer.is_error, _text(answer))
        return json.loads(_text(answer))

    def _show_processes(self, expected: int) -> None:
        names = running_servers()
        if names is None:
            return
        which = f" ({', '.join(names)})" if names else ""
        self._display.aside(f"Server processes running: {len(names)}{which}")
        _expect(len(names) == expected, f"{expected} server processes were expected")


def _expect(condition: bool, problem: str) -> None:  # noqa: FBT001 -- reads like an assertion
    if not condition:
        raise TourError(problem)


def _wire(tool: Any) -> dict[str, Any]:
    return tool.model_dump(mode="json", by_alias=True, exclude_none=True)


def _text(answer: CallToolResult) -> str:
    return "\n".join(str(getattr(block, "text", "")) for block in answer.content)


def _first_sentence(text: str) -> str:
    return text.partition("\n")[0].partition(". ")[0].rstrip(".") + "."


def _servers(answer: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for tool in answer["tools"]:
        found.setdefault(tool["source_server"], []).append(tool["name"])
    return found


def _as_its_server_sent_it(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if key not in ("toolbox_name", "source_server")}
