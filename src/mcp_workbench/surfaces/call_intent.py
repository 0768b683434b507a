"""Lenient readers for mistaken calls of a meta-tool.

They accept other names for the keys, parts at the wrong level, and JSON inside a string. They only collect what the
caller wrote; `corrections.py` looks up the tools and toolboxes that were meant.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.search import QUERY_LENGTH
from mcp_workbench.surfaces.arguments import ASKED_TOOLS, MATCHES_MOST
from mcp_workbench.text.sanitize import NAME_SHOWN_LENGTH
from mcp_workbench.text.suggest import nearest
from mcp_workbench.wire import jsonrpc

_KEYS = 64
"""Larger objects are not read: a hostile call may have a hundred thousand keys."""
LONGEST_NAME = 3 * NAME_SHOWN_LENGTH
"""Characters of a name that is looked up. It may consist of three joined parts."""
_LEVELS = 3
"""Nesting depth up to which objects are read: `tool` may contain a whole call."""
_PARTS = {
    "toolbox": ("toolbox", "toolboxname", "toolboxid", "box"),
    "server": ("server", "sourceserver", "servername", "serverid", "mcpserver", "mcpservername"),
    "tool": ("tool", "toolname", "name", "toolid", "function", "functionname", "identifier", "toolidentifier", "tools"),
}
_ARGUMENTS = (
    *("arguments", "args", "argument", "input", "inputs", "parameters", "params", "kwargs"),
    *("toolarguments", "toolargs", "toolinput", "toolparameters", "toolparams"),
)
_WRAPPERS = frozenset((*_ARGUMENTS, "toolcall", "call", "request"))
"""Keys around a whole call."""
_STRINGS_IN_STRINGS = 2
_OPENING = {
    "toolbox": (*_PARTS["toolbox"], "toolboxes", "name"),
    "server": (*_PARTS["server"], "servers"),
    "query": ("query", "q", "search", "searchquery", "searchterm", "keyword", "keywords"),
    "tools": ("tools", "toolnames", "names", "tool", "toolname", "name"),
    "detail": ("detail", "details", "detaillevel"),
    "limit": ("limit", "maxresults", "maxtools", "topk"),
}
_NAMES_A_PART = {alias: part for part, aliases in _PARTS.items() for alias in aliases}
_ENTRY_FIELDS = frozenset(
    ("title", "description", "signature", "inputSchema", "outputSchema", "annotations", "icons", "_meta")
)
"""Other fields of an `open_toolbox` entry. They are ignored if `tool` is a copy of such an entry."""


class UseIntent(NamedTuple):
    """A `use_tool` call that was meant. Parts that the caller did not name are empty."""

    toolbox: str = ""
    server: str = ""
    tool: str = ""
    arguments: Raw | None = jsonrpc.EMPTY_OBJECT
    """None if they are not an object."""
    spread: dict[str, Raw] = {}  # noqa: RUF012 -- never modified
    """Keys that are not part of a call. They may be arguments at the wrong level."""


class OpenIntent(NamedTuple):
    """An `open_toolbox` call that was meant."""

    toolboxes: tuple[str, ...] = ()
    server: str = ""
    query: str = ""
    tools: tuple[str, ...] = ()
    detail: str = ""
    limit: int = 0
    """0 if it is missing or invalid."""


def fold(name: str) -> str:
    """Normalize a name for comparison: lower case without separators, so that `read-file` and `readFile` are equal.

    Returns "" for a name that is too long to be looked up.
    """
    return re.sub(r"[\W_]+", "", name).casefold() if len(name) <= LONGEST_NAME else ""


def is_same(name: str, other: str) -> bool:
    """Whether two names are equal except for case and separators."""
    return name == other or (fold(name) == fold(other) != "")


def read_use(arguments: Raw) -> UseIntent:
    """Read a call of `use_tool`, or of a tool with a similar name.

    If a key occurs both inside and outside `tool`, the arguments are ambiguous and become None.
    """
    parts: dict[str, str] = {}
    called_with: list[Raw] = []
    spread: dict[str, Raw] = {}
    is_twice = False
    for level, key, raw in _by_level(arguments):
        part, value = _NAMES_A_PART.get(fold(key)), _name(raw)
        if part is not None and value and parts.get(part, value) == value:
            parts[part] = value
        elif part is not None and (value == "" or jsonrpc.is_null(raw)):
            continue
        elif not called_with and _names_arguments(key, raw):
            called_with.append(raw)
        elif level == 0 or key not in _ENTRY_FIELDS:
            is_twice = is_twice or key in spread
            spread[key] = raw
    return UseIntent(**parts, arguments=None if is_twice else tool_arguments(*called_with), spread=spread)


def _by_level(arguments: Raw) -> list[tuple[int, str, Raw]]:
    """The keys of a call and of the objects nested in its `tool`, innermost first."""
    found: list[tuple[int, str, Raw]] = []
    given = _object(arguments) or ({"tool": arguments} if jsonrpc.is_text(arguments) else {})
    for level in range(_LEVELS):
        inner = next((key for key in given if fold(key) in _PARTS["tool"] and _object(given[key])), None)
        found[:0] = [(level, key, raw) for key, raw in _sorted(given) if key != inner]
        given = _object(given[inner]) if inner is not None else {}
    return found


def wrapped_call(arguments: Raw) -> Raw | None:
    """The call inside a wrapper with a single key, such as `{"params": {"name": …}}`."""
    given = _object(arguments)
    inner = [compact_object(raw) for key, raw in given.items() if fold(key) in _WRAPPERS]
    return inner[0] if inner and len(given) == 1 else None


def _name(raw: Raw) -> str | None:
    """A name: a string, or a short list of strings, which is joined to a path."""
    if (text := jsonrpc.text_or_none(raw)) is not None:
        return text
    try:
        parts = msgspec.json.decode(raw, type=list[str]) if jsonrpc.is_list(raw) else []
    except (msgspec.DecodeError, RecursionError):
        return None
    return "/".join(parts) if 1 <= len(parts) <= len(_PARTS) else None


def _names_arguments(key: str, raw: Raw) -> bool:
    """Whether a key means `arguments`. Tools have parameters such as `input` too, so its value must be an object."""
    if fold(key) == _ARGUMENTS[0] or (jsonrpc.is_object(raw) and nearest(key, _ARGUMENTS[:1], certain=True)):
        return True
    return fold(key) in _ARGUMENTS and compact_object(raw) is not None


def read_open(arguments: Raw) -> OpenIntent | None:
    """Read a call of `open_toolbox`, or of a tool with a similar name. None if its query or tools are not readable."""
    given: dict[str, Raw] = {"toolbox": arguments} if jsonrpc.is_text(arguments) else {}
    for key, raw in _sorted(_object(arguments)):
        if not jsonrpc.is_null(raw):
            meant = [name for name in _opening_keys(key) if name not in given]
            given |= {meant[0]: raw} if meant else {}
    texts = {name: _texts(raw) for name, raw in given.items()}
    if texts.get("query", ()) is None or texts.get("tools", ()) is None:
        return None
    server, query, detail = (next(iter(texts.get(name) or ()), "") for name in ("server", "query", "detail"))
    toolboxes, tools, limit = texts.get("toolbox") or (), texts.get("tools") or (), _limit(given.get("limit"))
    return OpenIntent(toolboxes, server, query[:QUERY_LENGTH], tools, detail, limit)


def _opening_keys(key: str) -> list[str]:
    """The parameters of `open_toolbox` that a key can mean."""
    own = [name for name, aliases in _OPENING.items() if fold(key) in aliases]
    return own or [near for near in [nearest(key, _OPENING, certain=True)] if near is not None]


def holds_call(arguments: Raw) -> bool:
    """Whether the arguments of `open_toolbox` look like those of `use_tool`."""
    keys = {fold(key): raw for key, raw in _object(arguments).items()}
    return any(key in keys for key in _ARGUMENTS) or bool(_object(keys.get("tool")))


def compact_object(raw: Raw | None) -> Raw | None:
    """A JSON object without whitespace, taken out of a string or a list of one if necessary; None if there is none."""
    if raw is None or not jsonrpc.is_present(raw):
        return None
    try:
        if jsonrpc.is_text(raw):
            for _ in range(_STRINGS_IN_STRINGS):
                raw = Raw(jsonrpc.text(raw).strip().encode()) if jsonrpc.is_text(raw) else raw
        elif jsonrpc.is_list(raw) and len(listed := msgspec.json.decode(raw, type=list[Raw])) == 1:
            raw = listed[0]
        compact = Raw(msgspec.json.format(bytes(raw), indent=-1))
    except (msgspec.DecodeError, RecursionError):
        return None
    return compact if jsonrpc.is_object(compact) else None


def _object(raw: Raw | None) -> dict[str, Raw]:
    members = jsonrpc.members(compact_object(raw))
    return members if len(members) <= _KEYS else {}


def _sorted(level: dict[str, Raw]) -> list[tuple[str, Raw]]:
    """The items of an object, exact parameter names first: they take precedence over similar keys."""
    return sorted(level.items(), key=lambda one: one[0] not in _PARTS and one[0] not in ("arguments", "query", "tools"))


def tool_arguments(given: Raw = jsonrpc.NOTHING) -> Raw | None:
    """The arguments of a tool. Any empty value means no arguments. None if they are not an object."""
    if bytes(given) in (b"", b"null", b'""', b"[]"):
        return jsonrpc.EMPTY_OBJECT
    return compact_object(given)


def _limit(raw: Raw | None) -> int:
    """A valid limit, also if it is a string; 0 otherwise."""
    try:
        limit = 0 if raw is None else msgspec.json.decode(raw, type=int, strict=False)
    except (msgspec.DecodeError, RecursionError):
        return 0
    return limit if 1 <= limit <= MATCHES_MOST else 0


def _texts(raw: Raw) -> tuple[str, ...] | None:
    """The names in a list, or a single name. None if the value contains anything else."""
    if jsonrpc.text_or_none(raw) == "":
        return ()
    try:
        items = msgspec.json.decode(raw, type=list[Raw]) if jsonrpc.is_list(raw) else [raw]
    except (msgspec.DecodeError, RecursionError):
        return None
    names = [_text(item) for item in items[:ASKED_TOOLS]]
    return tuple(names) if all(names) and len(names) == len(items) else None


def _text(item: Raw) -> str:
    """A string, or the name in an object; "" for any other value."""
    if (text := jsonrpc.text_or_none(item)) is not None:
        return text.strip() and text
    intent = read_use(item) if jsonrpc.is_object(item) else UseIntent()
    return intent.tool or intent.toolbox or intent.server
