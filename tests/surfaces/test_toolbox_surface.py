"""One toolbox as a server of its own: native names, and nothing of what is beside it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from mcp_workbench import logger
from mcp_workbench.errors import ServerExited, ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.support.memory import MemoryServer, serving
from tests.surfaces.benches import HANDSHAKE, MODERN, call, error_of, knowing, listed

A = ServerIdentifier("dev", "a")


def servers(**tools: list[str]) -> dict[str, MemoryServer]:
    return {name: MemoryServer(name, tools=named) for name, named in tools.items()}


async def called(surface: Surface, name: str, caller: Caller = HANDSHAKE) -> str:
    return (await call(surface, name, {}, caller))["content"][0]["text"]


async def refused(surface: Surface, name: str) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await called(surface, name)
    return caught.value


# -- names


async def test_a_tool_keeps_its_name_unless_two_servers_share_it():
    async with serving({"dev": servers(a=["one", "same"], b=["same"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        names = [tool["name"] for tool in await listed(surface)]
        assert names == ["one", "dev__a__same", "dev__b__same"]
        assert [await called(surface, name) for name in names] == ["a:one", "a:same", "b:same"]


async def test_a_name_that_is_shared_is_told_the_names_to_call():
    async with serving({"dev": servers(a=["same"], b=["same"])}) as workbench:
        error = await refused(ToolboxSurface(workbench, "dev"), "same")
        assert error.code == -32602
        assert "dev__a__same, dev__b__same" in error.message


async def test_a_tool_can_not_pose_as_another_ones_joined_name():
    async with serving({"dev": servers(a=["same"], b=["same"], c=["dev__a__same"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await called(surface, "dev__a__same") == "a:same"
        outcomes = [await called(surface, tool["name"]) for tool in await listed(surface)]
        assert sorted(outcomes) == ["a:same", "b:same", "c:dev__a__same"]


async def test_tools_of_another_toolbox_are_neither_listed_nor_called():
    boxes = {"dev": servers(a=["one"]), "ops": servers(b=["two"])}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert [tool["name"] for tool in await listed(surface)] == ["one"]
        for name in ("two", "ops__b__two"):
            assert (await refused(surface, name)).code == -32602
    assert boxes["ops"]["b"].starts == 0


async def test_a_tool_can_be_called_without_listing_first():
    async with serving({"dev": servers(a=["one"])}) as workbench:
        assert await called(ToolboxSurface(workbench, "dev"), "one") == "a:one"


# -- failures


async def test_a_refusal_is_the_servers_own_and_a_failure_is_a_result():
    boxes = {"dev": servers(a=["one"], b=["two"])}
    boxes["dev"]["a"].methods["tools/call"] = ServerRefused("as I said", rpc_code=-7, data=b'{"x":1}')
    boxes["dev"]["b"].methods["tools/call"] = ServerExited("it died")
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        error = await refused(surface, "one")
        assert (error.code, error.message, bytes(error.data)) == (-7, "as I said", b'{"x":1}')
        assert "it died" in error_of(await call(surface, "two", {}))


@pytest.mark.parametrize(
    ("surface_of", "tool"), [(ProxySurface, "use_tool"), (lambda bench: ToolboxSurface(bench, "dev"), "t")]
)
async def test_a_secret_in_what_a_server_asks_of_the_client_itself_is_not_shown(
    surface_of: Any, tool: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logger.log, "redact", logger.Redactor())
    logger.log.redact.hide(["hunter2"])
    server = MemoryServer("a")
    server.methods["tools/call"] = ServerRefused("needs hunter2", rpc_code=-32021, data=b'{"token":"hunter2"}')
    arguments = {"tool": {"toolbox": "dev", "server": "a", "tool": "t"}, "arguments": {}}
    async with serving({"dev": {"a": server}}) as workbench:
        with pytest.raises(RpcError) as caught:
            await call(surface_of(workbench), tool, arguments, MODERN)
    assert (caught.value.code, caught.value.message) == (-32021, "needs ***")
    assert caught.value.data is UNSET  # a part of it could not be left out


# -- what a server says and asks


@pytest.mark.parametrize(
    ("method", "asked"),
    [
        ("elicitation/create", True),
        ("sampling/createMessage", True),
        ("roots/list", True),
        ("tasks/list", False),
        ("tasks/result", False),
        ("tasks/cancel", False),
        ("vendor/anything", False),
    ],
)
def test_where_there_are_several_servers_a_client_is_asked_the_three_questions_and_nothing_else(
    method: str, *, asked: bool
):
    workbench = knowing({"dev": {"a": ["t"]}})
    for surface in (ToolboxSurface(workbench, "dev"), ProxySurface(workbench)):
        assert (surface.question_params(A, method, {"x": 1}) is not None) is asked


async def test_a_change_is_told_once_the_client_has_seen_the_list():
    async with serving({"dev": servers(a=["one"])}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert not surface.note_change("dev", "tools")
        await listed(surface)
        assert surface.note_change("dev", "tools")
        assert surface.note_change("dev", "prompts")
        assert not surface.note_change("ops", "tools")


@pytest.mark.parametrize("method", ["notifications/vendor", "notifications/tools/list_changed"])
def test_what_nobody_here_understands_is_not_passed_on(method: str):
    surface = ToolboxSurface(knowing({"dev": {"a": ["t"]}}), "dev")
    assert list(surface.translate(A, method, {})) == []
