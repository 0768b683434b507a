"""The faults that the workbench must survive, as data: every core row has a test, every other one a test or a reason.

A: servers, B: what they list, C: configuration and secrets, D: clients and the life of the process, E: HTTP, F: logs
and output.
A test carries its rows in `@pytest.mark.row("A1", ...)`. `python -m tests.faults.rows > tests/faults/README.md` writes
the map of rows to tests.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
README = Path(__file__).parent / "README.md"
SECTIONS = {
    "A": "Servers on stdio",
    "B": "Lists and names",
    "C": "Configuration and secrets",
    "D": "Clients, and the life of the process",
    "E": "HTTP, both sides",
    "F": "Logs and output",
}


class Row(NamedTuple):
    """One fault. A core row has a test; another one may have the reason why it has none."""

    fault: str
    core: bool = False
    reason: str = ""


class Carrier(NamedTuple):
    """A test and one row that it carries."""

    row: str
    path: Path
    test: str


PINS = "Pinned definitions and the search for poisoned texts are not part of this version."

ROWS: dict[str, Row] = {
    "A1": Row("A server crashes during a call.", core=True),
    "A2": Row("A server dies at its start.", core=True),
    "A3": Row("A server's command is missing or not executable, or its folder is gone."),
    "A4": Row("A server never answers its opening.", core=True),
    "A5": Row("A server takes long to start.", core=True),
    "A6": Row("A server never answers a list.", core=True),
    "A7": Row("A server never answers a call, or answers it too late.", core=True),
    "A8": Row("A server reports progress for ever and no result."),
    "A9": Row("A server prints a banner or garbage on its stdout.", core=True),
    "A10": Row("A server sends 100 MB in one line.", core=True),
    "A11": Row("A server trickles a message that never ends."),
    "A12": Row("A server floods its stderr.", core=True),
    "A13": Row("A server closes its stdout and keeps running."),
    "A14": Row("A server stops reading its stdin."),
    "A15": Row("A server answers with malformed messages.", core=True),
    "A16": Row("A server sends half surrogate pairs, NUL, or line separators in a text.", core=True),
    "A17": Row("A server answers twice, answers unknown ids, or answers in advance.", core=True),
    "A18": Row("A server answers one call with the id of another.", core=True),
    "A19": Row("A server asks its client: sampling, elicitation, roots."),
    "A20": Row("A server sends a storm of `list_changed`."),
    "A21": Row("A server changes a tool after it was approved.", core=True, reason=PINS),
    "A22": Row("A server hides instructions in what it lists.", core=True, reason=PINS),
    "A23": Row("A server's description speaks of another server's tool.", reason=PINS),
    "A24": Row("A server leaves processes behind, in its group or in a session of their own.", core=True),
    "A25": Row("Servers ignore the end of their input and SIGTERM.", core=True),
    "A26": Row("A server forks without end or takes all memory."),
    "A27": Row("A server ends again and again."),
    "A28": Row("A server leaves a process behind that hides its environment and left its group.", core=True),
    "A29": Row("A server sends notifications without end.", core=True),
    "B1": Row("A server lists a thousand tools in pages of fifty.", core=True),
    "B2": Row("A server's list never ends.", core=True),
    "B3": Row("A server lists two tools of one name."),
    "B4": Row("A schema is huge, deep, many-parted, a cycle, or refers to the network.", core=True),
    "B5": Row("Tools have names of any characters and any length.", core=True),
    "B6": Row("Names of servers or toolboxes collide or nearly do.", core=True),
    "B7": Row("A tool is named like a tool of the workbench."),
    "B8": Row("A server says that it is another one."),
    "B9": Row("A server lists legal definitions that are costly to check, index or render.", core=True),
    "C1": Row("The configuration has a key that does not exist.", core=True),
    "C2": Row("The configuration has a key twice.", core=True),
    "C3": Row("The configuration is no readable file, or no JSON.", core=True),
    "C4": Row("A variable of the configuration is missing, nested, or written where it is no variable."),
    "C5": Row("A secret would stand in an error, a log, an answer or a traceback.", core=True),
    "C6": Row("A server would see the environment of another one, or of the workbench.", core=True),
    "C7": Row("The configuration comes from a folder that is not trusted."),
    "C8": Row("A command, its arguments or an address hold characters that a shell would read."),
    "C9": Row("The configuration changes while calls are under way."),
    "C10": Row("A name in the configuration is a path out of a folder.", core=True),
    "D1": Row("A client goes away or cancels during a call.", core=True),
    "D2": Row("A hundred callers open one toolbox at once.", core=True),
    "D3": Row("A toolbox is opened or a tool is called while the workbench closes.", core=True),
    "D4": Row("The workbench gets a signal, the end of its input, or a broken output.", core=True),
    "D5": Row("The workbench is killed.", core=True),
    "D6": Row("Processes, descriptors, tasks or memory leak over many opens and closes.", core=True),
    "D7": Row("A client floods the workbench with calls.", core=True),
    "D8": Row("A client sends garbage, huge lines, deep JSON, batches, or unknown methods.", core=True),
    "D9": Row("A client names what does not exist, or sends wrong arguments."),
    "D10": Row("Something in the process prints to stdout.", core=True),
    "D11": Row("The event loop is blocked."),
    "D12": Row("The clock of the machine jumps."),
    "D14": Row("A client does not read its answers, or has more under way than fits into memory.", core=True),
    "E1": Row("A remote server wants other credentials.", core=True),
    "E2": Row("The session at a remote server has expired.", core=True),
    "E3": Row("A remote server gets too many requests, or fails.", core=True),
    "E4": Row("A remote server can't be reached, breaks off, or is no MCP server.", core=True),
    "E5": Row("A remote server's answer does not end.", core=True),
    "E6": Row("A remote server sends 300 MB, plain or compressed.", core=True),
    "E7": Row("A remote server leads elsewhere: by a redirect, or by its name.", core=True),
    "E8": Row("What a client sent along would reach a server: its token, its cookies, its session.", core=True),
    "E9": Row("A client has no token, a wrong one, or two.", core=True),
    "E10": Row("A request comes from a page or for a host that it should not.", core=True),
    "E11": Row("A client's request is too large, too slow, or lies about its length.", core=True),
    "E12": Row("The headers of a request say something else than its body."),
    "E13": Row("A session is guessed, stolen or used with other credentials.", core=True),
    "E14": Row("The workbench would listen to the network without a token."),
    "E15": Row("Credentials would travel over plain http."),
    "E16": Row("A remote server sends interim responses, tiny chunks or comments without end.", core=True),
    "E17": Row("Connections without a token crowd out clients that have one.", core=True),
    "E18": Row("Clients over HTTP read nothing, or send bodies that do not end, until memory is full.", core=True),
    "F1": Row("Names, errors and stderr hold line ends, escapes or invisible characters.", core=True),
    "F2": Row("A result holds escapes or invisible text."),
    "F3": Row("A server's error text holds paths or tokens, or is long."),
    "F4": Row("The log can't be written."),
}


@cache
def carriers() -> list[Carrier]:
    """Every row that a test carries."""
    return [
        Carrier(row, path, function.name)
        for path, function in functions(TESTS)
        for decorator in function.decorator_list
        for row in rows_of(decorator)
    ]


def functions(folder: Path) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every test below a folder, read from the syntax trees."""
    for path in sorted(folder.rglob("test_*.py")):
        yield from ((path, test) for test in tests_of(path))


