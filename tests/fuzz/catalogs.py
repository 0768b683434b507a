"""INVARIANT: whatever a server lists, each tool is offered, filtered, or withheld with a reason: exactly one of them.

Names are never changed and never confused: what is offered can be called, and the call reaches that tool. What is
no list is a fault of that server.
"""

from __future__ import annotations

import asyncio
import fnmatch
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Raw

from mcp_workbench.catalog.definition import take_items
from mcp_workbench.catalog.rendering import render
from mcp_workbench.catalog.snapshot import ServerTools, take_listing
from mcp_workbench.errors import Fault
from mcp_workbench.identity import NameTable, PromptIdentifier, ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.servers.listing import list_items
from mcp_workbench.wire.jsonrpc import Params
from tests.fuzz.clock import run
from tests.fuzz.corpus import Spec, pack
from tests.fuzz.puppets import ID, Host, Puppet, bench, hosted
from tests.fuzz.server_words import INITIALIZE

LEGAL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
BEYOND_FLOATS = re.compile(rb"[eE]\+?[0-9]{3}|[0-9]{300}")
LIMITS = Limits(list_pages=6, list_tools=40, schema_bytes=8192)
HINTS = {
    "@readOnly": lambda hints: hints.get("readOnlyHint") is True,
    "@destructive": lambda hints: hints.get("readOnlyHint") is not True and hints.get("destructiveHint") is not False,
    "@idempotent": lambda hints: hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True,
    "@openWorld": lambda hints: hints.get("openWorldHint") is not False,
}


class Pages:
    """A server that answers a list with these results, one after the other, and the last again and again."""

    def __init__(self, results: Iterable[bytes]) -> None:
        self._results = list(results)

    async def request(self, method: str, params: Params, **options: object) -> Raw:
        del method, params, options
        return Raw(self._results.pop(0) if len(self._results) > 1 else self._results[0])


# -- the functions alone


def check_results(case: dict[str, Any]) -> dict[str, Any]:
    """`results` are the raw results of `tools/list`, of any shape. What becomes of the tools."""
    outcome: dict[str, Any] = {}
    results = [pack(spec) for spec in case["results"]]
    for member, name in (("tools", "name"), ("prompts", "name"), ("resources", "uri")):
        listed = _list(results, member)
        if isinstance(listed, Fault):
            assert str(listed).isprintable()
            if member == "tools":
                outcome = {"fault": listed.code}
            continue
        check_items(listed, name)
        if member == "tools":
            listing = check_listing([bytes(raw) for raw in listed], case.get("filters", []))
            outcome = {"offered": list(listing.tools), "withheld": [one.name for one in listing.withheld]}
    return outcome


def _list(results: list[bytes], member: str) -> list[Raw] | Fault:
    try:
        return asyncio.run(list_items(Pages(results), f"{member}/list", member, LIMITS)).items
    except Fault as fault:
        return fault


def check_items(listed: list[Raw], member: str) -> None:
    """Prompts and resources that are offered have a name each, and can be shown."""
    items = take_items(listed, member, LIMITS).items
    assert len({item.name for item in items}) == len(items) <= len(listed)
    server = ServerIdentifier("dev", "a")
    for item in items:
        assert lenient(bytes(item.raw))[member] == item.name
        shown = lenient(bytes(render.prompt("n", PromptIdentifier("dev", "a", item.name), item)))
        assert shown["name"] == "n"
        assert lenient(bytes(render.resource("uri", "u", server, item)))["uri"] == "u"


def check_listing(definitions: list[bytes], filters: list[str]) -> ServerTools:
    """Every definition is accounted for, as a reader of its own says."""
    listing = take_listing([Raw(one) for one in definitions], filters, LIMITS)
    assert all(one.reason for one in listing.withheld)
    offered = set(listing.tools)
    withheld = [one.name for one in listing.withheld]
    assert not offered & set(withheld)
    if (account := account_of(definitions, filters)) is not None:
        assert (offered, Counter(withheld)) == account
    for name, tool in listing.tools.items():
        assert lenient(bytes(tool.raw))["name"] == name
    check_shown(listing)
    return listing


