"""What an open or a search gives: tools with where they are from, and what is missing and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import render
from mcp_workbench.catalog.snapshot import Withheld
from mcp_workbench.errors import ConnectFailed
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier, ToolInfo

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
