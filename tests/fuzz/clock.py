"""A loop whose clock jumps to the next timer when there is nothing to do: deadlines cost no time, a hang is an error.

Everything runs in this one thread, so what is on a pipe can be read at once, and if nothing can be read
and no timer is set, nothing will ever happen.
"""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
import tempfile
import unicodedata
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar
from unittest import mock

from mcp_workbench import logger
from mcp_workbench.servers.health import Health

T = TypeVar("T")
LOG_LINE_BYTES = 4096
CAUGHT_AT_A_BOUNDARY = "it could not be started ("
"""What a start fails with where nobody foresaw the exception."""
HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))
"""Kinds of characters that a terminal would not show, or do something else with."""


class HangError(AssertionError):
    """Somebody waits for something that can't come."""


class _Selector(selectors.DefaultSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if timeout is None:
            raise HangError("nothing will ever happen")
        # asyncio rounds what is left to the clock's resolution, which may be too little to reach the timer.
        self.now += max(timeout, 1e-6)
        return []


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """At once, here: a thread would take real time."""
        del executor
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 -- as an executor does
            done.set_exception(error)
        return done


def run(scene: Coroutine[Any, Any, T], *, errors: tuple[str, ...] = ()) -> T:
    """The scene's result, after which nothing is left of it: no task, no descriptor, no error that nobody saw.

    Every line that it logs is fit for a terminal, and none tells of a defect; `errors` may be there.
    """
    before = descriptors()
    unseen: list[str] = []
    loop = _Loop()
    loop.set_exception_handler(lambda _, context: unseen.append(f"{context['message']}: {context.get('exception')!r}"))
    gc.disable()  # so that what the scene leaves behind is young, and found below without looking at all the rest
    try:
        with (
            tempfile.TemporaryFile() as file,
            mock.patch.object(logger, "log", logger.Log(file.fileno(), logger.LEVELS[0])),
            mock.patch.dict(Health.__init__.__kwdefaults__, clock=loop.time),
        ):
            result = loop.run_until_complete(scene)
            left = [task for task in asyncio.all_tasks(loop) if not _ends_soon(loop, task)]
            assert not left, left
            gc.collect(0)
            file.seek(0)
            lines = file.readlines()
    finally:
        _wind_up(loop)
        gc.enable()
    assert not unseen, unseen
    assert descriptors() <= before, "a descriptor is left open"
    for line in lines:
        check_log_line(line, errors)
    return result


def descriptors() -> int:
    """How many are open."""
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 -- asked twice for each example


def _ends_soon(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> bool:
    """Whether a task was about to end anyway, when the scene did."""
    for _ in range(20):
        if task.done():
            return True
        loop.run_until_complete(asyncio.sleep(0))
    return task.done()


def _wind_up(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    try:
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=1))
    except HangError:
        pass
    finally:
        loop.close()


def check_log_line(line: bytes, errors: tuple[str, ...] = ()) -> None:
    """One event is one line that a terminal can show, and no defect of ours."""
    text = line.decode()
    assert len(line) <= LOG_LINE_BYTES, text
    assert text.endswith("\n")
    assert not any(unicodedata.category(character) in HIDDEN for character in text[:-1]), text
    assert CAUGHT_AT_A_BOUNDARY not in text, text
    level = text.split(" ", 2)[1]
    assert level != "error" or any(error in text for error in errors), text
