"""Responses that are not streams: errors, acknowledgements and their headers."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import Envelope, Id, RpcError

SESSION_ID: Final = "mcp-session-id"
_NONE: Final[Mapping[str, str]] = {}


def error_response(error: RpcError, status: int, id_: Id | None = None, headers: Mapping[str, str] = _NONE) -> Response:
    """A JSON-RPC error as the whole response."""
    return Response(Envelope(error, id_).line, status, headers, "application/json")


def not_acceptable(*kinds: str, headers: Mapping[str, str] = _NONE) -> Response:
    """The client does not accept what it would be sent."""
    error = RpcError(jsonrpc.INVALID_REQUEST, f"Not acceptable: the client must accept {' and '.join(kinds)}")
    return error_response(error, HTTPStatus.NOT_ACCEPTABLE, headers=headers)


def unsupported_type(headers: Mapping[str, str] = _NONE) -> Response:
    error = RpcError(jsonrpc.INVALID_REQUEST, "Unsupported media type: Content-Type must be application/json")
    return error_response(error, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, headers=headers)


def empty(status: HTTPStatus, headers: Mapping[str, str] = _NONE) -> Response:
    return Response(status_code=status, headers=headers)