def check_shown(listing: ServerTools) -> None:
    """In every form that a client sees, a tool keeps what its server said, in one line, under a name of its own."""
    table = NameTable[ToolIdentifier]()
    for place in (("dev", "a"), ("dev", "a__b"), ("x" * 128, "é")):
        for name, tool in listing.tools.items():
            identifier = ToolIdentifier(*place, name)
            entry, native = render.entry(identifier, tool), render.native(identifier, tool)
            assert b"\n" not in bytes(entry) + bytes(native)
            shown = lenient(bytes(entry))
            assert ToolIdentifier.of(shown) == identifier
            assert {**lenient(bytes(tool.raw)), **shown} == shown
            joined = table.register(identifier)
            assert joined is not None
            assert LEGAL_NAME.fullmatch(joined)
            assert lenient(bytes(native))["name"] == joined
            assert table.resolve(joined) == identifier
    assert len(table) == 3 * len(listing.tools)


def account_of(definitions: list[bytes], filters: Iterable[str]) -> tuple[set[str], Counter[str]] | None:
    """The names that are to be offered, and those that are to be withheld; None where readers may differ."""
    known = [_read(one) for one in definitions]
    if any(isinstance(one, Unfit) for one in known):
        return None
    allowed = [one for one in known if isinstance(one, dict) and allows(filters, one)]
    times = Counter(one["name"] for one in allowed)
    nameless = times.pop("", 0)
    unclear = {one["name"] for one in allowed if not says_how_it_is_called(one)}
    withheld = Counter({name: 1 for name, count in times.items() if count > 1 or name in unclear})
    if nameless:
        withheld[""] = nameless
    return {name for name, count in times.items() if count == 1 and name not in unclear}, withheld


def says_how_it_is_called(tool: dict[str, Any]) -> bool:
    """Whether its `inputSchema` is one that official clients accept, or that has a plain repair."""
    schema = tool.get("inputSchema")
    if schema in (None, {}, [], True):
        return True
    if not isinstance(schema, dict):
        return False
    kind, properties, required = schema.get("type"), schema.get("properties"), schema.get("required")
    is_list = isinstance(kind, list) and "object" in kind and all(isinstance(one, str) for one in kind)
    if properties not in (None, {}, []) and not (
        isinstance(properties, dict) and all(isinstance(one, dict | bool) or one is None for one in properties.values())
    ):
        return False
    is_required = required is None or (isinstance(required, list) and all(isinstance(one, str) for one in required))
    return is_required and (kind in (None, "object") or is_list)


class Unfit:
    """A definition that readers may differ about: too large, too deep, several names, numbers beyond all types."""


def _read(definition: bytes) -> dict[str, Any] | Unfit:
    """What is known of a definition, by a reader that is not ours; without a name its name is empty."""
    if len(definition) > LIMITS.schema_bytes or definition.count(b"[") + definition.count(b"{") > DEFAULTS.schema_depth:
        return Unfit()
    value = lenient(definition)
    if not isinstance(value, dict):
        return {"name": ""}
    if len(re.findall(rb'"name"\s*:', definition)) > 1 or BEYOND_FLOATS.search(definition):
        return Unfit()
    name = value.get("name")
    # Half a surrogate pair is replaced where a line is read.
    name = name.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if isinstance(name, str) else ""
    return {**value, "name": name}


def allows(filters: Iterable[str], tool: dict[str, Any]) -> bool:
    def fits(pattern: str) -> bool:
        hints = tool.get("annotations")
        if pattern in HINTS:
            return HINTS[pattern](hints if isinstance(hints, dict) else {})
        return tool["name"] == pattern or fnmatch.fnmatchcase(tool["name"], pattern)

    chosen = [one for one in filters if not one.startswith("!")]
    if any(fits(one[1:]) for one in filters if one.startswith("!")):
        return False
    return not chosen or any(map(fits, chosen))


def lenient(text: bytes) -> Any:
    """JSON with numbers of any length, which stay as they are written."""
    return json.loads(text.decode(), parse_int=_written, parse_float=_written)


def _written(number: str) -> tuple[str]:
    return (number,)


# -- through a whole workbench


def check_catalog(case: dict[str, Any]) -> dict[str, Any]:
    """`servers`: toolbox, name, `pages` of raw definitions with `cursors` between them, `filters`. What is offered."""
    return run(_scene(case["servers"]))


async def _scene(servers: list[dict[str, Any]]) -> dict[str, Any]:
    toolboxes: dict[str, dict[str, Puppet]] = {}
    for one in servers:
        puppet = Puppet(one["server"], replies={"tools/list": _replies(one)})
        toolboxes.setdefault(one["toolbox"], {})[one["server"]] = puppet
    filters = {one["server"]: tuple(one.get("filters", ())) for one in servers}
    async with bench(toolboxes, filters=filters, tool_mode="dynamic") as workbench, hosted(workbench) as host:
        await host.ask("i", "initialize", INITIALIZE)
        offered: dict[ToolIdentifier, dict[str, Any]] = {}
        for toolbox in toolboxes:
            offered |= _offered(await _call(host, "open_toolbox", {"toolbox": toolbox}), toolbox, servers)
        await _check_calls(host, toolboxes, offered)
        await _check_joined(host, toolboxes, offered)
    return {"offered": [list(tool.parts()) for tool in offered]}


