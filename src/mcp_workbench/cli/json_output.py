"""How a command answers a program: with one JSON document, also where it can't be done.

In a pipe it is written as it is. At a terminal, which obeys what it is sent, what is invisible in it is escaped as JSON
has it: it is the same document.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench.cli.display import is_terminal
from mcp_workbench.cli.terminal import exit_status, hint_of
from mcp_workbench.errors import WorkbenchError


def print_json(value: Any) -> None:
    """One document, on one line."""
    try:
        print_raw(Raw(msgspec.json.encode(value)))
    except UnicodeEncodeError:  # the path of a file is no UTF-8; JSON can say it nevertheless
        import json  # noqa: PLC0415 -- hardly anybody has such

        print_raw(Raw(json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()))


def print_raw(document: Raw) -> None:
    """A document as a server wrote it."""
    text = bytes(document).decode()
    sys.stdout.write(f"{_escaped(text) if is_terminal(sys.stdout) else text}\n")


def answered(options: Mapping[str, str], work: Callable[[], int]) -> int:
    """The exit status of `work`; with `--json` what goes wrong is a document, too."""
    try:
        return work()
    except WorkbenchError as error:
        if "json" not in options:
            raise
        return print_failure(error)


def print_failure(error: WorkbenchError) -> int:
    """What went wrong, for a program; the exit status. The code is the one that a client of the wire gets."""
    print_json(failure(error))
    return exit_status(error)


def failure(error: WorkbenchError) -> dict[str, Any]:
    """The document of what went wrong."""
    return {"ok": False, "error": str(error), "code": error.wire_code, "hint": hint_of(error)}


def _escaped(text: str) -> str:
    """Between strings JSON has nothing invisible but white space, which may stay."""
    if text.isprintable():
        return text
    import json  # noqa: PLC0415 -- hardly a document has such

    return "".join(one if one.isprintable() or one in "\n\r\t" else json.dumps(one)[1:-1] for one in text)
