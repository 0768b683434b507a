"""A batch of events to write into the record, and its rows, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from mcp_workbench.identity import ToolIdentifier

Moment: TypeAlias = Annotated[float, Meta(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, within the years of Python's dates. We write no other values."""


class Run(NamedTuple):
    """A process that serves."""

    pid: int
    birth: str
    version: str
    config: str
    transport: str
    began: Moment


Call: TypeAlias = tuple[ToolIdentifier, float, float, str, str | None, str | None, str]
"""An ended call, as a tuple because that is cheap: tool, begin (seconds since the epoch of its batch), duration in
milliseconds, outcome, arguments, result, error text. The outcome is empty for a success, `tool_error` if the tool
reported a failure, else the code of our error."""


class Flight(NamedTuple):
    """A call under way."""

    began: Moment
    toolbox: str
    server: str
    tool: str


class Line(NamedTuple):
    """A log line."""

    at: Moment
    level: str
    toolbox: str
    server: str
    """The server that the line is about. `toolbox` and `server` are empty if there is none."""
    text: str


class Opening(NamedTuple):
    """An opening of a toolbox by an agent, with sizes in bytes."""

    toolbox: str
    flat: int
    """The definitions of all its tools, or 0 if the agent had opened the toolbox before."""
    answered: int


class ServerState(NamedTuple):
    """The state of a server, over all clients."""

    toolbox: str
    server: str
    state: str
    since: Moment
    connections: int
    tools: int | None
    code: str = ""
    """The code of its last error."""
    error: str = ""
    error_at: Moment | None = None


class ClientState(NamedTuple):
    """A current or former client program."""

    name: str
    version: str
    protocol: str
    """The MCP version that it speaks."""
    sessions: int
    """Open sessions; 0 if it is gone."""


class Batch(NamedTuple):
    """All events since the last batch."""

    at: float
    calls: Sequence[Call] = ()
    counts: Mapping[ToolIdentifier, Sequence[int]] = MappingProxyType({})
    """Further calls that get no row of their own: how many succeeded and how many failed."""
    lines: Sequence[Line] = ()
    openings: Sequence[Opening] = ()
    servers: Sequence[ServerState] = ()
    """The changed ones."""
    flights: Sequence[Flight] = ()
    """All calls under way at this moment."""
    lost: int = 0
    """Events that are in no batch, for lack of room."""
    is_last: bool = False
    epoch: float = 0.0
    """The zero of the calls' clock, in seconds since 1970."""
    gone: Sequence[tuple[str, str]] = ()
    """Toolboxes and names of servers that are no longer configured."""
    clients: Sequence[ClientState] = ()
    """The changed ones."""
    problem: str = ""
    """Why the changed configuration file is not used; empty if it is."""
    memory: tuple[str, int] = ("calm", 0)
    """The level of memory pressure, and the bytes that wait for clients and servers."""
