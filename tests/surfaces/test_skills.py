"""Skills on surfaces with several servers: which server has one, and under which URIs its files can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_workbench.errors import ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.dynamic import DynamicSurface
from mcp_workbench.surfaces.proxy import ProxySurface
from mcp_workbench.surfaces.server import ServerSurface
from mcp_workbench.surfaces.toolbox import ToolboxSurface
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.support.memory import EVERYTHING, MemoryServer, serving
from tests.surfaces.benches import HANDSHAKE, MODERN, answer

SKILLS = "io.modelcontextprotocol/skills"
APPS = "io.modelcontextprotocol/ui"
DECLARED = {**EVERYTHING, "extensions": {SKILLS: {}, APPS: {}}}
GIT = "skill://team/git/SKILL.md"


def entry(uri: str, *files: str) -> dict[str, Any]:
    """A skill with its SKILL.md and some more files in its folder."""
    folder, name = uri.removesuffix("/SKILL.md"), uri.split("/")[-2]
    resources = [{"uri": one, "digest": "sha256:0"} for one in (uri, *(f"{folder}/{file}" for file in files))]
    return {"uri": uri, "frontmatter": {"name": name, "version": 1.50}, "resources": resources}


def skilled(name: str, *listed: dict[str, Any], unlisted: tuple[dict[str, Any], ...] = (), **more: Any) -> MemoryServer:
    """A server with skills; `skills/get` also knows those that it does not list."""
    server = MemoryServer(name, capabilities=DECLARED, **more)
    known = {one["uri"]: one for one in (*listed, *unlisted)}
    refusal = ServerRefused("no such skill", rpc_code=-32602)
    server.methods["skills/list"] = {"skills": list(listed)}
    server.methods["skills/get"] = lambda params: {"skill": known[params["uri"]]} if params["uri"] in known else refusal
    return server


async def uris(surface: Surface, caller: Caller = MODERN) -> list[list[str]]:
    """The URIs of each skill's files, of which the first is its own."""
    found = json.loads(await answer(surface, "skills/list", caller))["skills"]
    for one in found:
        assert one["uri"] == one["resources"][0]["uri"]
    return [[file["uri"] for file in one["resources"]] for one in found]


async def got(surface: Surface, uri: str, caller: Caller = MODERN) -> dict[str, Any]:
    return json.loads(await answer(surface, "skills/get", caller, uri=uri))["skill"]


async def read(surface: Surface, uri: str) -> str:
    ((content),) = json.loads(await answer(surface, "resources/read", MODERN, uri=uri))["contents"]
    return f"{content['text']} {content['uri']}"


@pytest.mark.parametrize("kind", [ToolboxSurface, DynamicSurface])
async def test_skills_of_all_servers_are_listed_and_those_that_two_share_name_the_server(kind: Any):
    a = skilled("a", entry(GIT, "x.md"), entry("skill://pdf/SKILL.md"))
    async with serving({"dev": {"a": a, "b": skilled("b", entry(GIT)), "c": MemoryServer("c")}}) as workbench:
        surface = kind(workbench, "dev") if kind is ToolboxSurface else kind(workbench)
        assert await uris(surface) == [
            ["skill://a/team/git/SKILL.md", "skill://a/team/git/x.md"],
            ["skill://pdf/SKILL.md"],
            ["skill://b/team/git/SKILL.md"],
        ]
        assert await read(surface, "skill://b/team/git/SKILL.md") == f"b {GIT}"
        assert (await got(surface, "skill://a/team/git/SKILL.md"))["resources"][1]["uri"] == "skill://a/team/git/x.md"
        assert await got(surface, "skill://pdf/SKILL.md") == entry("skill://pdf/SKILL.md")
        with pytest.raises(RpcError, match=r"skill://a/team/git/SKILL.md\nskill://b/team/git/SKILL.md"):
            await got(surface, GIT)


