"""What a server may send: any bytes on its wire, anything in any of its answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import server_wire, server_words
from tests.fuzz.corpus import Case, as_expected, kept, noted, trying, unpack
from tests.fuzz.puppets import ID, good_results
from tests.fuzz.shapes import broken, cuts, encoded, lines_of, scratched, spoiled

MESSAGES: list[dict[str, Any]] = [
    *({"jsonrpc": "2.0", "id": ID + n, "result": {"n": n}} for n in range(3)),
    {"jsonrpc": "2.0", "id": ID, "error": {"code": -1, "message": "no", "data": {}}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "Invalid request"}},
    {"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": 1}},
    {"jsonrpc": "2.0", "id": "x", "method": "ping"},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": ID, "progress": 1}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}},
]


@trying(120)
@given(st.builds(Case, stream=st.lists(lines_of(MESSAGES), max_size=7).map(b"".join).map(unpack), cuts=cuts))
def test_every_request_to_a_server_has_one_outcome_whatever_it_sends(case: Case):
    with noted("server_wire", case):
        server_wire.check(case)


UNASKED: list[dict[str, Any]] = [
    *({"jsonrpc": "2.0", "method": f"notifications/{kind}/list_changed"} for kind in ("tools", "prompts", "resources")),
    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "logger": "l", "data": "x"}},
    {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "mem://a"}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": ID, "progress": 1, "total": 2}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ID, "reason": "r"}},
    {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": "1", "status": "working"}},
    {"jsonrpc": "2.0", "method": "notifications/tasks", "params": {"taskId": "1", "status": "completed"}},
    {"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": "1"}},
    {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": {}, "_meta": {"io.modelcontextprotocol/subscriptionId": ID}},
    },
    {"jsonrpc": "2.0", "id": 1, "method": "roots/list"},
    {"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}},
    {"jsonrpc": "2.0", "id": 2, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
    {"jsonrpc": "2.0", "id": 3, "method": "ping"},
    {"jsonrpc": "2.0", "id": 4, "method": "vendor/thing", "params": {"_meta": {"progressToken": 1}}},
]
RESULTS = {**good_results("a", modern=True), **good_results("a", modern=False)}
QUESTION = {
    "resultType": "input_required",
    "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "?"}}},
    "requestState": "s",
}
TASK = {
    "task": {"taskId": "1", "status": "working"},
    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}},
}
LINK = {"content": [{"type": "resource_link", "uri": "mem://x"}, {"type": "resource", "resource": {"uri": "mem://y"}}]}


def answers(method: str) -> st.SearchStrategy[bytes]:
    """What a server may answer to a method."""
    good: list[Any] = [RESULTS[method]]
    if method in ("tools/call", "prompts/get", "resources/read", "tasks/result"):
        good += [QUESTION, TASK, LINK]
    if method.endswith("/list"):
        good.append({**RESULTS[method], "nextCursor": "n"})
    result = st.sampled_from(good).flatmap(lambda one: spoiled(one, least=0))
    error = spoiled({"code": -32602, "message": "no", "data": {"a": 1}}, least=0)
    message = (
        result.map(lambda one: {"jsonrpc": "2.0", "id": ID, "result": one})
        | result.map(lambda one: {"jsonrpc": "2.0", "id": ID, "result": one})
        | error.map(lambda one: {"jsonrpc": "2.0", "id": ID, "error": one})
    )
    line = message.map(encoded) | message.flatmap(broken).map(encoded) | message.map(encoded).flatmap(scratched)
    return line.map(lambda one: one + b"\n") | st.sampled_from([b"", b"\n"])


unasked = st.lists(lines_of(UNASKED), max_size=2).map(b"".join)
replies = st.lists(st.sampled_from(sorted(RESULTS)), min_size=1, max_size=3, unique=True).flatmap(
    lambda methods: st.fixed_dictionaries(
        {
            method: st.lists(
                st.tuples(unasked, answers(method), unasked).map(lambda parts: unpack(b"".join(parts))),
                min_size=1,
                max_size=3,
            )
            for method in methods
        }
    )
)
eras = st.sampled_from(["handshake", "modern"])
situations = st.builds(
    Case,
    view=st.sampled_from(sorted(server_words.VIEWS)),
    client=eras,
    server=eras,
    replies=replies,
    at_once=st.booleans(),
    cancels=st.just([]) | st.lists(st.integers(2, 25), max_size=4),
)


@trying(60)
@given(situations)
def test_every_request_of_a_client_is_answered_whatever_a_server_says(case: Case):
    with noted("server_words", case):
        server_words.check(case)


@pytest.mark.parametrize("case", kept("server"))
def test_what_a_server_once_made_trouble_with_is_survived(case: Case):
    as_expected(case, server_wire.check(case) if "stream" in case else server_words.check(case))
