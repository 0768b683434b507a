"""Our end of the guardian process, which ends the processes that servers leave behind, even if this process is killed.

Nothing here waits for long: if the guardian hangs or was killed, only hidden processes are missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys

from mcp_workbench import logger
from mcp_workbench.limits import Limits
from mcp_workbench.servers import guardian


class Guardian:
    """Our end of the guardian process. Without it (it was killed) only daemons are missed."""

    def __init__(self, run: str, limits: Limits) -> None:
        self._limits = limits
        self._process = subprocess.Popen(  # noqa: S603 -- our own script
            [sys.executable, "-I", "-S", guardian.__file__, run],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )
        self._answers: dict[str, asyncio.Future[None]] = {}
        self._ended = asyncio.get_running_loop().create_future()
        self._buffer = b""
        assert self._process.stdout is not None  # noqa: S101 -- a pipe was asked for
        self._output = self._process.stdout.fileno()
        os.set_blocking(self._output, False)
        assert self._process.stdin is not None  # noqa: S101 -- a pipe was asked for
        os.set_blocking(self._process.stdin.fileno(), False)
        asyncio.get_running_loop().add_reader(self._output, self._read)

    @property
    def lives(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def announce(self, group: int) -> None:
        """A process group that is to be killed if we are."""
        self._order(f"group {group}")

    def announce_orphan(self, pid: int, start: int) -> None:
        """A process that a server left behind and that is to be killed if we are."""
        self._order(f"orphan {pid} {start}")

    def forget(self, group: int) -> None:
        """That group is gone, and its number may be reused."""
        self._order(f"gone {group}")

    async def sweep(self, marker: str) -> None:
        """Have everything killed that carries the marker."""
        answer = self._answers[marker] = asyncio.get_running_loop().create_future()
        if self._order(marker):
            await asyncio.wait((answer,), timeout=self._limits.sweep_seconds)
        self._answers.pop(marker, None)

    async def close(self) -> None:
        """Its last sweep, and its end."""
        assert self._process.stdin is not None  # noqa: S101 -- a pipe was asked for
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        await asyncio.wait((self._ended,), timeout=self._limits.sweep_seconds)
        if self._process.poll() is None:
            self._process.kill()
        self.bury()

    def bury(self) -> None:
        """It has ended: release its resources."""
        self._process.wait()
        asyncio.get_running_loop().remove_reader(self._output)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _order(self, line: str) -> bool:
        assert self._process.stdin is not None  # noqa: S101 -- a pipe was asked for
        try:
            os.write(self._process.stdin.fileno(), line.encode() + b"\n")
        except (OSError, ValueError):
            logger.warning("the guardian process does not listen; daemonised processes may be missed")
            return False
        return True

    def _read(self) -> None:
        data = os.read(self._output, 4096)
        if not data:
            asyncio.get_running_loop().remove_reader(self._output)
            for answer in (self._ended, *self._answers.values()):
                if not answer.done():
                    answer.set_result(None)
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            marker, _, _ = line.decode().partition(" ")
            if (answer := self._answers.get(marker)) is not None and not answer.done():
                answer.set_result(None)
