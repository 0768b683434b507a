"""What a modern client asked to be told of, what of it is promised, and that it is told nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.limits import Limits
from mcp_workbench.serve.subscribers import Filter, Subscribers
from mcp_workbench.surfaces.server_info import ServerInfo
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.serve.fakes import PREFIX, FakeLine, FakeSurface
from tests.wire.pair import settle

MODERN = Caller(version="2026-07-28", modern=True)
WITH_TASKS = Caller(
    version="2026-07-28", modern=True, capabilities=Raw(b'{"extensions":{"io.modelcontextprotocol/tasks":{}}}')
)
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"


class Watched(FakeSurface):
    """Resources of the scheme `file` and tasks that begin with `a` can be watched, and who does is counted."""

    def __init__(self, capabilities: Mapping[str, Any] | None = None) -> None:
        super().__init__()
        self.capabilities = capabilities if capabilities is not None else {"tools": {"listChanged": True}}
        self.watched: list[str] = []

    async def server_info(self, caller: Caller) -> ServerInfo:
        del caller
        return ServerInfo(self.capabilities)

    async def subscribe(self, caller: Caller, uri: str) -> bool:
        if not await super().subscribe(caller, uri):
            return False
        self.watched.append(uri)
        return True

    def unsubscribe(self, caller: Caller, uri: str) -> None:
        del caller
        self.watched.remove(uri)

    async def watch_task(self, caller: Caller, task: str) -> bool:
        del caller
        if not task.startswith("a"):
            return False
        self.watched.append(task)
        return True

    def unwatch_task(self, caller: Caller, task: str) -> None:
        del caller
        self.watched.remove(task)


def listening(subscribers: Subscribers, line: FakeLine, wanted: Any, caller: Caller = MODERN) -> asyncio.Task[Raw]:
    params = {"notifications": Raw(json.dumps(wanted).encode())}
    return asyncio.ensure_future(subscribers.listen(caller, line, params))


async def honoured(surface: Watched, wanted: Any, caller: Caller = MODERN) -> Any:
    """What of a subscription is promised."""
    subscribers, line = Subscribers(surface, Limits()), FakeLine(7)
    task = listening(subscribers, line, wanted, caller)
    await settle()
    subscribers.end()
    await asyncio.wait_for(task, 5)
    ((method, params),) = line.told
    assert method == ACKNOWLEDGED
    assert params["_meta"] == {f"{PREFIX}subscriptionId": 7}
    return params["notifications"]


async def refused(wanted: Any, caller: Caller = MODERN, **limits: Any) -> RpcError:
    surface = Watched()
    with pytest.raises(RpcError) as caught:
        await listening(Subscribers(surface, Limits(**limits)), FakeLine(1), wanted, caller)
    assert surface.watched == []
    return caught.value


# -- what is promised


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"tools": {"listChanged": True}}, {"toolsListChanged": True}),
        ({"tools": {}, "prompts": {"listChanged": True}}, {"promptsListChanged": True}),
        ({"tools": []}, {}),
        ({"tools": "x", "prompts": None, "resources": {"listChanged": "yes"}}, {}),
        ({}, {}),
    ],
)
async def test_a_change_is_promised_only_where_it_is_declared_whatever_a_server_declares(declared: Any, expected: Any):
    wanted = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    assert await honoured(Watched(declared), wanted) == expected


async def test_what_can_be_watched_is_promised_once_and_left_at_the_end():
    surface = Watched()
    wanted = {"resourceSubscriptions": ["file:a", "x:b", "file:a"], "taskIds": ["a1", "b1", "a1"]}
    assert await honoured(surface, wanted, WITH_TASKS) == {"resourceSubscriptions": ["file:a"], "taskIds": ["a1"]}
    assert surface.watched == []


async def test_a_subscription_that_is_cancelled_leaves_everything():
    surface = Watched()
    task = listening(Subscribers(surface, Limits()), FakeLine(1), {"resourceSubscriptions": ["file:a", "file:b"]})
    await settle()
    assert surface.watched == ["file:a", "file:b"]
    task.cancel()
    await settle()
    assert surface.watched == []


async def test_a_subscription_that_is_cancelled_half_way_leaves_what_it_had():
    surface, reached = Watched(), asyncio.Event()
    subscribe = surface.subscribe

    async def slow(caller: Caller, uri: str) -> bool:
        if uri == "file:slow":
            reached.set()
            await asyncio.get_running_loop().create_future()
        return await subscribe(caller, uri)

    surface.subscribe = slow  # type: ignore[method-assign] -- one that hangs
    line = FakeLine(1)
    task = listening(Subscribers(surface, Limits()), line, {"resourceSubscriptions": ["file:a", "file:slow"]})
    await asyncio.wait_for(reached.wait(), 5)
    assert surface.watched == ["file:a"]
    task.cancel()
    await settle()
    assert (surface.watched, line.told) == ([], [])


async def test_the_end_is_an_answer_with_the_id_of_the_subscription():
    subscribers = Subscribers(Watched(), Limits())
    task = listening(subscribers, FakeLine("mine"), {})
    await settle()
    subscribers.end()
    result = json.loads(bytes(await asyncio.wait_for(task, 5)))
    assert result == {"resultType": "complete", "_meta": {f"{PREFIX}subscriptionId": "mine"}}


# -- what is refused


@pytest.mark.parametrize("wanted", [None, [], 5, {"toolsListChanged": "true"}, {"taskIds": [5]}, {"taskIds": "a"}])
async def test_what_is_no_filter_is_invalid(wanted: Any):
    assert (await refused(wanted, WITH_TASKS)).code == -32602


async def test_too_many_and_too_long_names_are_invalid():
    assert (await refused({"resourceSubscriptions": ["file:a", "file:b"]}, subscriptions=1)).code == -32602
    both = {"resourceSubscriptions": ["file:a"], "taskIds": ["a1"]}
    assert (await refused(both, WITH_TASKS, subscriptions=1)).code == -32602
    assert (await refused({"resourceSubscriptions": ["file:" + "a" * 6]}, uri_length=10)).code == -32602
    assert (await refused({"taskIds": ["a" * 11]}, WITH_TASKS, uri_length=10)).code == -32602


async def test_tasks_need_the_capability():
    error = await refused({"taskIds": ["a1"]})
    assert error.code == -32021
    assert error.data == {"requiredCapabilities": {"extensions": {f"{PREFIX}tasks": {}}}}


# -- what is told


async def test_each_subscription_is_told_what_it_asked_for_under_its_own_id_and_with_the_servers_meta():
    subscribers, lines = Subscribers(Watched(), Limits()), [FakeLine(number) for number in range(2)]
    tasks = [
        listening(subscribers, line, {"resourceSubscriptions": [uri]})
        for line, uri in zip(lines, ("file:a", "file:b"), strict=True)
    ]
    await settle()
    subscribers.tell(UPDATED, {"uri": Raw(b'"file:b"'), "_meta": Raw(b'{"x":1}')})
    subscribers.tell(UPDATED, {"uri": "file:c"})
    subscribers.tell("notifications/tools/list_changed", {})
    assert [line.told[1:] for line in lines] == [
        [],
        [(UPDATED, {"uri": "file:b", "_meta": {"x": 1, f"{PREFIX}subscriptionId": 1}})],
    ]
    subscribers.end()
    await asyncio.gather(*tasks)
    subscribers.tell(UPDATED, {"uri": "file:b"})
    assert len(lines[1].told) == 2


@pytest.mark.parametrize(
    ("method", "params", "expected"),
    [
        ("notifications/tools/list_changed", {}, True),
        ("notifications/prompts/list_changed", {}, False),
        (UPDATED, {"uri": "file:a"}, True),
        (UPDATED, {"uri": "file:a/part"}, True),
        (UPDATED, {"uri": "file:ab"}, False),
        (UPDATED, {"uri": Raw(b'"file:\\u0061"')}, True),
        (UPDATED, {"uri": Raw(b"5")}, False),
        (UPDATED, {}, False),
        ("notifications/tasks", {"taskId": "1"}, True),
        ("notifications/tasks", {"taskId": "2"}, False),
        ("notifications/tasks", {}, False),
        ("notifications/message", {"level": "info"}, False),
        ("notifications/vendor", {}, False),
    ],
)
def test_what_was_not_asked_for_does_not_fit(method: str, params: dict[str, Any], *, expected: bool):
    wanted = Filter(tools_list_changed=True, resource_subscriptions=["file:a"], task_ids=["1"])
    assert wanted.fits(method, params) is expected