def _replies(server: dict[str, Any]) -> list[bytes]:
    replies: list[bytes] = []
    for number, page in enumerate(server["pages"]):
        more = b"" if number >= len(server["cursors"]) else b',"nextCursor":' + pack(server["cursors"][number])
        tools = b",".join(map(_definition, page))
        replies.append(b'{"jsonrpc":"2.0","id":%d,"result":{"tools":[%s]%s}}\n' % (ID, tools, more))
    return replies


def _definition(spec: Spec) -> bytes:
    """Without what a puppet would take for a request's id."""
    return pack(spec).replace(str(ID).encode(), b"7")


async def _call(host: Host, name: str, arguments: Any) -> dict[str, Any]:
    id_ = f"c{len(host.lines)}"
    answer = await host.ask(id_, "tools/call", {"name": name, "arguments": arguments})
    return answer["result"]


def _offered(
    result: dict[str, Any], toolbox: str, servers: list[dict[str, Any]]
) -> dict[ToolIdentifier, dict[str, Any]]:
    """The entries of an `open_toolbox` answer, by their identifiers; each listed tool is accounted for."""
    (block,) = result["content"]
    if result.get("isError"):
        assert result["_meta"]["mcp-workbench/error"]["code"] == "toolbox_failed"
        return {}
    assert "\n" not in block["text"]
    answer = lenient(block["text"].encode())
    failed = {one["server"] for one in answer.get("servers_failed", [])}
    offered = {ToolIdentifier.of(entry): entry for entry in answer["tools"]}
    assert len(offered) == len(answer["tools"])
    for server in servers:
        if server["toolbox"] == toolbox:
            names = {one.tool for one in offered if one.server == server["server"]}
            withheld = [one for one in answer.get("tools_withheld", []) if one["server"] == server["server"]]
            _check_account(server, names, withheld, has_failed=server["server"] in failed)
    return offered


def _check_account(
    server: dict[str, Any], offered: set[str], withheld: list[dict[str, str]], *, has_failed: bool
) -> None:
    assert all(one["reason"] for one in withheld)
    names = Counter(one["name"] for one in withheld)
    assert not offered & set(names)
    end = next((number for number, cursor in enumerate(server["cursors"]) if cursor == "null"), len(server["pages"]))
    definitions = [_definition(spec) for page in server["pages"][: end + 1] for spec in page]
    if has_failed:
        assert not offered
        assert not names
    elif (account := account_of(definitions, server.get("filters", ()))) is not None:
        assert (offered, names) == account


async def _check_calls(
    host: Host, toolboxes: Mapping[str, Mapping[str, Puppet]], offered: Iterable[ToolIdentifier]
) -> None:
    for tool in offered:
        puppet = toolboxes[tool.toolbox][tool.server]
        before = len(puppet.asked("tools/call"))
        result = await _call(host, "use_tool", {"tool": tool.params(), "arguments": {"n": 1}})
        assert result["content"][0]["text"] == tool.server, result
        (call,) = puppet.asked("tools/call")[before:]
        assert call["params"]["name"] == tool.tool
        assert call["params"]["arguments"] == {"n": 1}


async def _check_joined(
    host: Host, toolboxes: Mapping[str, Mapping[str, Puppet]], offered: Mapping[ToolIdentifier, dict[str, Any]]
) -> None:
    listed = (await host.ask("list", "tools/list", {}))["result"]["tools"]
    native = [one for one in listed if one["name"] not in ("open_toolbox", "use_tool")]
    origins = [one["_meta"] for one in native]
    found = {ToolIdentifier(one["toolbox_name"], one["source_server"], one["original_name"]) for one in origins}
    assert found == set(offered)
    assert len({one["name"] for one in native}) == len(native) == len(found)
    for one in native:
        assert LEGAL_NAME.fullmatch(one["name"])
        origin = one["_meta"]
        puppet = toolboxes[origin["toolbox_name"]][origin["source_server"]]
        await _call(host, one["name"], {})
        assert puppet.asked("tools/call")[-1]["params"]["name"] == origin["original_name"]
