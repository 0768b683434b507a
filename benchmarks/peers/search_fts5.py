"""SQLite's full-text index, with the porter stemmer and weights for names: `search_fts5.py JOB`."""

from __future__ import annotations

import re
import sqlite3
from typing import TYPE_CHECKING, Any

import search_job

if TYPE_CHECKING:
    from search_job import Search

TABLE = "CREATE VIRTUAL TABLE tools USING fts5(name, server, description, parameters, tokenize='porter unicode61')"
FIND = """SELECT server, name, -bm25(tools, 3.0, 2.0, 1.0, 0.5) AS score FROM tools
    WHERE tools MATCH ? ORDER BY score DESC LIMIT ?"""


def build(entries: list[dict[str, Any]]) -> Search:
    database = sqlite3.connect(":memory:")
    database.execute(TABLE)
    rows = (
        (entry["definition"]["name"], entry["server"], entry["definition"]["description"], _parameters(entry))
        for entry in entries
    )
    database.executemany("INSERT INTO tools VALUES (?, ?, ?, ?)", rows)

    def search(query: str, most: int) -> list[tuple[str, str, float | None]]:
        words = dict.fromkeys(re.findall(r"[^\W_]+", query.lower()))
        if not words:
            return []
        wanted = " OR ".join(f'"{word}"' for word in words)
        return database.execute(FIND, (wanted, most)).fetchall()

    return search


def _parameters(entry: dict[str, Any]) -> str:
    properties = entry["definition"]["inputSchema"].get("properties") or {}
    texts = [str(one.get("description") or "") for one in properties.values() if isinstance(one, dict)]
    return " ".join([*properties, *texts])


if __name__ == "__main__":
    search_job.run(build)
