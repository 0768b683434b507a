"""PROPERTY: whatever bytes arrive, `receive` raises nothing, and every call of ours has an outcome once it is over."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.errors import Fault, ServerExited
from mcp_workbench.limits import Limits
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.exchange import Exchange, OnProgress
from mcp_workbench.wire.framing import LineReader
from tests.wire.pair import End, echo, settle

ID = "__ID__"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just(ID),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
MEMBERS: dict[str, st.SearchStrategy[Any]] = {
    "jsonrpc": st.just("2.0") | JSON,
    "id": st.just(ID) | JSON,
    "method": st.sampled_from(["echo", "notifications/progress", "notifications/cancelled", "nonsense"]) | JSON,
    "params": st.fixed_dictionaries({}, optional={"progressToken": JSON, "requestId": JSON}) | JSON,
    "result": JSON,
    "error": st.fixed_dictionaries({"code": JSON, "message": JSON}) | JSON,
}
VALID: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "id": ID, "result": {"ok": True}},
    {"jsonrpc": "2.0", "id": ID, "error": {"code": -1, "message": "no"}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
    {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": 1}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": ID, "progress": 1}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
]


def encoded(message: Any) -> bytes:
    return json.dumps(message).encode()


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid message with some of its bytes changed, cut out or doubled."""
    line = bytearray(encoded(draw(st.sampled_from(VALID))))
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, max(len(line) - 1, 0)))
        match draw(st.sampled_from(["set", "cut", "double"])):
            case "set" if line:
                line[position] = draw(st.integers(0, 255))
            case "cut":
                del line[position : position + draw(st.integers(1, 10))]
            case _:
                line[position:position] = line[: draw(st.integers(0, 20))]
    return bytes(line)


LINE = (
    st.sampled_from(VALID).map(encoded)
    | mutated()
    | st.fixed_dictionaries({}, optional=MEMBERS).map(encoded)
    | st.binary(max_size=40)
)


class Silent:
    request_id = 1

    def notify(self, method: str, params: Any) -> None:
        """Nobody listens."""

    async def ask(self, method: str, params: Any, on_progress: OnProgress | None = None) -> Raw:
        del on_progress
        raise AssertionError((method, params))


async def storm(stream: bytes, cuts: list[int]) -> None:
    end = End()
    end.handler.methods["echo"] = echo
    exchange = Exchange(Caller(version="x", modern=False), Silent(), progress_token=Raw(b"1"))
    calls = [asyncio.ensure_future(end.peer.request("m", {}, exchange.progressed)) for _ in range(3)]
    await settle(2)
    id_ = str(end.writer.sent[0]["id"]).encode()
    data = stream.replace(json.dumps(ID).encode(), id_)
    over: list[Fault | None] = []
    reader = LineReader(end.peer.receive, over.append, Limits().message_bytes)
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for start, stop in itertools.pairwise(bounds):
        reader.data_received(data[start:stop])
        await asyncio.sleep(0)
    reader.eof_received()
    assert over == [None]
    end.peer.close(ServerExited("over"))
    outcomes = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 1)
    assert all(isinstance(outcome, (Raw, Fault)) for outcome in outcomes)
    await settle()
    assert end.peer._pending == {}
    assert end.peer.serving == frozenset()
    for line in end.writer.lines:
        assert json.loads(line)["jsonrpc"] == "2.0"
        assert b"\n" not in line


@settings(max_examples=150, deadline=None)
@given(st.lists(LINE, max_size=8), st.lists(st.integers(0, 2000), max_size=6))
def test_every_pending_call_has_an_outcome_whatever_arrives(lines: list[bytes], cuts: list[int]):
    asyncio.run(storm(b"".join(line + b"\n" for line in lines), cuts))


def test_a_good_answer_between_garbage_is_delivered():
    async def scene() -> Raw:
        end = End()
        call = asyncio.ensure_future(end.peer.request("m", {}))
        await settle(2)
        id_ = end.writer.sent[0]["id"]
        for line in (b"\xff\x00", b"[]", encoded({"jsonrpc": "2.0", "id": id_, "result": {"ok": 1}}), b"{{{"):
            end.peer.receive(line)
        return await call

    assert bytes(asyncio.run(scene())) == b'{"ok": 1}'
