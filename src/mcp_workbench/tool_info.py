"""`ToolInfo`: the type of one tool in an `open_toolbox` answer, for client code.

Before Python 3.12 pydantic requires the `TypedDict` of `typing_extensions`. This module must not postpone annotations:
`NotRequired` inside a string has no effect at run time, so every key would count as required.
"""

from typing import Any, NotRequired

from typing_extensions import TypedDict


class ToolInfo(TypedDict):
    """A full entry of an `open_toolbox` answer: an MCP Tool plus its toolbox and server."""

    toolbox_name: str
    source_server: str
    name: str
    inputSchema: dict[str, Any]
    title: NotRequired[str]
    description: NotRequired[str]
    outputSchema: NotRequired[dict[str, Any]]
    annotations: NotRequired[dict[str, Any]]
    execution: NotRequired[dict[str, Any]]
    icons: NotRequired[list[dict[str, Any]]]
    _meta: NotRequired[dict[str, Any]]
