"""One translator: an error has the same code, place and words as a result and as a JSON-RPC error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_workbench.errors import (
    CallFailed,
    CallTimeout,
    ConnectFailed,
    Overloaded,
    ServerExited,
    ServerRefused,
    ToolboxFailed,
    ToolboxNotFound,
    WorkbenchError,
)
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.surfaces.failures import ERROR_META, as_result, as_rpc_error, rpc_errors
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import RpcError

TOOL = ToolIdentifier("dev", "fs", "read")
EXITED = ConnectFailed("dev", "fs", ServerExited("it died"))
ERRORS = [
    CallFailed(TOOL, CallTimeout("no answer", hint="Ask for less.")),
    EXITED,
    ToolboxFailed("dev", [EXITED]),
    ToolboxNotFound("dve", hint="Did you mean 'dev'?"),
    Overloaded("too many"),
]


def result_of(error: WorkbenchError) -> tuple[str, dict[str, Any]]:
    result = json.loads(bytes(as_result(error)))
    assert result["isError"] is True
    return result["content"][0]["text"], result["_meta"][ERROR_META]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_both_translations_agree(error: WorkbenchError):
    rpc = as_rpc_error(error)
    assert result_of(error) == (rpc.message, rpc.data)


def test_a_failed_call_has_the_code_of_what_happened_in_both():
    assert as_rpc_error(ERRORS[0]).data == {"code": "call_timeout", **TOOL.params()}


@pytest.mark.parametrize(
    ("rpc_code", "modern", "sent"), [(-32050, False, -32050), (-32002, False, -32002), (-32002, True, -32602)]
)
def test_a_servers_own_error_is_passed_on_however_it_is_wrapped(rpc_code: int, modern: object, sent: int):
    refusal = ServerRefused("not today", rpc_code=rpc_code, data=b'{"why":1}')
    for error in (refusal, CallFailed(TOOL, refusal, refusal)):
        rpc = as_rpc_error(error, modern=bool(modern))
        assert (rpc.code, rpc.message, bytes(rpc.data)) == (sent, "not today", b'{"why":1}')  # type: ignore[arg-type]
    _, told = result_of(CallFailed(TOOL, refusal, refusal))
    assert (told["rpc_code"], told["data"]) == (rpc_code, {"why": 1})


def test_what_fails_on_the_way_to_a_server_names_the_method_and_the_server():
    with pytest.raises(RpcError) as caught, rpc_errors(ServerIdentifier("dev", "fs"), "prompts/get", modern=False):
        raise ServerExited("it died")
    assert caught.value.code == jsonrpc.SERVER_FAILED
    assert caught.value.message.startswith("prompts/get of server 'fs' (toolbox 'dev') failed: it died\n")
    assert caught.value.data == {"code": "server_exited", "toolbox": "dev", "server": "fs"}
