"""What is handed to the file at once: what happened since the last time, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple, TypeAlias

from msgspec import Meta

from mcp_workbench.identity import ToolIdentifier

Moment: TypeAlias = Annotated[float, Meta(ge=0, lt=253_402_300_800)]
"""Seconds since 1970, in the years that a date can have; others were not written by us."""


class Run(NamedTuple):
    """One process that serves."""

    pid: int
    birth: str
    version: str
    config: str
    transport: str
    began: Moment


Call: TypeAlias = tuple[ToolIdentifier, float, float, str, str | None, str | None, str]
"""A call that is over, as cheap as it can be noted: of which tool, when it began (seconds since the epoch of its
batch), how many milliseconds it took, what came of it, its arguments and its result. What came of it is empty where it
succeeded, `tool_error` where the tool said that it failed, else the code of our error. Last comes the text of what went
wrong."""


class Flight(NamedTuple):
    """A call that is under way."""

    began: Moment
    toolbox: str
    server: str
    tool: str


class Line(NamedTuple):
    """A line of the log."""

    at: Moment
    level: str
    toolbox: str
    server: str
    """The server that the line is about; `toolbox` and `server` are empty if there is none."""
    text: str


class Opening(NamedTuple):
    """A toolbox that an agent opened, in bytes."""

    toolbox: str
    flat: int
    """The definitions of all its tools, if the agent had not seen them before; else 0."""
    answered: int


class ServerState(NamedTuple):
    """How a server is doing, for whichever clients."""

    toolbox: str
    server: str
    state: str
    since: Moment
    connections: int
    tools: int | None
    code: str = ""
    """Of its last error."""
    error: str = ""
    error_at: Moment | None = None


class ClientState(NamedTuple):
    """A program that is a client, or was."""

    name: str
    version: str
    protocol: str
    """The version of MCP that it speaks."""
    sessions: int
    """How many of its sessions are open; 0 where it is gone."""


class Batch(NamedTuple):
    """All of it."""

    at: float
    calls: list[Call]
    counts: Mapping[ToolIdentifier, Sequence[int]]
    """Calls beside those, of which there were too many for a row each: how many succeeded, and how many did not."""
    lines: list[Line]
    openings: list[Opening]
    servers: list[ServerState]
    """Those that changed."""
    flights: list[Flight]
    """All that are under way at this moment."""
    lost: int
    """What happened and is in no batch, since there was no room for it."""
    is_last: bool = False
    epoch: float = 0.0
    """When the clock of its calls began, as people count time."""
    gone: Sequence[tuple[str, str]] = ()
    """The toolboxes and names of servers that are not configured any more."""
    clients: Sequence[ClientState] = ()
    """Those that changed."""
    problem: str = ""
    """Why the configuration file as it is now is not used; empty where it is."""
    memory: tuple[str, int] = ("calm", 0)
    """The level of memory pressure, and the bytes that wait for clients and servers."""
