"""Skills as servers list them: raw JSON, parsed only for the URIs of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Item, oversize
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc

_MAIN_FILE = "/SKILL.md"


def take_skills(listed: Sequence[Raw], limits: Limits) -> tuple[Item, ...]:
    """The skills of a list that can be offered, in its order, each once.

    The URI of its `SKILL.md` identifies a skill. An early draft had names instead, and some servers follow it.
    """
    items: dict[str, Item] = {}
    for raw in listed:
        if jsonrpc.is_object(raw) and oversize(raw, limits) is None:
            fields = jsonrpc.fields(raw)
            name = jsonrpc.text_or_none(fields.get("uri")) or jsonrpc.text_or_none(fields.get("name"))
            if name and name not in items:
                items[name] = Item(name, Raw(msgspec.json.format(raw, indent=-1)), tuple(file_uris(raw)))
    return tuple(items.values())


def own_name(skill: Raw) -> str:
    """The name that `skills/get` knows a skill by; "" for a skill that only its URI identifies."""
    return jsonrpc.text_or_none(jsonrpc.fields(skill).get("name")) or ""


def file_uris(skill: Raw) -> Iterator[str]:
    """The URIs in a skill: its own, and one for each of its files."""
    fields = jsonrpc.fields(skill)
    for raw in (fields.get("uri"), *(jsonrpc.members(file).get("uri") for file in _files(fields))):
        if uri := jsonrpc.text_or_none(raw):
            yield uri


def folder_template(skill: Item) -> str:
    """A URI template for the files of a skill, which can be read even if unlisted; "" if it has no folder."""
    return f"{skill.name.removesuffix(_MAIN_FILE)}/{{+path}}" if skill.name.endswith(_MAIN_FILE) else ""


def with_uris(skill: Raw, rename: Callable[[str], str]) -> Raw:
    """A skill with its URIs renamed; everything else is unchanged."""
    fields = jsonrpc.fields(skill)
    files = _files(fields)
    if files:
        fields["resources"] = _raw([_renamed(file, rename) for file in files])
    return _renamed(_raw(fields), rename)


def _files(fields: dict[str, Raw]) -> list[Raw]:
    try:
        return msgspec.json.decode(fields.get("resources", b"[]"), type=list[Raw])
    except msgspec.DecodeError:
        return []


def _renamed(entry: Raw, rename: Callable[[str], str]) -> Raw:
    fields = jsonrpc.members(entry)
    uri = jsonrpc.text_or_none(fields.get("uri"))
    return _raw({**fields, "uri": rename(uri)}) if uri else entry


def _raw(value: object) -> Raw:
    return Raw(jsonrpc.encode(value))
