"""Read-only SQL over a small sample database in memory. A handshake-era server.

Guarantees: no statement can change the data, access a file or load code. The number of rows, the size of a value and
the work of a query are limited.
"""

from __future__ import annotations

import math
import sqlite3
from typing import Any

from mcp_workbench.demo.server import JsonObject, Schema, Server, ToolError, object_schema

MAX_ROWS = 200
# Together they limit the size of an answer.
_VALUE_BYTES = 10_000
_MAX_COLUMNS = 20
# SQLite calls back every so many steps; after so many calls (about two seconds) the query stops.
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

_TEXT: Schema = {"type": "string"}
_TABLE = object_schema({"name": _TEXT, "definition": _TEXT})
_SQL: Schema = {"type": "string", "description": "A SELECT", "minLength": 1, "maxLength": 5000}
_ROW_COUNT: Schema = {"description": "The most rows to return", "minimum": 1, "maximum": MAX_ROWS, "default": 50}
_LIMIT: Schema = {"type": "integer", **_ROW_COUNT}
# For output only: the argument check does not support several types.
_ROW: Schema = {"type": "array", "items": {"type": ["string", "number", "null"]}}
_MORE: Schema = {"type": "boolean", "description": "Whether there are rows beyond the limit"}


def _sample_database() -> sqlite3.Connection:
    """Create a read-only database with the sample tables."""
    # Tools run on another thread than the import, but one at a time.
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(_SAMPLE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _VALUE_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
    connection.set_authorizer(_permit)
    return connection


def _permit(action: int, *_details: str | None) -> int:
    return sqlite3.SQLITE_OK if action in _HARMLESS else sqlite3.SQLITE_DENY


SERVER = Server("database", "Sample database", "A read-only SQLite database about planets and the missions to them.")
CONNECTION = _sample_database()


@SERVER.tool("List tables", {}, {"tables": {"type": "array", "items": _TABLE}})
def list_tables() -> JsonObject:
    """The tables of the database, each with the SQL statement that defines its columns."""
    rows = _run("SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY name", MAX_ROWS)[1]
    return {"tables": [{"name": name, "definition": sql} for name, sql in rows]}


@SERVER.tool(
    "Query the database",
    {"sql": _SQL, "limit": _LIMIT},
    {"columns": {"type": "array", "items": _TEXT}, "rows": {"type": "array", "items": _ROW}, "more": _MORE},
)
def query(sql: str, limit: int = 50) -> JsonObject:
    """Run one SELECT statement (SQLite) and return its columns and rows. Nothing can be changed."""
    columns, rows = _run(sql, limit + 1)
    return {"columns": columns, "rows": rows[:limit], "more": len(rows) > limit}


def _run(sql: str, most: int) -> tuple[list[str], list[list[Any]]]:
    checks = iter(range(_MAX_CHECKS))
    CONNECTION.set_progress_handler(lambda: next(checks, None) is None, _STEPS_PER_CHECK)
    try:
        cursor = CONNECTION.execute(sql)
        rows = [[_cell(value) for value in row] for row in cursor.fetchmany(most)]
        columns = [column[0] for column in cursor.description or ()]
        cursor.close()
    # Several statements are a Warning, a NUL or a lone surrogate in the text a ValueError.
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise ToolError(_explained(error)) from None
    return columns, rows


def _cell(value: object) -> object:
    """Convert a value to JSON: bytes become their size, infinity its name."""
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


if __name__ == "__main__":
    SERVER.run()
