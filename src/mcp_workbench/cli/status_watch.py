"""`mcp-workbench status --watch`: a full-screen status with scrolling and a filter."""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from typing import Final, NamedTuple

from mcp_workbench.activity.reading import RecordReader
from mcp_workbench.cli.display import REFRESH_SECONDS, Block, Words, lines, terminal_look, terminal_rows, truncate
from mcp_workbench.cli.full_screen import FullScreen
from mcp_workbench.cli.status_view import blocks, matching

_HELP: Final = "q: quit  /: filter  arrows, PgUp, PgDn: scroll"
_END_OF_INPUT: Final = "end of input"


class StatusView(NamedTuple):
    """The state of the screen: the first visible line, and the filter."""

    top: int = 0
    wanted: str = ""
    is_typing: bool = False
    """Whether keys are added to `wanted`."""
    is_over: bool = False

    def after(self, key: str, page: int, total: int) -> StatusView:
        """The view after a key press."""
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
        """Limit the scroll position to the last page."""
        return self._replace(top=max(0, min(self.top, total - page)))

    def foot(self, total: int, page: int, width: int) -> str:
        """The last line: the filter or the keys, and the visible range."""
        keys = f"/{self.wanted}_  Enter: keep, Esc: clear" if self.is_typing else _HELP
        if self.wanted and not self.is_typing:
            keys = f"only '{self.wanted}', Esc: all  {_HELP}"
        where = f"{self.top + 1}-{min(self.top + page, total)}/{total}  " if total > page else ""
        return truncate(f"{where}{keys}", width)


def watch(reader: RecordReader, *, everything: bool) -> int:
    """Show the status until the user presses q or Ctrl-C."""
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
            for key in screen.pressed(REFRESH_SECONDS):
                view = view.after(key, page, len(told))
    return 0


def _blocks(reader: RecordReader, wanted: str, *, everything: bool) -> list[Block]:
    statuses = reader.statuses(everything=everything)
    found = matching(statuses, wanted)
    if statuses and not found:
        return [f"No name, state or error contains '{wanted}'."]
    return blocks(found, time.time(), everything=everything)
