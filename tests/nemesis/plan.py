"""What is done in a run, and when: a function of the seed alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from tests.nemesis.history import Leaving
from tests.nemesis.scene import SERVERS, WITHHELD
from tests.support.wire import Json, use_params

Deed: TypeAlias = Literal[
    "use", "cancel", "open", "list", "wrong", "garbage", "flood", "pause", "kill", "stop", "reload", "leave"
]

STEPS_PER_SECOND = 20
DEEDS: dict[Deed, float] = {
    "use": 58,
    "cancel": 10,
    "open": 5,
    "list": 2,
    "wrong": 7,
    "garbage": 2,
    "flood": 1.5,
    "pause": 1.5,
    "kill": 6,
    "stop": 3,
    "reload": 1.5,
    "leave": 0.8,
}
TOOLS: dict[str, float] = {
    "echo": 45,
    "slow": 10,
    "late": 4,
    "report": 6,
    "endless": 2,
    "hang": 3,
    "freeze": 0.7,
    "crash": 4,
    "shout": 3,
    "babble": 4,
    "large": 5,
    "huge": 1.5,
    "clamour": 3,
    "twice": 3,
    "fails": 2,
    "refuses": 2,
    "withheld": 5,
    "absent": 1,
}
"""Kinds of calls; most are a tool of the server."""

ARGUMENTS: dict[str, tuple[str, Callable[[Random], dict[str, Any]]]] = {
    "slow": ("slow", lambda random: {"seconds": random.uniform(0.05, 1.5)}),
    "late": ("slow", lambda random: {"seconds": random.uniform(2.5, 4)}),
    "report": ("report", lambda random: {"seconds": random.uniform(0.5, 3.5)}),
    "shout": ("shout", lambda random: {"count": random.randrange(1000, 20_000)}),
    "babble": ("babble", lambda random: {"count": random.randrange(10, 1500)}),
    "clamour": ("clamour", lambda random: {"count": random.randrange(100, 5000)}),
    "large": ("large", lambda random: {"count": random.randrange(1000, 400_000)}),
    "huge": ("large", lambda _: {"count": 1_500_000}),
}
"""The tool of a call that takes more than a nonce, and what it takes."""

HOW: tuple[Leaving, ...] = ("eof", "term", "kill")


class Step(NamedTuple):
    """One thing that is done."""

    at: float
    do: Deed
    client: str
    server: str = ""
    tool: str = ""
    arguments: Mapping[str, Any] = MappingProxyType({})
    progress: bool = False
    after: float = 0.0
    """Seconds until it is cancelled, or goes on, or reads again; below 0: never."""
    count: int = 1
    pick: float = 0.0
    """Which one of several, from 0 to 1."""
    how: Leaving = "eof"


def plan(seed: int, seconds: float, clients: tuple[str, ...], rate: float = STEPS_PER_SECOND) -> list[Step]:
    """The steps of a run, in order."""
    random = Random(seed)  # noqa: S311 -- it is to be repeated
    times = sorted(random.uniform(0, seconds) for _ in range(int(seconds * rate)))
    return [_step(random, at, clients) for at in times]


def _step(random: Random, at: float, clients: tuple[str, ...]) -> Step:  # noqa: PLR0911 -- one for each deed
    [do] = random.choices(tuple(DEEDS), tuple(DEEDS.values()))
    step = Step(at, do, random.choice(clients), random.choice(SERVERS), pick=random.random())
    match do:
        case "use":
            return _call(random, step)
        case "cancel":
            return _call(random, step)._replace(after=random.uniform(0, 1.5))
        case "flood":
            return step._replace(tool="echo", count=random.randrange(20, 200))
        case "pause":
            size = {"count": random.randrange(100_000, 900_000)}
            return step._replace(
                tool="large", arguments=size, count=random.randrange(5, 60), after=random.uniform(0.5, 3)
            )
        case "stop":
            return step._replace(after=random.uniform(0.2, 4) if random.random() < 0.7 else -1)
        case "leave":
            return step._replace(how=random.choice(HOW))
        case _:
            return step


def _call(random: Random, step: Step) -> Step:
    [kind] = random.choices(tuple(TOOLS), tuple(TOOLS.values()))
    step = step._replace(tool=kind, progress=random.random() < 0.5)
    if kind == "withheld":
        server, tool = random.choice(WITHHELD)
        return step._replace(server=server, tool=tool)
    tool, draw = ARGUMENTS.get(kind, (kind, None))
    return step._replace(tool=tool, arguments=draw(random)) if draw is not None else step


def wrong_requests(nonce: str) -> list[tuple[str, Json]]:
    """Requests that contact nobody: methods and params, each with a nonce that no server may see."""
    given = {"nonce": nonce}
    wrong_uses: list[Any] = [
        None,
        [],
        {},
        {"tool": "left.plain.echo", "arguments": given},
        {"tool": {"toolbox": "left", "server": "plain"}, "arguments": given},
        {"tool": {"toolbox": "left", "server": "plain", "tool": ""}, "arguments": given},
        {"tool": {"toolbox": "left", "server": "plain", "tool": ["echo"]}, "arguments": given},
        {"tool": {"toolbox": "left", "server": "plain", "tool": "echo"}, "arguments": [given]},
        {"tool": {"toolbox": "left", "server": "plain", "tool": "echo"}, "arguments": json.dumps(given) + "}"},
        use_params("right", "plain", "echo", given),
        use_params("middle", "plain", "echo", given),
        use_params("left", "", "echo", given),
    ]
    return [
        *(("tools/call", {"name": "use_tool", "arguments": wrong}) for wrong in wrong_uses),
        ("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": "middle"}}),
        ("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": ["left"]}}),
        ("tools/call", {"name": "echo", "arguments": given}),
        ("tools/call", {"arguments": given}),
        ("tools/calls", {"name": "use_tool", "arguments": use_params("left", "plain", "echo", given)}),
    ]


GARBAGE: tuple[bytes, ...] = (
    b"",
    b"hello",
    b"\xff\xfe\x00",
    b"[]",
    b'{"jsonrpc": "2.0", "id": null, "method": "tools/list"}',
    b'{"jsonrpc": "2.0", "result": {}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "nobody"}}',
    b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": [], "progress": 1}}',
    b'{"jsonrpc": "2.0", "id": 4294967296, "result": {}}',
    b"[" * 100_000,
)
"""Lines that are no requests."""
