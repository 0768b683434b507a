"""Renders tools, prompts, resources and skills for answers and lists, with the server that they come from."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Raw

from mcp_workbench.catalog.definition import Definition, Item
from mcp_workbench.identity import PromptIdentifier, ServerIdentifier, ToolIdentifier, joined_name
from mcp_workbench.wire import jsonrpc

BRIEF_LENGTH = 160
"""Characters of a first sentence: two lines on a terminal; a longer sentence is a list."""
_SENTENCE_END = re.compile("(?<=[.!?])(?<!e\\.g\\.)(?<!i\\.e\\.)\\s++(?![a-z(])|(?<=[\u3002\uff01\uff1f])|\n\\s*\n")
_SCANNED: Final = 8
"""Multiple of `BRIEF_LENGTH` that is read of a description: whitespace does not count."""


def entry(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry of an `open_toolbox` answer: every field that the server sent, with its toolbox and server."""
    place = {"toolbox_name": identifier.toolbox, "source_server": identifier.server}
    return Raw(jsonrpc.encode({**place, **jsonrpc.fields(definition.raw), **place}))


def native(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """A tool in the client's own list: joined name, labelled description, and its origin in `_meta`."""
    fields = jsonrpc.fields(definition.raw)
    label, description = f"[{identifier.toolbox}/{identifier.server}]", _text(fields.get("description"))
    fields["name"] = _raw(joined_name(identifier))
    annotated = jsonrpc.members(fields.get("annotations")).get("title")
    fields["title"] = _raw(_text(fields.get("title")) or _text(annotated) or identifier.tool)
    fields["description"] = _raw(f"{label} {description}" if description else label)
    server = ServerIdentifier(identifier.toolbox, identifier.server)
    fields["_meta"] = _origin(fields.get("_meta"), server, original_name=identifier.tool)
    return Raw(jsonrpc.encode(fields))


def prompt(name: str, identifier: PromptIdentifier, item: Item) -> Raw:
    """A prompt under a different name: its own name becomes the title, its origin goes to `_meta`."""
    fields = jsonrpc.fields(item.raw)
    fields["name"] = _raw(name)
    fields["title"] = _raw(_text(fields.get("title")) or identifier.prompt)
    server = ServerIdentifier(identifier.toolbox, identifier.server)
    fields["_meta"] = _origin(fields.get("_meta"), server, original_name=identifier.prompt)
    return Raw(jsonrpc.encode(fields))


def resource(member: str, uri: str, server: ServerIdentifier, item: Item) -> Raw:
    """A resource or template under a different URI, with its origin in `_meta`."""
    fields = jsonrpc.fields(item.raw)
    fields[member] = _raw(uri)
    fields["_meta"] = _origin(fields.get("_meta"), server, original_uri=item.name)
    return Raw(jsonrpc.encode(fields))


def skill(name: str, item: Item) -> Raw:
    """A skill under a different name. Its frontmatter is unchanged: hosts compare it with the file."""
    return Raw(jsonrpc.encode({**jsonrpc.fields(item.raw), "name": name}))


def _origin(meta: Raw | None, server: ServerIdentifier, **original: str) -> Raw:
    """A server's `_meta`, with the toolbox, the server, and the original name or URI."""
    place = {"source_server": server.server, "toolbox_name": server.toolbox}
    return Raw(jsonrpc.encode({**jsonrpc.members(meta), **place, **original}))


def _text(raw: Raw | None) -> str:
    return jsonrpc.text_or_none(raw) or ""


def _raw(value: str) -> Raw:
    return Raw(jsonrpc.encode(value))


def first_sentence(definition: Definition) -> str:
    """The first sentence of a description, on one line, cut between words if it is long; empty if there is none."""
    return definition.memoized(_first_sentence)


def _first_sentence(definition: Definition) -> str:
    said = _text(jsonrpc.fields(definition.raw).get("description")).lstrip()
    scanned = said[: _SCANNED * BRIEF_LENGTH].rstrip()
    first = " ".join(_SENTENCE_END.split(scanned, maxsplit=1)[0].split())
    return first if len(first) <= BRIEF_LENGTH else first[:BRIEF_LENGTH].rsplit(" ", 1)[0] + "…"
