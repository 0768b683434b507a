"""Turns errors into JSON-RPC errors, and into results for a model. No other module does.

Foreign text in an error was redacted when the error was created; redacting here would also hide names from the
configuration. Only a server's own JSON-RPC error is redacted here, since its text is passed on unchanged.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Mapping
from typing import Any

from msgspec import UNSET, Raw, UnsetType

from mcp_workbench import logger
from mcp_workbench.errors import CallFailed, Fault, RequestError, ServerRefused, WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import REFUSAL_LENGTH, RpcError

ERROR_META = "mcp-workbench/error"
REFUSAL_DATA_BYTES = 16 * 1024
"""The `data` of a server's error up to this size is searched for secrets (20 ms at most) and passed on."""


def text_result(value: str, **extra: Any) -> Raw:
    """A result with one text block."""
    return Raw(jsonrpc.encode({"content": [{"type": "text", "text": value}], **extra}))


def as_result(error: WorkbenchError, *, prefix: str = "", named: Mapping[str, str] | None = None) -> Raw:
    """An error result: the message and hint for a model, the code and identifier in `_meta` for programs.

    `named` has the identifier parts in the call. A server's own JSON-RPC error keeps its code and data.
    """
    meta = _error_meta(error, named)
    if (refusal := _refusal(error)) is not None and refusal is not error:
        meta["rpc_code"] = refusal.rpc_code
        if (data := _refusal_data(refusal)) is not UNSET:
            meta["data"] = data
    return text_result(prefix + _text(error), isError=True, _meta={ERROR_META: meta})


def as_rpc_error(error: WorkbenchError, *, modern: bool = False) -> RpcError:
    """The JSON-RPC error for a failure. A server's own error keeps its code and text, except for secrets."""
    if (refusal := _refusal(error)) is not None:
        code = refusal.rpc_code
        if modern and code == jsonrpc.RESOURCE_NOT_FOUND:
            code = jsonrpc.INVALID_PARAMS
        return RpcError(code, logger.redacted(str(refusal), REFUSAL_LENGTH), _refusal_data(refusal))
    code = jsonrpc.INVALID_PARAMS if isinstance(error, RequestError) else jsonrpc.SERVER_FAILED
    return RpcError(code, _text(error), _error_meta(error))


@contextlib.contextmanager
def rpc_errors(server: ServerIdentifier, method: str, *, modern: bool) -> Generator[None]:
    """Turn every failure of a request to one server into an `RpcError`."""
    try:
        yield
    except WorkbenchError as error:
        if not isinstance(error, Fault) or isinstance(error, ServerRefused):
            raise as_rpc_error(error, modern=modern) from None
        where = {"toolbox": server.toolbox, "server": server.server}
        whose = f"{escape(method)} of server '{escape(server.server)}' (toolbox '{escape(server.toolbox)}')"
        raise RpcError(jsonrpc.SERVER_FAILED, f"{whose} failed: {_text(error)}", _error_meta(error, where)) from None


def is_refused(error: WorkbenchError) -> bool:
    """Whether the server itself answered with a JSON-RPC error."""
    return _refusal(error) is not None


def _refusal(error: WorkbenchError) -> ServerRefused | None:
    return error.refusal if isinstance(error, CallFailed) else error if isinstance(error, ServerRefused) else None


def _text(error: WorkbenchError) -> str:
    return f"{error}\n{error.hint}" if error.hint else str(error)


def _error_meta(error: WorkbenchError, named: Mapping[str, str] | None = None) -> dict[str, Any]:
    meta: dict[str, Any] = {"code": error.wire_code, **(named or {}), **error.where}
    if error.retry_after is not None:
        meta["retry_after"] = math.ceil(error.retry_after)
    return meta


def _refusal_data(refusal: ServerRefused) -> Raw | UnsetType:
    """The `data` of a server's error if it contains no secret, in any escaped form; else UNSET."""
    if not refusal.data or len(refusal.data) > REFUSAL_DATA_BYTES:
        return UNSET
    text = refusal.data.decode("utf-8", "replace")
    return Raw(refusal.data) if logger.redacted(text) == text else UNSET
