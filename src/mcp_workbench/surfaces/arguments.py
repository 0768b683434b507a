"""Reads the arguments of the two meta-tools, or reports the first error in them.

Valid arguments take one decode. Invalid ones are checked in a fixed order: the shape of `tool`, its parts, extra keys,
`arguments`. No server is started or contacted before these checks pass. `corrections.py` finds the call that was meant.
"""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.search import QUERY_LENGTH
from mcp_workbench.errors import InvalidParameters, InvalidToolIdentifier
from mcp_workbench.identity import ABSENT, EVERY_TOOLBOX, EXPECTED, ToolIdentifier, check_part
from mcp_workbench.surfaces.descriptions import DETAILS, Detail
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest
from mcp_workbench.wire import jsonrpc

MATCHES_MOST = 50
"""The largest `limit` of a search."""
ASKED_TOOLS = 100
"""Names in `tools` of one open. A client that wants more can list the whole toolbox."""

PARTS = ("toolbox", "server", "tool")
ORIGIN = "Copy toolbox, server and tool from toolbox_name, source_server and name of an open_toolbox entry."
OPEN_KEYS = ("toolbox", "query", "tools", "detail", "limit")


class OpenArguments(NamedTuple):
    """The arguments of `open_toolbox`; at most one of `query` and `tools` is given."""

    toolbox: str
    query: str = ""
    tools: tuple[str, ...] = ()
    detail: Detail | None = None
    limit: int = 0
    """The maximum number of matches; 0 if the call has no limit."""


class _Use(msgspec.Struct, forbid_unknown_fields=True):
    tool: ToolIdentifier
    arguments: Raw = jsonrpc.NOTHING


class NoToolbox(InvalidParameters):
    """The call names no toolbox. A caller that knows the toolboxes adds them to the hint."""


_use_decoder = msgspec.json.Decoder(_Use)


def read_use(arguments: Raw) -> tuple[ToolIdentifier, Raw]:
    """Read the tool and the arguments of a `use_tool` call."""
    try:
        use = _use_decoder.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        _explain_use(arguments)
    return use.tool, use.arguments if jsonrpc.is_object(use.arguments) else read_tool_arguments(use.arguments)


def read_open(arguments: Raw) -> OpenArguments:
    """Read the arguments of an `open_toolbox` call."""
    given = jsonrpc.members(arguments)
    toolbox = _read_toolbox(given)
    _refuse_extra(given, OPEN_KEYS)
    wanted = {name: raw for name, raw in given.items() if not jsonrpc.is_null(raw)}
    query, tools = _read_query(wanted.get("query")), _read_names(wanted.get("tools"))
    detail = _read_detail(wanted.get("detail"))
    if query and tools:
        raise InvalidParameters("query and tools cannot be combined", hint="Send only one of them.")
    if toolbox == EVERY_TOOLBOX and not query:
        raise InvalidParameters("query is missing", hint="Toolbox '*' searches all toolboxes.")
    if (limit := _read_limit(wanted.get("limit"))) and not query:
        raise InvalidParameters("limit needs a query", hint="limit is the maximum number of matches.")
    return OpenArguments(toolbox, query, tools, detail, limit)


def _read_toolbox(given: dict[str, Raw]) -> str:
    raw = given.get("toolbox")
    if raw is None:
        hint = "The parameter is called 'toolbox'." if "toolbox_name" in given else ""
        raise NoToolbox("toolbox is missing", hint=hint)
    if not jsonrpc.is_text(raw):
        raise NoToolbox("toolbox must be a string")
    if not (toolbox := jsonrpc.text(raw)):
        raise NoToolbox("toolbox cannot be empty")
    return toolbox


def _read_query(raw: Raw | None) -> str:
    if raw is None:
        return ""
    if not jsonrpc.is_text(raw):
        raise InvalidParameters("query must be a string", hint="Describe in a few words what the tool should do.")
    if not (query := jsonrpc.text(raw).strip()):
        raise InvalidParameters("query cannot be empty", hint="Describe in a few words what the tool should do.")
    return query[:QUERY_LENGTH]


