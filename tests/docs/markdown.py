"""What the tests of the documents read: sections, fenced blocks, tables, links, and the JSON in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
GUIDES = (
    ROOT / "README.md",
    ROOT / "CLAUDE.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
)
"""What teaches how to use the workbench."""
EVERY = (
    *GUIDES,
    *(ROOT / name for name in ("CHANGELOG.md", "SECURITY.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md")),
    *sorted((ROOT / ".github").rglob("*.md")),
)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the headings that it stands under."""

    language: str
    text: str
    headings: tuple[str, ...]


class Section(NamedTuple):
    """The lines under one heading, blocks included, and the headings that it stands under."""

    headings: tuple[str, ...]
    text: str


def sections(text: str) -> list[Section]:
    headings: list[str] = []
    found: list[tuple[tuple[str, ...], list[str]]] = [((), [])]
    fenced = False
    for line in text.splitlines():
        fenced ^= line.lstrip().startswith("```")
        heading = None if fenced else re.match(r"(#+) (.+)", line)
        if heading:
            headings = [*headings[: len(heading[1]) - 1], heading[2]]
            found.append((tuple(headings), []))
        else:
            found[-1][1].append(line)
    return [Section(under, "\n".join(lines)) for under, lines in found]


def blocks(text: str) -> list[Block]:
    fence = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
    return [
        Block(match[1], match[2], section.headings)
        for section in sections(text)
        for match in fence.finditer(section.text)
    ]


def prose(text: str) -> str:
    """The text without its fenced blocks."""
    return re.sub(r"^ *```\w*\n.*?^ *```$", "", text, flags=re.DOTALL | re.MULTILINE)


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table, headers and rulers left out."""
    lines = text.splitlines()
    for index, line in enumerate(lines):
        is_header = index + 1 < len(lines) and _is_ruler(lines[index + 1])
        if line.lstrip().startswith("|") and not is_header and not _is_ruler(line):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def _is_ruler(line: str) -> bool:
    return re.fullmatch(r"\s*\|[-|]+\|\s*", line) is not None


def code_words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def plain(jsonc: str) -> str:
    """The JSON of a text with comments and trailing commas."""
    uncommented = re.sub(
        r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", jsonc, flags=re.DOTALL
    )
    return re.sub(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', lambda match: match[1] or "", uncommented)


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", prose(text))


def anchors(text: str) -> set[str]:
    """The anchors that a renderer gives to the headings."""
    return {_anchor(section.headings[-1]) for section in sections(text) if section.headings}


def _anchor(heading: str) -> str:
    kept = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return kept.replace(" ", "-")
