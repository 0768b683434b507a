"""Sanitizes and shortens the instructions that servers send when they connect, for a model's context.

They are foreign text: invisible characters are escaped and the length is bounded. `fitted` keeps the instructions of
several servers within a token budget.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Raw

from mcp_workbench.catalog.rendering.budget import estimate
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import jsonrpc

INSTRUCTIONS_LENGTH = 4000
"""Characters of a server's instructions that are kept: two pages, which is enough for nearly all servers."""
INSTRUCTIONS_LEAST_LENGTH = 120
"""The shortest length that instructions are cut to before whole servers are left out: a sentence or two."""

INSTRUCTIONS_SHARE: Final = 4
"""Instructions take at most `1 / INSTRUCTIONS_SHARE` of the budget: most of it is for the tools."""
_SENTENCE_END: Final = "[.!?](?=\\s)|[\u3002\uff01\uff1f]|(?=\n)"
_TAB_WIDTH: Final = 4


def read_instructions(hello: Raw) -> str:
    """The instructions in a server's answer to `initialize` or `server/discover`; empty if there are none."""
    text = (jsonrpc.text_or_none(jsonrpc.members(hello).get("instructions")) or "").strip()
    cut = shortened(text, INSTRUCTIONS_LENGTH)
    return "\n".join(escape(line.expandtabs(_TAB_WIDTH).rstrip(), len(cut)) for line in cut.splitlines())


def shortened(text: str, length: int) -> str:
    """At most `length` characters plus an ellipsis, cut after a sentence if that keeps half, else after a word."""
    if len(text) <= length:
        return text
    kept = text[:length]
    ends = (found.end() for found in re.compile(_SENTENCE_END).finditer(text, 0, length + 1))
    end = max((end for end in ends if end <= length), default=0)
    if end < length // 2:
        words = kept if text[length].isspace() else kept.rpartition(" ")[0]
        return f"{(words or kept).rstrip()}…"
    return f"{kept[:end].rstrip()} …"


def fitted(texts: Mapping[str, str], tokens: int) -> dict[str, Any]:
    """The members of an answer for the servers' instructions, in at most `tokens`; empty if there are none.

    Long texts are shortened first. If that is not enough, the last servers are left out and counted.
    """
    fitting, length = dict(texts), INSTRUCTIONS_LENGTH
    while _cost(fitting, texts) > tokens and length > INSTRUCTIONS_LEAST_LENGTH:
        length = max(length // 2, INSTRUCTIONS_LEAST_LENGTH)
        fitting = {server: shortened(text, length) for server, text in texts.items()}
    while fitting and _cost(fitting, texts) > tokens:
        fitting.popitem()
    return _members(fitting, texts)


def _cost(fitting: Mapping[str, str], texts: Mapping[str, str]) -> int:
    members = _members(fitting, texts)
    return estimate(jsonrpc.encode(members)) if members else 0


def _members(fitting: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, Any]:
    left_out = len(texts) - len(fitting)
    members: dict[str, Any] = {"instructions": fitting} if fitting else {}
    return members | ({"instructions_left_out": left_out} if left_out else {})
