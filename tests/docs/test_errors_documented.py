"""docs/errors.md has a row for every code that there is, and for no other."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

from mcp_workbench import command_errors, errors
from mcp_workbench.cli import terminal
from mcp_workbench.wire import jsonrpc
from tests.docs.markdown import ROOT, code_words, rows, sections

TEXT = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
WITH_CODES = {
    "The call is wrong",
    "A server could not be used",
    "What happened on the connection",
    "The configuration is wrong",
    "Reserved codes",
}


def classes() -> list[type[errors.WorkbenchError]]:
    found = {value for module in (errors, command_errors) for value in vars(module).values() if isinstance(value, type)}
    return [value for value in found if issubclass(value, errors.WorkbenchError)]


def documented() -> list[str]:
    return [
        code_words(row[0])[0]
        for section in sections(TEXT)
        if section.headings[-1:] and section.headings[-1] in WITH_CODES
        for row in rows(section.text)
    ]


def table(heading: str) -> Iterator[list[str]]:
    for section in sections(TEXT):
        if section.headings[-1:] == (heading,):
            yield from rows(section.text)


def test_every_code_has_exactly_one_row_and_no_row_is_unknown():
    assert sorted(documented()) == sorted({one.code for one in classes()})


def test_every_class_has_a_code_of_its_own():
    codes = [one.code for one in classes()]
    assert sorted(codes) == sorted(set(codes))


def test_every_row_of_a_code_says_when_with_an_example_and_what_to_do():
    for heading in WITH_CODES - {"Reserved codes"}:
        for row in table(heading):
            code, when, example, advice = row
            assert when, code
            assert code_words(example), code
            assert advice, code


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidToolIdentifier("server is missing"), "invalid_tool_identifier"),
        (errors.InvalidParameters("Unrecognized key 'argument'"), "invalid_parameters"),
        (errors.ToolboxNotFound("de"), "toolbox_not_found"),
        (errors.ServerNotFound("dev", "filesytem"), "server_not_found"),
        (
            errors.ConnectFailed("dev", "filesystem", errors.SpawnFailed("command 'npxx' was not found (ENOENT)")),
            "connect_failed",
        ),
        (errors.ToolboxFailed("dev", []), "toolbox_failed"),
    ],
)
def test_the_example_of_a_code_is_the_text_that_its_class_makes(error: errors.WorkbenchError, code: str):
    [row] = [row for heading in WITH_CODES for row in table(heading) if code_words(row[0]) == [code]]
    assert str(error) in code_words(row[2])


def test_every_json_rpc_code_that_is_sent_has_a_row():
    named = {value for name, value in vars(jsonrpc).items() if name.isupper() and isinstance(value, int) and value < 0}
    shown = {int(row[0]) for row in table("Errors of the protocol")}
    assert shown == named
    assert -32022 in shown


def test_the_exit_statuses_are_those_of_the_code():
    shown = {int(number) for row in table("Exit statuses") for number in re.findall(r"\d+", row[0])}
    constants = {
        node.value.value
        for node in ast.parse(inspect.getsource(terminal)).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    assert shown == {0, *constants, 128 + 1, 128 + 2, 128 + 15}
