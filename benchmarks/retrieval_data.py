"""Catalogs and questions of public benchmarks, and a large catalog that is made from them.

They lie outside of the repository: `catalog.jsonl` with one tool per line in each folder, and questions beside it whose
`gold_groups` name the tools that answer them. A group is satisfied by any one of its tools.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

SETS = {
    "livemcpbench": ("livemcpbench", "queries"),
    "agent_queries": ("livemcpbench", "agent_queries"),
    "step_queries": ("livemcpbench", "step_queries"),
    "stabletoolbench": ("stabletoolbench", "queries"),
    "mcpproxy_golden": ("mcpproxy_golden", "queries"),
}
"""The folder and the file of questions of each set."""

REPLACED = 0.5
"""Of the words of a tool that is made up from another: enough that it answers no question of that."""

STORED_SERVERS = 2000
"""Servers that the workbench's store remembers."""

Tool = tuple[str, str]
"""Server and tool."""
Entry = dict[str, Any]
"""A tool: its `toolbox`, `server` and `definition`."""


class NoData(Exception):
    """The data is not where it should be; the message says what to do."""


@dataclass(frozen=True)
class Question:
    text: str
    groups: list[set[Tool]]


@dataclass(frozen=True)
class Set:
    """Questions about one catalog."""

    name: str
    folder: str
    entries: list[Entry]
    questions: list[Question]


def load(place: Path) -> dict[str, Set]:
    """Every set, by its name."""
    if not place.is_dir():
        raise NoData(f"There is no retrieval data in {place}; name its folder with --data.")
    try:
        return {name: _read(place, name, folder, file) for name, (folder, file) in SETS.items()}
    except (OSError, ValueError, KeyError) as error:
        raise NoData(f"The retrieval data in {place} can't be read: {error!r}") from error


def _read(place: Path, name: str, folder: str, file: str) -> Set:
    entries = [_entry(tool) for tool in _lines(place / folder / "catalog.jsonl")]
    questions = [
        Question(one["query"], [{(server, tool) for server, tool in group} for group in one["gold_groups"]])
        for one in _lines(place / folder / f"{file}.jsonl")
    ]
    return Set(name, folder, entries, questions)


def _entry(tool: dict[str, Any]) -> Entry:
    """A tool in the toolbox of its server's category, as people group servers; without one, in a toolbox for all."""
    definition = {
        "name": tool["tool"],
        "description": tool["description"] or "",
        "inputSchema": tool["inputSchema"] or {"type": "object"},
    }
    return {"toolbox": tool.get("category") or "default", "server": tool["server"], "definition": definition}


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def copied(entries: list[Entry], copies: int) -> list[Entry]:
    """The same servers in several toolboxes, as people have them who configure a toolbox for each project.

    There are fewer copies where the store would not remember so many servers.
    """
    copies = min(copies, STORED_SERVERS // len({(entry["toolbox"], entry["server"]) for entry in entries}))
    return [
        entry if not number else {**entry, "toolbox": f"{entry['toolbox']} {number + 1}"}
        for number in range(copies)
        for entry in entries
    ]


def enlarged(entries: list[Entry], size: int) -> list[Entry]:
    """The same tools, and copies of them in which half of the words are others, until there are so many.

    Words of names, descriptions and servers are replaced by words drawn from all of them, so words stay as common as
    they were; the parameters stay. The same copies are made in every run.
    """
    chance = random.Random(0)  # noqa: S311 -- no secret
    pool = [word for entry in entries for word in re.findall(r"[^\W_]+", _words(entry))]
    result = list(entries)
    while len(result) < size:
        copy = len(result) // len(entries)
        servers: dict[str, str] = {}
        for entry in entries[: size - len(result)]:
            # One server for each toolbox and copy, since the store remembers only so many servers.
            server = servers.setdefault(entry["toolbox"], f"{_varied(entry['server'], pool, chance)} {copy}")
            definition = {
                **entry["definition"],
                "name": f"{_varied(entry['definition']['name'], pool, chance)}_{len(result)}",
                "description": _varied(entry["definition"]["description"], pool, chance),
            }
            result.append({"toolbox": entry["toolbox"], "server": server, "definition": definition})
    return result


def _words(entry: Entry) -> str:
    return f"{entry['server']} {entry['definition']['name']} {entry['definition']['description']}"


def _varied(text: str, pool: list[str], chance: random.Random) -> str:
    return re.sub(r"[^\W_]+", lambda found: chance.choice(pool) if chance.random() < REPLACED else found[0], text)
