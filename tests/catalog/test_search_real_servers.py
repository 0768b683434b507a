"""Search and answers over the tools of 15 real servers.

`real_servers.jsonl` holds their definitions, as LiveMCPBench (Apache-2.0) and mcpproxy-go (MIT) recorded them.
`paraphrases.jsonl` holds everyday requests for them, written from what each server is for and without a look at its
tools. Synonyms may be added for what the tuned half misses. No synonym may come from the words of the held-out half:
it measures how requests fare that nobody prepared for.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import render, signature
from mcp_workbench.catalog.rendering.budget import estimate
from mcp_workbench.catalog.search.index import Index
from mcp_workbench.catalog.snapshot import Found, Opened
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.surfaces import open_response
from mcp_workbench.surfaces.arguments import OpenArguments
from tests.support.tokens import cost


def lines(name: str) -> list[dict[str, Any]]:
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


REQUESTS = lines("paraphrases.jsonl")
TOOLS: list[Found] = [
    (ToolIdentifier("all", one["server"], one["tool"]["name"]), Definition.read(Raw(json.dumps(one["tool"]).encode())))
    for one in lines("real_servers.jsonl")
]
SERVERS = list(dict.fromkeys(identifier.server for identifier, _ in TOOLS))


@pytest.fixture(scope="module")
def index() -> Index:
    index = Index()
    for server in SERVERS:
        index.put(ServerIdentifier("all", server), [tool for identifier, tool in TOOLS if identifier.server == server])
    return index


@pytest.mark.parametrize(("half", "least"), [("tuned", 0.85), ("held out", 0.73)])
def test_everyday_requests_find_their_server_among_the_first_five(index: Index, half: str, least: float):
    asked = [one for one in REQUESTS if one["half"] == half]
    missed = [
        one["query"]
        for one in asked
        if one["server"] not in {hit.identifier.server for hit in index.search(one["query"], 5).hits}
    ]
    assert len(REQUESTS) >= 150
    assert len(SERVERS) == 15
    assert len(missed) <= (1 - least) * len(asked), missed


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("remember that my sister lives in Oslo", "add_observations"),
        ("forget a person", "delete_entities"),
        ("what do I know about Ann", "read_graph"),
        ("save my work", "git_commit"),
    ],
)
def test_what_people_ask_first_is_found_and_not_called_weak(index: Index, query: str, tool: str):
    hits, is_weak = index.search(query, 5)
    assert not is_weak
    assert tool in {hit.identifier.tool for hit in hits}


@pytest.mark.parametrize(
    ("query", "server"),
    [
        ("un container docker démarrer", "docker-mcp"),
        ("Relationen und Entitäten löschen", "memory"),
        ("Entität hinzufügen", "memory"),
        ("Tabelle mit 3 Spalten erstellen", "sqlite"),
        ("Zeitzone konvertieren", "time"),
        ("den Branch wechseln und committen", "git"),
        ("repositorio de git, lista de ramas", "git"),
        ("convertir l'heure, fuseau horaire Europe/Paris", "time"),
        ("temperatura en Madrid", "weather"),
        ("la transcription de la vidéo", "youtube-transcript"),
        ("查看 wikipedia 文章", "wikipedia"),
        ("用 docker 启动 container", "docker-mcp"),
    ],
)
def test_a_query_in_a_different_language_finds_what_is_spelled_alike(index: Index, query: str, server: str):
    hits, is_weak = index.search(query, 5)
    assert not is_weak
    assert server in {hit.identifier.server for hit in hits}


@pytest.mark.parametrize("show", [render.entry, signature.entry, signature.lean, signature.outline, signature.brief])
def test_the_estimate_is_within_a_tenth_of_the_count(show: Any):
    text = b"[" + b",".join(bytes(show(*one)) for one in TOOLS) + b"]"
    assert 1 <= estimate(text) / cost(text.decode()) <= 1.1


@pytest.mark.parametrize("show", [render.entry, signature.entry, signature.lean, signature.outline, signature.brief])
def test_the_estimate_of_each_server_is_within_a_tenth_of_the_count(show: Any):
    for server in SERVERS:
        shown = b",".join(bytes(show(*one)) for one in TOOLS if one[0].server == server)
        if (real := cost(shown.decode())) >= 300:
            assert 0.9 <= estimate(shown) / real <= 1.1, server


@pytest.mark.parametrize("budget", [500, 1000, 2000, 4000, 8000, 16_000, 30_000])
def test_no_answer_costs_more_than_its_budget(budget: int):
    for server in (None, *SERVERS):
        found = tuple(one for one in TOOLS if server in (None, one[0].server))
        opened = Opened(toolbox="all", description="Everything", found=found, live=("one",))
        limits = Limits(open_budget_tokens=budget)
        answer = asyncio.run(open_response.opened(opened, found, OpenArguments("all"), limits))
        text = json.loads(bytes(answer))["content"][0]["text"]
        assert cost(text) <= budget, server
