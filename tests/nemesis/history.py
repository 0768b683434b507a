"""What happened in a run, as data: one event is one line of JSON.

Times are seconds of the system's monotonic clock, which the driver and the servers share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import msgspec

T = TypeVar("T")

NONCE = re.compile(r"n_([a-z]+)_\d+_")
"""A nonce names the client that made it."""

Fault: TypeAlias = Literal["kill", "stop", "go", "reload"]
Leaving: TypeAlias = Literal["eof", "term", "kill"]

EXPECTED_STATUS: dict[str, int] = {"eof": 0, "term": 143, "kill": -9}
"""How a workbench ends, by the way its client left it."""
UNCAUGHT = -15
"""How a program ends by SIGTERM that has not come to catching it."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=str.lower, omit_defaults=True):
    """Something happened."""

    at: float


class Setting(Event, frozen=True, kw_only=True):
    """Who takes part, and what is promised."""

    clients: tuple[str, ...]
    servers: tuple[str, ...]
    withheld: tuple[tuple[str, str], ...]
    """Servers and tools that no call may reach."""
    hard_seconds: float
    """The hard deadline of a call, from when its server has it."""
    memory_bytes: int = 0
    """What a workbench process may hold at most; 0: any number."""


class Begun(Event, frozen=True, kw_only=True):
    """A client made a request."""

    op: str
    client: str
    what: str
    server: str = ""
    tool: str = ""
    nonce: str = ""
    seconds: float
    """When it must have had its outcome, at the latest."""
    wrong: bool = False
    """It may contact nobody."""


class Ended(Event, frozen=True, kw_only=True):
    """A client got the answer to a request."""

    op: str
    client: str
    code: str
    """`ok`, or the code of the error."""
    nonces: tuple[str, ...] = ()
    """Every nonce in it."""
    text: str = ""
    """Why it failed."""


class Heard(Event, frozen=True, kw_only=True):
    """A client was told something with a nonce in it, or with a progress token."""

    client: str
    method: str
    op: str = ""
    nonces: tuple[str, ...] = ()


class Cancelled(Event, frozen=True, kw_only=True):
    """A client no longer wants the answer to a request."""

    op: str


class Left(Event, frozen=True, kw_only=True):
    """A client hung up, or its workbench was killed: nothing that it still waits for is answered."""

    client: str
    how: Leaving
    final: bool = False
    """At the end of the run, when it waits for nothing any more."""


class Swept(Event, frozen=True, kw_only=True):
    """What was left of a client that hung up."""

    client: str
    how: Leaving
    status: int
    """The exit status of its workbench."""
    seconds: float
    """From its end until nothing was left."""
    fresh: bool = False
    """It had just begun: nothing but a greeting was answered."""
    left: tuple[str, ...] = ()


class Struck(Event, frozen=True, kw_only=True):
    """A fault was done to a server's process."""

    fault: Fault
    server: str
    client: str
    pid: int


class Started(Event, frozen=True, kw_only=True):
    """A server's process came up."""

    server: str
    pid: int


class Stopped(Event, frozen=True, kw_only=True):
    """A server's process went because its input ended."""

    server: str
    pid: int


class Delivered(Event, frozen=True, kw_only=True):
    """A server got a call."""

    server: str
    pid: int
    tool: str
    nonce: str


class Lagged(Event, frozen=True, kw_only=True):
    """The machine was too busy to let the driver go on in time."""

    seconds: float


class Paused(Event, frozen=True, kw_only=True):
    """A client reads nothing for a while."""

    client: str
    seconds: float


class Weighed(Event, frozen=True, kw_only=True):
    """The workbench process of a client holds more memory than ever before."""

    client: str
    size_bytes: int


class Calmed(Event, frozen=True, kw_only=True):
    """The last fault was done."""


class Peopled(Event, frozen=True, kw_only=True):
    """The processes of one server, or that it started, in one workbench that had time to tidy up."""

    workbench: str
    server: str
    count: int
    most: int
    """As many as there are clients."""


class Unforeseen(Event, frozen=True, kw_only=True):
    """Something that must not happen at all: a defect's traceback, a line that is no message."""

    client: str
    text: str


class CutOff(Event, frozen=True, kw_only=True):
    """A workbench ended in the middle of a line that its client had not read."""

    client: str


class Counted(Event, frozen=True, kw_only=True):
    """What the driver's own process held, before anything began or after everything ended."""

    when: Literal["before", "after"]
    processes: tuple[str, ...]
    descriptors: tuple[str, ...]
    tasks: tuple[str, ...]


AnyEvent: TypeAlias = (
    Setting
    | Begun
    | Ended
    | Heard
    | Cancelled
    | Left
    | Swept
    | Struck
    | Started
    | Stopped
    | Delivered
    | Lagged
    | Paused
    | Weighed
    | Calmed
    | Peopled
    | Unforeseen
    | CutOff
    | Counted
)
History: TypeAlias = list[AnyEvent]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(AnyEvent).decode


def line(event: AnyEvent) -> str:
    """An event as a person reads it."""
    return _encode(event).decode()


def write(path: Path, history: Iterable[AnyEvent]) -> None:
    path.write_bytes(b"".join(_encode(event) + b"\n" for event in history))


def read(path: Path) -> History:
    """A history, or what servers wrote of theirs."""
    return [_decode(one) for one in path.read_bytes().splitlines()] if path.exists() else []


def of(history: History, kind: type[T]) -> list[T]:
    """The events of one kind, in order."""
    return [event for event in history if isinstance(event, kind)]


def nonces_in(text: str) -> tuple[str, ...]:
    """Every nonce in a text, once."""
    return tuple(dict.fromkeys(match.group() for match in NONCE.finditer(text)))
