"""Workbenches that start at once: a process that has imported the package is forked for each of them.

    warm_workbench.py SOCKET    waits on a Unix socket for command lines, until stdin ends

Who comes says what Python is to run, with which variables and in which folder, and gives stdin, stdout and stderr;
they are told the process, and how it ended. It is as if Python had been started, but for the imports, which take
longer than all else that most tests do with it. What is imported when is tested where the program is a whole one.
Scripts of this folder can be run, too: those on the SDK need much of what the workbench needs for HTTP.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import re
import runpy
import selectors
import signal
import socket
import sys
import termios
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import mcp_workbench

STANDARD = (0, 1, 2)
MUCH = 1024 * 1024
"""Bytes of a file that is not looked into."""
ALSO = ("asyncio", "rich.console", "rich.table", "rich.text")
"""What some modules import only when they need it."""
APART = re.compile(r"\.(demo|__main__)\b")
OVER_HTTP = re.compile(r"\.http\b|\.(serve_http|auth|login|browser)$")
"""Modules that one needs that serves over HTTP, or has a server that is reached so."""


class Wish(NamedTuple):
    """What somebody wants to run, and with which streams."""

    words: list[str]
    """What stands behind `python`: `-m mcp_workbench …`, or a script and its arguments."""
    env: dict[str, str]
    cwd: str
    at_terminal: bool
    streams: list[int]

    @property
    def is_over_http(self) -> bool:
        """Whether it is likely; one that is, and is not taken for it, imports more by itself."""
        words = self.words
        file = words[words.index("--config") + 1] if "--config" in words[:-1] else self.env.get("WORKBENCH_CONFIG", "")
        return words[0] != "-m" or "--http" in words or _has_remote(Path(self.cwd, file))


def _has_remote(config: Path) -> bool:
    try:
        return config.is_file() and config.stat().st_size < MUCH and b'"url"' in config.read_bytes()
    except OSError:
        return False


class Nursery:
    """The processes that were forked, and the lines to who wanted them."""

    def __init__(self, path: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        self._running: dict[int, tuple[int, socket.socket]] = {}
        self._has_http = False

    def wait(self) -> Wish | None:
        """In a process that was forked: what to run. In this one: nothing, as soon as stdin ends."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is sys.stdin:
                    return None
                if key.fileobj is not self._listener:
                    self._tell_end(key.fd)
                elif (wish := self._fork()) is not None:
                    return wish

    def _fork(self) -> Wish | None:
        line, _ = self._listener.accept()
        if (wish := _read(line)) is None:
            line.close()
            return None
        if wish.is_over_http and not self._has_http:
            self._has_http = True
            _import(module for module in _modules() if OVER_HTTP.search(module))
        pid = os.fork()
        if pid == 0:
            line.close()
            self._close()
            return wish
        for stream in wish.streams:
            os.close(stream)
        process = os.pidfd_open(pid)
        self._selector.register(process, selectors.EVENT_READ)
        self._running[process] = pid, line
        _tell(line, pid)
        return None

    def _tell_end(self, process: int) -> None:
        pid, line = self._running.pop(process)
        self._selector.unregister(process)
        os.close(process)
        _, status = os.waitpid(pid, 0)
        with line:
            _tell(line, os.waitstatus_to_exitcode(status))

    def _close(self) -> None:
        """Nothing of this is open in a process that was forked."""
        self._selector.close()
        self._listener.close()
        for process, (_, line) in self._running.items():
            os.close(process)
            line.close()


def _tell(line: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # who wanted it may be gone
        line.sendall(f"{number}\n".encode())


def _read(line: socket.socket) -> Wish | None:
    """Nothing, where somebody went before all was said."""
    said, streams, _, _ = socket.recv_fds(line, 65_536, len(STANDARD))
    while not said.endswith(b"\n"):
        if not (piece := line.recv(65_536)):
            return None
        said += piece
    wanted: dict[str, Any] = json.loads(said)
    return Wish(**wanted, streams=list(streams))


def _modules() -> list[str]:
    """All of the package that a command may need."""
    found = pkgutil.walk_packages(mcp_workbench.__path__, "mcp_workbench.")
    return [module.name for module in found if not APART.search(module.name)]


def _import(modules: Iterable[str]) -> None:
    """Keep what is imported out of every later collection of garbage: a process would have to copy it."""
    for module in modules:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()


def be(wish: Wish) -> None:
    """What Python does before it runs a module; and then that."""
    for given, standard in zip(wish.streams, STANDARD, strict=True):
        os.dup2(given, standard)
        os.close(given)
    if wish.at_terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(wish.cwd)
    os.environ.clear()
    os.environ.update(wish.env)
    sys.stdin = sys.__stdin__ = _text(sys.stdin, "r")
    sys.stdout = sys.__stdout__ = _text(sys.stdout, "w")
    sys.stderr = sys.__stderr__ = _text(sys.stderr, "w")
    gc.enable()
    try:
        run(wish)
    except SystemExit as ending:
        if isinstance(ending.code, int):
            end(ending.code)
        raise


def run(wish: Wish) -> None:
    if wish.words[0] == "-m":
        sys.path[0] = wish.cwd
        sys.argv[1:] = wish.words[2:]
        runpy.run_module(wish.words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = wish.words
        runpy.run_path(wish.words[0], run_name="__main__")


def end(status: int) -> None:
    """What Python does at the end, but to take every module apart, which takes longer than most programs run.

    Where something is in the way, Python itself may tell.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status & 0xFF)


def _text(like: TextIO, mode: str) -> TextIO:
    """A stream as Python opens it, on what is there now."""
    number, is_direct = like.fileno(), bool(os.environ.get("PYTHONUNBUFFERED"))
    binary = open(number, f"{mode}b", 0 if is_direct and mode == "w" else -1, closefd=False)  # noqa: SIM115
    is_lined = not is_direct and (number == sys.__stderr__.fileno() or binary.isatty())
    return io.TextIOWrapper(binary, like.encoding, like.errors, "\n", is_lined, is_direct)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    _import([*ALSO, *(module for module in _modules() if not OVER_HTTP.search(module))])
    nursery = Nursery(sys.argv[1])
    print("ready", flush=True)
    wish = nursery.wait()
    del nursery
    if wish is not None:
        be(wish)


if __name__ == "__main__":
    main()
