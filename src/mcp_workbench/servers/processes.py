"""Starts and stops server processes, and leaves none behind.

Each server runs in its own session and process group, with a small environment that carries a marker of this run.
`Child.stop` ends the whole group: it closes stdin, then sends SIGTERM, then SIGKILL. The guardian process finds
processes that left their group, by the marker or by their control group, and does so even if the workbench is killed. A
process that hides from both becomes our child, see `orphans.py`. Nothing here waits long for the guardian: if it hangs
or was killed, only such hidden processes are missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping

from mcp_workbench import logger
from mcp_workbench.config.environment import environment_of
from mcp_workbench.config.model import Launch
from mcp_workbench.errors import SpawnFailed
from mcp_workbench.limits import Limits
from mcp_workbench.servers import guardian
from mcp_workbench.servers.guardian import ControlGroups
from mcp_workbench.servers.orphans import GROUP_POLL_SECONDS, Orphans, ProcessStat, start_of


class GuardianProcess:
    """Our end of the guardian process."""

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
        assert self._process.stdin is not None  # noqa: S101 -- it is a pipe
        assert self._process.stdout is not None  # noqa: S101 -- it is a pipe
        self._pipes = self._process.stdin, self._process.stdout
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)
        self._output = self._process.stdout.fileno()
        asyncio.get_running_loop().add_reader(self._output, self._read)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid

    def announce(self, group: int) -> None:
        """Register a process group to kill if this process is killed."""
        self._order(f"group {group}")

    def announce_orphan(self, pid: int, start: int) -> None:
        """Register a process that a server left behind, to kill if this process is killed."""
        self._order(f"orphan {pid} {start}")

    def forget(self, group: int) -> None:
        """Revoke `announce`: the group is gone, and its number may be reused."""
        self._order(f"gone {group}")

    async def sweep(self, marker: str) -> None:
        """Kill every process that carries the marker."""
        answer = self._answers[marker] = asyncio.get_running_loop().create_future()
        if self._order(marker):
            await asyncio.wait((answer,), timeout=self._limits.sweep_seconds)
        self._answers.pop(marker, None)

    async def close(self) -> None:
        """Let the guardian sweep once more and exit."""
        with contextlib.suppress(OSError):
            self._pipes[0].close()
        await asyncio.wait((self._ended,), timeout=self._limits.sweep_seconds)
        if self._process.poll() is None:
            self._process.kill()
        self.release()

    def release(self) -> None:
        """Release the resources of a guardian that has exited."""
        self._process.wait()
        asyncio.get_running_loop().remove_reader(self._output)
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()

    def _order(self, line: str) -> bool:
        try:
            os.write(self._pipes[0].fileno(), line.encode() + b"\n")
        except (OSError, ValueError):
            logger.warning("the guardian process does not respond; daemons that servers start may be left behind")
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


GROUP_SECONDS = 0.5
"""How long the rest of a group gets to exit after SIGTERM, once its leader has exited."""


def environment(launch: Launch, environ: Mapping[str, str], marker: str) -> dict[str, str]:
    """The environment of a server process, with the marker of the run."""
    return {**environment_of(launch, environ), guardian.VARIABLE: marker}


class Child:
    """A running server process and its group."""

    def __init__(self, process: subprocess.Popen[bytes], marker: str, limits: Limits) -> None:
        self._process = process
        self._limits = limits
        self.marker = marker
        self.pid = process.pid
        self.start = start_of(process.pid)
        """When it was started, in clock ticks since boot; -1 if unknown."""
        self.exited: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """Its exit status; negative for the signal that killed it."""
        self._watch()

    def descriptor(self, name: str) -> int:
        """A copy of its stdin, stdout or stderr, which the caller must close. Raises `SpawnFailed`."""
        pipe = getattr(self._process, name)
        try:
            descriptor = os.dup(pipe.fileno())
        except OSError as error:  # no descriptor is left
            raise _spawn_failed("it", error) from None
        pipe.close()
        return descriptor

    async def stop(self) -> None:
        """End the group, in at most the time of three steps. Its stdin is closed already."""
        limits = self._limits
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()  # a pipe that was not used because the start failed
        if not await self._ends_within(limits.stdin_eof_seconds):
            self.signal(signal.SIGTERM)
            if not await self._ends_within(limits.terminate_seconds):
                self.signal(signal.SIGKILL)
                await self._ends_within(limits.kill_seconds)
        await self._end_group()

    def signal(self, number: int) -> None:
        """Signal the whole group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    async def _end_group(self) -> None:
        """End the rest of the group after its leader exited."""
        self.signal(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + GROUP_SECONDS
        while self._group_exists() and loop.time() < deadline:  # noqa: ASYNC110 -- there is no event for an empty group
            await asyncio.sleep(GROUP_POLL_SECONDS)
        self.signal(signal.SIGKILL)

    def _group_exists(self) -> bool:
        try:
            os.killpg(self.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def _ends_within(self, seconds: float) -> bool:
        done, _ = await asyncio.wait((self.exited,), timeout=seconds)
        return bool(done)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.pid)
        except (AttributeError, OSError):  # not Linux, an old kernel, or no descriptor left
            self._watch_in_thread(loop)
            return

        def reap() -> None:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            self._set_exited(self._process.wait())

        loop.add_reader(descriptor, reap)

    def _watch_in_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        def wait() -> None:
            code = self._process.wait()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._set_exited, code)

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()

    def _set_exited(self, code: int) -> None:
        if not self.exited.done():
            self.exited.set_result(code)


