"""Background tasks that belong to an owner, who awaits or cancels them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Generator, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def consume_exception(done: asyncio.Future[Any]) -> None:
    """Done callback that keeps the event loop from logging an exception that nobody retrieves."""
    if not done.cancelled():
        done.exception()


class BackgroundTasks:
    """The running tasks of one owner. Their exceptions are not logged."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(tuple(self._running))

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Start `work` in the next turn of the event loop."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def cancel(self) -> None:
        """Request the cancellation of all running tasks."""
        for task in self:
            task.cancel()

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        consume_exception(task)


@contextlib.contextmanager
def in_background(work: Coroutine[Any, Any, T]) -> Generator[asyncio.Task[T]]:
    """Run `work` during a `with` block and cancel it at the end of the block."""
    tasks = BackgroundTasks()
    try:
        yield tasks.start(work)
    finally:
        tasks.cancel()
