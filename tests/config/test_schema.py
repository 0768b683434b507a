"""The JSON Schema, the documentation and the reader tell the same story."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from mcp_workbench.config.jsonc.parser import parse, plain
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.keys import ANNOTATIONS, HOST_KEYS, ROOT, SERVER, TOOLBOX, TRANSPORTS
from mcp_workbench.config.load import load_config
from mcp_workbench.config.schema import json_schema, rendered
from mcp_workbench.errors import ConfigError

REPOSITORY = Path(__file__).parents[2]
DOCUMENT = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```jsonc?\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
VALIDATOR = Draft202012Validator(json_schema())

LAUNCHED = {"command": "x"}
VALID = [
    {"mcpServers": {"a": LAUNCHED}},
    {"mcpServers": {"a": {"url": "https://a.example"}}, "theme": "dark"},
    {"mcpServers": {"a": {"httpUrl": "https://a.example", "type": "sse"}}},
    {"mcpServers": {"a": {**LAUNCHED, "args": ["", "-x"], "env": {"A": ""}, "toolFilters": ["!a"], "disabled": True}}},
    {"toolboxes": {"t": {"description": "d", "mcpServers": {"a": LAUNCHED}}}, "openTimeout": 0.5, "strict": True},
    {"_note": 1, "mcpServers": {"_a": {**LAUNCHED, "_note": {"_": []}, "env": {"_X": "y"}}}},
    {
        "_note": "n",
        "catalog": {"_note": None},
        "toolboxes": {
            "_t": {
                "_note": ["n"],
                "description": "d",
                "mcpServers": {"a": {"url": "https://a.example", "oauth": {"_note": "n"}, "headers": {"_x": "y"}}},
            }
        },
    },
]
INVALID = [
    {},
    [],
    {"mcpServers": {"a": LAUNCHED}, "toolboxes": {"t": {"description": "d", "mcpServers": {"a": LAUNCHED}}}},
    {"toolboxes": {"t": {"description": "d", "mcpServers": {"a": LAUNCHED}}}, "theme": "dark"},
    {"toolboxes": {"t": {"description": " ", "mcpServers": {"a": LAUNCHED}}}},
    {"toolboxes": {"t": {"mcpServers": {"a": LAUNCHED}}}},
    {"toolboxes": {"t": {"description": "d", "mcpServers": {}}}},
    {"toolboxes": {"t": {"description": "d", "mcpServers": {"a": LAUNCHED}, "extra": 1}}},
    {"mcpServers": {"a": {}}},
    {"mcpServers": {"a": {"command": "x", "url": "https://a.example"}}},
    {"mcpServers": {"a": {"command": "x", "arg": []}}},
    {"mcpServers": {"a": {"command": ""}}},
    {"mcpServers": {"a": {"command": "x", "args": [1]}}},
    {"mcpServers": {"a": {"command": "x", "env": {"A": 1}}}},
    {"mcpServers": {"a": {"command": "x", "type": "ws"}}},
    {"mcpServers": {"a": {"command": "x", "toolFilters": []}}},
    {"mcpServers": {"a": {"command": "x", "toolFilters": [""]}}},
    {"mcpServers": {"a": {"command": "x", "disabled": "no"}}},
    {"mcpServers": {"a": LAUNCHED}, "toolMode": "native"},
    {"mcpServers": {"a": LAUNCHED}, "openTimeout": 0},
    {"mcpServers": {"a": LAUNCHED}, "openTimeout": 601},
    {"mcpServers": {"a": LAUNCHED, "_note": "a map of names has no comments"}},
    {"toolboxes": {"_note": "neither has this one"}},
    {"mcpServers": {"a": {**LAUNCHED, "env": {"_X": 1}}}},
]


def load(tmp_path: Path, text: str):
    path = tmp_path / "workbench-config.json"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ={})


def test_the_schema_is_a_valid_schema():
    Draft202012Validator.check_schema(json_schema())


def test_the_committed_schema_is_current():
    committed = (REPOSITORY / "workbench-config.schema.json").read_text(encoding="utf-8")
    assert committed == rendered(), "run: python -m mcp_workbench.config.schema > workbench-config.schema.json"


@pytest.mark.parametrize("value", VALID)
def test_what_the_schema_accepts_the_reader_accepts(value, tmp_path):
    VALIDATOR.validate(value)
    load(tmp_path, json.dumps(value))


@pytest.mark.parametrize("value", INVALID)
def test_what_the_schema_refuses_the_reader_refuses(value, tmp_path):
    assert not VALIDATOR.is_valid(value)
    with pytest.raises(ConfigError):
        load(tmp_path, json.dumps(value))


def test_the_documentation_has_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_of_the_documentation_is_valid_and_loads(text, tmp_path):
    VALIDATOR.validate(plain(parse(SourceText(text))))
    assert list(load(tmp_path, text).servers())


@pytest.mark.parametrize("name", sorted({key.name for key in (*ROOT, *TOOLBOX, *SERVER)} | set(HOST_KEYS)))
def test_every_key_is_described_in_a_table_of_the_documentation(name):
    rows = [line for line in DOCUMENT.splitlines() if line.startswith("|")]
    assert any(f"`{name}`" in row.split(" | ")[0] for row in rows) or name in ("httpUrl", "serverUrl", "enabled")
    assert re.search(rf'[`"]{re.escape(name)}["`]', DOCUMENT)


@pytest.mark.parametrize("name", [*ANNOTATIONS, *TRANSPORTS])
def test_every_fixed_value_is_described_in_the_documentation(name):
    assert re.search(rf'[`"]{re.escape(name)}["`]', DOCUMENT)


def test_every_property_of_the_schema_has_a_description():
    schema = json_schema()
    for part in (schema, *schema["$defs"].values()):
        assert all(value["description"].strip() for value in part["properties"].values())
