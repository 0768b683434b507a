"""A demo server: typed functions as its tools, offered over stdin and stdout in one or both protocol eras.

Guarantees: a function is called only with arguments that match its schema. Any problem with the arguments becomes a
result with `isError` that says what to change. Tools run in one thread, in the order of their requests, so they need no
locks and do not block pings or cancellation. Only the protocol reaches stdout.
"""

from __future__ import annotations

import asyncio
import json
import operator
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import Raw

from mcp_workbench import __version__
from mcp_workbench.demo.connection import PipeConnection
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.exchange import PROGRESS
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.wire.peer import PeerRequest

JsonObject = dict[str, Any]
Schema = dict[str, Any]
Report = Callable[[int, int, str], None]
"""Sends progress to the client: done, total, message. Raises in a cancelled call."""
Function = TypeVar("Function", bound=Callable[..., JsonObject | str])

_CACHING: JsonObject = {"ttlMs": 3_600_000, "cacheScope": "public"}
"""The tools never change, so a client may keep the list for an hour."""
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "array": ("a list", (list,)),
    "object": ("an object", (dict,)),
}
_BOUNDS: tuple[tuple[str, Callable[[Any, Any], bool], str], ...] = (
    ("enum", lambda value, names: value not in names, "must be one of: {}"),
    ("minLength", lambda value, least: not value and least > 0, "cannot be empty"),
    ("minItems", lambda value, least: not value and least > 0, "cannot be empty"),
    ("minLength", lambda value, least: len(value) < least, "must have at least {} characters"),
    ("maxLength", lambda value, most: len(value) > most, "can have at most {} characters"),
    ("minItems", lambda value, least: len(value) < least, "must have at least {} entries"),
    ("maxItems", lambda value, most: len(value) > most, "can have at most {} entries"),
    ("minimum", operator.lt, "must be at least {}"),
    ("maximum", operator.gt, "must be at most {}"),
)
_HINTS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}


class ToolError(Exception):
    """The call can't be done; the text is for the model that made it."""


# -- tools


def object_schema(properties: Mapping[str, Schema], optional: int = 0) -> Schema:
    """The schema of a closed object; all but the last `optional` properties are required."""
    required = list(properties)[: len(properties) - optional]
    return {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}


def check(schema: Schema, value: Any, place: str = "arguments") -> None:
    """Raise a `ToolError` that calls the value `place` unless it matches the schema.

    Supports only the keywords used here. Booleans are not numbers, and numbers are finite.
    """
    noun, types = _KINDS[schema["type"]]
    if not isinstance(value, types) or isinstance(value, bool):
        raise ToolError(f"{place} must be {noun}")
    if int in types and not abs(value) <= sys.float_info.max:
        raise ToolError(f"{place} is too large")
    for keyword, is_broken, text in _BOUNDS:
        if keyword in schema and is_broken(value, bound := schema[keyword]):
            raise ToolError(f"{place} {text.format(', '.join(bound) if keyword == 'enum' else bound)}")
    if schema["type"] == "array":
        for index, entry in enumerate(value):
            check(schema["items"], entry, f"{place}[{index}]")
    elif schema["type"] == "object":
        _check_members(schema, value)


def _check_members(schema: Schema, values: JsonObject) -> None:
    if missing := [name for name in schema["required"] if name not in values]:
        raise ToolError(f"{missing[0]} is missing")
    for name, value in values.items():
        if name not in schema["properties"]:
            raise ToolError(f"Unknown argument '{name}'. Expected: {', '.join(schema['properties']) or 'none'}")
        check(schema["properties"][name], value, name)


class DemoTool(NamedTuple):
    """A function and its definition in `tools/list`."""

    run: Callable[..., JsonObject | str]
    definition: JsonObject
    reports: bool = False
    """Whether `run` gets a `Report` before its arguments."""

    def result(self, arguments: JsonObject, report: Report) -> JsonObject:
        """Run a call. An object becomes structured content and text."""
        try:
            check(self.definition["inputSchema"], arguments)
            value = self.run(report, **arguments) if self.reports else self.run(**arguments)
        except ToolError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        structured = {} if isinstance(value, str) else {"structuredContent": Raw(text.encode())}
        return {"content": [{"type": "text", "text": text}], **structured}


# -- the server


