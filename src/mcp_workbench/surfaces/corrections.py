"""Corrects mistaken calls: finds the call that was meant and renders it ready to send, `Send: use_tool {…}`.

Names are compared with the configured names and the known tools, in any notation: `dev/fs/read`, `fs.read`,
`mcp__fs__read`. No name is split. Case, underscores and hyphens make no difference unless several tools differ in
nothing else. A correction must contain everything that the caller wrote. If several calls match, all are shown (at
most five). No server is started, and tools that a filter excludes are never shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.search import QUERY_LENGTH
from mcp_workbench.catalog.snapshot import Catalog
from mcp_workbench.config.model import Config
from mcp_workbench.identity import EVERY_TOOLBOX, ToolIdentifier, tools_once_named
from mcp_workbench.surfaces import call_intent
from mcp_workbench.surfaces.call_intent import LONGEST_NAME, OpenIntent, UseIntent, fold, is_same
from mcp_workbench.surfaces.descriptions import DETAILS, OPEN_TOOLBOX, USE_TOOL
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import JOINED_MATCHES_SHOWN, known_names, nearest, nearest_tools
from mcp_workbench.wire import jsonrpc

_SEPARATORS = ("/", ".", ":", "::", "__", "_", "-", " ")
HOST_PREFIXES = ("mcp", "mcpworkbench", "workbench", "functions")
"""Prefixes that hosts and models put before names of tools, such as `mcp__workbench__`, folded."""
_ENDING = 3
_COMPARED = 200
"""Tools with one name whose spelling is compared. Not even these can all be shown."""


def matching_tools(intent: UseIntent, known: Iterable[ToolIdentifier]) -> list[ToolIdentifier]:
    """The tools that a call can mean: those with its name whose toolbox and server agree best with the call."""
    found = _of_name(intent.tool, known)
    if intent.toolbox or intent.server:
        found = _best(found, lambda tool: _agreement(intent, tool))
    return _best(found[:_COMPARED], lambda tool: _exactness(intent, tool))


def _of_name(name: str, known: Iterable[ToolIdentifier]) -> list[ToolIdentifier]:
    folded = fold(name)
    return [tool for tool in known if tool.tool == name or _is_form(name, folded, tool)]


def _is_form(name: str, folded: str, tool: ToolIdentifier) -> bool:
    """Whether a name is the tool's own name, alone or after the names of its server and toolbox."""
    end = tool.tool[-_ENDING:]
    if end.isalnum() and not folded.endswith(end.casefold()):
        return False  # nearly always; folding thousands of names is slow
    own = fold(tool.tool)
    if not own:  # it has no letters, or is too long
        return name.endswith(tool.tool) and name in _joined_forms(tool)
    return folded.endswith(own) and folded in {prefix + own for prefix in _prefixes(tool.toolbox, tool.server)}


@lru_cache(maxsize=4096)
def _prefixes(toolbox: str, server: str) -> frozenset[str]:
    places = ("", fold(server), fold(toolbox), fold(toolbox) + fold(server))
    return frozenset(host + place for host in ("", *HOST_PREFIXES) for place in places)


def _agreement(intent: UseIntent, tool: ToolIdentifier) -> tuple[int, int]:
    """How many of a call's toolbox and server agree with the tool's: in any order, and in the right order."""
    exact, folded = (tool.toolbox, tool.server), _folded_locations(tool.toolbox, tool.server)
    either = sum(one in exact or (fold(one) or None) in folded for one in (intent.toolbox, intent.server) if one)
    return either, is_same(intent.toolbox, tool.toolbox) + is_same(intent.server, tool.server)


@lru_cache(maxsize=4096)
def _folded_locations(toolbox: str, server: str) -> frozenset[str]:
    return frozenset((fold(toolbox), fold(server), fold(toolbox + server)))


def _exactness(intent: UseIntent, tool: ToolIdentifier) -> tuple[int, int, int]:
    """How exactly the spelling agrees: first of the tool's own or joined name, then of its toolbox and server."""
    is_exact = intent.tool == tool.tool or intent.tool in _joined_forms(tool)
    places = (intent.toolbox == tool.toolbox) + (intent.server == tool.server)
    return is_exact, intent.tool.endswith(tool.tool), places


def _joined_forms(tool: ToolIdentifier) -> set[str]:
    toolbox, server, name = tool.parts()
    plain = {
        separator.join(parts)
        for separator in _SEPARATORS
        for parts in ((toolbox, server, name), (server, name), (toolbox, name))
    }
    return plain | {f"mcp__{form}" for form in plain} | {f"{toolbox}__{server}_{name}"}


