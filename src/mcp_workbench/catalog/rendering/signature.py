"""A tool in few tokens: its parameters as one TypeScript-like line, or no more than what it is for.

    (path: string, limit?: integer = 10 /* 1..100; how many */, mode?: 'r'|'w' = 'r')

Every parameter's name, type, optionality, values, default, constraints and description can be read back from a
signature. What it can't tell is an `object` with the note to see the full schema. Not in it are what says nothing of
a call: `$comment`, titles beside a description, and keywords that JSON Schema does not know. The notation of types is
told in `shapes.py`, that of comments in `notes.py`.
"""

from __future__ import annotations

import json

from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import notes, schemas
from mcp_workbench.catalog.rendering.notes import SEE_SCHEMA, Schema
from mcp_workbench.catalog.rendering.references import Names, References
from mcp_workbench.catalog.rendering.sentence import first_sentence
from mcp_workbench.catalog.rendering.shapes import Shapes, TooLong
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.wire import jsonrpc

_SAID = ("title", "description")
_NOTHING: Schema = {}


def signature(schema: object, limits: Limits = DEFAULTS) -> str:
    """A tool's `inputSchema`, decoded, as one line. Whatever it is, the line is bounded, and made in bounded time.

    One that would be too long leaves out what is deepest.
    """
    references = References(schema if schemas.is_object(schema) else _NOTHING)
    best = _written(schema, references, limits.schema_depth, limits)
    if best is not None:
        return best
    for depth in range(limits.signature_cut_depth + 1):
        if (deeper := _written(schema, references, depth, limits)) is None:
            break
        best = deeper
    return best or _outline(schema, limits)


def entry(identifier: ToolIdentifier, definition: Definition, limits: Limits = DEFAULTS) -> Raw:
    """An entry of an `open_toolbox` answer, with `signature` in the place of `inputSchema`.

    Title and description are the server's own words, on one line: line ends and indents cost tokens. Left out, and to
    be had with the full definition, is what a model does not need for a call: `outputSchema`, `annotations`, `icons`,
    `_meta` and fields that the protocol does not know.
    """
    fields = jsonrpc.fields(definition.raw)
    words = {field: " ".join((jsonrpc.text_or_none(fields.get(field)) or "").split()) for field in _SAID}
    said = {field: text for field, text in words.items() if text}
    return Raw(jsonrpc.encode({**_place(identifier), **said, "signature": _signature_of(fields, limits)}))


def brief(identifier: ToolIdentifier, definition: Definition, limits: Limits = DEFAULTS) -> Raw:
    """The shortest entry: which tool, and the first sentence of its description."""
    first = first_sentence(definition, limits)
    return Raw(jsonrpc.encode({**_place(identifier), **({"description": first} if first else {})}))


def _place(identifier: ToolIdentifier) -> dict[str, str]:
    return {"toolbox_name": identifier.toolbox, "source_server": identifier.server, "name": identifier.tool}


def _signature_of(fields: dict[str, Raw], limits: Limits) -> str:
    """A number that is beyond all reading makes a schema unreadable."""
    try:
        schema = json.loads(bytes(fields.get("inputSchema", jsonrpc.EMPTY_OBJECT)))
    except (ValueError, RecursionError):
        schema = None
    return signature(schema, limits)


def _written(schema: object, references: References, depth: int, limits: Limits) -> str | None:
    """The parameters, and where they use names, what these stand for. None where that is too long."""
    names = Names(limits)
    shapes = Shapes(
        references, names, depth=depth, inline_depth=limits.signature_inline_depth, length=limits.signature_length
    )
    try:
        text = shapes.arguments(schema)
        meanings = [shapes.definition(target, name) for name, target in names.pending]  # which grows meanwhile
    except TooLong:
        return None
    text += f" where {'; '.join(meanings)}" if meanings else ""
    return text if len(text) <= limits.signature_length else None


def _outline(schema: object, limits: Limits) -> str:
    """As many parameters as fit, with their types in one word, and how many there are besides."""
    root, _ = schemas.merged(schema if schemas.is_object(schema) else _NOTHING)
    properties = schemas.children(root, "properties")
    required = schemas.required(root)
    room = limits.signature_length - len("(" + _ending(len(properties)))
    members: list[str] = []
    for name, child in properties.items():
        kind = schemas.word(child) if schemas.is_object(child) else "object"
        member = f"{notes.name(name)}{'' if name in required else '?'}: {kind}, "
        room -= len(member)
        if room < 0:
            break
        members.append(member)
    return "".join(("(", *members, _ending(len(properties) - len(members))))


def _ending(left: int) -> str:
    return f"... /* {f'{left} more; ' if left else ''}{SEE_SCHEMA} */)"
