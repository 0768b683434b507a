"""Tool results as text: their text blocks, and one line for each other block."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Raw

from mcp_workbench.text.sanitize import count, escape
from mcp_workbench.wire import jsonrpc


def word(value: object) -> str:
    """The text of a JSON value; empty if it is not a string."""
    if isinstance(value, str):
        return value
    return jsonrpc.text_or_none(value) or "" if isinstance(value, Raw) else ""


def number(value: object) -> float | None:
    found = decoded(value)
    try:
        return float(found) if isinstance(found, int | float) else None
    except OverflowError:
        return None


def decoded(value: object) -> Any:
    """Decode JSON; None if that fails, for example for a number that is too long."""
    if not isinstance(value, Raw):
        return value
    try:
        return json.loads(bytes(value))
    except (ValueError, RecursionError):
        return None


_UNITS: Final = ("KB", "MB", "GB")
_STEP: Final = 1000
_MEDIA: Final = ("image", "audio")
_ESCAPE: Final = r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)"
"""An escape sequence in a JSON string."""


JSON_TYPE: Final = "application/json"


class Piece(NamedTuple):
    """One content block of a result."""

    told: str
    """Its text, or a line that describes it."""
    media_type: str = ""
    """As the server names it."""
    is_text: bool = False
    is_media: bool = False
    data: str | None = None
    """Base64, for media."""


def as_text(result: Raw) -> Iterator[str]:
    """The texts of all blocks."""
    told = [piece.told for piece in pieces(result)]
    if not told and is_error(result):
        told = ["The tool reports that it failed, but not why."]
    yield from told


def pieces(result: Raw, *, with_structured: bool = False) -> list[Piece]:
    """The blocks of a result. `structuredContent` counts as one if there is no other, or on request."""
    fields = jsonrpc.fields(result)
    found = [_piece(block) for block in _blocks(fields.get("content"))]
    structured = fields.get("structuredContent")
    if structured is not None and (with_structured or not found):
        found.append(Piece(readable(structured), JSON_TYPE, is_text=True))
    return found


def readable(document: Raw) -> str:
    """Indented JSON with unchanged digits, in which only invisible characters are escaped."""
    text = re.sub(_ESCAPE, _unescaped, msgspec.json.format(bytes(document), indent=2).decode())
    return re.sub(r"[^\n -~]", lambda match: match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1], text)


def _unescaped(match: re.Match[str]) -> str:
    if match[0][1] != "u":
        return match[0]
    character: str = json.loads(f'"{match[0]}"')
    return character if character.isprintable() and character not in '"\\' else match[0]


def is_error(result: Raw) -> bool:
    return jsonrpc.is_true(jsonrpc.fields(result).get("isError"))


def _blocks(content: Raw | None) -> list[dict[str, Raw]]:
    try:
        listed = msgspec.json.decode(content, type=list[Raw]) if content is not None else []
    except msgspec.DecodeError:
        return []
    return [jsonrpc.members(one) for one in listed]


def _piece(block: Mapping[str, Raw]) -> Piece:
    kind, media_type = word(block.get("type")), word(block.get("mimeType"))
    if kind == "text":
        return Piece(word(block.get("text")), is_text=True)
    if kind in _MEDIA:
        data = jsonrpc.text_or_none(block.get("data"))
        return Piece(f"[{kind}: {described(media_type, _decoded_size(data))}]", media_type, is_media=True, data=data)
    if kind == "resource_link":
        names = [escape(word(block.get(member))) for member in ("name", "uri")]
        about = described(media_type, number(block.get("size")))
        return Piece(f"[link: {' '.join(filter(None, (*names, about)))}]")
    if kind == "resource":
        return _resource(jsonrpc.members(block.get("resource")))
    return Piece(f"[{escape(kind) or 'something without a type'}]")


def _resource(resource: Mapping[str, Raw]) -> Piece:
    media_type = word(resource.get("mimeType"))
    if "text" in resource:
        return Piece(word(resource.get("text")), media_type, is_text=True)
    blob = jsonrpc.text_or_none(resource.get("blob"))
    told = f"[resource: {escape(word(resource.get('uri')))} {described(media_type, _decoded_size(blob))}]"
    return Piece(told, media_type, is_media="blob" in resource, data=blob)


def described(kind: str, size: float | None) -> str:
    """A media type and a size in bytes, as text."""
    return ", ".join(filter(None, (escape(kind), _size(size) if size is not None else "")))


def _decoded_size(data: str | None) -> int | None:
    """The number of bytes in base64 data."""
    return len(data.rstrip("=")) * 3 // 4 if data is not None else None


def _size(size: float) -> str:
    if size < _STEP:
        return count(int(size), "byte")
    for unit in _UNITS:
        size /= _STEP
        if size < _STEP:
            return f"{size:.1f} {unit}"
    return f"{size:,.1f} {_UNITS[-1]}"
