"""What people see: aligned text in a pipe, tables and colours at a terminal, nothing wider than it."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from mcp_workbench.cli import display
from mcp_workbench.cli.display import COLUMN_LEAST, Column, Table, Words
from tests.support.screens import COLOUR, at_terminal, seen

TABLE = Table(
    (Column("name", is_whole=True), Column("calls", is_number=True), Column("about")),
    [("one", "5", "It does one thing"), (Words("two", "bad"), "1,200", "a\x1b[2Jb\nc")],
    indent=2,
)
SCRIPT = """
import sys
from mcp_workbench.cli.display import Column, Table, Words, write
rows = [("one", "5", "It does one thing"), (Words("two", "bad"), "1,200", "a\\x1b[2Jb")]
write("head [bold]no markup[/bold] :smile: 5", "", Words("quiet\\nlines", "quiet", 4))
write(Table((Column("name", is_whole=True), Column("calls", is_number=True), Column("about")), rows, indent=2))
"""


def written(*blocks: display.Block) -> list[str]:
    stream = io.StringIO()
    display.write(*blocks, to=stream)
    return stream.getvalue().splitlines()


def test_in_a_pipe_columns_are_aligned_and_nothing_is_cut():
    assert written("head", TABLE, Words("a\n  b", "good", 4)) == [
        "head",
        "  name  calls  about",
        "  one       5  It does one thing",
        "  two   1,200  a\\x1b[2Jb c",
        "    a",
        "      b",
    ]


def test_a_table_without_titles_has_no_head_and_an_empty_one_no_rows():
    assert written(Table((Column(), Column()), [("a", "b")])) == ["a  b"]
    assert written(Table((Column(), Column()), [])) == []
    assert written("", "x") == ["", "x"]


def test_what_does_not_move_needs_no_rich():
    code = f"{SCRIPT}\nassert 'rich' not in sys.modules"
    with at_terminal(command=[sys.executable, "-c", code]) as screen:
        assert screen.finish() == 0
    assert "  two   1,200  a\\x1b[2Jb" in seen(screen.text)


@pytest.mark.parametrize("columns", [20, 30, 80])
def test_at_a_terminal_nothing_is_wider_than_it(columns: int):
    with at_terminal(command=[sys.executable, "-c", SCRIPT], columns=columns) as screen:
        assert screen.finish() == 0
    lines = seen(screen.text)
    assert max(map(len, lines)) <= columns
    assert COLOUR.search(screen.text)
    assert "\x1b[2J" not in screen.text
    assert "[bold]no markup[/bold]" in " ".join(lines).replace("  ", " ")
    if columns == 80:
        assert lines == [
            "head [bold]no markup[/bold] :smile: 5",
            "",
            "    quiet",
            "    lines",
            "  name  calls  about",
            "  one       5  It does one thing",
            "  two   1,200  a\\x1b[2Jb",
        ]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colours_are_left_out_where_they_are_not_wanted(env: dict[str, str]):
    command = ["env", *(f"{name}={value}" for name, value in env.items()), sys.executable, "-c", SCRIPT]
    with at_terminal(command=command) as screen:
        assert screen.finish() == 0
    assert "\x1b" not in screen.text
    assert "  two   1,200  a\\x1b[2Jb" in seen(screen.text)


def test_an_empty_no_color_is_none():
    with at_terminal(command=[sys.executable, "-c", SCRIPT], env={"NO_COLOR": ""}) as screen:
        assert screen.finish() == 0
    assert COLOUR.search(screen.text)


LIVE = """
import sys
from mcp_workbench.cli.display import Live, Words, write
with Live() as live:
    for step in range(3):
        live.show(Words(f"step {step} " + "x" * 200, "quiet"))
