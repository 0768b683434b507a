"""Every command has a page of the same skeleton: how it is called, its options, its exit statuses, and its JSON."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.cli.commands import COMMANDS, Command
from tests.docs.markdown import ROOT, blocks, code_words, rows, sections
from tests.hosts.samples import CURSOR
from tests.support.configs import write_config
from tests.support.users import User, made_user

PAGES = ROOT / "docs" / "commands"
GIVEN = {"dev", "main", "calendar", "lost", "far", "cursor", *CURSOR.servers, *re.findall(r"[A-Z_]{4,}", CURSOR.text)}
"""What toolboxes, servers and variables are called."""
EACH = pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def heading(text: str, name: str) -> str:
    [section] = [one for one in sections(text) if one.headings[1:] == (name,)]
    return section.text


def test_there_is_a_page_for_every_command_and_no_other():
    assert {path.stem for path in PAGES.iterdir()} == {command.name for command in COMMANDS}


@EACH
def test_a_page_begins_with_how_the_command_is_called(command: Command):
    text = page(command.name)
    assert text.startswith(f"# mcp-workbench {command.name}\n\n```text\nmcp-workbench {command.name}")
    usage = blocks(text)[0].text
    assert set(re.findall(r"--[a-z-]+", usage)) == {option.name for option in command.options}
    for argument in command.arguments:
        assert argument.metavar.strip("[]") in usage


@EACH
def test_a_page_has_a_row_for_every_option_and_for_no_other(command: Command):
    words = [
        word.split()[0] for row in rows(page(command.name)) for word in code_words(row[0]) if word.startswith("--")
    ]
    assert sorted(words) == sorted(option.name for option in command.options)


@EACH
def test_a_page_has_the_exit_statuses(command: Command):
    shown = [int(number) for row in rows(heading(page(command.name), "Exit statuses")) for number in row[0].split(", ")]
    assert shown[0] == 0
    assert shown == sorted(set(shown))


def test_the_table_of_all_commands_names_those_that_can_fail():
    every = heading((ROOT / "docs" / "command.md").read_text(encoding="utf-8"), "Exit statuses")
    [failing] = [set(code_words(row[1])) for row in rows(every) if row[0] == "1"]
    assert failing == {
        command.name
        for command in COMMANDS
        if any(row[0] == "1" for row in rows(heading(page(command.name), "Exit statuses")))
    }


@EACH
def test_a_page_explains_the_json_of_a_command_that_has_it(command: Command):
    has_json = any(option.name == "--json" for option in command.options)
    titles = [section.headings[-1] for section in sections(page(command.name)) if section.headings]
    assert ("JSON" in titles) == has_json
    if has_json:
        assert heading(page(command.name), "JSON").strip()


# -- what is printed has no name that its page does not have


def names(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from names(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from names(item)


def unexplained(command: str, document: Any) -> set[str]:
    """The names that its page does not have, but for those that are what somebody called a thing."""
    known = set(re.findall(r'"(\w+)"|`(\w+)`', heading(page(command), "JSON")))
    return set(names(document)) - {one for pair in known for one in pair} - GIVEN


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    monkeypatch.setenv("WORKBENCH_CATALOG", str(tmp_path / "catalog.sqlite"))
    monkeypatch.setenv("WORKBENCH_RECORD", str(tmp_path / "record.sqlite"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("mcp_workbench.cli.tokens.tokenizer", lambda: ("estimated from bytes", len))
    return made_user(tmp_path, monkeypatch, capsys)


def entry(**more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", "mcp_workbench.demo.servers.calendar"], **more}


def test_what_is_told_of_servers_and_tools_is_explained(user: User):
    servers = {
        "calendar": entry(toolFilters=["nothing", "now"]),
        "lost": {"command": "no-such-command"},
        "far": entry(env={"A": "${NOT_SET_A}"}),
    }
    file = str(write_config(user.project, {"dev": servers}))
    runs = [
        ("check", {}),
        ("refresh", {}),
        ("listing", {"toolbox": "dev"}),
        ("doctor", {}),
        ("tokens", {}),
        ("status", {}),
    ]
    for module, options in runs:
        done = user.run(module, config=file, json="true", **options)
        assert done.out, done.err
        told = done.document
        assert unexplained("list" if module == "listing" else module, told) == set(), module
    told = user.run("search", "date", config=file, json="true").document
    assert told["tools"]
    assert unexplained("search", told) == set()


def test_what_is_told_of_files_is_explained(user: User):
    user.has(CURSOR)
    runs = [
        ("import_", {}),
        ("install", {"host": "cursor", "remove_imported": "true"}),
        ("uninstall", {"host": "cursor"}),
        ("install", {"all": "true"}),
        ("uninstall", {"all": "true"}),
        ("move", {"server": "linear", "to": "dev"}),
        ("describe", {"toolbox": "dev", "text": "d"}),
        ("remove", {"toolbox": "dev"}),
        ("trust", {"list": "true"}),
    ]
    for module, options in runs:
        told = user.run(module, json="true", **options).document
        assert told["ok"] is True, told
        assert unexplained(module.rstrip("_"), told) == set(), module
    told = user.run("add", "true", toolbox="dev", server="one", description="d", json="true").document
    assert unexplained("add", told) == set()


def test_a_name_that_a_page_does_not_have_would_be_found():
    assert unexplained("search", {"ok": True, "tools": [{"toolbox": "dev", "colour": 1}]}) == {"colour"}
    assert unexplained("check", {"toolboxes": {"dev": {"servers": {"calendar": {"transport": "", "x": 1}}}}}) == {"x"}
