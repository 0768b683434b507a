"""Prompts, resources and templates as a server lists them: raw JSON, read no further than their name."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import oversize
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc


class Item(msgspec.Struct, frozen=True):
    """What names it (a prompt's name, a resource's URI, a template), and all of it, as compact JSON."""

    name: str
    raw: Raw


def take_items(listed: Sequence[Raw], member: str, limits: Limits) -> tuple[Item, ...]:
    """What of a list can be offered, in its order, each name once: the first one that has it.

    What has no name, or is too large or too deep for any reader, is left out.
    """
    items: dict[str, Item] = {}
    for raw in listed:
        if jsonrpc.is_object(raw) and oversize(raw, limits) is None:
            name = jsonrpc.text_or_none(jsonrpc.fields(raw).get(member))
            if name and name not in items:
                items[name] = Item(name, Raw(msgspec.json.format(raw, indent=-1)))
    return tuple(items.values())
