"""Is a program that is forked from a warm one: this process lends its streams, and ends as it does.

    lend.py SOCKET WORD…    what Python is to run: see warm_workbench.py

For programs that something else starts than a test: a shell, for one. Signals end this process only.
"""

import json
import os
import socket
import sys


def main() -> None:
    wish = {"words": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd(), "at_terminal": False}  # noqa: PTH109
    said = json.dumps(wish).encode() + b"\n"
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(sys.argv[1])
        line.sendall(said[socket.send_fds(line, [said], (0, 1, 2)) :])
        for stream in (0, 1):
            os.close(stream)
        told = b""
        while piece := line.recv(64):
            told += piece
    status = int(told.split()[1])
    os._exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
