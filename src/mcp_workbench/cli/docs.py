"""`mcp-workbench docs`: shows and searches the bundled documentation."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final

from mcp_workbench.cli import display, manual
from mcp_workbench.cli.commands import COMMANDS
from mcp_workbench.cli.display import Block, Column, Table, Words, is_dumb, is_terminal
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.manual import COMMAND, ManualHit, ManualPage, Section, search
from mcp_workbench.cli.options import Given
from mcp_workbench.errors import InvalidParameters
from mcp_workbench.text.sanitize import escape

_DEFAULT: Final = "less -R"
_NO_PAGERS: Final = ("", "cat")


def show_lines(lines: Iterable[str], *, is_paged: bool = True) -> None:
    """Write lines to stdout. At a terminal that is too small for them, use `$PAGER` or `less -R`."""
    shown = list(lines)
    text = "".join(f"{line}\n" for line in shown)
    is_long = is_terminal(sys.stdout) and not is_dumb() and len(shown) >= shutil.get_terminal_size().lines
    if not (is_paged and is_long and _show_in_pager(text)):
        sys.stdout.write(text)


def _show_in_pager(text: str) -> bool:
    """Show a text in the pager; return whether there is one."""
    command = os.environ.get("PAGER", _DEFAULT).strip()
    if command in _NO_PAGERS:
        return False
    try:
        words = shlex.split(command)
        # Without -R, `less` shows colors as escape sequences. A LESS that the user set wins.
        process = subprocess.Popen(words, stdin=subprocess.PIPE, env={"LESS": "R", **os.environ})  # noqa: S603
    except (OSError, ValueError):
        return False
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pager
    try:
        with suppress(BrokenPipeError):  # the user quit the pager
            process.communicate(text.encode(errors="replace"))
        process.wait()
    finally:
        signal.signal(signal.SIGINT, before)
    return True


HELP = """Read the documentation of this version, at a terminal and without a network.

\b
mcp-workbench docs                        a list of all pages
mcp-workbench docs configuration          a page
mcp-workbench docs errors#server_refused  a section, or a row of a table
mcp-workbench docs --search call timeout  the sections with all of these words

