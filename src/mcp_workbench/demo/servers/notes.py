"""Notes that live as long as the process: add, list, search, delete.

A handshake-era server with state, so that calls can be seen to reach the same process.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from mcp_workbench.demo.arguments import object_schema
from mcp_workbench.demo.server import Server
from mcp_workbench.demo.stdio import serve
from mcp_workbench.demo.tool import Tool, ToolError

if TYPE_CHECKING:
    from mcp_workbench.demo.arguments import Schema
    from mcp_workbench.demo.tool import JsonObject

# In memory only, so a client in a loop must not be able to fill it.
MAX_NOTES = 1000

_TITLE: Schema = {"type": "string", "description": "A short heading", "minLength": 1, "maxLength": 200}
_TEXT: Schema = {"type": "string", "description": "The note itself", "maxLength": 20_000}
_TAG: Schema = {"type": "string", "minLength": 1, "maxLength": 50}
_TAGS: Schema = {"type": "array", "description": "Words to group notes by", "items": _TAG, "maxItems": 20}
_ID: Schema = {"type": "integer", "description": "The note's id, as returned when it was added", "minimum": 1}
_NOTE = object_schema({"id": _ID, "title": _TITLE, "text": _TEXT, "tags": _TAGS})
_NOTES = object_schema({"notes": {"type": "array", "items": _NOTE}})


class Notebook:
    """The notes of one process, oldest first."""

    def __init__(self) -> None:
        self._notes: dict[int, JsonObject] = {}
        self._ids = count(1)

    def add(self, title: str, text: str, tags: list[str] | None = None) -> JsonObject:
        """Keep a new note and return it with its id."""
        if len(self._notes) >= MAX_NOTES:
            raise ToolError(f"There are {MAX_NOTES} notes already. Delete one first.")
        note: JsonObject = {"id": next(self._ids), "title": title, "text": text, "tags": tags or []}
        self._notes[note["id"]] = note
        return note

    def list(self, tag: str | None = None) -> JsonObject:
        """All notes, or those with the tag."""
        return {"notes": [note for note in self._notes.values() if tag is None or tag in note["tags"]]}

    def search(self, query: str) -> JsonObject:
        """The notes that have every word of the query in their title, text or tags."""
        words = query.casefold().split()
        return {"notes": [note for note in self._notes.values() if all(word in _haystack(note) for word in words)]}

    def delete(self, id: int) -> JsonObject:  # noqa: A002 -- the argument's name on the wire
        """Remove the note and return it."""
        if id not in self._notes:
            raise ToolError(f"There is no note {id}. Call list_notes to see which exist.")
        return self._notes.pop(id)


def _haystack(note: JsonObject) -> str:
    return " ".join((note["title"], note["text"], *note["tags"])).casefold()


def make_server(notebook: Notebook) -> Server:
    """The server for one notebook."""
    return Server(
        name="notes",
        title="Notes",
        instructions="Keeps short notes in memory until the server ends.",
        tools=_tools(notebook),
    )


def _tools(notebook: Notebook) -> tuple[Tool, ...]:
    return (
        Tool(
            name="add_note",
            title="Add a note",
            description="Keep a note and return it with its id. Notes last until the server ends.",
            run=notebook.add,
            input=object_schema({"title": _TITLE, "text": _TEXT, "tags": _TAGS}, optional=["tags"]),
            output=_NOTE,
            reads_only=False,
            repeatable=False,
        ),
        Tool(
            name="list_notes",
            title="List notes",
            description="All notes, oldest first; with a tag, only those that carry it.",
            run=notebook.list,
            input=object_schema({"tag": {**_TAG, "description": "Only notes with this tag"}}, optional=["tag"]),
            output=_NOTES,
        ),
        Tool(
            name="search",
            title="Search notes",
            description="Find the notes whose title, text or tags contain every word of the query, in any case.",
            run=notebook.search,
            input=object_schema(
                {"query": {"type": "string", "description": "Words to look for", "minLength": 1, "maxLength": 200}}
            ),
            output=_NOTES,
        ),
        Tool(
            name="delete_note",
            title="Delete a note",
            description="Remove a note for good and return what it said.",
            run=notebook.delete,
            input=object_schema({"id": _ID}),
            output=_NOTE,
            reads_only=False,
            destroys=True,
            repeatable=False,
        ),
    )


if __name__ == "__main__":
    serve(make_server(Notebook()))
