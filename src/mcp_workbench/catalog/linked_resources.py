"""Resources that no list needs to contain: links in results, and the UIs (`ui://`, MCP Apps) that tools name.

Clients can read them because this module remembers which servers named them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.snapshot import Catalog
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc


class _Resource(msgspec.Struct):
    uri: str = ""


class _ContentBlock(msgspec.Struct):
    """A content block: a link has a `uri`, an embedded resource a `resource`."""

    uri: str = ""
    resource: _Resource | None = None


class _Message(msgspec.Struct):
    content: _ContentBlock | list[_ContentBlock] = []


class _Result(msgspec.Struct):
    """The parts of a tool's or prompt's result that may name resources."""

    content: list[_ContentBlock] = []
    messages: list[_Message] = []


_decoder = msgspec.json.Decoder(_Result)
_MARK = b'"uri"'


class Links:
    """The servers that named a resource, for a bounded number of resources."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._servers: OrderedDict[str, set[ServerIdentifier]] = OrderedDict()

    def remember(self, server: ServerIdentifier, result: Raw) -> None:
        """Record the resources that a result names. An invalid result names none."""
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
        """All servers that named a resource."""
        return frozenset(self._servers.get(uri, ()))


def _uris(result: _Result) -> Iterator[str]:
    blocks = list(result.content)
    for message in result.messages:
        blocks += message.content if isinstance(message.content, list) else [message.content]
    for block in blocks:
        yield block.uri
        yield block.resource.uri if block.resource is not None else ""


SCHEME = "ui://"
_FLAT = ("ui/resourceUri", "openai/outputTemplate")
"""Keys of `_meta` from before `ui.resourceUri`, which servers still send next to it."""
_MARKS = (b"resourceUri", b"outputTemplate")
"""Every definition that names a UI contains one of these. Searching for them is cheaper than parsing."""


def ui_uris(meta: Raw | None) -> Iterator[str]:
    """The UI resources that a `_meta` names."""
    fields = jsonrpc.members(meta)
    for raw in (jsonrpc.members(fields.get("ui")).get("resourceUri"), *(fields.get(key) for key in _FLAT)):
        uri = jsonrpc.text_or_none(raw)
        if uri and uri.startswith(SCHEME):
            yield uri


def named_by(definition: Definition) -> frozenset[str]:
    """The UI resources that a tool's definition names, cached."""
    return definition.memoized(_named_by)


def _named_by(definition: Definition) -> frozenset[str]:
    text = bytes(definition.raw)
    if not any(mark in text for mark in _MARKS):
        return frozenset()
    return frozenset(ui_uris(jsonrpc.fields(definition.raw).get("_meta")))


def named_in(catalog: Catalog) -> Iterator[tuple[ServerIdentifier, str]]:
    """Every UI resource that a known tool names, with the tool's server."""
    for tool in catalog.known():
        if (definition := catalog.tool(tool)) is not None:
            for uri in named_by(definition):
                yield ServerIdentifier(tool.toolbox, tool.server), uri


def with_uris(definition: Definition, rename: Callable[[str], str]) -> Definition:
    """The definition with its UI URIs renamed; the same object if none changes."""
    if all(rename(uri) == uri for uri in named_by(definition)):
        return definition
    fields = jsonrpc.fields(definition.raw)
    meta = _renamed(jsonrpc.members(fields["_meta"]), _FLAT, rename)
    if ui := jsonrpc.members(meta.get("ui")):
        meta["ui"] = _raw(_renamed(ui, ("resourceUri",), rename))
    fields["_meta"] = _raw(meta)
    return msgspec.structs.replace(definition, raw=_raw(fields))


def _renamed(fields: dict[str, Raw], keys: tuple[str, ...], rename: Callable[[str], str]) -> dict[str, Raw]:
    found = {key: jsonrpc.text_or_none(fields.get(key)) for key in keys}
    return fields | {key: _raw(rename(uri)) for key, uri in found.items() if uri and uri.startswith(SCHEME)}


def _raw(value: object) -> Raw:
    return Raw(jsonrpc.encode(value))