class Server:
    """One server. With `modern` it answers each request in the era of that request."""

    def __init__(self, name: str, title: str, instructions: str, *, modern: bool = False) -> None:
        self.name = name
        self.tools: dict[str, DemoTool] = {}
        self._modern = modern
        self._identity = {"name": name, "title": title, "version": __version__}
        self._introduction: JsonObject = {"capabilities": {"tools": {}}, "instructions": instructions}
        self._thread = ThreadPoolExecutor(max_workers=1)

    def tool(
        self,
        title: str,
        properties: Mapping[str, Schema],
        output: Mapping[str, Schema] | None = None,
        *,
        reports: bool = False,
        **hints: bool,
    ) -> Callable[[Function], Function]:
        """Register a function as a tool. Its docstring is the description; arguments with defaults are optional.

        It returns an object with the properties of `output`, or text without `output`. `hints` are annotations.
        """

        def add(run: Function) -> Function:
            definition = {
                "name": run.__name__,
                "title": title,
                "description": " ".join((run.__doc__ or "").split()),
                "inputSchema": object_schema(properties, optional=len(run.__defaults__ or ())),
                **({} if output is None else {"outputSchema": object_schema(output)}),
                "annotations": {**_HINTS, **hints},
            }
            self.tools[run.__name__] = DemoTool(run, definition, reports)
            return run

        return add

    def run(self) -> None:
        """Serve on stdin and stdout until the client disconnects."""
        output = os.dup(1)
        os.dup2(2, 1)  # a stray print must not break the protocol
        with suppress(KeyboardInterrupt):
            asyncio.run(self.serve(os.dup(0), output))
        os.set_blocking(0, True)  # asyncio made a terminal non-blocking that we share with the shell

    async def serve(self, source: int, sink: int) -> None:
        """Serve on two file descriptors until the input ends."""
        connection = PipeConnection(self._answer)
        await connection.open(source, sink)
        await connection.serve()

    async def _answer(self, method: str, members: dict[str, Raw], line: PeerRequest) -> Raw:
        params, meta = _decoded(members)
        is_modern = self._modern and (method == "server/discover" or eras.PROTOCOL_VERSION in meta)
        if is_modern:
            _check_envelope(meta)
        match is_modern, method:
            case True, "server/discover":
                result = {"supportedVersions": eras.MODERN_VERSIONS, **self._introduction}
            case False, "initialize":
                result = self._initialize(params)
            case False, "ping":
                result = {}
            case _, "tools/list":
                result = self._list(params)
            case _, "tools/call":
                result = await self._call(params, meta, line)
            case _:
                raise RpcError(jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method}")
        if is_modern:
            caching = {} if method == "tools/call" else _CACHING
            result |= {**caching, "resultType": "complete", "_meta": {eras.SERVER_INFO: self._identity}}
        return Raw(jsonrpc.encode(result))

    def _initialize(self, params: JsonObject) -> JsonObject:
        wanted = params.get("protocolVersion")
        if not isinstance(wanted, str):
            raise RpcError(jsonrpc.INVALID_PARAMS, "protocolVersion must be a string")
        version = wanted if wanted in eras.HANDSHAKE_VERSIONS else eras.HANDSHAKE_VERSIONS[-1]
        return {"protocolVersion": version, "serverInfo": self._identity, **self._introduction}

    def _list(self, params: JsonObject) -> JsonObject:
        if params.get("cursor") is not None:
            raise RpcError(jsonrpc.INVALID_PARAMS, "Unknown cursor: there is one page only")
        return {"tools": [tool.definition for tool in self.tools.values()]}

    async def _call(self, params: JsonObject, meta: JsonObject, line: PeerRequest) -> JsonObject:
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or name not in self.tools:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"Unknown tool: {name}")
        arguments = {} if arguments is None else _object(arguments, "arguments")
        loop, cancelled = asyncio.get_running_loop(), Event()
        token = meta.get(eras.PROGRESS_TOKEN)

        def report(done: int, total: int, message: str) -> None:
            if cancelled.is_set():
                raise asyncio.CancelledError
            if token is not None:
                params = {eras.PROGRESS_TOKEN: token, "progress": done, "total": total, "message": message}
                loop.call_soon_threadsafe(line.notify, PROGRESS, params)

        try:
            return await loop.run_in_executor(self._thread, self.tools[name].result, arguments, report)
        finally:
            cancelled.set()


def _decoded(members: dict[str, Raw]) -> tuple[JsonObject, JsonObject]:
    """Decode the params of a request, and the `_meta` in them."""
    if isinstance(members, jsonrpc.NotAnObject):
        raise RpcError(jsonrpc.INVALID_PARAMS, "params must be an object")
    try:
        params: JsonObject = {name: msgspec.json.decode(value) for name, value in members.items()}
    except (msgspec.DecodeError, RecursionError) as error:
        raise RpcError(jsonrpc.INVALID_PARAMS, f"params cannot be read: {error}") from None
    return params, _object(params.get("_meta", {}), "_meta")


def _object(value: object, name: str) -> JsonObject:
    if not isinstance(value, dict):
        raise RpcError(jsonrpc.INVALID_PARAMS, f"{name} must be an object")
    return cast("JsonObject", value)


def _check_envelope(meta: JsonObject) -> None:
    version = meta.get(eras.PROTOCOL_VERSION)
    if not isinstance(version, str):
        raise RpcError(jsonrpc.INVALID_PARAMS, f"_meta must hold {eras.PROTOCOL_VERSION}")
    if version not in eras.MODERN_VERSIONS:
        data = {"supported": eras.MODERN_VERSIONS, "requested": version}
        raise RpcError(jsonrpc.UNSUPPORTED_VERSION, f"Unsupported protocol version: {version}", data)
    _object(meta.get(eras.CLIENT_CAPABILITIES), eras.CLIENT_CAPABILITIES)
