"""What an agent may ask `open_toolbox` for, and what it is told where that can't be: nothing is started for it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.search import QUERY_LENGTH
from mcp_workbench.errors import InvalidParameters
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.surfaces.arguments import OpenArguments, read_open
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.text.sanitize import NAMES_SHOWN
from tests.support.procs import wait_until
from tests.support.remembering import Shop, own_clock, remembering
from tests.surfaces.benches import HANDSHAKE, MODERN, call, error_of
from tests.wire.pair import settle

DETAILS = "Invalid parameters: detail must be one of auto, full, signature"
FEW_WORDS = "Describe in a few words what the tool should do."
LIMIT = "Invalid parameters: limit must be a whole number from 1 to 50"
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"detail": "signatures"}, f"{DETAILS}\nDid you mean 'signature'?"),
    ({"detail": "Full"}, f"{DETAILS}\nDid you mean 'full'?"),
    ({"detail": "zzz"}, DETAILS),
    ({"detail": ""}, DETAILS),
    ({"detail": 5}, DETAILS),
    ({"detail": ["full"]}, DETAILS),
    ({"query": ""}, f"Invalid parameters: query cannot be empty\n{FEW_WORDS}"),
    ({"query": " \n\t\u3000"}, f"Invalid parameters: query cannot be empty\n{FEW_WORDS}"),
    ({"query": 5}, f"Invalid parameters: query must be a string\n{FEW_WORDS}"),
    ({"query": ["read"]}, f"Invalid parameters: query must be a string\n{FEW_WORDS}"),
    ({"query": {}}, f"Invalid parameters: query must be a string\n{FEW_WORDS}"),
    ({"query": False}, f"Invalid parameters: query must be a string\n{FEW_WORDS}"),
    ({"tools": "read_file"}, 'Invalid parameters: tools must be a list of strings\nExample: ["read_file"]'),
    ({"tools": ["read_file", 5]}, 'Invalid parameters: tools must be a list of strings\nExample: ["read_file"]'),
    ({"tools": ["read_file", None]}, 'Invalid parameters: tools must be a list of strings\nExample: ["read_file"]'),
    ({"tools": {"a": 1}}, 'Invalid parameters: tools must be a list of strings\nExample: ["read_file"]'),
    ({"tools": []}, "Invalid parameters: tools cannot be empty\nOmit it to get all tools."),
    ({"tools": [f"t{n}" for n in range(101)]}, "Invalid parameters: tools can have at most 100 names"),
    (
        {"query": "read", "tools": ["read_file"]},
        "Invalid parameters: query and tools cannot be combined\nSend only one of them.",
    ),
    *(
        ({"query": "read", "limit": limit}, "Invalid parameters: limit must be a whole number from 1 to 50")
        for limit in (0, -1, 51, 1.5, "5", [5], True)
    ),
    (
        {"limit": 5},
        "Invalid parameters: limit needs a query\nlimit is the maximum number of matches.",
    ),
    ({"querry": "read"}, "Invalid parameters: Unrecognized key 'querry'\nDid you mean 'query'?"),
    (
        {"zzzzz": 1},
        "Invalid parameters: Unrecognized key 'zzzzz'\nRecognized keys: toolbox, query, tools, detail, limit",
    ),
    ({"tool": ["read_file"]}, "Invalid parameters: Unrecognized key 'tool'\nDid you mean 'tools'?"),
    ({"server": "a"}, "Invalid parameters: Unrecognized key 'server'"),
]
SEVERAL = """Tools 'raed_file', 'delete_fil' not found in toolbox 'dev'
Did you mean 'read_file'? Did you mean 'delete_file'?"""
ALL = "Invalid parameters: query is missing\nToolbox '*' searches all toolboxes."


@contextlib.asynccontextmanager
async def surface(store: Path, *, known: bool = True) -> AsyncIterator[tuple[ProxySurface, dict[str, Shop]]]:
    """Two toolboxes, of which everything or nothing is remembered; and the servers, to see what was started."""
    shops = {
        "dev": {"a": Shop(tools=["read_file", "write_file"]), "b": Shop(tools=["read_file", "delete_file"])},
        "ops": {"c": Shop(tools=["restart"])},
    }
    if known:
        async with remembering(store, shops) as bench:
            for toolbox in shops:
                await bench.at(HANDSHAKE).open(toolbox)
    async with remembering(store, shops) as bench:
        yield ProxySurface(bench), {name: shop for servers in shops.values() for name, shop in servers.items()}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store" / "catalog.sqlite"


def code_of(result: dict[str, Any]) -> str:
    return result["_meta"]["mcp-workbench/error"]["code"]


async def opened(surface: ProxySurface, toolbox: str = "dev", **arguments: Any) -> dict[str, Any]:
    result = await call(surface, "open_toolbox", {"toolbox": toolbox, **arguments})
    assert "isError" not in result, result
    return json.loads(result["content"][0]["text"])


def identifiers(answer: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(tool["toolbox_name"], tool["source_server"], tool["name"]) for tool in answer["tools"]]


# -- what is refused


async def test_whatever_is_wrong_is_said_and_nothing_is_started(store: Path):
    async with surface(store, known=False) as (served, shops):
        for arguments, text in REFUSED:
            result = await call(served, "open_toolbox", {"toolbox": "dev", **arguments})
            said = error_of(result)
            assert said == text or said.startswith(f"{text}\n"), arguments
            assert len(said.splitlines()) <= 3, said
            assert code_of(result) == "invalid_parameters"
            assert result["_meta"]["mcp-workbench/error"]["toolbox"] == "dev"
        for arguments in ({}, {"tools": ["x"]}, {"detail": "full"}, {"query": None}):
            result = await call(served, "open_toolbox", {"toolbox": "*", **arguments})
            assert error_of(result).splitlines()[:2] == ALL.splitlines(), arguments
            assert code_of(result) == "invalid_parameters"
        assert {name: shop.tried for name, shop in shops.items()} == {"a": 0, "b": 0, "c": 0}


async def test_a_wrong_detail_is_not_answered_with_the_names_of_toolboxes(store: Path):
    async with surface(store, known=False) as (served, _):
        for arguments in ({"detail": "zzz"}, {"tools": [f"t{n}" for n in range(101)]}):
            assert "toolboxes" not in error_of(await call(served, "open_toolbox", {"toolbox": "dev", **arguments}))


async def test_what_is_wrong_is_said_before_whether_the_toolbox_exists(store: Path):
    async with surface(store, known=False) as (served, _):
        result = await call(served, "open_toolbox", {"toolbox": "nothing", "detail": "zzz"})
        assert code_of(result) == "invalid_parameters"
        result = await call(served, "open_toolbox", {"toolbox": "de", "query": "read"})
        assert error_of(result) == "Toolbox 'de' not found\nDid you mean 'dev'? Available toolboxes: 'dev', 'ops'"


@pytest.mark.parametrize("known", [True, False], ids=["known", "never listed"])
async def test_unknown_names_are_named_with_the_nearest(store: Path, *, known: bool):
    async with surface(store, known=known) as (served, shops):
        for names, text in [
            (["raed_file"], "Tool 'raed_file' not found in toolbox 'dev'\nDid you mean 'read_file'?"),
            (["raed_file", "read_file", "delete_fil"], SEVERAL),
            (
                ["zzzzz"],
                "Tool 'zzzzz' not found in toolbox 'dev'\nAvailable tools: 'read_file', 'write_file', 'delete_file'",
            ),
            ([""], "Tool '' not found in toolbox 'dev'"),
            (["restart"], "Tool 'restart' not found in toolbox 'dev'"),
        ]:
            result = await call(served, "open_toolbox", {"toolbox": "dev", "tools": names})
            assert error_of(result).startswith(text), names
            assert result["_meta"]["mcp-workbench/error"] == {"code": "tools_not_found", "toolbox": "dev"}
        assert {name: shop.tried for name, shop in shops.items()} == {"a": 1, "b": 1, "c": int(known)}


async def test_unknown_names_start_nothing_however_old_what_is_known_of_the_toolbox_is(store: Path):
    with own_clock() as clock:
        async with surface(store) as (served, shops):
            clock.later(DEFAULTS.catalog_age_seconds)
            for _ in range(2):
                error_of(await call(served, "open_toolbox", {"toolbox": "dev", "tools": ["raed_file"]}))
                await settle(50)
            assert {name: shop.tried for name, shop in shops.items()} == {"a": 1, "b": 1, "c": 1}
            await opened(served, tools=["read_file"])
            await wait_until(lambda: shops["a"].tried == shops["b"].tried == 2, what="the check of a good one")


async def test_a_name_that_an_invisible_character_hides_is_shown_with_it(store: Path):
    async with surface(store) as (served, _):
        text = error_of(await call(served, "open_toolbox", {"toolbox": "dev", "tools": ["read\u200b\n_file"]}))
        assert text.startswith("Tool 'read\\u200b\\n_file' not found")


async def test_no_more_unknown_names_are_repeated_than_the_limit(store: Path):
    async with surface(store) as (served, _):
        names = [f"unknown_{number}" for number in range(100)]
        text = error_of(await call(served, "open_toolbox", {"toolbox": "dev", "tools": names}))
        assert text.count("'unknown_") == NAMES_SHOWN


async def test_names_that_only_a_server_that_fails_has_are_not_called_unknown(store: Path):
    async with surface(store, known=False) as (served, shops):
        shops["b"].fail()
        result = await call(served, "open_toolbox", {"toolbox": "dev", "tools": ["delete_file"]})
        assert "out of order" in result["content"][0]["text"]


# -- what is taken


async def test_nulls_are_as_absent(store: Path):
    async with surface(store) as (served, _):
        whole = await opened(served)
        assert await opened(served, query=None, tools=None, detail=None) == whole
        assert await opened(served, query="read", tools=None) == await opened(served, query="read")
        assert len(whole["tools"]) == 4


async def test_tools_by_name_are_whole_and_of_every_server_that_has_them(store: Path):
    async with surface(store) as (served, _):
        answer = await opened(served, tools=["write_file", "read_file", "write_file"])
        assert identifiers(answer) == [("dev", "a", "write_file"), ("dev", "a", "read_file"), ("dev", "b", "read_file")]
        assert all("inputSchema" in tool for tool in answer["tools"])
        signatures = await opened(served, tools=["write_file"], detail="signature")
        assert [tool["signature"] for tool in signatures["tools"]] == ["()"]


@pytest.mark.parametrize("detail", ["auto", "full", "signature"])
async def test_every_detail_names_each_tool_by_its_three_parts(store: Path, detail: str):
    async with surface(store) as (served, shops):
        answer = await opened(served, detail=detail)
        expected = [("a", "read_file"), ("a", "write_file"), ("b", "read_file"), ("b", "delete_file")]
        assert identifiers(answer) == [("dev", *one) for one in expected]
        assert all(("signature" in tool) == (detail == "signature") for tool in answer["tools"])
        assert {name: shop.tried for name, shop in shops.items()} == {"a": 1, "b": 1, "c": 1}


async def test_a_search_shows_what_fits_and_what_it_shows_can_be_called(store: Path):
    async with surface(store) as (served, shops):
        answer = await opened(served, query="delete file")
        assert identifiers(answer)[0] == ("dev", "b", "delete_file")
        everywhere = await opened(served, "*", query="restart")
        assert identifiers(everywhere) == [("ops", "c", "restart")]
        assert {name: shop.tried for name, shop in shops.items()} == {"a": 1, "b": 1, "c": 1}
        toolbox, server, tool = identifiers(everywhere)[0]
        used = await call(served, "use_tool", {"tool": {"toolbox": toolbox, "server": server, "tool": tool}})
        assert used["content"][0]["text"] == "s:restart"
        assert shops["c"].tried == 2


async def test_a_search_in_one_toolbox_finds_nothing_of_another(store: Path):
    async with surface(store) as (served, _):
        answer = await opened(served, query="restart")
        assert answer["tools"] == []
        assert answer["note"] == "No tool matches this query. Omit query to get all 4 tools."


async def test_a_search_everywhere_starts_nothing_and_names_who_never_listed(store: Path):
    async with surface(store, known=False) as (served, shops):
        answer = await opened(served, "*", query="restart")
        assert answer == {
            "toolbox": "*",
            "never_listed": {"dev": ["a", "b"], "ops": ["c"]},
            "note": "No tool matches this query. "
            "Not searched: 3 servers whose tools are not known yet. Open their toolboxes first.",
            "tools": [],
        }
        await opened(served, "ops")
        answer = await opened(served, "*", query="restart")
        assert (identifiers(answer), answer["never_listed"]) == ([("ops", "c", "restart")], {"dev": ["a", "b"]})
        assert {name: shop.tried for name, shop in shops.items()} == {"a": 0, "b": 0, "c": 1}


async def test_a_search_opens_the_toolbox_as_every_open_does(store: Path):
    async with surface(store, known=False) as (served, shops):
        answer = await opened(served, query="delete")
        assert identifiers(answer)[:1] == [("dev", "b", "delete_file")]
        assert {name: shop.tried for name, shop in shops.items()} == {"a": 1, "b": 1, "c": 0}


async def test_a_client_of_the_modern_era_asks_in_the_same_way(store: Path):
    async with surface(store) as (served, _):
        result = await call(served, "open_toolbox", {"toolbox": "dev", "detail": "zzz"}, MODERN)
        assert error_of(result).startswith(DETAILS)


# -- reading alone


def raw(value: object) -> Raw:
    return Raw(json.dumps(value).encode())


def test_a_query_is_taken_without_what_surrounds_it_and_up_to_a_length():
    assert read_open(raw({"toolbox": "dev", "query": "  read \n"})).query == "read"
    long = read_open(raw({"toolbox": "dev", "query": "x" * 100_000})).query
    assert long == "x" * QUERY_LENGTH


def test_names_are_taken_once_each_in_their_order():
    assert read_open(raw({"toolbox": "dev", "tools": ["b", "a", "b"]})).tools == ("b", "a")


def test_without_refinements_everything_is_asked_for():
    assert read_open(raw({"toolbox": "dev"})) == OpenArguments("dev")


SCALAR = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
JSON = SCALAR | st.lists(SCALAR, max_size=3) | st.dictionaries(st.text(max_size=5), SCALAR, max_size=2)
KEYS = st.sampled_from(["toolbox", "query", "tools", "detail", "toolbox_name", "extra"])


@settings(max_examples=50)
@given(st.dictionaries(KEYS, JSON | st.sampled_from(["*", "dev", "full", "auto", ["a"]]), max_size=5))
def test_any_arguments_are_read_or_refused(arguments: dict[str, Any]):
    try:
        request = read_open(raw(arguments))
    except InvalidParameters:
        return
    assert request.toolbox == arguments["toolbox"]
    assert not (request.query and request.tools)
    assert request.query or request.toolbox != "*"
    assert set(arguments) <= {"toolbox", "query", "tools", "detail"}
    assert request.detail == arguments.get("detail")
    assert bool(request.query) == (arguments.get("query") is not None)
    assert bool(request.tools) == (arguments.get("tools") is not None)


async def test_a_search_shows_no_more_than_it_is_asked_for(store: Path):
    async with surface(store) as (served, _):
        assert len((await opened(served, query="file"))["tools"]) > 1
        assert len((await opened(served, query="file", limit=1))["tools"]) == 1
        assert len((await opened(served, "*", query="file", limit=1))["tools"]) == 1


@pytest.mark.parametrize("detail", ["auto", "full", "signature"])
async def test_the_configured_detail_is_for_opens_that_do_not_say(store: Path, detail: Any):
    async with surface(store) as (served, _):
        bench = served.workbench
        bench.config = msgspec.structs.replace(bench.config, open_detail=detail)
        for arguments, form in (
            ({}, "signature" if detail == "signature" else "inputSchema"),
            ({"detail": "full"}, "inputSchema"),
            ({"detail": "signature"}, "signature"),
            ({"tools": ["read_file"]}, "inputSchema"),
            ({"query": "read"}, "signature"),
        ):
            assert form in (await opened(served, **arguments))["tools"][0], arguments
