"""Full-text search in the documentation: the sections and table rows that have all words, best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mcp_workbench.cli.manual import Page, Section, is_heading, named_rows, plain

_SNIPPET_LENGTH: Final = 150
_BEFORE_MATCH: Final = 50
_LINES_PER_HIT: Final = 2


class Hit(NamedTuple):
    """A section that has all words of a search, with the lines that have some."""

    page: str
    section: Section
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """What to pass to `docs`; the first heading of a page stands for all of it."""
        return self.page if self.section.level == 1 else f"{self.page}#{self.section.anchor}"


def search(words: Iterable[str], pages: Iterable[Page]) -> list[Hit]:
    """What has all words: with the words in its title first, headings before rows, then by the number of lines."""
    wanted = [word.casefold() for word in words]
    ranked = sorted((one for page in pages for one in _ranked(page, wanted)), key=lambda one: one[0])
    found: dict[str, Hit] = {}
    rows: set[tuple[str, str]] = set()
    for _, hit in ranked:
        if (hit.page, hit.section.own) in rows:  # a row with several names is several sections
            continue
        rows.add((hit.page, hit.section.own))
        before = found.get(hit.name, hit._replace(lines=()))
        found[hit.name] = before._replace(lines=(*before.lines, *hit.lines)[:_LINES_PER_HIT])
    return list(found.values())


def _ranked(page: Page, words: list[str]) -> Iterator[tuple[tuple[int, bool, int], Hit]]:
    for section in page.sections:
        if not _has_all(f"{page.title} {section.own}", words) or not _has_any(section.own, words):
            continue
        for one in [row for row in named_rows(section) if _has_all(row.own, words)] or [section]:
            lines = [line for line in one.own.splitlines() if _has_any(line, words) and not is_heading(line)]
            in_title = sum(word in one.title.casefold() for word in words)
            snippets = tuple(_snippet(plain(line), words) for line in lines[:_LINES_PER_HIT])
            yield (-in_title, one.level == 0, -len(lines)), Hit(page.name, one, snippets)


def _has_all(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


def _has_any(text: str, words: list[str]) -> bool:
    folded = text.casefold()
    return any(word in folded for word in words)


def _snippet(text: str, words: list[str]) -> str:
    """The part of a line around the first match, cut between words."""
    if len(text) <= _SNIPPET_LENGTH:
        return text
    at = min((place for word in words if (place := text.casefold().find(word)) >= 0), default=0)
    start = text.find(" ", at - _BEFORE_MATCH) + 1 if at > _BEFORE_MATCH else 0
    piece = text[start : start + _SNIPPET_LENGTH]
    if start + len(piece) < len(text):
        piece = f"{piece.rpartition(' ')[0] or piece} …"
    return f"… {piece}" if start else piece
