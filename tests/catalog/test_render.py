"""How a definition is shown: as an entry of an open toolbox, and as a native tool."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering.render import entry, native
from mcp_workbench.identity import ToolIdentifier

TOOL = ToolIdentifier("dev", "fs", "read_file")


def definition(**fields: Any) -> Definition:
    return Definition("read_file", Raw(json.dumps({"name": "read_file", **fields}).encode()))


# -- entries


def test_an_entry_keeps_unknown_fields_and_digits_and_says_where_it_is_from():
    raw = Raw(b'{"name":"read_file","x-vendor":{"n":[1.00,1e400]},"inputSchema":{"type":"object"},"_meta":{"a":null}}')
    assert bytes(entry(TOOL, Definition("read_file", raw))) == (
        b'{"toolbox_name":"dev","source_server":"fs","name":"read_file",'
        b'"x-vendor":{"n":[1.00,1e400]},"inputSchema":{"type":"object"},"_meta":{"a":null}}'
    )


def test_ours_win_over_what_a_server_says_of_itself():
    shown = json.loads(bytes(entry(TOOL, definition(toolbox_name="liar", source_server=["liar"], name="read_file"))))
    assert (shown["toolbox_name"], shown["source_server"], shown["name"]) == ("dev", "fs", "read_file")
    assert bytes(entry(TOOL, definition(toolbox_name="liar"))).count(b"toolbox_name") == 1


def test_an_entry_leads_back_to_its_identifier():
    assert ToolIdentifier.of(json.loads(bytes(entry(TOOL, definition())))) == TOOL


# -- native tools


def shown(**fields: Any) -> dict[str, Any]:
    return json.loads(bytes(native(TOOL, definition(**fields))))


def test_a_native_tool_has_the_joined_name():
    assert shown()["name"] == "dev__fs__read_file"


@pytest.mark.parametrize(
    ("description", "expected"),
    [("Reads.", "[dev/fs] Reads."), ("", "[dev/fs]"), (None, "[dev/fs]"), (5, "[dev/fs]"), ("[x] y", "[dev/fs] [x] y")],
)
def test_the_description_is_marked_with_where_it_is_from(description: object, expected: str):
    assert shown(description=description)["description"] == expected


def test_a_tool_without_a_description_gets_the_mark():
    assert shown()["description"] == "[dev/fs]"


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"title": "Own", "annotations": {"title": "Annotated"}}, "Own"),
        ({"annotations": {"title": "Annotated"}}, "Annotated"),
        ({"title": "", "annotations": {"title": "Annotated"}}, "Annotated"),
        ({"title": None, "annotations": []}, "read_file"),
        ({"annotations": {"title": 5}}, "read_file"),
        ({}, "read_file"),
    ],
)
def test_the_title_is_the_servers_else_the_annotated_one_else_the_tools_own_name(fields: dict[str, Any], title: str):
    assert shown(**fields)["title"] == title


def test_ours_is_added_to_the_servers_own_meta_and_wins():
    ours = {"source_server": "fs", "toolbox_name": "dev", "original_name": "read_file"}
    assert shown()["_meta"] == ours
    assert shown(_meta=["no object"])["_meta"] == ours
    assert shown(_meta={"vendor/x": 1, "source_server": "liar"})["_meta"] == {"vendor/x": 1, **ours}


def test_everything_else_is_as_the_server_sent_it():
    raw = Raw(
        b'{"name":"read_file","inputSchema":{"maximum":1.00},"x-vendor":[1e400],"annotations":{"readOnlyHint":true}}'
    )
    text = bytes(native(TOOL, Definition("read_file", raw)))
    for part in (b'"inputSchema":{"maximum":1.00}', b'"x-vendor":[1e400]', b'"annotations":{"readOnlyHint":true}'):
        assert part in text
