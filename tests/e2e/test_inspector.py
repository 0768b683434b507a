"""The command line of the MCP Inspector against the workbench, and against the server itself."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.configs import write_config
from tests.support.reference import COMPILED, everything, inspector_driver
from tests.support.typescript import (
    PASSED_ON,
    handshake_part,
    masked,
    without_execution,
    workbench_environment,
)
from tests.support.wire import LINE_BYTES, lasting, use_params

Json = dict[str, Any]
Era = Literal["legacy", "auto", "modern"]

TOOLBOX, SERVER = "all", "everything"
RUN_SECONDS = 60.0


def call(tool: str, /, **arguments: Any) -> list[str]:
    pairs = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in arguments.items()]
    return ["tools/call", "--tool-name", tool, *(["--tool-arg", *pairs] if pairs else [])]


TOOLS = {"tools": ["tools/list"]}
SEEN = {"resources": ["resources/list"], "prompts": ["prompts/list"]}
CALL = {"call": call("get-structured-content", location="Chicago")}
READ = {"read": ["resources/read", "--uri", "demo://resource/dynamic/blob/2"]}
PROMPT = {"prompt": ["prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Graz"]}
NO_PROMPT = {"no prompt": ["prompts/get", "--prompt-name", "no-such-prompt"]}


class Inspector:
    """Runs the Inspector, one time after the other in one process; and in another one against the server itself."""

    def __init__(self, folder: Path, own: Process, other: Process) -> None:
        self.folder = folder
        self.entry = everything()
        self.config = write_config(folder, {TOOLBOX: {SERVER: self.entry}})
        self._own = own
        self._other = other
        self._itself: dict[str, Json] = {}

    async def direct(self, runs: Mapping[str, list[str]]) -> dict[str, Json]:
        """What the server itself answers to each."""
        missing = {label: run for label, run in runs.items() if shlex.join(run) not in self._itself}
        command = [self.entry["command"], *self.entry["args"]]
        answers = await self._all(self._other, missing, command, era="legacy", env=self.entry["env"])
        self._itself.update({shlex.join(missing[label]): answer for label, answer in answers.items()})
        return {label: self._itself[shlex.join(run)] for label, run in runs.items()}

    async def workbench(self, runs: Mapping[str, list[str]], *flags: str, era: Era = "legacy") -> dict[str, Json]:
        """What a workbench with these flags answers to each; every run starts one."""
        serve = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(self.config), *flags]
        home = self.folder / "-".join((era, *flags))
        return await self._all(self._own, runs, serve, era=era, env=workbench_environment(home))

    async def _all(
        self, process: Process, runs: Mapping[str, list[str]], server: list[str], *, era: Era, env: dict[str, str]
    ) -> dict[str, Json]:
        return {label: await self._run(process, run, server, era=era, env=env) for label, run in runs.items()}

    async def _run(self, process: Process, run: list[str], server: list[str], *, era: Era, env: dict[str, str]) -> Json:
        pairs = [part for name, value in env.items() for part in ("-e", f"{name}={value}")]
        options = ["--quiet", "--format", "json", "--protocol-era", era, *pairs, "--method", *run]
        async with asyncio.timeout(RUN_SECONDS):
            ended = await ended_of(process, [*options, "--", *server])
        # A result is on stdout, an error is the last line of stderr.
        lines = (ended["stdout"] if ended["stdout"].strip() else ended["stderr"]).splitlines()
        if not lines or not lines[-1].startswith("{"):
            pytest.fail(f"The Inspector ended with {ended['status']} on {run}: {ended['stderr'][-2000:]}")
        answer: Json = json.loads(lines[-1])
        assert (ended["status"] == 0) == ("result" in answer), ended
        if "result" in answer and era != "legacy":
            answer["result"] = handshake_part(answer["result"])
        return masked(answer)


async def ended_of(process: Process, arguments: list[str]) -> Json:
    """What one run of the Inspector wrote, and its status."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(arguments).encode() + b"\n")
    await process.stdin.drain()
    return json.loads(await process.stdout.readline() or pytest.fail("The Inspector is gone"))


