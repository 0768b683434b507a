"""Checks modern requests before they are answered: content types, `_meta`, and that the headers match the body."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

from msgspec import UNSET, Raw
from starlette.responses import Response

from mcp_workbench.serve.http import responses
from mcp_workbench.serve.http.request import HttpRequest
from mcp_workbench.wire import eras, jsonrpc, param_headers
from mcp_workbench.wire.jsonrpc import Id, RpcError

VERSION: Final = "mcp-protocol-version"
METHOD: Final = "mcp-method"
NAME: Final = "mcp-name"
_ABOUT_TASKS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
"""Requests of the tasks extension; their `Mcp-Name` is the id of the task."""
_STATUS: Final = {
    jsonrpc.PARSE_ERROR: HTTPStatus.BAD_REQUEST,
    jsonrpc.INVALID_REQUEST: HTTPStatus.BAD_REQUEST,
    jsonrpc.INVALID_PARAMS: HTTPStatus.BAD_REQUEST,
    jsonrpc.HEADER_MISMATCH: HTTPStatus.BAD_REQUEST,
    jsonrpc.MISSING_CLIENT_CAPABILITY: HTTPStatus.BAD_REQUEST,
    jsonrpc.UNSUPPORTED_VERSION: HTTPStatus.BAD_REQUEST,
    jsonrpc.METHOD_NOT_FOUND: HTTPStatus.NOT_FOUND,
}


class ModernRequest(NamedTuple):
    """A request that passed the checks."""

    id: Id
    method: str
    params: dict[str, Raw]
    meta: dict[str, Raw]
    """The `_meta` of the params, decoded."""
    size: int
    """The bytes of the body."""


def status_of(error: RpcError) -> HTTPStatus:
    """The HTTP status for an error that is the whole response."""
    return _STATUS.get(error.code, HTTPStatus.OK)


def check(request: HttpRequest, *, has_tasks: bool) -> ModernRequest | Response:
    """Check a request. Returns a response instead if it is refused, or is a notification."""
    if (refused := _check_form(request)) is not None:
        return refused
    message = request.message
    if message is None:
        return _refused(request.problem or _invalid())
    if message.id is UNSET:
        return _acknowledged(request)
    if message.method is None or message.id is None:
        return _refused(_invalid())
    try:
        _check_envelope(request, message.method, message.params, has_tasks=has_tasks)
    except RpcError as error:
        return _refused(error, message.id)
    return ModernRequest(message.id, message.method, message.params, request.meta, len(request.body))


def _check_form(request: HttpRequest) -> Response | None:
    """The error response for a wrong method or content type."""
    if request.method != "POST":
        return Response(status_code=HTTPStatus.METHOD_NOT_ALLOWED, headers={"allow": "POST"})
    if not request.accepts_both:
        return Response(status_code=HTTPStatus.NOT_ACCEPTABLE)
    return None if request.is_json else responses.unsupported_type()


def _invalid() -> RpcError:
    return RpcError(jsonrpc.INVALID_REQUEST, "The body must be one JSON-RPC request or notification")


def _acknowledged(request: HttpRequest) -> Response:
    """Accept and ignore a notification: over HTTP the modern era defines none that matter here."""
    version = request.headers.get(VERSION, "")
    if version not in eras.MODERN_VERSIONS:
        return _refused(_unsupported(version))
    return Response(status_code=HTTPStatus.ACCEPTED)


def _check_envelope(request: HttpRequest, method: str, params: dict[str, Raw], *, has_tasks: bool) -> None:
    """Check `_meta` and the headers. Raises `RpcError`."""
    if isinstance(params, jsonrpc.NotAnObject):
        raise RpcError(jsonrpc.INVALID_PARAMS, "params must be an object")
    for name in (VERSION, METHOD, NAME):
        if name in request.repeated:
            raise _mismatch(name, "appears more than once")
    meta = request.meta
    for key in (eras.PROTOCOL_VERSION, eras.CLIENT_CAPABILITIES):
        if key not in meta:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"params._meta must have {key}")
    version = jsonrpc.text_or_none(meta[eras.PROTOCOL_VERSION])
    if version is None or request.headers.get(VERSION) != version:
        raise _mismatch(VERSION, "does not match the version in params._meta")
    if request.headers.get(METHOD) != method:
        raise _mismatch(METHOD, "does not match the method in the body")
    _check_name(
        request, params, "taskId" if has_tasks and method in _ABOUT_TASKS else param_headers.NAMED_BY.get(method)
    )
    if version not in eras.MODERN_VERSIONS:
        raise _unsupported(version)


def _check_name(request: HttpRequest, params: dict[str, Raw], member: str | None) -> None:
    named = params.get(member) if member is not None else None
    if named is None or jsonrpc.is_null(named):
        return
    given = param_headers.decode(request.headers.get(NAME))
    if given is None or given != jsonrpc.text_or_none(named):
        raise _mismatch(NAME, f"does not match params.{member}")


def _mismatch(header: str, problem: str) -> RpcError:
    return RpcError(jsonrpc.HEADER_MISMATCH, f"{header} header {problem}")


def _unsupported(version: str) -> RpcError:
    data = {"supported": list(eras.MODERN_VERSIONS), "requested": version}
    return RpcError(jsonrpc.UNSUPPORTED_VERSION, "Unsupported protocol version", data)


def _refused(error: RpcError, id_: Id | None = None) -> Response:
    return responses.error_response(error, status_of(error), id_)
