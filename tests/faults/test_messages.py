"""Rows A15 to A20: messages that are malformed, strange, not asked for, for somebody else, or far too many."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
import time
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest

from mcp_workbench import Workbench
from mcp_workbench.errors import CallTimeout, Fault, ProtocolViolation, ServerRefused
from mcp_workbench.surfaces.server_info import View
from mcp_workbench.wire.caller import LIBRARY
from tests.faults.outcomes import echoed, peer_of
from tests.peers.rogue_stdio import MALFORMED, QUESTIONS, TEXTS
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.lag import elapsed
from tests.support.library import fault_of, text_of, tool, workbench
from tests.support.near import near
from tests.support.procs import wait_until
from tests.support.wire import Era, Json, Wire, heard, serving
from tests.support.wire import text_of as wire_text


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


# -- A15: malformed

Outcome = Literal["answer", "refusal", "violation", "close", "noise"]
OUTCOMES: dict[str, Outcome] = {
    "bad_utf8": "answer",  # with U+FFFD in its place
    "error_is_string": "refusal",
    "error_code_is_string": "refusal",
    # It does not say which call it answers: the connection is closed, and all calls on it fail.
    "no_id": "close",
    "null_id": "close",
    "object_id": "close",
    # A line like any noise, so only the deadline ends the call.
    "single_quotes": "noise",
}
"""All others: the call that it names fails, and no other."""


@pytest.mark.row("A15")
@pytest.mark.parametrize("variant", MALFORMED)
async def test_a15_a_malformed_answer_ends_its_call_at_once_and_the_server_is_usable_after(
    tmp_path: Path, log: Path, variant: str
):
    boxes = {"dev": {"bad": rogue("malformed", log=log)}}
    async with workbench(tmp_path, boxes, call_idle_timeout_seconds=2.0, drain_seconds=0.0) as wb:
        await wb.open("dev")
        other = asyncio.ensure_future(fault_of(wb.use(tool("bad", "raw"), {"line": " "})))  # an empty line is no answer
        await wait_until(lambda: received(log, "tools/call"), what="another call under way")
        since = time.monotonic()
        [outcome] = await asyncio.gather(wb.use(tool("bad", variant), {}), return_exceptions=True)
        kind = OUTCOMES.get(variant, "violation")
        if kind != "noise":
            assert elapsed(since) < 1
        assert is_outcome(kind, outcome), outcome
        if kind != "noise":
            assert other.done() is (kind == "close")
        nonce = secrets.token_hex()
        assert echoed(await wb.use(tool("bad", "echo"), {"nonce": nonce}))["arguments"] == {"nonce": nonce}
        assert len(starts(log)) == (2 if kind == "close" else 1)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)


def is_outcome(kind: Outcome, outcome: object) -> bool:
    fault = getattr(outcome, "fault", None)
    match kind:
        case "answer":
            return isinstance(outcome, dict)
        case "refusal":
            return isinstance(fault, ServerRefused)
        case "noise":
            return isinstance(fault, CallTimeout)
        case _:
            return isinstance(fault, ProtocolViolation)


@pytest.mark.row("A15")
def test_a15_there_are_twenty_malformed_answers():
    assert len(MALFORMED) >= 20
    assert OUTCOMES.keys() <= MALFORMED.keys()


def mutated(seed: int) -> str:
    """A good answer with a few bytes changed, removed or doubled."""
    dice = random.Random(seed)  # noqa: S311 -- a test case, not a secret
    line = bytearray(b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"x"}]}}')
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(line))
        match dice.randrange(3):
            case 0:
                line[place] = dice.randrange(256)
            case 1:
                del line[place]
            case _:
                line[place:place] = line[place : place + dice.randint(1, 9)]
    return bytes(line).replace(b"\n", b" ").decode("latin-1")


@pytest.mark.row("A15")
async def test_a15_whatever_bytes_answer_a_call_it_has_one_outcome(tmp_path: Path):
    limits = {"call_idle_timeout_seconds": 0.3, "backoff_first_seconds": 0.01, "breaker_failures": 1000}
    async with workbench(tmp_path, {"dev": {"bad": rogue("malformed")}}, **limits) as wb:
        for seed in range(60):
            call = asyncio.gather(wb.use(tool("bad", "raw"), {"line": mutated(seed)}), return_exceptions=True)
            [outcome] = await asyncio.wait_for(call, 5)
            assert isinstance(outcome, dict) or isinstance(getattr(outcome, "fault", None), Fault), mutated(seed)


# -- A16: strange characters

DELIVERED = {
    "surrogate": "half \ufffd emoji",
    "two_halves": "\ufffd\ufffd",
    "whole": "\U0001f642",
    "nul": "a\0b",
    "separator": "a\u2028b\u2029c",
}


@pytest.mark.row("A16")
async def test_a16_strange_characters_are_delivered_and_half_ones_replaced(tmp_path: Path):
    assert DELIVERED.keys() == TEXTS.keys()
    async with serving(write_config(tmp_path, {"dev": {"odd": rogue("texts")}})) as wire:
        for kind, text in DELIVERED.items():
            assert wire_text(await wire.use("dev", "odd", kind)) == text


HALVES = ["\ud83d", "\ude42", "\ud83d\ude42", "\udfff", "\ud800"]
PIECES = ["\0", "\u2028", "\u2029", "\x85", "\ufeff", "\uffff", "\U0010ffff", '"', "\\", "\r", "a", "\\u0041"]


def strange(seed: int, pieces: list[str]) -> str:
    dice = random.Random(seed)  # noqa: S311 -- a test case, not a secret
    text = "".join(dice.choice(pieces) for _ in range(dice.randint(1, 12)))
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")  # halves that met are whole


@pytest.mark.row("A16")
@pytest.mark.parametrize("escaped", [True, False], ids=["escaped", "plain"])
async def test_a16_any_text_arrives_as_it_was_but_for_half_pairs(tmp_path: Path, escaped: bool):  # noqa: FBT001
    pieces = [*PIECES, *HALVES] if escaped else PIECES
    async with workbench(tmp_path, {"dev": {"odd": rogue("malformed")}}) as wb:
        for seed in range(80):
            text = strange(seed, pieces)
            content = [{"type": "text", "text": text}]
            line = json.dumps({"jsonrpc": "2.0", "id": "ID", "result": {"content": content}}, ensure_ascii=escaped)
            sent = line.replace('"ID"', "ID").encode().decode("latin-1")
            whole = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
            assert text_of(await wb.use(tool("odd", "raw"), {"line": sent})) == whole, (seed, ascii(text))


# -- A17: answers that nobody asked for


@pytest.mark.row("A17")
@pytest.mark.parametrize("trick", ["twice", "future", "unknown"])
async def test_a17_an_answer_that_nobody_asked_for_reaches_nobody_and_is_counted(tmp_path: Path, trick: str):
    async with workbench(tmp_path, {"dev": {"eager": rogue("replies")}}) as wb:
        await wb.open("dev")
        strays = peer_of(wb, "eager").strays
        assert echoed(await wb.use(tool("eager", trick), {"n": 0}))["arguments"] == {"n": 0}
        for number in range(1, 6):
            assert echoed(await wb.use(tool("eager", "echo"), {"n": number}))["arguments"] == {"n": number}
        assert peer_of(wb, "eager").strays - strays == (49 if trick == "future" else 1)


@pytest.mark.row("A17")
async def test_a17_a_client_gets_one_answer_to_each_call_whatever_a_server_sends(tmp_path: Path):
    async with serving(write_config(tmp_path, {"dev": {"eager": rogue("replies")}})) as wire:
        for trick in ("twice", "future", "unknown", "echo", "echo"):
            assert heard(await wire.use("dev", "eager", trick, {"n": trick}))["arguments"] == {"n": trick}
        answers = [message["id"] for message in wire.order if "id" in message]
        assert len(answers) == len(set(answers))
        assert wire.stray == []


@pytest.mark.row("A17")
async def test_a17_ids_start_at_a_random_number_that_javascript_can_hold(tmp_path: Path, log: Path):
    boxes = {"dev": {f"s{number}": rogue(log=log) for number in range(4)}}
    async with workbench(tmp_path, boxes) as wb:
        for server in boxes["dev"]:
            await wb.use(tool(server, "echo"), {})
    ids = sorted(call["id"] for call in received(log, "tools/call"))
    assert all(isinstance(number, int) and 0 <= number < 2**52 for number in ids)
    assert all(after - before > 1000 for before, after in pairwise(ids))


# -- A18: answers to other calls


@contextlib.asynccontextmanager
async def two_clients(wb: Workbench) -> AsyncIterator[tuple[Wire, Wire]]:
    async with near(wb, View(), "handshake", {}) as one, near(wb, View(), "modern", {}) as other:
        yield one, other


@pytest.mark.row("A18")
@pytest.mark.parametrize("mode", ["ok", "swap"])
async def test_a18_answers_never_cross_servers_or_clients(tmp_path: Path, mode: str):
    """Two servers, two clients, and 200 calls from each of these to each of those, under way at once.

    A server that swaps its answers can't be told from a good one; still they are answers to the same client's calls.
    """
    boxes = {"dev": {"one": rogue(mode), "two": rogue(mode)}}
    async with workbench(tmp_path, boxes, queued=400) as wb, two_clients(wb) as clients:

        async def check(wire: Wire, server: str) -> None:
            nonces = [f"{clients.index(wire)}-{server}-{number}-{secrets.token_hex(4)}" for number in range(200)]
            results = await asyncio.gather(*(wire.use("dev", server, "nonce", {"nonce": one}) for one in nonces))
            texts = [wire_text(result) for result in results]
            assert sorted(texts) == sorted(nonces)
            assert (texts == nonces) is (mode == "ok")

        await asyncio.gather(*(check(wire, server) for wire in clients for server in ("one", "two")))


# -- A19: questions

ANSWERS: dict[str, Json] = {
    "sampling/createMessage": {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"},
    "elicitation/create": {"action": "decline"},
    "roots/list": {"roots": []},
}
DECLARED: dict[str, Json] = {
    "sampling/createMessage": {"sampling": {}},
    "elicitation/create": {"elicitation": {}},
    "roots/list": {"roots": {}},
}


@pytest.mark.row("A19")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_a19_a_question_that_no_client_declared_to_answer_is_refused(tmp_path: Path, era: Era):
    async with workbench(tmp_path, {"dev": {"asks": rogue("asks_sampling")}}) as wb, near(wb, View(), era, {}) as wire:
        for method in QUESTIONS:
            told = json.loads(wire_text(await wire.use("dev", "asks", "echo", {"method": method})))
            assert told["error"]["code"] == -32601
        assert wire.asked == []


@pytest.mark.row("A19")
@pytest.mark.parametrize("method", QUESTIONS)
async def test_a19_a_question_reaches_the_client_whose_call_it_belongs_to_and_no_other(tmp_path: Path, method: str):
    declared = DECLARED[method]
    async with (
        workbench(tmp_path, {"dev": {"asks": rogue("asks_sampling")}}) as wb,
        near(wb, View(), "handshake", declared) as mine,
        near(wb, View(), "handshake", declared) as other,
    ):
        await other.open("dev")
        use = {"tool": {"toolbox": "dev", "server": "asks", "tool": "echo"}, "arguments": {"method": method}}
        number = await mine.begin("tools/call", {"name": "use_tool", "arguments": use})
        await mine.wait_for(lambda: mine.asked, "the question")
        [question] = mine.asked
        assert question["method"] == method
        await mine.send({"jsonrpc": "2.0", "id": question["id"], "result": ANSWERS[method]})
        message, _ = await mine.finish(number)
        assert json.loads(wire_text(message["result"]))["result"] == ANSWERS[method]
        assert other.asked == []


# -- A20: a storm


@pytest.mark.row("A20")
async def test_a20_a_storm_of_changes_leads_to_one_listing_in_two_seconds_and_one_at_a_time(tmp_path: Path, log: Path):
    """A thousand a second for three seconds, with the limit as it is; with the last of them there is a new tool."""
    async with workbench(tmp_path, {"dev": {"wild": rogue("storm", log=log), "good": rogue()}}) as wb:
        await wb.open("dev")
        await wb.use(tool("wild", "echo"), {"count": 3000})

        def is_current() -> bool:
            listing = wb.at(LIBRARY).catalog.listing("dev", "wild")
            return listing is not None and "after" in listing.tools

        await wait_until(is_current, 15, what="the tool that came with the last change")
    events = [entry for entry in read_log(log) if entry["event"] in ("listing", "listed", "over")]
    [storm] = [entry for entry in events if entry["event"] == "over"]
    begun = [entry["at"] for entry in events if entry["event"] == "listing"]
    assert len(begun) <= 2 + storm["seconds"] / 2 + 1  # before, in, and after the storm
    assert all(after - before > 1.8 for before, after in pairwise(begun))  # the pipe is not always as quick
    order = [entry["event"] for entry in events if entry["event"] != "over"]
    assert order == ["listing", "listed"] * len(begun)
