"""One tool definition as the server sent it: raw JSON that every official client accepts."""

from __future__ import annotations

import math
import re

import msgspec
from msgspec import UNSET, Raw

from mcp_workbench.catalog import official_models
from mcp_workbench.catalog.official_models import Refused
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.wire import jsonrpc

# Patterns are text here and compiled at their first use: most runs never need one.
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_NAME = rb'"name"\s*:\s*("(?:[^"\\]|\\.)*")'
_BRACKETS = bytes.maketrans(b"[]", b"{}")
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_NUMBER = rb"[0-9][0-9.]*(?:[eE][+-]?[0-9]+)?"
_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")
_LARGE = (b"0e000", b"0" * 309)
"""What a number that is infinite for readers looks like with `_DIGITS`."""


class _Head(msgspec.Struct):
    name: str


# Made here and not at the first use, since the first open of a toolbox would wait for it.
_tools = official_models.decoder(official_models.Tool)
_heads = msgspec.json.Decoder(_Head)


class Definition(msgspec.Struct, frozen=True):
    """A tool's name and its whole definition, as compact JSON with the server's own digits."""

    name: str
    raw: Raw
    wraps_output: bool = False
    """Whether its output schema is wrapped for handshake clients; then its results must be wrapped too."""

    @classmethod
    def read(cls, raw: Raw, *, handshake: bool = False) -> Definition:
        """Read a definition for one era; repair it if official clients would refuse it. Raises `Refused`."""
        try:
            tool = _tools.decode(raw)
        except msgspec.DecodeError:
            return cls._repaired(raw, handshake=handshake)
        if not tool.name:
            raise Refused("it has no name")
        if handshake and tool.output_schema is not UNSET and not _is_output_compilable(raw):
            return cls._repaired(raw, handshake=True)
        return cls(tool.name, Raw(msgspec.json.format(raw, indent=-1)))

    @classmethod
    def _repaired(cls, raw: Raw, *, handshake: bool) -> Definition:
        from mcp_workbench.catalog.repair import repair_tool  # noqa: PLC0415 -- most definitions need no repair

        if not (name := own_name(raw)):
            raise Refused("it has no name")
        repaired = repair_tool(raw, handshake=handshake)
        return cls(name, repaired.raw, repaired.wraps_output)

    def annotations(self) -> dict[str, bool]:
        """What of the tool's `annotations` is true or false; the rest is not looked at."""
        given = jsonrpc.members(jsonrpc.members(self.raw).get("annotations"))
        return {name: bytes(raw) == b"true" for name, raw in given.items() if bytes(raw) in (b"true", b"false")}


def _is_output_compilable(raw: Raw) -> bool:
    from mcp_workbench.catalog.output_schemas import is_compilable  # noqa: PLC0415 -- few tools have an output schema

    return is_compilable(jsonrpc.fields(raw)["outputSchema"])


def oversize(raw: Raw, limits: Limits) -> str | None:
    """Why a definition is too much for any reader; None if it is not."""
    view = bytes(raw)
    if len(view) > limits.schema_bytes:
        return f"its definition has {len(view)} bytes (at most {limits.schema_bytes})"
    if view.count(b"{") + view.count(b"[") > limits.schema_depth and _is_deeper(view, limits.schema_depth):
        return f"its definition is nested deeper than {limits.schema_depth}"
    digits = view.translate(_DIGITS, b"+")
    if any(large in digits for large in _LARGE) and _has_infinity(view):
        return "a number in its definition is too large"
    return None


def own_name(raw: Raw) -> str:
    """The name in a readable definition; empty if it has none."""
    try:
        return _heads.decode(raw).name
    except (msgspec.DecodeError, RecursionError):
        return ""


def name_of(raw: Raw) -> str:
    """The name in a definition that is too large or too deep to be read whole, if it is near its start."""
    match = re.search(_NAME, bytes(raw)[: DEFAULTS.name_scan_bytes])
    try:
        return msgspec.json.decode(match[1], type=str) if match else ""
    except msgspec.DecodeError:
        return ""


def _has_infinity(text: bytes) -> bool:
    """Whether a JSON text has a number beyond the range of floats, which some official clients refuse."""
    return any(math.isinf(float(number)) for number in re.findall(_NUMBER, re.sub(_STRING, b"", text)))


def _is_deeper(text: bytes, depth: int) -> bool:
    """Whether a JSON text is nested deeper than `depth`: each pass takes the innermost pairs away."""
    brackets = re.sub(_STRING, b"", text).translate(_BRACKETS, _NO_BRACKET)
    for _ in range(depth):
        brackets = brackets.replace(b"{}", b"")
    return bool(brackets)
