"""The guided tour behind `mcp-workbench demo`.

Starts the real workbench as a child process with the demo's configuration, talks to it through the
official client as an agent's host would, and shows every message that matters. Guarantees: it ends
by itself, leaves no process and no file behind, and returns 0 only if every step did what the text
says; whatever went wrong is shown, with the end of the workbench's own log.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from mcp_workbench.demo.display import Display
from mcp_workbench.demo.processes import server_name, server_pids
from mcp_workbench.demo.toolboxes import configuration, python_environment
from mcp_workbench.demo.tour import Tour, TourError

if TYPE_CHECKING:
    from mcp import StdioServerParameters

# The tour takes about two seconds; something is wrong long before this has passed.
_DEADLINE_SECONDS = 30
_LOG_LINES = 15
_PROGRAM = "mcp-workbench"


async def run(out: TextIO | None = None) -> int:
    """Show the tour on `out` (stdout unless told); 0 if all went well, else 1."""
    display = Display(out or sys.stdout)
    display.heading("MCP Workbench: one MCP server in front of many")
    with tempfile.TemporaryDirectory(prefix="mcp-workbench-demo-") as name:
        folder = Path(name)
        try:
            async with asyncio.timeout(_DEADLINE_SECONDS):
                await _show(display, folder)
        except TimeoutError:
            return _failed(display, folder, f"The demo did not end within {_DEADLINE_SECONDS} seconds.")
        except Exception as error:  # noqa: BLE001 -- the last stop: any failure becomes text and a status
            return _failed(display, folder, f"The demo failed: {_cause(error)}")
    return 0


async def _show(display: Display, folder: Path) -> None:
    started = time.perf_counter()
    pids = await _with_client(display, folder)
    left = [name for pid in pids if (name := server_name(pid))]
    if left:
        raise TourError(f"still running after the agent left: {', '.join(left)}")
    display.aside("The agent has left, and no server process is running any more." if pids else "The agent has left.")
    await _with_client(display, folder, again=True)
    display.aside(f"All of this took {time.perf_counter() - started:.1f} seconds.")
    show_way_on(display)


async def _with_client(display: Display, folder: Path, *, again: bool = False) -> list[int]:
    """Take the tour, or the end of it; afterwards the processes that were running before the client left."""
    from mcp import Client, stdio_client  # noqa: PLC0415 -- slow to import, and only the demo needs it

    with _log(folder).open("a", encoding="utf-8") as log:
        async with Client(stdio_client(_workbench(folder), errlog=log)) as client:
            tour = Tour(client, display)
            await (tour.come_back() if again else tour.take())
            return server_pids()


def _workbench(folder: Path) -> StdioServerParameters:
    """How to start the workbench, with whatever it keeps on disk inside `folder`."""
    from mcp import StdioServerParameters  # noqa: PLC0415 -- slow to import, and only the demo needs it

    file = folder / "workbench-config.json"
    file.write_text(json.dumps(configuration(), indent=2), encoding="utf-8")
    kept = {name: str(folder) for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")}
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_workbench", "serve", "--config", str(file)],
        env={
            **python_environment(),
            **kept,
            "WORKBENCH_CATALOG": str(folder / "catalog.sqlite"),
            "WORKBENCH_RECORD": "none",
        },
    )


def _log(folder: Path) -> Path:
    return folder / "workbench.log"


def _failed(display: Display, folder: Path, reason: str) -> int:
    display.failed(reason)
    log = _log(folder)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    if lines:
        display.plain("The workbench's log ends with:")
        for line in lines[-_LOG_LINES:]:
            display.plain(f"  {line}")
    return 1


def _cause(error: BaseException) -> str:
    """The first failure inside the groups that concurrent code wraps failures in."""
    if isinstance(error, BaseExceptionGroup):
        return _cause(cast("BaseExceptionGroup[BaseException]", error).exceptions[0])
    return str(error) if isinstance(error, TourError) else f"{type(error).__name__}: {error}"


def show_way_on(display: Display) -> None:
    """What to do next; after `make demo` the program is not on the PATH of the shell."""
    display.plain()
    display.plain("To go on:")
    display.say("1. mcp-workbench import: groups the MCP servers of your hosts into toolboxes.")
    display.say("2. mcp-workbench doctor: starts each once, and says what is wrong.")
    display.say("3. mcp-workbench install --all --remove-imported: moves them behind it; uninstall --all undoes that.")
    display.say("No servers yet? mcp-workbench add has examples: mcp-workbench add --help")
    if shutil.which(_PROGRAM) is None:
        display.say(f"Your shell does not find {_PROGRAM}: write its path, {Path(sys.argv[0])}")
