"""`mcp-workbench tokens`: counts the tokens of tool definitions, without and with the workbench."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from mcp_workbench.catalog.rendering import signature
from mcp_workbench.catalog.rendering.budget import estimate
from mcp_workbench.catalog.snapshot import Opened
from mcp_workbench.cli.config_selection import chosen, refuse
from mcp_workbench.cli.terminal import say
from mcp_workbench.config.model import Config, OpenDetail
from mcp_workbench.errors import ToolboxFailed, WorkbenchError
from mcp_workbench.limits import Limits
from mcp_workbench.routing.router import Router
from mcp_workbench.surfaces import open_response
from mcp_workbench.surfaces.arguments import OpenArguments
from mcp_workbench.surfaces.descriptions import definitions, instructions
from mcp_workbench.text.sanitize import escape, slashed
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import LIBRARY
from mcp_workbench.workbench import Workbench

SEARCHES_TRIED = 20
"""The number of searches to average."""

HELP = """Count the tokens that an agent reads: with every server connected directly, and with the workbench.

Servers that have never listed their tools are started. Tokens are counted with OpenAI's o200k encoding if the
Python package bpe-openai is installed with the workbench, and otherwise estimated from bytes."""

Count: TypeAlias = Callable[[bytes], int]


class Cost(NamedTuple):
    """The tokens of one toolbox."""

    toolbox: str
    tools: int
    flat: int
    """With its servers connected directly."""
    opened: int
    """The answer of `open_toolbox` with the configured `openDetail`."""
    auto: int
    """The same with `auto`: as much as fits into the budget."""
    full: int
    """The same with `full`: whole definitions."""
    signature: int
    """The same with `signature`."""
    search: int
    """The mean answer of a search."""
    failed: tuple[str, ...] = ()


class Bill(NamedTuple):
    """The tokens of a configuration."""

    tokenizer: str
    start: int
    """The two tools and the instructions."""
    toolboxes: tuple[Cost, ...]

    @property
    def flat(self) -> int:
        return sum(cost.flat for cost in self.toolboxes)


def run(options: Mapping[str, str]) -> int:
    """Count and print; return the exit status."""
    try:
        config, toolboxes = chosen(options)
    except WorkbenchError as error:
        return refuse(error, options)
    name, count = tokenizer()
    bill = asyncio.run(_bill(config, toolboxes, name, count))
    if "json" in options:
        say(json.dumps({"file": config.file, **_as_json(bill)}, ensure_ascii=False))
    else:
        for line in _as_text(bill):
            say(line)
    return 0


def tokenizer() -> tuple[str, Count]:
    """The name of the tokenizer, and its count function."""
    try:
        bpe: Any = import_module("bpe_openai")  # an optional dependency
    except ImportError:
        return "estimated from bytes", estimate
    encoding = bpe.get_encoding("o200k_base")
    return "o200k_base", lambda text: len(encoding.encode(text.decode()))


async def _bill(config: Config, toolboxes: Sequence[str], name: str, count: Count) -> Bill:
    start = b"".join(bytes(one) for one in definitions(config)) + instructions(config).encode()
    async with Workbench(config) as workbench:
        router = workbench.at(LIBRARY)
        detail, limits = config.open_detail, workbench.limits
        costs = [await _cost(router, toolbox, detail, count, limits) for toolbox in toolboxes]
    return Bill(name, count(start), tuple(costs))


async def _cost(router: Router, toolbox: str, detail: OpenDetail, count: Count, limits: Limits) -> Cost:
    try:
        opened = await router.open(toolbox)
    except ToolboxFailed as error:
        return Cost(toolbox, 0, 0, 0, 0, 0, 0, 0, tuple(failure.server for failure in error.failures))
    details: tuple[OpenDetail, ...] = (detail, "auto", "full", "signature")
    requests = [OpenArguments(toolbox, detail=one) for one in details]
    costs = [count(_text(await open_response.opened(opened, opened.found, one, limits))) for one in requests]
    return Cost(
        toolbox,
        len(opened.found),
        flat=count(jsonrpc.encode([definition.raw for _, definition in opened.found])),
        opened=costs[0],
        auto=costs[1],
        full=costs[2],
        signature=costs[3],
        search=await _search_cost(router, opened, count, limits),
        failed=tuple(failure.server for failure in opened.failed),
    )


async def _search_cost(router: Router, opened: Opened, count: Count, limits: Limits) -> int:
    """The mean cost of searches for some tools, by their own descriptions."""
    step = max(1, len(opened.found) // SEARCHES_TRIED)
    costs: list[int] = []
    for identifier, definition in opened.found[::step]:
        entry = jsonrpc.fields(signature.brief(identifier, definition))
        query = jsonrpc.text_or_none(entry.get("description")) or identifier.tool
        searched = await router.search(query, opened.toolbox)
        answer = await open_response.matches(searched, OpenArguments(opened.toolbox, query), limits, toolbox=opened)
        costs.append(count(_text(answer)))
    return round(sum(costs) / len(costs)) if costs else 0


def _text(result: Any) -> bytes:
    """The text of a result, which is what an agent reads."""
    content: list[dict[str, str]] = json.loads(bytes(result))["content"]
    return content[0]["text"].encode()


def _as_json(bill: Bill) -> dict[str, Any]:
    return {
        "tokenizer": bill.tokenizer,
        "without": bill.flat,
        "start": bill.start,
        "toolboxes": [
            {
                "toolbox": cost.toolbox,
                "tools": cost.tools,
                "without": cost.flat,
                "open": cost.opened,
                "auto": cost.auto,
                "full": cost.full,
                "signature": cost.signature,
                "search": cost.search,
                "failed": list(cost.failed),
            }
            for cost in bill.toolboxes
        ],
    }


def _as_text(bill: Bill) -> Iterator[str]:
    rows = [("", "tools", "without", "open", "auto", "full", "signature", "search")]
    rows += [(escape(cost.toolbox), *(f"{number:,}" for number in cost[1:-1])) for cost in bill.toolboxes]
    if all(cost.opened == cost.auto for cost in bill.toolboxes):  # as by default
        rows = [(*row[:4], *row[5:]) for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = (
            cell.ljust(width) if not column else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join([first, *others]).rstrip()
    yield ""
    yield f"without the workbench, at the start: {bill.flat:,} tokens"
    yield f"with the workbench, at the start:    {bill.start:,} tokens{_saved(bill.start, bill.flat)}"
    full = sum(cost.full for cost in bill.toolboxes)
    signatures = sum(cost.signature for cost in bill.toolboxes)
    yield f'every toolbox opened as "full": {full:,} tokens; as "signature": {signatures:,}{_saved(signatures, full)}'
    yield f"counted with: {bill.tokenizer}"
    for cost in bill.toolboxes:
        if cost.failed:
            servers = ", ".join(slashed(cost.toolbox, server) for server in cost.failed)
            yield f"not counted, since they failed: {servers}"


def _saved(cost: int, of: int) -> str:
    return f" ({1 - cost / of:.0%} less)" if of > cost else ""
