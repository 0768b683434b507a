"""Which tools of a server are offered: `toolFilters`.

Names, globs and annotations (`@readOnly`) choose, a leading `!` excludes, and an exclusion always
wins. Only exclusions: everything else is offered. Annotations mean what the protocol says they mean
when they are absent: a tool is destructive and open-world unless it says otherwise.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mcp_workbench.catalog.definition import Definition


def _is_read_only(annotations: Mapping[str, Any]) -> bool:
    return annotations.get("readOnlyHint") is True


ANNOTATIONS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "@readOnly": _is_read_only,
    "@destructive": lambda hints: not _is_read_only(hints) and hints.get("destructiveHint") is not False,
    "@idempotent": lambda hints: _is_read_only(hints) or hints.get("idempotentHint") is True,
    "@openWorld": lambda hints: hints.get("openWorldHint") is not False,
}


class ToolFilter:
    """The filters of one server."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)
        self._include = tuple(pattern for pattern in self._patterns if not pattern.startswith("!"))
        self._exclude = tuple(pattern for pattern in self._patterns if pattern.startswith("!"))

    def __bool__(self) -> bool:
        """False where everything is offered."""
        return bool(self._patterns)

    def allows(self, tool: Definition) -> bool:
        if any(_matches(pattern[1:], tool) for pattern in self._exclude):
            return False
        return not self._include or any(_matches(pattern, tool) for pattern in self._include)

    def unmatched(self, tools: Iterable[Definition]) -> list[str]:
        """The filters that match none of the tools: probably misspelt."""
        listed = tuple(tools)
        return [
            pattern
            for pattern in self._patterns
            if not any(_matches(pattern.removeprefix("!"), tool) for tool in listed)
        ]


def _matches(pattern: str, tool: Definition) -> bool:
    if (holds := ANNOTATIONS.get(pattern)) is not None:
        return holds(tool.annotations())
    return tool.name == pattern or fnmatch.fnmatchcase(tool.name, pattern)
