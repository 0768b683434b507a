"""The known tools of one client, as immutable listings: filters, the catalog, and the results of opens and searches.

A new listing replaces the old one as a whole, so every reader sees a consistent list. Routing looks up toolbox, server
and tool by field. This module knows nothing about connections.

Filters (`toolFilters`) are names, globs and annotations (`@readOnly`). A leading `!` excludes, and exclusions take
precedence. With exclusions only, all other tools are offered. Missing annotations have the protocol's defaults: a tool
is destructive and open-world unless it says otherwise.
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
        """False if every tool is offered."""
        return bool(self._patterns)

    def allows(self, tool: Definition) -> bool:
        if any(_matches(pattern[1:], tool) for pattern in self._exclude):
            return False
        return not self._include or any(_matches(pattern, tool) for pattern in self._include)

    def unmatched(self, tools: Iterable[Definition]) -> list[str]:
        """The filters that match no tool. They are probably misspelt."""
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
    """How many tools of a server are offered and withheld, after its filters."""

    offered: int
    withheld: int = 0

    def __str__(self) -> str:
        withheld = f" ({self.withheld:,} withheld)" if self.withheld else ""
        return f"{count(self.offered, 'tool')}{withheld}"


class ServerTools(msgspec.Struct, frozen=True, kw_only=True):
    """One listing of one server."""

    tools: Mapping[str, Definition]
    """Offered tools by name, in the server's order."""
    withheld: tuple[Withheld, ...] = ()
    unmatched_filters: tuple[str, ...] = ()

    @property
    def count(self) -> ToolCount:
        """The number of tools, as commands show it."""
        return ToolCount(len(self.tools), len(self.withheld))


def take_listing(
    definitions: Sequence[Raw], patterns: Iterable[str], limits: Limits, *, handshake: bool = False
) -> ServerTools:
    """Filter a server's definitions, then withhold those that can't be offered.

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
    """Read a definition, and the reason why it can't be offered, if any. Unreadable ones keep their name."""
    if (problem := oversize(raw, limits)) is not None:
        return Definition(name_of(raw), EMPTY_OBJECT), problem
    try:
        return Definition.read(raw, handshake=handshake), None
    except Unrepairable as refused:
        return Definition(own_name(raw), raw), str(refused)


def _duplicates(tools: Iterable[Definition]) -> dict[str, None]:
    """Names that occur more than once, in order. Offering one of the tools could pass it off as the other."""
    names = [tool.name for tool in tools if tool.name]
    return {} if len(set(names)) == len(names) else {name: None for name, times in Counter(names).items() if times > 1}


class ServerSnapshot(Generic[T]):
    """The current list of one server for one client. Listing, searching and routing all read it here."""

    __slots__ = ("is_lost", "value")

    def __init__(self) -> None:
        self.value: T | None = None
        """None if the server has not listed yet."""
        self.is_lost = False
        """Whether the server was unreachable at the last attempt. Its list stays known, for routing."""

    def put(self, value: T) -> bool:
        """Replace the list. Returns whether that changed anything."""
        is_new = self.value != value
        if is_new:  # keep an equal list, so that what was derived from it stays valid
            self.value = value
        was_lost, self.is_lost = self.is_lost, False
        return is_new or was_lost

    def lose(self) -> bool:
        """Mark the server as unreachable. Returns whether its list is missing from now on."""
        is_new = not self.is_lost and self.value is not None
        self.is_lost = True
        return is_new


class Catalog:
    """The known tools of every configured server."""

    def __init__(self, toolboxes: Mapping[str, Iterable[str]]) -> None:
        self._lists: dict[str, dict[str, ServerSnapshot[ServerTools]]] = {}
        self.follow(toolboxes, ())

    def follow(self, toolboxes: Mapping[str, Iterable[str]], without: Iterable[ServerIdentifier]) -> None:
        """Change the set of servers. The lists of remaining servers stay known, except for those in `without`."""
        before = self._lists
        for one in without:
            before.get(one.toolbox, {}).pop(one.server, None)
        self._lists = {
            toolbox: {server: before.get(toolbox, {}).get(server) or ServerSnapshot() for server in servers}
            for toolbox, servers in toolboxes.items()
        }

    def snapshot(self, toolbox: str, server: str) -> ServerSnapshot[ServerTools]:
        """The snapshot of a configured server."""
        return self._lists[toolbox][server]

    def present(self) -> Iterator[tuple[ToolIdentifier, Definition]]:
        """All tools of reachable servers, in order."""
        for server, listing in self.listings().items():
            for name, definition in listing.tools.items():
                yield ToolIdentifier(server.toolbox, server.server, name), definition

    def listings(self) -> dict[ServerIdentifier, ServerTools]:
        """The listings of all reachable servers that have listed."""
        return {
            ServerIdentifier(toolbox, server): snapshot.value
            for toolbox, servers in self._lists.items()
            for server, snapshot in servers.items()
            if snapshot.value is not None and not snapshot.is_lost
        }

    def listing(self, toolbox: str, server: str) -> ServerTools | None:
        """A server's listing; None if it has not listed yet or is no longer configured."""
        snapshot = self._lists.get(toolbox, {}).get(server)
        return snapshot.value if snapshot is not None else None

    def tool(self, identifier: ToolIdentifier) -> Definition | None:
        """Look up a tool by the fields of its identifier; None if it is unknown or not offered."""
        try:
            listing = self._lists[identifier.toolbox][identifier.server].value
        except KeyError:  # the configuration changed meanwhile
            return None
        return listing.tools.get(identifier.tool) if listing is not None else None

    def known(self) -> Iterator[ToolIdentifier]:
        """The identifiers of all known tools, in order."""
        for toolbox, servers in self._lists.items():
            for server, snapshot in servers.items():
                for name in snapshot.value.tools if snapshot.value is not None else ():
                    yield ToolIdentifier(toolbox, server, name)


Found: TypeAlias = tuple[ToolIdentifier, Definition]


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """The result of opening a toolbox: the tools, and what is missing and why."""

    toolbox: str
    description: str
    found: tuple[Found, ...]
    live: tuple[str, ...] = ()
    """Running servers whose tools are included."""
    stored: tuple[str, ...] = ()
    """Servers that are not running and whose tools come from the cache."""
    failed: tuple[ConnectFailed, ...] = ()
    withheld: tuple[tuple[str, Withheld], ...] = ()
    """Pairs of server name and withheld tool."""
    instructions: Mapping[str, str] = {}
    """Instructions by server name, of the servers that have some."""

    @property
    def servers_connected(self) -> int:
        """The number of servers whose tools are included."""
        return len(self.live) + len(self.stored)

    @property
    def entries(self) -> tuple[Raw, ...]:
        """The tools as raw JSON: full definitions with toolbox and server."""
        return tuple(render.entry(*one) for one in self.found)

    @property
    def tools(self) -> list[ToolInfo]:
        """The entries as Python objects."""
        return [cast("ToolInfo", msgspec.json.decode(entry)) for entry in self.entries]


class Matches(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a search, best first."""

    found: tuple[Found, ...]
    also_in: Mapping[ToolIdentifier, tuple[ServerIdentifier, ...]] = {}
    """Other servers with the same definition as a match."""
    is_weak: bool = False
    """Whether nothing matches well; then these are only the closest tools."""
    never_listed: tuple[ServerIdentifier, ...] = ()
    """Servers whose tools are not known yet."""
