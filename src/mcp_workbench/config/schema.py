"""The JSON Schema of the configuration file, for editors.

It is built from `keys.py`, so it lists what the reader accepts. Only the reader checks names, filters and variables.
`python -m mcp_workbench.config.schema` prints the content of workbench-config.schema.json.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import msgspec

from mcp_workbench.config.keys import HOST_KEYS, ROOT, SERVER, TOOLBOX, URL_KEYS, Key

if TYPE_CHECKING:
    from collections.abc import Iterable

Schema = dict[str, Any]

_STRING: Schema = {"type": "string"}
_NON_EMPTY: Schema = {"type": "string", "pattern": "\\S"}
_TYPES: dict[str, Schema] = {
    "text": _NON_EMPTY,
    "boolean": {"type": "boolean"},
    "number": {"type": "number"},
    "whole": {"type": "integer"},
    "strings": {"type": "array", "items": _STRING},
    "names": {"type": "array", "items": _NON_EMPTY},
    "map": {"type": "object", "additionalProperties": _STRING},
    "any": {},
}
_COMMENTS: Schema = {"^_": {"description": "A comment: a key that starts with _ has no effect."}}
_ENTRIES = {"toolboxes": "toolbox", "mcpServers": "server"}


def json_schema() -> Schema:
    """The schema, for JSON Schema 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "MCP Workbench configuration",
        "description": "Toolboxes of MCP servers, or the mcpServers of an MCP host as they are.",
        "type": "object",
        "properties": _properties(ROOT),
        "patternProperties": _COMMENTS,
        "oneOf": [{"required": ["toolboxes"]}, {"required": ["mcpServers"]}],
        # A host keeps other settings next to mcpServers; a file with toolboxes has only our keys.
        "if": {"required": ["toolboxes"]},
        "then": {"propertyNames": {"anyOf": [{"enum": [key.name for key in ROOT]}, {"pattern": "^_"}]}},
        "$defs": {"toolbox": _toolbox(), "server": _server()},
    }


def rendered() -> str:
    """The text of the committed file."""
    return msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n"


def _toolbox() -> Schema:
    return {
        "type": "object",
        "properties": _properties(TOOLBOX),
        "patternProperties": _COMMENTS,
        "required": [key.name for key in TOOLBOX if key.required],
        "additionalProperties": False,
    }


def _server() -> Schema:
    host_keys = {name: {"description": f"A key of some hosts: {advice}."} for name, advice in sorted(HOST_KEYS.items())}
    return {
        "type": "object",
        "properties": {**_properties(SERVER), **host_keys},
        "patternProperties": _COMMENTS,
        "oneOf": [{"required": [name]} for name in ("command", *URL_KEYS)],
        "additionalProperties": False,
    }


def _properties(keys: Iterable[Key]) -> Schema:
    return {key.name: _property(key) for key in keys}


def _property(key: Key) -> Schema:
    description = key.about + (" ${VAR} and ${VAR:-default} are replaced." if key.expands else "")
    schema: Schema = {"description": description, **_type(key)}
    if key.choices:
        schema = {"description": description, "enum": list(key.choices)}
    if key.above is not None:
        schema["exclusiveMinimum"] = key.above
    if key.at_least is not None:
        schema["minimum"] = key.at_least
    if key.at_most is not None:
        schema["maximum"] = key.at_most
    if key.filled:
        schema["minProperties" if key.kind == "object" else "minItems"] = 1
    return schema


def _type(key: Key) -> Schema:
    if key.kind == "section":
        foreign: Schema = {name: {"description": "A key of some hosts: has no effect here."} for name in key.foreign}
        return {
            "type": "object",
            "properties": {**_properties(key.inside), **foreign},
            "patternProperties": _COMMENTS,
            "additionalProperties": False,
        }
    if key.name not in _ENTRIES:
        return _TYPES[key.kind]
    entry = {"$ref": f"#/$defs/{_ENTRIES[key.name]}"}
    return {"type": "object", "additionalProperties": entry}


if __name__ == "__main__":
    sys.stdout.write(rendered())
