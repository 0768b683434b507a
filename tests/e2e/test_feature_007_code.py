"""Structured names in the code: one type for a tool's identity, and nothing that takes a joined name apart."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.types import Tool
from pydantic import TypeAdapter, ValidationError

import mcp_workbench
from mcp_workbench import ToolIdentifier, ToolInfo
from mcp_workbench.errors import InvalidToolIdentifier
from tests.support.configs import rogue
from tests.support.documents import ROOT
from tests.support.library import workbench

SRC = ROOT / "src" / "mcp_workbench"
GOOD = {"toolbox": "dev", "server": "filesystem", "tool": "read_file"}
BAD_PARTS = [
    (None, "must be a string"),
    (5, "must be a string"),
    (["a"], "must be a string"),
    ("", "cannot be empty"),
]

REQUIRED = {"toolbox_name", "source_server", "name", "inputSchema"}

SEPARATOR_TAKERS = {"split", "rsplit", "partition", "rpartition", "find", "rfind", "index", "rindex"} | {
    "removeprefix",
    "removesuffix",
}
REGEX_TAKERS = {"compile", "match", "fullmatch", "search", "split", "findall", "finditer", "sub"}


def trees() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(SRC.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def is_separator(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value in ("__", b"__")
    return (isinstance(node, ast.Name) and node.id == "SEPARATOR") or (
        isinstance(node, ast.Attribute) and node.attr == "SEPARATOR"
    )


def takes_apart(call: ast.Call) -> bool:
    """Whether a call looks for the separator, or extracts with a pattern that holds it."""
    function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if function in SEPARATOR_TAKERS and any(is_separator(argument) for argument in call.args):
        return True
    if function not in REGEX_TAKERS:
        return False
    texts = [node for argument in call.args for node in ast.walk(argument)]
    groups = any(
        isinstance(node, ast.Constant) and re.search(r"(?<!\\)\((?!\?[:!=<])", str(node.value)) for node in texts
    )
    holds = any(
        is_separator(node) or (isinstance(node, ast.Constant) and "__" in str(node.value))
        for node in texts
        if isinstance(node, ast.expr)
    )
    return groups and holds


@pytest.mark.requirement("007-SC-005", "007-FR-005", "002-SC-004", "002-US3-AS2")
def test_no_code_takes_a_joined_name_apart():
    found = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and takes_apart(node)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "guilty"),
    [
        ('name.split("__", 2)', True),
        ("name.partition(SEPARATOR)", True),
        ("name.find(identity.SEPARATOR)", True),
        ('re.match(r"(.+)__(.+)", name)', True),
        ('re.compile(f"(.+){SEPARATOR}(.+)")', True),
        ('re.compile(r".+__.+__.+")', False),
        ('SEPARATOR.join(["a", "b"])', False),
        ('name.split("/")', False),
    ],
)
@pytest.mark.requirement("007-SC-005")
def test_the_search_for_parsing_finds_what_it_should(code: str, guilty: bool):  # noqa: FBT001 -- a table
    assert takes_apart(ast.parse(code, mode="eval").body) is guilty


SLASHED_BY_CONTRACT = {
    "catalog/rendering/render.py",  # `[toolbox/server] ` in front of a description, in dynamic mode
    "surfaces/resource_uris.py",  # the parts of a URI are percent-encoded
}


def joins_with_a_slash(node: ast.AST) -> bool:
    """Whether a toolbox and what is in it become one text with nothing but a slash between them."""
    if isinstance(node, ast.JoinedStr):
        triples = zip(node.values, node.values[1:], node.values[2:], strict=False)
        return any(
            isinstance(slash, ast.Constant) and slash.value == "/" and "toolbox" in ast.unparse(before)
            for before, slash, _ in triples
        )
    is_join = isinstance(node, ast.Call) and ast.unparse(node.func) == "'/'.join"
    return is_join and re.search(r"toolbox|\.parts\(\)", ast.unparse(node)) is not None


@pytest.mark.requirement("007-FR-003", "007-FR-006")
def test_no_code_joins_names_with_a_bare_slash():
    """`sanitize.slashed` does it for people, logs have a field for each: toolbox a, server b/c is not a/b, c."""
    found = {str(path.relative_to(SRC)) for path, tree in trees() if any(map(joins_with_a_slash, ast.walk(tree)))}
    assert found == SLASHED_BY_CONTRACT


def signatures() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(SRC)}:{node.lineno} {node.name}", node


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, str]:
    spec = function.args
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    return {arg.arg: ast.unparse(arg.annotation).strip("\"'") if arg.annotation else "" for arg in every}


@pytest.mark.requirement("007-FR-003", "007-FR-007", "007-SC-006", "007-A-003")
def test_no_signature_takes_a_tools_identity_as_loose_strings():
    for place, function in signatures():
        taken = parameters(function)
        assert not set(taken) >= {"toolbox", "server", "tool"}, place
        for name in {"identifier", "tool_identifier", "tool", "tool_name"} & set(taken):
            assert not re.match(r"(str|tuple\[str)", taken[name]), f"{place}: {name}: {taken[name]}"


@pytest.mark.requirement("007-FR-003", "007-FR-007", "007-SC-006")
def test_an_identifier_is_frozen_hashable_and_compared_by_its_parts():
    one, same, other = ToolIdentifier("a", "b", "c"), ToolIdentifier("a", "b", "c"), ToolIdentifier("a", "b", "C")
    assert one == same
    assert {one, same, other} == {one, other}
    with pytest.raises(AttributeError):
        one.tool = "x"  # type: ignore[misc]


@pytest.mark.requirement("007-FR-004", "007-EC-2")
@pytest.mark.parametrize("part", GOOD)
@pytest.mark.parametrize(("bad", "problem"), BAD_PARTS)
def test_an_identifier_refuses_a_bad_part_with_the_text_of_the_wire(part: str, bad: Any, problem: str):
    with pytest.raises(InvalidToolIdentifier) as caught:
        ToolIdentifier(**(GOOD | {part: bad}))
    assert str(caught.value) == f"Invalid tool identifier: {part} {problem}"


@pytest.mark.requirement("007-FR-007", "007-SC-006")
def test_the_structured_types_are_exported_for_client_code():
    for name in ("ToolIdentifier", "ToolInfo", "Workbench", "load_config"):
        assert hasattr(mcp_workbench, name)
    info: ToolInfo = {"toolbox_name": "dev", "source_server": "fs", "name": "x", "inputSchema": {}}
    assert ToolIdentifier.of(info).params() == {"toolbox": "dev", "server": "fs", "tool": "x"}


@pytest.mark.requirement("007-FR-007")
def test_an_entry_requires_what_an_mcp_tool_does_and_where_it_is_from():
    assert ToolInfo.__required_keys__ == REQUIRED
    of_a_tool = {field.alias or name for name, field in Tool.model_fields.items()}
    assert ToolInfo.__required_keys__ | ToolInfo.__optional_keys__ >= of_a_tool
    assert {field.alias or name for name, field in Tool.model_fields.items() if field.is_required()} <= REQUIRED


@pytest.mark.requirement("007-FR-002", "007-FR-007")
async def test_pydantic_reads_the_entries_of_an_open_toolbox(tmp_path: Path):
    async with workbench(tmp_path, {"dev": {"fs": rogue("unknown_fields")}}) as bench:
        tools = (await bench.open("dev")).tools
    adapter = TypeAdapter(ToolInfo)
    known = REQUIRED | ToolInfo.__optional_keys__
    assert adapter.validate_python(tools[0]) == {name: value for name, value in tools[0].items() if name in known}
    for key in ToolInfo.__required_keys__:
        with pytest.raises(ValidationError, match=key):
            adapter.validate_python({name: value for name, value in tools[0].items() if name != key})