write("done")
"""


def test_a_live_display_is_one_line_for_each_and_gone_at_the_end():
    with at_terminal(command=[sys.executable, "-c", LIVE], columns=40) as screen:
        assert screen.finish() == 0
    assert "step 0" in screen.text
    assert "step 2" in screen.text
    assert "x" * 40 not in screen.text
    assert screen.text.rindex("\x1b[2K") > screen.text.rindex("step 2")
    assert screen.text.rstrip().endswith("done")


def test_a_live_display_shows_nothing_in_a_pipe_and_needs_nothing_for_it():
    code = f"{LIVE}\nassert 'rich' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert (done.stdout, done.stderr) == ("done\n", "")


def test_a_stream_that_is_closed_is_no_terminal(tmp_path: Path):
    with (tmp_path / "x").open("w", encoding="utf-8") as stream:
        pass
    assert display.is_terminal(stream) is False


# -- what fits


class Terminal(io.StringIO):
    """A terminal, as far as what is written to it can tell."""

    def isatty(self) -> bool:
        return True


def seen_at(columns: int, *blocks: display.Block, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    screen = Terminal()
    display.write(*blocks, to=screen)
    return screen.getvalue().splitlines()


def test_paragraphs_are_broken_between_words_and_long_words_anywhere(monkeypatch: pytest.MonkeyPatch):
    words = Words("one two three\n  four https://example.com/x", indent=2)
    assert seen_at(12, words, monkeypatch=monkeypatch) == [
        "  one two",
        "  three",
        "    four",
        "  https://ex",
        "  ample.com/",
        "  x",
    ]


def test_columns_that_are_whole_make_room_last_and_are_cut_then(monkeypatch: pytest.MonkeyPatch):
    table = Table((Column("name", is_whole=True), Column("about")), [("read_file", "Reads one file."), ("x", "")])
    assert seen_at(18, table, monkeypatch=monkeypatch) == [
        "name       about",
        "read_file  Reads",
        "           one",
        "           file.",
        "x",
    ]
    assert seen_at(8, table, monkeypatch=monkeypatch)[4:7] == ["       t", "read…  R", "       e"]


def test_a_cell_may_be_limited_to_a_few_lines(monkeypatch: pytest.MonkeyPatch):
    table = Table((Column(), Column(most_lines=2)), [("a", "one two three four five"), ("b", "six seven")])
    assert seen_at(12, table, monkeypatch=monkeypatch) == ["a  one two", "   three …", "b  six seven"]
    assert seen_at(11, table, monkeypatch=monkeypatch) == ["a  one two", "   three …", "b  six", "   seven"]


def test_wide_characters_take_two_columns_and_marks_none(monkeypatch: pytest.MonkeyPatch):
    table = Table((Column(), Column()), [("日本", "a"), ("e\u0301", "b"), ("abcd", "c")])
    aligned = ["日本  a", "e\u0301     b", "abcd  c"]
    assert written(table) == aligned
    assert seen_at(80, table, monkeypatch=monkeypatch) == aligned
    assert [display.text_width(text) for text in ("❤", "❤\ufe0f", "🙂\ufe0f", "")] == [1, 2, 2, 0]
    assert seen_at(5, Words("日本語日本語"), monkeypatch=monkeypatch) == ["日本", "語日", "本語"]


def test_tones_colour_what_is_written_and_a_cell_has_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    columns = (Column("n", is_number=True), Column("name", tone="strong"), Column())
    screen = Terminal()
    display.write(Words("ok", "good", 2), Table(columns, [("1", "a", "b"), ("22", Words("c", "bad"), "")]), to=screen)
    assert screen.getvalue().splitlines() == [
        "  \x1b[32mok\x1b[0m",
        " \x1b[1mn\x1b[0m  \x1b[1mname\x1b[0m",
        " 1  \x1b[1ma\x1b[0m     b",
        "22  \x1b[31mc\x1b[0m",
    ]


LETTERS = st.text(st.sampled_from("ab  日語é\u0301🙂❤\ufe0f-…"), max_size=60)


@given(LETTERS, st.integers(2, 30))
def test_what_is_broken_fits_and_loses_nothing_but_blanks(text: str, width: int):
    lines = list(display.wrap(text, width))
    assert all(display.text_width(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert display.text_width(display.truncate(text, width)) <= width


@example("❤\ufe0f")
@example("日\ufe0f")
@example("\U0001d300")
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cn", "Co", "Mc"]), max_size=3))
def test_characters_are_as_wide_as_rich_has_them_or_are_thought_wider(text: str):
    assert display.text_width(text) >= cell_len(text)


@given(st.lists(st.tuples(st.integers(0, 200), st.booleans()), min_size=1, max_size=6), st.integers(6, 120))
def test_columns_share_the_room_that_there_is(columns: list[tuple[int, bool]], room: int):
    wanted, is_whole = zip(*columns, strict=True)
    widths = display.fit_widths(wanted, room, is_whole)
    assert sum(widths) <= room
    if sum(wanted) <= room:
        assert widths == list(wanted)
    if any(width < one for width, (one, whole) in zip(widths, columns, strict=True) if whole):
        assert all(width <= COLUMN_LEAST for width, whole in zip(widths, is_whole, strict=True) if not whole)
    if any(width < min(one, COLUMN_LEAST) for width, one in zip(widths, wanted, strict=True)):
        assert max(widths) <= COLUMN_LEAST


def test_a_dumb_terminal_shows_nothing_that_moves(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TERM", "dumb")
    screen = Terminal()
    with display.Live(to=screen) as live:
        live.show("x")
    assert screen.getvalue() == ""


def test_a_terminal_that_does_not_tell_its_width_has_the_usual_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    screen = Terminal()
    display.write("x " * 100, to=screen)
    assert max(map(len, screen.getvalue().splitlines())) == 79
