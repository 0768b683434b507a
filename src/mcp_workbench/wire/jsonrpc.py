"""JSON-RPC 2.0 envelopes, and lenient readers of raw JSON. `params`, `result` and `error` stay raw.

`read` guarantees that a message is well-formed JSON in UTF-8 and one of the four kinds, and raises `Unreadable` for
any other bytes. It does not interpret methods.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

REPAIR_BYTES = 256 * 1024
"""The largest message in which broken surrogate pairs are repaired. At worst the regular expression takes 90 ms."""
REFUSAL_LENGTH = 2048
"""Characters of the message of a server's error that are passed on."""
CUT_DEPTH = 128
"""In a list that is nested too deep to parse, each item is cut off at this depth. That is twice the accepted depth, so
the item is withheld."""
CUT_BYTES = 1024 * 1024
"""The largest list that is cut in this way: ten times what any client could use."""
CUT_BRACKETS = 60_000
"""Runs of brackets that are scanned for this, which takes 60 ms."""
ID_LENGTH = 1024
"""Characters of a request's id, which the answer repeats."""
ID_BATCH = 64
"""Ids generated from one read of the system's random source."""
IDENTIFIER_SCAN_BYTES = 4096
"""How many bytes of an unreadable message are searched for its id."""

Id: TypeAlias = int | str
Params: TypeAlias = Mapping[str, Any]
"""An object to send. Values are Python objects, or `Raw` if they are passed on unchanged."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
MISSING_CLIENT_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022
URL_ELICITATION_REQUIRED: Final = -32042
RESOURCE_NOT_FOUND: Final = -32002
"""In the handshake era. A modern client gets `INVALID_PARAMS`."""
REQUEST_CANCELLED: Final = -32800
"""Answers a cancelled request if something waits for the answer, as in the SDK; else there is no answer."""
SERVER_FAILED: Final = -31001
"""A server behind the workbench failed. The code is outside of the protocol's reserved range."""

NOTHING: Final = Raw()
"""A missing field. (`Raw | None` would read a JSON null as missing.)"""
EMPTY_OBJECT: Final = Raw(b"{}")


class Message(msgspec.Struct):
    """The envelope of a request, notification, result or error."""

    jsonrpc: Literal["2.0"]
    id: Id | UnsetType | None = UNSET
    method: str | None = None
    params: dict[str, Raw] = {}
    """The raw members; see `NotAnObject`."""
    result: Raw = NOTHING
    error: Raw = NOTHING


class NotAnObject(dict[str, Raw]):
    """Stands for params that are not an object. Lenient readers see no members."""


class _OddMessage(Message):
    """A message whose params are not an object."""

    params: Raw = NOTHING  # type: ignore[assignment]


class ErrorBody(msgspec.Struct):
    """The `error` of a response, read leniently."""

    code: int = 0
    message: str = ""
    data: Raw = NOTHING


