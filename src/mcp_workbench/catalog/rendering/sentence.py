"""What a tool is for, in one sentence: the first of its description."""

from __future__ import annotations

import re
from typing import Final

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.wire import jsonrpc

BRIEF_LENGTH = 160
"""Characters of a first sentence: two lines on a terminal; a sentence that is longer is a list."""

_END = re.compile("(?<=[.!?])(?<!e\\.g\\.)(?<!i\\.e\\.)\\s++(?![a-z(])|(?<=[\u3002\uff01\uff1f])|\n\\s*\n")


_SCANNED: Final = 8
"""How many times `brief_length` is read of a description: whitespace does not count, and no sentence is longer."""


def first_sentence(definition: Definition) -> str:
    """On one line, cut between two words where it is long; empty where there is none."""
    return definition.memoized(_first_sentence)


def _first_sentence(definition: Definition) -> str:
    said = (jsonrpc.text_or_none(jsonrpc.fields(definition.raw).get("description")) or "").lstrip()
    scanned = said[: _SCANNED * BRIEF_LENGTH].rstrip()
    first = " ".join(_END.split(scanned, maxsplit=1)[0].split())
    if len(first) > BRIEF_LENGTH:
        first = first[:BRIEF_LENGTH].rsplit(" ", 1)[0] + "…"
    return first
