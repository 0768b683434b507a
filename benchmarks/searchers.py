"""The programs whose search is measured: the running workbench, and the libraries that it is compared with.

Each gets the same tools and questions and returns a `Run`. The workbench is `mcp-workbench serve` with one toolbox for
each category; its answers are those that an agent gets. The libraries only rank.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import gateway
import programs
from processes import memory_mb, tree
from programs import Unavailable
from raw_client import RawClient, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from retrieval_data import Entry, Tool

MOST = 10
WARM_UP = 5
ANSWER_SECONDS = 120.0
STOP_SECONDS = 10.0
PEERS = programs.HERE / "peers"


@dataclass
class Run:
    """What one program answered, question by question, and what that took."""

    ranked: list[list[set[Tool]]] = field(default_factory=list[Any])
    """The entries of each answer, best first: one tool, or several with the same definition."""
    weak: list[bool] = field(default_factory=list[bool])
    """Whether the program said that nothing fits."""
    tokens: list[int] = field(default_factory=list[int])
    seconds: list[float] = field(default_factory=list[float])
    build_s: float = 0.0
    memory_mb: float = 0.0


class Searcher(Protocol):
    """A program that finds tools."""

    label: str
    version: str

    def run(self, entries: list[Entry], questions: list[str]) -> Run: ...


@dataclass(frozen=True)
class Library:
    """A search library, run by a script of `peers`."""

    label: str
    version: str
    command: tuple[str, ...]

    def run(self, entries: list[Entry], questions: list[str]) -> Run:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            job = Path(folder) / "job.json"
            job.write_text(json.dumps({"tools": entries, "queries": questions, "most": MOST}))
            told = json.loads(_output(*self.command, str(job)))
        ranked = [[{(server, tool)} for server, tool, _ in hits] for hits in told["ranked"]]
        return Run(
            ranked, [not hits for hits in ranked], [], told["seconds"], told["build_s"], memory_mb=told["memory_mb"]
        )


@dataclass(frozen=True)
class Workbench:
    """`mcp-workbench serve`, whose servers have all listed their tools before."""

    label: str
    version: str
    python: str

    def run(self, entries: list[Entry], questions: list[str]) -> Run:
        with tempfile.TemporaryDirectory(prefix="bench-") as home, (Path(home) / "stderr").open("wb") as stderr:
            config = self._remembered(entries, home)
            client = RawClient(
                (self.python, "-m", "mcp_workbench", "serve", "--config", config),
                env=_environment(home),
                cwd=Path(home),
                stderr=stderr,
                timeout_seconds=ANSWER_SECONDS,
            )
            try:
                return _asked(client, questions)
            finally:
                client.stop(STOP_SECONDS)

    def _remembered(self, entries: list[Entry], home: str) -> str:
        config, tools = Path(home) / "workbench-config.json", Path(home) / "tools.json"
        config.write_text(json.dumps(configuration(entries)))
        tools.write_text(json.dumps(grouped(entries)))
        _output(self.python, str(PEERS / "remember_tools.py"), str(config), str(tools), env=_environment(home))
        return str(config)


def _environment(home: str) -> dict[str, str]:
    """An empty home, and the store in it whatever ours says."""
    return {**gateway.environment(home), "WORKBENCH_CATALOG": str(Path(home) / "catalog.sqlite")}


def _asked(client: RawClient, questions: list[str]) -> Run:
    client.initialize()
    run, before = Run(), memory_mb(tree(client.pid)[:1])
    run.build_s, _ = client.timed(_request(questions[0]))  # the first search makes the index
    run.memory_mb = memory_mb(tree(client.pid)[:1]) - before
    for question in questions[:WARM_UP]:
        client.request(_request(question))
    for question in questions:
        seconds, result = client.timed(_request(question))
        text = result["content"][0]["text"]
        tools = json.loads(text)["tools"]
        run.ranked.append([_named(tool) for tool in tools])
        run.weak.append(not tools or any(tool.get("weak") for tool in tools))
        run.tokens.append(tokens(text))
        run.seconds.append(seconds)
    return run


def _named(tool: dict[str, Any]) -> set[Tool]:
    others = (other["server"] for other in tool.get("also_in", ()))
    return {(server, tool["name"]) for server in (tool["source_server"], *others)}


def _request(question: str) -> Request:
    return Request.tool("open_toolbox", {"toolbox": "*", "query": question})


def configuration(entries: list[Entry]) -> dict[str, Any]:
    """A configuration with one toolbox for each category, described by its name alone."""
    boxes = {
        toolbox: {
            "description": toolbox,
            "mcpServers": {server: {"command": "true", "args": [toolbox, server]} for server in servers},
        }
        for toolbox, servers in grouped(entries).items()
    }
    return {"toolboxes": boxes, "catalog": {"refresh": "never"}}


def grouped(entries: list[Entry]) -> dict[str, dict[str, list[Any]]]:
    """Definitions by toolbox and server."""
    found: dict[str, dict[str, list[Any]]] = {}
    for entry in entries:
        found.setdefault(entry["toolbox"], {}).setdefault(entry["server"], []).append(entry["definition"])
    return found


def tokens(text: str) -> int:
    """Tokens of o200k."""
    import bpe_openai  # noqa: PLC0415 -- large

    return len(bpe_openai.get_encoding("o200k_base").encode(text))


def _output(*command: str, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise Unavailable(said[-1] if said else f"exit status {done.returncode}")
    return done.stdout


def workbench() -> Searcher:
    return _workbench("workbench", programs.workbench_python())


def base() -> Searcher:
    """The workbench of another worktree, to compare two commits in one run."""
    return _workbench("base", programs.base_python())


def _workbench(label: str, python: str) -> Searcher:
    return Workbench(label, programs.workbench_version(python), python)


def fastmcp() -> Searcher:
    python = programs.install("fastmcp", "fastmcp>=4,<5")
    return Library("fastmcp", programs.version_of(python, "fastmcp"), (python, str(PEERS / "search_fastmcp.py")))


def fts5() -> Searcher:
    import sqlite3  # noqa: PLC0415 -- only for its version

    return Library("fts5", sqlite3.sqlite_version, (sys.executable, str(PEERS / "search_fts5.py")))
