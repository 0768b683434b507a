"""Servers on the SDK that start at once: a process that has imported it is forked for each of them.

    warm.py SOCKET              waits on a Unix socket for whom to be
    warm.py SOCKET MODULE ARG…  is such a server: this process lends its stdin, stdout and stderr, and ends with it

To import the SDK takes longer than all else that a test with such a server does.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys

STANDARD = (0, 1, 2)


def wait_to_be(path: str) -> None:
    """Fork for each who comes, until stdin ends: whoever started this is gone, or needs no more servers."""
    import select  # noqa: PLC0415 -- not needed by who only lends

    import mcp.server.stdio  # noqa: PLC0415 -- what takes long
    import mcp.server.subscriptions  # noqa: F401, PLC0415

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            line, _ = listener.accept()
            with line:
                said, given, _, _ = socket.recv_fds(line, 65_536, len(STANDARD))
                if os.fork() == 0:
                    listener.close()
                    be(json.loads(said), given)
            for descriptor in given:
                os.close(descriptor)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


def be(arguments: list[str], given: list[int]) -> None:
    """Run a module of this folder as a program; the line to who lends is closed by the end of this process."""
    for descriptor, standard in zip(given, STANDARD, strict=True):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    sys.argv[:] = arguments
    status = 1
    try:
        importlib.import_module(arguments[0]).main()
        status = 0
    finally:
        os._exit(status)


def lend(path: str, arguments: list[str]) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        socket.send_fds(line, [json.dumps(arguments).encode()], STANDARD)
        line.recv(1)


if __name__ == "__main__":
    if sys.argv[2:]:
        lend(sys.argv[1], sys.argv[2:])
    else:
        wait_to_be(sys.argv[1])
