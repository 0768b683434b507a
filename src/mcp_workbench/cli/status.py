"""`mcp-workbench status`: shows what running workbenches are doing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence

from mcp_workbench.activity.reading import RecordReader
from mcp_workbench.activity.writer import VARIABLE, record_path
from mcp_workbench.cli.display import Block, Words, is_dumb, is_terminal, terminal_rows, write
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.status_view import as_json, blocks, fitted
from mcp_workbench.command_errors import RecordFailed
from mcp_workbench.errors import RequestError
from mcp_workbench.limits import DEFAULTS

HELP = """Show the running workbenches: their hosts and servers, calls in progress, the number and duration of calls,
the last errors, and the tokens that agents saved.

With --watch the status fills the terminal: arrows and PgUp/PgDn scroll, / filters, Esc shows all, q quits.

Your workbenches record this in a small file. The last second may be missing. Nothing is started."""


def find_record() -> RecordReader:
    """Open the record of this user's workbenches. Raises `RecordFailed`."""
    path = record_path(os.environ)
    if not path:
        raise RecordFailed(f"${VARIABLE}", "recording is off", hint="Unset it, here and where workbenches start.")
    return RecordReader(path, DEFAULTS)


def run(options: Mapping[str, str]) -> int:
    reader, everything = find_record(), "all" in options
    if "watch" in options:
        if "json" in options or is_dumb() or not is_terminal(sys.stdout) or not is_terminal(sys.stdin):
            hint = "Leave out --watch, or run it at a terminal without --json. 'logs --follow' can be piped."
            raise RequestError("--watch needs a terminal", hint=hint)
        from mcp_workbench.cli.status_watch import watch  # noqa: PLC0415 -- rarely needed

        return watch(reader, everything=everything)
    statuses, now = reader.statuses(everything=everything), time.time()
    if "json" in options:
        print_json(as_json(statuses, now))
    else:
        _show(blocks(statuses, now, everything=everything))
    return 0


def _show(told: Sequence[Block]) -> None:
    """Write the blocks; at a terminal only as many rows as fit above the prompt."""
    if not is_terminal(sys.stdout):
        write(*told)
        return
    room = terminal_rows(sys.stdout) - 1
    shown = fitted(told, room, sys.stdout)
    if len(shown) > len(told):
        shown = [*fitted(told, room - 1, sys.stdout), Words("to see everything: mcp-workbench status --watch", "quiet")]
    write(*shown)
