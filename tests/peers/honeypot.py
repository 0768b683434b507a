"""A machine whose metadata service is a honeypot: what reaches it, in a network of its own.

    unshare -rn sh -c "ip link set lo up; ip addr add 169.254.169.254/32 dev lo; python -m tests.peers.honeypot"

Prints, as JSON, how often the honeypot was contacted after each attempt.
"""

from __future__ import annotations

import asyncio
import json

from mcp_workbench.config.model import Endpoint
from mcp_workbench.errors import ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http.client import HttpClient
from tests.peers.rogue_http import Rogue, rogue
from tests.servers.remote import agreed, call

METADATA = "169.254.169.254"
SECRET = {"Authorization": "Bearer s3cret-token-123"}


async def by_redirect(honeypot: Rogue) -> str:
    async with rogue() as server:
        server.elsewhere = honeypot.url("ok")
        async with agreed(server.url("moved_away"), endpoint={"headers": SECRET}) as (channel, agreement):
            return await outcome(call(channel, agreement))


async def by_name(honeypot: Rogue) -> str:
    """The name leads to a good address when it is looked at first, and to the honeypot from then on."""
    answers = iter(["127.0.0.1"])

    async def resolve(host: str, port: int) -> list[str]:
        del host, port
        return [next(answers, METADATA)]

    client = HttpClient(Endpoint(url=f"http://server.test:{honeypot.port}/ok"), Limits(), resolve=resolve)
    kinds = [await outcome(exchange(client)) for _ in range(2)]
    await client.close()
    return " ".join(kinds)


async def by_address(honeypot: Rogue) -> str:
    """Somebody who writes the address itself means it: the honeypot can be reached."""
    client = HttpClient(Endpoint(url=honeypot.url("ok")), Limits())
    kind = await outcome(exchange(client))
    await client.close()
    return kind


async def exchange(client: HttpClient) -> None:
    async with client.exchange("GET", {}):
        pass


async def outcome(work: object) -> str:
    try:
        await work  # type: ignore[misc]
    except ServerUnavailable as fault:
        return fault.kind
    return "reached"


async def main() -> None:
    async with rogue(METADATA) as honeypot:
        attempts = (by_redirect, by_name, by_address)
        told = [[one.__name__, await one(honeypot), honeypot.connections] for one in attempts]
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main())
