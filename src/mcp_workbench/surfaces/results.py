"""Results of ours, as raw JSON: the one place where errors become wire results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Raw

from mcp_workbench.errors import CallFailed, WorkbenchError
from mcp_workbench.surfaces.forwarding import refusal_data
from mcp_workbench.wire import jsonrpc

ERROR_META = "mcp-workbench/error"


def text(value: str, **extra: Any) -> Raw:
    """A result of one text block."""
    return Raw(jsonrpc.encode({"content": [{"type": "text", "text": value}], **extra}))


def failure(error: WorkbenchError, *, prefix: str = "", named: Mapping[str, str] | None = None) -> Raw:
    """What went wrong and what to do, for a model to read; the code and the router, for programs.

    Foreign text in it, which may hold secrets, was redacted where it was taken up: here a name of the
    configuration would be redacted too. `named` are the identifier parts in the call. A server's own JSON-RPC error
    keeps its code and data.
    """
    message = f"{prefix}{error}\n{error.hint}" if error.hint else f"{prefix}{error}"
    told: dict[str, Any] = {"code": error.wire_code, **(named or {}), **error.where}
    if error.retry_after is not None:
        told["retry_after"] = math.ceil(error.retry_after)
    if isinstance(error, CallFailed) and error.refusal is not None:
        told["rpc_code"] = error.refusal.rpc_code
        if (data := refusal_data(error.refusal)) is not UNSET:
            told["data"] = data
    return text(message, isError=True, _meta={ERROR_META: told})
