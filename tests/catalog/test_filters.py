"""Which tools are offered."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.snapshot import ANNOTATIONS, ToolFilter
from mcp_workbench.config import keys


def tool(name: str, **annotations: Any) -> Definition:
    fields: dict[str, Any] = {"name": name, **({"annotations": annotations} if annotations else {})}
    return Definition(name, Raw(json.dumps(fields).encode()))


NAMES = ("read_file", "read_secret", "write_file", "Read_file", "a[b]", "!odd", "@readOnly")


@pytest.mark.parametrize(
    ("patterns", "allowed"),
    [
        ([], list(NAMES)),
        (["*"], list(NAMES)),
        (["read_file"], ["read_file"]),
        (["read_*"], ["read_file", "read_secret"]),
        (["?ead_file"], ["read_file", "Read_file"]),
        (["[rw]*_file"], ["read_file", "write_file"]),
        (["read_*", "!read_secret"], ["read_file"]),
        (["!read_secret", "read_*"], ["read_file"]),  # the order does not matter
        (["read_secret", "!read_*"], []),  # an exclusion wins
        (["!*_file"], ["read_secret", "a[b]", "!odd", "@readOnly"]),  # only exclusions: the rest is offered
        (["!*"], []),
        (["a[b]"], ["a[b]"]),  # an exact name is matched before it is read as a glob
        (["READ_FILE"], []),
        (["nothing"], []),
    ],
)
def test_names_and_globs_choose_and_exclusions_win(patterns: list[str], allowed: list[str]):
    chosen = ToolFilter(patterns)
    assert [name for name in NAMES if chosen.allows(tool(name))] == allowed


ANNOTATED = {
    "silent": tool("silent"),
    "reads": tool("reads", readOnlyHint=True),
    "reads_and_lies": tool("reads_and_lies", readOnlyHint=True, destructiveHint=True),
    "adds": tool("adds", readOnlyHint=False, destructiveHint=False),
    "repeats": tool("repeats", idempotentHint=True),
    "closed": tool("closed", openWorldHint=False),
    "not_a_bool": tool("not_a_bool", readOnlyHint="true", destructiveHint=0, idempotentHint=1, openWorldHint=None),
}


@pytest.mark.parametrize(
    ("pattern", "allowed"),
    [
        ("@readOnly", {"reads", "reads_and_lies"}),
        ("@destructive", {"silent", "repeats", "closed", "not_a_bool"}),
        ("@idempotent", {"reads", "reads_and_lies", "repeats"}),
        ("@openWorld", {"silent", "reads", "reads_and_lies", "adds", "repeats", "not_a_bool"}),
    ],
)
def test_annotations_mean_what_the_protocol_says_where_they_are_absent(pattern: str, allowed: set[str]):
    assert {name for name, one in ANNOTATED.items() if ToolFilter([pattern]).allows(one)} == allowed
    assert {name for name, one in ANNOTATED.items() if ToolFilter([f"!{pattern}"]).allows(one)} == set(
        ANNOTATED
    ) - allowed


def test_a_name_and_an_annotation_choose_together():
    chosen = ToolFilter(["@readOnly", "adds", "!reads_*"])
    assert {name for name, one in ANNOTATED.items() if chosen.allows(one)} == {"reads", "adds"}


def test_filters_that_match_nothing_are_told_with_their_mark():
    chosen = ToolFilter(["read_*", "writ_*", "!nothing", "@idempotent", "*"])
    assert chosen.unmatched([tool("read_file"), tool("write_file")]) == ["writ_*", "!nothing", "@idempotent"]
    assert ToolFilter(["*"]).unmatched([]) == ["*"]


def test_the_configuration_knows_the_annotations_that_a_filter_knows():
    assert tuple(ANNOTATIONS) == keys.ANNOTATIONS
