"""URIs of resources: which server one belongs to.

A resource that one server lists keeps its URI. One that several list gets an URI that names the server;
it can be resolved without any table, so it outlives a connection.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote, unquote

from mcp_workbench.identity import ServerIdentifier

SCHEME = "mcp-workbench://resource/"
_EXPRESSION = r"\{[^{}]*\}"


class Located(NamedTuple):
    """A resource of one server, under the server's own URI."""

    server: ServerIdentifier
    uri: str


def qualified(server: ServerIdentifier, uri: str) -> str:
    """An URI, or a template, that names the server too. The server's own follows as it is."""
    return f"{SCHEME}{quote(server.toolbox, safe='')}/{quote(server.server, safe='')}/{uri}"


def read_qualified(uri: str) -> Located | None:
    """The server and its own URI; None where `uri` names no server."""
    if not uri.startswith(SCHEME):
        return None
    toolbox, _, rest = uri[len(SCHEME) :].partition("/")
    server, _, own = rest.partition("/")
    if not (toolbox and server and own):
        return None
    return Located(ServerIdentifier(unquote(toolbox), unquote(server)), own)


def best_matches(uri: str, templates: Iterable[Located], most_bytes: int) -> set[ServerIdentifier]:
    """The servers whose templates fit an URI best: those with the most literal text.

    Templates beyond `most_bytes` together are not looked at.
    """
    fitting: list[tuple[int, ServerIdentifier]] = []
    size = 0
    for place in templates:
        size += len(place.uri)
        if size > most_bytes:
            break
        if fits(uri, place.uri):
            fitting.append((_literal_length(place.uri), place.server))
    most = max((length for length, _ in fitting), default=0)
    return {server for length, server in fitting if length == most}


def fits(uri: str, template: str) -> bool:
    """Whether an URI can be an expansion of a template. In linear time, whatever a server sends as one."""
    first, *rest = re.split(_EXPRESSION, template)
    if not rest:
        return uri == template
    *middle, last = rest
    if not (uri.startswith(first) and uri.endswith(last) and len(uri) >= len(first) + len(last)):
        return False
    position, end = len(first), len(uri) - len(last)
    for literal in middle:
        position = uri.find(literal, position, end)
        if position < 0:
            return False
        position += len(literal)
    return True


def _literal_length(template: str) -> int:
    return sum(len(literal) for literal in re.split(_EXPRESSION, template))
