"""The table of the matrix: clients, surfaces, servers, transports, and what a server does in each cell.

A cell is one behaviour of one server, seen by one client through one surface. What the client gets there is compared
with what it gets from the server directly. Where it can't reach the server directly, `reference` says whose direct
outcome counts; where no outcome counts, the behaviour states what is expected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tests.support.typescript import Player

Json = dict[str, Any]
Surface = Literal["direct", "meta", "dynamic", "toolbox", "server"]
Transport = Literal["stdio", "http"]
Era = Literal["dual", "handshake", "modern"]

SERVER = "s"
"""The name of the server in each toolbox."""
LOG_LEVEL = "io.modelcontextprotocol/logLevel"
CHANGED = "notifications/tools/list_changed"
CHANGE_MS = 8000
"""How long a change may take to be told of."""

ABLE: Json = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ANSWERS: Json = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant",
        "model": "canned",
        "content": {"type": "text", "text": "A canned answer"},
        "stopReason": "endTurn",
    },
    "roots/list": {"roots": [{"uri": "file:///work/a", "name": "A"}, {"uri": "file:///work/b"}]},
}


@dataclass(frozen=True)
class Client:
    """An official client in one of its modes; one that is not able declares no capability."""

    player: Player
    able: bool = True

    def __str__(self) -> str:
        return f"{self.player}{'' if self.able else '-unable'}"

    @property
    def is_modern(self) -> bool:
        """Whether it speaks the modern era with a server that has both."""
        return self.player.mode != "legacy"

    def script(self) -> Json:
        return {"capabilities": ABLE, "answers": ANSWERS} if self.able else {}


@dataclass(frozen=True)
class Server:
    sdk: Literal["typescript", "python", "malformed"]
    era: Era
    transport: Transport

    def __str__(self) -> str:
        return f"{self.sdk}-{self.era}-{self.transport}"


CLIENTS = [
    Client(Player("ts1")),
    Client(Player("ts2")),
    Client(Player("ts2", "auto")),
    Client(Player("py")),
    Client(Player("py", "auto")),
    Client(Player("py", "modern")),
    Client(Player("fastmcp4", "auto")),
    Client(Player("ts1"), able=False),
    Client(Player("py", "auto"), able=False),
]
SURFACES: list[Surface] = ["meta", "dynamic", "toolbox", "server"]
TRANSPORTS: list[Transport] = ["stdio", "http"]
ERAS: list[Era] = ["dual", "handshake", "modern"]
SOUND = [
    *(Server("typescript", era, transport) for era in ERAS for transport in TRANSPORTS),
    *(Server("python", "dual", transport) for transport in TRANSPORTS),
]
MALFORMED = [Server("malformed", "handshake", "stdio"), Server("malformed", "modern", "stdio")]
SERVERS = [*SOUND, *MALFORMED]


def reference(client: Client, server: Server) -> tuple[Client, Server]:
    """The client and the server whose direct outcomes a cell is compared with."""
    if client.player.mode == "modern" and server.era == "handshake":
        return Client(Player(client.player.driver, "auto"), client.able), server
    if not client.is_modern and server.era == "modern":
        return client, Server(server.sdk, "dual", server.transport)
    return client, server


# -- what a server does


@dataclass(frozen=True)
class Behaviour:
    """One call of a tool, and how the tool behaves."""

    tool: str
    arguments: Literal["none", "mark"] = "none"
    asks: bool = False
    style: Literal["push", "rounds", "any"] = "any"
    """How it asks: `push` in the middle of the call, as the handshake era has it; `rounds` by being called again."""


BEHAVIOURS = {
    "form": Behaviour("form", "mark", asks=True, style="push"),
    "url": Behaviour("url", "mark", asks=True, style="push"),
    "sampling": Behaviour("sample", "mark", asks=True, style="push"),
    "roots": Behaviour("roots", "mark", asks=True, style="push"),
    "form, called again": Behaviour("form_again", "mark", asks=True, style="rounds"),
    "url, called again": Behaviour("url_again", "mark", asks=True, style="rounds"),
    "sampling, called again": Behaviour("sample_again", "mark", asks=True, style="rounds"),
    "roots, called again": Behaviour("roots_again", "mark", asks=True, style="rounds"),
    "url by an error": Behaviour("needs_page", "mark", asks=True),
    "log": Behaviour("log", "mark"),
    "progress": Behaviour("progress", "mark"),
    "object": Behaviour("object"),
    "array": Behaviour("array"),
    "number": Behaviour("number"),
    "failure": Behaviour("fails"),
    "refusal": Behaviour("refuses"),
}
LIST, CHANGE = "definitions", "change of the list"
EVERY = [LIST, *BEHAVIOURS, CHANGE]


def exists(client: Client, surface: Surface, front: Transport, server: Server) -> bool:
    """Whether a row is played: those of a client that is not able differ in what it is asked only, so few will do."""
    return client.able or (front == "stdio" and server.transport == "stdio" and surface in ("meta", "server"))
