"""What a server is asked to tell of by itself."""

from __future__ import annotations

from mcp_workbench.connections.connection import Connection
from mcp_workbench.connections.subscriptions import Subscriptions
from mcp_workbench.limits import Limits
from tests.connections.real import Recorded, launch, supervisor
from tests.support.procs import wait_until


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
