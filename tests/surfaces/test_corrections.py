"""Looking up the call that a mistaken one stands for: for any input, in bounded time, and never a wrong one."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.surfaces.arguments import read_open, read_use
from mcp_workbench.surfaces.call_intent import UseIntent
from mcp_workbench.surfaces.corrections import Corrections, matching_tools
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.wire.caller import LIBRARY
from tests.surfaces.benches import Known, call, config_of, error_of, knowing
from tests.surfaces.test_arguments import JSON

ODD: Known = {
    "dev": {"a": ["b_c", "read", "Read", "x-y", "x_y"], "a_b": ["c"], "_": ["__", "*"]},
    "a": {"dev": ["read"], "b": ["line\nbreak", "\u202eevil", "日本"]},
}
TOOLS = [ToolIdentifier(box, server, tool) for box, servers in ODD.items() for server, names in servers.items() for tool in names]  # fmt: skip # noqa: E501


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def corrections(known: Known) -> Corrections:
    return Corrections(config_of(known), knowing(known).at(LIBRARY).catalog)


def shown(lines: list[str]) -> list[tuple[str, str]]:
    return [(name, text) for line in lines if line.startswith("Send: ") for _, name, text in [line.split(" ", 2)]]


@pytest.mark.parametrize(
    ("said", "parts"),
    [
        (UseIntent(tool="dev/a_b/c"), [("dev", "a_b", "c")]),
        (UseIntent(tool="dev/a/b_c"), [("dev", "a", "b_c")]),
        (UseIntent(tool="a_b_c"), [("dev", "a", "b_c"), ("dev", "a_b", "c")]),
        (UseIntent(tool="dev/a/x_y"), [("dev", "a", "x_y")]),
        (UseIntent(tool="dev/a/xY"), [("dev", "a", "x-y"), ("dev", "a", "x_y")]),
        (UseIntent(tool="Read"), [("dev", "a", "Read")]),
        (UseIntent("dev", "a", "READ"), [("dev", "a", "read"), ("dev", "a", "Read")]),
        (UseIntent("a", "dev", "read"), [("a", "dev", "read")]),
        (UseIntent("Dev", "A", "read"), [("dev", "a", "read")]),
        (UseIntent("DEV", "", "read"), [("dev", "a", "read")]),
        (UseIntent("Other", "A", "read"), [("dev", "a", "read")]),
        (UseIntent("a", "a", "read"), [("dev", "a", "read"), ("a", "dev", "read")]),
        (UseIntent("dev", "_", "__"), [("dev", "_", "__")]),
        (UseIntent("dev", "_", "---"), []),
        (UseIntent(tool="*"), [("dev", "_", "*")]),
        (UseIntent(tool="日本"), [("a", "b", "日本")]),
        (UseIntent(tool="c"), [("dev", "a_b", "c")]),
        (UseIntent(tool=""), []),
    ],
)
def test_a_name_stands_for_the_tools_that_it_fits_best(said: UseIntent, parts: list[tuple[str, str, str]]):
    assert [tool.parts() for tool in matching_tools(said, TOOLS)] == parts


@pytest.mark.parametrize(
    ("given", "send"),
    [
        ({"query": "read", "limit": 3}, {"toolbox": "*", "query": "read", "limit": 3}),
        ({"query": "read", "max_results": "3"}, {"toolbox": "*", "query": "read", "limit": 3}),
        ({"query": "read", "limit": 10**9}, {"toolbox": "*", "query": "read"}),
        ({"toolbox": "Dev", "limit": 3}, {"toolbox": "dev"}),
    ],
)
def test_a_corrected_search_keeps_the_limit_that_it_was_given(given: dict[str, Any], send: dict[str, Any]):
    assert shown(corrections(ODD).of_call("open_toolbox", raw(given))) == [("open_toolbox", json.dumps(send, separators=(",", ":")))]  # fmt: skip # noqa: E501


def test_every_tool_is_found_by_each_of_its_joined_forms_among_names_of_any_characters():
    for tool in TOOLS:
        for separator in ("/", ".", ":", "__", "_"):
            assert tool in matching_tools(UseIntent(tool=separator.join(tool.parts())), TOOLS), (tool, separator)


KEYS = (
    "tool",
    "toolbox",
    "server",
    "name",
    "arguments",
    "args",
    "query",
    "tools",
    "toolbox_name",
    "x",
    "detail",
    "limit",
    "params",
    "toolboxes",
)
VALUES = JSON | st.sampled_from(
    ["dev", "a", "read", "dev/a/read", "*", "", "use_tool", "open_toolbox", {"toolbox": "dev", "tool": "read"}]
)
GIVEN = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5) | VALUES | VALUES.map(json.dumps)


LONG = "x" * 100_000


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("use_tool", {"toolbox": "new", "server": "s", "tool": LONG}),
        ("use_tool", {"tool": {"toolbox": LONG, "server": LONG, "tool": "read"}}),
        ("use_tool", {"query": LONG}),
        ("open_toolbox", {"query": LONG}),
        ("open_toolbox", {"toolbox": "new", "tools": [LONG]}),
        ("open_toolbox", {"toolbox": LONG}),
        ("search_tools", {"query": LONG, "toolbox": "dev"}),
        (LONG, {}),
    ],
)
def test_whatever_is_repeated_of_a_call_is_bounded(name: str, given: Any):
    config = config_of({**ODD, "new": {"s": []}})
    lines = Corrections(config, knowing(ODD).at(LIBRARY).catalog).of_call(name, raw(given))
    assert sum(map(len, lines)) < 3000


@settings(max_examples=150)
@given(st.sampled_from(["use_tool", "open_toolbox", "read", "search_tools", "call_tool", "🙂"]), GIVEN)
def test_every_call_that_is_shown_for_any_input_is_one_line_that_the_workbench_takes(name: str, given: Any):
    for metatool, text in shown(KNOWING_ODD.of_call(name, raw(given))):
        assert text.isprintable()
        if metatool == "use_tool":
            identifier, _ = read_use(Raw(text.encode()))
            assert identifier in TOOLS
        else:
            assert read_open(Raw(text.encode())).toolbox in {*ODD, "*"}


KNOWING_ODD = corrections(ODD)


def test_invisible_characters_of_a_name_are_escaped_and_the_call_still_means_it():
    for tool in ("line\nbreak", "\u202eevil"):
        [(_, text)] = shown(KNOWING_ODD.of_call(tool, raw({})))
        assert text.isprintable()
        assert read_use(Raw(text.encode()))[0] == ToolIdentifier("a", "b", tool)


def nested(call: dict[str, Any], levels: int) -> dict[str, Any]:
    """A call inside a call inside a call."""
    return nested({"params": call}, levels - 1) if levels else call


COSTLY: dict[str, Any] = {
    "unknown": {"tool": "nothing_like_it"},
    "near": {"tool": {"toolbox": "dev", "server": "fs", "tool": "l" * 199}},
    "long": {"tool": "list_" * 40},
    "huge": {"toolbox": "d_" * 500_000, "server": "s_" * 500_000, "tool": "t_" * 500_000},
    "huge parts": {"tool": {"toolbox": "d_" * 500_000, "server": "s_" * 500_000, "tool": "t_" * 500_000}},
    "wrapped": nested({"tool": "read"}, 200),
    "many names": {"toolbox": "dev", "tools": [{"tool": "l" * 199}] * 10_000},
    "many keys": {f"{number}": number for number in range(10_000)},
}


async def test_the_help_for_a_mistake_among_very_many_long_names_costs_little_time():
    names = [("list_repository_items_" * 10)[:190] + f"_{number:06}" for number in range(5000)]
    surface = ProxySurface(knowing({"dev": {"fs": names}}))
    error_of(await call(surface, "open_toolbox", {}))  # imports what only a mistake needs
    for kind, arguments in COSTLY.items():
        since = time.process_time()
        error_of(await call(surface, "use_tool", arguments))
        assert time.process_time() - since < 0.6, kind
