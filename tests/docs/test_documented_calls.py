"""Every call in a document or a help text is one that the live tools take.

Joined names stand only where they are the subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from mcp_workbench import load_config
from mcp_workbench.cli.commands import COMMANDS
from mcp_workbench.surfaces import proxy
from tests.docs.markdown import EVERY, GUIDES, ROOT, blocks, plain, prose, sections
from tests.support.commands import invoke
from tests.support.documents import objects_in

PARTS = {"toolbox", "server", "tool"}
ERROR = "mcp-workbench/error"
DOUBLE = re.compile(r"[A-Za-z0-9}-]__[A-Za-z0-9{]")
RULES = re.compile(r"\bmcp__[\w*-]+")
"""Names of tools in the rules of Claude Code, which are not ours."""
SUBJECTS = re.compile(r"dynamic|migrat|changelog|joined|0\.\d+\.\d+", re.IGNORECASE)

CONFIG = '{"toolboxes": {"dev": {"description": "d", "mcpServers": {"filesystem": {"command": "x"}}}}}'


@pytest.fixture
def schemas(tmp_path: Path) -> dict[str, Any]:
    """The input schemas as a client gets them; any toolbox will do, since documents have many."""
    path = tmp_path / "workbench-config.json"
    path.write_text(CONFIG, encoding="utf-8")
    tools = [msgspec.json.decode(raw) for raw in proxy.definitions(load_config(path))]
    found = {tool["name"]: tool["inputSchema"] for tool in tools}
    del found["open_toolbox"]["properties"]["toolbox"]["enum"]
    return found


def help_texts() -> dict[str, str]:
    """What every command says of itself, by its command line."""
    lines = ["--help", *(f"{command.name} --help" for command in COMMANDS)]
    return {line: invoke(*line.split()).output for line in lines}


def name_of(path: Path) -> str:
    """Its path in the repository: `docs/search.md` and `docs/commands/search.md` are two pages."""
    return path.relative_to(ROOT).as_posix()


def texts() -> dict[str, str]:
    return {name_of(path): path.read_text(encoding="utf-8") for path in EVERY} | help_texts()


def json_in(text: str) -> Iterator[Any]:
    """The JSON of blocks that say that they hold some, which must be readable, and all other that is."""
    for block in blocks(text):
        if block.language in {"json", "jsonc"}:
            yield msgspec.json.decode(plain(block.text) if block.language == "jsonc" else block.text)
        else:
            yield from objects_in(block.text)
    yield from objects_in(prose(text))


def calls_in(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every call, as the name of its schema and what must fit it; `tool` stands for an identifier alone."""
    if isinstance(value, list):
        for item in value:
            yield from calls_in(item)
    elif isinstance(value, dict) and key != ERROR:
        if value.get("name") in {"use_tool", "open_toolbox"}:
            yield value["name"], value.get("arguments")
        elif set(value) > PARTS and "arguments" not in value:
            return  # it tells about a tool, as `status --json` does
        elif "tool" in value:
            yield "tool" if set(value) == PARTS else "use_tool", value
        else:
            for name, item in value.items():
                yield from calls_in(item, name)


def problems(text: str, schemas: dict[str, Any]) -> list[str]:
    known = schemas | {"tool": schemas["use_tool"]["properties"]["tool"]}
    found: list[str] = []
    for name, call in (call for value in json_in(text) for call in calls_in(value)):
        found += [error.message for error in jsonschema.Draft202012Validator(known[name]).iter_errors(call)]
    return found


def test_the_help_of_every_command_is_read():
    texts = help_texts()
    for command in COMMANDS:
        text = " ".join(texts[f"{command.name} --help"].split())
        assert f"Usage: mcp-workbench {command.name} " in text
        assert " ".join(command.load().HELP.replace("\b\n", "").split())[:60] in text
        assert all(option.name in text for option in command.options)
        assert command.summary[:30] in " ".join(texts["--help"].split())


@pytest.mark.requirement("007-FR-009")
def test_every_call_that_is_shown_fits_the_live_schema(schemas: dict[str, Any]):
    wrong = {name: found for name, text in texts().items() if (found := problems(text, schemas))}
    assert wrong == {}


@pytest.mark.requirement("007-FR-009")
@pytest.mark.parametrize("name", ["README.md", "CLAUDE.md", "CHANGELOG.md", "docs/principles.md", "docs/migration.md"])
def test_the_documents_that_teach_calls_show_one(name: str):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert [call for value in json_in(text) for kind, call in calls_in(value) if kind == "use_tool"]


@pytest.mark.parametrize(
    "text",
    [
        '`{"tool": "dev__filesystem__read_file"}`',
        '`{"tool": {"toolbox": "dev", "tool": "read_file"}}`',
        '```json\n{"name": "use_tool", "arguments": {"tool_name": "x"}}\n```',
        '```json\n{"name": "open_toolbox", "arguments": {"toolbox_name": "dev"}}\n```',
        '`{"toolbox": "dev", "server": "", "tool": "x"}`',
        '`{"toolbox": "dev", "server": "fs", "tool": "x", "arguments": {}}`',
        '```text\nSend: use_tool {"tool":{"toolbox":"dev","server":"fs","tool":"x"},"argument":{}}\n```',
    ],
)
def test_a_wrong_call_in_a_document_would_be_found(text: str, schemas: dict[str, Any]):
    assert problems(text, schemas)


def stray_names(name: str, text: str) -> list[str]:
    """Joined names under headings that are about something else. A whole file may be about them."""
    if SUBJECTS.search(name):
        return []
    return [
        line.strip()
        for section in sections(text)
        if not SUBJECTS.search(" ".join(section.headings))
        for line in section.text.splitlines()
        if DOUBLE.search(RULES.sub("", line))
    ]


@pytest.mark.requirement("007-FR-009")
def test_joined_names_stand_only_where_dynamic_mode_or_the_history_is_explained():
    documents = {name_of(path): path.read_text(encoding="utf-8") for path in GUIDES} | help_texts()
    assert {name: found for name, text in documents.items() if (found := stray_names(name, text))} == {}


@pytest.mark.parametrize(
    "name", ["dev__filesystem__read_file", "dev__filesystem_read_file", "{toolbox}__{server}__{tool}"]
)
def test_a_joined_name_elsewhere_would_be_found(name: str):
    assert stray_names("README.md", f"# Use\n\nCall `{name}`.\n")
    assert not stray_names("README.md", f"# Dynamic mode\n\nCall `{name}`.\n")
    assert not stray_names("README.md", "# Code\n\n`__init__.py` has `__version__`.\n")
