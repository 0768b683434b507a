"""What a server sent, read whatever it is: what is of another kind than it should be is nothing."""

from __future__ import annotations

import json
from typing import Any

from msgspec import Raw

from mcp_workbench.wire import jsonrpc


def word(value: object) -> str:
    """A text; empty where it is none."""
    if isinstance(value, str):
        return value
    return jsonrpc.text_or_none(value) or "" if isinstance(value, Raw) else ""


def number(value: object) -> float | None:
    found = decoded(value)
    try:
        return float(found) if isinstance(found, int | float) else None
    except OverflowError:
        return None


def decoded(value: object) -> Any:
    """What JSON stands for; None where it can't be read, as a number beyond all reading."""
    if not isinstance(value, Raw):
        return value
    try:
        return json.loads(bytes(value))
    except (ValueError, RecursionError):
        return None
