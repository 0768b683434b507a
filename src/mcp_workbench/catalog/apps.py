"""MCP Apps: the `ui://` resource that a tool's definition names for the host to show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.snapshot import Catalog
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.wire import jsonrpc

SCHEME = "ui://"
_FLAT = ("ui/resourceUri", "openai/outputTemplate")
"""Keys of `_meta` from before `ui.resourceUri`, which servers still send next to it."""
_MARKS = (b"resourceUri", b"outputTemplate")
"""Every definition that names a UI contains one of these; searching for them is cheaper than parsing."""


def ui_uris(meta: Raw | None) -> Iterator[str]:
    """The UI resources that a `_meta` names."""
    fields = jsonrpc.members(meta)
    for raw in (jsonrpc.members(fields.get("ui")).get("resourceUri"), *(fields.get(key) for key in _FLAT)):
        uri = jsonrpc.text_or_none(raw)
        if uri and uri.startswith(SCHEME):
            yield uri


def named_by(definition: Definition) -> frozenset[str]:
    """The UI resources that a tool's definition names, looked for once."""
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