def _read_names(raw: Raw | None) -> tuple[str, ...]:
    if raw is None:
        return ()
    try:
        names = msgspec.json.decode(raw, type=list[str])
    except (msgspec.DecodeError, RecursionError):
        raise InvalidParameters("tools must be a list of strings", hint='Example: ["read_file"]') from None
    if not names:
        raise InvalidParameters("tools cannot be empty", hint="Omit it to get all tools.")
    if len(names) > ASKED_TOOLS:
        hint = "Omit it to get all tools, or send a query."
        raise InvalidParameters(f"tools can have at most {ASKED_TOOLS} names", hint=hint)
    return tuple(dict.fromkeys(names))


def _read_limit(raw: Raw | None) -> int:
    try:
        limit = 0 if raw is None else msgspec.json.decode(raw, type=int)
    except (msgspec.DecodeError, RecursionError):
        limit = -1
    if raw is not None and not 1 <= limit <= MATCHES_MOST:
        raise InvalidParameters(f"limit must be a whole number from 1 to {MATCHES_MOST}")
    return limit


def _read_detail(raw: Raw | None) -> Detail | None:
    if raw is None:
        return None
    detail = jsonrpc.text(raw) if jsonrpc.is_text(raw) else ""
    for known in DETAILS:
        if detail == known:
            return known
    near = nearest(detail, DETAILS)
    raise InvalidParameters(
        f"detail must be one of {', '.join(DETAILS)}", hint=f"Did you mean '{near}'?" if near else ""
    )


def read_tool_arguments(raw: Raw) -> Raw:
    """Read the tool's own arguments: an object, or a string that contains one, as some models send."""
    if not jsonrpc.is_present(raw):
        return jsonrpc.EMPTY_OBJECT
    if jsonrpc.is_object(raw):
        return raw
    if jsonrpc.is_text(raw):
        try:
            # Formatting validates the text and removes line breaks, which would end a message on the wire.
            inner = Raw(msgspec.json.format(jsonrpc.text(raw), indent=-1).encode())
        except (msgspec.DecodeError, RecursionError):
            inner = jsonrpc.NOTHING
        if jsonrpc.is_object(inner):
            return inner
    raise InvalidParameters("arguments must be an object", hint='Send them as an object: {"name": "value"}.')


def named_parts(arguments: Raw) -> dict[str, str]:
    """The valid parts of the identifier in a call that may otherwise be invalid."""
    given = jsonrpc.members(arguments)
    tool = given.get("tool", jsonrpc.NOTHING)
    parts = jsonrpc.members(tool) if jsonrpc.is_object(tool) else given
    named = {name: jsonrpc.text(raw) for name, raw in parts.items() if name in PARTS and jsonrpc.is_text(raw)}
    return {name: named[name] for name in PARTS if named.get(name) and (parts is not given or name == "toolbox")}


def _explain_use(arguments: Raw) -> NoReturn:
    given = jsonrpc.members(arguments)
    tool = given.get("tool")
    if tool is None or not jsonrpc.is_object(tool):
        raise InvalidToolIdentifier(EXPECTED, hint=ORIGIN)
    parts = jsonrpc.members(tool)
    _check_parts(parts)
    _refuse_extra(parts, PARTS)
    _refuse_extra(given, ("tool", "arguments"))
    raise InvalidToolIdentifier(EXPECTED, hint=ORIGIN)


def _check_parts(parts: dict[str, Raw]) -> None:
    for name in PARTS:
        raw = parts.get(name)
        value: object = jsonrpc.text(raw) if raw is not None and jsonrpc.is_text(raw) else raw
        try:
            check_part(name, ABSENT if raw is None else value)
        except InvalidToolIdentifier as error:
            raise error.copy_with(hint=ORIGIN) from None


def _refuse_extra(given: dict[str, Raw], known: tuple[str, ...]) -> None:
    for key in given:
        if key not in known:
            near = nearest(key, known)
            hint = f"Did you mean '{near}'?" if near else f"Recognized keys: {', '.join(known)}"
            raise InvalidParameters(f"Unrecognized key '{escape(key)}'", hint=hint)
