"""What is known of the tools, as immutable values: one `ServerTools` per listing, never changed.

A new listing replaces the old one whole, so whoever holds one sees a consistent list. Routing
walks toolbox → server → tool by field. It knows nothing of connections.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition, Withheld, name_of, oversize, own_name
from mcp_workbench.catalog.official_models import Unrepairable
from mcp_workbench.catalog.rendering import render
from mcp_workbench.errors import ConnectFailed
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier, ToolInfo
from mcp_workbench.limits import Limits
from mcp_workbench.text.sanitize import count
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT


def _is_read_only(annotations: Mapping[str, Any]) -> bool:
    return annotations.get("readOnlyHint") is True


ANNOTATIONS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "@readOnly": _is_read_only,
    "@destructive": lambda hints: not _is_read_only(hints) and hints.get("destructiveHint") is not False,
    "@idempotent": lambda hints: _is_read_only(hints) or hints.get("idempotentHint") is True,
    "@openWorld": lambda hints: hints.get("openWorldHint") is not False,
}


class ToolFilter:
    """The filters of one server."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._include = tuple(pattern for pattern in self._patterns if not pattern.startswith("!"))
        self._exclude = tuple(pattern for pattern in self._patterns if pattern.startswith("!"))

    def __bool__(self) -> bool:
        """False where everything is offered."""
        return bool(self._patterns)

    def allows(self, tool: Definition) -> bool:
        if any(_matches(pattern[1:], tool) for pattern in self._exclude):
            return False
        return not self._include or any(_matches(pattern, tool) for pattern in self._include)

    def unmatched(self, tools: Iterable[Definition]) -> list[str]:
        """The filters that match none of the tools: probably misspelt."""
        listed = tuple(tools)
        return [
            pattern
            for pattern in self._patterns
            if not any(_matches(pattern.removeprefix("!"), tool) for tool in listed)
        ]


def _matches(pattern: str, tool: Definition) -> bool:
    if (holds := ANNOTATIONS.get(pattern)) is not None:
        return holds(tool.annotations())
    return tool.name == pattern or fnmatch.fnmatchcase(tool.name, pattern)


T = TypeVar("T")


class ToolCount(NamedTuple):
    """How many tools of a server are offered, after its filters, and how many are withheld."""

    offered: int
    withheld: int = 0

    def __str__(self) -> str:
        withheld = f" ({self.withheld:,} withheld)" if self.withheld else ""
        return f"{count(self.offered, 'tool')}{withheld}"


class ServerTools(msgspec.Struct, frozen=True, kw_only=True):
    """One listing of one server."""

    tools: Mapping[str, Definition]
    """Offered tools by their own name, in the server's order."""
    withheld: tuple[Withheld, ...] = ()
    unmatched_filters: tuple[str, ...] = ()

    @property
    def count(self) -> ToolCount:
        """The number of tools, for every command that tells one."""
        return ToolCount(len(self.tools), len(self.withheld))


def take_listing(
    definitions: Sequence[Raw], patterns: Iterable[str], limits: Limits, *, handshake: bool = False
) -> ServerTools:
    """Apply the filters to what a server listed, then withhold what can't be offered.

    With `handshake`, definitions that only modern clients accept are projected for handshake clients.
    """
    read = [_read(raw, limits, handshake=handshake) for raw in definitions]
    tool_filter = ToolFilter(patterns)
    allowed = [one for one in read if tool_filter.allows(one[0])] if tool_filter else read
    duplicates = _duplicates(tool for tool, _ in allowed)
    withheld = [Withheld(tool.name, problem) for tool, problem in allowed if problem and tool.name not in duplicates]
    withheld += [Withheld(name, "its server lists this name more than once") for name in duplicates]
    return ServerTools(
        tools={tool.name: tool for tool, problem in allowed if not problem and tool.name not in duplicates},
        withheld=tuple(withheld),
        unmatched_filters=tuple(tool_filter.unmatched(tool for tool, _ in read)),
    )


def _read(raw: Raw, limits: Limits, *, handshake: bool) -> tuple[Definition, str | None]:
    """A definition, and why it can't be offered; one that can't be read whole is known by its name."""
    if (problem := oversize(raw, limits)) is not None:
        return Definition(name_of(raw), EMPTY_OBJECT), problem
    try:
        return Definition.read(raw, handshake=handshake), None
    except Unrepairable as refused:
        return Definition(own_name(raw), raw), str(refused)


def _duplicates(tools: Iterable[Definition]) -> dict[str, None]:
    """Names that occur twice, in order. Keeping one would give it the other's reputation."""
    names = [tool.name for tool in tools if tool.name]
    return {} if len(set(names)) == len(names) else {name: None for name, times in Counter(names).items() if times > 1}


