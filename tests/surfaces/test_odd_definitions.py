"""Whatever servers define, official clients accept every list: what they would refuse is repaired or withheld."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.types import methods

from mcp_workbench.surfaces.server_info import View
from tests.fuzz.clock import run
from tests.fuzz.puppets import ID, Host, Puppet, bench, hosted
from tests.fuzz.server_words import INITIALIZE, META
from tests.support.definitions import KINDS, ODD, Json, numbered, paths, replaced


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
