"""What a client is told at the start, before a server is asked."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.surfaces.server_info import static_info
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire.caller import Caller
from mcp_workbench.workbench import Workbench
from tests.support.memory import MemoryServer, serving
from tests.surfaces.benches import HANDSHAKE, MODERN, config_of, listed

KNOWN = {"dev": {"fs": ["read"]}, "ops": {"fs": ["read"]}}
COMMON = {
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}
TASKS = {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}
SKILLS: dict[str, Any] = {"io.modelcontextprotocol/skills": {}}
EXTENSION: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}


@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
def test_what_there_is_at_all_is_announced(mode: Any):
    hello = static_info(config_of(KNOWN, tool_mode=mode))
    assert hello.capabilities == {"tools": {"listChanged": True}, **COMMON}
    assert "dev" in hello.instructions
    assert "ops" in hello.instructions


@pytest.mark.parametrize(
    ("caller", "tasks"),
    [
        (MODERN, EXTENSION),
        (HANDSHAKE, TASKS),
    ],
)
async def test_tasks_are_declared_where_a_server_has_them_in_the_era_of_the_client(caller: Caller, tasks: Any):
    plain: dict[str, Any] = {"tools": {}, "extensions": {"vendor/other": {}}}
    other_era = EXTENSION if not caller.modern else TASKS
    without = MemoryServer("a", modern=caller.modern, capabilities=plain)
    elsewhere = MemoryServer("b", modern=not caller.modern, capabilities={"tools": {}, **other_era, **tasks})
    having = MemoryServer("c", modern=caller.modern, capabilities={"tools": {}, **tasks})
    boxes = {"none": {"a": without, "b": elsewhere}, "some": {"a": without, "c": having}}
    async with serving(boxes) as workbench:
        for toolbox, expected in (("none", {}), ("some", tasks)):
            surface = ToolboxSurface(workbench, toolbox)
            unknown = (await surface.server_info(caller)).capabilities
            possible = {**tasks, "extensions": {**tasks.get("extensions", {}), **SKILLS}}
            assert unknown == {"tools": {"listChanged": True}, **COMMON, **possible}, "nothing is known of a server yet"
            await listed(surface, caller)
            known = (await surface.server_info(caller)).capabilities
            assert known == {"tools": {"listChanged": True}, **COMMON, **expected}


async def test_a_toolbox_passes_on_what_its_servers_say_about_their_use_once_they_have_run():
    servers = {name: MemoryServer(name) for name in "ab"}
    servers["a"].methods["initialize"]["instructions"] = "Read first.\nThen write."
    async with serving({"dev": servers, "ops": {"c": MemoryServer("c")}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert (await surface.server_info(HANDSHAKE)).instructions == "The toolbox dev\nServers: a, b"
        assert [server.starts for server in servers.values()] == [0, 0], "a greeting starts nothing"
        await listed(surface)
        said = (await surface.server_info(HANDSHAKE)).instructions
    assert said == "The toolbox dev\nServers: a, b\n\n# a\nRead first.\nThen write."


async def test_every_method_that_the_capabilities_promise_is_there():
    surface = ProxySurface(Workbench(config_of(KNOWN)))
    for method in (
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "completion/complete",
        "logging/setLevel",
    ):
        assert surface.method(method) is not None
    assert surface.method("tasks/get") is None
    for caller in (HANDSHAKE, MODERN):
        assert (await surface.server_info(caller)).capabilities == {"tools": {"listChanged": True}, **COMMON}
