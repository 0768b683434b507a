"""Small operations on text: count, slugify, wrap, compare, search. A handshake-era server.

Its `search` has the same name as the one of the notes server.
"""

from __future__ import annotations

import difflib
import re
import textwrap
import unicodedata

from mcp_workbench.demo.server import JsonObject, Schema, Server, object_schema

WORDS_PER_MINUTE = 230
MAX_MATCHES = 100
"""The description of `search` contains this number."""

_TEXT: Schema = {"type": "string", "description": "The text to work on", "maxLength": 200_000}
_SLUG_TEXT: Schema = {**_TEXT, "maxLength": 1000}
# A comparison takes time proportional to the product of both lengths in the worst case.
_BEFORE: Schema = {"type": "string", "description": "The old text", "maxLength": 20_000}
_AFTER: Schema = {**_BEFORE, "description": "The new text"}
_QUERY: Schema = {"type": "string", "description": "The phrase to look for", "minLength": 1, "maxLength": 200}
_BREADTH: Schema = {"description": "Longest line, in characters", "minimum": 10, "maximum": 500, "default": 72}
_WIDTH: Schema = {"type": "integer", **_BREADTH}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_COUNTS: dict[str, Schema] = {"words": _COUNT, "characters": _COUNT, "lines": _COUNT}
_MATCH = object_schema({"line": {"type": "integer", "minimum": 1}, "text": {"type": "string"}})

SERVER = Server("text", "Text", "Works on the text in the arguments; stores nothing.")


@SERVER.tool("Count words", {"text": _TEXT}, {**_COUNTS, "reading_minutes": {"type": "number"}})
def count_words(text: str) -> JsonObject:
    """Count words, characters and lines, and estimate the minutes it takes to read the text."""
    words, minutes = len(text.split()), len(text.split()) / WORDS_PER_MINUTE
    lines = len(text.splitlines())
    return {"words": words, "characters": len(text), "lines": lines, "reading_minutes": round(minutes, 1)}


@SERVER.tool("Make a slug", {"text": _SLUG_TEXT}, {"slug": {"type": "string"}})
def slugify(text: str) -> JsonObject:
    """Turn a heading into part of a URL: lower-case ASCII letters and digits with hyphens between."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return {"slug": "-".join(re.findall(r"[a-z0-9]+", ascii_only.lower()))}


@SERVER.tool("Wrap text", {"text": _TEXT, "width": _WIDTH})
def wrap_text(text: str, width: int = 72) -> str:
    """Break paragraphs into lines of a given width. A blank line starts a new paragraph."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(textwrap.fill(" ".join(paragraph.split()), width) for paragraph in paragraphs)


@SERVER.tool("Compare two texts", {"before": _BEFORE, "after": _AFTER})
def diff_texts(before: str, after: str) -> str:
    """Show what changed between two texts, line by line, as a unified diff."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return "\n".join(lines) or "The texts are the same, line by line."


@SERVER.tool(
    "Search in a text",
    {"text": _TEXT, "query": _QUERY},
    {"matches": {"type": "array", "items": _MATCH}, "total": _COUNT},
)
def search(text: str, query: str) -> JsonObject:
    """Find the lines of a text that contain a phrase, in any case; the first 100 are shown."""
    wanted, lines = query.casefold(), enumerate(text.splitlines(), 1)
    found = [{"line": number, "text": line} for number, line in lines if wanted in line.casefold()]
    return {"matches": found[:MAX_MATCHES], "total": len(found)}


if __name__ == "__main__":
    SERVER.run()
