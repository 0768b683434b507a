"""The answers to a batch, while they wait for each other."""

from __future__ import annotations

import asyncio
import json

from msgspec import Raw

from mcp_workbench.wire.batch import BATCH_BYTES, VERSION, BatchResponse, read_batch
from mcp_workbench.wire.exchange import OpenRequest
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT, Envelope
from mcp_workbench.wire.memory_budget import MEMORY_SMALL_BYTES, Account
from mcp_workbench.wire.peer import Peer
from tests.wire.pair import MemoryWriter, Recorder


async def test_answers_that_are_too_large_together_are_replaced_by_an_error_each():
    sent: list[Envelope] = []
    answers = BatchResponse(1, sent.append)
    large = Raw(b'"%s"' % (b"x" * (BATCH_BYTES * 2 // 3)))
    answers.write(Envelope(large, 1))
    answers.write(Envelope(large, 2))
    answers.write(Envelope(EMPTY_OBJECT, 3))
    answers.complete()
    [array] = sent
    assert (array.about, array.is_answer) == (1, True)
    assert len(array.line) < BATCH_BYTES
    first, second, third = json.loads(array.line)
    assert (first["id"], third) == (1, {"jsonrpc": "2.0", "id": 3, "result": {}})
    assert second["id"] == 2
    assert "Send this request on its own" in second["error"]["message"]


async def test_the_requests_of_a_batch_are_counted_while_they_are_answered():
    account, handler, may_end = Account(), Recorder(), asyncio.Event()

    async def slow(params: dict[str, Raw], line: OpenRequest) -> Raw:
        del params, line
        await may_end.wait()
        return EMPTY_OBJECT

    handler.methods["slow"] = slow
    peer = Peer(MemoryWriter(), handler, account=account)
    size = 2 * MEMORY_SMALL_BYTES
    request = {"jsonrpc": "2.0", "id": 1, "method": "slow", "params": {"text": "x" * size}}
    peer.receive_batch(read_batch(json.dumps([request]).encode(), VERSION, 10))
    assert account.held >= size
    may_end.set()
    await asyncio.wait(peer.serving)
    await asyncio.sleep(0)
    assert account.held == 0
