"""The guardian: a small process that ends what a workbench leaves behind. Standard library only.

It is run as a script, knows nothing of the package, and holds the reading end of a pipe. A line on
the pipe is a marker: every process that carries it in its environment is killed, and a line says
how many there were. The pipe's end, by a close or by the death of the workbench, is the order to
do so for every marker of the run, and to go.

Markers are found in /proc. Where there is none (macOS), the process groups that were announced as
`group N` lines are killed instead: best effort, since a daemonised process has left its group.
"""

import os
import signal
import sys

VARIABLE = "MCP_WORKBENCH_RUN"


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
    for _ in range(10):
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
        if order.startswith(b"group "):
            groups.add(int(order[6:]))
            continue
        count = sweep(order) if has_proc else 0
        try:
            os.write(1, b"%s %d\n" % (order, count))
        except OSError:
            break
    if has_proc:
        sweep(run)
        return
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except OSError:
            continue


if __name__ == "__main__":
    main()
