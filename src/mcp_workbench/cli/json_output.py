"""JSON output of commands: one document, for failures too.

At a terminal, invisible characters are written as JSON escapes, so that they have no effect. The document is the same.
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
    """Print a value as JSON on one line."""
    try:
        print_raw(Raw(msgspec.json.encode(value)))
    except UnicodeEncodeError:  # a path is not UTF-8; `json` escapes its bytes
        import json  # noqa: PLC0415 -- rarely needed

        print_raw(Raw(json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()))


def print_raw(document: Raw) -> None:
    """Print a JSON document unchanged."""
    text = bytes(document).decode()
    sys.stdout.write(f"{_escaped(text) if is_terminal(sys.stdout) else text}\n")


def answered(options: Mapping[str, str], work: Callable[[], int]) -> int:
    """Run `work`; return the exit status. With `--json`, print a failure as a document."""
    try:
        return work()
    except WorkbenchError as error:
        if "json" not in options:
            raise
        return print_failure(error)


def print_failure(error: WorkbenchError) -> int:
    """Print a failure as a document; return the exit status."""
    print_json(failure(error))
    return exit_status(error)


def failure(error: WorkbenchError) -> dict[str, Any]:
    """The document of a failure. Its code is the one that MCP clients get."""
    return {"ok": False, "error": str(error), "code": error.wire_code, "hint": hint_of(error)}


def _escaped(text: str) -> str:
    """Escape invisible characters. In valid JSON only strings have them, apart from white space."""
    if text.isprintable():
        return text
    import json  # noqa: PLC0415 -- rarely needed

    return "".join(one if one.isprintable() or one in "\n\r\t" else json.dumps(one)[1:-1] for one in text)
