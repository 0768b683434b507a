"""How the demo writes for a person: plain text of at most 100 columns, colours only at a terminal.

Guarantees that without colours the text says the same, and that no line is wider than the terminal.
"""

from __future__ import annotations

import json
from typing import Any, TextIO

from mcp_workbench.cli.display import folded, terminal_look
from mcp_workbench.text.sanitize import count

WIDTH = 100
"""In a pipe, and at a terminal that is wider."""
_INDENT = "   "
# Enough of an answer to see what it is.
_SHOWN_LINES = 6

_BOLD, _DIM, _GREEN, _YELLOW, _RED = "1", "2", "32", "33", "31"


class Display:
    """Writes the tour to `out`, step by step."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        columns, self._colour = terminal_look(out)
        self._width = min(columns, WIDTH)
        self._steps = 0

    def heading(self, text: str) -> None:
        """The first line."""
        self._block(text, "", style=_BOLD)

    def step(self, title: str) -> None:
        """A numbered title with space above."""
        self._steps += 1
        self._line()
        number = f"{self._steps}. "
        self._block(f"{number}{title}", "", style=_BOLD, hanging=len(number))

    def say(self, text: str) -> None:
        """A paragraph."""
        self._block(text, _INDENT)

    def quote(self, text: str) -> None:
        """What somebody else wrote, line by line."""
        self._block(text, f"{_INDENT}| ")

    def entry(self, text: str) -> None:
        """A line of a list; what does not fit goes on below, further in."""
        self._block(f"- {text}", _INDENT, hanging=2)

    def aside(self, text: str) -> None:
        """What is worth knowing beside the story."""
        self._block(text, _INDENT, style=_DIM)

    def sent(self, called: str, arguments: dict[str, Any]) -> None:
        """A call as the agent sends it."""
        self._block(f"-> {called} {json.dumps(arguments, ensure_ascii=False)}", _INDENT, style=_GREEN, hanging=3)

    def answered(self, text: str) -> None:
        """The answer to it."""
        self._block(f"<- {text}", _INDENT, hanging=3, lines=_SHOWN_LINES)

    def refused(self, text: str) -> None:
        """An answer that says what was wrong."""
        self._block(f"<- {text}", _INDENT, style=_YELLOW, hanging=3, lines=2 * _SHOWN_LINES)

    def failed(self, text: str) -> None:
        """Why the demo ends early."""
        self._line()
        self._block(text, "", style=_RED)

    def plain(self, text: str = "") -> None:
        """A line without any indent."""
        self._block(text, "")

    def _block(self, text: str, indent: str, style: str = "", hanging: int = 0, lines: int | None = None) -> None:
        further = indent + " " * hanging
        wrapped = [
            piece
            for line in text.splitlines() or [""]
            for piece in folded(line.expandtabs(), self._width - len(further))
        ]
        for number, line in enumerate(wrapped[:lines]):
            self._line(self._styled(f"{further if number else indent}{line}".rstrip(), style))
        if lines is not None and len(wrapped) > lines:
            self._block(f"... ({count(len(wrapped) - lines, 'more line')})", further, style=_DIM)

    def _styled(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style else text

    def _line(self, text: str = "") -> None:
        self._out.write(f"{text}\n")
        self._out.flush()
