"""The log: one event is one line, nothing invisible, no secrets, and nobody suffers if it cannot be written."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from unittest import mock
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_workbench import logger
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.logger import LEVELS, Log

ANY_TEXT = st.text(st.characters())
SECRET = "s3cr3t/+ vä?lue\n&x"  # noqa: S105 -- a made-up one


@contextlib.contextmanager
def capturing(level: str = "debug") -> Iterator[tuple[Log, list[bytes]]]:
    """A log, and after the block what it wrote."""
    source, sink = os.pipe()
    written: list[bytes] = []
    try:
        yield Log(sink, level), written
    finally:
        os.close(sink)
        with os.fdopen(source, "rb") as file:
            written.append(file.read())


def line_of(message: str, secrets: tuple[str, ...] = (), **values: object) -> str:
    with capturing() as (log, written):
        log.redact.hide(secrets)
        log.event("info", message, values)
    return written[0].decode()


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["server", "error", "reason"]), ANY_TEXT))
def test_one_event_is_one_line_without_anything_invisible_whatever_the_text(values: dict[str, str]):
    line = line_of("something happened", **values)
    assert line.endswith("\n")
    assert line.count("\n") == 1
    assert not {unicodedata.category(character) for character in line[:-1]} & {"Cc", "Cf", "Zl", "Zp", "Cs"}
    assert len(line[:-1].splitlines()) == 1


def test_values_stand_behind_the_message_and_what_has_spaces_is_quoted():
    line = line_of("it ended", server=ServerIdentifier("dev", "fs"), reason="no more", code=3, absent=None, empty="")
    assert line.split(" ", 1)[1] == 'info it ended toolbox=dev server=fs reason="no more" code=3 empty=""\n'


PARTS = st.text(st.sampled_from('a/ ="\\server\u200b'), max_size=8)
PAIR = st.tuples(PARTS, PARTS)


@given(PAIR, PAIR)
def test_no_names_make_the_lines_of_two_servers_the_same(one: tuple[str, str], other: tuple[str, str]):
    lines = [line_of("m", server=ServerIdentifier(*pair)).split(" ", 1)[1] for pair in (one, other)]
    assert (lines[0] == lines[1]) is (one == other)


def test_a_quote_in_a_value_does_not_end_it():
    line = line_of("m", server=ServerIdentifier('a" server="b', "c\\d"))
    assert line.endswith(r' m toolbox="a\" server=\"b" server="c\\d"' + "\n")


def test_a_long_value_is_cut():
    assert len(line_of("m", reason="x" * 100_000)) < 600


@pytest.mark.parametrize("level", LEVELS[:-1])
def test_events_below_the_level_are_not_written(level: str):
    with capturing(level) as (log, written):
        for event in LEVELS[:-1]:
            log.event(event, "event", {})
    levels = [line.split()[1].decode() for line in written[0].splitlines()]
    assert levels == list(LEVELS[LEVELS.index(level) : -1])


def test_off_is_silent_and_the_level_can_be_changed():
    with capturing("off") as (log, written):
        log.event("error", "no", {})
        log.set_level("error")
        log.event("error", "yes", {})
    assert b"no" not in written[0]
    assert b"yes" in written[0]


# -- secrets

FORMS = {
    "plain": SECRET,
    "base64": base64.b64encode(SECRET.encode()).decode(),
    "base64 without padding": base64.b64encode(SECRET.encode()).decode().rstrip("="),
    "base64url": base64.urlsafe_b64encode(SECRET.encode()).decode(),
    "url": quote(SECRET),
    "url, all": quote(SECRET, safe=""),
    "form": quote_plus(SECRET),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_secret_is_never_written_in_any_usual_form(form: str):
    line = line_of("failed", (SECRET,), reason=f"before {form} after")
    assert "s3cr3t" not in line
    assert form.rstrip("=") not in line
    assert "before ***" in line
    assert "after" in line


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = st.text("0123456789 .", max_size=60)


@settings(deadline=None)
@given(st.lists(st.text(LETTERS, min_size=6, max_size=90), min_size=1, max_size=3), st.integers(1, 200), st.data())
def test_no_character_of_a_secret_is_shown_wherever_a_text_is_cut(secrets: list[str], length: int, data: st.DataObject):
    text = "".join(data.draw(st.lists(DIGITS | st.sampled_from(secrets))))
    log = Log()
    log.redact.hide(secrets)
    with mock.patch.object(logger, "log", log):
        shown = logger.foreign(text, length)
    assert not set(shown) & set(LETTERS)
    assert len(shown) <= 3 * length + len("…")


@settings(deadline=None)
@given(st.text(LETTERS, min_size=6, max_size=700), st.lists(DIGITS, max_size=12))
def test_no_character_of_a_secret_is_written_wherever_a_value_is_cut(secret: str, fillers: list[str]):
    line = line_of("m", (secret,), reason=secret.join(["", *fillers, ""]))
    assert not set(line.split("reason=")[1]) & set(LETTERS)


@pytest.mark.parametrize("position", [484, 490, 495, 499])
def test_half_of_a_secret_is_not_written_where_a_long_value_is_cut(position: int):
    """Redact before cutting: half a secret would no longer be recognised."""
    secret = "0123456789abcdef" * 2
    line = line_of("failed", (secret,), reason="x" * position + secret)
    assert "0123" not in line.split("reason=")[1]


# -- a log that cannot be written


def test_a_log_that_cannot_be_written_disturbs_nobody():
    source, sink = os.pipe()
    os.close(source)
    log = Log(sink, "debug")
    log.event("error", "nobody reads", {})
    os.close(sink)
    log.event("error", "closed", {})


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="platform: no /dev/full")
def test_a_full_disk_disturbs_nobody():
    with Path("/dev/full").open("wb") as full:
        Log(full.fileno(), "debug").event("error", "full", {})


def test_a_program_without_stderr_logs_nothing_and_goes_on():
    code = "from mcp_workbench import logger; logger.error('x', a=1); print('alive')"
    script = f'exec "{sys.executable}" -c "{code}" 2>&-'
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False, timeout=20)
    assert done.stdout == "alive\n"


@pytest.mark.timeout(10)
def test_a_log_that_nobody_reads_is_not_waited_for_and_tells_later_what_was_lost():
    source, sink = os.pipe()
    log = Log(sink, "debug")
    for _ in range(2000):
        log.event("info", "nobody reads", {"filler": "x" * 400})
    os.set_blocking(source, False)
    read = b""
    with contextlib.suppress(BlockingIOError):
        while data := os.read(source, 65_536):
            read += data
    log.event("info", "somebody reads", {})
    line = os.read(source, 65_536).decode()
    os.close(source)
    os.close(sink)
    assert read.endswith(b"\n"), "no line is written in part"
    assert f"({2000 - read.count(b'nobody reads')} lines before this one were lost) somebody reads" in line


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "\U000e0001",
        "日",
        "ä",
    ],
)
def test_a_line_is_no_longer_than_a_pipe_takes_at_once(text: str):
    with capturing() as (log, written):
        log.event("info", "much", {f"value{number}": text * 1000 for number in range(20)})
    assert written[0].count(b"\n") == 1
    assert written[0].endswith(b"\n")
    assert len(written[0]) <= 4096
    assert written[0].decode(), "no character is cut in two"


def test_the_words_of_the_log_itself_are_never_taken_for_a_secret():
    """`"env": {"LOG_LEVEL": "warning"}` must not black out every line of that level."""
    with capturing() as (log, written):
        log.redact.hide(["warning", "could not be started"])
        log.event("warning", "a server could not be started", {"reason": "warning"})
    assert written[0].decode().split(" ", 1)[1] == "warning a server could not be started reason=***\n"


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_secret_inside_a_json_text_is_not_written(*, ascii_only: bool):
    secret = 'pa"ss\\wörd\n23'  # noqa: S105 -- a made-up one
    line = line_of("failed", (secret,), reason=json.dumps({"key": secret}, ensure_ascii=ascii_only))
    assert "ss" not in line.split("reason=")[1]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_no_line_of_a_secret_of_several_lines_is_written(end: str):
    secret = end.join(("-----BEGIN KEY-----", "MIIEvgIBADANBg", "-----END KEY-----", ""))
    line = line_of("failed", (secret,), first="bad: MIIEvgIBADANBg!", second="-----BEGIN KEY-----")
    assert "MIIE" not in line
    assert "BEGIN" not in line


def test_what_was_lost_is_told_even_in_a_line_that_is_cut():
    source, sink = os.pipe()
    log = Log(sink, "debug")
    os.set_blocking(sink, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(sink, b"x" * 4096):
            pass
    log.event("info", "lost", {})
    os.set_blocking(source, False)
    with contextlib.suppress(BlockingIOError):
        while os.read(source, 65_536):
            pass
    log.event("info", "long", {f"value{number}": "x" * 500 for number in range(20)})
    log.event("info", "short", {})
    text = os.read(source, 65_536).decode()
    os.close(source)
    os.close(sink)
    assert "1 lines before this one were lost" in text
