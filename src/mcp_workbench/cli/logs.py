"""`mcp-workbench logs`: what running workbenches log, and the calls that they made."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mcp_workbench.cli.answering import answered
from mcp_workbench.cli.display import SHOWN_EVERY_SECONDS, write
from mcp_workbench.cli.logged import Calls, Entries, Entry, Lines
from mcp_workbench.cli.status import find_record
from mcp_workbench.errors import RequestError
from mcp_workbench.logger import LEVELS

LOGS_LINES = 50
"""Lines that `mcp-workbench logs` shows: two screens."""

HELP = """Show the last lines that running workbenches wrote to stderr.

Hosts keep the stderr of a server in files of their own, or not at all. These are the same lines, of all your
workbenches in one place and without secrets. To change the level, start the workbench with --log-level or
$WORKBENCH_LOG.

With --calls it shows tool calls instead, each with its duration and outcome. If the configuration has
"record": "full", it also shows their arguments and results."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Mapping[str, str]) -> int:
    kind, everything = Calls if "calls" in options else Lines, "all" in options
    most, is_meant = _count(options, kind.most), _filter(options)
    source = kind(find_record())
    last = source.newest()
    found = source.after(0, everything=everything)
    meant = [entry for entry in found if entry.id <= last and is_meant(entry)]
    _show(meant[-most:] if most else (), options)
    if "follow" not in options:
        if not meant and "json" not in options:
            write(_nothing(source, everything=everything), to=sys.stderr)
        return 0
    try:
        while True:
            time.sleep(SHOWN_EVERY_SECONDS)
            if source.newest() < last:
                last = 0
            # A workbench that ends meanwhile still says why.
            entries = source.after(last, everything=True)
            last = max((entry.id for entry in entries), default=last)
            _show([entry for entry in entries if is_meant(entry)], options)
    except KeyboardInterrupt:
        return 0


def _show(entries: Sequence[Entry], options: Mapping[str, str]) -> None:
    if "json" in options:
        sys.stdout.writelines(msgspec.json.encode(entry.document()).decode() + "\n" for entry in entries)
    elif entries:
        write(*(words for entry in entries for words in entry.words()))
    sys.stdout.flush()


def _nothing(source: Entries, *, everything: bool) -> str:
    """What a person is told who would see nothing."""
    if everything:
        return f"No workbench has {source.nothing}."
    return f"No workbench that runs has {source.nothing}. Those that ended: logs --all"


def _filter(options: Mapping[str, str]) -> Callable[[Entry], bool]:
    server, rank = options.get("server", ""), LEVELS.index(options.get("level", LEVELS[0]))

    def is_meant(entry: Entry) -> bool:
        return (not server or server in entry.about) and (
            entry.level not in LEVELS or LEVELS.index(entry.level) >= rank
        )

    return is_meant


def _count(options: Mapping[str, str], most: int) -> int:
    """How many of them. Raises `RequestError`."""
    written = options.get("lines", str(LOGS_LINES))
    if not (written.isascii() and written.isdigit()):
        raise RequestError("--lines must be a whole number", hint="Write, for example, --lines 100")
    return min(int(written[: len(str(most)) + 1]), most)