async def test_what_is_not_shared_is_passed_on_as_it_was_to_the_digits_of_its_numbers():
    a = skilled("a", entry(GIT))
    async with serving({"dev": {"a": a, "b": skilled("b")}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        written = json.dumps(entry(GIT), separators=(",", ":")).replace("1.5,", "1.50,")
        a.methods["skills/list"] = f'{{"skills":[{written}]}}'.encode()
        assert await answer(surface, "skills/list", MODERN) == a.methods["skills/list"]


async def test_the_files_of_a_skill_stay_in_one_folder_though_another_server_has_only_one_of_them():
    nested = "skill://team/git/deep/SKILL.md"
    a, b = skilled("a", entry(GIT, "deep/SKILL.md")), skilled("b", entry(nested))
    async with serving({"dev": {"a": a, "b": b}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await uris(surface) == [
            ["skill://a/team/git/SKILL.md", "skill://a/team/git/deep/SKILL.md"],
            ["skill://b/team/git/deep/SKILL.md"],
        ]
        assert await read(surface, "skill://a/team/git/SKILL.md") == f"a {GIT}"


async def test_files_that_no_list_has_are_read_at_the_server_whose_skill_they_belong_to():
    async with serving({"dev": {"a": skilled("a", entry(GIT)), "b": skilled("b", entry(GIT))}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await uris(surface)
        assert await read(surface, "skill://b/team/git/notes.md") == "b skill://team/git/notes.md"
    async with serving({"dev": {"a": skilled("a"), "b": skilled("b", entry(GIT))}}) as workbench:
        assert (
            await read(ToolboxSurface(workbench, "dev"), "skill://team/git/notes.md") == "b skill://team/git/notes.md"
        )


async def test_a_skill_that_nobody_lists_is_got_from_the_server_that_knows_it_and_then_read_there():
    hidden = entry("github://o/r/hidden/SKILL.md", "x.md")
    async with serving({"dev": {"a": skilled("a"), "b": skilled("b", unlisted=(hidden,))}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        assert await got(surface, hidden["uri"]) == hidden
        assert await read(surface, "github://o/r/hidden/x.md") == "b github://o/r/hidden/x.md"
        with pytest.raises(RpcError, match="not found") as caught:
            await got(surface, "skill://none/SKILL.md")
        assert caught.value.code == -32602


async def test_a_skill_that_two_servers_know_and_nobody_lists_is_got_by_its_server():
    hidden = entry("skill://hidden/SKILL.md")
    boxes = {"dev": {name: skilled(name, unlisted=(hidden,)) for name in "ab"}}
    async with serving(boxes) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        with pytest.raises(RpcError, match=r"skill://a/hidden/SKILL.md\nskill://b/hidden/SKILL.md"):
            await got(surface, hidden["uri"])
        assert (await got(surface, "skill://b/hidden/SKILL.md"))["uri"] == "skill://b/hidden/SKILL.md"
        assert boxes["dev"]["b"].asked("skills/get")[-1]["uri"] == hidden["uri"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (ToolboxSurface, ["dev__a__git", "dev__b__git", "pdf"]),
        (DynamicSurface, ["dev__a__git", "dev__b__git", "dev__b__pdf"]),
    ],
)
async def test_skills_that_have_only_names_are_named_as_prompts_are(kind: Any, names: list[str]):
    boxes = {"dev": {"a": skilled("a"), "b": skilled("b")}}
    boxes["dev"]["a"].methods["skills/list"] = {"skills": [{"name": "git"}]}
    boxes["dev"]["b"].methods["skills/list"] = {"skills": [{"name": "git"}, {"name": "pdf"}]}
    for name, server in boxes["dev"].items():
        server.methods["skills/get"] = lambda params, name=name: {"from": f"{name} {params['name']}"}
    async with serving(boxes) as workbench:
        surface = kind(workbench, "dev") if kind is ToolboxSurface else kind(workbench)
        assert [one["name"] for one in json.loads(await answer(surface, "skills/list", MODERN))["skills"]] == names
        results = [json.loads(await answer(surface, "skills/get", MODERN, name=name))["from"] for name in names]
        assert results == ["a git", "b git", "b pdf"]
        for wrong in ({"name": "gti"}, {"name": 5}, {}):
            with pytest.raises(RpcError) as caught:
                await answer(surface, "skills/get", MODERN, **wrong)
            assert caught.value.code == -32602


async def test_a_list_that_is_too_long_for_a_message_has_pages():
    a = skilled("a", *(entry(f"skill://s{number}/SKILL.md") for number in range(9)))
    async with serving({"dev": {"a": a}}, page_bytes=400) as workbench:
        surface, cursor, found = ToolboxSurface(workbench, "dev"), None, []
        while True:
            page = json.loads(await answer(surface, "skills/list", MODERN, **({"cursor": cursor} if cursor else {})))
            found += [one["uri"] for one in page["skills"]]
            if (cursor := page.get("nextCursor")) is None:
                break
    assert found == [f"skill://s{number}/SKILL.md" for number in range(9)]


async def test_a_running_server_is_asked_again_since_nothing_tells_that_skills_changed():
    a = skilled("a", entry(GIT))
    async with serving({"dev": {"a": a}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        await uris(surface)
        a.methods["skills/list"] = {"skills": [entry("skill://new/SKILL.md")]}
        assert await uris(surface) == [["skill://new/SKILL.md"]]


@pytest.mark.parametrize("caller", [HANDSHAKE, MODERN])
async def test_skills_are_declared_where_a_server_has_them_or_may(caller: Caller):
    boxes = {"dev": {"a": MemoryServer("a"), "b": skilled("b")}, "ops": {"c": MemoryServer("c")}}
    async with serving(boxes) as workbench:
        surfaces = {name: ToolboxSurface(workbench, name) for name in boxes}

        async def declaring() -> list[str]:
            hellos = {name: await surface.server_info(caller) for name, surface in surfaces.items()}
            return [name for name, hello in hellos.items() if SKILLS in hello.capabilities.get("extensions", {})]

        assert await declaring() == ["dev", "ops"]
        assert [server.starts for box in boxes.values() for server in box.values()] == [0, 0, 0]
        for surface in surfaces.values():
            await answer(surface, "tools/list", caller)
        assert await declaring() == ["dev"]
        extensions = (await DynamicSurface(workbench).server_info(caller)).capabilities["extensions"]
        assert extensions == {SKILLS: {}, APPS: {}}


async def test_one_server_answers_for_itself_and_the_two_meta_tools_have_no_skills():
    boxes = {"dev": {"a": skilled("a", entry(GIT)), "b": skilled("b", entry(GIT))}}
    async with serving(boxes) as workbench:
        surface = ServerSurface(workbench, ServerIdentifier("dev", "a"))
        assert await uris(surface) == [[GIT]]
        assert await got(surface, GIT) == entry(GIT)
        assert SKILLS in (await surface.server_info(HANDSHAKE)).capabilities["extensions"]
        meta = ProxySurface(workbench)
        assert meta.method("skills/list") is None
        assert "extensions" not in (await meta.server_info(HANDSHAKE)).capabilities


@pytest.mark.parametrize(
    "odd", [5, {}, {"uri": 5}, {"uri": "skill://x/SKILL.md", "resources": 5}, {"uri": "x:y", "resources": [5]}]
)
async def test_an_odd_entry_of_one_server_does_not_hide_the_others(odd: Any):
    a, b = skilled("a"), skilled("b", entry(GIT))
    a.methods["skills/list"] = {"skills": [odd]}
    async with serving({"dev": {"a": a, "b": b}}) as workbench:
        surface = ToolboxSurface(workbench, "dev")
        found = json.loads(await answer(surface, "skills/list", MODERN))["skills"]
        assert found[-1] == entry(GIT)
        assert await read(surface, GIT) == f"b {GIT}"
