"""Reads and searches the bundled documentation: pages and their sections.

In a wheel the pages are in `mcp_workbench/pages`, in a clone at the root of the repository. Page names are paths
without `docs/` and `.md`: `errors`, `commands/call`, `readme`. This module reads Markdown line by line and renders
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from mcp_workbench.command_errors import PageNotFound
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest, nearest_names

COMMAND: Final = "mcp-workbench docs"
INDEX: Final = "index"
_AT_THE_ROOT: Final = ("README.md", "SECURITY.md", "CHANGELOG.md")
_HEADING: Final = re.compile(r"(#{1,6}) (.+)")
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
_CODE: Final = re.compile(r"`([^`]+)`")
_NEAR: Final = 0.5
"""The similarity from which a name is suggested. It is low, since a wrong page does no harm."""
_RULER: Final = re.compile(r"\|[-:| ]+\|?")


class Section(NamedTuple):
    """The Markdown of a heading's section, or of a table row that has a name."""

    anchor: str
    title: str
    level: int
    """1 to 6 for a heading, 0 for a row."""
    own: str
    """Without its subsections."""
    text: str
    """With its subsections."""


class ManualPage:
    """One Markdown file."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        self.path = path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        return self.sections[0].title if self.sections else self.name

    @cached_property
    def sections(self) -> list[Section]:
        """One section per heading."""
        lines = self.text.splitlines()
        heads = list(_headings(lines))
        seen: dict[str, int] = {}
        found: list[Section] = []
        for number, (start, level, title) in enumerate(heads):
            later = heads[number + 1 :]
            own_end = later[0][0] if later else len(lines)
            end = next((one[0] for one in later if one[1] <= level), len(lines))
            anchor = anchor_of(title)
            seen[anchor] = seen.get(anchor, -1) + 1
            unique = f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor
            found.append(Section(unique, title, level, _joined(lines[start:own_end]), _joined(lines[start:end])))
        return found

    @cached_property
    def rows(self) -> list[Section]:
        """Table rows whose first cell begins with a name in code: error codes, keys, options."""
        return [row for section in self.sections for row in named_rows(section)]

    def section(self, anchor: str) -> Section:
        """The section with this anchor, or the rows with this name. Raises `PageNotFound`."""
        wanted = anchor.casefold()
        for section in self.sections:
            if section.anchor == wanted:
                return section
        rows = [row for row in self.rows if row.anchor == wanted]
        if rows:
            text = "\n".join(row.text for row in rows)
            return rows[0]._replace(own=text, text=text)
        near = nearest(wanted, self.anchors())
        hint = (
            f"Did you mean '{self.name}#{near}'?"
            if near
            else (f"The whole page: {COMMAND} {self.name}; search all pages: {COMMAND} --search {escape(anchor)}")
        )
        raise PageNotFound(f"Page '{self.name}' has no section '{escape(anchor)}'", hint=hint)

    def anchors(self) -> dict[str, str]:
        """Every anchor with its title."""
        found = {section.anchor: section.title for section in self.sections[1:]}
        for row in self.rows:
            found.setdefault(row.anchor, row.title)
        return found


# -- finding pages


def folder() -> Path:
    """The folder of README.md and `docs/`. Raises `PageNotFound`."""
    package = Path(__file__).parents[1]
    for place in (package / "pages", package.parents[1]):
        if (place / "docs" / "index.md").is_file():
            return place
    raise PageNotFound("this installation has no documentation", hint="Reinstall the program with its data files.")


def pages() -> dict[str, ManualPage]:
    """Every page by name: those of `docs/` first, then its folders, then the files at the root."""
    root = folder()
    docs = root / "docs"
    files = sorted(docs.rglob("*.md"), key=lambda path: (len(path.parts), path))
    found = {path.relative_to(docs).with_suffix("").as_posix(): path for path in files}
    found |= {Path(name).stem.lower(): root / name for name in _AT_THE_ROOT}
    return {name: ManualPage(name, path) for name, path in found.items() if path.is_file()}


def find(name: str, known: dict[str, ManualPage] | None = None) -> ManualPage:
    """The page with this name; the folder may be left out. Raises `PageNotFound`."""
    known = pages() if known is None else known
    wanted = name.casefold().strip("/").removeprefix("docs/").removesuffix(".md")
    if wanted in known:
        return known[wanted]
    short = {one.rpartition("/")[2]: page for one, page in reversed(known.items())}
    if wanted in short:
        return short[wanted]
    near = " or ".join(f"'{one}'" for one in nearest_names(wanted, [*known, *short], _NEAR))
    hint = f"Did you mean {near}?" if near else f"{COMMAND} lists the pages, {COMMAND} --search WORDS searches them."
    raise PageNotFound(f"There is no page '{escape(name)}'", hint=hint)


def reference(page: ManualPage, href: str, known: dict[str, ManualPage]) -> tuple[ManualPage | None, str]:
    """The target of a link: a page, and its name with the anchor. No page for an external link."""
    target, _, anchor = href.partition("#")
    if "://" in target:
        return None, href
    if not target:
        return page, f"#{anchor}"
    path = (page.path.parent / target).resolve()
    there = next((one for one in known.values() if one.path.resolve() == path), None)
    if there is None:
        return None, target.lstrip("./")
    return there, f"{there.name}#{anchor}" if anchor else there.name


def wanted_for(known: dict[str, ManualPage]) -> dict[str, tuple[str, str]]:
    """The group and purpose of each page, from the tables of the index."""
    index = known[INDEX]
    found: dict[str, tuple[str, str]] = {}
    for section in index.sections:
        for _, row in _table_rows(section.own):
            for _, href in _LINK.findall(row):
                page, _ = reference(index, href, known)
                if page is not None:
                    found.setdefault(page.name, (section.title, plain(_cells(row)[0])))
    return found


# -- Markdown, line by line


def plain(line: str) -> str:
    """A line without its markup. Dashes separate the cells of a row."""
    if line.lstrip().startswith("|"):
        line = " - ".join(cell for cell in _cells(line) if cell)
    line = _LINK.sub(r"\1", line.strip().lstrip("#-> "))
    return line.replace("**", "").replace("`", "")


def anchor_of(title: str) -> str:
    """The anchor that renderers give to a heading."""
    kept = re.sub(r"[^\w\- ]", "", _LINK.sub(r"\1", title).replace("`", "").lower())
    return kept.replace(" ", "-")


def is_heading(line: str) -> bool:
    return _HEADING.match(line) is not None


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    is_code = False
    for number, line in enumerate(lines):
        is_code ^= line.lstrip().startswith("```")
        if not is_code and (match := _HEADING.match(line)):
            yield number, len(match[1]), match[2].strip()


def named_rows(section: Section) -> Iterator[Section]:
    """Rows that have a name, each as a table of one row."""
    for head, row in _table_rows(section.own):
        first = _cells(row)[0]
        if not first.startswith("`"):
            continue
        table = f"{head}\n{row}"
        for name in _CODE.findall(first):
            anchor = name.split()[0].casefold()
            yield Section(anchor, name, 0, row, f"{'#' * section.level} {section.title}\n\n{table}\n")


def _table_rows(text: str) -> Iterator[tuple[str, str]]:
    """Every table row, with the two header lines of its table."""
    lines = text.splitlines()
    head = ""
    for above, line in zip(["", *lines], lines, strict=False):
        if not line.startswith("|"):
            head = ""
        elif _RULER.fullmatch(line):
            head = f"{above}\n{line}"
        elif head:
            yield head, line


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).strip("\n") + "\n"


_SNIPPET_LENGTH: Final = 150
_BEFORE_MATCH: Final = 50
_LINES_PER_HIT: Final = 2


class ManualHit(NamedTuple):
    """A section with all words of a search, and its matching lines."""

    page: str
    section: Section
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """The argument for `docs`. The first heading of a page stands for the whole page."""
        return self.page if self.section.level == 1 else f"{self.page}#{self.section.anchor}"


def search(words: Iterable[str], pages: Iterable[ManualPage]) -> list[ManualHit]:
    """Sections with all words. Matches in titles come first, headings before rows, then more lines before fewer."""
    wanted = [word.casefold() for word in words]
    ranked = sorted((one for page in pages for one in _ranked(page, wanted)), key=lambda one: one[0])
    found: dict[str, ManualHit] = {}
    rows: set[tuple[str, str]] = set()
    for _, hit in ranked:
        if (hit.page, hit.section.own) in rows:  # a row with several names is several sections
            continue
        rows.add((hit.page, hit.section.own))
        before = found.get(hit.name, hit._replace(lines=()))
        found[hit.name] = before._replace(lines=(*before.lines, *hit.lines)[:_LINES_PER_HIT])
    return list(found.values())


def _ranked(page: ManualPage, words: list[str]) -> Iterator[tuple[tuple[int, bool, int], ManualHit]]:
    for section in page.sections:
        if not _has_all(f"{page.title} {section.own}", words) or not _has_any(section.own, words):
            continue
        for one in [row for row in named_rows(section) if _has_all(row.own, words)] or [section]:
            lines = [line for line in one.own.splitlines() if _has_any(line, words) and not is_heading(line)]
            in_title = sum(word in one.title.casefold() for word in words)
            snippets = tuple(_snippet(plain(line), words) for line in lines[:_LINES_PER_HIT])
            yield (-in_title, one.level == 0, -len(lines)), ManualHit(page.name, one, snippets)


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
