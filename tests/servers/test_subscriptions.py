"""What a server is asked to tell of by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import ServerRefused, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.call_slots import Slots
from mcp_workbench.servers.connection import Connection
from mcp_workbench.servers.negotiate import Agreement
from mcp_workbench.servers.subscriptions import Subscriptions
from mcp_workbench.servers.supervisor import Supervisor
from mcp_workbench.wire import eras
from mcp_workbench.wire.caller import LIBRARY
from tests.servers.real import Recorded, launch, supervisor
from tests.support.memory import EVERYTHING, LISTEN, MemoryServer
from tests.support.procs import wait_until
from tests.wire.pair import settle

LISTS = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
SUBSCRIBE, UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"


async def connected(server: MemoryServer, offers: Any = EVERYTHING) -> Connection:
    """A new connection to a server."""
    agreement = Agreement(version="", modern=server.modern, offers=offers)
    return Connection(await server.open(), agreement, Slots(1, 1, 1), Limits())


def listens(server: MemoryServer) -> list[dict[str, Any]]:
    """What the server was asked to tell of, each time."""
    return [params["notifications"] for params in server.asked(LISTEN)]


async def over(subscriptions: Subscriptions, connection: Connection) -> None:
    """Connected, and until nothing listens any more."""
    before = asyncio.all_tasks()
    subscriptions.connected(connection)
    assert asyncio.all_tasks() - before
    await wait_until(lambda: not asyncio.all_tasks() - before, what="the end of the subscription")


class Subscribing(Recorded):
    """Asks each new connection for what is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.subscriptions = Subscriptions(Limits())

    def connected(self, connection: Connection, *, again: bool) -> None:
        super().connected(connection, again=again)
        self.subscriptions.connected(connection)


async def test_a_modern_server_is_asked_to_tell_of_changes():
    events = Subscribing()
    async with supervisor(launch("modern"), events=events) as supervised:
        await supervised.forward("tools/call", {"name": "grow", "arguments": {}}, None)
        await wait_until(lambda: "notifications/tools/list_changed" in events.notified_of)
        events.subscriptions.close()


# -- modern servers: one request for everything


async def test_a_new_connection_is_listened_to_before_the_call_that_it_was_made_for():
    server, events = MemoryServer(modern=True), Subscribing()
    supervised = Supervisor("dev/fs", server.open, LIBRARY, Limits(), events)
    await supervised.forward("tools/call", {"name": "t"}, None)
    assert server.events == ["initialize", "server/discover", LISTEN, "tools/call"]
    assert listens(server) == [LISTS]
    events.subscriptions.close()
    await supervised.close()


async def test_many_changes_at_once_are_one_request():
    server, uris = MemoryServer(modern=True), [f"file:///{number}" for number in range(500)]
    connection, subscriptions = await connected(server), Subscriptions(Limits())
    subscriptions.connected(connection)
    await settle()
    for uri in uris:
        await subscriptions.subscribe(connection, uri)
    subscriptions.watch_task(connection, "task")
    await settle()
    assert listens(server) == [LISTS, {**LISTS, "resourceSubscriptions": uris, "taskIds": ["task"]}]
    for uri in uris:
        subscriptions.unsubscribe(connection, uri)
    subscriptions.unwatch_task(connection, "task")
    await settle()
    assert listens(server)[2:] == [LISTS]


async def test_the_new_request_is_sent_before_the_one_that_it_replaces_ends():
    server = MemoryServer(modern=True)
    connection, subscriptions = await connected(server), Subscriptions(Limits())
    subscriptions.connected(connection)
    await settle()
    await subscriptions.subscribe(connection, "file:///a")
    await settle()
    assert server.events == [LISTEN, LISTEN, f"cancelled {LISTEN}"]


async def test_what_two_watch_is_told_until_both_have_left():
    server = MemoryServer(modern=True)
    connection, subscriptions = await connected(server), Subscriptions(Limits())
    for _ in range(2):
        await subscriptions.subscribe(connection, "file:///a")
        subscriptions.watch_task(connection, "task")
        await settle()
    both = {**LISTS, "resourceSubscriptions": ["file:///a"], "taskIds": ["task"]}
    assert listens(server) == [both]
    subscriptions.unsubscribe(connection, "file:///a")
    subscriptions.unwatch_task(connection, "task")
    await settle()
    assert listens(server) == [both]
    subscriptions.unsubscribe(connection, "file:///a")
    subscriptions.unwatch_task(connection, "task")
    await settle()
    assert listens(server) == [both, LISTS]


async def test_the_newest_connection_is_the_one_that_is_listened_to():
    old, new = MemoryServer(modern=True), MemoryServer(modern=True)
    before, after, subscriptions = await connected(old), await connected(new), Subscriptions(Limits())
    await subscriptions.subscribe(before, "file:///a")
    old.channels[0].end()
    await subscriptions.subscribe(after, "file:///b")  # while the first one is still due
    await settle()
    assert listens(old) == []
    assert listens(new) == [{**LISTS, "resourceSubscriptions": ["file:///a", "file:///b"]}]


async def test_a_server_that_was_started_again_is_asked_for_everything_again():
    server, subscriptions = MemoryServer(modern=True), Subscriptions(Limits())
    await subscriptions.subscribe(await connected(server), "file:///a")
    await settle()
    subscriptions.connected(await connected(server))
    await settle()
    assert listens(server) == [{**LISTS, "resourceSubscriptions": ["file:///a"]}] * 2