A long page is shown in $PAGER, else in less. In a pipe the page is printed as Markdown."""

_COLUMNS: Final = (Column(tone="strong", is_whole=True), Column())
_MAX_COLUMNS: Final = 100
"""Longer lines are hard to read."""
_HITS_SHOWN: Final = 12


def run(options: Given) -> int:
    known = manual.pages()
    if "search" in options:
        _search(options, known)
    elif options.words:
        _show(options, known, *_named(options.words, known))
    elif "path" in options:
        print(manual.folder())  # noqa: T201 -- a path for scripts, unescaped
    else:
        _show_overview(options, known)
    return 0


def _named(words: tuple[str, ...], known: dict[str, ManualPage]) -> tuple[ManualPage, Section | None]:
    """The page and the section that `errors#code` or `errors code` name."""
    first, *rest = words
    if len(rest) > 1:
        raise InvalidParameters("name one page", hint=f"To search: {COMMAND} --search {escape(' '.join(words))}")
    name, _, anchor = first.partition("#")
    page = manual.find(name, known)
    anchor = anchor or "".join(rest)
    return page, page.section(anchor) if anchor else None


# -- one page


def _show(options: Given, known: dict[str, ManualPage], page: ManualPage, section: Section | None) -> None:
    text = section.text if section else page.text
    if "json" in options:
        anchor = {"section": section.anchor} if section else {}
        print_json({"ok": True, "page": page.name, **anchor, "path": str(page.path), "text": text})
    elif "path" in options:
        print(page.path)  # noqa: T201 -- as above
    elif display.is_terminal(sys.stdout):
        show_lines(_rendered(page, section, known), is_paged="no_pager" not in options)
    else:
        sys.stdout.write(text)


def _rendered(page: ManualPage, section: Section | None, known: dict[str, ManualPage]) -> list[str]:
    from mcp_workbench.cli.markdown import render  # noqa: PLC0415 -- large, and only for terminals

    columns, is_coloured = display.terminal_look(sys.stdout)
    followed: list[str] = []

    def link(text: str, href: str) -> str:
        there, name = manual.reference(page, href, known)
        if there is not None:
            followed.append(name)
        return name if there is not None and _is_same(text, name, known) else f"{text} ({name})"

    body = section.text if section else page.text
    lines = render(body, min(columns, _MAX_COLUMNS), link, is_coloured=is_coloured)
    notes = [f"The whole page: {COMMAND} {page.name}"] if section else []
    if followed:
        example = next((one for one in followed if not one.startswith("#")), f"{page.name}{followed[0]}")
        notes.append(f"To follow a link: {COMMAND} {example}")
    return [*lines, "", *(f"\x1b[2m{note}\x1b[0m" if is_coloured else note for note in notes)]


def _is_same(text: str, name: str, known: dict[str, ManualPage]) -> bool:
    """Whether the text of a link is the name of its page."""
    short = text.casefold().removeprefix("docs/").removesuffix(".md")
    target = name.partition("#")[0]
    return short == target or (short == target.rpartition("/")[2] and short not in known)


# -- all pages


def _show_overview(options: Given, known: dict[str, ManualPage]) -> None:
    entries = list(_entries(known))
    if "json" in options:
        print_json({
            "ok": True,
            "folder": str(manual.folder()),
            "pages": [
                {"page": page.name, "group": group, "title": page.title, "about": about, "path": str(page.path)}
                for group, page, about in entries
            ],
        })  # fmt: skip
        return
    blocks: list[Block] = [f"The documentation of this version. Read a page: {COMMAND} PAGE"]
    width = max(len(page.name) for _, page, _ in entries)
    for group in dict.fromkeys(group for group, _, _ in entries):
        rows = [(page.name.ljust(width), about) for one, page, about in entries if one == group]
        blocks += ["", Words(group, "strong"), Table(_COLUMNS, rows, indent=2)]
    blocks += ["", f"Search all of them: {COMMAND} --search WORDS"]
    show_lines(display.lines(*blocks), is_paged="no_pager" not in options)


def _entries(known: dict[str, ManualPage]) -> Iterator[tuple[str, ManualPage, str]]:
    """Every page with its group and purpose: guides in the order of the index, then commands and hosts."""
    for name, (group, about) in manual.wanted_for(known).items():
        if "/" not in name:
            yield group, known[name], f"{about[:1].upper()}{about[1:]}"
    for command in COMMANDS:
        yield "Commands", known[f"commands/{command.name}"], command.summary.rstrip(".")
    for name, page in known.items():
        if name.startswith("hosts/"):
            yield "Hosts", page, f"From zero to the first call with {page.title}"


# -- a search


def _search(options: Given, known: dict[str, ManualPage]) -> None:
    if not options.words:
        raise InvalidParameters("nothing to search for", hint=f"{COMMAND} --search call timeout")
    hits = search(options.words, known.values())
    if "json" in options:
        found = [{"page": hit.page, "section": hit.section.anchor, "title": hit.section.title, "lines": hit.lines}
                 for hit in hits]  # fmt: skip
        print_json({"ok": True, "query": " ".join(options.words), "found": found})
        return
    show_lines(display.lines(*_found(hits)), is_paged="no_pager" not in options)


def _found(hits: list[ManualHit]) -> Iterator[Block]:
    if not hits:
        yield f"No section has all of these words. {COMMAND} lists the pages."
    for hit in hits[:_HITS_SHOWN]:
        yield Words(hit.name, "strong")
        yield from (Words(line, indent=2) for line in hit.lines or (manual.plain(hit.section.title),))
    if len(hits) > _HITS_SHOWN:
        yield Words(f"and {len(hits) - _HITS_SHOWN} more: add a word to find less", "quiet")
