"""What is played for the matrix: the scripts of each client on each surface, and the programs that they need."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.stage import free_port
from tests.matrix.cells import (
    BEHAVIOURS,
    CHANGE,
    CHANGE_MS,
    CHANGED,
    LIST,
    LOG_LEVEL,
    MALFORMED,
    SERVER,
    SERVERS,
    SOUND,
    Client,
    Server,
    Surface,
    Transport,
)
from tests.support.configs import write_config
from tests.support.reference import COMPILED, node_program
from tests.support.typescript import Scene, workbench_environment
from tests.support.wire import environment, use_params

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TOKEN = "a-token-of-the-matrix"  # noqa: S105 -- of this test
START_SECONDS = 30.0
BUDGET = 1_000_000
"""More tokens than all definitions have, so that `open_toolbox` shows them whole."""

Json = dict[str, Any]


# -- the programs


def command(server: Server) -> list[str]:
    if server.sdk == "typescript":
        return [node_program(), str(HERE / "server.mjs"), server.era]
    if server.sdk == "python":
        return [sys.executable, "-m", "tests.matrix.python_server"]
    return [sys.executable, str(HERE / "malformed_server.py"), server.era]


def env(server: Server) -> dict[str, str]:
    return COMPILED if server.sdk == "typescript" else {"PYTHONPATH": str(ROOT)}


class Programs:
    """The servers over HTTP, and a workbench over HTTP in each of its two modes: each is started once."""

    def __init__(self, folder: Path, stack: contextlib.ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        remote = [server for server in SERVERS if server.transport == "http"]
        self._urls = {server: self._listening(server) for server in remote}
        self.configs = {mode: self._config(mode) for mode in ("proxy", "dynamic")}
        self._fronts = {mode: self._workbench(mode) for mode in self.configs}

    def entry(self, server: Server) -> Json:
        if server.transport == "http":
            return {"url": self._urls[server]}
        program, *arguments = command(server)
        return {"command": program, "args": arguments, "env": env(server)}

    def front(self, surface: Surface, server: Server | None) -> str:
        """The address of a surface of the workbench over HTTP."""
        paths = {"toolbox": f"/{server}", "server": f"/{server}/{SERVER}"}
        return f"{self._fronts['dynamic' if surface == 'dynamic' else 'proxy']}{paths.get(surface, '')}"

    def _listening(self, server: Server) -> str:
        process = self._start(str(server), [*command(server), "--http", "0"], os.environ | env(server))
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def _config(self, mode: str) -> Path:
        folder = self.folder / mode
        folder.mkdir()
        toolboxes = {str(server): {SERVER: self.entry(server)} for server in SERVERS}
        return write_config(folder, toolboxes, toolMode=mode, openBudget=BUDGET)

    def _workbench(self, mode: str) -> str:
        port = free_port()
        config = self.configs[mode]
        line = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), "--http", f"127.0.0.1:{port}"]
        process = self._start(
            f"workbench-{mode}", line, environment(config.parent / "home") | {"WORKBENCH_TOKEN": TOKEN}
        )
        log = self.folder / f"workbench-{mode}.log"
        while "listens on" not in log.read_text(encoding="utf-8"):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
                raise AssertionError(log.read_text(encoding="utf-8"))
        return f"http://127.0.0.1:{port}/mcp"

    def _start(self, name: str, line: list[str], variables: Mapping[str, str]) -> subprocess.Popen[str]:
        log = self._stack.enter_context((self.folder / f"{name}.log").open("w", encoding="utf-8"))
        process = subprocess.Popen(line, env=variables, stdout=subprocess.PIPE, stderr=log, text=True)
        self._stack.enter_context(process)
        self._stack.callback(process.terminate)
        return process


@contextlib.contextmanager
def programs(folder: Path) -> Iterator[Programs]:
    with contextlib.ExitStack() as stack:
        yield Programs(folder, stack)


# -- the scripts


def mark(scene: str, server: Server) -> str:
    """What stands in all that a server says in a scene, and nowhere else."""
    return f"<{scene}/{server}>"


def named(surface: Surface, server: Server, tool: str, arguments: Json, **more: Any) -> Json:
    """A call of a tool, as the surface wants it."""
    if surface == "meta":
        tool, arguments = "use_tool", use_params(str(server), SERVER, tool, arguments)
    elif surface == "dynamic":
        tool = f"{server}__{SERVER}__{tool}"
    meta = more.pop("_meta", None)
    return {
        "do": "callTool",
        "params": {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})},
        **more,
    }


def listing(surface: Surface, server: Server) -> Json:
    if surface != "meta":
        return {"do": "listTools"}
    arguments = {"toolbox": str(server), "detail": "full"}
    return {"do": "callTool", "params": {"name": "open_toolbox", "arguments": arguments}}


def opening(surface: Surface, server: Server) -> dict[str, Json]:
    """In dynamic mode a client of the handshake era sees the tools of a toolbox when it is open."""
    if surface != "dynamic":
        return {}
    arguments = {"toolbox": str(server)}
    return {f"{server} open": {"do": "callTool", "params": {"name": "open_toolbox", "arguments": arguments}}}


def steps(client: Client, surface: Surface, server: Server, scene: str) -> dict[str, Json]:
    """All behaviours of a server, by labels that begin with its name."""
    played = opening(surface, server) | {f"{server} {LIST}": listing(surface, server)}
    if server in MALFORMED:
        sound = {name: named(surface, server, name, {}) for name in ("sound", "sound_too")}
        return played | {f"{server} {name}": step for name, step in sound.items()}
    for label, behaviour in BEHAVIOURS.items():
        more: Json = {"progress": True} if label == "progress" else {}
        if label == "log" and client.is_modern:
            more["_meta"] = {LOG_LEVEL: "info"}
        given = {"mark": mark(scene, server) + behaviour.tool} if behaviour.arguments == "mark" else {}
        played[f"{server} {label}"] = named(surface, server, behaviour.tool, given, **more)
    return played | changing(client, surface, server, scene)


def changing(client: Client, surface: Surface, server: Server, scene: str) -> dict[str, Json]:
    """A tool is added, told of, called, listed and taken away. On the meta surface the list of tools never changes."""
    label = f"{server} {CHANGE}"
    added = added_tool(scene, server)
    told = surface != "meta"
    listen = told and client.is_modern
    return {
        **({f"{label}: listen": {"do": "listen", "params": {"toolsListChanged": True}}} if listen else {}),
        f"{label}: made": named(surface, server, "change", {"name": added}),
        **({f"{label}: told": {"do": "wait", "method": CHANGED, "ms": CHANGE_MS, "fresh": True}} if told else {}),
        f"{label}: called": named(surface, server, added, {}),
        f"{label}: listed": listing(surface, server),
        f"{label}: undone": named(surface, server, "restore", {"name": added}),
    }


def added_tool(scene: str, server: Server) -> str:
    """Servers over HTTP are shared, so each scene adds a tool of its own."""
    return f"added-{scene}-{server}"


# -- the scenes


def direct_scene(client: Client, server: Server, programs: Programs) -> Scene:
    name = f"{client}-direct"
    script = client.script()
    played = steps(client, "direct", server, name)
    if server.transport == "http":
        return Scene(client.player, [], played, {}, script | {"url": programs.entry(server)["url"], "headers": {}})
    return Scene(client.player, command(server), played, env(server), script)


def scene_name(client: Client, surface: Surface, front: Transport) -> str:
    return f"{client}-{surface}-{front}"


def through_scene(
    client: Client, surface: Surface, front: Transport, server: Server | None, programs: Programs
) -> Scene:
    """A scene on a surface in front of a server, or of all of them where a surface has them all."""
    name = scene_name(client, surface, front)
    shown = [server] if server else played_servers(client)
    played: dict[str, Json] = {}
    for one in shown:
        played |= steps(client, surface, one, name)
    if front == "http":
        address = {"url": programs.front(surface, server), "headers": {"Authorization": f"Bearer {TOKEN}"}}
        return Scene(client.player, [], played, {}, client.script() | address)
    config = programs.configs["dynamic" if surface == "dynamic" else "proxy"]
    options = {"toolbox": ["--toolbox", str(server)], "server": ["--toolbox", str(server), "--server", SERVER]}
    line = [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), *options.get(surface, [])]
    home = programs.folder / "homes" / f"{name}-{server or 'all'}"
    home.mkdir(parents=True)
    return Scene(client.player, line, played, workbench_environment(home), client.script())


def played_servers(client: Client) -> list[Server]:
    servers = [*SOUND, *MALFORMED]
    return servers if client.able else [server for server in servers if server.transport == "stdio"]


def opened_tools(outcome: Json) -> list[Json]:
    """The definitions in an answer of `open_toolbox`."""
    return json.loads(outcome["result"]["content"][0]["text"])["tools"]
