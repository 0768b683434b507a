"""The head of an HTTP request, with its headers folded once."""

from __future__ import annotations

from collections.abc import Callable, Sized
from functools import lru_cache
from typing import Final, TypeVar

from starlette.types import Scope

T = TypeVar("T", bound=Sized)
R = TypeVar("R")

_USUAL_LENGTH: Final = 256
"""Longer values are not cached: nobody may fill the memory with them."""


def cached_if_short(read: Callable[[T], R]) -> Callable[[T], R]:
    """Cache what was read from a header or a path: clients send the same ones again and again."""
    cached = lru_cache(maxsize=64)(read)
    return lambda value: cached(value) if len(value) <= _USUAL_LENGTH else read(value)


class Head:
    """The method and the headers of a request."""

    __slots__ = ("headers", "method", "repeated")

    def __init__(self, scope: Scope) -> None:
        self.method: str = scope["method"]
        self.headers: dict[str, str] = {}
        """The first value of each header, by its name in lower case."""
        self.repeated: set[str] = set()
        """The names of headers that are there more than once."""
        for raw_name, raw_value in scope["headers"]:
            name = raw_name.decode("latin-1")
            if name in self.headers:
                self.repeated.add(name)
            else:
                self.headers[name] = raw_value.decode("latin-1")

    def single(self, name: str) -> str | None:
        """The value of a header that is there exactly once."""
        return self.headers.get(name) if name not in self.repeated else None
