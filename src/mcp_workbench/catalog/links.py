"""Resources that servers named in their results, so that a client can read them though no list has them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Raw

from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits


class _Resource(msgspec.Struct):
    uri: str = ""


class _Block(msgspec.Struct):
    """A content block: a link has an `uri`, an embedded resource a `resource`."""

    uri: str = ""
    resource: _Resource | None = None


class _Message(msgspec.Struct):
    content: _Block | list[_Block] = []


class _Result(msgspec.Struct):
    """What of a result may name resources: of a tool, or of a prompt."""

    content: list[_Block] = []
    messages: list[_Message] = []


_decoder = msgspec.json.Decoder(_Result)
_MARK = b'"uri"'


class Links:
    """Which servers named a resource, for as many as fit."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._servers: OrderedDict[str, set[ServerIdentifier]] = OrderedDict()

    def remember(self, server: ServerIdentifier, result: Raw) -> None:
        """Take note of what a result names. One that is not as the protocol has it names nothing."""
        text = bytes(result)
        if _MARK not in text or text.count(b"{") > self._limits.link_objects:
            return
        try:
            found = _decoder.decode(result)
        except (msgspec.DecodeError, RecursionError):
            return
        self.add(server, _uris(found))

    def add(self, server: ServerIdentifier, uris: Iterable[str]) -> None:
        """Record URIs that a server named."""
        for uri in uris:
            if uri and len(uri) <= self._limits.uri_length:
                named = self._servers.setdefault(uri, set())
                named.add(server)
                self._servers.move_to_end(uri)
        while len(self._servers) > self._limits.known_uris:
            self._servers.popitem(last=False)

    def find(self, uri: str) -> frozenset[ServerIdentifier]:
        """The servers that named it. One that names another's resource does not take its place."""
        return frozenset(self._servers.get(uri, ()))


def _uris(result: _Result) -> Iterator[str]:
    blocks = list(result.content)
    for message in result.messages:
        blocks += message.content if isinstance(message.content, list) else [message.content]
    for block in blocks:
        yield block.uri
        yield block.resource.uri if block.resource is not None else ""
