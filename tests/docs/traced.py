"""Runs `mcp-workbench` and writes which of its functions are called, in the order of their first call.

    python traced.py FILE ARGUMENT...

SIGUSR1 starts a trace and SIGUSR2 ends it: then FILE has one line for each function, `module.py:qualified.name`.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from types import FrameType

FILE, PACKAGE = Path(sys.argv.pop(1)), "/mcp_workbench/"
called: dict[str, None] = {}


def note(frame: FrameType, event: str, _argument: object) -> None:
    _, inside, module = frame.f_code.co_filename.rpartition(PACKAGE)
    if event == "call" and inside:
        called.setdefault(f"{module}:{frame.f_code.co_qualname}")


def start(*_: object) -> None:
    called.clear()
    threading.setprofile(note)
    sys.setprofile(note)
    FILE.with_suffix(".started").touch()


def stop(*_: object) -> None:
    sys.setprofile(None)
    whole = FILE.with_suffix(".whole")
    whole.write_text("\n".join(called))
    whole.replace(FILE)


signal.signal(signal.SIGUSR1, start)
signal.signal(signal.SIGUSR2, stop)

from mcp_workbench.__main__ import main  # noqa: E402 -- the signals may come during the import

sys.exit(main())
