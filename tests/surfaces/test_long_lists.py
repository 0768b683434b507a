"""Lists of megabytes: whatever a server lists, an answer is bounded, and so is what the event loop does for it."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.dynamic import DynamicSurface
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.workbench import Workbench
from tests.support.lag import LagProbe
from tests.support.memory import MemoryServer, serving
from tests.surfaces.benches import HANDSHAKE, answer

STRETCH_SECONDS = 0.1
AT_ONCE = 30
QUOTES = '"\\' * 50_000


def long_lists() -> MemoryServer:
    """16 MB of tools, and 12 MB of prompts and of resources."""
    server = MemoryServer("a", tools=(), prompts=(), resources=())
    listed: dict[str, list[dict[str, Any]]] = {
        "tools": [{"name": f"t{n}", "description": QUOTES, "inputSchema": {"type": "object"}} for n in range(64)],
        "prompts": [{"name": f"p{n}", "description": "d" * 2500} for n in range(4800)],
        "resources": [{"uri": f"file:///{n}", "name": "r", "description": "d" * 2500} for n in range(4800)],
    }
    for kind, items in listed.items():
        server.methods[f"{kind}/list"] = {kind: items}
    return server


def opening(detail: str) -> dict[str, Any]:
    return {"name": "open_toolbox", "arguments": {"toolbox": "dev", "detail": detail}}


CASES: dict[str, tuple[type[ProxySurface], str, dict[str, Any]]] = {
    "full": (ProxySurface, "tools/call", opening("full")),
    "signature": (ProxySurface, "tools/call", opening("signature")),
    "prompts": (ProxySurface, "prompts/list", {}),
    "resources": (ProxySurface, "resources/list", {}),
    "native": (DynamicSurface, "tools/list", {}),
}


async def opened(workbench: Workbench, kind: type[ProxySurface]) -> Surface:
    surface = kind(workbench)
    await answer(surface, "tools/call", HANDSHAKE, **opening("auto"))
    return surface


@pytest.fixture(autouse=True)
def own_objects():
    """The garbage collector looks at the objects of the test alone, and not at those of all modules that are loaded."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("case", CASES)
async def test_many_requests_for_a_long_list_are_answered_in_short_turns(case: str):
    kind, method, params = CASES[case]
    async with serving({"dev": {"a": long_lists()}}) as workbench:
        surface = await opened(workbench, kind)
        await answer(surface, method, HANDSHAKE, **params)
        async with LagProbe() as lag:
            answers = await asyncio.gather(*(answer(surface, method, HANDSHAKE, **params) for _ in range(AT_ONCE)))
        assert lag.worst_cpu_seconds < STRETCH_SECONDS
        assert {len(one) for one in answers} == {len(answers[0])}
        assert len(answers[0]) < 8 * 1024 * 1024


async def test_while_a_client_does_not_read_no_answer_is_made_for_it_and_then_one_after_the_other():
    async with serving({"dev": {"a": long_lists()}}) as workbench:
        surface = await opened(workbench, ProxySurface)
        account, budget = workbench.account(HANDSHAKE.audience), workbench.budget
        account.wrote(int(budget.share) + 1)
        before = budget.held
        asked = [asyncio.ensure_future(answer(surface, "tools/call", HANDSHAKE, **opening("full"))) for _ in range(9)]
        most = await most_held(workbench, 500)
        assert not any(one.done() for one in asked)
        assert most == before
        account.was_read(int(budget.share) + 1)
        done = asyncio.gather(*asked)
        most = 0
        while not done.done():
            most = max(most, await most_held(workbench, 1))
        assert 0 < most <= 8 * 1024 * 1024
        assert budget.held == 0


async def most_held(workbench: Workbench, turns: int) -> int:
    most = 0
    for _ in range(turns):
        await asyncio.sleep(0)
        most = max(most, workbench.budget.held)
    return most


@pytest.mark.parametrize("detail", ["full", "signature"])
async def test_an_answer_that_would_be_too_large_has_the_first_tools_and_says_how_many_are_left_out(detail: str):
    async with serving({"dev": {"a": long_lists()}}) as workbench:
        surface = await opened(workbench, ProxySurface)
        result = json.loads(await answer(surface, "tools/call", HANDSHAKE, **opening(detail)))
    said = json.loads(result["content"][0]["text"])
    names = [tool["name"] for tool in said["tools"]]
    assert names == [f"t{number}" for number in range(len(names))]
    assert said["tools_left_out"] == 64 - len(names) > 0
    assert said["note"].startswith(f"Only the first {len(names)} of 64 tools fit in one response.")


async def test_names_of_megabytes_that_are_withheld_cost_an_open_little():
    server = MemoryServer("a")
    pairs = [{"name": f"{n // 2}" + "x" * 240_000, "inputSchema": {"type": "object"}} for n in range(60)]
    server.methods["tools/list"] = {"tools": pairs}
    async with serving({"dev": {"a": server}}) as workbench:
        surface = await opened(workbench, ProxySurface)
        async with LagProbe() as lag:
            answers = [await answer(surface, "tools/call", HANDSHAKE, **opening(detail)) for detail in ("auto", "full")]
        assert lag.worst_cpu_seconds < STRETCH_SECONDS
        assert max(map(len, answers)) < 100_000
        said = json.loads(json.loads(answers[1])["content"][0]["text"])
        assert [len(tool["name"]) for tool in said["tools_withheld"]] == [200] * 30
