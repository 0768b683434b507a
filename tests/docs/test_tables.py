"""Links lead somewhere, and what the documents list is what there is: limits, commands, options, functions, files."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

import pytest

from mcp_workbench import Limits
from mcp_workbench.cli.commands import COMMANDS, Command
from mcp_workbench.config import keys, locate
from mcp_workbench.identity import ToolIdentifier, joined_name
from mcp_workbench.routing import list_cache
from mcp_workbench.servers import supervisor
from tests.docs.markdown import EVERY, ROOT, anchors, code_words, links, rows, sections

DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "mcp_workbench"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_a_heading(path: Path):
    for link in links(read(path)):
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), link
        assert not anchor or anchor in anchors(read(file)), link


def test_the_map_of_the_documents_names_each():
    index = {link.partition("#")[0] for link in links(read(DOCS / "index.md"))}
    assert {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")} - {"index.md"} <= index


def documented_limits() -> dict[str, float]:
    return {code_words(row[0])[0]: float(row[1]) for row in rows(read(DOCS / "limits.md"))}


def constants() -> dict[str, list[float]]:
    """The numbers that modules name in capitals."""
    found: dict[str, list[float]] = {}
    for path in SOURCE.rglob("*.py"):
        for name, value in re.findall(r"^([A-Z][A-Z_]+) = ([\d_.][\d_. *]*)$", read(path), re.MULTILINE):
            found.setdefault(name, []).append(float(eval(value)))  # noqa: S307 -- digits and products of them
    return found


def test_every_limit_is_documented_with_its_default():
    shown = {name: value for name, value in documented_limits().items() if name.islower()}
    assert shown == {name: float(getattr(Limits(), name)) for name in Limits.__struct_fields__}


def test_every_constant_that_is_documented_has_its_value():
    shown = {name: [value] for name, value in documented_limits().items() if name.isupper()}
    assert len(shown) >= 100
    known = constants()
    assert shown == {name: known.get(name) for name in shown}


def test_the_limits_are_few_and_each_is_read_from_those_that_are_passed():
    """A module that reads the defaults would keep a bound that nobody can change. Only commands and the demo do."""
    assert len(Limits.__struct_fields__) <= 120
    texts = {path: read(path) for path in SOURCE.rglob("*.py")}
    reading = set(re.findall(r"limits\.(\w+)", "\n".join(texts.values())))
    assert set(Limits.__struct_fields__) <= reading
    defaults = {path.name for path, text in texts.items() if re.search(r"DEFAULTS\.[a-z_]+\b(?!\()", text)}
    assert defaults <= {path.name for room in ("cli", "demo") for path in (SOURCE / room).iterdir()}


def test_every_limit_of_the_configuration_file_is_documented():
    numbers = [key.name for key in (*keys.ROOT, *keys.TOOLBOX, *keys.SERVER) if key.kind == "number"]
    assert numbers
    for name in numbers:
        assert f"`{name}`" in read(DOCS / "limits.md")
        assert f"`{name}`" in read(DOCS / "configuration.md")


def test_every_command_and_variable_is_documented():
    shown = {word.split()[0] for row in rows(read(DOCS / "command.md")) for word in code_words(row[0])}
    assert {name for name in shown if not name.startswith("--")} == {
        *(command.name for command in COMMANDS),
        locate.VARIABLE,
        "WORKBENCH_LOG",
        "WORKBENCH_TOKEN",
        "WORKBENCH_CATALOG",
        "WORKBENCH_CREDENTIALS",
        "WORKBENCH_RECORD",
    }


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_option_of_a_command_is_documented(command: Command):
    """In the table of all, or on its page."""
    text = read(DOCS / "command.md") + read(DOCS / "commands" / f"{command.name}.md")
    shown = {word.split()[0] for row in rows(text) for word in code_words(row[0])}
    assert {option.name for option in command.options} <= shown


def named_functions() -> list[tuple[str, str]]:
    """The file and the function of every row of "Off the path"; `test_journeys.py` has those of the journeys."""
    [section] = [one for one in sections(read(DOCS / "architecture.md")) if one.headings[-1:] == ("Off the path",)]
    return [(code_words(row[1])[0], name) for row in rows(section.text) for name in code_words(row[2])]


def definitions(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(read(path)).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {f"{node.name}.{one.name}" for one in inner}
    return found


@pytest.mark.parametrize(("file", "name"), named_functions())
def test_the_architecture_names_functions_that_exist(file: str, name: str):
    assert name in definitions(SOURCE / file)


def names_in_code() -> set[str]:
    """Classes, functions, and `Class.member` for each member that a class defines or assigns."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(read(path))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{one}" for one in members(node)}
    return found


def members(node: ast.ClassDef) -> set[str]:
    inside = list(ast.walk(node))
    fields = {one.target.id for one in inside if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}
    on_self = {one.attr for one in inside if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store)}
    return fields | on_self | {one.name for one in inside if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_the_architecture_names_classes_and_members_that_exist():
    named = set(re.findall(r"`([A-Z]\w*[a-z]\w*(?:\.\w+)?)`", read(DOCS / "architecture.md")))
    assert named - names_in_code() == {"Raw", "TypedDict"}  # of msgspec and typing


@pytest.mark.parametrize(
    ("heading", "states"), [("Servers that fail", supervisor.State), ("One owner for each list", list_cache.State)]
)
def test_the_states_in_the_architecture_are_those_of_the_code(heading: str, states: object):
    [section] = [one for one in sections(read(DOCS / "architecture.md")) if one.headings[-1:] == (heading,)]
    assert [row[0] for row in rows(section.text)] == list(get_args(states))


def test_the_joined_names_in_the_documents_are_those_that_the_code_makes():
    [section] = [
        one
        for one in sections(read(DOCS / "architecture.md"))
        if one.headings[-1:] == ("Joined names in dynamic mode",)
    ]
    shown = [(code_words(row[0]), code_words(row[1])[0]) for row in rows(section.text)]
    assert len(shown) >= 5
    for parts, name in shown:
        assert joined_name(ToolIdentifier(*parts)) == name


EXTRAS = {"tokens"}


def test_every_dependency_has_its_reason():
    declared = re.search(r"^dependencies = \[(.*?)\]", read(ROOT / "pyproject.toml"), re.DOTALL | re.MULTILINE)
    assert declared
    names = set(re.findall(r'"([a-z0-9-]+)', declared[1]))
    extras = re.findall(r"^tokens = \[(.*?)\]", read(ROOT / "pyproject.toml"), re.DOTALL | re.MULTILINE)
    names |= {name for extra in extras for name in re.findall(r'"([a-z0-9-]+)', extra)}
    [section] = [one for one in sections(read(DOCS / "architecture.md")) if one.headings[-1:] == ("Dependencies",)]
    assert {word for row in rows(section.text) for word in code_words(row[0]) if word not in EXTRAS} == names


def test_every_command_of_make_that_is_shown_exists():
    targets = set(re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), re.MULTILINE))
    used = {target for path in EVERY for target in re.findall(r"(?:^|`)make ([a-z]+)", read(path), re.MULTILINE)}
    assert used <= targets
    assert {"demo", "test", "check", "bench"} <= used
