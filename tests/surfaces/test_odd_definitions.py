"""Whatever servers define, official clients accept every list: what they would refuse is repaired or withheld."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import methods

from mcp_workbench.surfaces.hello import View
from tests.fuzz.clock import run
from tests.fuzz.puppets import ID, Host, Puppet, bench, hosted
from tests.fuzz.server_words import INITIALIZE, META

Json = dict[str, Any]

TOOL: Json = {
    "name": "t",
    "title": "T",
    "description": "Does t.",
    "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": True},
        "required": ["a"],
    },
    "outputSchema": {"type": "object", "properties": {"c": {"$ref": "#/$defs/d"}}, "$defs": {"d": {}}, "required": []},
    "annotations": {"title": "A", "readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
    "execution": {"taskSupport": "optional"},
    "icons": [{"src": "data:,", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}],
    "_meta": {"k": 1},
    "x-unknown": {"any": [1]},
}
PROMPT: Json = {
    "name": "p",
    "title": "P",
    "description": "Asks p.",
    "arguments": [{"name": "a", "title": "A", "description": "An a.", "required": True}],
    "icons": [{"src": "data:,"}],
    "_meta": {"k": 1},
}
PLACED: Json = {
    "title": "R",
    "description": "Holds r.",
    "mimeType": "text/plain",
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-12T15:00:58Z"},
    "icons": [{"src": "data:,"}],
    "_meta": {"k": 1},
}
RESOURCE: Json = {"uri": "mem://r", "name": "r", "size": 5, **PLACED}
TEMPLATE: Json = {"uriTemplate": "mem://{r}", "name": "r", **PLACED}
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 5, 1.5, 1e300, "", "x", "object", "a b", [], {}, [None], [5], ["object", "null"], ["a"],
    [[]], [{}], {"a": None}, {"a": 5}, {"a": True}, {"a": []}, {"type": "array"}, {"type": "object"}, {"anyOf": [{}]},
)  # fmt: skip


class Kind(NamedTuple):
    """One kind of definition: how it is listed."""

    method: str
    member: str
    whole: Json
    named_by: str = "name"


KINDS = (
    Kind("tools/list", "tools", TOOL),
    Kind("prompts/list", "prompts", PROMPT),
    Kind("resources/list", "resources", RESOURCE, "uri"),
    Kind("resources/templates/list", "resourceTemplates", TEMPLATE, "uriTemplate"),
)


def paths(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something may be replaced: every member, at any depth."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """A copy with something else at a place; the member is missing if that is an `Ellipsis`."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, list):
        return [replaced(one, tuple(rest), new) if number == key else one for number, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    changed = {**value, key: replaced(value.get(key), tuple(rest), new)}
    return {name: one for name, one in changed.items() if one is not ...}


def odd(whole: Json) -> st.SearchStrategy[Json]:
    """A definition with up to three odd members, which may be missing."""
    places = st.lists(
        st.tuples(st.sampled_from(list(paths(whole))), st.sampled_from((*ODD, ...)) | st.text(max_size=5)), max_size=3
    )

    def spoil(changes: list[tuple[Any, Any]]) -> Json:
        value: Any = whole
        for path, new in changes:
            value = replaced(
                value, path, ... if new is ... and isinstance(path[-1], str) else None if new is ... else new
            )
        return value

    return places.map(spoil)


catalogs = st.fixed_dictionaries({kind.method: st.lists(odd(kind.whole), min_size=1, max_size=3) for kind in KINDS})


def numbered(kind: Kind, definitions: list[Json]) -> list[Json]:
    """Under names of their own, where they are texts."""
    return [
        {**one, kind.named_by: f"{one[kind.named_by]}{number}"} if isinstance(one.get(kind.named_by), str) else one
        for number, one in enumerate(definitions)
    ]


def puppet_of(catalog: Mapping[str, list[Json]], *, modern: bool) -> Puppet:
    replies = {
        kind.method: [
            json.dumps(
                {"jsonrpc": "2.0", "id": ID, "result": {kind.member: numbered(kind, catalog[kind.method])}}
            ).encode()
            + b"\n"
        ]
        for kind in KINDS
    }
    return Puppet("a", modern=modern, replies=replies)


class Client:
    """A client of one era that parses every result with the official models of that era."""

    def __init__(self, host: Host, *, modern: bool) -> None:
        self._host = host
        self._modern = modern
        self._version = "2026-07-28" if modern else "2025-11-25"
        self._count = 0

    async def ask(self, method: str, **params: Any) -> Json:
        self._count += 1
        params |= {"_meta": META} if self._modern else {}
        answer = await self._host.ask(self._count, method, params)
        result = answer["result"]
        self.parse(method, result)
        return result

    def parse(self, method: str, result: Json) -> None:
        methods.parse_server_result(method, self._version, result)

    async def opened(self) -> Json:
        """What `open_toolbox` answers, with full entries that are MCP Tools."""
        arguments = {"toolbox": "dev", "detail": "full"}
        result = await self.ask("tools/call", name="open_toolbox", arguments=arguments)
        opened = json.loads(result["content"][0]["text"])
        hints = {"ttlMs": 0, "cacheScope": "private", "resultType": "complete"} if self._modern else {}
        self.parse("tools/list", {"tools": opened["tools"], **hints})
        return opened


ERAS = st.sampled_from(["handshake", "modern"])


@settings(max_examples=120, deadline=None)
@given(catalogs, st.sampled_from(["dynamic", "toolbox"]), ERAS, ERAS)
def test_official_models_accept_every_list_of_any_definitions(
    catalog: Mapping[str, list[Json]], surface: str, client: str, server: str
):
    puppet = puppet_of(catalog, modern=server == "modern")
    run(_scene(catalog, puppet, surface, modern=client == "modern"))


async def _scene(catalog: Mapping[str, list[Json]], puppet: Puppet, surface: str, *, modern: bool) -> None:
    view = View("dev") if surface == "toolbox" else View()
    async with bench({"dev": {"a": puppet}}, tool_mode="dynamic") as workbench, hosted(workbench, view) as host:
        client = Client(host, modern=modern)
        if not modern:
            await client.ask("initialize", **INITIALIZE)
        if surface == "dynamic":
            opened = await client.opened()
            told = [one["name"] for one in (*opened["tools"], *opened.get("tools_withheld", ()))]
            named = [one.get("name") for one in numbered(KINDS[0], catalog["tools/list"])]
            assert sorted(told) == sorted(name if isinstance(name, str) else "" for name in named)
        for kind in KINDS:
            await client.ask(kind.method)
