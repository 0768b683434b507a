"""The documents tell the story of the names, and show every call in its structured form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from tests.support.configs import rogue, write_config
from tests.support.documents import ROOT, calls_in, changelog_entry, document, guides, objects_in, sections
from tests.support.wire import serving


def pairs(text: str) -> Iterator[tuple[str, str]]:
    """Old and new names that stand together: the same parts, one `_` apart."""
    names = set(re.findall(r"[A-Za-z0-9-]+__[A-Za-z0-9_-]+", text))
    for new in names:
        for place in re.finditer("__", new):
            old = f"{new[: place.start()]}_{new[place.end() :]}"
            if old in names:
                yield old, new


@pytest.mark.requirement("002-US2-AS1", "002-FR-006", "002-FR-008", "002-SC-005", "002-A1")
def test_the_changelog_marks_0_5_0_as_incompatible_with_old_and_new_names():
    text = changelog_entry("0.5.0")
    assert re.search(r"incompatible|breaking", text, re.IGNORECASE)
    assert list(pairs(text))


@pytest.mark.requirement("002-SC-003", "002-FR-006")
def test_the_changelog_shows_at_least_three_pairs_of_old_and_new_names():
    assert len(list(pairs(changelog_entry("0.5.0")))) >= 3


@pytest.mark.requirement("002-US2-AS1", "002-FR-006")
@pytest.mark.parametrize("version", ["0.4.0", "0.5.0", "0.11.0"])
def test_each_change_of_the_names_has_its_changelog_entry(version: str):
    assert re.search(r"incompatible|breaking", changelog_entry(version), re.IGNORECASE)


@pytest.mark.requirement("002-US2-AS3", "002-US2-AS1")
def test_the_migration_guide_has_steps_for_both_changes():
    text = document("docs/migration.md")
    assert "0.5.0" in text
    assert "0.11.0" in text
    assert re.search(r"^(\d+\.|- \[ \]|-) ", text, re.MULTILINE), "steps"


@pytest.mark.requirement("002-US2-AS1")
def test_the_guide_for_developers_has_a_section_on_the_naming_convention():
    assert re.search(r"^#+ .*Tool Naming Convention", document("CLAUDE.md"), re.MULTILINE)


@pytest.mark.requirement("007-A-001")
def test_the_changelog_marks_0_11_0_as_incompatible_with_examples_of_old_and_new():
    entry = changelog_entry("0.11.0")
    assert re.search(r"incompatible|breaking", entry, re.IGNORECASE)
    assert re.search(r"\w__\w+__\w", entry), "the old strings"
    assert [call for example in objects_in(entry) for call in calls_in(example)], "the new objects"


@pytest.mark.requirement("007-FR-009")
async def test_every_call_in_the_documents_fits_the_live_schema(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with serving(config) as wire:
        schemas = {tool["name"]: tool["inputSchema"] for tool in await wire.list_tools()}
    schemas["open_toolbox"]["properties"]["toolbox"].pop("enum", None)
    found = 0
    for path in guides():
        for example in objects_in(document(str(path.relative_to(ROOT)))):
            for name, arguments in calls_in(example):
                jsonschema.validate(arguments, schemas[name])
                found += 1
    assert found >= 3, "the documents show no calls"


@pytest.mark.requirement("007-FR-009")
def test_joined_names_stand_only_where_dynamic_mode_or_the_migration_is_explained():
    joined = re.compile(
        r"(?!\bmcp__)\b[A-Za-z0-9}-]+__[A-Za-z0-9{][^\s`\"]*?__[A-Za-z0-9{]"
    )  # Claude Code's rules: mcp__
    allowed = re.compile(r"dynamic|migrat|changelog|history|0\.\d+\.\d+|joined", re.IGNORECASE)
    stray = [
        (section.file, section.headings, joined.search(section.text)[0])  # type: ignore[index]
        for path in guides()
        if path.name != "migration.md"
        for section in sections(path)
        if joined.search(section.text) and not allowed.search(" ".join(section.headings))
    ]
    assert stray == []


@pytest.mark.requirement("007-FR-009")
def test_the_principles_are_version_1_7_0_and_hold_naming_and_invocation_in_structured_form():
    text = document("docs/principles.md")
    assert "1.7.0" in text
    assert [call for example in objects_in(text) for call in calls_in(example)]
    for principle in ("meta-server", "tool naming", "proxy", "configuration", "fail-safe", "release"):
        assert principle in text.lower()