class ServerSnapshot(Generic[T]):
    """The one copy of a list: whoever lists, searches or routes reads it here. One server's, for one client."""

    __slots__ = ("is_lost", "value")

    def __init__(self) -> None:
        self.value: T | None = None
        """None: the server has not listed yet."""
        self.is_lost = False
        """Whether the server could not be reached when that was tried last. Its list stays known, for routing."""

    def put(self, value: T) -> bool:
        """Replace the list; whether that changed anything."""
        is_new = self.value != value
        if is_new:  # one that is the same stays the same object, so whoever derives something from it need not again
            self.value = value
        was_lost, self.is_lost = self.is_lost, False
        return is_new or was_lost

    def lose(self) -> bool:
        """The server can't be reached; whether that was not known, and something is missing now."""
        is_new = not self.is_lost and self.value is not None
        self.is_lost = True
        return is_new


class Catalog:
    """The tools of every configured server, as far as they are known."""

    def __init__(self, toolboxes: Mapping[str, Iterable[str]]) -> None:
        self._lists: dict[str, dict[str, ServerSnapshot[ServerTools]]] = {}
        self.follow(toolboxes, ())

    def follow(self, toolboxes: Mapping[str, Iterable[str]], without: Iterable[ServerIdentifier]) -> None:
        """Have these servers from now on; what they listed stays known, but for those of `without`."""
        before = self._lists
        for one in without:
            before.get(one.toolbox, {}).pop(one.server, None)
        self._lists = {
            toolbox: {server: before.get(toolbox, {}).get(server) or ServerSnapshot() for server in servers}
            for toolbox, servers in toolboxes.items()
        }

    def kept(self, toolbox: str, server: str) -> ServerSnapshot[ServerTools]:
        """The list of a configured server."""
        return self._lists[toolbox][server]

    def present(self) -> Iterator[tuple[ToolIdentifier, Definition]]:
        """Every tool whose server is not lost, in order."""
        for server, listing in self.listings().items():
            for name, definition in listing.tools.items():
                yield ToolIdentifier(server.toolbox, server.server, name), definition

    def listings(self) -> dict[ServerIdentifier, ServerTools]:
        """The listing of every server that has one and is not lost."""
        return {
            ServerIdentifier(toolbox, server): kept.value
            for toolbox, servers in self._lists.items()
            for server, kept in servers.items()
            if kept.value is not None and not kept.is_lost
        }

    def listing(self, toolbox: str, server: str) -> ServerTools | None:
        """None where the server has not listed yet, or is not there any more."""
        kept = self._lists.get(toolbox, {}).get(server)
        return kept.value if kept is not None else None

    def tool(self, identifier: ToolIdentifier) -> Definition | None:
        """The walk by field that routes a call; None where the tool is not known or not offered."""
        try:
            listing = self._lists[identifier.toolbox][identifier.server].value
        except KeyError:  # the configuration changed meanwhile
            return None
        return listing.tools.get(identifier.tool) if listing is not None else None

    def known(self) -> Iterator[ToolIdentifier]:
        """Every tool of every listing, in order."""
        for toolbox, servers in self._lists.items():
            for server, kept in servers.items():
                for name in kept.value.tools if kept.value is not None else ():
                    yield ToolIdentifier(toolbox, server, name)


Found: TypeAlias = tuple[ToolIdentifier, Definition]


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """An open toolbox: what is offered, and what is not."""

    toolbox: str
    description: str
    found: tuple[Found, ...]
    live: tuple[str, ...] = ()
    """Servers that run, and whose tools are there."""
    stored: tuple[str, ...] = ()
    """Servers that do not run, and whose tools are as they were listed before."""
    failed: tuple[ConnectFailed, ...] = ()
    withheld: tuple[tuple[str, Withheld], ...] = ()
    """Server name and tool."""
    instructions: Mapping[str, str] = {}
    """The servers' own instructions by server name; only of servers that have some."""

    @property
    def servers_connected(self) -> int:
        """Servers whose tools are there."""
        return len(self.live) + len(self.stored)

    @property
    def entries(self) -> tuple[Raw, ...]:
        """One raw JSON object per tool: its whole definition, and where it is from."""
        return tuple(render.entry(*one) for one in self.found)

    @property
    def tools(self) -> list[ToolInfo]:
        """The entries as Python objects."""
        return [cast("ToolInfo", msgspec.json.decode(entry)) for entry in self.entries]


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found, best first."""

    found: tuple[Found, ...]
    also_in: Mapping[ToolIdentifier, tuple[ServerIdentifier, ...]] = {}
    """Other servers that have the same definition as a tool that was found."""
    is_weak: bool = False
    """Whether nothing fits well; then these are only the nearest."""
    never_listed: tuple[ServerIdentifier, ...] = ()
    """Servers of which nothing is known yet."""
