"""What a demo tool is: a typed function, how it is described to a client, and how it is called.

Guarantees: a function is only called with arguments that fit its declared schema, and whatever is
wrong with them, or with what they ask for, becomes a result with `isError` that says what to
change. Knows nothing of JSON-RPC.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from mcp_workbench.demo.arguments import WrongArgumentError, check

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_workbench.demo.arguments import Schema

JsonObject = dict[str, Any]


class ToolError(Exception):
    """The call asks for something impossible; the text is for the model that made it."""


class Call(Protocol):
    """The running call, as a tool that takes long sees it."""

    def report(self, done: int, total: int, message: str) -> None:
        """Tell the client how far the work is; raises if the client has cancelled the call."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `run` gets the arguments by keyword, and the `call` first if it reports progress.

    A tool with an `output` schema returns an object, which is sent as structured content and as
    text; a tool without returns the text itself.
    """

    name: str
    title: str
    description: str
    run: Callable[..., JsonObject | str]
    input: Schema
    output: Schema | None = None
    reads_only: bool = True
    destroys: bool = False
    repeatable: bool = True
    reports_progress: bool = False

    def definition(self) -> JsonObject:
        """The tool as `tools/list` shows it."""
        output = {} if self.output is None else {"outputSchema": self.output}
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.input,
            **output,
            "annotations": self._annotations(),
        }

    def _annotations(self) -> JsonObject:
        return {
            "readOnlyHint": self.reads_only,
            "destructiveHint": self.destroys,
            "idempotentHint": self.repeatable,
            "openWorldHint": False,
        }

    def result(self, arguments: JsonObject, call: Call) -> JsonObject:
        """The answer to one call; bad input is an answer too."""
        try:
            check(self.input, arguments)
            value = self.run(call, **arguments) if self.reports_progress else self.run(**arguments)
        except (ToolError, WrongArgumentError) as error:
            return {**_text(str(error)), "isError": True}
        if isinstance(value, str):
            return _text(value)
        return {**_text(json.dumps(value, ensure_ascii=False)), "structuredContent": value}


def _text(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}
