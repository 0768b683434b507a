"""The end of a server's stderr, as errors show it."""

from __future__ import annotations

import pytest

from mcp_workbench import logger
from mcp_workbench.limits import Limits
from mcp_workbench.servers.stdio import Stderr


async def ring(data: bytes, size: int = 65_536, tail: int = 2048) -> Stderr:
    kept = Stderr("dev/files", Limits(stderr_ring_bytes=size, stderr_tail_bytes=tail))
    for start in range(0, len(data), 1000):
        kept.data_received(data[start : start + 1000])
    return kept


async def test_the_last_words_are_escaped_line_by_line():
    kept = await ring(b"one\n\x1b[31mtwo\x00\nthree\xff\xe2\x80\xae\n\n")
    assert kept.tail() == "one\n\\x1b[31mtwo\\x00\nthree\ufffd\\u202e"


async def test_only_the_end_is_shown_and_no_line_that_was_cut():
    kept = await ring(b"".join(b"line %03d\n" % number for number in range(1000)), tail=100)
    lines = kept.tail().split("\n")
    assert lines[-1] == "line 999"
    assert all(len(line) == 8 for line in lines)
    assert len("\n".join(lines)) <= 100
    assert (await ring(b"x" * 5000, tail=100)).tail() == "x" * 100


async def test_a_flood_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logger.log, "redact", logger.Redactor())  # more is read where secrets are long
    kept = await ring(b"x" * 500_000, size=1000, tail=10_000)
    assert kept.tail() == "x" * 1000


@pytest.mark.parametrize("cut", range(0, 40, 3))
async def test_a_secret_is_not_shown_not_even_half_of_it_where_the_text_is_cut(
    cut: int, monkeypatch: pytest.MonkeyPatch
):
    secret = "0123456789abcdefghij"  # noqa: S105 -- a made-up one
    monkeypatch.setattr(logger.log, "redact", logger.Redactor())
    logger.log.redact.hide([secret])
    kept = await ring(b"y" * 500 + secret.encode() + b"x" * (90 - cut % 20 + cut), tail=100)
    shown = kept.tail()
    assert not any(secret[start : start + 4] in shown for start in range(len(secret) - 3))
