"""Read-only SQL over a small sample database in memory. A handshake-era server.

Guarantees: no statement can change the data, reach a file or load code; rows, the size of a value
and the work of a query are bounded.
"""

from __future__ import annotations

import math
import sqlite3
from typing import TYPE_CHECKING, Any

from mcp_workbench.demo.arguments import object_schema
from mcp_workbench.demo.server import Server
from mcp_workbench.demo.stdio import serve
from mcp_workbench.demo.tool import Tool, ToolError

if TYPE_CHECKING:
    from mcp_workbench.demo.arguments import Schema
    from mcp_workbench.demo.tool import JsonObject

MAX_ROWS = 200
# Together they keep the largest answer small enough for memory.
_VALUE_BYTES = 10_000
_MAX_COLUMNS = 20
# The engine asks back every so many of its steps; after so many answers (about two seconds) it stops.
_STEPS_PER_CHECK = 100_000
_MAX_CHECKS = 1000

_SAMPLE = """
CREATE TABLE planets (name TEXT PRIMARY KEY, diameter_km INTEGER, day_hours REAL, moons INTEGER);
INSERT INTO planets VALUES
  ('Mercury', 4879, 4222.6, 0), ('Venus', 12104, 2802.0, 0), ('Earth', 12756, 24.0, 1),
  ('Mars', 6792, 24.7, 2), ('Jupiter', 142984, 9.9, 95), ('Saturn', 120536, 10.7, 146),
  ('Uranus', 51118, 17.2, 28), ('Neptune', 49528, 16.1, 16);
CREATE TABLE missions (name TEXT, planet TEXT REFERENCES planets (name), launched INTEGER);
INSERT INTO missions VALUES
  ('Mariner 10', 'Mercury', 1973), ('Venera 7', 'Venus', 1970), ('Viking 1', 'Mars', 1975),
  ('Voyager 2', 'Neptune', 1977), ('Galileo', 'Jupiter', 1989), ('Cassini', 'Saturn', 1997),
  ('Curiosity', 'Mars', 2011), ('Juno', 'Jupiter', 2011);
"""
_HARMLESS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
# What a cell of the answer can be; the kind of JSON Schema that the argument check does not need.
_CELL: Schema = {"type": ["string", "number", "null"]}


def sample_database() -> sqlite3.Connection:
    """A fresh database with the sample tables, closed to everything but reading."""
    # Tools run on another thread than the one that imports them, but always one at a time.
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(_SAMPLE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
    connection.set_authorizer(_permit)
    return connection


def _permit(action: int, *_details: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _HARMLESS else sqlite3.SQLITE_DENY


class Database:
    """The tools of one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def list_tables(self) -> JsonObject:
        """Every table with the statement that made it."""
        rows = self._run("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name", MAX_ROWS)[1]
        return {"tables": [{"name": name, "definition": sql} for name, sql in rows]}

    def query(self, sql: str, limit: int = 50) -> JsonObject:
        """The columns and the first rows of a SELECT."""
        columns, rows = self._run(sql, limit + 1)
        return {"columns": columns, "rows": rows[:limit], "more": len(rows) > limit}

    def _run(self, sql: str, most: int) -> tuple[list[str], list[list[Any]]]:
        checks = iter(range(_MAX_CHECKS))
        self._connection.set_progress_handler(lambda: next(checks, None) is None, _STEPS_PER_CHECK)
        try:
            cursor = self._connection.execute(sql)
            rows = [[_cell(value) for value in row] for row in cursor.fetchmany(most)]
            columns = [column[0] for column in cursor.description or ()]
            cursor.close()
        # Several statements are a Warning, a NUL or a lone surrogate in the text a ValueError.
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            raise ToolError(_explained(error)) from None
        return columns, rows


def _cell(value: object) -> object:
    """What JSON can hold: bytes are named by their size, infinity by its name."""
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _explained(error: Exception) -> str:
    text = str(error)
    if text in ("not authorized", "authorization denied"):
        return "Only SELECT statements are allowed: this database is read-only"
    if text == "interrupted":
        return "The query takes too long and was stopped"
    return f"The query failed: {text}. Call list_tables to see what exists."


def make_server(database: Database) -> Server:
    """The server for one database."""
    return Server(
        name="database",
        title="Sample database",
        instructions="A read-only SQLite database about planets and the missions to them.",
        tools=_tools(database),
    )


def _tools(database: Database) -> tuple[Tool, ...]:
    text: Schema = {"type": "string"}
    table = object_schema({"name": text, "definition": text})
    limit: Schema = {"type": "integer", "description": "At most so many rows", "minimum": 1, "maximum": MAX_ROWS}
    return (
        Tool(
            name="list_tables",
            title="List tables",
            description="The tables of the database, each with the SQL statement that defines its columns.",
            run=database.list_tables,
            input=object_schema({}),
            output=object_schema({"tables": {"type": "array", "items": table}}),
        ),
        Tool(
            name="query",
            title="Query the database",
            description="Run one SELECT statement (SQLite) and return its columns and rows. Nothing can be changed.",
            run=database.query,
            input=object_schema(
                {
                    "sql": {"type": "string", "description": "A SELECT", "minLength": 1, "maxLength": 5000},
                    "limit": {**limit, "default": 50},
                },
                optional=["limit"],
            ),
            output=object_schema(
                {
                    "columns": {"type": "array", "items": text},
                    "rows": {"type": "array", "items": {"type": "array", "items": _CELL}},
                    "more": {"type": "boolean", "description": "Whether there are rows beyond the limit"},
                }
            ),
        ),
    )


if __name__ == "__main__":
    serve(make_server(Database(sample_database())))
