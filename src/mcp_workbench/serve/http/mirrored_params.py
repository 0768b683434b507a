"""Checks that the headers `Mcp-Param-*` match the arguments in the body.

The values are read from the bytes that are passed on, along the paths that a tool's schema marks.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Raw

from mcp_workbench.serve.http.request import HttpRequest
from mcp_workbench.wire import jsonrpc, param_headers
from mcp_workbench.wire.jsonrpc import RpcError
from mcp_workbench.wire.param_headers import Parameter

_MARKED: Final = param_headers.MARK.encode()
_NO_SCALAR: Final[list[Any]] = []
"""Stands for a value that no header can carry."""

Tree: TypeAlias = "dict[str, Parameter | Tree]"
"""The marked parameters of a tool, nested as its arguments are."""


class _Tool(msgspec.Struct, rename="camel"):
    name: str
    input_schema: Any = None


class _List(msgspec.Struct):
    tools: list[Raw] = []


class MirroredTools:
    """The tools that mirror arguments in headers, learned from the lists that clients got at one endpoint.

    To learn them, no server is started or asked.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._trees: dict[str, Tree] = {}

    def learn(self, listed: Raw) -> None:
        """Take note of a page of tools."""
        page = bytes(listed)
        if not self._trees and _MARKED not in page:
            return
        for raw in _tools(page):
            tool = _decoded(raw, _Tool)
            if tool is not None:
                self._trees.pop(tool.name, None)
                if _MARKED in bytes(raw) and (tree := _tree(tool.input_schema)):
                    self._keep(tool.name, tree)

    def check(self, params: dict[str, Raw], request: HttpRequest) -> None:
        """Raises `RpcError` if the headers of a call differ from its arguments."""
        if not self._trees or (tree := self._trees.get(jsonrpc.text_or_none(params.get("name")) or "")) is None:
            return
        try:
            _check(tree, params.get("arguments"), request)
        except msgspec.DecodeError as error:
            raise RpcError(jsonrpc.INVALID_PARAMS, f"params.arguments can't be read ({error})") from None

    def _keep(self, name: str, tree: Tree) -> None:
        if len(self._trees) >= self._most:
            del self._trees[next(iter(self._trees))]
        self._trees[name] = tree


def _tree(schema: Any) -> Tree:
    """The marked parameters; none if an annotation is invalid, since no client goes by it."""
    tree: Tree = {}
    for path, parameter in (param_headers.mirrored(schema) or {}).items():
        node = tree
        for name in path[:-1]:
            node = cast("Tree", node.setdefault(name, {}))
        node[path[-1]] = parameter
    return tree


def _check(tree: Tree, raw: Raw | None, request: HttpRequest) -> None:
    members = jsonrpc.members(raw)
    for name, part in tree.items():
        if isinstance(part, Parameter):
            _compare(part, name, _scalar(members.get(name)), request)
        else:
            _check(part, members.get(name), request)


def _compare(parameter: Parameter, name: str, value: Any, request: HttpRequest) -> None:
    header = f"{param_headers.PREFIX}{parameter.header}".lower()
    given = request.headers.get(header)
    if header in request.repeated:
        raise _mismatch(header, "appears more than once")
    if value is None or param_headers.render(value) is None:
        if given is not None:
            raise _mismatch(header, f"is present, but the argument {name!r} is missing or has no header form")
    elif given is None:
        raise _mismatch(header, f"is missing, but the argument {name!r} is present")
    elif (decoded := param_headers.decode(given)) is None or not param_headers.matches(parameter, value, decoded):
        raise _mismatch(header, f"does not match the argument {name!r}")


def _mismatch(header: str, problem: str) -> RpcError:
    return RpcError(jsonrpc.HEADER_MISMATCH, f"{header} header {problem}")


def _scalar(raw: Raw | None) -> Any:
    if raw is None:
        return None
    if bytes(raw)[:1] in (b"[", b"{"):
        return _NO_SCALAR
    try:
        return json.loads(bytes(raw))
    except ValueError:  # a number of thousands of digits
        return _NO_SCALAR


def _tools(page: bytes) -> list[Raw]:
    listed = _decoded(page, _List)
    return listed.tools if listed is not None else []


def _decoded(raw: bytes | Raw, kind: Any) -> Any:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError):
        return None
