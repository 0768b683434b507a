"""The guardian: a small process that kills the processes a workbench leaves behind, even if the workbench is killed.

It runs as a script, uses only the standard library, and reads orders from a pipe, one per line. A marker is an order to
kill every process that carries it in its environment; the guardian answers with their number. When the pipe ends,
because the workbench closed it or died, the guardian kills the processes of all markers of the run and exits.

A process may overwrite or hide its environment, so other orders name what to kill at the end: `group N` a process group
(`gone N` revokes it), `orphan N START` a process that the workbench adopted. Where the system allows control groups
(Linux, cgroup v2), the workbench moves each server to its own group: everything that the server starts stays in it and
is killed with it. The guardian finds markers in /proc. Without /proc (macOS) it knows only the process groups, so it
misses a daemon that left its group.
"""

import os
import signal
import sys
import time

VARIABLE = "MCP_WORKBENCH_RUN"
ROUNDS = 10
"""The most scans of one sweep, so that a process that forks faster than it is killed can't block the guardian."""
HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
POLL_SECONDS = 0.005
EMPTY_SECONDS = 0.3
"""How long to wait for a control group to become empty after it was killed."""


def carriers(marker: bytes) -> list[int]:
    """The processes whose environment has the marker, except this one."""
    found: list[int] = []
    wanted = b"\0" + VARIABLE.encode() + b"=" + marker
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = b"\0" + file.read()
        except OSError:
            continue
        if wanted in environment:
            found.append(int(entry))
    return found


def sweep(marker: bytes) -> int:
    """Kill the carriers of a marker until a scan finds none: a dying process may have forked."""
    total = 0
    for _ in range(ROUNDS):
        pids = carriers(marker)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                total += 1
            except OSError:
                continue
        if not pids:
            break
    return total


class ControlGroups:
    """A control group for each server, below one for the run. Does nothing where the system does not allow it."""

    def __init__(self, run: str) -> None:
        parent = own_group()
        self._folder = f"{parent}/mcp-workbench-{run}" if parent else ""

    def __bool__(self) -> bool:
        return bool(self._folder)

    def add(self, name: str, pid: int) -> None:
        """Move a process, and all that it starts later, to its own group. It may take milliseconds."""
        try:
            make(self._folder)
            make(f"{self._folder}/{name}")
            put(f"{self._folder}/{name}/cgroup.procs", str(pid))
        except OSError:
            return

    def kill(self, name: str = "") -> None:
        """Kill all processes of a group, or of all groups, and remove it."""
        try:
            if self._folder:
                empty(f"{self._folder}/{name}" if name else self._folder)
        except OSError:
            return


def own_group() -> str:
    """The folder of our own control group; empty without cgroup v2 or without permission to change it."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            own = next((line.rstrip("\n")[3:] for line in file if line.startswith("0::")), "")
    except OSError:
        return ""
    folders = (f"{root}{own}".rstrip("/") for root in HIERARCHIES if own)
    found = next((folder for folder in folders if os.path.exists(f"{folder}/cgroup.subtree_control")), "")
    has_kill = (
        os.path.exists(f"{found}/cgroup.kill") or own == "/"
    )  # the root group has no such file, the groups below it have
    return found if found and has_kill and os.access(f"{found}/cgroup.procs", os.W_OK) else ""


def make(folder: str) -> None:
    try:
        os.mkdir(folder)
    except FileExistsError:
        return


def empty(folder: str) -> None:
    """Kill all processes in a control group and its subgroups, and remove the groups. Raises `OSError`."""
    put(f"{folder}/cgroup.kill", "1")
    inside = [entry.path for entry in os.scandir(folder) if entry.is_dir()]
    until = time.monotonic() + EMPTY_SECONDS
    for one in [*inside, folder]:
        while True:
            try:
                os.rmdir(one)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(POLL_SECONDS)


def put(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def start_of(pid: int) -> str:
    """When a process was started, which identifies it despite PID reuse; empty if unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


class Guardian:
    """The processes of one run, and how to kill them."""

    def __init__(self, run: str) -> None:
        self._run = run.encode()
        self._has_proc = os.path.isdir("/proc/self")
        self._groups: set[int] = set()
        self._orphans: dict[int, str] = {}
        self._control_groups = ControlGroups(run)

    def take(self, order: bytes) -> bytes:
        """Carry out an order and return the answer, empty if none is expected."""
        word, *rest = order.decode().split(" ")
        if word == "group":
            self._groups.add(int(rest[0]))
        elif word == "gone":
            self._groups.discard(int(rest[0]))
        elif word == "orphan":
            self._orphans[int(rest[0])] = rest[1]
        else:
            self._control_groups.kill(word.rstrip(".").rpartition(".")[2])
            return b"%s %d\n" % (order, sweep(order) if self._has_proc else 0)
        return b""

    def end(self) -> None:
        """Kill all remaining processes of the run."""
        for group in self._groups:
            kill(-group)
        for pid, start in self._orphans.items():
            if start_of(pid) == start:
                kill(pid)
        self._control_groups.kill()
        if self._has_proc:
            sweep(self._run)


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return


def main() -> None:
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    guardian = Guardian(sys.argv[1])
    for line in sys.stdin.buffer:
        try:
            os.write(1, guardian.take(line.strip()))
        except OSError:
            break
    guardian.end()


if __name__ == "__main__":
    main()
