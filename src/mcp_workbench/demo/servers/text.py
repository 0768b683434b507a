"""Small operations on text: count, slugify, wrap, compare, search. A handshake-era server.

Its `search` has the same name as the one of the notes server.
"""

from __future__ import annotations

import difflib
import re
import textwrap
import unicodedata
from typing import TYPE_CHECKING

from mcp_workbench.demo.arguments import object_schema
from mcp_workbench.demo.server import Server
from mcp_workbench.demo.stdio import serve
from mcp_workbench.demo.tool import Tool

if TYPE_CHECKING:
    from mcp_workbench.demo.arguments import Schema
    from mcp_workbench.demo.tool import JsonObject

WORDS_PER_MINUTE = 230
MAX_MATCHES = 100

_TEXT: Schema = {"type": "string", "description": "The text to work on", "maxLength": 200_000}
# Comparing costs the product of both lengths in the worst case.
_SIDE: Schema = {"type": "string", "maxLength": 20_000}
_COUNT: Schema = {"type": "integer", "minimum": 0}


def count_words(text: str) -> JsonObject:
    """Words, characters, lines and the minutes it takes to read them."""
    words = len(text.split())
    return {
        "words": words,
        "characters": len(text),
        "lines": len(text.splitlines()),
        "reading_minutes": round(words / WORDS_PER_MINUTE, 1),
    }


def slugify(text: str) -> JsonObject:
    """The text as part of a URL: lower case, ASCII letters and digits, hyphens between."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return {"slug": "-".join(re.findall(r"[a-z0-9]+", ascii_only.lower()))}


def wrap_text(text: str, width: int = 72) -> str:
    """The text with lines of at most `width` characters; blank lines part paragraphs."""
    paragraphs = re.split(r"\n\s*\n", text.strip())
    return "\n\n".join(textwrap.fill(" ".join(paragraph.split()), width) for paragraph in paragraphs)


def diff_texts(before: str, after: str) -> str:
    """A unified diff of the two texts."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")
    return "\n".join(lines) or "The texts are the same, line by line."


def search(text: str, query: str) -> JsonObject:
    """The lines that contain the query, in any case, with their numbers."""
    wanted = query.casefold()
    found = [
        {"line": number, "text": line}
        for number, line in enumerate(text.splitlines(), 1)
        if wanted in line.casefold()
    ]  # fmt: skip
    return {"matches": found[:MAX_MATCHES], "total": len(found)}


TOOLS = (
    Tool(
        name="count_words",
        title="Count words",
        description="Count words, characters and lines, and estimate the minutes it takes to read the text.",
        run=count_words,
        input=object_schema({"text": _TEXT}),
        output=object_schema(
            {"words": _COUNT, "characters": _COUNT, "lines": _COUNT, "reading_minutes": {"type": "number"}}
        ),
    ),
    Tool(
        name="slugify",
        title="Make a slug",
        description="Turn a heading into part of a URL: lower-case ASCII letters and digits with hyphens between.",
        run=slugify,
        input=object_schema({"text": {**_TEXT, "maxLength": 1000}}),
        output=object_schema({"slug": {"type": "string"}}),
    ),
    Tool(
        name="wrap_text",
        title="Wrap text",
        description="Break paragraphs into lines of a given width. A blank line starts a new paragraph.",
        run=wrap_text,
        input=object_schema(
            {
                "text": _TEXT,
                "width": {
                    "type": "integer",
                    "description": "Longest line, in characters",
                    "minimum": 10,
                    "maximum": 500,
                    "default": 72,
                },
            },
            optional=["width"],
        ),
    ),
    Tool(
        name="diff_texts",
        title="Compare two texts",
        description="Show what changed between two texts, line by line, as a unified diff.",
        run=diff_texts,
        input=object_schema(
            {"before": {**_SIDE, "description": "The old text"}, "after": {**_SIDE, "description": "The new text"}}
        ),
    ),
    Tool(
        name="search",
        title="Search in a text",
        description=f"Find the lines of a text that contain a phrase, in any case; the first {MAX_MATCHES} are shown.",
        run=search,
        input=object_schema(
            {
                "text": _TEXT,
                "query": {"type": "string", "description": "The phrase to look for", "minLength": 1, "maxLength": 200},
            }
        ),
        output=object_schema(
            {
                "matches": {
                    "type": "array",
                    "items": object_schema({"line": {"type": "integer", "minimum": 1}, "text": {"type": "string"}}),
                },
                "total": _COUNT,
            }
        ),
    ),
)

SERVER = Server(
    name="text",
    title="Text",
    instructions="Works on the text that it is given; keeps nothing.",
    tools=TOOLS,
)

if __name__ == "__main__":
    serve(SERVER)
