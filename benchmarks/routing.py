"""Routing by the fields of an identifier, against splitting a joined name and looking that up.

    routing.py [--passes N]

walk    the catalog's own: toolbox -> server -> tool, by the fields of an identifier
split   take a joined name apart, check that it has three parts, make the identifier, walk
bare    the same without an identifier: three loose strings, the least that splitting can cost

Every pass gets requests that were decoded for it, as a server does: a string that was looked up
before remembers its hash, which would flatter the walk. The second table adds the decoding, where
the structured request is the longer one and pays for its checks.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import msgspec

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.snapshot import Catalog, ServerTools
from mcp_workbench.identity import SEPARATOR, ToolIdentifier

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SHAPES = ((1, 1, 10), (1, 10, 10), (10, 10, 10), (10, 10, 100))
"""Toolboxes, servers in each, tools in each: 10, 100, 1,000 and 10,000 tools."""

REQUESTS = 1000
MOST_OF_SPLIT = 0.5
MOST_GROWTH = 2.0
"""For a thousand times the tools: what grows is the share of the processor's cache that they miss."""

WALK, SPLIT, BARE = "walk", "split", "bare"


def walk(catalog: Catalog, identifier: ToolIdentifier) -> Definition | None:
    return catalog.tool(identifier)


def split_and_look_up(catalog: Catalog, name: str) -> Definition | None:
    parts = take_apart(name)
    return None if parts is None else catalog.tool(ToolIdentifier(*parts))


def split_bare(catalog: Catalog, name: str) -> Definition | None:
    parts = take_apart(name)
    if parts is None:
        return None
    toolbox, server, tool = parts
    listing = catalog.listing(toolbox, server)
    return None if listing is None else listing.tools.get(tool)


def take_apart(name: str) -> list[str] | None:
    """The first two separators count, so that a tool's own name may hold more of them."""
    parts = name.split(SEPARATOR, 2)
    return parts if len(parts) == 3 and all(parts) else None


@dataclass
class Way:
    """One way to route, the requests as they come in, and the nanoseconds for one of them in each pass."""

    route: Callable[[Catalog, Any], Definition | None]
    requests: bytes
    decoder: msgspec.json.Decoder[Any]
    routing: list[float] = field(default_factory=list[float])
    with_decoding: list[float] = field(default_factory=list[float])

    def run(self, catalog: Catalog) -> None:
        route, started = self.route, time.perf_counter_ns()
        asked = self.decoder.decode(self.requests)
        decoded = time.perf_counter_ns()
        for one in asked:
            route(catalog, one)
        ended = time.perf_counter_ns()
        self.routing.append((ended - decoded) / REQUESTS)
        self.with_decoding.append((ended - started) / REQUESTS)

    def found(self, catalog: Catalog) -> list[Definition | None]:
        return [self.route(catalog, one) for one in self.decoder.decode(self.requests)]


@dataclass(frozen=True)
class Line:
    """Nanoseconds per request for each way, medians over the passes."""

    tools: int
    routing: Mapping[str, float]
    with_decoding: Mapping[str, float]


def build(toolboxes: int, servers: int, tools: int) -> Catalog:
    names = {f"toolbox_{box}": [f"server_{server}" for server in range(servers)] for box in range(toolboxes)}
    catalog = Catalog(names)
    for toolbox, members in names.items():
        for server in members:
            catalog.kept(toolbox, server).put(listing(tools))
    return catalog


def listing(tools: int) -> ServerTools:
    raw = (msgspec.Raw(b'{"name":"read_file_%d","inputSchema":{"type":"object"}}' % number) for number in range(tools))
    read = (Definition.read(definition) for definition in raw)
    return ServerTools(tools={definition.name: definition for definition in read if definition is not None})


def ways(catalog: Catalog) -> dict[str, Way]:
    """The same requests for each, and the same in every run."""
    asked = random.Random(0).choices(list(catalog.known()), k=REQUESTS)  # noqa: S311 -- no secret
    joined = msgspec.json.encode([SEPARATOR.join(identifier.parts()) for identifier in asked])
    names = msgspec.json.Decoder(list[str])
    return {
        WALK: Way(walk, msgspec.json.encode(asked), msgspec.json.Decoder(list[ToolIdentifier])),
        SPLIT: Way(split_and_look_up, joined, names),
        BARE: Way(split_bare, joined, names),
    }


def measure(shape: tuple[int, int, int], passes: int) -> Line:
    catalog = build(*shape)
    measured = ways(catalog)
    check_agreement(catalog, measured)
    for _ in range(passes):
        for way in measured.values():
            way.run(catalog)
    return Line(
        sum(1 for _ in catalog.known()),
        {name: median(way.routing) for name, way in measured.items()},
        {name: median(way.with_decoding) for name, way in measured.items()},
    )


def check_agreement(catalog: Catalog, measured: Mapping[str, Way]) -> None:
    first, *others = (way.found(catalog) for way in measured.values())
    if None in first or any(other != first for other in others):
        raise AssertionError("the ways do not lead to the same tools")


def show(title: str, rows: Sequence[tuple[int, Mapping[str, float]]]) -> None:
    print(f"{title}, ns per request")
    print(f"{'tools':>6} {WALK:>8} {SPLIT:>8} {BARE:>8} {'walk/split':>11} {'walk/bare':>10}")
    for tools, cost in rows:
        costs = " ".join(f"{cost[name]:8.0f}" for name in (WALK, SPLIT, BARE))
        print(f"{tools:6} {costs} {cost[WALK] / cost[SPLIT]:11.2f} {cost[WALK] / cost[BARE]:10.2f}")
    print()


def judge(title: str, value: float, limit: float) -> None:
    print(f"{'PASS' if value <= limit else 'MISS'}  {title} <= {limit:g}: {value:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the ways from a request to its tool.")
    parser.add_argument("--passes", type=int, default=300, metavar="N", help=f"of {REQUESTS} requests each")
    passes: int = parser.parse_args().passes
    lines = [measure(shape, passes) for shape in SHAPES]
    show("routing", [(line.tools, line.routing) for line in lines])
    show("decoding and routing", [(line.tools, line.with_decoding) for line in lines])
    fewest, most = lines[0], lines[-1]
    worst = max(line.routing[WALK] / line.routing[SPLIT] for line in lines)
    judge("routing, walk/split at its worst", worst, MOST_OF_SPLIT)
    growth = most.routing[WALK] / fewest.routing[WALK]
    judge(f"routing, walk with {most.tools:,} tools / with {fewest.tools}", growth, MOST_GROWTH)


if __name__ == "__main__":
    main()
