"""BackgroundTasks with an owner."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from mcp_workbench.wire.background import BackgroundTasks, in_background

SOURCE = Path(__file__).parents[2] / "src" / "mcp_workbench"


async def forever() -> None:
    await asyncio.Event().wait()


async def fails() -> None:
    raise ValueError("broken")


async def test_an_owner_knows_its_tasks_until_they_are_done():
    tasks, gate = BackgroundTasks(), asyncio.Event()
    first, second = tasks.start(gate.wait()), tasks.start(forever(), name="second")
    assert (set(tasks), second.get_name()) == ({first, second}, "second")
    gate.set()
    await first
    await asyncio.sleep(0)
    assert list(tasks) == [second]
    tasks.cancel()
    await asyncio.wait((second,))
    assert (len(tasks), second.cancelled()) == (0, True)


async def test_a_failure_that_its_owner_knows_of_is_not_reported_again():
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
    task = BackgroundTasks().start(fails())
    await asyncio.wait((task,))
    del task
    await asyncio.sleep(0)
    assert reported == []


async def test_what_runs_beside_a_block_ends_with_it():
    with in_background(forever()) as task:
        await asyncio.sleep(0)
        assert not task.done()
    await asyncio.wait((task,))
    assert task.cancelled()


async def test_what_runs_beside_a_block_ends_with_its_failure_too():
    with pytest.raises(ValueError, match="broken"), in_background(forever()) as task:
        await fails()
    await asyncio.wait((task,))
    assert task.cancelled()


def test_few_places_start_tasks():
    """Others have an owner: they go through `BackgroundTasks`."""
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"\b(create_task|ensure_future|TaskGroup)\(", line)
    ]
    assert len(found) <= 20, "\n".join(found)
