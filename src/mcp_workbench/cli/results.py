"""The result of a tool as text: what it says, and a line for each thing that is no text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw

from mcp_workbench.cli.loose import number, word
from mcp_workbench.shown import shown
from mcp_workbench.wire import jsonrpc

_UNITS: Final = ("KB", "MB", "GB")
_STEP: Final = 1000
_MEDIA: Final = ("image", "audio")
_ESCAPE: Final = r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)"
"""One character in a string of JSON that is not written as itself."""


def as_text(result: Raw) -> Iterator[str]:
    """What a person reads of it, piece by piece, in the words of the server."""
    fields = jsonrpc.fields(result)
    pieces = [piece for block in _blocks(fields.get("content")) if (piece := _piece(block)) is not None]
    structured = fields.get("structuredContent")
    if not pieces and structured is not None:
        pieces = [readable(structured)]
    if not pieces and is_error(result):
        pieces = ["The tool says that it failed, and not why."]
    yield from pieces


def readable(document: Raw) -> str:
    """JSON with line ends, and with the server's own digits; what is visible is not escaped."""
    return re.sub(_ESCAPE, _unescaped, msgspec.json.format(bytes(document), indent=2).decode())


def _unescaped(match: re.Match[str]) -> str:
    if match[0][1] != "u":
        return match[0]
    character: str = json.loads(f'"{match[0]}"')
    return character if character.isprintable() and character not in '"\\' else match[0]


def is_error(result: Raw) -> bool:
    """Whether the tool says that it failed."""
    return jsonrpc.is_true(jsonrpc.fields(result).get("isError"))


def _blocks(content: Raw | None) -> list[dict[str, Raw]]:
    try:
        listed = msgspec.json.decode(content, type=list[Raw]) if content is not None else []
    except msgspec.DecodeError:
        return []
    return [jsonrpc.members(one) for one in listed]


def _piece(block: Mapping[str, Raw]) -> str | None:
    kind = word(block.get("type"))
    if kind == "text":
        return word(block.get("text"))
    if kind in _MEDIA:
        return f"[{kind}: {_described(word(block.get('mimeType')), _decoded_size(block.get('data')))}]"
    if kind == "resource_link":
        names = [shown(word(block.get(member))) for member in ("name", "uri")]
        about = _described(word(block.get("mimeType")), number(block.get("size")))
        return f"[link: {' '.join(filter(None, (*names, about)))}]"
    if kind == "resource":
        return _resource(jsonrpc.members(block.get("resource")))
    return f"[{shown(kind) or 'something without a type'}]"


def _resource(resource: Mapping[str, Raw]) -> str:
    if "text" in resource:
        return word(resource.get("text"))
    about = _described(word(resource.get("mimeType")), _decoded_size(resource.get("blob")))
    return f"[resource: {shown(word(resource.get('uri')))} {about}]"


def _described(kind: str, size: float | None) -> str:
    return ", ".join(filter(None, (shown(kind), _size(size) if size is not None else "")))


def _decoded_size(data: Raw | None) -> int | None:
    """How many bytes base64 stands for."""
    text = jsonrpc.text_or_none(data)
    return len(text.rstrip("=")) * 3 // 4 if text is not None else None


def _size(size: float) -> str:
    if size < _STEP:
        return f"{size:.0f} byte{'' if size == 1 else 's'}"
    for unit in _UNITS:
        size /= _STEP
        if size < _STEP:
            return f"{size:.1f} {unit}"
    return f"{size:,.1f} {_UNITS[-1]}"