class RpcError(Exception):
    """Raise this to answer a request with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = UNSET) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    @property
    def body(self) -> dict[str, Any]:
        """The `error` of the response."""
        data = {} if self.data is UNSET else {"data": self.data}
        return {"code": self.code, "message": self.message, **data}


class Unreadable(Exception):
    """A line is not a message. `claims` says whether it looks like it was meant as one."""

    def __init__(self, problem: str, *, syntax: bool, claims: bool, is_deep: bool = False) -> None:
        super().__init__(problem)
        self.syntax = syntax
        self.claims = claims
        self.is_deep = is_deep
        """Whether it is nested deeper than can be read."""


def refusal(problem: Unreadable) -> RpcError:
    """The error for a line that is not a message."""
    code = PARSE_ERROR if problem.syntax else INVALID_REQUEST
    what = "Parse error" if problem.syntax else "Invalid request"
    return RpcError(code, f"{what}: {problem}")


class _Request(msgspec.Struct):
    """The fields by which a message with an invalid envelope is recognised as a request."""

    id: Id
    method: str


_decoder = msgspec.json.Decoder(Message)
_odd_decoder = msgspec.json.Decoder(_OddMessage)
_request_decoder = msgspec.json.Decoder(_Request)
_error_decoder = msgspec.json.Decoder(ErrorBody)
_text_decoder = msgspec.json.Decoder(str)
_id_decoder: msgspec.json.Decoder[Id] = msgspec.json.Decoder(Id)
_number_decoder = msgspec.json.Decoder(float)
_object_decoder = msgspec.json.Decoder(dict[str, Raw])
encode = msgspec.json.Encoder().encode

_MARK = b"\xef\xbb\xbf"
_BEGINNING = rb"\s*(?:\[\s*)?\{"
_NEXT_MESSAGE = rb'\}\s*\{\s*"'
_LEADING_ID = rb'^\s*\{[^{}\[\]]*?"id"\s*:\s*("[^"\\]*"|-?\d{1,18})\s*[,}]'
_BRACE, _BRACKET, _QUOTE, _NULL = b'{["n'
"""The first byte of well-formed JSON tells its kind."""

_BRACKETS = rb'(?:[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+")*+([\[{]+|[\]}]+)'
"""A run of brackets of one kind, after other characters."""
_HEX = rb"[0-9a-fA-F]{2}"
# Patterns are compiled at their first use: most runs never need one.
_LONE_SURROGATE = (
    rb"(?<!\\)((?:\\\\)*)(?:"
    rb"\\u[dD][89abAB]" + _HEX + rb"(?!\\u[dD][c-fC-F]" + _HEX + rb")"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F][0-9a-fA-F])\\u[dD][c-fC-F]" + _HEX + rb")"
)
_ID = rb'"id"\s*:\s*(\d{1,16})(?!\d)'


def read(line: bytes) -> Message:
    """The message on a line, with invalid Unicode repaired.

    A response must have an id, and either a result or an error. The id may be null only for an error.
    """
    if not line.isascii():
        line = _as_utf8(line)
    try:
        message = _decoder.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        message = _read_repaired(line, error)
    if isinstance(message.id, str) and len(message.id) > ID_LENGTH:
        raise Unreadable("its id is too long", syntax=False, claims=True)
    if message.method is None:
        has_result, has_error = message.result is not NOTHING, message.error is not NOTHING
        if message.id is UNSET or has_result == has_error or (message.id is None and has_result):
            raise Unreadable("neither a request nor a response", syntax=False, claims=True)
    return message


def _as_utf8(line: bytes) -> bytes:
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").encode()
    return line


def _read_repaired(line: bytes, error: Exception) -> Message:
    """Read a line without its byte order mark, or with lone surrogates replaced by U+FFFD. Raises `Unreadable`."""
    if line.startswith(_MARK):
        return read(line[len(_MARK) :])
    if isinstance(error, msgspec.ValidationError):
        try:
            return _read_oddly(line)
        except (msgspec.DecodeError, RecursionError) as second:
            error = second
    if len(line) <= REPAIR_BYTES and (repaired := re.sub(_LONE_SURROGATE, rb"\1\\ufffd", line)) != line:
        try:
            return _read_oddly(repaired)
        except (msgspec.DecodeError, RecursionError) as second:
            error = second
    syntax = not isinstance(error, msgspec.ValidationError)
    head = line[:IDENTIFIER_SCAN_BYTES]
    is_deep = isinstance(error, RecursionError)
    claims = b'"jsonrpc"' in head and _looks_like_message(line)
    raise Unreadable(str(error), syntax=syntax, claims=claims, is_deep=is_deep) from None


def _read_oddly(line: bytes) -> Message:
    """Read a message whose params may be of any type. null counts as missing."""
    odd = _odd_decoder.decode(line)
    params: dict[str, Raw] = {}
    if is_object(odd.params):
        params = fields(odd.params)
    elif is_present(odd.params) and not is_null(odd.params):
        params = NotAnObject()
    return Message(odd.jsonrpc, odd.id, odd.method, params, odd.result, odd.error)


def _looks_like_message(line: bytes) -> bool:
    """Whether a line begins like a message. Text that quotes one does not."""
    return re.match(_BEGINNING, line) is not None


def cut_nesting(line: bytes) -> bytes:
    """Replace the deepest parts of a message by `null`, so that it can be read. It is still nested too deep to accept.

    A message that is longer than `CUT_BYTES`, or has more brackets than `CUT_BRACKETS`, is returned unchanged.
    """
    if len(line) > CUT_BYTES:
        return line
    most = CUT_DEPTH
    pieces: list[bytes] = []
    depth = at = end = runs = 0
    brackets = re.compile(_BRACKETS)
    while (run := brackets.match(line, end)) is not None:
        begin, end = run.span(1)
        runs += 1
        if runs > CUT_BRACKETS:
            return line
        if line[begin] in b"[{":
            if depth < most <= depth + end - begin:
                pieces += [line[at : begin + most - depth - 1], b"null"]
            depth += end - begin
        else:
            if depth - (end - begin) < most <= depth:
                at = begin + depth - most + 1
            depth -= end - begin
    return b"".join([*pieces, line[at:]])


def recover_ids(line: bytes, known: Callable[[int], bool]) -> list[int]:
    """The ids of our requests that an unreadable answer names, near its start or its end.

    Only a line with several messages has more than one: further ids in a single message are quoted text.
    """
    if not _looks_like_message(line):
        return []
    scan = IDENTIFIER_SCAN_BYTES
    parts = (line[:scan], line[-scan:])
    found = (int(match[1]) for part in parts for match in re.finditer(_ID, part))
    ids = [id_ for id_ in dict.fromkeys(found) if known(id_)]
    has_several = line.lstrip().startswith(b"[") or any(re.search(_NEXT_MESSAGE, part) for part in parts)
    return ids if has_several else ids[:1]


def leading_id(line: bytes) -> Id | None:
    """The id of an unreadable request, if that is certain: it is valid JSON, or the id precedes the params."""
    with contextlib.suppress(msgspec.DecodeError, ValueError, RecursionError):
        id_ = _request_decoder.decode(line).id
        return id_ if isinstance(id_, int) or len(id_) <= ID_LENGTH else None
    head, params, _ = line[:IDENTIFIER_SCAN_BYTES].partition(b'"params"')
    match = re.search(_LEADING_ID, head) if params else None
    try:
        return _id_decoder.decode(match[1]) if match else None
    except ValueError:  # also for invalid UTF-8
        return None


def is_present(raw: Raw) -> bool:
    """Whether a field is present. null counts."""
    return memoryview(raw).nbytes > 0


def is_object(raw: Raw) -> bool:
    """Whether valid JSON is an object."""
    view = memoryview(raw)
    return view.nbytes > 0 and view[0] == _BRACE


def is_list(raw: Raw) -> bool:
    """Whether valid JSON is an array."""
    view = memoryview(raw)
    return view.nbytes > 0 and view[0] == _BRACKET


def is_text(raw: Raw) -> bool:
    """Whether valid JSON is a string."""
    view = memoryview(raw)
    return view.nbytes > 0 and view[0] == _QUOTE


def is_true(raw: Raw | None) -> bool:
    """Whether a field is present and true."""
    return raw is not None and bytes(raw) == b"true"


def is_null(raw: Raw) -> bool:
    """Whether valid JSON is null."""
    view = memoryview(raw)
    return view.nbytes > 0 and view[0] == _NULL


def text(raw: Raw) -> str:
    """The string. Raises `msgspec.DecodeError` for any other value."""
    return _text_decoder.decode(raw)


def text_or_none(raw: Raw | None) -> str | None:
    """The string; None for any other value."""
    if raw is None or not (view := memoryview(raw)).nbytes or view[0] != _QUOTE:
        return None
    return _text_decoder.decode(raw)


def number_or_none(raw: Raw | None) -> float | None:
    """The number; None for any other value."""
    try:
        return _number_decoder.decode(raw) if raw is not None else None
    except msgspec.DecodeError:
        return None


def members(raw: Raw | None) -> dict[str, Raw]:
    """The raw members of a JSON object; empty for any other value and for one that is nested too deep."""
    if raw is None or not (view := memoryview(raw)).nbytes or view[0] != _BRACE:
        return {}
    try:
        return _object_decoder.decode(raw)
    except RecursionError:
        return {}


def fields(raw: Raw) -> dict[str, Raw]:
    """The raw members of a JSON object. Raises `msgspec.DecodeError` for any other value."""
    try:
        return _object_decoder.decode(raw)
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


def with_meta(params: Params, added: Params) -> Params:
    """The params with members added to their `_meta`, which may be raw, decoded or missing."""
    meta: Any = params.get("_meta")
    if isinstance(meta, Raw):
        meta = members(meta)
    return {**params, "_meta": {**(meta or {}), **added}}


def id_or_none(raw: Raw | None) -> Id | None:
    """A request id or progress token; None for any other value."""
    try:
        return _id_decoder.decode(raw) if raw is not None else None
    except ValueError:  # also for invalid UTF-8
        return None


def error_body(raw: Raw) -> ErrorBody:
    """The error of a response, which may lack a code or a message."""
    try:
        return _error_decoder.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return ErrorBody(message="an error that is not in JSON-RPC form")


class Envelope(msgspec.Struct, eq=False):
    """A message to send, encoded when its bytes are first needed.

    Its fields say what it is and which request it belongs to, so no transport needs to parse the bytes.
    """

    content: Params | Raw | RpcError = NOTHING
    """The params of a request or notification; the result or the error of an answer."""
    id: Id | None = None
    """The id of a request, or of the request that it answers. A notification has none."""
    method: str = ""
    """Empty for an answer."""
    about: Id | None = None
    """The other side's request that it answers or belongs to."""
    may_drop: bool = False
    """Whether it may be dropped if the other side has many unread notifications, since it is soon outdated."""
    encoded: bytes = b""
    """Its bytes, once encoded."""

    @property
    def is_answer(self) -> bool:
        return not self.method

    @property
    def is_request(self) -> bool:
        return bool(self.method) and self.id is not None

    @property
    def line(self) -> bytes:
        """Its bytes, without a line break."""
        if not self.encoded:
            content = self.content
            message: dict[str, Any] = {"jsonrpc": "2.0", "id": self.id}
            if not self.method:
                message |= {"error": content.body} if isinstance(content, RpcError) else {"result": content}
            elif self.id is not None:
                message |= {"method": self.method, "params": content}
            else:
                message = {"jsonrpc": "2.0", "method": self.method} | ({"params": content} if content else {})
            self.encoded = encode(message)
        return self.encoded


class Ids:
    """Random ids below 2**52. A peer can't guess them, so it can't answer a request that it did not get.

    Larger ids would lose precision in JavaScript.
    """

    def __init__(self) -> None:
        self._pool: list[int] = []

    def __call__(self) -> int:
        if not self._pool:
            noise = os.urandom(8 * ID_BATCH)
            self._pool = [int.from_bytes(noise[i : i + 8]) >> 12 for i in range(0, len(noise), 8)]
        return self._pool.pop() or self()
