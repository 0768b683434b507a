"""A tool in few tokens: its parameters as one TypeScript-like line, or no more than what it is for.

    (path: string, limit?: integer = 10 /* 1..100; how many */, mode?: 'r'|'w' = 'r')

Every parameter's name, type, optionality, values, default, constraints and description can be read back from a
signature. What it can't tell is an `object` with the note to see the full schema. Not in it are what says nothing of
a call: `$comment`, titles beside a description, and keywords that JSON Schema does not know. The notation of types is
told in `shapes.py`, that of comments in `notes.py`.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import NamedTuple

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import notes, schemas
from mcp_workbench.catalog.rendering.notes import SEE_SCHEMA, Schema
from mcp_workbench.catalog.rendering.references import Names, References
from mcp_workbench.catalog.rendering.sentence import BRIEF_LENGTH, first_sentence
from mcp_workbench.catalog.rendering.shapes import Shapes, TooLong, Work
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.wire import jsonrpc

SIGNATURE_LENGTH = 12_288
"""Characters of a signature: nearly half of what an answer may cost, and twice the longest seen in use. What is
deepest is left out beyond it."""
SIGNATURE_DEPTH = 64
"""How deep a signature goes: as deep as definitions may nest."""
SIGNATURE_CUT_DEPTH = 4
"""How deep one that would be longer is told at most: one level more at a time, as long as it fits."""
SIGNATURE_NODES = 1_000
"""A schema with more objects and arrays than this gets an outline instead of a signature: the names of its
parameters, each with its type in one word. This bounds the work; the largest schemas seen in use have a few
hundred."""
SIGNATURE_VALUES = 5_000
"""The same for a schema with more members and values than this, counted by its commas."""
SIGNATURE_PARTS = 800
"""How many parts of a schema are rendered for a signature, over all attempts to make it fit (12 ms). A schema that
needs more is rendered less deeply. A signature of the greatest length has about 600. An open whose signatures would
need more parts than it may have tokens shows parameter names instead: they could hardly fit."""
SIGNATURE_INLINE_DEPTH = 8
"""How deep a definition that is used once still stands in its place: deeper ones get a name, so that a chain of
them needs no stack."""

_SAID = ("title", "description")
_NOTHING: Schema = {}


def signature(schema: object, work: Work | None = None) -> str:
    """A tool's `inputSchema`, decoded, as one line. Whatever it is, the line is bounded, and made in bounded time.

    One that would be too long leaves out what is deepest. `work` counts how many parts are rendered for it.
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
    """A tool's signature, made once for each definition."""
    return definition.memoized(_summary).said["signature"]


def parts(definition: Definition) -> int:
    """How many parts of its schema were rendered for the signature."""
    return definition.memoized(_summary).parts


def entry(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry of an `open_toolbox` answer, with `signature` in the place of `inputSchema`.

    Title and description are the server's own words, on one line: line ends and indents cost tokens. Left out, and to
    be had with the full definition, is what a model does not need for a call: `outputSchema`, `annotations`, `icons`,
    `_meta` and fields that the protocol does not know.
    """
    return Raw(jsonrpc.encode({**_place(identifier), **definition.memoized(_summary).said}))


def lean(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry with the signature and the first sentence, for the best matches of a search."""
    said = parameters(definition)
    return Raw(jsonrpc.encode({**_sentence(identifier, definition), "signature": said}))


def outline(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry with the first sentence, and a signature of parameter names alone: `(path, head?)`."""
    names = definition.memoized(_parameter_names)
    return Raw(jsonrpc.encode({**_sentence(identifier, definition), "signature": names}))


def brief(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """The shortest entry: which tool, and the first sentence of its description."""
    return Raw(jsonrpc.encode(_sentence(identifier, definition)))


def _sentence(identifier: ToolIdentifier, definition: Definition) -> dict[str, str]:
    first = first_sentence(definition)
    return {**_place(identifier), **({"description": first} if first else {})}


def _parameter_names(definition: Definition) -> str:
    """As many as fit into twice a first sentence, and how many there are besides."""
    shallow = _shallow(jsonrpc.fields(definition.raw).get("inputSchema", jsonrpc.EMPTY_OBJECT))
    required, properties = frozenset(shallow["required"]), shallow["properties"]
    room, shown = 2 * BRIEF_LENGTH, len(properties)
    names = [f"{notes.name(name)}{'' if name in required else '?'}" for name in islice(properties, room)]
    while shown and len(", ".join(names[:shown])) > room:
        shown = shown // 2 if shown > 1 else 0
    left = [f"... {len(properties) - shown} more"] if shown < len(properties) else []
    return f"({', '.join([*names[:shown], *left])})"


class _Summary(NamedTuple):
    said: dict[str, str]
    parts: int


def _summary(definition: Definition) -> _Summary:
    work = Work(SIGNATURE_PARTS)
    fields = jsonrpc.fields(definition.raw)
    words = {field: " ".join((jsonrpc.text_or_none(fields.get(field)) or "").split()) for field in _SAID}
    said = {field: text for field, text in words.items() if text}
    written = _signature_of(fields.get("inputSchema", jsonrpc.EMPTY_OBJECT), work)
    return _Summary({**said, "signature": written}, SIGNATURE_PARTS - work.left)


def _place(identifier: ToolIdentifier) -> dict[str, str]:
    return {"toolbox_name": identifier.toolbox, "source_server": identifier.server, "name": identifier.tool}


def _signature_of(raw: Raw, work: Work) -> str:
    """A number that is beyond all reading makes a schema unreadable. A schema of too many parts is only outlined."""
    text = bytes(raw)
    if text.count(b"{") + text.count(b"[") > SIGNATURE_NODES or text.count(b",") > SIGNATURE_VALUES:
        return _outline(_shallow(raw))
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        schema = None
    return signature(schema, work)


def _shallow(raw: Raw) -> Schema:
    """A schema of any size, read down to its parameters, whose own schemas stay raw."""
    members = jsonrpc.members(raw)
    return {
        "properties": jsonrpc.members(members.get("properties")),
        "required": _names(members.get("required", jsonrpc.NOTHING)),
    }


def _names(raw: Raw) -> list[str]:
    try:
        return msgspec.json.decode(raw, type=list[str])
    except msgspec.DecodeError:
        return []


def _written(schema: object, references: References, work: Work, depth: int) -> str | None:
    """The parameters, and where they use names, what these stand for. None where that is too long, or too much work."""
    names = Names()
    shapes = Shapes(
        references,
        names,
        work,
        depth=depth,
        inline_depth=SIGNATURE_INLINE_DEPTH,
        length=SIGNATURE_LENGTH,
    )
    try:
        text = shapes.arguments(schema)
        meanings = [shapes.definition(target, name) for name, target in names.pending]  # which grows meanwhile
    except TooLong:
        return None
    text += f" where {'; '.join(meanings)}" if meanings else ""
    return text if len(text) <= SIGNATURE_LENGTH else None


def _outline(schema: object) -> str:
    """As many parameters as fit, with their types in one word, and how many there are besides."""
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
    """A schema's type in one word."""
    if isinstance(schema, Raw):
        schema = {"type": jsonrpc.text_or_none(jsonrpc.members(schema).get("type"))}
    return schemas.word(schema) if schemas.is_object(schema) else "object"


def _ending(left: int) -> str:
    return f"... /* {f'{left} more; ' if left else ''}{SEE_SCHEMA} */)"
