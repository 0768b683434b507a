"""Tool definitions that are legal and costly to read, check, index or render; each has up to 256 KiB."""

from __future__ import annotations

import json

TYPE_CHECKING = False  # as in `rogue_stdio.py`
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Schema = dict[str, Any]

SIZE = 190_000
TEXT: Schema = {"type": "string"}


def _filled(make: Callable[[int], tuple[str, Any]], size: int = SIZE) -> dict[str, Any]:
    """As many members as fit."""
    members: dict[str, Any] = {}
    while size > 0:
        name, value = make(len(members))
        members[name] = value
        size -= len(json.dumps({name: value}, separators=(",", ":"))) - 1
    return members


def _references() -> Schema:
    """Thousands of references, each to a definition of its own."""
    half = SIZE // 2
    properties = _filled(lambda n: (f"p{n}", {"$ref": f"#/$defs/d{n}"}), half)
    return {"properties": properties, "$defs": {f"d{n}": TEXT for n in range(len(properties))}}


def _cycle() -> Schema:
    """Definitions that refer to each other, round and round."""

    def one(n: int) -> tuple[str, Schema]:
        return f"d{n}", {"properties": {"x": {"$ref": f"#/$defs/d{n + 1}"}, "y": {"$ref": f"#/$defs/d{n * 7 % 50}"}}}

    defs = _filled(one)
    return {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": {**defs, f"d{len(defs)}": {"$ref": "#/$defs/d0"}}}


def _nest(word: str) -> Schema:
    """Twenty-five levels, each with thirty alternatives."""
    schema: Schema = TEXT
    for _ in range(25):
        schema = {word: [schema, *({"type": "string", "maxLength": n} for n in range(30))]}
    return {"properties": {"a": schema}}


SCHEMAS: dict[str, Callable[[], Schema]] = {
    "references": _references,
    "cycle": _cycle,
    "all_of": lambda: _nest("allOf"),
    "any_of": lambda: _nest("anyOf"),
    "enum": lambda: {"properties": {"a": {"enum": list(_filled(lambda n: (str(n), n)))}}},
    "enums": lambda: {"properties": {f"p{n}": {"enum": [f"v{n}{m}" for m in range(90)]} for n in range(250)}},
    "properties": lambda: {"properties": _filled(lambda n: (f"p{n}", TEXT))},
    "descriptions": lambda: {"properties": _filled(lambda n: (f"p{n}", {**TEXT, "description": "d e\t" * 99}))},
    "required": lambda: {"required": list(_filled(lambda n: (f"r{n}", 1))), "properties": {"a": TEXT}},
    "default": lambda: {"properties": {"a": {"type": "array", "default": list(range(30_000))}}},
    "conditions": lambda: {"dependentSchemas": {f"p{n}": {"properties": {"q": TEXT}} for n in range(300)}},
    "patterns": lambda: {"patternProperties": _filled(lambda n: (f"^x{n}.*(a|b)+$", TEXT))},
}


def tools(kind: str, count: int) -> list[Schema]:
    """So many tools of a kind; with `output_` before it their output schemas are so, else their input schemas.

    Of the kind `names` all but one are withheld, since each of their long names is there twice.
    """
    if kind == "names":
        names = ["tool", *(f"{n // 2}_{'n' * SIZE}" for n in range(count))]
        return [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    schema = {"type": "object", **SCHEMAS[kind.removeprefix("output_")]()}
    member = "outputSchema" if kind.startswith("output_") else "inputSchema"
    return [
        {"name": f"tool_{n}", "description": f"Tool {n}.", "inputSchema": {"type": "object"}, member: schema}
        for n in range(count)
    ]