def exit_text(code: int) -> str:
    """Describes for people how a process ended."""
    if code >= 0:
        return f"exited with status {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


class Processes:
    """Every process of one run of the workbench."""

    def __init__(self, limits: Limits, environ: Mapping[str, str] | None = None, *, adopts: bool = False) -> None:
        """With `adopts`, orphans of servers become children of this process, which must have no other children."""
        self._limits = limits
        self._environ = environ if environ is not None else os.environ
        self._run = os.urandom(16).hex()
        self._count = 0
        self._children: set[Child] = set()
        self._guardian: GuardianProcess | None = None
        self._control_groups = ControlGroups(self._run)
        self._moving: list[threading.Thread] = []
        self._orphans = Orphans(self._own, self._adopted, limits, adopts=adopts)

    def spawn(self, launch: Launch) -> Child:
        """Start a server. Raises `SpawnFailed`."""
        if self._guardian is None or not self._guardian.is_alive:
            try:
                self._guardian = self._start_guardian()
            except OSError as error:  # the system can start no process at the moment
                raise _spawn_failed("the guardian of its processes", error) from None
        self._count += 1
        marker = f"{self._run}.{self._count}."
        child = Child(_start(launch, environment(launch, self._environ, marker)), marker, self._limits)
        self._guardian.announce(child.pid)
        self._move(child)
        self._children.add(child)
        self._orphans.look_later()
        return child

    def _move(self, child: Child) -> None:
        """Move a child to its own control group, in a thread: it may take 15 ms."""
        if not self._control_groups:
            return
        moving = threading.Thread(target=self._control_groups.add, args=(str(self._count), child.pid), name="cgroup")
        moving.start()
        self._moving = [*(one for one in self._moving if one.is_alive()), moving]

    async def end(self, child: Child) -> None:
        """Stop a child and all its descendants, including daemons."""
        try:
            await child.stop()
            if self._guardian is not None:
                await self._guardian.sweep(child.marker)
                self._guardian.forget(child.pid)
        finally:
            self._children.discard(child)
            self._orphans.kill_older_than(one.start for one in self._children)

    def _start_guardian(self) -> GuardianProcess:
        """Start the first guardian, or a new one after the last was killed, and register all processes with it."""
        if self._guardian is not None:
            self._guardian.release()
        guardian = GuardianProcess(self._run, self._limits)
        for child in self._children:
            guardian.announce(child.pid)
        for orphan in self._orphans.known:
            guardian.announce_orphan(orphan.pid, orphan.start)
        return guardian

    def _own(self) -> set[int]:
        """The processes that this object started and waits for."""
        guardians = {self._guardian.pid} if self._guardian is not None else set[int]()
        return guardians | {child.pid for child in self._children}

    def _adopted(self, orphan: ProcessStat) -> None:
        if self._guardian is not None:
            self._guardian.announce_orphan(orphan.pid, orphan.start)

    def kill_all(self) -> None:
        """Kill all groups at once, without waiting. The guardian finds the rest."""
        for child in self._children:
            child.signal(signal.SIGKILL)

    async def close(self) -> None:
        """End the guardian after a last sweep, and kill the adopted orphans."""
        if self._guardian is not None:
            await self._guardian.close()
            self._guardian = None
        for moving in self._moving:
            moving.join()
        self._control_groups.kill()
        await self._orphans.close()


_SCARCE = {
    errno.EMFILE: "This process may open no more files: raise its limit (ulimit -n), or set idleTimeout for servers.",
    errno.ENFILE: "The system can open no more files: end some programs.",
    errno.EAGAIN: "No more processes may be started: end some programs, or raise the limit (ulimit -u).",
    errno.ENOMEM: "There is no memory left: end some programs.",
}
"""Hints for when the system runs out of a resource."""


def _start(launch: Launch, env: dict[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 -- an argument vector from the user's own file, never a shell
            [launch.command, *launch.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=launch.cwd,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise _command_failed(launch, error) from None


def _command_failed(launch: Launch, error: OSError | ValueError) -> SpawnFailed:
    command = logger.foreign(launch.command)
    number = error.errno if isinstance(error, OSError) else None
    if launch.cwd is not None and not launch.cwd.is_dir():
        return SpawnFailed("its working folder does not exist (ENOENT)", hint="Correct 'cwd' in the configuration.")
    if number == errno.ENOENT:
        return SpawnFailed(
            f"command '{command}' was not found (ENOENT)", hint=f"Install '{command}', or give its full path."
        )
    if number == errno.EACCES:
        return SpawnFailed(f"command '{command}' is not executable (EACCES)", hint="Check the file's permissions.")
    return _spawn_failed(f"command '{command}'", error)


def _spawn_failed(what: str, error: OSError | ValueError) -> SpawnFailed:
    number = error.errno if isinstance(error, OSError) else None
    name = errno.errorcode.get(number, "error") if number is not None else "not a valid argument"
    hint = _SCARCE.get(number, "") if number is not None else ""
    return SpawnFailed(f"{what} could not be run ({name})", hint=hint)
