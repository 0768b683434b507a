"""Says how Python started it, and ends in a way of choice.

mirror.py FILE [exit STATUS | raise | kill | wait | full]    writes what it is into FILE
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Any


def state() -> dict[str, Any]:
    streams = (sys.stdin, sys.stdout, sys.stderr)
    return {
        "arguments": sys.argv,
        "name": __name__,
        "first place of modules": sys.path[0],
        "variables": dict(os.environ),
        "folder": str(Path.cwd()),
        "descriptors": sorted(os.listdir("/proc/self/fd")),  # noqa: PTH208
        "streams": [[one.fileno(), one.encoding, one.errors, one.line_buffering, one.isatty()] for one in streams],
        "same streams": [sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout, sys.__stderr__ is sys.stderr],
        "handlers": {one.name: str(signal.getsignal(one)) for one in sorted(signal.valid_signals())[:20]},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "collection": [gc.isenabled(), gc.get_threshold()],
        "threads": len(threading.enumerate()),
        "files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "session of its own": os.getsid(0) == os.getpid(),
        "in front": os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp(),
        "read": "" if sys.stdin.isatty() else sys.stdin.read(),
    }


def main() -> None:
    Path(sys.argv[1]).write_text(json.dumps(state()), encoding="utf-8")
    match sys.argv[2:]:
        case ["exit", status]:
            sys.exit(int(status))
        case ["raise"]:
            raise RuntimeError("a defect")
        case ["kill"]:
            os.kill(os.getpid(), signal.SIGTERM)
        case ["wait"]:
            Path(sys.argv[1]).write_text(str(os.getpid()), encoding="utf-8")
            signal.pause()
        case ["full"]:
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
            print("this has no place")
        case _:
            print("said")


if __name__ == "__main__":
    main()
