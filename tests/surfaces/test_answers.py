"""The answer of an open: never dearer than its budget, as much as fits in it, and true in what it leaves out."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition, Withheld, compact
from mcp_workbench.catalog.rendering import budget as token_budget
from mcp_workbench.catalog.rendering import render, signature
from mcp_workbench.catalog.rendering.budget import estimate, usable
from mcp_workbench.catalog.snapshot import Found, Matches, Opened
from mcp_workbench.errors import ConnectFailed, SpawnFailed
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.surfaces import open_response
from mcp_workbench.surfaces.arguments import OpenArguments
from mcp_workbench.surfaces.open_response import ERROR_SHOWN_LEAST_LENGTH, ERROR_SHOWN_LENGTH
from mcp_workbench.text.sanitize import NAMES_SHOWN
from mcp_workbench.wire import jsonrpc
from tests.support.tokens import cost

DEV = OpenArguments("dev")
WHOLE = 'For full definitions: {"toolbox":"TOOLBOX","tools":["NAME"]}'
quickly = settings(max_examples=30, phases=(Phase.explicit, Phase.generate))
LEVELS = (render.entry, signature.entry, signature.outline, signature.brief)


def text_of(answer: Raw) -> str:
    result = json.loads(bytes(answer))
    assert list(result) == ["content"]
    (block,) = result["content"]
    assert block["type"] == "text"
    return block["text"]


def found(name: str, description: str = "", *, server: str = "fs", toolbox: str = "dev", **schema: Any) -> Found:
    said = {"description": description} if description else {}
    tool = {"name": name, **said, "inputSchema": {"type": "object", **schema}, "x-vendor": {"kept": 1.5}}
    definition = Definition.read(compact(Raw(json.dumps(tool, ensure_ascii=False).encode())))
    assert definition is not None
    return ToolIdentifier(toolbox, server, name), definition


def many(count: int, description: str = "Reads a file.\n\nMore of it.", **schema: Any) -> tuple[Found, ...]:
    parameters = {"path": {"type": "string", "description": "Which file, as an absolute path."}}
    return tuple(found(f"tool_{number}", description, properties=parameters, **schema) for number in range(count))


def toolbox(tools: Sequence[Found] = (), **fields: Any) -> Opened:
    return Opened(**{"toolbox": "dev", "description": "Files", "found": tuple(tools), "live": ("fs",)} | fields)


def opened(
    tools: Sequence[Found], request: OpenArguments = DEV, budget: int = 8000, whole: Opened | None = None
) -> tuple[str, dict[str, Any]]:
    """The text of an answer, and what it says."""
    limits = Limits(open_budget_tokens=budget)
    box = whole or toolbox(tools)
    matched = Matches(found=tuple(tools))
    answer = open_response.matches(matched, request, limits, toolbox=box) if request.query else None
    text = text_of(asyncio.run(answer or open_response.opened(box, tools, request, limits)))
    return text, json.loads(text)


def holding(tokens: int) -> int:
    """The smallest budget in which so many tokens can be used."""
    return next(budget for budget in itertools.count(tokens) if usable(budget) >= tokens)


def entries(text: str) -> str:
    """The bytes of the tools of an answer."""
    return text[text.index('"tools":[') + len('"tools":[') : -len("]}")]


def compacted(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def shown_as(text: str, tools: Sequence[Found], level: Any) -> bool:
    return entries(text) == ",".join(bytes(level(*one)).decode() for one in tools)


# -- what is said


def test_a_small_toolbox_is_shown_whole_with_nothing_else():
    tools = many(3)
    text, said = opened(tools)
    assert list(said) == ["toolbox", "description", "servers_connected", "tools"]
    assert shown_as(text, tools, render.entry)
    assert text == json.dumps(said, separators=(",", ":"), ensure_ascii=False)


@pytest.mark.parametrize(
    ("live", "stored", "expected"),
    [
        (("a", "b"), (), {}),
        ((), ("a", "b"), {"stored": True}),
        (("a", "b"), ("c",), {"stored": ["c"]}),
        (("a",), ("c",), {"stored": ["c"]}),
        (("a",), ("b", "c"), {"live": ["a"]}),
        ((), (), {}),
    ],
)
def test_it_says_in_few_words_which_servers_are_from_memory(
    live: tuple[str, ...], stored: tuple[str, ...], expected: dict[str, Any]
):
    _, said = opened((), whole=toolbox(live=live, stored=stored))
    assert {key: said[key] for key in ("stored", "live") if key in said} == expected
    assert said["servers_connected"] == len(live) + len(stored)


def test_what_is_not_offered_is_told_whole_while_that_is_little():
    failed = (ConnectFailed("dev", "db", SpawnFailed(f"it failed: {'because ' * 60}")),)
    withheld = (("fs", Withheld("x" * 200, "its server lists this name more than once")),)
    _, said = opened((), whole=toolbox(failed=failed, withheld=withheld))
    assert said["servers_failed"] == [{"server": "db", "error": str(failed[0].fault)}]
    assert said["tools_withheld"] == [
        {"server": "fs", "name": "x" * 200, "reason": "its server lists this name more than once"}
    ]
    assert not any(key.endswith("_left_out") for key in said)


def test_where_many_servers_fail_their_errors_are_shortened_before_a_tool_is():
    tools = many(20)
    failed = tuple(
        ConnectFailed("dev", f"s{number}", SpawnFailed(f"error {number}: {'more of it ' * 300}"))
        for number in range(50)
    )
    text, said = opened(tools, whole=toolbox(tools, failed=failed))
    assert shown_as(text, tools, render.entry)
    shown = said["servers_failed"]
    assert [one["server"] for one in shown] == [f"s{number}" for number in range(NAMES_SHOWN)]
    assert said["servers_failed_left_out"] == 50 - NAMES_SHOWN
    for number, one in enumerate(shown):
        assert one["error"].startswith(f"error {number}: ")
        assert len(one["error"]) in (ERROR_SHOWN_LENGTH + 1, ERROR_SHOWN_LEAST_LENGTH + 1)


@pytest.mark.parametrize("detail", ["full", "signature"])
def test_who_asks_for_one_form_gets_it_whatever_it_costs(detail: Any):
    tools = many(100)
    failed = tuple(ConnectFailed("dev", f"s{n}", SpawnFailed("why " * 500)) for n in range(40))
    text, said = opened(tools, OpenArguments("dev", detail=detail), 500, toolbox(tools, failed=failed))
    assert shown_as(text, tools, render.entry if detail == "full" else signature.entry)
    assert len(said["servers_failed"]) == 40
    assert ("note" in said) == (detail == "signature")


def test_where_there_are_no_tools_nothing_is_said_of_their_form():
    assert "note" not in opened((), OpenArguments("dev", detail="signature"))[1]
    _, said = opened((), OpenArguments("dev", query="x", detail="signature"))
    assert said["note"] == "No tool matches this query. Omit query to get all 0 tools."


def test_tools_that_were_asked_for_by_name_are_whole_whatever_they_cost():
    tools = many(50, "Long. " * 200)
    text, said = opened(tools, OpenArguments("dev", tools=("tool_1",)), 500)
    assert shown_as(text, tools, render.entry)
    assert "note" not in said
    text, _ = opened(tools, OpenArguments("dev", tools=("tool_1",), detail="signature"), 500)
    assert shown_as(text, tools, signature.entry)


def test_a_whole_entry_is_what_the_server_sent_to_the_last_digit():
    raw = b'{"name":"t","n":1.00,"m":1e400,"toolbox_name":"theirs","inputSchema":{},"s":"\\u00e4 \xc3\xa4"}'
    definition = Definition.read(Raw(raw))
    assert definition is not None
    text, _ = opened([(ToolIdentifier("dev", "fs", "t"), definition)])
    assert entries(text) == bytes(render.entry(ToolIdentifier("dev", "fs", "t"), definition)).decode()
    assert '"n":1.00,"m":1e400' in text
    assert "\\u00e4 ä" in text


def test_each_form_says_how_to_get_a_whole_definition():
    tools = many(60)
    notes = {}
    for budget in (20_000, 3500, 2400, 1900, 1000):
        text, said = opened(tools, budget=budget)
        level = next(level for level in LEVELS if shown_as(text, tools[: len(said["tools"])], level))
        notes[level.__module__.rpartition(".")[2], level.__name__, len(said["tools"]) == 60] = said.get("note")
    left = len(said["tools"])
    assert notes == {
        ("render", "entry", True): None,
        ("signature", "entry", True): f"Signatures only. {WHOLE}",
        ("signature", "outline", True): f"Parameter names and first sentences only. {WHOLE}",
        ("signature", "brief", True): f"First sentences only. {WHOLE}",
        ("signature", "brief", False): f"{left} of 60 tools; use query to find others. First sentences only. {WHOLE}",
    }
    assert said["tools_left_out"] == 60 - left


def test_with_less_to_spend_there_is_less_and_never_more():
    tools, order = many(40), []
    for budget in range(500, 8000, 100):
        text, said = opened(tools, budget=budget)
        level = next(
            number for number, level in enumerate(LEVELS) if shown_as(text, tools[: len(said["tools"])], level)
        )
        order.append((-level, len(said["tools"])))
    assert order == sorted(order)
    assert {level for level, _ in order} == {0, -1, -2, -3}
    assert len({count for _, count in order}) > 5


def test_what_is_spared_is_spent():
    """An answer that leaves tools out uses most of what it may cost, in a language that models know well."""
    tools = many(600, "Reads a file and returns what is in it.")
    for budget in (500, 2000, 8000):
        text, said = opened(tools, budget=budget)
        assert said["tools_left_out"] > 0
        assert budget * 0.6 < cost(text) <= budget


@pytest.mark.parametrize(
    "level", [open_response.FULL, open_response.SIGNATURE, open_response.OUTLINE, open_response.BRIEF]
)
def test_what_just_fits_is_shown_in_that_form(level: Any):
    """To the last token: what a shorter form says of itself does not count against a longer one."""
    tools = tuple(found(f"tool_{number}", f"Does {number}. " + "More. " * 40, x="y" * 900) for number in range(30))
    said = {"toolbox": "dev", "description": "Files", "servers_connected": 1}
    note = {"note": level.note} if level.note else {}
    frame = estimate(jsonrpc.encode({**said, **note, "tools": []}))
    budget = holding(frame + sum(estimate(bytes(level.show(*one))) + 1 for one in tools))
    text, _ = opened(tools, budget=budget)
    assert shown_as(text, tools, level.show)
    assert not shown_as(opened(tools, budget=budget - 1)[0], tools, level.show)


def test_one_tool_that_fits_nowhere_hides_no_other():
    tools = [found("x" * 100_000), *many(5)]
    _, said = opened(tools)
    assert [tool["name"] for tool in said["tools"]] == [one[0].tool for one in many(5)]
    assert said["tools_left_out"] == 1


# -- the servers' own instructions


def test_instructions_stand_once_for_each_server_in_a_plain_open_only():
    advice = {"fs": "Ask before you write.\nNever delete.", "db": "Read only."}
    tools = many(2)
    whole = toolbox(tools, live=("fs", "db"), instructions=advice)
    for request in (DEV, OpenArguments("dev", detail="full"), OpenArguments("dev", detail="signature")):
        text, said = opened(tools, request, whole=whole)
        assert said["instructions"] == advice
        assert list(said)[-1] == "tools", text
    for request in (OpenArguments("dev", query="file"), OpenArguments("dev", tools=("tool_1",))):
        assert "instructions" not in opened(tools, request, whole=whole)[1]


def test_instructions_take_the_room_that_the_tools_leave_and_no_tool_is_shortened_for_them():
    tools = many(60)
    whole_cost = estimate(entries(opened(tools, budget=20_000)[0]).encode())
    advice = {f"s{number}": f"Advice of server {number}. " * 80 for number in range(3)}
    plenty, tight = whole_cost * 3, holding(whole_cost + whole_cost // 8)
    text, said = opened(tools, budget=plenty, whole=toolbox(tools, instructions=advice))
    assert shown_as(text, tools, render.entry)
    assert said["instructions"] == advice
    text, said = opened(tools, budget=tight, whole=toolbox(tools, instructions=advice))
    assert shown_as(text, tools, render.entry), "they are still whole"
    assert list(said["instructions"]) == list(advice)
    assert all(one.endswith(" …") and len(one) < len(advice["s0"]) for one in said["instructions"].values())
    assert estimate(text.encode()) <= usable(tight)


def test_most_of_an_answer_is_for_the_tools_whatever_servers_say():
    tools = many(600)
    advice = {f"s{number}": f"Advice of server {number}. " * 150 for number in range(200)}
    text, said = opened(tools, budget=2000, whole=toolbox(tools, instructions=advice))
    shown = said["instructions"]
    assert shown
    assert said["instructions_left_out"] == 200 - len(shown)
    assert cost(compacted(shown)) <= 2000 // 16 < cost(entries(text))
    _, said = opened(tools, OpenArguments("dev", detail="full"), 2000, toolbox(tools, instructions=advice))
    assert cost(compacted(said["instructions"])) <= 2000 // 4


# -- searches


def test_a_search_that_finds_nothing_says_so_and_how_many_there_are():
    _, said = opened((), OpenArguments("dev", query="zzz"), whole=toolbox(many(7)))
    assert (said["tools"], said["note"]) == ([], "No tool matches this query. Omit query to get all 7 tools.")


LEAN = f"The best matches have signatures, the others first sentences. {WHOLE}"


def lean(tools: Sequence[Found], signatures: int = 5) -> str:
    """The entries of a search: signatures with first sentences, then first sentences alone."""
    shown = [(signature.lean if number < signatures else signature.brief)(*one) for number, one in enumerate(tools)]
    return ",".join(bytes(one).decode() for one in shown)


def test_a_search_shows_five_signatures_and_five_first_sentences_in_its_order():
    tools = many(10)[::-1]
    text, said = opened(tools, OpenArguments("dev", query="file"), whole=toolbox(many(12)))
    assert entries(text) == lean(tools)
    assert said["note"] == LEAN
    assert cost(text) <= 1000
    for detail, level in (("full", render.entry), ("signature", signature.entry)):
        text, _ = opened(tools, OpenArguments("dev", query="file", detail=detail), whole=toolbox(many(12)))
        assert shown_as(text, tools, level)


def test_a_search_costs_a_thousand_tokens_whatever_its_schemas_are():
    long = {f"parameter_{number}": {"type": "string", "description": "Which one it is. " * 9} for number in range(9)}
    large = [found(f"large_{number}", "Does a lot. More.", properties=long) for number in range(10)]
    text, said = opened([*many(1), *large[1:]], OpenArguments("dev", query="file"))
    assert 600 < cost(text) <= 1000
    assert [one.get("signature", "")[:30] for one in said["tools"][:3]] == [
        "(path?: string /* Which file, ",
        "(parameter_0?: string /* Which",
        "(parameter_0?, parameter_1?, p",
    ]
    assert not any("signature" in one for one in said["tools"][5:])
    text, said = opened(many(50), OpenArguments("dev", query="file", limit=50))
    assert len(said["tools"]) == 50
    assert 1000 < cost(text) <= 5000


def test_other_servers_with_the_same_tool_are_named_and_weak_matches_marked():
    tools = many(4)
    others = tuple(ServerIdentifier("ops", f"s{number}") for number in range(5))
    searched = Matches(found=tools, also_in={tools[0][0]: others, tools[1][0]: others[:1]}, is_weak=True)
    said = json.loads(text_of(asyncio.run(open_response.matches(searched, OpenArguments("*", query="x"), Limits()))))
    first, second, *rest = said["tools"]
    assert first["also_in"] == [{"toolbox": "ops", "server": f"s{number}"} for number in range(3)]
    assert (first["also_in_left_out"], second["also_in"]) == (2, [{"toolbox": "ops", "server": "s0"}])
    assert all(one["weak"] is True for one in said["tools"])
    assert not any("also_in" in one for one in rest)
    assert said["note"] == f"No tool matches this query well; these are the closest. {LEAN}"


def matches(found: Sequence[Found], never: Sequence[ServerIdentifier] = (), budget: int = 8000, **fields: Any):
    limits = Limits(open_budget_tokens=budget)
    request = OpenArguments("*", query="x", **fields)
    text = text_of(
        asyncio.run(open_response.matches(Matches(found=tuple(found), never_listed=tuple(never)), request, limits))
    )
    return text, json.loads(text)


def test_a_search_everywhere_keeps_its_order_and_names_each_tool_by_its_three_parts():
    tools = [found("b", toolbox="ops", server="x"), found("a", toolbox="dev", server="y")]
    text, said = matches(tools)
    assert list(said) == ["toolbox", "note", "tools"]
    assert entries(text) == lean(tools)
    parts = [(one["toolbox_name"], one["source_server"], one["name"]) for one in said["tools"]]
    assert parts == [("ops", "x", "b"), ("dev", "y", "a")]
    assert shown_as(matches(tools, detail="signature")[0], tools, signature.entry)
    assert matches(())[1]["note"] == "No tool matches this query."


def test_a_search_everywhere_names_who_was_never_listed_up_to_a_number():
    never = [ServerIdentifier(f"box{number % 3}", f"s{number}") for number in range(NAMES_SHOWN + 5)]
    _, said = matches(many(1), never)
    assert sum(map(len, said["never_listed"].values())) == NAMES_SHOWN
    assert said["never_listed"]["box1"][:2] == ["s1", "s4"]
    assert said["note"] == f"Not searched: 25 servers whose tools are not known yet. Open their toolboxes first. {LEAN}"
    _, few = matches(many(1), never[:2])
    assert few["never_listed"] == {"box0": ["s0"], "box1": ["s1"]}
    assert "2 servers" in few["note"]


# -- the budget, whatever there is to tell

SAYINGS = [
    "Reads a file. The path is absolute; see https://example.com/docs/files?id=42&lang=en#read.",
    "Liest eine Datei ein und gibt ihren Inhalt zurück, höchstens 100 Zeilen.",
    "Читает файл и возвращает его содержимое построчно, начиная с указанной строки.",  # noqa: RUF001
    "ファイルを読み込み、その内容を返します。パスは絶対パスでなければなりません。",
    "读取文件并返回其内容。路径必须是绝对路径。",
    "يقرأ ملفًا ويعيد محتواه سطرًا سطرًا.",
    "फ़ाइल पढ़ता है और उसकी सामग्री लौटाता है।",
    "อ่านไฟล์และส่งคืนเนื้อหาของไฟล์",
    "파일을 읽고 내용을 반환합니다. 경로는 절대 경로여야 합니다.",
    "🙂🚀👩‍👩‍👧‍👦🇩🇪 ✅ 100 % ⚠️",
    "SELECT \"a\", b FROM t WHERE x >= 3.14159 AND y <> 'z';\n\tif (a[i] != {b: 1}) { return null; }",
    "deadbeef0123456789abcdef 6ba7b810-9dad-11d1-80b4-00c04fd430c8 c2VjcmV0IGtleQ== 2026-07-28T12:00:00Z",
    '\x00\x1b[31m\u202e\u200b\ufeff\U000e0041 \\\\ " \t',
]
CUT_BADLY = ["zxqvj wkpfgh bcdmntr QXZJV PLMOKN xkcdqwz", "𐍈𒀀𓀀 ⴰⵣⵓⵍ ᏣᎳᎩ ꦧꦱ"]
"""Nonsense, and scripts that tokenizers hardly know."""
PIECE = st.integers(0, len(SAYINGS) - 1)
TALK = st.tuples(PIECE, PIECE, st.sampled_from([1, 2, 5, 30]))
NAME = st.sampled_from(
    [
        "read_file",
        "GetCurrentWeatherByCityName",
        "dateien-lesen",
        "読む",
        "list_all_of_the_things_that_there_are_in_a_place",
        "a/b.c:d",
    ]
)
TYPE = st.sampled_from(["string", "integer", "array", "object", "boolean"])
LABELS = [
    "fs",
    "github-enterprise",
    ("проект-" * 20)[:128],
    "データベース",
    ("a-rather-long-name-" * 7)[:128],
    "🙂 tools",
]
LABEL = st.integers(0, len(LABELS) - 1)


class Kind(NamedTuple):
    """A tool in few words."""

    name: str
    about: tuple[int, int, int]
    parameters: dict[str, tuple[str, tuple[int, int, int]]]
    values: int

    def found(self, number: int, server: str, toolbox: str) -> Found:
        properties = {
            name: {"type": kind, "description": talk(about), "enum": SAYINGS[: self.values]}
            for name, (kind, about) in self.parameters.items()
        }
        return found(f"{self.name}_{number}", talk(self.about), server=server, toolbox=toolbox, properties=properties)


def talk(saying: tuple[int, int, int]) -> str:
    first, second, times = saying
    return f"{SAYINGS[first]} {SAYINGS[second]} " * times


class Recipe(NamedTuple):
    """A toolbox in few words: a few different tools, many times over, servers that fail, tools that are withheld."""

    kinds: list[Kind]
    tools: int
    labels: tuple[int, int]
    about: tuple[int, int, int]
    error: tuple[int, int, int]
    failed: int
    held: int
    servers: int
    live: int
    advice: tuple[int, int, int] = (0, 0, 0)

    def opened(self) -> Opened:
        server, box = (LABELS[number] for number in self.labels)
        names = tuple(f"{server}{number}"[-128:] for number in range(self.servers))
        fault, reason = SpawnFailed(talk(self.error)), "its definition has 300000 bytes (at most 262144)"
        return Opened(
            toolbox=box,
            description=talk(self.about)[:2000],
            found=tuple(self.kinds[n % len(self.kinds)].found(n, server, box) for n in range(self.tools) if self.kinds),
            live=names[: self.live],
            stored=names[self.live :],
            failed=tuple(ConnectFailed(box, f"{server}{number}"[-128:], fault) for number in range(self.failed)),
            withheld=tuple((server, Withheld(talk(self.error), reason)) for _ in range(self.held)),
            instructions={name: advice for name in names if (advice := talk(self.advice))},
        )


KINDS = st.builds(Kind, NAME, TALK, st.dictionaries(NAME, st.tuples(TYPE, TALK), max_size=3), st.integers(0, 5))
RECIPES = st.builds(
    Recipe,
    st.lists(KINDS, max_size=4),
    st.sampled_from([0, 1, 3, 10, 60, 300]),
    st.tuples(LABEL, LABEL),
    TALK,
    TALK,
    st.sampled_from([0, 1, 5, 21, 100]),
    st.sampled_from([0, 1, 5, 21, 200]),
    st.sampled_from([1, 2, 30, 101]),
    st.sampled_from([0, 1, 20, 101]),
    st.tuples(PIECE, PIECE, st.sampled_from([0, 1, 5, 30])),
)


def check_answer(text: str, tools: Sequence[Found], budget: int) -> None:
    """It costs no more than it may, and says truly what it left out."""
    said = json.loads(text)
    assert cost(text) <= budget
    shown = [(one["toolbox_name"], one["source_server"], one["name"]) for one in said["tools"]]
    there = {identifier.parts(): found for found in tools for identifier in [found[0]]}
    assert [parts for parts in there if parts in set(shown)] == shown  # in their order, and each once
    assert said.get("tools_left_out") == (len(tools) - len(shown) or None)
    if "query" not in said.get("note", "") and LEAN not in said.get("note", ""):
        assert any(shown_as(text, [there[parts] for parts in shown], level) for level in LEVELS)


@quickly
@given(RECIPES, st.integers(3000, 30_000))
def test_nothing_is_sent_that_was_not_counted(recipe: Recipe, budget: int):
    """If bytes were what an answer costs, no answer would have more bytes than it may."""
    whole = recipe.opened()
    with mock.patch.object(open_response, "estimate", len), mock.patch.object(token_budget, "estimate", len):
        text, _ = opened(whole.found, budget=budget, whole=whole)
        assert len(text.encode()) <= budget
        tools = whole.found[: DEFAULTS.matches]
        text, _ = opened(tools, OpenArguments(whole.toolbox, query="x"), budget, whole)
        assert len(text.encode()) <= budget


@quickly
@given(RECIPES, st.integers(500, 20_000))
def test_whatever_there_is_to_tell_an_answer_costs_no_more_than_it_may(recipe: Recipe, budget: int):
    whole = recipe.opened()
    text, said = opened(whole.found, budget=budget, whole=whole)
    check_answer(text, whole.found, budget)
    lists = {"servers_failed": whole.failed, "tools_withheld": whole.withheld, "instructions": whole.instructions}
    for key, there in lists.items():
        assert len(said.get(key, ())) + said.get(f"{key}_left_out", 0) == len(there)
    assert said["toolbox"] == whole.toolbox
    assert said["servers_connected"] == whole.servers_connected


@settings(quickly, max_examples=12)
@given(RECIPES, st.integers(500, 20_000), st.sampled_from([0, 1, 19, 21, 300]), LABEL)
@example(Recipe([], 0, (2, 2), (0, 0, 1), (0, 0, 1), 0, 0, 1, 1), 500, 300, 2)
def test_so_does_a_search(recipe: Recipe, budget: int, never: int, label: int):
    whole = recipe.opened()
    tools = whole.found[: DEFAULTS.matches]
    text, _ = opened(tools, OpenArguments(whole.toolbox, query="x"), budget, whole)
    check_answer(text, tools, budget)
    names = [f"{LABELS[label]}{number}"[-128:] for number in range(never)]
    text, _ = matches(tools, [ServerIdentifier(name, name) for name in names], budget)
    check_answer(text, tools, budget)


def saying_tools(saying: str) -> list[Found]:
    parameters = {"p": {"type": "string"}}
    return [found(f"tool_{n}", f"{saying} {n}. {saying}", properties=parameters) for n in range(400)]


@pytest.mark.parametrize("saying", SAYINGS)
def test_in_any_language_an_answer_is_within_its_budget(saying: str):
    tools = saying_tools(saying)
    for budget in (500, 1000, 8000, 20_000):
        for count in (5, 20, 100, 400):
            check_answer(opened(tools[:count], budget=budget)[0], tools[:count], budget)


@pytest.mark.parametrize("saying", CUT_BADLY)
def test_what_no_estimate_foresees_is_not_without_bounds_either(saying: str):
    tools = saying_tools(saying)
    for budget in (500, 8000):
        assert cost(opened(tools, budget=budget)[0]) <= 3 * budget


# -- hostile definitions


def refs(count: int) -> dict[str, Any]:
    properties = {f"p{number}": {"$ref": f"#/$defs/d{number}"} for number in range(count)}
    chained = {
        f"d{number}": {"properties": {"a": {"$ref": f"#/$defs/d{number + 1}"}, "b": {"$ref": f"#/$defs/d{number + 1}"}}}
        for number in range(count)
    }
    return {"properties": properties, "$defs": chained}


SLOWER = 2
"""CPU time for the same work doubles where two programs share a core."""
HOSTILE: dict[str, dict[str, Any]] = {
    "references": refs(1800),
    "one reference, repeated": {"properties": {"a": {"anyOf": [{"$ref": "#/$defs/d"}] * 9000}}, "$defs": {"d": {}}},
    "values": {"properties": {"a": {"enum": [f"v{number}" for number in range(20_000)]}}},
    "required names": {"required": [f"r{number}" for number in range(20_000)]},
    "nulls": {"properties": {f"p{number}": None for number in range(20_000)}},
    "a default": {"properties": {"a": {"default": [[]] * 60_000}}},
    "a description": {"properties": {"a": {"type": "string", "description": "a b " * 60_000}}},
    "unions": {"properties": {"a": {"anyOf": [{"properties": {"b": {"type": "string"}}}] * 249}}},
}


@pytest.mark.parametrize("schema", HOSTILE.values(), ids=HOSTILE)
def test_an_open_of_hostile_definitions_is_bounded_in_work_and_takes_turns(schema: dict[str, Any]):
    tools = [found(f"tool_{number}", "Text. " * 5, **schema) for number in range(64)]
    request = OpenArguments("dev", detail="signature")

    async def timed() -> tuple[float, float]:
        """The CPU time of an answer, and the longest stretch between two turns of the event loop."""
        answer = asyncio.create_task(open_response.opened(toolbox(tools), tools, request, Limits()))
        begun = turned = time.process_time()
        longest = 0.0
        while not answer.done():
            await asyncio.sleep(0)
            longest, turned = max(longest, time.process_time() - turned), time.process_time()
        return time.process_time() - begun, longest

    async def twice() -> tuple[tuple[float, float], tuple[float, float]]:
        return await timed(), await timed()

    (first, longest), (again, _) = asyncio.run(twice())
    assert first <= 0.3 * SLOWER
    assert longest <= 0.1
    assert again <= 0.01 * SLOWER
