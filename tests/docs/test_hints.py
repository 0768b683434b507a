"""Hints name what an installed user has: pages that exist; and a model's hints hold the answer, not a page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mcp_workbench.cli import manual
from mcp_workbench.cli.commands import COMMANDS
from mcp_workbench.cli.terminal import hint_of
from mcp_workbench.errors import WorkbenchError
from mcp_workbench.surfaces import dynamic, proxy
from tests.docs.markdown import EVERY, ROOT
from tests.docs.test_errors_documented import classes

SOURCE = ROOT / "src" / "mcp_workbench"
PAGES = manual.pages()
NAMED = re.compile(r"mcp-workbench docs (?!--)([a-z][\w/-]*(?:#[\w-]+)?)")
TARGETS = "|".join(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
FILES = re.compile(
    r"\bdocs/|\b(?:README|SECURITY|CHANGELOG|CONTRIBUTING|CLAUDE)\b|\w\.md\b|\bbenchmarks\b"
    rf"|\bmake (?:{TARGETS})\b"
)
MIGRATIONS = {proxy.MIGRATION, dynamic.MIGRATION}
"""Texts that clients know word for word."""
NO_FILES = re.compile(r"path=README\.md|\"path\": \"README\.md\"|/SKILL\.md")
"""Examples of arguments, and what a server's skill is called."""
FOR_PEOPLE = {"cli", "doctor", "hosts", "demo", "activity"}
"""What no model reads: everything else can end up in an answer."""


class Said(NamedTuple):
    """A text of the program that is no docstring."""

    file: Path
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.file.relative_to(SOURCE)}:{self.line}"


def said() -> Iterator[Said]:
    for file in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                yield Said(file, node.lineno, "".join(_text(part) for part in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent | parts:
                yield Said(file, node.lineno, node.value)


def _text(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "\N{REPLACEMENT CHARACTER}"


EVERYTHING_SAID = list(said())


def files_named(text: str) -> list[str]:
    return FILES.findall(NO_FILES.sub("", text))


def section_exists(name: str) -> bool:
    page, _, anchor = name.partition("#")
    try:
        found = manual.find(page, PAGES)
        return not anchor or bool(found.section(anchor))
    except manual.PageNotFound:
        return False


def test_every_page_and_section_that_the_program_names_exists():
    named = {(one.place, name) for one in EVERYTHING_SAID for name in NAMED.findall(one.text)}
    assert {"configuration", "errors#server_refused"} <= {name for _, name in named}
    assert {one for one in named if not section_exists(one[1])} == set()


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_page_and_section_that_a_document_names_exists(path: Path):
    named = set(NAMED.findall(path.read_text(encoding="utf-8")))
    assert {name for name in named if not section_exists(name)} == set()


def test_a_section_that_is_not_there_would_be_found():
    assert NAMED.findall("Run: mcp-workbench docs errors#no_such.") == ["errors#no_such"]
    assert not section_exists("errors#no_such")
    assert not section_exists("no-such-page")


@pytest.mark.parametrize("kind", sorted(classes(), key=lambda kind: kind.code), ids=lambda kind: kind.__name__)
def test_every_error_has_a_section_that_its_last_line_names(kind: type[WorkbenchError]):
    error = kind.__new__(kind)
    Exception.__init__(error, "it is wrong")
    error.hint = ""
    assert PAGES["errors"].section(kind.code).title == kind.code
    if kind.wire_code is WorkbenchError.wire_code:
        assert hint_of(error) == f"Run: mcp-workbench docs errors#{kind.code}"


def test_every_command_has_the_page_that_its_help_names():
    assert {f"commands/{command.name}" for command in COMMANDS} <= set(PAGES)


def test_nothing_that_is_said_names_a_file_of_the_repository():
    own = {SOURCE / "cli" / name for name in ("manual.py", "docs.py")}  # they find the files
    found = [one for one in EVERYTHING_SAID if one.file not in own and one.text not in MIGRATIONS]
    assert [(one.place, one.text) for one in found if files_named(one.text)] == []


def test_a_file_that_is_named_would_be_found():
    for text in ("see docs/errors.md", "SECURITY.md says it", "protocol.md#turns", "run make bench", "the README"):
        assert files_named(text), text


def test_what_a_model_reads_names_no_page():
    models = [one for one in EVERYTHING_SAID if one.file.relative_to(SOURCE).parts[0] not in FOR_PEOPLE]
    assert len(models) > 1000
    assert [one.place for one in models if re.search(r"mcp-workbench docs\b|\bsee its documentation", one.text)] == []
