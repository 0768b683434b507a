"""Headers of modern requests and statuses, compared with what the SDK makes of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared import inbound
from msgspec import Raw

from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.servers.http.request_headers import modern
from mcp_workbench.servers.http.status_errors import retry_after
from mcp_workbench.wire import param_headers
from mcp_workbench.wire.param_headers import SentHeaders

NAMES = st.sampled_from(["a", "b", "Region", "region", "x y", ""])
SCALARS = st.one_of(
    st.text(), st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)
)


def schemas() -> st.SearchStrategy[Any]:
    """Schemas with annotations in all sorts of places."""
    leaf = st.fixed_dictionaries(
        {"type": st.sampled_from(["string", "integer", "boolean", "number", "object"])},
        optional={"x-mcp-header": st.one_of(NAMES, st.integers())},
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.fixed_dictionaries({"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)}),
            st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=2)}),
            st.fixed_dictionaries({"items": inner}),
            st.fixed_dictionaries({"$defs": st.dictionaries(NAMES, inner, max_size=2)}),
        ),
        max_leaves=6,
    )


@given(st.text())
def test_a_value_is_encoded_as_the_sdk_encodes_it(value: str):
    assert param_headers.encode(value) == inbound.encode_header_value(value)
    assert inbound.decode_header_value(param_headers.encode(value)) == value


@given(st.one_of(st.text(), st.from_regex(r"=\?base64\?[A-Za-z0-9+/=]{0,12}\?=", fullmatch=True)))
def test_a_value_is_decoded_as_the_sdk_decodes_it(value: str):
    assert param_headers.decode(value) == inbound.decode_header_value(value)


@given(schemas())
def test_annotations_are_judged_as_the_sdk_judges_them(schema: Any):
    if inbound.find_invalid_x_mcp_header(schema) is not None:
        assert param_headers.mirrored_parameters(schema) is None
    else:
        found = param_headers.mirrored_parameters(schema) or {}
        assert {path: one.header for path, one in found.items()} == inbound.x_mcp_header_map(schema)


@given(st.fixed_dictionaries({}, optional={"a": SCALARS, "deep": st.fixed_dictionaries({}, optional={"b": SCALARS})}))
def test_parameters_are_mirrored_as_the_sdk_mirrors_them(arguments: dict[str, Any]):
    deep = {"type": "object", "properties": {"b": {"type": "string", "x-mcp-header": "B"}}}
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}, "deep": deep}}
    mirrors = SentHeaders(ServerIdentifier("dev", "far"), DEFAULTS)
    mirrors.learn(msgspec.json.encode({"id": 1, "result": {"tools": [{"name": "t", "inputSchema": schema}]}}))
    expected = inbound.mcp_param_headers(inbound.x_mcp_header_map(schema), arguments)
    found = mirrors.headers("t", Raw(msgspec.json.encode(arguments)))
    assert found == {name.lower().replace("-a", "-A").replace("-b", "-B"): value for name, value in expected.items()}


def test_what_is_kept_of_lists_is_bounded():
    mirrors = SentHeaders(ServerIdentifier("dev", "far"), Limits(mirrored_tools=2))
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}
    tools = [{"name": str(number), "inputSchema": schema} for number in range(5)]
    mirrors.learn(msgspec.json.encode({"result": {"tools": tools}}))
    assert [mirrors.knows(str(number)) for number in range(5)] == [True, True, False, False, False]


@pytest.mark.parametrize("message", [b'{"x-mcp-header": 1}', b'"x-mcp-header"', b'{"result":{"tools":"x-mcp-header"}}'])
def test_a_message_that_is_no_list_passes_as_it_is(message: bytes):
    assert SentHeaders(ServerIdentifier("dev", "far"), DEFAULTS).learn(message) == message


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", b'{"name":"a b"}', "a b"),
        ("prompts/get", b'{"name":"p"}', "p"),
        ("resources/read", b'{"uri":"file:///x"}', "file:///x"),
        ("tasks/get", b'{"taskId":"7"}', "7"),
        ("tools/list", b'{"name":"no"}', None),
        ("tools/call", b'{"name":7}', None),
    ],
)
def test_a_modern_request_names_what_it_is_about(method: str, params: bytes, name: str | None):
    members = msgspec.json.decode(params, type=dict[str, Raw])
    headers = modern(method, members, "2026-07-28")
    assert headers.get("mcp-name") == name
    assert headers["mcp-method"] == method


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("7", 7.0), (" 0 ", 0.0), ("999999", 3600.0), ("-1", None), ("soon", None), ("", None), (None, None)],
)
def test_a_time_to_wait_is_read_and_bounded(said: str | None, seconds: float | None):
    assert retry_after(said) == seconds


@pytest.mark.parametrize(("ahead", "least", "most"), [(30, 25, 30), (-30, 0, 0), (10**6, 3600, 3600)])
def test_a_date_to_wait_for_is_read_and_bounded(ahead: int, least: float, most: float):
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=ahead), usegmt=True)
    found = retry_after(moment)
    assert found is not None
    assert least <= found <= most
