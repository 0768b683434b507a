"""The changelog tells the story of the names: each change is marked, and shown by old and new."""

from __future__ import annotations

import re

import msgspec
import pytest

import mcp_workbench
from mcp_workbench import ToolIdentifier
from mcp_workbench.identity import historical_names
from tests.docs.markdown import ROOT, code_words, rows

TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
MIGRATION = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
CHANGES = {"0.4.0": (0, 1), "0.5.0": (1, 2), "0.11.0": (2, None)}
"""Each version that changed the names: from which of the historical formats to which; None is the object."""


def entry(version: str) -> str:
    match = re.search(rf"^## \[{re.escape(version)}\].*?(?=^## |\Z)", TEXT, re.DOTALL | re.MULTILINE)
    assert match, f"CHANGELOG.md has no entry for {version}"
    return match[0]


def pairs(text: str) -> list[tuple[str, str]]:
    """Old and new of every row of a table that shows names."""
    found = [[word for cell in row for word in code_words(cell)] for row in rows(text)]
    return [(words[0], words[1]) for words in found if len(words) == 2]


def tools_of(new: str) -> list[ToolIdentifier]:
    """The tool that an object names, or the tools that a joined name could be of: here no part has `__`."""
    if new.startswith("{"):
        tool = msgspec.json.decode(new)["tool"]
        return [ToolIdentifier(tool["toolbox"], tool["server"], tool["tool"])]
    toolbox, _, rest = new.partition("__")
    return [ToolIdentifier(toolbox, rest[: cut.start()], rest[cut.end() :]) for cut in re.finditer("_+", rest)]


@pytest.mark.requirement("002-FR-006", "002-US2-AS1")
@pytest.mark.parametrize("version", CHANGES)
def test_each_change_of_the_names_is_marked_as_incompatible(version: str):
    assert "**Incompatible change**" in entry(version)


@pytest.mark.requirement("002-FR-006", "002-SC-003")
@pytest.mark.parametrize("version", CHANGES)
def test_each_change_of_the_names_has_three_pairs_of_the_same_tool(version: str):
    old_format, new_format = CHANGES[version]
    shown = pairs(entry(version))
    assert len(shown) >= 3
    for old, new in shown:
        assert [
            tool
            for tool in tools_of(new)
            if historical_names(tool)[old_format] == old
            and (new_format is None or historical_names(tool)[new_format] == new)
        ], (old, new)


@pytest.mark.requirement("002-SC-003")
@pytest.mark.parametrize(
    "heading",
    [
        "From 0.3 to 0.4.0: the toolbox was added",
        "From 0.4.0 to 0.5.0: one underscore became two",
        "From 0.10.0 to 0.11.0: strings became objects",
    ],
)
def test_the_migration_guide_has_three_pairs_for_each_change(heading: str):
    match = re.search(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", MIGRATION, re.DOTALL | re.MULTILINE)
    assert match
    assert len(pairs(match[0])) >= 3


@pytest.mark.requirement("002-FR-008", "002-SC-005")
def test_the_newest_released_version_is_that_of_the_package():
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", TEXT, re.MULTILINE)
    assert versions[0] == mcp_workbench.__version__
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


def test_a_released_version_has_a_date():
    assert re.search(rf"^## \[{re.escape(mcp_workbench.__version__)}\] - \d{{4}}-\d\d-\d\d$", TEXT, re.MULTILINE)


def test_there_is_one_entry_of_ours_and_nothing_unreleased():
    """Nothing was released before; the entries below it are those of the names."""
    assert re.findall(r"^## \[([^\]]+)\]", TEXT, re.MULTILINE) == ["0.11.0", "0.5.0", "0.4.0"]
    assert "unreleased" not in TEXT.lower()


def test_every_removal_is_marked_as_incompatible():
    [removed] = re.findall(r"^### Removed\n(.*?)(?=^##)", TEXT, re.DOTALL | re.MULTILINE)
    lines = [line for line in removed.splitlines() if line.startswith("- ")]
    assert lines
    assert all(line.startswith("- **Incompatible change**: ") for line in lines)
