"""Notes that live as long as the process: add, list, search, delete.

A handshake-era server with state, which shows that calls reach the same process.
"""

from __future__ import annotations

from itertools import count

from mcp_workbench.demo.server import JsonObject, Schema, Server, ToolError, object_schema

MAX_NOTES = 1000
"""A client in a loop must not be able to fill the memory."""

_TITLE: Schema = {"type": "string", "description": "A short heading", "minLength": 1, "maxLength": 200}
_TEXT: Schema = {"type": "string", "description": "The note itself", "maxLength": 20_000}
_TAG: Schema = {"type": "string", "minLength": 1, "maxLength": 50}
_TAGS: Schema = {"type": "array", "description": "Words to group notes by", "items": _TAG, "maxItems": 20}
_ID: Schema = {"type": "integer", "description": "The note's id, as returned when it was added", "minimum": 1}
_QUERY: Schema = {"type": "string", "description": "Words to look for", "minLength": 1, "maxLength": 200}
_NOTE = {"id": _ID, "title": _TITLE, "text": _TEXT, "tags": _TAGS}
_NOTES = {"notes": {"type": "array", "items": object_schema(_NOTE)}}

SERVER = Server("notes", "Notes", "Keeps short notes in memory until the server ends.")
NOTES: dict[int, JsonObject] = {}
_ids = count(1)


@SERVER.tool(
    "Add a note", {"title": _TITLE, "text": _TEXT, "tags": _TAGS}, _NOTE, readOnlyHint=False, idempotentHint=False
)
def add_note(title: str, text: str, tags: list[str] | None = None) -> JsonObject:
    """Store a note and return it with its id. Notes last until the server ends."""
    if len(NOTES) >= MAX_NOTES:
        raise ToolError(f"There are {MAX_NOTES} notes already. Delete one first.")
    note: JsonObject = {"id": next(_ids), "title": title, "text": text, "tags": tags or []}
    NOTES[note["id"]] = note
    return note


@SERVER.tool("List notes", {"tag": {**_TAG, "description": "Only notes with this tag"}}, _NOTES)
def list_notes(tag: str | None = None) -> JsonObject:
    """List all notes, oldest first, or only those with a tag."""
    return {"notes": [note for note in NOTES.values() if tag is None or tag in note["tags"]]}


@SERVER.tool("Search notes", {"query": _QUERY}, _NOTES)
def search(query: str) -> JsonObject:
    """Find the notes whose title, text or tags contain every word of the query, in any case."""
    words = query.casefold().split()
    return {"notes": [note for note in NOTES.values() if all(word in _haystack(note) for word in words)]}


@SERVER.tool("Delete a note", {"id": _ID}, _NOTE, readOnlyHint=False, destructiveHint=True, idempotentHint=False)
def delete_note(id: int) -> JsonObject:  # noqa: A002 -- the argument's name on the wire
    """Delete a note permanently and return it."""
    if id not in NOTES:
        raise ToolError(f"There is no note {id}. Call list_notes to see which exist.")
    return NOTES.pop(id)


def _haystack(note: JsonObject) -> str:
    return " ".join((note["title"], note["text"], *note["tags"])).casefold()


if __name__ == "__main__":
    SERVER.run()
