"""Definitions of tools, prompts, resources and templates: raw JSON that every official client accepts.

A definition keeps the bytes of its server unless official clients would refuse it. Definitions that can't be repaired,
and those that are too large or nested too deep, are withheld with a reason.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from mcp_workbench.catalog import official_models
from mcp_workbench.catalog.official_models import Unrepairable
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc

NAME_SCAN_BYTES = 4096
"""How far into a definition that is too large we look for its name."""

# Patterns are compiled on first use: most runs need none.
_NAME = rb'"name"\s*:\s*("(?:[^"\\]|\\.)*")'
_BRACKETS = bytes.maketrans(b"[]", b"{}")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_NUMBER = rb"[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?"
_OUTLINE = bytes.maketrans(b"123456789+E[", b"0000000000e{")
"""Maps all digits, exponents and brackets to one of their kind, so that two searches rule out most definitions."""
_LARGE_EXPONENT, _MANY_DIGITS = b"0e000", b"0" * 309
"""Patterns of a number beyond the range of floats after that mapping. Some smaller numbers and texts match too."""


T = TypeVar("T")


class Withheld(msgspec.Struct, frozen=True):
    """A definition that is left out, and the reason."""

    name: str
    reason: str


class _Head(msgspec.Struct):
    name: str


# Created at import, so that the first open of a toolbox does not have to wait for it.
_tools = official_models.decoder(official_models.Tool)
_heads = msgspec.json.Decoder(_Head)


class Definition(msgspec.Struct, frozen=True, dict=True):
    """A tool's name and its whole definition, as compact JSON with the server's own digits."""

    name: str
    raw: Raw
    wraps_output: bool = False
    """Whether its output schema is wrapped for handshake clients; then its results must be wrapped too."""

    @classmethod
    def read(cls, raw: Raw, *, handshake: bool = False) -> Definition:
        """Read a `compact` definition for one era; repair what official clients refuse. Raises `Unrepairable`."""
        try:
            tool = _tools.decode(raw)
        except msgspec.DecodeError:
            return cls._repaired(raw, handshake=handshake)
        if not tool.name:
            raise Unrepairable("it has no name")
        if handshake and tool.output_schema is not UNSET and not _is_output_compilable(raw):
            return cls._repaired(raw, handshake=True)
        return cls(tool.name, raw)

    @classmethod
    def _repaired(cls, raw: Raw, *, handshake: bool) -> Definition:
        from mcp_workbench.catalog.repair import repair_tool  # noqa: PLC0415 -- most definitions need no repair

        if not (name := own_name(raw)):
            raise Unrepairable("it has no name")
        return cls(name, *repair_tool(raw, handshake=handshake))

    def memoized(self, make: Callable[[Definition], T]) -> T:
        """A value that `make` derives from this definition, cached."""
        memo = cast("dict[str, T]", vars(self))
        if make.__qualname__ not in memo:
            memo[make.__qualname__] = make(self)
        return memo[make.__qualname__]

    def annotations(self) -> dict[str, bool]:
        """The boolean members of the tool's `annotations`."""
        given = jsonrpc.members(jsonrpc.members(self.raw).get("annotations"))
        return {name: bytes(raw) == b"true" for name, raw in given.items() if bytes(raw) in (b"true", b"false")}


def _is_output_compilable(raw: Raw) -> bool:
    from mcp_workbench.catalog.output_schemas import is_compilable  # noqa: PLC0415 -- few tools have an output schema

    return is_compilable(jsonrpc.fields(raw)["outputSchema"])


def compact(raw: Raw) -> Raw:
    """The same JSON without whitespace between tokens, or unchanged if it is not readable.

    A list is compacted once, when a server sends it: this takes as long as all the checks of a definition together.
    """
    try:
        return Raw(msgspec.json.format(raw, indent=-1))
    except (msgspec.DecodeError, RecursionError):
        return raw


