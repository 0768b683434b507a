"""Tasks of several servers: ids that name the server, and lead to it and to no other."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.errors import ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.toolbox import Tasks, ToolboxSurface
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.workbench import Workbench
from tests.support.memory import LISTEN, MemoryServer, rejected, serving
from tests.surfaces.benches import AUDIENCE, HANDSHAKE, MODERN, answer, config_of
from tests.wire.pair import settle

NAME = st.text(min_size=1, max_size=12)
A = ServerIdentifier("dev", "a")
RELATED = "io.modelcontextprotocol/related-task"
DECLARED = b'{"extensions":{"io.modelcontextprotocol/tasks":{}}}'
DECLARING = msgspec.structs.replace(MODERN, capabilities=Raw(DECLARED), key=(AUDIENCE, True, DECLARED))
"""A modern client that declares the extension for tasks."""


def tasks_of(servers: Iterable[str]) -> Tasks:
    """The tasks of a toolbox whose servers need not run."""
    return Tasks(Workbench(config_of({"dev": {server: [] for server in servers}})), "dev")


def shown_id(tasks: Tasks, server: str, own: str) -> str:
    return tasks.shown(ServerIdentifier("dev", server), {"taskId": Raw(json.dumps(own).encode())})["taskId"]


def result(text: bytes | Any) -> Any:
    """A result of server `a` as a client sees it."""
    raw = text if isinstance(text, bytes) else json.dumps(text).encode()
    return json.loads(bytes(tasks_of("ab").shown_result(A, Raw(raw))))


# -- ids


@given(NAME, st.text(max_size=20))
@example("a:b%3A", "c:d")
def test_an_id_leads_back_to_its_server_and_its_own_id(server: str, own: str):
    tasks = tasks_of([server])
    assert tasks.find(shown_id(tasks, server, own)) == (ServerIdentifier("dev", server), own)


@given(st.tuples(NAME, st.text(max_size=8)), st.tuples(NAME, st.text(max_size=8)))
@example(("a", "b:c"), ("a:b", "c"))
def test_tasks_of_two_servers_never_have_one_id(one: tuple[str, str], other: tuple[str, str]):
    tasks = tasks_of([one[0], other[0]])
    assert len({shown_id(tasks, *one), shown_id(tasks, *other)}) == len({one, other})


@pytest.mark.parametrize("shown", ["", "t1", ":t1", "c:t1", "A:t1", "dev:t1", "a"])
def test_an_id_that_names_no_server_of_the_toolbox_is_not_found(shown: str):
    with pytest.raises(RpcError, match="Task not found") as caught:
        tasks_of("ab").find(shown)
    assert caught.value.code == -32602


# -- what a client sees


def test_every_id_of_a_result_names_its_server():
    given_result = {"taskId": "1", "task": {"taskId": "2", "x": 1.5}, "_meta": {RELATED: {"taskId": "3"}, "y": 1}}
    assert result(given_result) == {
        "taskId": "a:1",
        "task": {"taskId": "a:2", "x": 1.5},
        "_meta": {RELATED: {"taskId": "a:3"}, "y": 1},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rb'{"task\u0049d":"b:5"}', {"taskId": "a:b:5"}),
        (rb'{"\u0074ask":{"\u0074ask\u0049d":"b:5"}}', {"task": {"taskId": "a:b:5"}}),
        (rb'{"taskId":"\u0062:5"}', {"taskId": "a:b:5"}),
    ],
)
def test_no_server_gives_out_the_id_of_another_ones_task_however_it_writes_it(text: bytes, expected: Any):
    assert result(text) == expected


def test_a_result_that_is_about_no_task_is_the_bytes_that_it_was():
    raw = Raw(b'{ "content": [1.50], "task": {"id": 1} }')
    assert tasks_of("a").shown_result(A, raw) is raw


@pytest.mark.parametrize("text", [b'{"taskId":5}', b'{"task":"x","taskId":null}', b'{"_meta":[],"taskId":[]}'])
def test_what_is_no_id_stays_as_it_is(text: bytes):
    assert result(text) == json.loads(text)


# -- requests


@pytest.mark.parametrize(
    ("modern", "method"),
    [
        (False, "tasks/get"),
        (False, "tasks/result"),
        (False, "tasks/cancel"),
        (True, "tasks/get"),
        (True, "tasks/update"),
    ],
)
async def test_a_request_goes_to_the_server_of_the_task_under_its_own_id(method: str, *, modern: bool):
    servers = {name: MemoryServer(name, modern=modern) for name in "ab"}
    servers["a"].methods[method] = rejected(method)
    servers["b"].methods[method] = lambda params: {"taskId": params["taskId"], "status": "working"}
    async with serving({"dev": servers}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        answered = json.loads(await answer(surface, method, DECLARING if modern else HANDSHAKE, taskId="b:a:1", x=1))
    assert answered == {"taskId": "b:a:1", "status": "working"}
    (params,) = servers["b"].asked(method)
    assert (params["taskId"], params["x"]) == ("a:1", 1)
    assert servers["a"].starts == 0


@pytest.mark.parametrize("task", [{}, {"taskId": 5}, {"taskId": None}, {"taskId": "nobody:1"}])
async def test_a_request_without_a_task_reaches_nobody(task: Any):
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}) as workbench:
        with pytest.raises(RpcError) as caught:
            await answer(ToolboxSurface(workbench, "dev"), "tasks/get", HANDSHAKE, **task)
    assert caught.value.code == -32602
    assert server.starts == 0


@pytest.mark.parametrize("modern", [False, True])
async def test_between_the_eras_there_are_no_tasks(*, modern: bool):
    server = MemoryServer("a", modern=modern)
    server.methods["tasks/get"] = rejected("tasks/get")
    caller = HANDSHAKE if modern else DECLARING
    async with serving({"dev": {"a": server}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        with pytest.raises(RpcError, match="Task not found"):
            await answer(surface, "tasks/get", caller, taskId="a:1")


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
async def test_a_modern_client_that_did_not_declare_tasks_is_told_what_to_declare(method: str):
    server = MemoryServer("a", modern=True)
    async with serving({"dev": {"a": server}}) as workbench:
        with pytest.raises(RpcError) as caught:
            await answer(ToolboxSurface(workbench, "dev"), method, MODERN, taskId="a:1")
    assert (caught.value.code, caught.value.data) == (-32021, {"requiredCapabilities": json.loads(DECLARED)})
    assert server.starts == 0


async def test_the_tasks_of_all_servers_are_listed_and_one_that_fails_has_none():
    servers = {name: MemoryServer(name) for name in "abc"}
    servers["a"].methods["tasks/list"] = {"tasks": [{"taskId": "1"}, {"taskId": "2"}]}
    servers["b"].methods["tasks/list"] = ServerRefused("no", rpc_code=-1)
    servers["c"].methods["tasks/list"] = {"tasks": [{"taskId": "1"}]}
    async with serving({"dev": servers}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await answer(surface, "tools/list", HANDSHAKE)
        listed = json.loads(await answer(surface, "tasks/list", HANDSHAKE))
    assert [task["taskId"] for task in listed["tasks"]] == ["a:1", "a:2", "c:1"]


async def test_listing_tasks_starts_nothing():
    server = MemoryServer("a")
    async with serving({"dev": {"a": server}}) as workbench:
        assert json.loads(await answer(ToolboxSurface(workbench, "dev"), "tasks/list", HANDSHAKE)) == {"tasks": []}
    assert server.starts == 0


# -- being told of one


async def test_a_task_of_a_modern_server_can_be_watched_and_others_can_not():
    servers = {"a": MemoryServer("a", modern=True), "b": MemoryServer("b")}
    async with serving({"dev": servers}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        watched = [await surface.watch_task(MODERN, task) for task in ("a:1", "b:1", "nobody:1", "x")]
        assert watched == [True, False, False, False]
        await settle()
        assert servers["a"].asked(LISTEN)[-1]["notifications"]["taskIds"] == ["1"]
        surface.unwatch_task(MODERN, "a:1")
        await settle()
        assert "taskIds" not in servers["a"].asked(LISTEN)[-1]["notifications"]


async def test_unwatching_makes_no_place_for_a_client_that_has_none():
    async with serving({"dev": {"a": MemoryServer("a")}}, places=1) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        stranger = Caller(version="2026-07-28", modern=True, audience="x", key=("x", True, b"{}"))
        surface.unwatch_task(stranger, "a:1")
        assert workbench.routers("x") == []


def test_news_and_questions_about_a_task_name_its_server():
    surface = ToolboxSurface(Workbench(config_of({"dev": {"a": []}})), "dev")
    news = {"taskId": Raw(b'"1"'), "status": Raw(b'"done"')}
    for method in ("notifications/tasks/status", "notifications/tasks"):
        (told,) = surface.translate(A, method, news)
        assert told["taskId"] == "a:1"
    related = {"_meta": Raw(b'{"%s":{"taskId":"1"}}' % RELATED.encode())}
    asked = surface.question_params(A, "elicitation/create", related)
    assert asked is not None
    assert asked["_meta"][RELATED] == {"taskId": "a:1"}