def _best(found: list[ToolIdentifier], score: Callable[[ToolIdentifier], tuple[int, ...]]) -> list[ToolIdentifier]:
    scores = [score(tool) for tool in found]
    best = max(scores, default=())
    return [tool for tool, one in zip(found, scores, strict=True) if one == best]


ECHOED_ARGUMENTS_BYTES = 2048
"""Arguments of a mistaken call up to this size are repeated in the correction. Longer ones are in the model's context
already."""


def _with_prefixes(*names: str) -> frozenset[str]:
    """Folded names of tools, with and without the prefixes of hosts."""
    return frozenset(prefix + fold(name) for name in names for prefix in ("", *HOST_PREFIXES))


_OPEN_ALIASES = _with_prefixes(
    *("open_toolbox", "open_toolboxes", "open_box", "load_toolbox", "get_toolbox", "describe_toolbox"),
    *("list_toolboxes", "get_toolboxes", "show_toolboxes", "list_servers", "list_tools", "get_tools", "show_tools"),
    *("search_tools", "search_tool", "find_tools", "find_tool", "tool_search", "discover_tools", "query_tools"),
    *("describe_tool", "get_tool", "get_tool_schema", "tool_info", "tools/list", "list_available_tools"),
)
_USE_ALIASES = _with_prefixes(
    *("use_tool", "use_tools", "call_tool", "run_tool", "execute_tool", "invoke_tool", "exec_tool", "tool_call"),
    *("tools/call", "call_mcp_tool", "use_mcp_tool", "mcp_call", "tool_use"),
)
_WRAPPED_CALLS = 2
"""Nested calls that are unwrapped."""
_CORRECTED_TOOLS = 10
"""With more names in `tools` none is corrected: each is compared with every known tool."""
_METATOOLS = {called: name for name in (USE_TOOL, OPEN_TOOLBOX) for called in _with_prefixes(name)}
_SEND = "Send: "
_EVERYWHERE = frozenset(("all", "any", "every", "everything", "alltoolboxes"))


