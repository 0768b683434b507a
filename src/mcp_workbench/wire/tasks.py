"""Tasks with an owner: whoever starts one here ends it, and hears how it ended in another way than by its result."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def heard(done: asyncio.Future[Any]) -> None:
    """A done-callback: the outcome is known to whoever needs it, and needs no report by the event loop."""
    if not done.cancelled():
        done.exception()


class Tasks:
    """The tasks that one owner started and that still run. It waits for them, or cancels them."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._running))

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Do it from the next turn of the event loop on."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """Have all of them end soon."""
        for task in self:
            task.cancel()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        heard(task)


@contextlib.contextmanager
def beside(work: Coroutine[Any, Any, T]) -> Generator[asyncio.Task[T]]:
    """Do `work` beside a block, and cancel it with the end of the block."""
    tasks = Tasks()
    try:
        yield tasks.start(work)
    finally:
        tasks.cancel()