async def test_a_server_that_ends_a_subscription_politely_is_asked_again_and_one_that_refuses_is_not():
    server, subscriptions = MemoryServer(modern=True), Subscriptions(Limits(relist_interval_seconds=0.01))
    refusal = ServerRefused("no", rpc_code=-32601)
    server.methods[LISTEN] = lambda _params: {} if len(listens(server)) < 3 else refusal
    await over(subscriptions, await connected(server))
    assert listens(server) == [LISTS] * 3


async def test_a_subscription_whose_stream_broke_off_is_asked_for_again():
    server, subscriptions = MemoryServer(modern=True), Subscriptions(Limits(relist_interval_seconds=0.01))
    outcomes = [ServerUnavailable("broken", kind="reset"), {}, ServerRefused("no", rpc_code=-32601)]
    server.methods[LISTEN] = lambda _params: outcomes[len(listens(server)) - 1]
    await over(subscriptions, await connected(server))
    assert listens(server) == [LISTS] * 3


async def test_a_server_that_declares_no_change_is_not_asked_for_any():
    server = MemoryServer(modern=True)
    Subscriptions(Limits()).connected(await connected(server, {"tools": {}, "prompts": [], "resources": {}}))
    await settle()
    assert server.requests == []


async def test_after_the_end_nothing_is_listened_to():
    server = MemoryServer(modern=True)
    connection, subscriptions = await connected(server), Subscriptions(Limits())
    subscriptions.connected(connection)
    await settle()
    subscriptions.close()
    await subscriptions.subscribe(connection, "file:///a")
    await settle()
    assert server.events == [LISTEN, f"cancelled {LISTEN}"]


def tagged(number: int) -> dict[str, Raw]:
    return {"_meta": Raw(b'{"%s": %d}' % (eras.SUBSCRIPTION_ID.encode(), number))}


def test_once_a_subscription_is_acknowledged_what_comes_of_the_one_before_is_no_news():
    subscriptions = Subscriptions(Limits())
    assert subscriptions.accepts(eras.RESOURCE_UPDATED, tagged(1))
    assert not subscriptions.accepts(eras.ACKNOWLEDGED, tagged(1))
    assert subscriptions.accepts(eras.RESOURCE_UPDATED, tagged(1))
    assert not subscriptions.accepts(eras.ACKNOWLEDGED, tagged(2))
    assert not subscriptions.accepts(eras.RESOURCE_UPDATED, tagged(1))
    assert subscriptions.accepts(eras.RESOURCE_UPDATED, tagged(2))
    assert subscriptions.accepts(eras.LOGGED, {})


async def test_on_a_new_connection_the_subscription_of_the_old_one_counts_no_more():
    subscriptions = Subscriptions(Limits())
    subscriptions.accepts(eras.ACKNOWLEDGED, tagged(7))
    subscriptions.connected(await connected(MemoryServer(modern=True)))
    assert subscriptions.accepts(eras.RESOURCE_UPDATED, tagged(1))


# -- handshake servers: a request for each resource


async def test_a_handshake_server_is_asked_once_for_what_two_watch():
    server, subscriptions = MemoryServer(), Subscriptions(Limits())
    server.methods |= {SUBSCRIBE: {}, UNSUBSCRIBE: {}}
    connection = await connected(server)
    for _ in range(2):
        await subscriptions.subscribe(connection, "file:///a")
    for _ in range(3):
        subscriptions.unsubscribe(connection, "file:///a")
    await settle()
    assert server.events == [SUBSCRIBE, UNSUBSCRIBE]


async def test_a_handshake_server_that_was_started_again_is_asked_for_each_again():
    server, subscriptions = MemoryServer(), Subscriptions(Limits())
    server.methods[SUBSCRIBE] = {}
    first = await connected(server)
    for uri in ("file:///a", "file:///b"):
        await subscriptions.subscribe(first, uri)
    subscriptions.unsubscribe(None, "file:///b")
    server.requests.clear()
    subscriptions.connected(await connected(server))
    await settle()
    assert server.requests == [(SUBSCRIBE, {"uri": "file:///a"})]


async def test_what_a_server_refused_is_not_watched_and_can_be_asked_for_again():
    server, subscriptions = MemoryServer(), Subscriptions(Limits())
    server.methods[SUBSCRIBE] = ServerRefused("not now", rpc_code=-1)
    connection = await connected(server)
    for _ in range(2):
        with pytest.raises(ServerRefused, match="not now"):
            await subscriptions.subscribe(connection, "file:///a")
    assert len(server.asked(SUBSCRIBE)) == 2
    subscriptions.unsubscribe(connection, "file:///a")
    await settle()
    assert server.asked(UNSUBSCRIBE) == []


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("offers", [{}, {"resources": {}}, {"resources": {"subscribe": "yes"}}, {"resources": []}])
async def test_a_server_without_subscriptions_is_not_asked(offers: Any, *, modern: bool):
    server = MemoryServer(modern=modern)
    with pytest.raises(ServerRefused) as caught:
        await Subscriptions(Limits()).subscribe(await connected(server, offers), "file:///a")
    assert caught.value.rpc_code == -32601
    await settle()
    assert server.requests == []


async def test_a_server_that_cannot_tell_of_tasks_is_not_asked_to():
    server, subscriptions = MemoryServer(), Subscriptions(Limits())
    subscriptions.watch_task(await connected(server), "task")
    await settle()
    assert server.requests == []
