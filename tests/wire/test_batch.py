"""The answers to a batch, while they wait for each other."""

from __future__ import annotations

import json

from mcp_workbench.limits import DEFAULTS
from mcp_workbench.wire.batch import Answers
from mcp_workbench.wire.jsonrpc import Id


async def test_answers_that_are_too_large_together_are_replaced_by_an_error_each():
    sent: list[bytes] = []

    def send(line: bytes, _about: Id | None) -> None:
        sent.append(line)

    answers = Answers(1, send)
    large = b'{"id":1,"result":"%s"}' % (b"x" * (DEFAULTS.batch_bytes * 2 // 3))
    small = b'{"id":3,"result":{}}'
    answers.write(large, 1)
    answers.write(large.replace(b"1", b"2", 1), 2)
    answers.write(small, 3)
    answers.complete()
    assert len(sent[0]) < DEFAULTS.batch_bytes
    first, second, third = json.loads(sent[0])
    assert (first["id"], third) == (1, json.loads(small))
    assert second["id"] == 2
    assert "Send this request by itself" in second["error"]["message"]
