"""Headers of modern requests are judged as the official SDK judges them."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound
from msgspec import Raw

from mcp_workbench.serve.http.connection import ClientConnection
from mcp_workbench.serve.http.modern_request import ModernRequest, check
from mcp_workbench.serve.http.request import HttpRequest, RequestHead
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.wire.param_headers import ReceivedHeaders
from tests.serve.http.serving import BOTH, META

VERSIONS = st.sampled_from(["2026-07-28", "2025-11-25", "2099-01-01", "", 7, None])
METHODS = st.sampled_from(["tools/call", "prompts/get", "resources/read", "tools/list", "ping"])
NAMES = st.sampled_from(["a", "b", "é", "=?base64?YQ==?=", "=?base64?YQ=?=", "", 7, None])
TOKENS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=6)


def request(headers: dict[str, str], body: object) -> HttpRequest:
    wire: ClientConnection = SimpleNamespace()  # type: ignore[assignment]  # nothing is sent here
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    usual = [(b"accept", BOTH.encode()), (b"content-type", b"application/json")]
    head = RequestHead({"method": "POST", "headers": [*usual, *raw]})
    return HttpRequest(head, json.dumps(body).encode(), wire)


@st.composite
def requests(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, Any]]:
    """A good request, of which one or two parts are replaced or missing."""
    method = draw(METHODS)
    named_by = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method)
    meta: dict[str, Any] = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
    params: dict[str, Any] = {"_meta": meta} | ({named_by: "a"} if named_by else {})
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": "a"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    changes: list[tuple[dict[str, Any], str, st.SearchStrategy[Any]]] = [
        (meta, META + "protocolVersion", VERSIONS),
        (meta, META + "clientCapabilities", st.just({})),
        (params, "_meta", st.sampled_from([None, 7, {}])),
        (params, named_by or "name", NAMES),
        (headers, "mcp-protocol-version", st.sampled_from(["2025-11-25", "2099-01-01"])),
        (headers, "mcp-method", METHODS),
        (headers, "mcp-name", st.one_of(st.sampled_from(["b", "=?base64?YQ==?=", "=?base64?YQ=?="]), TOKENS)),
    ]
    for target, key, values in draw(st.lists(st.sampled_from(changes), max_size=2)):
        if draw(st.booleans()):
            target[key] = draw(values)
        else:
            target.pop(key, None)
    return headers, body


@given(requests())
def test_an_envelope_is_judged_as_the_sdk_judges_it(drawn: tuple[dict[str, str], dict[str, Any]]):
    headers, body = drawn
    theirs = inbound.classify_inbound_request(body, headers=headers)
    ours = check(request(headers, body), has_tasks=False)
    if isinstance(theirs, inbound.InboundLadderRejection):
        assert not isinstance(ours, ModernRequest)
        assert json.loads(ours.body)["error"]["code"] == theirs.code
        assert ours.status_code == inbound.ERROR_CODE_HTTP_STATUS[theirs.code]
    else:
        assert isinstance(ours, ModernRequest)


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "x-mcp-header": "Text"},
        "deep": {"type": "object", "properties": {"number": {"type": "integer", "x-mcp-header": "Number"}}},
    },
}
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from([2.0, 2.5, "2", "x", "é", [], {}]))
HEADERS = st.sampled_from(["2", "2.0", "2.5", "02", "x", "true", "=?base64?w6k=?=", "=?base64?x?=", "-3", ""])


@given(
    st.fixed_dictionaries(
        {}, optional={"text": VALUES, "deep": st.fixed_dictionaries({}, optional={"number": VALUES})}
    ),
    st.fixed_dictionaries({}, optional={"mcp-param-text": HEADERS, "mcp-param-number": HEADERS}),
)
def test_mirrored_parameters_are_judged_as_the_sdk_judges_them(arguments: dict[str, Any], headers: dict[str, str]):
    tools = ReceivedHeaders(8)
    tools.learn(Raw(msgspec.json.encode({"tools": [{"name": "t", "inputSchema": SCHEMA}]})))
    params = {"name": Raw(b'"t"'), "arguments": Raw(json.dumps(arguments).encode())}
    given = request(headers, {})
    try:
        tools.check(params, given.headers, given.repeated)
    except RpcError as error:
        code: int | None = error.code
    else:
        code = None
    rejection = inbound.validate_mcp_param_headers(SCHEMA, arguments, headers)
    assert code == (rejection.code if rejection is not None else None)
