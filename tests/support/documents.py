"""The documents of the repository, and the JSON that stands in texts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Section(NamedTuple):
    file: str
    headings: tuple[str, ...]
    text: str


def document(name: str) -> str:
    path = ROOT / name
    if not path.is_file():
        pytest.fail(f"{name} does not exist")
    return path.read_text(encoding="utf-8")


def changelog_entry(version: str) -> str:
    text = document("CHANGELOG.md")
    match = re.search(rf"^## \[?{re.escape(version)}\]?.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if match is None:
        pytest.fail(f"CHANGELOG.md has no entry for {version}")
    return match[0]


def guides() -> list[Path]:
    """Everything that teaches how to use the workbench."""
    return [ROOT / "README.md", ROOT / "CLAUDE.md", *sorted((ROOT / "docs").rglob("*.md"))]


def sections(path: Path) -> Iterator[Section]:
    """The text under each heading, with the headings that it stands under."""
    headings: list[str] = []
    lines: list[str] = []
    fenced = False
    for line in document(str(path.relative_to(ROOT))).splitlines():
        fenced ^= line.lstrip().startswith("```")
        if not fenced and (match := re.match(r"(#+) (.*)", line)):
            yield Section(path.name, tuple(headings), "\n".join(lines))
            headings = [*headings[: len(match[1]) - 1], match[2]]
            lines = []
        else:
            lines.append(line)
    yield Section(path.name, tuple(headings), "\n".join(lines))


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """Every outermost JSON object that stands in a text."""
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except ValueError:
            end = position + 1
        else:
            if isinstance(value, dict):
                yield value
        position = text.find("{", end)


def calls_in(value: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every meta-tool call within a JSON value: the tool's name and its arguments."""
    if isinstance(value, list):
        for item in value:
            yield from calls_in(item)
    if not isinstance(value, dict):
        return
    if value.get("name") in {"use_tool", "open_toolbox"} and isinstance(value.get("arguments"), dict):
        yield value["name"], value["arguments"]
    elif isinstance(value.get("tool"), dict):
        yield "use_tool", value
    else:
        for item in value.values():
            yield from calls_in(item)
