"""Prompts, resources and templates as a server lists them: raw JSON that every official client accepts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Raw, Struct

from mcp_workbench.catalog import official_models as official
from mcp_workbench.catalog.definition import oversize
from mcp_workbench.catalog.official_models import Refused
from mcp_workbench.catalog.snapshot import Withheld
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc

_MODELS: Final[dict[str, type[Struct]]] = {
    "name": official.Prompt,
    "uri": official.Resource,
    "uriTemplate": official.ResourceTemplate,
}
"""The models that official clients accept, by the member that names an item."""


OFFERED: tuple[Literal["prompts"], Literal["resources"]] = ("prompts", "resources")
"""The lists beside tools whose names are searched."""


class Item(Struct, frozen=True):
    """What names it (a prompt's name, a resource's URI, a template), and all of it, as compact JSON."""

    name: str
    raw: Raw
    uris: tuple[str, ...] = ()
    """Of a skill: its own URI and those of its files. They are read once: each read of a resource looks at all."""


class ServerItems(Struct, frozen=True):
    """One list of one server."""

    items: tuple[Item, ...] = ()
    """The offered items, in the server's order."""
    withheld: tuple[Withheld, ...] = ()


def take_items(listed: Sequence[Raw], member: str, limits: Limits) -> ServerItems:
    """Take the items of a list that can be offered; of several with one name, the first.

    Withholds an item without a name, one that is too large or nested too deep, and one that official clients refuse.
    """
    items: dict[str, Item] = {}
    withheld: list[Withheld] = []
    for raw in listed:
        name = "" if oversize(raw, limits) else jsonrpc.text_or_none(jsonrpc.members(raw).get(member)) or ""
        if name in items:
            continue
        try:
            items[name] = Item(name, _accepted(raw, name, member, limits))
        except Refused as refused:
            withheld.append(Withheld(name, str(refused)))
    return ServerItems(tuple(items.values()), tuple(withheld))


def _accepted(raw: Raw, name: str, member: str, limits: Limits) -> Raw:
    """The item, repaired if official clients would refuse it. Raises `Refused`."""
    if (problem := oversize(raw, limits)) is not None:
        raise Refused(problem)
    if not name:
        raise Refused(f"it has no {member}")
    model = _MODELS[member]
    try:
        official.decoder(model).decode(raw)
    except msgspec.DecodeError:
        from mcp_workbench.catalog.repair import repair_item  # noqa: PLC0415 -- most items need no repair

        return repair_item(raw, model, member)
    return Raw(msgspec.json.format(raw, indent=-1))


def offer_text(instructions: str, items: Iterable[Raw]) -> str:
    """What a server says beside its tools, to be searched: its instructions, and the names of prompts and resources."""
    names = (jsonrpc.text_or_none(jsonrpc.members(item).get("name")) or "" for item in items)
    return " ".join((instructions, *names))
