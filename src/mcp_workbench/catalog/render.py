"""How a tool's definition is shown: whole, compact, and with where it is from."""

from __future__ import annotations

from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.identity import ToolIdentifier, joined_name
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
    fields["_meta"] = Raw(
        jsonrpc.encode(
            {
                **jsonrpc.members(fields.get("_meta")),
                "source_server": identifier.server,
                "toolbox_name": identifier.toolbox,
                "original_name": identifier.tool,
            }
        )
    )
    return Raw(jsonrpc.encode(fields))


def _title(fields: dict[str, Raw], identifier: ToolIdentifier) -> str:
    annotated = jsonrpc.members(fields.get("annotations")).get("title")
    return _text(fields.get("title")) or _text(annotated) or identifier.tool


def _text(raw: Raw | None) -> str:
    return jsonrpc.text(raw) if raw is not None and jsonrpc.is_text(raw) else ""


def _raw(value: str) -> Raw:
    return Raw(jsonrpc.encode(value))
