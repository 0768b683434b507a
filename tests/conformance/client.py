"""The client that the suite starts: a workbench with the suite's server in its configuration, and a host that uses it.

    client.py [--slots FOLDER] URL

The suite names the scenario in MCP_CONFORMANCE_SCENARIO and starts all scenarios at once; FOLDER keeps those that run
at the same time down to a few. What the suite sees is the workbench: the host speaks to it over stdio, by
`open_toolbox` and `use_tool`, and with `--server` where a scenario is about the definitions of tools as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Generator
from pathlib import Path

SLOTS = 3
POLL_SECONDS = 0.1


@contextlib.contextmanager
def slot(folder: Path | None) -> Generator[None]:
    """One of few places, so that scenarios which are started at once don't starve each other."""
    if folder is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context((folder / f"slot{number}").open("w")) for number in range(SLOTS)]
        while not any(_is_taken(file.fileno()) for file in files):
            time.sleep(POLL_SECONDS)
        yield


def _is_taken(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description="A workbench and its host, as a client for the conformance suite.")
    parser.add_argument("--slots", type=Path, metavar="FOLDER", help="where the running scenarios are counted")
    parser.add_argument("url")
    arguments = parser.parse_args()
    with slot(arguments.slots):
        sys.path.insert(0, str(Path(__file__).parents[2]))
        from tests.conformance import scenarios  # noqa: PLC0415 -- the SDK is large, and dozens of us wait for a slot

        asyncio.run(scenarios.drive(os.environ["MCP_CONFORMANCE_SCENARIO"], arguments.url))


if __name__ == "__main__":
    main()
