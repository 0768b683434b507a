"""What the demo writes: within 100 columns, with colours only where they are wanted."""

from io import StringIO

import pytest

from mcp_workbench.demo.display import WIDTH, Display


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def everything(out: StringIO) -> str:
    display = Display(out)
    display.heading("A title of many words " * 10)
    display.step("A step of many words " * 10)
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


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(columns: int, monkeypatch):
    assert max(map(len, everything(StringIO()).splitlines())) <= WIDTH
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    assert max(map(len, everything(Terminal()).splitlines())) <= min(columns, WIDTH)


def test_colours_are_for_terminals_whose_owner_has_not_refused_them(monkeypatch):
    assert "\x1b[" not in everything(StringIO())
    assert "\x1b[" in everything(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b[" not in everything(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in everything(Terminal())


def test_a_long_answer_is_cut_and_says_so():
    out = StringIO()
    Display(out).answered("\n".join(map(str, range(20))))
    lines = out.getvalue().splitlines()
    assert lines[0].strip() == "<- 0"
    assert lines[-1].strip() == "... (14 more lines)"
