"""The guardian: a small process that ends what a workbench leaves behind. Standard library only.

It is run as a script, knows nothing of the package, and holds the reading end of a pipe. A line on
the pipe is a marker: every process that carries it in its environment is killed, and a line says
how many there were. The pipe's end, by a close or by the death of the workbench, is the order to
do so for every marker of the run, and to go.

`group N` announces a process group that is killed at the end too, `gone N` takes that back: a process
may overwrite its environment. Markers are found in /proc; where there is none (macOS) only the groups
are known, so a daemonised process, which has left its group, is missed.
"""

import os
import signal
import sys

VARIABLE = "MCP_WORKBENCH_RUN"
ROUNDS = 10
"""Scans of one sweep: something that forks faster than it is killed must not keep us for ever."""


def carriers(marker: bytes) -> list[int]:
    """The processes whose environment has the marker, ourselves excluded."""
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
    """Kill the carriers of a marker until there are none: a dying process may have forked."""
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


def main() -> None:
    run = sys.argv[1].encode()
    has_proc = os.path.isdir("/proc/self")
    groups: set[int] = set()
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    for line in sys.stdin.buffer:
        order = line.strip()
        word, _, number = order.partition(b" ")
        if word in (b"group", b"gone"):
            groups.add(int(number)) if word == b"group" else groups.discard(int(number))
            continue
        count = sweep(order) if has_proc else 0
        try:
            os.write(1, b"%s %d\n" % (order, count))
        except OSError:
            break
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue
    if has_proc:
        sweep(run)


if __name__ == "__main__":
    main()
