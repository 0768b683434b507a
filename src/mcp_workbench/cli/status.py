"""`mcp-workbench status`: what running workbenches are doing."""

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

HELP = """Show what the running workbenches are doing: their hosts and servers, calls in progress, how often and how
fast tools are called, the last errors, and the tokens that agents did not have to read.

With --watch it fills the terminal: arrows and PgUp/PgDn scroll, / filters, Esc shows all again, q quits.

Every workbench of yours records this in a small file; the last second may be missing. Nothing is started."""


def find_record() -> RecordReader:
    """The record of this user. Raises `RecordFailed`."""
    path = record_path(os.environ)
    if not path:
        raise RecordFailed(f"${VARIABLE}", "nothing is recorded", hint="Unset it, here and where workbenches start.")
    return RecordReader(path, DEFAULTS)


def run(options: Mapping[str, str]) -> int:
    reader, everything = find_record(), "all" in options
    if "watch" in options:
        if "json" in options or is_dumb() or not is_terminal(sys.stdout) or not is_terminal(sys.stdin):
            hint = "Leave --watch out, or run it there without --json; 'logs --follow' can be piped."
            raise RequestError("--watch needs a terminal", hint=hint)
        from mcp_workbench.cli.status_watch import watch  # noqa: PLC0415 -- at a terminal alone

        return watch(reader, everything=everything)
    statuses, now = reader.statuses(everything=everything), time.time()
    if "json" in options:
        print_json(as_json(statuses, now))
    else:
        _show(blocks(statuses, now, everything=everything))
    return 0


def _show(told: Sequence[Block]) -> None:
    """At a terminal no more than fits; the prompt needs a line."""
    if not is_terminal(sys.stdout):
        write(*told)
        return
    room = terminal_rows(sys.stdout) - 1
    shown = fitted(told, room, sys.stdout)
    if len(shown) > len(told):
        shown = [*fitted(told, room - 1, sys.stdout), Words("all of it: mcp-workbench status --watch", "quiet")]
    write(*shown)
