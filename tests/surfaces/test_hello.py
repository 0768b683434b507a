"""What a client is told at the start, from the configuration alone."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_workbench.surfaces.hello import View, static_hello
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.workbench import Workbench
from tests.surfaces.benches import HANDSHAKE, MODERN, config_of

KNOWN = {"dev": {"fs": ["read"]}, "ops": {"fs": ["read"]}}
COMMON = {
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
    "logging": {},
}


@pytest.mark.parametrize("modern", [True, False])
@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
def test_what_there_is_at_all_is_announced(mode: Any, *, modern: bool):
    hello = static_hello(config_of(KNOWN, tool_mode=mode), View(), modern=modern)
    assert hello.capabilities == {"tools": {"listChanged": True}, **COMMON}
    assert "dev" in hello.instructions
    assert "ops" in hello.instructions


@pytest.mark.parametrize(
    ("modern", "tasks"),
    [
        (True, {"extensions": {"io.modelcontextprotocol/tasks": {}}}),
        (False, {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}),
    ],
)
def test_a_toolbox_that_is_served_natively_has_tasks_as_each_era_declares_them(tasks: Any, *, modern: bool):
    hello = static_hello(config_of(KNOWN), View("dev"), modern=modern)
    assert hello.capabilities == {"tools": {"listChanged": True}, **COMMON, **tasks}
    assert "ops" not in hello.instructions


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
        assert (await surface.hello(caller)).capabilities == {"tools": {"listChanged": True}, **COMMON}
