"""A client's request passed on to one server, and what can go wrong with it as JSON-RPC errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from msgspec import UNSET, Raw, UnsetType

from mcp_workbench import observe
from mcp_workbench.errors import ConnectFailed, Fault, RequestError, ServerRefused, WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import Params, RpcError

if TYPE_CHECKING:
    from mcp_workbench.routing.router import Router


async def forward(router: Router, server: ServerIdentifier, method: str, params: Params, exchange: Exchange) -> Raw:
    """The server's result, as it gave it. Raises `RpcError`: the server's own error, or why there is none."""
    try:
        result = await router.calls.forward(server, method, params, exchange)
    except ServerRefused as refusal:
        raise refused(refusal, modern=exchange.caller.modern) from None
    except Fault as fault:
        raise failed(fault, server, method) from None
    except WorkbenchError as error:
        raise as_rpc_error(error) from None
    router.links.remember(server, result)
    return result


def refused(refusal: ServerRefused, *, modern: bool) -> RpcError:
    """A server's own error, word for word but for secrets."""
    code = refusal.rpc_code
    if modern and code == jsonrpc.RESOURCE_NOT_FOUND:
        code = jsonrpc.INVALID_PARAMS
    return RpcError(code, observe.redacted(str(refusal), DEFAULTS.stderr_tail_bytes), refusal_data(refusal))


def refusal_data(refusal: ServerRefused) -> Raw | UnsetType:
    """The `data` of a server's error, if it may be passed on."""
    return Raw(refusal.data) if _is_harmless(refusal.data) else UNSET


def _is_harmless(data: bytes) -> bool:
    """Whether the `data` of an error may be passed on: it holds no secret, however its text is escaped."""
    if not data or len(data) > DEFAULTS.refusal_data_bytes:
        return False
    text = data.decode("utf-8", "replace")
    return observe.redacted(text) == text


def failed(fault: Fault, server: ServerIdentifier, method: str) -> RpcError:
    """Why there is no answer of the server."""
    router = {"toolbox": server.toolbox, "server": server.server}
    text = f"{shown(method)} of server '{shown(server.server)}' (toolbox '{shown(server.toolbox)}') failed: {fault}"
    hint = f"\n{fault.hint}" if fault.hint else ""
    return RpcError(jsonrpc.SERVER_FAILED, f"{text}{hint}", {"code": fault.code, **router, **_retry(fault)})


def as_rpc_error(error: WorkbenchError) -> RpcError:
    """What is wrong with a request, or with the way to a server."""
    code = jsonrpc.INVALID_PARAMS if isinstance(error, RequestError) else jsonrpc.SERVER_FAILED
    hint = f"\n{error.hint}" if error.hint else ""
    wire_code = error.wire_code if isinstance(error, ConnectFailed) else error.code
    return RpcError(code, f"{error}{hint}", {"code": wire_code, **error.where, **_retry(error)})


def _retry(error: WorkbenchError) -> dict[str, int]:
    return {} if error.retry_after is None else {"retry_after": math.ceil(error.retry_after)}
