"""A server that asks as soon as it runs: its client is asked when it has been greeted."""

from __future__ import annotations

from pathlib import Path

from tests.support.configs import write_config
from tests.support.pairs import whole
from tests.support.wire import CLIENT_INFO, HANDSHAKE_VERSION, Wire


async def test_a_server_that_asks_at_its_start_waits_until_the_client_is_initialized(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"s": whole("handshake", "w")}})
    wire = await Wire.start(config, "--toolbox", "dev", "--server", "s")
    try:
        capabilities = {"roots": {}}
        greeting = {"protocolVersion": HANDSHAKE_VERSION, "capabilities": capabilities, "clientInfo": CLIENT_INFO}
        await wire.request("initialize", greeting)
        await wire.request("ping")
        assert "method" not in wire.order[0]
        assert wire.asked == []
        await wire.notify("notifications/initialized")
        await wire.wait_for(lambda: wire.asked, "the question")
        assert wire.asked[0]["method"] == "roots/list"
    finally:
        await wire.close()
