"""Rows B5 to B8 of the faults: names of any characters, names that nearly collide, names that claim to be others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from mcp_workbench import ToolIdentifier
from mcp_workbench.errors import ToolNotFound
from mcp_workbench.identity import NameTable
from tests.faults.watched_log import hidden, watched
from tests.peers.rogue_stdio import WEIRD_NAMES
from tests.support import programs
from tests.support.configs import read_log, received, rogue, starts, write_config
from tests.support.library import text_of, tool, workbench
from tests.support.wire import Wire, environment, error_of, heard, serving

CODE = "mcp-workbench/error"

# -- B5: any characters

CONFUSING = ["p\u0430ypal", "paypal\u200b", "\u202etxt.exe", "\x1b]8;;http://x\x07y", "a\u2028b", "\x85", "\x00"]
TOOLS = st.sampled_from([*WEIRD_NAMES, *CONFUSING]) | st.text(
    st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12
)
CONFIGURED = st.sampled_from(["a", "a__b", "__", "é", "e\u0301", "../x", "a/b:c", "\u202ex", "x" * 128]) | st.text(
    st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8
).filter(lambda name: name != "*")

Benches = dict[str, dict[str, list[str]]]
BENCHES: st.SearchStrategy[Benches] = st.dictionaries(
    CONFIGURED,
    st.dictionaries(CONFIGURED, st.lists(TOOLS, min_size=1, max_size=12, unique=True), min_size=1, max_size=2),
    min_size=1,
    max_size=2,
)


@pytest.mark.row("B5")
@settings(max_examples=8, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(BENCHES)
def test_b5_whatever_the_three_names_they_route_byte_for_byte_and_are_shown_escaped(benches: Benches):
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_names(Path(folder), benches))


async def check_names(folder: Path, benches: Benches) -> None:
    boxes: dict[str, Any] = {}
    files: list[Path] = []
    for toolbox, servers in benches.items():
        for server, names in servers.items():
            file = folder / f"names-{len(files)}.json"
            files.append(file)
            file.write_text(json.dumps(names), encoding="utf-8")
            boxes.setdefault(toolbox, {})[server] = rogue("names_of", file)
    with watched(folder / "log") as log:
        async with workbench(folder, boxes, call_idle_timeout_seconds=10.0) as wb:
            table = NameTable()
            for toolbox, servers in benches.items():
                opened = await wb.open(toolbox)
                found = [ToolIdentifier.of(info).parts() for info in opened.tools]
                assert found == [(toolbox, server, name) for server, names in servers.items() for name in names]
                for identifier in map(ToolIdentifier.of, opened.tools):
                    heard_there = json.loads(text_of(await wb.use(identifier)))
                    assert heard_there["name"] == identifier.tool
                    assert heard_there["argv"] == boxes[toolbox][identifier.server]["args"][3:]
                    assert table.resolve(table.register(identifier) or "") == identifier
                    with pytest.raises(ToolNotFound) as caught:
                        await wb.use(ToolIdentifier(toolbox, identifier.server, f"{identifier.tool}?"))
                    assert not hidden(f"{caught.value} {caught.value.hint}")
    log.check()


@pytest.mark.row("B5")
async def test_b5_a_tool_without_a_name_is_withheld_and_a_very_long_name_is_served(tmp_path: Path):
    names = ["", "n" * 10_000, "\x1b[31m\n\u202e" * 1000]
    (tmp_path / "names.json").write_text(json.dumps(names), encoding="utf-8")
    async with serving(write_config(tmp_path, {"dev": {"fs": rogue("names_of", tmp_path / "names.json")}})) as wire:
        answer = await wire.open("dev", detail="full")
        assert [info["name"] for info in answer["tools"]] == names[1:]
        assert [(entry["server"], entry["name"]) for entry in answer["tools_withheld"]] == [("fs", "")]
        for name in names[1:]:
            assert heard(await wire.use("dev", "fs", name))["name"] == name
            text = error_of(await wire.use("dev", "fs", f"{name}?"))
            assert not hidden(text.replace("\n", ""))
            assert len(text) < 4096


# -- B6: names that collide

NEAR = ["fs", "FS", "\ufb00s", "ffs", "use_tool", "open_toolbox", "fs ", "\uff46\uff53"]


@pytest.mark.row("B6")
async def test_b6_names_that_nearly_collide_are_different_names(tmp_path: Path):
    """By case, by compatibility form, by a space; and those of the tools of the workbench."""
    boxes = {toolbox: {server: rogue("ok", f"{toolbox}|{server}") for server in NEAR} for toolbox in ("dev", "DEV")}
    async with serving(write_config(tmp_path, boxes)) as wire:
        for toolbox, servers in boxes.items():
            answer = await wire.open(toolbox, seconds=20)
            assert [info["name"] for info in answer["tools"]] == [f"{toolbox}|{server}" for server in servers]
            for server in servers:
                echo = heard(await wire.use(toolbox, server, f"{toolbox}|{server}"))
                assert echo["argv"] == ["ok", f"{toolbox}|{server}"]


def run(command: str, folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """`mcp-workbench COMMAND` with a configuration of this text, and no client."""
    path = folder / "c.json"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    return programs.run(
        [*programs.PROGRAM, command, "--config", str(path)], env=environment(folder / "home"), timeout=20
    )


@pytest.mark.row("B6")
def test_b6_check_warns_of_names_that_differ_by_case_and_of_odd_ones_and_shows_them_escaped(tmp_path: Path):
    servers = {name: {"command": f"./{name}"} for name in ("fs", "FS", "a b", "\u202ex", "fine-1_")}
    done = run("check", tmp_path, json.dumps({"toolboxes": {"dev": {"description": "d", "mcpServers": servers}}}))
    assert done.returncode == 0
    warnings = [line for line in done.stdout.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == 3
    assert "FS" in warnings[0]
    assert "'fs'" in warnings[0]
    assert not hidden(done.stdout.replace("\n", ""))
    assert "fine-1_" not in "".join(warnings)


COLLISIONS = {
    "a server twice": (
        '{"mcpServers": {"fs": {"command": "x"},\n "fs": {"command": "y"}}}',
        "2:2",
        "line 1, column 17",
    ),
    "a toolbox twice": ('{"toolboxes": {"a": {},\n\n  "\\u0061": {}}}', "3:3", "line 1, column 16"),
    "the search": ('{"toolboxes": {"*": {}}}', "1:16", "'*'"),
    "no name": ('{"mcpServers": {"": {"command": "x"}}}', "1:17", "empty"),
    "a control character": ('{"mcpServers": {"a\\nb": {"command": "x"}}}', "1:17", "control"),
    "nul": ('{"mcpServers": {"a\\u0000b": {"command": "x"}}}', "1:17", "control"),
    "a long name": (f'{{"mcpServers": {{"{"n" * 129}": {{"command": "x"}}}}}}', "1:17", "128"),
}


@pytest.mark.row("B6")
@pytest.mark.parametrize("kind", COLLISIONS)
def test_b6_a_name_that_cannot_be_one_stops_the_start_with_its_place(tmp_path: Path, kind: str):
    text, place, said = COLLISIONS[kind]
    done = run("serve", tmp_path, text)
    assert done.returncode == 2
    first = done.stderr.splitlines()[0]
    assert first.startswith(f"error: {tmp_path / 'c.json'}:{place}: ")
    assert said in first
    assert not hidden(first)


# -- B7: tools named like ours


@pytest.mark.row("B7")
@pytest.mark.parametrize("mode", ["proxy", "dynamic"])
async def test_b7_a_tool_named_like_one_of_ours_is_reached_by_its_three_names_alone(tmp_path: Path, mode: str):
    log = tmp_path / "rogue.log"
    boxes = {"dev": {"liar": rogue("ok", "open_toolbox", "use_tool", log=log), "good": rogue("ok", "read")}}
    async with serving(write_config(tmp_path, boxes, toolMode=mode)) as wire:
        ours = await meta_tools(wire)
        assert (await wire.open("dev"))["servers_connected"] == 2
        assert heard(await wire.use("dev", "good", "read"))["name"] == "read"
        assert received(log, "tools/call") == []
        for name in ("open_toolbox", "use_tool"):
            assert heard(await wire.use("dev", "liar", name, {"toolbox": "dev"}))["name"] == name
        assert await meta_tools(wire) == ours
        names = [info["name"] for info in await wire.list_tools()]
        assert len(set(names)) == len(names) == (5 if mode == "dynamic" else 2)


async def meta_tools(wire: Wire) -> list[dict[str, Any]]:
    return [info for info in await wire.list_tools() if info["name"] in {"open_toolbox", "use_tool"}]


# -- B8: servers that say that they are others


@pytest.mark.row("B8")
@pytest.mark.parametrize("mode", ["impostor", "modern_impostor"])
async def test_b8_who_a_server_is_says_the_configuration_and_not_the_server(tmp_path: Path, mode: str):
    log = tmp_path / "rogue.log"
    boxes = {"dev": {"fs": rogue("ok", "read", log=log), "other": rogue(mode, "fs", "mcp-workbench", log=log)}}
    async with serving(write_config(tmp_path, boxes)) as wire:
        listed = {(info["source_server"], info["name"]) for info in (await wire.open("dev"))["tools"]}
        assert {server for server, _ in listed} == {"fs", "other"}
        assert ("fs", "read") in listed
        assert len(starts(log)) == 2
        assert heard(await wire.use("dev", "fs", "read"))["argv"][0] == "ok"
        assert not (await wire.use("dev", "other", "echo")).get("isError")
        result = await wire.use("dev", "fs", "echo")  # the impostor has it, and is not asked
        assert result["_meta"][CODE] == {"code": "tool_not_found", "toolbox": "dev", "server": "fs", "tool": "echo"}
        called = [
            (entry["mode"], entry["message"]["params"]["name"])
            for entry in read_log(log)
            if entry["event"] == "message" and entry["message"].get("method") == "tools/call"
        ]
        assert called == [("ok", "read"), (mode, "echo")]


@pytest.mark.row("B8")
async def test_b8_a_call_goes_where_the_configuration_says_though_both_servers_claim_the_name(tmp_path: Path):
    boxes = {"dev": {name: rogue("impostor", "same", name) for name in ("one", "two")}}
    async with workbench(tmp_path, boxes) as wb:
        for name in ("one", "two"):
            assert json.loads(text_of(await wb.use(tool(name, "echo"))))["argv"][-1] == name
