"""What a client may send: any bytes, and sessions of both eras with anything wrong in them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import client_wire
from tests.fuzz.client_wire import ENVELOPE, USE
from tests.fuzz.corpus import Case, as_expected, kept, noted, trying, unpack
from tests.fuzz.server_words import INITIALIZE, VIEWS
from tests.fuzz.shapes import cuts, dump, encoded, lines_of, spoiled

OPEN = {"name": "open_toolbox", "arguments": {"toolbox": "dev"}}
ARGUMENT = {"name": "x", "value": ""}
REQUESTS: list[tuple[str, Any]] = [
    ("tools/call", USE),
    ("tools/call", OPEN),
    ("tools/call", {"name": "dev__a__t", "arguments": {"x": 1}}),
    ("tools/call", {**USE, "task": {"ttl": 1}, "requestState": "s", "inputResponses": {"k": {}}}),
    ("tools/list", {"cursor": "0"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "dev__a__p", "arguments": {}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "mem://a"}),
    ("resources/subscribe", {"uri": "mem://a"}),
    ("resources/unsubscribe", {"uri": "mem://a"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "dev__a__p"}, "argument": ARGUMENT}),
    ("completion/complete", {"ref": {"type": "ref/resource", "uri": "a://{x}"}, "argument": ARGUMENT}),
    ("logging/setLevel", {"level": "info"}),
    ("tasks/list", {}),
    ("tasks/get", {"taskId": "a:1"}),
    ("tasks/cancel", {"taskId": "a:1"}),
    ("ping", {}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["mem://a"]}}),
    ("server/discover", {}),
    ("initialize", INITIALIZE),
    ("vendor/thing", {}),
]
NOTICES: list[dict[str, Any]] = [
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1, "reason": "r"}},
    {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}},
    {"jsonrpc": "2.0", "method": "vendor/said", "params": {}},
    {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}},
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}},
]
HANDSHAKE = [
    {"jsonrpc": "2.0", "id": number % 4, "method": method, "params": params}
    for number, (method, params) in enumerate(REQUESTS)
]
MODERN = [{**request, "params": {**request["params"], "_meta": ENVELOPE}} for request in HANDSHAKE]
streams = {
    begins: st.lists(lines_of([*messages, *NOTICES]), max_size=6).map(b"".join).map(unpack)
    for begins, messages in {"": [*HANDSHAKE, *MODERN], "handshake": HANDSHAKE, "modern": MODERN}.items()
}
sessions = st.sampled_from(sorted(streams)).flatmap(
    lambda begins: st.builds(
        Case,
        begins=st.just(begins),
        stream=streams[begins],
        cuts=cuts,
        view=st.sampled_from(sorted(VIEWS)),
        server=st.sampled_from(["handshake", "modern"]),
    )
)


@trying(80)
@given(sessions)
def test_every_request_has_one_answer_and_the_next_is_served_whatever_a_client_sends(case: Case):
    with noted("client", case):
        client_wire.check(case)


NAMED_BY = {"prompts/get": "name", "resources/read": "uri", "resources/subscribe": "uri"}


def is_wrong(message: Any) -> bool:
    """Whether a message is certain to concern no server: what it means is not there, or has no sense."""
    try:
        message = json.loads(dump(message))
    except (ValueError, RecursionError):
        return False
    if not isinstance(message, dict) or not isinstance(message.get("params"), dict):
        return True
    method, params = str(message.get("method")), message["params"]
    if method == "tools/call":
        return is_wrong_call(params)
    if method == "completion/complete":
        ref = params.get("ref")
        return not isinstance(ref, dict) or ref.get("type") not in ("ref/prompt", "ref/resource")
    return method in NAMED_BY and not isinstance(params.get(NAMED_BY[method]), str)


def is_wrong_call(params: dict[str, Any]) -> bool:
    arguments = params.get("arguments")
    if not isinstance(arguments, dict) or params.get("name") not in ("use_tool", "open_toolbox"):
        return True
    if params["name"] == "open_toolbox":
        return arguments != {"toolbox": "dev"}
    tool = arguments.get("tool")
    if not isinstance(tool, dict) or set(arguments) - {"tool", "arguments"}:
        return True
    is_known = {**tool, "tool": None} == {"toolbox": "dev", "server": "a", "tool": None}
    is_named = isinstance(tool.get("tool"), str) and tool["tool"]
    return not (is_known and is_named and isinstance(arguments.get("arguments", {}), dict | str))


CONTACTING = ("tools/call", "prompts/get", "resources/read", "resources/subscribe", "completion/complete")
wrong = {
    begins: st.lists(
        st.sampled_from([one for one in messages if one["method"] in CONTACTING and "task" not in one["params"]])
        .flatmap(spoiled)
        .filter(is_wrong)
        .map(encoded),
        min_size=1,
        max_size=5,
    ).map(lambda lines: unpack(b"\n".join(lines)))
    for begins, messages in {"handshake": HANDSHAKE, "modern": MODERN}.items()
}


@trying(50)
@given(
    st.sampled_from(sorted(wrong)).flatmap(
        lambda begins: st.builds(Case, begins=st.just(begins), stream=wrong[begins], contacts=st.just(0))
    )
)
def test_what_has_the_wrong_shape_contacts_no_server_and_the_next_good_request_contacts_one(case: Case):
    with noted("client_contacts", case):
        client_wire.check(case)


@pytest.mark.parametrize("case", kept("client"))
def test_what_a_client_once_made_trouble_with_is_answered(case: Case):
    as_expected(case, client_wire.check(case))
