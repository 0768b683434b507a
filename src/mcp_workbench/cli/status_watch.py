"""`mcp-workbench status --watch`: shown again whenever something changed, with scrolling and a filter."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Final, NamedTuple

from mcp_workbench.activity.reading import RecordReader
from mcp_workbench.cli.display import SHOWN_EVERY_SECONDS, Block, Words, cut, lines, terminal_look, terminal_rows
from mcp_workbench.cli.full_screen import FullScreen
from mcp_workbench.cli.status_view import blocks, matching

_HELP: Final = "q: quit  /: filter  arrows, PgUp, PgDn: scroll"
_END_OF_INPUT: Final = "end of input"


class StatusView(NamedTuple):
    """What a person looks at: from which line on, and narrowed to which text."""

    top: int = 0
    wanted: str = ""
    is_typing: bool = False
    """Whether keys are letters of `wanted`."""
    is_over: bool = False

    def after(self, key: str, page: int, total: int) -> StatusView:
        """The view after a key, of so many lines in all and on a page."""
        if key == _END_OF_INPUT or (key in ("q", "Q") and not self.is_typing):
            return self._replace(is_over=True)
        if key == "escape":
            return StatusView()
        moves = {"up": self.top - 1, "down": self.top + 1, "page up": self.top - page, "page down": self.top + page}
        moves |= {"home": 0, "end": total}
        if key in moves:
            return self._replace(top=moves[key]).within(page, total)
        if self.is_typing:
            return self._typed(key)
        return self._replace(is_typing=True, wanted="") if key == "/" else self

    def _typed(self, key: str) -> StatusView:
        if key == "enter":
            return self._replace(is_typing=False)
        wanted = self.wanted[:-1] if key == "backspace" else self.wanted + (key if key.isprintable() else "")
        return self._replace(wanted=wanted, top=0)

    def within(self, page: int, total: int) -> StatusView:
        """The same, not beyond the last page."""
        return self._replace(top=max(0, min(self.top, total - page)))

    def foot(self, total: int, page: int, width: int) -> str:
        """The last line: the filter that is typed, or what keys do; and which lines are shown."""
        keys = f"/{self.wanted}_  Enter: keep, Esc: clear" if self.is_typing else _HELP
        if self.wanted and not self.is_typing:
            keys = f"only '{self.wanted}', Esc: all  {_HELP}"
        where = f"{self.top + 1}-{min(self.top + page, total)}/{total}  " if total > page else ""
        return cut(f"{where}{keys}", width)


def watch(reader: RecordReader, *, everything: bool) -> int:
    """Until somebody presses q, or Ctrl-C."""
    view = StatusView()
    with suppress(KeyboardInterrupt), FullScreen() as screen:
        while not view.is_over:
            page = max(terminal_rows(sys.stdout) - 1, 1)
            told = list(lines(*_blocks(reader, view.wanted, everything=everything), to=sys.stdout))
            view = view.within(page, len(told))
            shown = told[view.top : view.top + page]
            foot = Words(view.foot(len(told), page, terminal_look(sys.stdout)[0]), "quiet")
            frame = [*shown, *[""] * (page - len(shown)), *lines(foot, to=sys.stdout)]
            screen.draw(frame)
            for key in screen.pressed(SHOWN_EVERY_SECONDS):
                view = view.after(key, page, len(told))
    return 0


def _blocks(reader: RecordReader, wanted: str, *, everything: bool) -> list[Block]:
    statuses = reader.statuses(everything=everything)
    found = matching(statuses, wanted)
    if statuses and not found:
        return [f"Nothing has '{wanted}' in its name or its error."]
    return blocks(found, time.time(), everything=everything)
