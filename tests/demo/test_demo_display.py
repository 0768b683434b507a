"""What the demo writes: within 100 columns, with colours only where they are wanted."""

from io import StringIO

import pytest

from mcp_workbench.demo.display import WIDTH, Display, wants_colour


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def everything(out: StringIO) -> str:
    display = Display(out)
    display.heading("Title")
    display.step("First")
    for write in (
        display.say,
        display.quote,
        display.entry,
        display.aside,
        display.answered,
        display.refused,
        display.failed,
    ):
        write("many words " * 40 + "x" * 300)
    display.sent("use_tool", {"text": "y" * 300})
    return out.getvalue()


@pytest.fixture(autouse=True)
def ordinary_terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_no_line_is_wider_than_the_width():
    assert max(map(len, everything(StringIO()).splitlines())) <= WIDTH


def test_colours_are_for_terminals_whose_owner_has_not_refused_them(monkeypatch):
    assert "\x1b[" not in everything(StringIO())
    assert "\x1b[" in everything(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not wants_colour(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not wants_colour(Terminal())


def test_a_long_answer_is_cut_and_says_so():
    out = StringIO()
    Display(out).answered("\n".join(map(str, range(20))))
    lines = out.getvalue().splitlines()
    assert lines[0].strip() == "<- 0"
    assert lines[-1].strip() == "... (14 more lines)"
