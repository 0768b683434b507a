"""Renders a tool in few tokens: its parameters as one TypeScript-like line, or only its first sentence.

    (path: string, limit?: integer = 10 /* 1..100; how many */, mode?: 'r'|'w' = 'r')

Every parameter's name, type, optionality, values, default, constraints and description can be read back from a
signature. A schema that it can't express is an `object` with the note to see the full schema. It omits what a
call does not need: `$comment`, titles next to descriptions, and keywords unknown to JSON Schema. `shapes.py` describes
the notation of types, `notes.py` that of comments.
"""

from __future__ import annotations

import json
from itertools import islice

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import notes, schemas
from mcp_workbench.catalog.rendering.notes import SEE_SCHEMA, Schema
from mcp_workbench.catalog.rendering.references import References
from mcp_workbench.catalog.rendering.render import BRIEF_LENGTH, first_sentence
from mcp_workbench.catalog.rendering.shapes import Shapes, TooLong, Work
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.wire import jsonrpc

SIGNATURE_LENGTH = 12_288
"""Characters of a signature: nearly half of what an answer may cost, and twice the longest seen in use. A longer one
omits its deepest levels."""
SIGNATURE_DEPTH = 64
"""The greatest depth: as deep as definitions may nest."""
SIGNATURE_CUT_DEPTH = 4
"""The greatest depth of a signature that would be too long."""
SIGNATURE_NODES = 1_000
"""A schema with more objects and arrays than this gets an outline instead of a signature: the names of its
parameters, each with its type in one word. This bounds the work; the largest schemas seen in use have a few
hundred."""
SIGNATURE_VALUES = 5_000
"""The same for a schema with more members and values than this, counted by its commas."""
SIGNATURE_PARTS = 800
"""How many parts of a schema are rendered for a signature, over all attempts to make it fit (12 ms). A schema that
needs more is rendered less deeply. A signature of the greatest length has about 600. If the signatures of an
`open_toolbox` answer would need more parts than its budget has tokens, it shows parameter names instead: the signatures
would hardly fit."""
SIGNATURE_INLINE_DEPTH = 8
"""The greatest depth at which definitions are inlined: deeper ones get a name, which bounds the recursion."""

_SAID = ("title", "description")
_NOTHING: Schema = {}


def signature(schema: object, work: Work | None = None) -> str:
    """A tool's decoded `inputSchema` as one line of bounded length, made in bounded time.

    A signature that would be too long omits the deepest levels. `work` bounds the number of rendered parts.
    """
    references = References(schema if schemas.is_object(schema) else _NOTHING)
    work = work or Work(SIGNATURE_PARTS)
    if (whole := _written(schema, references, work, SIGNATURE_DEPTH)) is not None:
        return whole
    if (best := _written(schema, references, work, 0)) is None:
        return _outline(schema)
    fits, too_deep = 0, SIGNATURE_CUT_DEPTH + 1
    while too_deep - fits > 1:  # each attempt may take a millisecond
        depth = (fits + too_deep) // 2
        if (cut := _written(schema, references, work, depth)) is None:
            too_deep = depth
        else:
            best, fits = cut, depth
    return best


def parameters(definition: Definition) -> str:
    """A tool's signature, cached with its definition."""
    return definition.memoized(_summary)[0]["signature"]


def parts(definition: Definition) -> int:
    """How many parts of its schema were rendered for the signature."""
    return definition.memoized(_summary)[1]


