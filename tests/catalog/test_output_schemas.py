"""Which output schemas handshake clients can compile, as Ajv itself says."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.output_schemas import OUTPUT_SCHEMA_NODES, is_compilable, is_pattern
from mcp_workbench.limits import DEFAULTS
from tests.support.definitions import paths, replaced
from tests.support.reference import CLIENTS, client_driver, node_program

Json = dict[str, Any]

WHOLE: Json = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Whole",
    "properties": {
        "a": {"$ref": "#/$defs/d"},
        "b": {"type": "string", "pattern": r"^[\w.-]{1,8}$", "format": "date", "minLength": 1},
        "c": {"type": ["array", "null"], "items": {"$ref": "#"}, "minItems": 1, "uniqueItems": True},
        "d": {"enum": [1], "nullable": True, "type": "integer", "minimum": 1},
        "e": {"anyOf": [{"const": 1}, {"not": {}}], "if": {}, "then": True},
    },
    "patternProperties": {"^x": {"type": "string"}},
    "additionalProperties": {"type": "number"},
    "dependencies": {"a": ["b"]},
    "required": ["a"],
    "$defs": {"d": {"type": "string"}},
}
ODD: tuple[Any, ...] = (
    None, True, 5, "", "x", "#", "#/$defs/none", "#/$defs/d", "#/properties/a", "https://x/y", "any", "string", [], {},
    [None], [5], ["a"], ["any"], [{}], {"a": 5}, {"type": "any"}, {"$ref": "#/none"}, {"id": "x"}, {"nullable": True},
    {"required": True}, {"[": {"type": "string"}}, {"$anchor": "#"}, {"pattern": "("},
    {"$id": "x"}, {"anyOf": [{"$id": "y"}, {"$id": "y", "type": "null"}]},
    {"anyOf": [{"$anchor": "z"}, {"$anchor": "z"}]}, {"anyOf": [{"$anchor": "z"}, {"$dynamicAnchor": "z"}]},
)  # fmt: skip
PATTERNS = (
    "^a$", r"[\w-.]+", r"[\w.-]+", r"\d{3}-\d{4}", "(?P<x>a)", "(?<x>a)", r"\Z", "a{", "}", "]", "[a-z", "(a", "a**",
    "a*+", r"\-", r"[\-a]", r"\_", "(?i)a", r"\p{L}+", r"^[^\s@]+@[^\s@]+$", r"\u{1F600}", "(?=a)*", "{1}", "a{2,1}",
    "[z-a]", r"\1", r"\k<x>", r"\/", "a|*", r"[a-\d]", r"[\d-\w]", r"[-\w]", r"\8", "x{1,2}{3}", "(?<!a)b", r"\xZ",
    r"\b+", "(?#x)", "(?>a)", r"[^\]]", r"\,", "^#[0-9a-fA-F]{6}$", r"\$\{x\}", "a??", "é+", "[A-Za-z0-9_-]{1,64}",
)  # fmt: skip


def schemas() -> list[Json]:
    places = [path for path in paths(WHOLE) if path != ("type",)]
    spoiled = [replaced(WHOLE, path, new) for path in places for new in ODD]
    patterned = [{"type": "object", "properties": {"a": {"pattern": pattern}}} for pattern in PATTERNS]
    return [WHOLE, *patterned, *spoiled]


@pytest.mark.downloads
def test_what_counts_as_compilable_is_compiled_by_the_validator_of_the_typescript_client(tmp_path: Path):
    client_driver("ts1")  # skips the test if the client is not installed
    file = tmp_path / "schemas.json"
    file.write_text(json.dumps(schemas()), encoding="utf-8")
    command = [node_program(), str(CLIENTS / "compile.mjs"), str(file)]
    compiled = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    ours = [is_compilable(Raw(json.dumps(schema).encode())) for schema in schemas()]
    wrong = [
        (schema, says) for schema, is_good, says in zip(schemas(), ours, compiled, strict=True) if is_good and says
    ]
    assert not wrong, wrong[:3]
    assert sum(ours) > len(ours) // 6


def test_a_schema_that_uses_every_keyword_rightly_is_compilable():
    assert is_compilable(Raw(json.dumps(WHOLE).encode()))


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "^a$",
        r"^[\w.+-]+@[\w-]+\.[a-z]{2,}$",
        r"^\d{4}-\d{2}-\d{2}$",
        "^(?:a|b)*?$",
        r"[^\s/]+",
        "(?<year>[0-9]+)",
        "^(?!x).+$",
    ],
)
def test_usual_patterns_are_good(pattern: str):
    assert is_pattern(pattern)


SIZE = DEFAULTS.schema_bytes
CHAIN: Json = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(SIZE // 35)}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"pattern": "[" * SIZE}}},
        {"properties": {"a": {"pattern": "(?=)" * (SIZE // 4)}}},
        {"patternProperties": {"(?=[" * 250 + str(number): {} for number in range(SIZE // 1010)}},
        {"$defs": {**CHAIN, f"d{len(CHAIN)}": {}}},
    ],
    ids=["brackets", "looks", "many patterns", "chain"],
)
def test_the_largest_schema_is_judged_in_a_moment(schema: Json):
    raw = Raw(json.dumps(schema).encode())
    began = time.thread_time()
    is_compilable(raw)
    assert time.thread_time() - began < 0.2


def test_a_long_chain_of_references_leads_somewhere():
    chain = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(1900)}
    assert is_compilable(Raw(json.dumps({"$defs": {**chain, "d1900": {}}}).encode()))
    assert not is_compilable(Raw(json.dumps({"$defs": {**chain, "d1900": {"$ref": "#/$defs/d7"}}}).encode()))
    assert not is_compilable(Raw(json.dumps({"$defs": chain}).encode()))


def test_a_schema_of_too_many_parts_is_checked_by_its_types_alone():
    many = {f"p{number}": {"type": "string"} for number in range(OUTPUT_SCHEMA_NODES)}
    assert is_compilable(Raw(json.dumps({"properties": many}).encode()))
    assert not is_compilable(Raw(json.dumps({"properties": {**many, "a": {"$ref": "#"}}}).encode()))


@pytest.mark.parametrize(("index", "is_good"), [("0", True), ("1", False), ("9" * 5000, False), ("\u0660", False)])
def test_a_reference_into_a_list_has_an_index_of_it(index: str, is_good: bool):  # noqa: FBT001 -- a parameter
    schema = {"anyOf": [{}], "properties": {"a": {"$ref": f"#/anyOf/{index}"}}}
    assert is_compilable(Raw(json.dumps(schema).encode())) is is_good
