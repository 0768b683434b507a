"""Toolboxes that open without a server running: what is remembered from one workbench to the next."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from mcp_workbench import Workbench, load_config
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.routing.server_lists import Kind
from mcp_workbench.wire.caller import LIBRARY, Caller
from tests.support.canary import Canaries, files_below
from tests.support.configs import LAUNCH, read_log, received, rogue, starts, write_config
from tests.support.procs import wait_until
from tests.support.wire import Wire, environment, error_of, result_of, serving

ASKED = {"elicitation": {}}
MODERN = Caller(version="2026-07-28", modern=True, key=("", True, b"{}"))
KINDS: tuple[Kind, ...] = ("prompts", "resources", "templates")
LISTS = ("prompts/list", "resources/list", "resources/templates/list")


def definition(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **fields}


def write_shelf(folder: Path, *names: str, **fields: Any) -> Path:
    path = folder / "shelf.json"
    path.write_text(json.dumps([definition(name, **fields) for name in names]), encoding="utf-8")
    return path


async def opened(config: Path, toolbox: str = "dev", **arguments: Any) -> dict[str, Any]:
    """What a workbench of its own answers to one open."""
    async with serving(config) as wire:
        return await wire.open(toolbox, **arguments)


async def remember(
    config: Path, *, variables: dict[str, str] | None = None, limits: Limits = DEFAULTS, caller: Caller = LIBRARY
) -> list[str]:
    """Have a workbench in this process list everything, as one of its own would; the names of the tools."""
    with mock.patch.dict(os.environ, environment(config.parent / "home") | (variables or {})):
        del os.environ["WORKBENCH_CATALOG"]
        async with Workbench(load_config(config), limits=limits) as workbench:
            place = workbench.at(caller)
            boxes = [await place.open(toolbox) for toolbox in workbench.config.toolboxes]
            await asyncio.gather(*(place.items(kind, workbench.config.toolboxes) for kind in KINDS))
            return [tool["name"] for box in boxes for tool in box.tools]


def names(answer: dict[str, Any]) -> list[str]:
    return [tool["name"] for tool in answer["tools"]]


def exits(log: Path) -> list[int]:
    return [entry["pid"] for entry in read_log(log) if entry["event"] == "exit"]


def warnings(wire: Wire) -> list[str]:
    return [line for line in wire.stderr.splitlines() if " warning " in line or " error " in line]


# -- without a server


async def test_a_toolbox_that_was_open_before_opens_without_starting_anything(tmp_path: Path):
    log = tmp_path / "rogue.log"
    servers = {"one": rogue(log=log), "two": rogue("unknown_fields", log=log), "three": rogue("modern", log=log)}
    config = write_config(tmp_path, {"dev": servers})
    first = await opened(config)
    assert "stored" not in first
    assert first["instructions"] == {"three": "A modern server."}
    assert len(starts(log)) == 3
    second = await opened(config)
    assert second.pop("stored") is True
    assert second == first
    assert len(starts(log)) == 3


async def test_the_first_call_starts_the_one_server_that_it_needs(tmp_path: Path):
    log, other = tmp_path / "one.log", tmp_path / "two.log"
    config = write_config(tmp_path, {"dev": {"one": rogue(log=log), "two": rogue(log=other)}})
    await remember(config)
    async with serving(config) as wire:
        assert (await wire.open("dev"))["stored"] is True
        await wire.use("dev", "one", "echo")
        assert (len(starts(log)), len(starts(other))) == (2, 1)
        assert (await wire.open("dev"))["stored"] == ["two"]
    assert (len(starts(log)), len(starts(other))) == (2, 1)
    assert len(received(log, "tools/list")) == 2


async def test_a_call_without_an_open_knows_the_tool_and_asks_for_no_list_first(tmp_path: Path):
    log = tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue(log=log)}}, catalog={"refresh": "never"})
    await remember(config)
    async with serving(config) as wire:
        await wire.use("dev", "one", "echo")
        assert len(received(log, "tools/list")) == 1
        missing = await wire.use("dev", "one", "nothing")  # asks the running server for its list once more
        assert error_of(missing).startswith("Tool 'nothing' not found in server 'one' (toolbox 'dev')")
    assert len(received(log, "tools/list")) == 2


@pytest.mark.parametrize("surface", ["default", "toolbox"])
async def test_a_tool_that_appears_without_a_word_is_called_and_a_client_hears_of_it(tmp_path: Path, surface: str):
    shelf, log = write_shelf(tmp_path, "before"), tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue("shelf", shelf, log=log)}})
    arguments = ["--toolbox", "dev"] if surface == "toolbox" else []

    async def call(wire: Wire, name: str) -> dict[str, Any]:
        return await (wire.call(name, {}) if arguments else wire.use("dev", "one", name))

    async with serving(config, *arguments) as wire:
        await wire.list_tools()
        assert not (await call(wire, "before")).get("isError")
        write_shelf(tmp_path, "before", "after")
        results = await asyncio.gather(*(call(wire, "after") for _ in range(50)))
        assert not any(result.get("isError") for result in results)
        if arguments:
            await wire.notification("notifications/tools/list_changed")
    assert (len(starts(log)), len(received(log, "tools/list"))) == (1, 2)


async def test_with_always_a_server_is_asked_at_every_open(tmp_path: Path):
    shelf, log = write_shelf(tmp_path, "before"), tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue("shelf", shelf, log=log)}}, catalog={"refresh": "always"})
    assert await remember(config) == ["before"]
    write_shelf(tmp_path, "after")
    assert await remember(config) == ["after"]
    assert len(starts(log)) == 2


@pytest.mark.parametrize("change", ["arg", "env", "variable"])
async def test_what_another_configuration_listed_is_never_shown(tmp_path: Path, change: str):
    shelf, log = write_shelf(tmp_path, "before"), tmp_path / "rogue.log"

    async def look(value: str) -> list[str]:
        entry = rogue("shelf", shelf, *([value] if change == "arg" else []), log=log, inheritEnv=["TOOLSETS"])
        entry["env"] |= {"MODE": value if change == "env" else "same"}
        config = write_config(tmp_path, {"dev": {"one": entry}})
        return await remember(config, variables={"TOOLSETS": value if change == "variable" else "same"})

    await look("first")
    write_shelf(tmp_path, "after")
    assert await look("second") == ["after"]
    assert await look("first") == ["before"]
    assert len(starts(log)) == 2


async def test_filters_and_names_of_the_file_are_applied_to_what_is_remembered(tmp_path: Path):
    log = tmp_path / "rogue.log"
    await remember(write_config(tmp_path, {"dev": {"one": rogue(log=log, toolFilters=["echo"])}}))
    renamed = write_config(tmp_path, {"new": {"other": rogue(log=log, toolFilters=["nonce"])}})
    answer = await opened(renamed, "new")
    assert names(answer) == ["nonce"]
    assert answer["tools"][0]["source_server"] == "other"
    assert len(starts(log)) == 1


async def test_clients_that_can_be_asked_have_their_own_lists(tmp_path: Path):
    log = tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue(log=log)}})
    await remember(config)
    for _ in range(2):
        async with serving(config, greet=False) as wire:
            await wire.handshake(capabilities=ASKED)
            await wire.open("dev")
        assert len(starts(log)) == 2


# -- age, and who hears of a difference


async def test_an_old_list_is_shown_at_once_and_a_client_of_dynamic_mode_hears_what_a_check_found(tmp_path: Path):
    shelf, log = write_shelf(tmp_path, "before"), tmp_path / "rogue.log"
    boxes = {"dev": {"one": rogue("shelf", shelf, log=log)}}
    config = write_config(tmp_path, boxes, catalog={"maxAge": 0}, toolMode="dynamic")
    await remember(config)
    write_shelf(tmp_path, "after")
    async with serving(config) as wire:
        answer = await wire.open("dev")
        assert (names(answer), answer["stored"]) == (["before"], True)
        await wire.notification("notifications/tools/list_changed", 2)  # one for the open, one for the difference
        assert [tool["name"] for tool in await wire.list_tools()][2:] == ["dev__one__after"]
        await wait_until(lambda: exits(log) == starts(log), what="the end of what was started to check")
    assert len(received(log, "tools/list")) == 2


@pytest.mark.parametrize("way", ["error", "result"])
async def test_a_call_of_a_tool_that_is_gone_says_so_and_the_list_is_new(tmp_path: Path, way: str):
    shelf, log = write_shelf(tmp_path, "before", "other"), tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue("shelf", shelf, way, log=log)}})
    await remember(config)
    write_shelf(tmp_path, "after", "other")
    async with serving(config) as wire:
        assert names(await wire.open("dev")) == ["before", "other"]
        answer = await wire.use("dev", "one", "before")
        assert answer["_meta"]["mcp-workbench/error"]["code"] == "tool_not_found"
        assert error_of(answer).startswith(
            "Tool 'before' not found in server 'one' (toolbox 'dev')\nIts server no longer"
        )
        assert names(await wire.open("dev")) == ["after", "other"]


async def test_a_tool_that_is_new_since_then_can_be_called(tmp_path: Path):
    shelf, log = write_shelf(tmp_path, "before"), tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue("shelf", shelf, log=log)}})
    await remember(config)
    write_shelf(tmp_path, "before", "new")
    async with serving(config) as wire:
        assert not (await wire.use("dev", "one", "new")).get("isError")
        assert names(await wire.open("dev")) == ["before", "new"]
    assert len(starts(log)) == 2


async def test_a_modern_client_lists_everything_that_is_remembered_and_starts_nothing(tmp_path: Path):
    log = tmp_path / "rogue.log"
    whole = {"command": sys.executable, "args": ["-SE", str(LAUNCH), "whole_server", "handshake", "w"]}
    boxes = {"dev": {"plain": rogue(log=log), "modern": rogue("modern", log=log)}, "ops": {"whole": whole}}
    config = write_config(tmp_path, boxes, toolMode="dynamic")
    await remember(config, caller=MODERN)
    assert len(starts(log)) == 2
    async with serving(config, era="modern") as wire:
        tools = [tool["name"] for tool in await wire.list_tools()]
        listed = [result_of(await wire.request(method)) for method in LISTS]
        assert "a server is ready" not in wire.stderr
    assert {"dev__plain__echo", "dev__modern__grow"} < set(tools)
    assert all(listed[number][member] for number, member in enumerate(("prompts", "resources", "resourceTemplates")))
    assert len(starts(log)) == 2


# -- servers that fail, or are others


async def test_a_server_that_fails_after_it_was_remembered_is_tried_and_reported(tmp_path: Path):
    log, needed = tmp_path / "rogue.log", tmp_path / "needed"
    needed.touch()
    config = write_config(tmp_path, {"dev": {"ill": rogue("needs", needed, log=log), "well": rogue()}})
    await remember(config)
    needed.unlink()
    async with serving(config) as wire:
        assert (await wire.open("dev"))["stored"] is True
        assert len(starts(log)) == 1
        failed = await wire.use("dev", "ill", "echo")
        assert error_of(failed).startswith("Failed to connect to server 'ill' in toolbox 'dev'")
        tried = len(starts(log))
        answer = await wire.open("dev")
        assert [one["server"] for one in answer["servers_failed"]] == ["ill"]
        assert {tool["source_server"] for tool in answer["tools"]} == {"well"}
        assert len(starts(log)) > tried > 1


async def test_a_server_that_ignores_the_probe_is_not_probed_again_by_the_next_workbench(tmp_path: Path):
    log = tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue("silent_probe", log=log)}})
    await remember(config, limits=Limits(probe_patience_seconds=0.1), caller=MODERN)
    assert len(received(log, "server/discover")) == 1
    async with serving(config, era="modern") as wire:
        assert not (await wire.use("dev", "one", "echo")).get("isError")
    assert len(received(log, "server/discover")) == 1
    assert len(received(log, "initialize")) == 2


@pytest.mark.parametrize(("before", "after"), [("ok", "modern"), ("modern", "ok")])
async def test_a_server_that_speaks_another_era_since_then_is_reached(tmp_path: Path, before: str, after: str):
    program, log = tmp_path / "server.py", tmp_path / "rogue.log"

    def install(mode: str) -> None:
        folder = str(LAUNCH.parent)
        program.write_text(
            f"import sys; sys.path.insert(0, {folder!r}); import rogue_stdio; rogue_stdio.Peer({mode!r}, []).run()\n"
        )

    entry = {"command": sys.executable, "args": ["-SE", str(program)], "env": {"ROGUE_LOG": str(log)}}
    config = write_config(tmp_path, {"dev": {"one": entry}})
    install(before)
    await remember(config)
    install(after)
    async with serving(config) as wire:
        assert not (await wire.use("dev", "one", "echo")).get("isError")


# -- the file


async def test_several_workbenches_at_once_share_a_file(tmp_path: Path):
    log = tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {f"s{number}": rogue("ok", f"t{number}", log=log) for number in range(3)}})
    expected = ["t0", "t1", "t2"]

    async def look() -> list[str]:
        async with serving(config) as wire:
            found = names(await wire.open("dev"))
            assert warnings(wire) == []
            return found

    assert await asyncio.gather(*(look() for _ in range(4))) == [expected] * 4
    before = len(starts(log))
    assert await asyncio.gather(look(), look()) == [expected] * 2
    assert len(starts(log)) == before


def damaged(home: Path) -> dict[str, str]:
    store = home / "XDG_CACHE_HOME" / "mcp-workbench" / "catalog.sqlite"
    store.write_bytes(b"SQLite format 3\x00" + b"nonsense" * 500)
    return {}


def nowhere(home: Path) -> dict[str, str]:
    del home
    return {"WORKBENCH_CATALOG": "/proc/no/such/folder/catalog.sqlite"}


@pytest.mark.parametrize("spoil", [damaged, nowhere])
async def test_a_file_that_cannot_be_used_is_one_line_in_the_log_and_nothing_to_a_client(tmp_path: Path, spoil: Any):
    log = tmp_path / "rogue.log"
    config = write_config(tmp_path, {"dev": {"one": rogue(log=log), "two": rogue(log=log)}})
    await remember(config)
    env = spoil(tmp_path / "home")
    async with serving(config, env=env) as wire:
        answer = await wire.open("dev")
        assert names(answer) == ["echo", "nonce"] * 2
        assert "stored" not in answer
        assert not (await wire.use("dev", "one", "echo")).get("isError")
        assert not (await wire.use("dev", "two", "echo")).get("isError")
        await wire.open("dev")
        assert len(warnings(wire)) == 1, wire.stderr
        assert "lists of servers" in warnings(wire)[0]


async def test_a_file_that_is_not_wanted_is_not_made(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"one": rogue()}}, catalog={"path": "none"})
    await opened(config)
    assert not list((tmp_path / "home").rglob("catalog.*"))


# -- secrets


@pytest.mark.parametrize("form", ["plain", "base64"])
async def test_no_secret_that_a_server_repeats_is_in_any_file(tmp_path: Path, form: str):
    canaries, log = Canaries(), tmp_path / "rogue.log"
    secret = canaries.new("env")
    said = secret if form == "plain" else base64.b64encode(f"user:{secret}".encode()).decode()
    shelf = write_shelf(tmp_path, "whoami", description=f"Signs in with {said}.")
    entry = rogue("shelf", shelf, log=log, env={"TOKEN": secret})
    config = write_config(tmp_path, {"dev": {"one": entry, "other": rogue(log=log)}})
    first = await opened(config)
    assert first["tools"][0]["description"] == f"Signs in with {said}."
    second = await opened(config)
    assert second["tools"] == first["tools"]
    if form == "plain":
        assert (second["stored"], len(starts(log))) == (True, 2)
    else:
        assert (second["stored"], len(starts(log))) == (["other"], 3)
    left = files_below(tmp_path / "home")
    assert any(name.endswith("catalog.sqlite") for name in left)
    assert canaries.found_in(left) == []


def test_only_the_user_can_read_what_is_remembered(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"one": rogue()}})
    before = os.umask(0)
    try:
        asyncio.run(remember(config))
    finally:
        os.umask(before)
    folder = tmp_path / "home" / "XDG_CACHE_HOME" / "mcp-workbench"
    assert modes([folder, *folder.iterdir()]) == {"mcp-workbench": 0o700, "catalog.sqlite": 0o600, "catalog.key": 0o600}


def modes(paths: Iterable[Path]) -> dict[str, int]:
    return {path.name: path.stat().st_mode & 0o777 for path in paths}