class Corrections:
    """Finds the calls that one client can have meant."""

    def __init__(self, config: Config, catalog: Catalog) -> None:
        self._toolboxes = config.toolboxes
        self._catalog = catalog
        self._known = list(catalog.known())

    def of_call(self, name: str, arguments: Raw) -> list[str]:
        """Lines of help after a `tools/call` of this name was refused."""
        if name == USE_TOOL:
            return self._of_use(arguments)
        if name == OPEN_TOOLBOX:
            return self._of_open(arguments)
        if lines := self.of_native(name, arguments):
            return lines
        if fold(name) in _USE_ALIASES:
            return self._of_use(arguments) or [self._available()]
        if fold(name) in _OPEN_ALIASES:
            return self._of_open(arguments) or [self._available()]
        return self._of_location(name, arguments) or [*self._nearest(name), self._available()]

    def of_native(self, name: str, arguments: Raw) -> list[str]:
        """Corrections for a tool that was called by its own name."""
        return self._calls(UseIntent(tool=name, arguments=call_intent.tool_arguments(arguments)))

    def tools_of(self, name: str) -> list[ToolIdentifier]:
        """The known tools that a name can mean."""
        return matching_tools(UseIntent(tool=name), self._known)

    def is_old_name(self, name: str, arguments: Raw) -> bool:
        """Whether the name, or the one in the arguments of `use_tool`, is an old-format name of a known tool."""
        named = call_intent.read_use(arguments).tool if name == USE_TOOL else name
        return bool(tools_once_named(named, self._known))

    def _of_use(self, arguments: Raw, levels: int = _WRAPPED_CALLS) -> list[str]:
        if lines := self._of_wrapped(USE_TOOL, arguments, levels):
            return lines
        intent = call_intent.read_use(arguments)
        if not intent.tool:
            return self._without_tool(intent)
        is_located = intent.toolbox and intent.server
        return self._calls(intent) or ([] if is_located else [*self._nearest(intent.tool), self._available()])

    def _of_open(self, arguments: Raw, levels: int = _WRAPPED_CALLS) -> list[str]:
        if lines := self._of_wrapped(OPEN_TOOLBOX, arguments, levels):
            return lines
        if call_intent.holds_call(arguments) and (lines := self._calls(call_intent.read_use(arguments))):
            return lines
        intent = call_intent.read_open(arguments)
        is_unsaid = intent is not None and intent.toolboxes == (EVERY_TOOLBOX,) and not intent.query
        return _send_lines(OPEN_TOOLBOX, self._opens(intent)) or ([self._available()] if is_unsaid else [])

    def _of_wrapped(self, metatool: str, arguments: Raw, levels: int) -> list[str]:
        """Help for a call inside another call, or one that passes a meta-tool to `use_tool`."""
        inner = call_intent.wrapped_call(arguments)
        if inner is None:
            intent = call_intent.read_use(arguments)
            is_tool = bool(matching_tools(intent, self._known))
            if not is_tool and fold(intent.tool) in _METATOOLS:
                metatool, inner = _METATOOLS[fold(intent.tool)], intent.arguments
        if inner is None or not levels:
            return []
        read = self._of_use if metatool == USE_TOOL else self._of_open
        lines = read(inner, levels - 1)
        return lines if any(line.startswith(_SEND) for line in lines) else []

    def _of_location(self, name: str, arguments: Raw) -> list[str]:
        """Help if a toolbox or server was called like a tool."""
        if not any(is_same(one, name) for place in self._servers() for one in place):
            return []
        intent = call_intent.read_use(arguments)
        if intent.tool and (lines := self._calls(intent._replace(server=intent.server or name))):
            return lines
        opened = call_intent.read_open(arguments) or OpenIntent()
        return _send_lines(OPEN_TOOLBOX, self._opens(opened._replace(toolboxes=(name,))))

    # -- calls of tools

    def _calls(self, intent: UseIntent) -> list[str]:
        tools = matching_tools(intent, self._known) or self._unlisted(intent)
        calls = [call for tool in tools if (call := self._call(tool, intent)) is not None]
        sends = _send_lines(USE_TOOL, calls)
        return [*_elsewhere(intent, tools), *sends] if sends else []

    def _unlisted(self, intent: UseIntent) -> list[ToolIdentifier]:
        """The named tool, if its server is configured but has not listed its tools yet: the tool may exist."""
        if len(intent.tool) > LONGEST_NAME:
            return []
        return [
            ToolIdentifier(toolbox, server, intent.tool)
            for toolbox, server in self._servers()
            if _are_same((toolbox, server), (intent.toolbox, intent.server))
            and self._catalog.listing(toolbox, server) is None
        ]

    def _call(self, tool: ToolIdentifier, intent: UseIntent) -> str | None:
        """The corrected call; None if it can't contain everything that the caller wrote."""
        if intent.arguments is None:
            return None
        arguments = intent.arguments
        if intent.spread:
            given = jsonrpc.members(arguments)
            if not intent.spread.keys() <= self._parameters(tool) or intent.spread.keys() & given.keys():
                return None
            arguments = Raw(jsonrpc.encode({**given, **intent.spread}))
        return _written_call(tool, arguments)

    def _parameters(self, tool: ToolIdentifier) -> set[str]:
        definition = self._catalog.tool(tool)
        schema = jsonrpc.members(definition.raw).get("inputSchema") if definition is not None else None
        return set(jsonrpc.members(jsonrpc.members(schema).get("properties")))

    def _without_tool(self, intent: UseIntent) -> list[str]:
        """Help if no tool is named: the tools of the named server, and how to list others."""
        named = [place for place in self._servers() if _are_same(place, (intent.toolbox, intent.server))]
        listings = [listing for place in named if (listing := self._catalog.listing(*place)) is not None]
        query = (jsonrpc.text_or_none(intent.spread.get("query")) or "")[:QUERY_LENGTH]
        opens = _send_lines(
            OPEN_TOOLBOX, self._opens(OpenIntent((intent.toolbox,) if intent.toolbox else (), intent.server, query))
        )
        return [*(known_names(listing.tools, "tools") for listing in listings[:1]), *(opens or [self._available()])]

    def _nearest(self, name: str) -> list[str]:
        """Where the tools with the most similar name are."""
        near = nearest_tools(name, dict.fromkeys(tool.tool for tool in self._known))[:1]
        places = [tool for tool in self._known if tool.tool in near][:JOINED_MATCHES_SHOWN]
        meant = " or ".join(f"'{escape(tool.tool)}' in {_location(tool)}" for tool in places)
        return [f"Did you mean {meant}?"] if meant else []

    # -- openings

    def _opens(self, intent: OpenIntent | None) -> list[str]:
        if intent is None or (intent.query and intent.tools) or not _can_look_up(intent.tools):
            return []
        detail = nearest(intent.detail, DETAILS) or ""
        limit = intent.limit if intent.query else 0
        given = (("query", intent.query), ("detail", detail), ("limit", limit))
        options = {name: value for name, value in given if value}
        if intent.query and self._is_everywhere(intent):
            return [_encoded({"toolbox": EVERY_TOOLBOX, **options})]
        return [
            _encoded({"toolbox": toolbox, **options, **({"tools": tools} if tools else {})})
            for toolbox, tools in self._openings(intent).items()
        ]

    def _is_everywhere(self, intent: OpenIntent) -> bool:
        names = intent.toolboxes or (intent.server,)
        return all(not name or name == EVERY_TOOLBOX or fold(name) in _EVERYWHERE for name in names)

    def _openings(self, intent: OpenIntent) -> dict[str, list[str]]:
        """The toolboxes that can be meant, each with the tools to name."""
        if intent.tools:
            return self._with_tools(intent)
        names = intent.toolboxes or ((intent.server,) if intent.server else ())
        if named := [toolbox for name in names for toolbox in self._toolboxes_named(name)]:
            return {toolbox: [] for toolbox in named}
        if not intent.query and (tools := [tool for name in intent.toolboxes for tool in self.tools_of(name)]):
            return {tool.toolbox: [tool.tool] for tool in tools}
        return {toolbox: [] for toolbox in self._toolboxes} if not names and len(self._toolboxes) == 1 else {}

    def _with_tools(self, intent: OpenIntent) -> dict[str, list[str]]:
        """The toolboxes that have all of the tools, with the exact names."""
        found: dict[str, dict[str, str]] = {}
        toolbox = next(iter(intent.toolboxes), "")
        for name in intent.tools:
            for tool in matching_tools(UseIntent(toolbox, intent.server, name), self._known):
                found.setdefault(tool.toolbox, {})[name] = tool.tool
        complete = {box: [*names.values()] for box, names in found.items() if len(names) == len(set(intent.tools))}
        unlisted = {
            box: [*intent.tools]
            for box in self._toolboxes_named(toolbox)
            if any(self._catalog.listing(box, server) is None for server in self._toolboxes[box].servers)
        }
        return complete or unlisted

    def _toolboxes_named(self, name: str) -> list[str]:
        """The toolboxes with this name; else those with a server of this name, alone or joined to the toolbox's."""
        if name in self._toolboxes:
            return [name]
        own = [toolbox for toolbox in self._toolboxes if is_same(toolbox, name)]
        holding = [box for box, server in self._servers() if is_same(server, name) or is_same(box + server, name)]
        return own or [*dict.fromkeys(holding)]

    def _servers(self) -> list[tuple[str, str]]:
        return [(toolbox, server) for toolbox, box in self._toolboxes.items() for server in box.servers]

    def _available(self) -> str:
        return known_names(self._toolboxes, "toolboxes")


