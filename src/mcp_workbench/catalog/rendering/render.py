"""How a tool, a prompt or a resource is shown: whole, compact, and with where it is from."""

from __future__ import annotations

from msgspec import Raw

from mcp_workbench.catalog.definition import Definition, Item
from mcp_workbench.identity import PromptIdentifier, ServerIdentifier, ToolIdentifier, joined_name
from mcp_workbench.wire import jsonrpc


def entry(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """An entry of an `open_toolbox` answer: every field the server sent, and the two of ours."""
    place = {"toolbox_name": identifier.toolbox, "source_server": identifier.server}
    return Raw(jsonrpc.encode({**place, **jsonrpc.fields(definition.raw), **place}))


def native(identifier: ToolIdentifier, definition: Definition) -> Raw:
    """A tool as a client's own list shows it: joined name, marked description, `_meta` of ours."""
    fields = jsonrpc.fields(definition.raw)
    label = f"[{identifier.toolbox}/{identifier.server}]"
    description = _text(fields.get("description"))
    fields["name"] = _raw(joined_name(identifier))
    fields["title"] = _raw(_title(fields, identifier))
    fields["description"] = _raw(f"{label} {description}" if description else label)
    server = ServerIdentifier(identifier.toolbox, identifier.server)
    fields["_meta"] = _origin(fields.get("_meta"), server, original_name=identifier.tool)
    return Raw(jsonrpc.encode(fields))


def prompt(name: str, identifier: PromptIdentifier, item: Item) -> Raw:
    """A prompt under another name than its own: with the own one as title, and where it is from."""
    fields = jsonrpc.fields(item.raw)
    fields["name"] = _raw(name)
    fields["title"] = _raw(_text(fields.get("title")) or identifier.prompt)
    server = ServerIdentifier(identifier.toolbox, identifier.server)
    fields["_meta"] = _origin(fields.get("_meta"), server, original_name=identifier.prompt)
    return Raw(jsonrpc.encode(fields))


def resource(member: str, uri: str, server: ServerIdentifier, item: Item) -> Raw:
    """A resource or template under another URI than its own, with where it is from."""
    fields = jsonrpc.fields(item.raw)
    fields[member] = _raw(uri)
    fields["_meta"] = _origin(fields.get("_meta"), server, original_uri=item.name)
    return Raw(jsonrpc.encode(fields))


def skill(name: str, item: Item) -> Raw:
    """A skill under a different name. Its frontmatter is unchanged: hosts compare it with the file."""
    return Raw(jsonrpc.encode({**jsonrpc.fields(item.raw), "name": name}))


def _origin(meta: Raw | None, server: ServerIdentifier, **original: str) -> Raw:
    """A server's `_meta`, with which server it is and what it calls the thing itself."""
    place = {"source_server": server.server, "toolbox_name": server.toolbox}
    return Raw(jsonrpc.encode({**jsonrpc.members(meta), **place, **original}))


def _title(fields: dict[str, Raw], identifier: ToolIdentifier) -> str:
    annotated = jsonrpc.members(fields.get("annotations")).get("title")
    return _text(fields.get("title")) or _text(annotated) or identifier.tool


def _text(raw: Raw | None) -> str:
    return jsonrpc.text(raw) if raw is not None and jsonrpc.is_text(raw) else ""


def _raw(value: str) -> Raw:
    return Raw(jsonrpc.encode(value))
