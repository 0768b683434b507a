"""Which parameters of a modern server's tools are sent as headers too (`x-mcp-header`).

Learned from the lists that pass by; of each tool only the names are kept. By the protocol a tool whose
annotations are wrong is left out of the list.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.wire import jsonrpc, param_headers
from mcp_workbench.wire.param_headers import Parameter, Path

MIRRORED_PARAMETERS = 64
"""Such parameters of one tool."""

_MARKED: Final = param_headers.MARK.encode()


class _Listed(msgspec.Struct):
    """The message with a list, as far as it is looked at."""

    result: dict[str, Raw]


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: Any = None


class Mirrors:
    """What is known of one server's tools."""

    def __init__(self, label: ServerIdentifier, limits: Limits) -> None:
        self._label = label
        self._limits = limits
        self._tools: dict[str, dict[Path, Parameter]] = {}

    def knows(self, name: str) -> bool:
        """Whether the server listed a tool of this name."""
        return name in self._tools

    def learn(self, message: bytes) -> bytes:
        """Take note of a list that passes by; the list without the tools that may not be offered."""
        if _MARKED not in message:
            return message
        try:
            listed = msgspec.json.decode(message, type=_Listed).result
            tools = msgspec.json.decode(listed["tools"], type=list[Raw])
        except (msgspec.DecodeError, KeyError, RecursionError):
            return message
        kept = [tool for tool in tools if self._take(tool)]
        if len(kept) == len(tools):
            return message
        whole = msgspec.json.decode(message, type=dict[str, Raw])
        return jsonrpc.encode({**whole, "result": {**listed, "tools": kept}})

    def _take(self, raw: Raw) -> bool:
        """Note a tool; False where it may not be offered."""
        if _MARKED not in bytes(raw):
            return True
        try:
            tool = msgspec.json.decode(raw, type=_Tool)
        except (msgspec.DecodeError, RecursionError):
            return True
        found = param_headers.mirrored(tool.input_schema)
        if found is None:
            what = "a tool is left out: its header annotations are invalid"
            observe.warning(what, server=self._label, tool=tool.name)
            self._tools.pop(tool.name, None)
            return False
        if len(self._tools) < self._limits.mirrored_tools and len(found) <= MIRRORED_PARAMETERS:
            self._tools[tool.name] = found
        return True

    def headers(self, name: str, arguments: Any) -> dict[str, str]:
        """The headers of a call of the tool of this name, from its arguments."""
        known = self._tools.get(name)
        if not known or arguments is None:
            return {}
        values = msgspec.json.decode(arguments) if isinstance(arguments, Raw) else arguments
        found = ((one.header, param_headers.render(_value(values, path))) for path, one in known.items())
        return {f"{param_headers.PREFIX}{name}": param_headers.encode(text) for name, text in found if text is not None}


def _value(arguments: Any, path: Path) -> Any:
    for key in path:
        if not isinstance(arguments, dict):
            return None
        arguments = cast("dict[str, Any]", arguments).get(key)
    return arguments
