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

    def join(self, groups: Sequence[Vectors]) -> Vectors:
        """What the texts of all groups mean, in their order."""
        ...

    def nearness(self, query: str, vectors: Vectors) -> list[float]:
        """How near a query is to each text: 1 is the same, 0 and less has nothing to do with it."""
        ...


class Meanings:
    """What the tools of an index mean, by their numbers there."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._servers: dict[ServerIdentifier, tuple[range, Vectors]] = {}
        self._joined: dict[str | None, tuple[list[int], Vectors]] = {}

    def put(self, server: ServerIdentifier, numbers: range, texts: Sequence[str]) -> None:
        """These are the tools of a server, and a text on each."""
        self._joined.clear()
        self._servers[server] = (numbers, self._embedder.embed(texts))

    def drop(self, server: ServerIdentifier) -> None:
        """A server is gone."""
        self._joined.clear()
        self._servers.pop(server, None)

    def near(self, query: str, toolbox: str | None) -> dict[int, float]:
        """How near a query is to each tool that it has anything to do with, in one toolbox or all."""
        if toolbox not in self._joined:
            self._joined[toolbox] = self._join(toolbox)
        numbers, vectors = self._joined[toolbox]
        values = self._embedder.nearness(query, vectors) if numbers else []
        return {number: value for number, value in zip(numbers, values, strict=True) if value > 0}

    def _join(self, toolbox: str | None) -> tuple[list[int], Vectors]:
        chosen = [entry for server, entry in self._servers.items() if entry[0] and toolbox in (None, server.toolbox)]
        numbers = [number for found, _ in chosen for number in found]
        return numbers, self._embedder.join([vectors for _, vectors in chosen]) if chosen else None
