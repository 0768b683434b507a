"""What tools mean, as far as an embedder can tell: how near a query is to each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

from mcp_workbench.identity import ServerIdentifier

Vectors: TypeAlias = Any
"""What texts mean, in a form that only the embedder that made it reads."""


class Embedder(Protocol):
    """Tells how near texts are in meaning."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """What each of the texts means."""
        ...

    def nearness(self, query: str, vectors: Sequence[Vectors]) -> list[list[float]]:
        """How near a query is to each text of each group: 1 is the same, 0 and less has nothing to do with it."""
        ...


class Meanings:
    """What the tools of an index mean, by their numbers there."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._numbers: dict[ServerIdentifier, range] = {}
        self._vectors: dict[ServerIdentifier, Vectors] = {}

    def put(self, server: ServerIdentifier, numbers: range, texts: Sequence[str]) -> None:
        """These are the tools of a server, and a text on each."""
        self._numbers[server] = numbers
        self._vectors[server] = self._embedder.embed(texts)

    def drop(self, server: ServerIdentifier) -> None:
        """A server is gone."""
        self._numbers.pop(server, None)
        self._vectors.pop(server, None)

    def near(self, query: str, toolbox: str | None) -> dict[int, float]:
        """How near a query is to each tool that it has anything to do with."""
        servers = [server for server in self._numbers if toolbox is None or server.toolbox == toolbox]
        found = self._embedder.nearness(query, [self._vectors[server] for server in servers])
        return {
            number: value
            for server, values in zip(servers, found, strict=True)
            for number, value in zip(self._numbers[server], values, strict=True)
            if value > 0
        }