@cache
def tests_of(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Those of a file, and of the classes in it: what stands in a function is no test."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    places: list[ast.Module | ast.ClassDef] = [ast.parse(path.read_text(encoding="utf-8"))]
    for place in places:
        places += [node for node in place.body if isinstance(node, ast.ClassDef)]
        named = [node for node in place.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        found += [node for node in named if node.name.startswith("test_")]
    return found


def rows_of(decorator: ast.expr) -> list[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.row":
        return [ast.literal_eval(argument) for argument in decorator.args]
    return []


def table() -> str:
    """The text of README.md."""
    lines = [
        "# Rows and tests",
        "",
        (
            "`python -m tests.faults.rows > tests/faults/README.md` writes this file, and a test keeps it current. Each"
            " row is a fault of a server, a client or the system, with the tests that inject it; they define the "
            "promised behaviour and every number. A star marks the core."
        ),
        "",
        (
            "Row D6 opens and closes a hundred servers. `LEAK_OPENS=1000 make test ARGS=tests/faults/test_leaks.py` "
            "opens a thousand, which takes half a minute."
        ),
    ]
    for letter, title in SECTIONS.items():
        lines += ["", f"## {letter}. {title}", "", "| row | | fault | tests |", "|---|---|---|---|"]
        for number, row in ROWS.items():
            if number[0] == letter:
                tests = [held for held in carriers() if held.row == number]
                lines.append(f"| {number} | {'★' if row.core else ''} | {row.fault} | {cell(row, tests)} |")
    return "\n".join(lines) + "\n"


def cell(row: Row, tests: list[Carrier]) -> str:
    if not tests:
        return row.reason or "none"
    by_file: dict[Path, list[str]] = {}
    for held in tests:
        by_file.setdefault(held.path.relative_to(TESTS), []).append(f"`{held.test}`")
    return "<br>".join(f"**{path.as_posix()}**<br>" + "<br>".join(names) for path, names in by_file.items())


if __name__ == "__main__":
    sys.stdout.write(table())
