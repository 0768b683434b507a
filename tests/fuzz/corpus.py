"""Cases that are kept as files: bytes as Latin-1 text in JSON, long repetitions written as `[text, times]`."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, note, settings

FOLDER = Path(__file__).parent / "corpus"
FOUND = Path(__file__).parents[2] / ".cache" / "fuzz"
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))
"""How many examples each property tries; 0: as many as a quick run has time for."""

Spec: TypeAlias = "str | Sequence[str | tuple[str, int]]"
"""Bytes as a file has them."""
_REPEATED = re.compile(r"(?s)(.{1,6}?)\1{40,}")


def trying(quick: int) -> settings:
    """How many examples a property tries; a machine that is busy is no failure."""
    return settings(max_examples=EXAMPLES or quick, deadline=None, suppress_health_check=list(HealthCheck))


def pack(spec: Spec) -> bytes:
    """The bytes that a file means."""
    parts = [spec] if isinstance(spec, str) else spec
    return b"".join(
        part.encode("latin-1") if isinstance(part, str) else part[0].encode("latin-1") * part[1] for part in parts
    )


def unpack(data: bytes) -> Spec:
    """Bytes as a file has them: long repetitions are counted."""
    text = data.decode("latin-1")
    parts: list[str | tuple[str, int]] = []
    start = 0
    for match in _REPEATED.finditer(text):
        parts += [text[start : match.start()], (match[1], len(match[0]) // len(match[1]))]
        start = match.end()
    return [*parts, text[start:]] if parts else text


class Case(dict[str, Any]):
    """A case, as a file has it. It may be long, so what fails is written to a file and not shown."""

    def __repr__(self) -> str:
        return f"Case({', '.join(self)})"


def kept(kind: str) -> list[Any]:
    """The cases of a corpus, as parameters of a test."""
    files = sorted((FOLDER / kind).glob("*.json"))
    assert files, f"the corpus {kind} is empty"
    cases = {file.stem: Case(json.loads(file.read_text(encoding="utf-8"))) for file in files}
    return [pytest.param(case, id=name, marks=_marks(case)) for name, case in cases.items()]


def _marks(case: Case) -> list[pytest.MarkDecorator]:
    """A case may name a defect that is not mended yet."""
    return [pytest.mark.xfail(strict=True, reason=case["defect"])] if "defect" in case else []


def as_expected(case: Case, outcome: dict[str, Any]) -> None:
    """A case of a corpus may say what comes of it, besides what is true of all."""
    assert "expected" not in case or case["expected"] == outcome


@contextlib.contextmanager
def noted(kind: str, case: Case) -> Generator[None]:
    """What fails is left as a file that a corpus can take in; the last one is the smallest that was found."""
    try:
        yield
    except Exception:
        FOUND.mkdir(parents=True, exist_ok=True)
        file = FOUND / f"{kind}.json"
        file.write_text(json.dumps(case, indent=1) + "\n", encoding="utf-8")
        note(f"It is kept as {file}")
        raise
