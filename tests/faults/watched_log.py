"""The log of a workbench in this process, in a file: how many events there were, and what stands there of them."""

from __future__ import annotations

import contextlib
import os
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from mcp_workbench import logger

LINE = re.compile(r"\d\d:\d\d:\d\d (debug|info|warning|error) \S.*")


class WatchedLog(logger.Log):
    """Writes everything, and counts it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.events = 0
        super().__init__(self._file, "debug")

    def event(self, level: str, message: str, values: dict[str, object]) -> None:
        self.events += 1
        super().event(level, message, values)

    def close(self) -> None:
        os.close(self._file)

    @property
    def text(self) -> str:
        return self._path.read_bytes().decode()

    def check(self) -> None:
        """One event is one line, and nothing in it is invisible."""
        assert len(self.text.split("\n")) == self.events + 1
        check_lines(self.text)


def check_lines(text: str) -> None:
    """A log of whole lines, each with its time and level, without a control or format character."""
    assert text == "" or text.endswith("\n")
    for line in text.split("\n")[:-1]:
        assert LINE.fullmatch(line), line
        assert not hidden(line), line


def hidden(text: str) -> set[str]:
    """Characters that a terminal acts upon, or that nobody sees."""
    return {character for character in text if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}


@contextlib.contextmanager
def watched(path: Path) -> Iterator[WatchedLog]:
    """Log into this file meanwhile."""
    log = WatchedLog(path)
    with mock.patch.object(logger, "log", log):
        try:
            yield log
        finally:
            log.close()