@asynccontextmanager
async def driver(folder: Path) -> AsyncIterator[Process]:
    own = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    home = {"HOME": str(folder), "MCP_INSPECTOR_SECRET_STORE": "memory"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *inspector_driver(), stdin=pipe, stdout=pipe, env=own | home | COMPILED, limit=LINE_BYTES
    )
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(RUN_SECONDS):
            await process.wait()


@asynccontextmanager
async def inspecting(folder: Path) -> AsyncIterator[Inspector]:
    async with driver(folder) as own, driver(folder) as other:
        yield Inspector(folder, own, other)


@pytest.fixture(scope="module")
def inspect(shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspector]:
    with lasting(shared_loop, inspecting(tmp_path_factory.mktemp("inspector"))) as running:
        yield running


async def test_a_transparent_server_shows_the_inspector_what_the_server_itself_shows(inspect: Inspector):
    runs = TOOLS | CALL | READ | NO_PROMPT  # test_typescript_clients.py compares every method, field by field
    flags = ["--toolbox", TOOLBOX, "--server", SERVER]
    itself, through = await asyncio.gather(inspect.direct(runs), inspect.workbench(runs, *flags))
    assert {label for label, answer in itself.items() if "result" not in answer} == {"no prompt"}
    assert through == itself


async def test_a_transparent_server_shows_a_modern_inspector_what_the_server_itself_shows(inspect: Inspector):
    runs = TOOLS
    flags = ["--toolbox", TOOLBOX, "--server", SERVER]
    itself, through = await asyncio.gather(inspect.direct(runs), inspect.workbench(runs, *flags, era="modern"))
    assert through == as_modern(itself)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_toolbox_shows_the_inspector_the_tools_of_its_server(inspect: Inspector, era: Era):
    runs = TOOLS | CALL
    itself, through = await asyncio.gather(inspect.direct(runs), inspect.workbench(runs, "--toolbox", TOOLBOX, era=era))
    assert through == (itself if era == "legacy" else as_modern(itself))


async def test_the_default_surface_shows_the_inspector_two_tools_that_work(inspect: Inspector):
    runs = TOOLS | {
        "open": call("open_toolbox", toolbox=TOOLBOX),
        "call": call("use_tool", **use_params(TOOLBOX, SERVER, "get-structured-content", {"location": "Chicago"})),
    }
    itself, through = await asyncio.gather(inspect.direct(TOOLS | CALL), inspect.workbench(runs, era="auto"))
    assert [tool["name"] for tool in through["tools"]["result"]["tools"]] == ["open_toolbox", "use_tool"]
    opened = json.loads(through["open"]["result"]["content"][0]["text"])
    names = [tool["name"] for tool in itself["tools"]["result"]["tools"]]
    assert [tool["name"] for tool in opened["tools"]] == names
    assert through["call"] == itself["call"]


async def test_the_default_surface_shows_a_modern_inspector_prompts_and_resources_from_the_start(inspect: Inspector):
    joined = f"{TOOLBOX}__{SERVER}__args-prompt"
    prompt = {"prompt": ["prompts/get", "--prompt-name", joined, "--prompt-args", "city=Graz"]}
    itself, through = await asyncio.gather(
        inspect.direct(SEEN | READ | PROMPT), inspect.workbench(SEEN | READ | prompt, era="modern")
    )
    assert len(itself["resources"]["result"]["resources"]) == 7
    for label in ("resources", "read", "prompt"):
        assert through[label] == itself[label], label
    names = [one["name"] for one in itself["prompts"]["result"]["prompts"]]
    joined_names = [f"{TOOLBOX}__{SERVER}__{name}" for name in names]
    assert [one["name"] for one in through["prompts"]["result"]["prompts"]] == joined_names


def as_modern(answers: dict[str, Json]) -> dict[str, Json]:
    """What the Inspector shows of the same answers in the modern era."""
    return {label: {"result": without_execution(answer["result"])} for label, answer in answers.items()}
