"""Splits a query: into sentences, and a long one into the steps of a task."""

from __future__ import annotations

import re

from mcp_workbench.catalog.search.words import words

_SENTENCE = re.compile("(?<=[.!?;])\\s+|\n+|[\u3002\uff01\uff1f\uff1b]")
_CLAUSE = re.compile(
    "(?<=[.!?;:,])\\s+(?:and |then |or |also )?|\n+|[\u3001\u3002\uff01\uff0c\uff1b\uff1f]"
    "|\\s(?:and|then|also|or|\\+)\\s"
)


def sentences(query: str) -> list[str]:
    """The sentences and lines of a query."""
    return [part for part in _SENTENCE.split(query) if part]


def clauses(query: str, least: int) -> list[str]:
    """The clauses of a query, each with a minimum of significant words; shorter ones are joined."""
    found: list[str] = []
    rest = ""
    for part in filter(None, _CLAUSE.split(query)):
        rest = f"{rest}, {part}" if rest else part
        if len(words(rest)) >= least:
            found.append(rest)
            rest = ""
    return [*found[:-1], f"{found[-1]}, {rest}"] if found and rest else found or [query]
