"""The five journeys of docs/architecture.md, made in a running workbench that notes which functions it calls."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from tests.serve.http.serving import ALICE, modern, post_modern, program, served
from tests.support.configs import rogue, write_config
from tests.support.procs import wait_until
from tests.support.wire import serving, use_params

Trace = list[str]
"""Functions as `module.py:qualified.name`, in the order of their first call."""
TRACED = Path(__file__).parent / "traced.py"
DESCRIBED = "Described differently"


def traced(folder: Path) -> list[str]:
    return [sys.executable, str(TRACED), str(folder / "trace")]


@contextlib.asynccontextmanager
async def tracing(folder: Path, send_signal: Callable[[int], None]) -> AsyncIterator[Trace]:
    """The list that it gives is filled when the block ends."""
    trace: Trace = []
    send_signal(signal.SIGUSR1)
    await wait_until((folder / "trace.started").exists, what="the start of the trace")
    yield trace
    send_signal(signal.SIGUSR2)
    await wait_until((folder / "trace").exists, what="the trace")
    trace += (folder / "trace").read_text().splitlines()


async def call_on_stdio(folder: Path) -> Trace:
    config = write_config(folder, {"dev": {"fs": rogue()}})
    async with serving(config, program=traced(folder)) as wire:
        await wire.use("dev", "fs", "echo", {"nonce": "first"})
        async with tracing(folder, wire.process.send_signal) as trace:
            await wire.use("dev", "fs", "echo", {"nonce": "second"})
    return trace


async def call_over_http(folder: Path) -> Trace:
    """A modern client, and a remote server: another workbench."""
    (folder / "remote").mkdir()
    remote = write_config(folder / "remote", {"far": {"fs": rogue()}})
    async with served(remote) as far:
        entry = {"url": f"{far.url}/mcp/far/fs", "headers": {"authorization": f"Bearer {ALICE}"}}
        config = write_config(folder, {"dev": {"far": entry}})
        async with program(config, command=traced(folder)) as near, near.client() as http:
            params = {"name": "use_tool", "arguments": use_params("dev", "far", "echo", {"nonce": "n"})}
            assert near.process is not None
            assert (await post_modern(http, modern("tools/call", params))).status_code == 200
            async with tracing(folder, near.process.send_signal) as trace:
                assert (await post_modern(http, modern("tools/call", params))).status_code == 200
    return trace


async def open_from_the_cache(folder: Path) -> Trace:
    """The workbench was started again since the servers listed their tools."""
    config = write_config(folder, {"dev": {"fs": rogue()}})
    async with serving(config) as wire:
        await wire.open("dev")
    async with serving(config, program=traced(folder)) as wire:
        await wire.list_tools()
        async with tracing(folder, wire.process.send_signal) as trace:
            assert (await wire.open("dev"))["tools"]
    return trace


async def question_to_the_client(folder: Path) -> Trace:
    config = write_config(folder, {"dev": {"asks": rogue("asks_sampling")}})
    async with serving(config, program=traced(folder), capabilities={"elicitation": {}}) as wire:
        await wire.open("dev")
        async with tracing(folder, wire.process.send_signal) as trace:
            params = use_params("dev", "asks", "echo", {"method": "elicitation/create"})
            call = await wire.begin("tools/call", {"name": "use_tool", "arguments": params})
            await wire.wait_for(lambda: wire.asked, "the question")
            await wire.send({"jsonrpc": "2.0", "id": wire.asked[0]["id"], "result": {"action": "decline"}})
            await wire.finish(call)
    return trace


async def reload_of_the_configuration(folder: Path) -> Trace:
    config = write_config(folder, {"dev": {"fs": rogue()}})
    async with serving(config, program=traced(folder)) as wire:
        await wire.open("dev")
        async with tracing(folder, wire.process.send_signal) as trace:
            content = json.loads(config.read_text())
            content["toolboxes"]["dev"]["description"] = DESCRIBED
            config.write_text(json.dumps(content))
            await wire.notification("notifications/tools/list_changed")
            assert DESCRIBED in json.dumps(await wire.list_tools())
    return trace


JOURNEYS: dict[str, Callable[[Path], Awaitable[Trace]]] = {
    "A `use_tool` call on stdio": call_on_stdio,
    "A modern call over HTTP, to a remote server": call_over_http,
    "An `open_toolbox` from the cache": open_from_the_cache,
    "A question of a server to the client": question_to_the_client,
    "A reload of the configuration": reload_of_the_configuration,
}
"""By the heading in docs/architecture.md."""