def oversize(raw: Raw, limits: Limits) -> str | None:
    """The reason why a definition is too large for readers; None if it is not."""
    view = bytes(raw)
    if len(view) > limits.schema_bytes:
        return f"its definition has {len(view)} bytes (at most {limits.schema_bytes})"
    outline = view.translate(_OUTLINE)
    if outline.count(b"{") > limits.schema_depth and _is_deeper(view, limits.schema_depth):
        return f"its definition is nested deeper than {limits.schema_depth}"
    if (_LARGE_EXPONENT in outline or _MANY_DIGITS in outline) and _has_infinity(view):
        return "a number in its definition is too large"
    return None


def own_name(raw: Raw) -> str:
    """The name in a readable definition; empty if it has none."""
    try:
        return _heads.decode(raw).name
    except (msgspec.DecodeError, RecursionError):
        return ""


def name_of(raw: Raw) -> str:
    """The name near the start of a definition that is too large or too deep to be parsed; "" if there is none."""
    match = re.search(_NAME, bytes(raw)[:NAME_SCAN_BYTES])
    try:
        return msgspec.json.decode(match[1], type=str) if match else ""
    except msgspec.DecodeError:
        return ""


def _has_infinity(text: bytes) -> bool:
    """Whether a JSON text has a number beyond the range of floats, which some official clients refuse."""
    return any(math.isinf(float(number)) for number in re.findall(_NUMBER, _without_strings(text)))


def _is_deeper(text: bytes, depth: int) -> bool:
    """Whether a JSON text is nested deeper than `depth`: each pass removes the innermost pairs of brackets."""
    brackets = _without_strings(text).translate(_BRACKETS, _NO_BRACKET)
    for _ in range(depth):
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)


def _without_strings(text: bytes) -> bytes:
    """A JSON text without its strings. This is three times as fast as a regular expression."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return b"".join(text.split(b'"')[::2])


_MODELS: Final[dict[str, type[Struct]]] = {
    "name": official_models.Prompt,
    "uri": official_models.Resource,
    "uriTemplate": official_models.ResourceTemplate,
}
"""The models that official clients accept, by the member that names an item."""


OFFERED: tuple[Literal["prompts"], Literal["resources"]] = ("prompts", "resources")
"""Lists other than tools whose names are searched."""


class Item(Struct, frozen=True):
    """A prompt, resource, template or skill as compact JSON."""

    name: str
    """The prompt's name, the resource's URI, the template, or the skill's URI or name."""
    raw: Raw
    uris: tuple[str, ...] = ()
    """The URIs of a skill and its files. They are parsed once, since every read of a resource needs all of them."""


class ServerItems(Struct, frozen=True):
    """One list of one server."""

    items: tuple[Item, ...] = ()
    """The offered items, in the server's order."""
    withheld: tuple[Withheld, ...] = ()


def take_items(listed: Sequence[Raw], member: str, limits: Limits) -> ServerItems:
    """Choose the items of a list that can be offered; of several with one name, the first.

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
        except Unrepairable as refused:
            withheld.append(Withheld(name, str(refused)))
    return ServerItems(tuple(items.values()), tuple(withheld))


def _accepted(raw: Raw, name: str, member: str, limits: Limits) -> Raw:
    """The item, repaired if official clients would refuse it. Raises `Unrepairable`."""
    if (problem := oversize(raw, limits)) is not None:
        raise Unrepairable(problem)
    if not name:
        raise Unrepairable(f"it has no {member}")
    model = _MODELS[member]
    try:
        official_models.decoder(model).decode(raw)
    except msgspec.DecodeError:
        from mcp_workbench.catalog.repair import repair_item  # noqa: PLC0415 -- most items need no repair

        return repair_item(raw, model, member)
    return Raw(msgspec.json.format(raw, indent=-1))


def offer_text(instructions: str, items: Iterable[Raw]) -> str:
    """The searchable text of a server besides its tools: its instructions, and the names of prompts and resources."""
    names = (jsonrpc.text_or_none(jsonrpc.members(item).get("name")) or "" for item in items)
    return " ".join((instructions, *names))
