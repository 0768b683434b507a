"""A request of the handshake era that is as nearly all are, read without the SDK; it sees to whatever is not."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec
from mcp.server.streamable_http import check_accept_headers
from starlette.requests import Request
from starlette.types import Scope

from mcp_workbench.limits import DEFAULTS
from mcp_workbench.serve.http.bodies import BODY, one_line
from mcp_workbench.wire.jsonrpc import Id

SHOWN: Final = "mcp_workbench.shown"
"""Where in a request's scope its body is without what is large in it."""
_read = msgspec.json.Decoder(dict[str, Any]).decode


class Asked(NamedTuple):
    """A request of a client."""

    id: Id
    line: bytes
    version: str | None
    """The protocol's version, where the client says it."""
    is_batch: bool = False
    """Whether it is a batch; its id is then that of its first request."""


def asked(scope: Scope) -> Asked | None:
    """The request in a POST that the SDK would take, however deep it is nested; None where it has to be asked."""
    headers = _usual_headers(scope)
    if headers is None:
        return None
    id_ = _id(scope[SHOWN])
    if id_ is None:
        return None
    version = headers.get(b"mcp-protocol-version")
    return Asked(id_, one_line(scope[BODY]), None if version is None else version.decode("latin-1"))


def is_usual(scope: Scope) -> bool:
    """Whether a client accepts both kinds of answers, sends JSON, and sends each header once."""
    return _usual_headers(scope) is not None


def _usual_headers(scope: Scope) -> dict[bytes, bytes] | None:
    headers = dict[bytes, bytes](scope["headers"])
    is_usual = len(headers) == len(scope["headers"]) and _is_usual(
        headers.get(b"accept", b""), headers.get(b"content-type", b"")
    )
    return headers if is_usual else None


def _is_usual(accept: bytes, content_type: bytes) -> bool:
    return len(accept) + len(content_type) <= DEFAULTS.http_usual_bytes and _is_accepted(accept, content_type)


@lru_cache(maxsize=DEFAULTS.http_usual_kept)
def _is_accepted(accept: bytes, content_type: bytes) -> bool:
    given = Request({"type": "http", "headers": [(b"accept", accept)]})
    return content_type.partition(b";")[0] == b"application/json" and all(check_accept_headers(given))


def _id(body: bytes) -> Id | None:
    """The id of what is by itself a request, and no greeting."""
    try:
        message = _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    id_, method, params = message.get("id"), message.get("method"), message.get("params")
    is_request = message.get("jsonrpc") == "2.0" and isinstance(method, str) and isinstance(params, dict | None)
    return id_ if is_request and method != "initialize" and type(id_) in (int, str) else None
