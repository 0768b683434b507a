"""Rows F of the faults: a log that cannot be written costs nobody anything."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

from tests.support.configs import rogue, write_config
from tests.support.wire import Wire, environment, heard


async def test_f4_a_stderr_that_nobody_reads_holds_up_neither_a_call_nor_the_end(tmp_path: Path):
    """A host that pipes stderr and never reads it: the pipe is full before the first line."""
    fifo = tmp_path / "stderr"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDWR | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while os.write(descriptor, b"x" * 4096):
            pass
    config = write_config(tmp_path, {"dev": {"loud": rogue("garbage", 10), "good": rogue()}})
    serve = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), "--log-level", "debug"]
    shell = ["/bin/sh", "-c", f'exec "$@" 2<> {fifo}', "sh", *serve]
    wire = await Wire.spawn(shell, env=environment(tmp_path / "home"))
    try:
        await wire.handshake()
        assert heard(await wire.use("dev", "loud", "echo", {"lines": 50}))
        assert heard(await wire.use("dev", "good", "echo"))
        wire.process.send_signal(signal.SIGTERM)
        assert await wire.ended() == 128 + signal.SIGTERM
    finally:
        wire.kill()
        await wire.close()
        os.close(descriptor)
