"""A seeded random run: clients call, cancel, flood and hang up while servers crash, hang and are killed.

    python -m tests.nemesis.run --seconds 60 --seed 7

The plan follows from the seed; what becomes of it also from the machine. The history is checked afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal
from unittest import mock

from mcp_workbench import Workbench, load_config, logger
from tests.nemesis.checker import check
from tests.nemesis.clients import Client, Lodger
from tests.nemesis.driver import RETRY_SECONDS, Driver
from tests.nemesis.history import Counted, History, Lagged, Unforeseen, Weighed, read, write
from tests.nemesis.plan import STEPS_PER_SECOND, plan
from tests.nemesis.scene import INDOORS, SERVED, Scene, now
from tests.nemesis.summary import summary
from tests.nemesis.wires import defects, descendants, memory_of
from tests.support import nursery
from tests.support.procs import PROC, Process

CLIENTS = ("ada", "bob", "cyd", "dan")
SETTLE_SECONDS = 5.0
"""How long what ends by itself may take at the end of a run."""
TICK_SECONDS = 0.05
WEIGHT_BYTES = 1024 * 1024
FOLDER = Path(".cache") / "nemesis"


async def run(seed: int, seconds: float, folder: Path, rate: float = STEPS_PER_SECOND) -> History:
    """One run and its history."""
    scene = Scene(folder, seed, [], [], {})
    scene.begin(CLIENTS)
    await _warm_up()
    before = _count(scene, "before", descendants(os.getpid())[1:])
    asyncio.get_running_loop().set_exception_handler(lambda _, context: _report(scene, context))
    try:
        async with _clocked(scene), _indoors(scene) as shared:
            clients = {
                "ada": Client("ada", "handshake", scene, SERVED),
                "bob": Client("bob", "modern", scene, SERVED),
                "cyd": Lodger("cyd", "handshake", scene, **shared, able={}),
                "dan": Lodger("dan", "modern", scene, **shared, able={"elicitation": {}}),
            }
            driver = Driver(scene, clients)
            weighing = asyncio.create_task(_weigh(scene, [clients["ada"], clients["bob"]]))
            await driver.join()
            await driver.be_wrong()
            await driver.carry_out(plan(seed, seconds, CLIENTS, rate))
            await driver.heal()
            await driver.count_people()
            weighing.cancel()
            await asyncio.gather(weighing, return_exceptions=True)
            await driver.finish()
        await _settle(scene, before)
    finally:
        for process in scene.carriers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    return sorted([*scene.history, *read(scene.log)], key=lambda event: event.at)


@contextlib.asynccontextmanager
async def _indoors(scene: Scene) -> AsyncIterator[dict[str, Any]]:
    """A workbench in this process, whose log is kept apart, and the mark of its servers."""
    marker = scene.mark()
    log = scene.folder / "indoors.log"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with mock.patch.object(logger, "log", logger.Log(descriptor, "info")):
            async with Workbench(load_config(scene.config("indoors", marker)), limits=INDOORS) as workbench:
                yield {"workbench": workbench, "marker": marker}
    finally:
        os.close(descriptor)
    for line in defects(log.read_text(encoding="utf-8")):
        scene.note(Unforeseen(at=now(), client="indoors", text=line))


@contextlib.asynccontextmanager
async def _clocked(scene: Scene) -> AsyncIterator[None]:
    """Note how much later than it wanted the driver went on, but for what it computed itself."""

    async def watch() -> None:
        while True:
            before, computed = now(), time.thread_time()
            await asyncio.sleep(TICK_SECONDS)
            lag = now() - before - TICK_SECONDS - (time.thread_time() - computed)
            if lag > TICK_SECONDS:
                scene.note(Lagged(at=now(), seconds=lag))

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _weigh(scene: Scene, clients: list[Client]) -> None:
    """Note when a workbench process holds more memory than any did before, by a MiB or more."""
    most = dict.fromkeys((client.name for client in clients), 0)
    while True:
        for client in clients:
            size = memory_of(client.wire.process.pid) if client.wire is not None else 0
            if size > most[client.name] + WEIGHT_BYTES:
                most[client.name] = size
                scene.note(Weighed(at=now(), client=client.name, size_bytes=size))
        await asyncio.sleep(RETRY_SECONDS)


async def _warm_up() -> None:
    """What is opened once and kept is no leak: by asyncio, and for programs that are forked."""
    if nursery.forks(nursery.PROGRAM, None):
        nursery.warm()
    process = await asyncio.create_subprocess_exec("true")
    await process.wait()
    await asyncio.to_thread(int)


async def _settle(scene: Scene, before: Counted) -> None:
    """Count what is left, as soon as it is nothing, else when it should be nothing."""
    until = now() + SETTLE_SECONDS
    while True:
        children = [one for one in descendants(os.getpid())[1:] if one.command not in before.processes]
        after = _count(scene, "after", [*scene.carriers(), *children])
        grown = len(after.descriptors) > len(before.descriptors) or len(after.tasks) > len(before.tasks)
        if not (after.processes or grown) or now() > until:
            return
        scene.history.remove(after)
        await asyncio.sleep(RETRY_SECONDS)


def _count(scene: Scene, when: Literal["before", "after"], processes: list[Process]) -> Counted:
    """Note what this process holds."""
    current = asyncio.current_task()
    descriptors: list[str] = []
    for entry in sorted(PROC.glob("self/fd/*")):
        with contextlib.suppress(OSError):
            descriptors.append(str(entry.readlink()))
    counted = Counted(
        at=now(),
        when=when,
        processes=tuple(process.command for process in processes),
        descriptors=tuple(descriptors),
        tasks=tuple(sorted(repr(task) for task in asyncio.all_tasks() if task is not current)),
    )
    scene.note(counted)
    return counted


def _report(scene: Scene, context: dict[str, Any]) -> None:
    text = f"{context.get('message')}: {context.get('exception')!r}"
    scene.note(Unforeseen(at=now(), client="indoors", text=text))


def main(arguments: list[str] | None = None) -> int:
    """Run, print what happened; 1 where a promise was not kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60, help="how long clients and faults go on (60)")
    parser.add_argument("--seed", type=int, default=None, help="of the plan (a new one)")
    parser.add_argument("--rate", type=float, default=STEPS_PER_SECOND, help=f"steps in a second ({STEPS_PER_SECOND})")
    parser.add_argument("--history", type=Path, default=None, help="where the history goes, whatever it shows")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1_000_000)
    print(f"seed {seed}, {options.seconds:g} s", flush=True)
    with tempfile.TemporaryDirectory(prefix="nemesis-") as folder:
        history = asyncio.run(run(seed, options.seconds, Path(folder), options.rate))
    violations = check(history)
    print(summary(history))
    if violations or options.history:
        path = options.history or FOLDER / f"{seed}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, history)
        print(f"\nhistory: {path}")
    for violation in violations:
        print(f"\n{violation}")
    verdict = f"{len(violations)} violations" if violations else "every promise was kept"
    print(f"\n{verdict}; again: make nemesis SECONDS={options.seconds:g} SEED={seed}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