def _written_call(tool: ToolIdentifier, arguments: Raw) -> str:
    """The arguments of `use_tool` as one line, with the caller's arguments unless they are long."""
    if memoryview(arguments).nbytes > ECHOED_ARGUMENTS_BYTES:
        return f'{{"tool":{_encoded(tool.params())},"arguments":<your arguments, unchanged>}}'
    return _encoded({"tool": tool.params(), "arguments": Raw(msgspec.json.format(bytes(arguments), indent=-1))})


def _send_lines(metatool: str, calls: Sequence[str]) -> list[str]:
    most = JOINED_MATCHES_SHOWN
    several = f"{len(calls)} calls match:" if len(calls) <= most else f"More than {most} calls match; the first {most}:"
    return [*([several] if calls[1:] else []), *(f"{_SEND}{metatool} {call}" for call in calls[:most])]


def _elsewhere(intent: UseIntent, tools: Sequence[ToolIdentifier]) -> list[str]:
    """Where the tool is, if the call named another toolbox or server."""
    if not (intent.toolbox and intent.server):
        return []
    other = [tool for tool in tools if not _are_same(tool.parts()[:2], (intent.toolbox, intent.server))]
    return [f"'{escape(tool.tool)}' is in {_location(tool)}." for tool in other[:JOINED_MATCHES_SHOWN]]


def _can_look_up(names: Sequence[str]) -> bool:
    return len(names) <= _CORRECTED_TOOLS and all(len(name) <= LONGEST_NAME for name in names)


def _location(tool: ToolIdentifier) -> str:
    return f"server '{escape(tool.server)}' (toolbox '{escape(tool.toolbox)}')"


def _are_same(names: Sequence[str], others: Sequence[str]) -> bool:
    return all(map(is_same, names, others))


def _encoded(value: object) -> str:
    """Compact JSON on one line, with invisible characters escaped."""
    text = jsonrpc.encode(value).decode()
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in text)
