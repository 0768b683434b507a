"""Envelopes: what is read, what is repaired, what is refused; and ids that cannot be guessed."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import (
    CUT_BRACKETS,
    CUT_BYTES,
    CUT_DEPTH,
    EMPTY_OBJECT,
    REPAIR_BYTES,
    UNSET,
    Envelope,
    Ids,
    RpcError,
    Unreadable,
    read,
)


def unreadable(line: bytes) -> Unreadable:
    with pytest.raises(Unreadable) as caught:
        read(line)
    return caught.value


# -- the four kinds


def test_a_request_keeps_its_params_as_the_bytes_they_were():
    message = read(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"n": 1.00, "m":1e400}}')
    assert (message.id, message.method) == (7, "tools/call")
    assert {name: bytes(value) for name, value in message.params.items()} == {"n": b"1.00", "m": b"1e400"}


def test_a_notification_has_no_id_and_a_null_id_is_not_the_same():
    assert read(b'{"jsonrpc":"2.0","method":"x"}').id is UNSET
    assert read(b'{"jsonrpc":"2.0","id":null,"method":"x"}').id is None


def test_a_response_has_a_result_or_an_error_and_null_is_a_result():
    assert bytes(read(b'{"jsonrpc":"2.0","id":1,"result":null}').result) == b"null"
    assert jsonrpc.is_present(read(b'{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"x"}}').error)
    assert read(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}').id is None


@pytest.mark.parametrize("id_", [0, -1, 2**53, 10**30, "", "a", "\u2028"])
def test_any_whole_number_or_string_is_an_id(id_: int | str):
    line = json.dumps({"jsonrpc": "2.0", "id": id_, "method": "x"}).encode()
    assert read(line).id == id_


def test_an_unknown_member_is_ignored_and_of_a_duplicate_the_last_one_counts():
    message = read(b'{"jsonrpc":"2.0","extra":[1],"id":1,"id":2,"method":"a","method":"b","params":1,"params":{"c":3}}')
    assert (message.id, message.method) == (2, "b")
    assert {name: bytes(value) for name, value in message.params.items()} == {"c": b"3"}


@pytest.mark.parametrize("params", [b"[]", b"1", b'"x"', b"true", b'"\\ud800"'])
def test_params_that_are_no_object_are_told_from_params_that_are_missing(params: bytes):
    message = read(b'{"jsonrpc":"2.0","id":1,"method":"x","params":%b}' % params)
    assert isinstance(message.params, jsonrpc.NotAnObject)
    for none in (b"", b',"params":null', b',"params":{}'):
        assert not isinstance(read(b'{"jsonrpc":"2.0","id":1,"method":"x"%b}' % none).params, jsonrpc.NotAnObject)


# -- what is no message

MALFORMED = {
    "nothing": b"",
    "text": b"Starting server...",
    "number": b"5",
    "string": b'"jsonrpc"',
    "null": b"null",
    "array": b'[{"jsonrpc":"2.0","id":1,"method":"x"}]',
    "empty object": b"{}",
    "no version": b'{"id":1,"method":"x"}',
    "wrong version": b'{"jsonrpc":"1.0","id":1,"method":"x"}',
    "version is a number": b'{"jsonrpc":2.0,"id":1,"method":"x"}',
    "float id": b'{"jsonrpc":"2.0","id":1.5,"method":"x"}',
    "whole float id": b'{"jsonrpc":"2.0","id":1.0,"method":"x"}',
    "bool id": b'{"jsonrpc":"2.0","id":true,"method":"x"}',
    "object id": b'{"jsonrpc":"2.0","id":{},"method":"x"}',
    "array id": b'{"jsonrpc":"2.0","id":[1],"method":"x"}',
    "id of 5000 digits": b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"x"}',
    "method is a number": b'{"jsonrpc":"2.0","id":1,"method":5}',
    "response without id": b'{"jsonrpc":"2.0","result":{}}',
    "result with null id": b'{"jsonrpc":"2.0","id":null,"result":{}}',
    "result and error": b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}',
    "neither result nor error": b'{"jsonrpc":"2.0","id":1}',
    "method is null": b'{"jsonrpc":"2.0","id":1,"method":null}',
    "cut off": b'{"jsonrpc":"2.0","id":1,"method":"x"',
    "two values": b'{"jsonrpc":"2.0","method":"x"}{}',
    "trailing comma": b'{"jsonrpc":"2.0","method":"x",}',
    "single quotes": b"{'jsonrpc':'2.0','method':'x'}",
    "NaN": b'{"jsonrpc":"2.0","method":"x","params":{"n":NaN}}',
    "bad escape": b'{"jsonrpc":"2.0","method":"x","params":{"n":"\\x41"}}',
    "bare control character": b'{"jsonrpc":"2.0","method":"x","params":{"n":"a\x01b"}}',
    "bare NUL": b'{"jsonrpc":"2.0","method":"x\x00"}',
    "NUL before": b'\x00{"jsonrpc":"2.0","method":"x"}',
    "leading zero": b'{"jsonrpc":"2.0","method":"x","params":{"n":01}}',
    "deep": b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep and open": b'{"jsonrpc":"2.0","id":1,"result":' + b'{"a":' * 100_000,
}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_everything_else_is_unreadable(line: bytes):
    unreadable(line)


@pytest.mark.parametrize(
    ("line", "claims"),
    [
        (b"banner", False),
        (b'{"level":"info"}', False),
        (b'{"jsonrpc":"2.0","id":1.5}', True),
        (b'{"jsonrpc":"2.0"', True),
        (b' [ {"jsonrpc":"2.0"}', True),
        (b'[debug] got {"jsonrpc":"2.0","id":1,"method":"x"}', False),
        (b'DEBUG {"jsonrpc":"2.0","id":1,"method":"x"}', False),
    ],
)
def test_it_is_told_whether_a_line_claims_to_be_a_message(line: bytes, *, claims: bool):
    assert unreadable(line).claims is claims


@pytest.mark.parametrize(
    ("line", "syntax"), [(b"{", True), (b"[]", False), (b'{"jsonrpc":"1.0"}', False), (b"\xff", True)]
)
def test_it_is_told_whether_json_or_json_rpc_is_broken(line: bytes, *, syntax: bool):
    assert unreadable(line).syntax is syntax


@given(st.binary())
def test_any_bytes_are_read_or_unreadable(line: bytes):
    with contextlib.suppress(Unreadable):
        read(line)


# -- repair


def text_through(body: bytes) -> str:
    message = read(b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + body + b'"}}')
    return json.loads(bytes(message.result))["text"]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"half \\ud83d pair", "half \ufffd pair"),
        (b"\\ud83d", "\ufffd"),
        (b"\\uDC00", "\ufffd"),
        (b"\\udc00\\ud800", "\ufffd\ufffd"),
        (b"\\ud83d\\ude42", "\U0001f642"),
        (b"\\ud83d\\ud83d\\ude42", "\ufffd\U0001f642"),
        (b"\\ud83d\\ude42\\ude42", "\U0001f642\ufffd"),
        (b"\\\\ud800 \\ud800", "\\ud800 \ufffd"),  # an escaped backslash is no escape
        (b"\\\\\\ud800", "\\\ufffd"),
        (b"a\\u0000b", "a\0b"),
        ("a\u2028b\u2029c".encode(), "a\u2028b\u2029c"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),  # a surrogate in UTF-8
        (b"caf\xc3\xa9", "café"),
    ],
)
def test_text_that_is_not_quite_unicode_is_repaired_and_the_rest_is_kept(body: bytes, expected: str):
    assert text_through(body) == expected


ESCAPES = st.sampled_from([b"\\ud83d", b"\\ude42", b"\\\\", b"x", b"\\n", b"\\ud800", b"\\udfff", b"\\u0041"])


@given(st.lists(ESCAPES, max_size=8))
def test_every_mixture_of_escapes_comes_out_as_a_lenient_reader_reads_it(parts: list[bytes]):
    body = b"".join(parts)
    lenient = json.loads(b'"' + body + b'"')  # the standard library joins pairs and keeps halves
    expected = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in lenient)
    assert text_through(body) == expected


HALVES = {"halves of pairs": rb"\ud800", "pairs": rb"\ud83d\ude00", "backslashes": rb"\\", "neither": rb"\\ud800"}


@pytest.mark.parametrize("unit", HALVES.values(), ids=HALVES)
def test_the_longest_message_that_is_repaired_takes_less_time_than_anybody_notices(unit: bytes):
    head = b'{"jsonrpc":"2.0","x":"'
    line = head + unit * ((REPAIR_BYTES - len(head)) // len(unit))

    def computed() -> float:
        since = time.process_time()
        unreadable(line)
        return time.process_time() - since

    assert min(computed() for _ in range(3)) < 0.2  # about 0.05 on a quiet machine


def test_a_message_beyond_the_repair_limit_is_refused_rather_than_repaired():
    body = b"\\ud800" + b"x" * REPAIR_BYTES
    unreadable(b'{"jsonrpc":"2.0","id":1,"result":{"text":"' + body + b'"}}')


# -- recovering an id


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":41,"result":{',
        b'{"jsonrpc":"2.0", "id" : 41.5, "result":{}}',
        b'{"jsonrpc":"1.0","result":{' + b'"a":1,' * 10_000 + b'"b":2},"id":41}',
        b'{"id":7,"nested":{"id":41}}',
        b'{"jsonrpc":"2.0","id":41,"result":' + b"[" * 100_000,
    ],
)
def test_the_id_of_a_known_request_is_found_near_either_end(line: bytes):
    assert jsonrpc.recover_ids(line, {41}.__contains__) == [41]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b'{"id":"41"}',
        b'{"id":411}',
        b'{"id":141}',
        b'{"id":null}',
        b'{"id":' + b"4" * 5000,
        b"x" * 5000 + b'"id":41' + b"x" * 5000,
    ],
)
def test_no_id_is_made_up(line: bytes):
    assert jsonrpc.recover_ids(line, {41, 4, 1}.__contains__) == []


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        (b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{}}]', [1, 2]),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}{"jsonrpc":"2.0","id":2,"result":{}}', [1, 2]),
        (b'{"jsonrpc":"2.0","id":1,"result":{"text":"{\\"id\\":2}","quoted":{"id":2}', [1]),
    ],
)
def test_every_request_is_found_where_a_line_holds_several_messages_and_one_where_it_quotes(
    line: bytes, ids: list[int]
):
    assert jsonrpc.recover_ids(line, {1, 2}.__contains__) == ids


@pytest.mark.parametrize("before", [b"[debug] got ", b"DEBUG ", b"<- ", b"[", b'"'])
def test_what_merely_quotes_a_message_names_no_request(before: bytes):
    quoted = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
    assert jsonrpc.recover_ids(before + quoted, {1}.__contains__) == ([1] if before == b"[" else [])


@pytest.mark.parametrize(("length", "readable"), [(1024, True), (1025, False)])
def test_an_id_that_is_repeated_in_every_answer_has_a_longest_length(length: int, *, readable: bool):
    line = b'{"jsonrpc":"2.0","id":"%s","method":"ping"}' % (b"x" * length)
    if readable:
        assert read(line).id == "x" * length
    else:
        assert unreadable(line).claims


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"n":NaN}}', 7),
        (b'{"jsonrpc":"2.0","id":"a b","method":"m","params":{', "a b"),
        (b' { "id" : -3 , "method":"m","params":[', -3),
        (b'{"id":7,"params":{"id":8', 7),
        (b'{"jsonrpc":"2.0","method":"m","params":{"id":8', None),
        (b'{"jsonrpc":"2.0","method":"m","params":{},"id":8,', None),
        (b'{"x":{"id":8},"params":', None),
        (b'{"id":7,"method":"m"', None),
        (b'{"id":1.5,"params":', None),
        (b'{"id":null,"params":', None),
        (b'{"id":"\xff","params":', None),
        (b'{"jsonrpc":"1.0","method":"ping","id":1}', 1),
        (b'{"method":"ping","id":"a"}', "a"),
        (b'{"jsonrpc":"1.0","result":{},"id":1}', None),
        (b"", None),
    ],
)
def test_an_unreadable_request_is_known_by_an_id_that_is_surely_its_own(line: bytes, expected: int | str | None):
    assert jsonrpc.leading_id(line) == expected


def test_a_byte_order_mark_before_a_message_is_passed_over():
    assert read(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"result":{}}').id == 1


# -- ids


def test_ids_are_distinct_positive_and_below_what_javascript_can_count():
    ids = [Ids() for _ in range(2)]
    drawn = [make() for make in ids for _ in range(5_000)]
    assert len(set(drawn)) == len(drawn)
    assert all(0 < id_ < 2**52 for id_ in drawn)


def test_ids_cannot_be_guessed_from_the_ones_before():
    make = Ids()
    drawn = [make() for _ in range(200)]
    steps = {after - before for before, after in itertools.pairwise(drawn)}
    assert len(steps) == 199
    assert max(drawn) > 2**50  # the whole range is used
    assert Ids()() not in drawn


# -- writing


def test_lines_are_compact_json_without_a_line_break():
    raw = Raw(b'{"n":1.00}')
    request, notification = Envelope({"a": raw}, 1, "m"), Envelope({"a": "x\ny"}, None, "m")
    assert request.line == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":{"n":1.00}}}'
    assert Envelope({}, 1, "m").line == b'{"jsonrpc":"2.0","id":1,"method":"m","params":{}}'
    assert notification.line == b'{"jsonrpc":"2.0","method":"m","params":{"a":"x\\ny"}}'
    assert Envelope({}, None, "m").line == b'{"jsonrpc":"2.0","method":"m"}'
    assert Envelope(raw, "a").line == b'{"jsonrpc":"2.0","id":"a","result":{"n":1.00}}'


def test_a_message_is_encoded_once_and_not_before_its_bytes_are_needed(monkeypatch: pytest.MonkeyPatch):
    encoded: list[object] = []
    monkeypatch.setattr(jsonrpc, "encode", lambda message: encoded.append(message) or b"{}")
    message = Envelope(EMPTY_OBJECT, 1, about=1)
    assert (message.is_answer, message.is_request, encoded) == (True, False, [])
    assert message.line is message.line
    assert len(encoded) == 1


def test_the_kind_of_a_message_is_known_without_its_bytes():
    kinds = [
        (one.is_request, one.is_answer) for one in (Envelope({}, 1, "m"), Envelope({}, None, "m"), Envelope({}, 1))
    ]
    assert kinds == [(True, False), (False, False), (False, True)]


def test_an_error_line_has_data_only_where_there_is_some():
    assert json.loads(Envelope(RpcError(-1, "no")).line) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -1, "message": "no"},
    }
    assert json.loads(Envelope(RpcError(-1, "no", {"a": None}), 1).line)["error"]["data"] == {"a": None}


@pytest.mark.parametrize("raw", [b'"no"', b"null", b"[]", b"5", b'{"code":"x","message":5}', b'{"code":1e400}'])
def test_an_error_in_any_other_form_is_still_an_error(raw: bytes):
    assert jsonrpc.error_body(Raw(raw)).message


def test_members_of_an_object_stay_raw_and_anything_else_has_none():
    assert {key: bytes(value) for key, value in jsonrpc.fields(Raw(b'{"a": 1.0,"b":[ ]}')).items()} == {
        "a": b"1.0",
        "b": b"[ ]",
    }
    with pytest.raises(msgspec.DecodeError):
        jsonrpc.fields(Raw(b"[]"))


def test_what_is_nested_too_deep_has_no_members_and_is_no_crash():
    deep = Raw(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    assert jsonrpc.members(deep) == {}
    with pytest.raises(msgspec.DecodeError):
        jsonrpc.fields(deep)


# -- cutting what is nested too deep

TAILS = {
    "letters": (b"", b"a"),
    "a string that does not end": (b'"', b"a"),
    "escapes in a string that does not end": (b'"', rb"\\"),
    "strings": (b"", b'"" '),
    "brackets": (b"", b"[]"),
    "brackets of both kinds": (b"", b"[{"),
}


@pytest.mark.parametrize(("before", "unit"), TAILS.values(), ids=TAILS)
def test_cutting_a_line_takes_time_in_proportion_to_its_length_whatever_it_holds(before: bytes, unit: bytes):
    line = b'{"jsonrpc":"2.0","id":5,"result":{"tools":[' + b"[" * 10_000 + before + unit * (300_000 // len(unit))
    since = time.process_time()
    jsonrpc.cut_nesting(line)
    assert (
        time.process_time() - since < 1
    )  # a tenth of that on a quiet machine; minutes where it is read again and again


@pytest.mark.parametrize("unit", [b"[]", b"{}", b'[""]', b"[1]", b'{"":[]},'])
def test_the_longest_line_that_is_cut_takes_less_time_than_anybody_notices(unit: bytes):
    head = b'{"jsonrpc":"2.0","id":5,"result":{"tools":[' + b"[" * 1000
    line = head + unit * ((CUT_BYTES - len(head)) // len(unit))

    def computed() -> float:
        since = time.process_time()
        jsonrpc.cut_nesting(line)
        return time.process_time() - since

    assert min(computed() for _ in range(3)) < 0.2  # under 0.1 on a quiet machine


MOST = CUT_DEPTH
LEAVES = st.sampled_from([1, -0.5, None, True, "", "a]", '{"x\\', "}{", [], {}])
KEYS = st.sampled_from(["a", "]", '"', "\\", "{["])
CHAINS = st.tuples(
    st.sampled_from([0, 3, *range(MOST - 4, MOST + 4), MOST + 50]),
    st.lists(st.tuples(st.none() | KEYS, LEAVES), min_size=1, max_size=6),
)


def nested(depth: int, kinds: list[tuple[str | None, Any]]) -> Any:
    """Lists and objects within each other, each with something beside what is nested."""
    value: Any = kinds[0][1]
    for _, (key, leaf) in zip(range(depth), itertools.cycle(kinds), strict=False):
        value = [leaf, value, leaf] if key is None else {"z": leaf, key: value, "y": leaf}
    return value


def cut(value: Any, depth: int = 1) -> Any:
    """`value`, with None for every list and object that is as deep as is cut."""
    if isinstance(value, list | dict) and depth >= MOST:
        return None
    if isinstance(value, list):
        return [cut(one, depth + 1) for one in value]
    return {key: cut(one, depth + 1) for key, one in value.items()} if isinstance(value, dict) else value


@given(st.lists(CHAINS, max_size=4), st.sampled_from([(",", ":"), (", ", " : ")]))
def test_of_any_json_exactly_what_is_too_deep_is_cut(chains: list[tuple[int, Any]], separators: tuple[str, str]):
    value = [nested(*chain) for chain in chains]
    line = json.dumps(value, separators=separators).encode()
    assert json.loads(jsonrpc.cut_nesting(line)) == cut(value)


def test_what_is_longer_than_may_be_cut_is_left_as_it_is():
    deep = b"[" * 1000 + b"]" * 1000
    longest = deep.ljust(CUT_BYTES)
    assert jsonrpc.cut_nesting(longest) != longest
    assert jsonrpc.cut_nesting(longest + b" ") == longest + b" "


def test_what_has_more_brackets_than_are_looked_at_is_left_as_it_is():
    def line(runs: int) -> bytes:
        """Two in the beginning, and two for each that follows."""
        return b"[" * 200 + b"]" * 199 + b",[]" * ((runs - 2) // 2) + b"]"

    assert jsonrpc.cut_nesting(line(CUT_BRACKETS)) != line(CUT_BRACKETS)
    assert jsonrpc.cut_nesting(line(CUT_BRACKETS + 2)) == line(CUT_BRACKETS + 2)