def entry(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry of an `open_toolbox` answer, with `signature` in place of `inputSchema`.

    Title and description are the server's own, on one line: line ends and indents cost tokens. Fields that a model does
    not need for a call (`outputSchema`, `annotations`, `icons`, `_meta`, unknown ones) are only in the full definition.
    """
    return Raw(jsonrpc.encode({**_place(identifier), **definition.memoized(_summary)[0]}))


def lean(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry with the signature and the first sentence, for the best matches of a search."""
    said = parameters(definition)
    return Raw(jsonrpc.encode({**_sentence(identifier, definition), "signature": said}))


def outline(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry with the first sentence, and a signature of parameter names alone: `(path, head?)`."""
    names = definition.memoized(_parameter_names)
    return Raw(jsonrpc.encode({**_sentence(identifier, definition), "signature": names}))


def brief(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """The shortest entry: the identifier and the first sentence."""
    return Raw(jsonrpc.encode(_sentence(identifier, definition)))


def _sentence(identifier: ToolIdentifier, definition: Definition) -> dict[str, str]:
    first = first_sentence(definition)
    return {**_place(identifier), **({"description": first} if first else {})}


def _parameter_names(definition: Definition) -> str:
    """As many names as fit into twice a first sentence, and the number of the others."""
    shallow = _shallow(jsonrpc.fields(definition.raw).get("inputSchema", jsonrpc.EMPTY_OBJECT))
    required, properties = frozenset(shallow["required"]), shallow["properties"]
    room, shown = 2 * BRIEF_LENGTH, len(properties)
    names = [f"{notes.name(name)}{'' if name in required else '?'}" for name in islice(properties, room)]
    while shown and len(", ".join(names[:shown])) > room:
        shown = shown // 2 if shown > 1 else 0
    left = [f"... {len(properties) - shown} more"] if shown < len(properties) else []
    return f"({', '.join([*names[:shown], *left])})"


def _summary(definition: Definition) -> tuple[dict[str, str], int]:
    """An entry's texts and signature, and the number of rendered parts."""
    work = Work(SIGNATURE_PARTS)
    fields = jsonrpc.fields(definition.raw)
    words = {field: " ".join((jsonrpc.text_or_none(fields.get(field)) or "").split()) for field in _SAID}
    said = {field: text for field, text in words.items() if text}
    written = _signature_of(fields.get("inputSchema", jsonrpc.EMPTY_OBJECT), work)
    return {**said, "signature": written}, SIGNATURE_PARTS - work.left


def _place(identifier: ToolIdentifier) -> dict[str, str]:
    return {"toolbox_name": identifier.toolbox, "source_server": identifier.server, "name": identifier.tool}


def _signature_of(raw: Raw, work: Work) -> str:
    """The signature of an encoded schema; a schema with too many parts gets an outline."""
    text = bytes(raw)
    if text.count(b"{") + text.count(b"[") > SIGNATURE_NODES or text.count(b",") > SIGNATURE_VALUES:
        return _outline(_shallow(raw))
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        schema = None
    return signature(schema, work)


def _shallow(raw: Raw) -> Schema:
    """The top level of a schema of any size; the schemas of its parameters stay raw."""
    members = jsonrpc.members(raw)
    try:
        required = msgspec.json.decode(members.get("required", jsonrpc.NOTHING), type=list[str])
    except msgspec.DecodeError:
        required = []
    return {"properties": jsonrpc.members(members.get("properties")), "required": required}


def _written(schema: object, references: References, work: Work, depth: int) -> str | None:
    """The parameters, and the definitions of the names in them; None if that is too long or too much work."""
    shapes = Shapes(references, work, depth=depth, inline_depth=SIGNATURE_INLINE_DEPTH, length=SIGNATURE_LENGTH)
    try:
        text = shapes.arguments(schema)
        # `pending` grows during the loop
        meanings = [shapes.definition(target, name) for name, target in shapes.names.pending]
    except TooLong:
        return None
    text += f" where {'; '.join(meanings)}" if meanings else ""
    return text if len(text) <= SIGNATURE_LENGTH else None


def _outline(schema: object) -> str:
    """As many parameters as fit, with their types in one word, and the number of omitted ones."""
    root, _ = schemas.merged(schema if schemas.is_object(schema) else _NOTHING)
    properties = schemas.children(root, "properties")
    required = schemas.required(root)
    room = SIGNATURE_LENGTH - len("(" + _ending(len(properties)))
    members: list[str] = []
    for name, child in properties.items():
        member = f"{notes.name(name)}{'' if name in required else '?'}: {_word(child)}, "
        room -= len(member)
        if room < 0:
            break
        members.append(member)
    return "".join(("(", *members, _ending(len(properties) - len(members))))


def _word(schema: object) -> str:
    """The type of a decoded or raw schema in one word."""
    if isinstance(schema, Raw):
        schema = {"type": jsonrpc.text_or_none(jsonrpc.members(schema).get("type"))}
    return schemas.word(schema) if schemas.is_object(schema) else "object"


def _ending(left: int) -> str:
    return f"... /* {f'{left} more; ' if left else ''}{SEE_SCHEMA} */)"
