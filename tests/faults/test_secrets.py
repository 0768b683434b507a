"""Secrets of a configuration: whatever a server does with them, nobody reads them in our words.

Every test plants random secrets, lets things go wrong, and then searches all that was left behind. Results and
definitions of tools are a server's own and passed on: they are not searched.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import re
import string
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from unittest import mock
from urllib.parse import quote, quote_plus

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_workbench import load_config, logger
from mcp_workbench.errors import ConfigError, WorkbenchError
from mcp_workbench.limits import Limits
from mcp_workbench.servers.stdio import Stderr
from tests.peers.rogue_stdio import ANSWERS
from tests.support import canary, programs
from tests.support.canary import Canaries
from tests.support.configs import Server, rogue, write_config
from tests.support.library import tool, workbench
from tests.support.procs import PROC, needs_proc, wait_until
from tests.support.wire import (
    CLIENT_INFO,
    Era,
    Json,
    Wire,
    environment,
    error_of,
    heard,
    serving,
    text_of,
    use_params,
)

ERROR = "mcp-workbench/error"
GOES_ON = ("stray", "method", "notice", "stderr")
"""Places of the rogue server's words after which it answers all the same."""


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def lower_escapes(text: str) -> str:
    return re.sub("%..", lambda match: match[0].lower(), text)


ECHOES: dict[str, Callable[[str], str]] = {
    "plain": lambda secret: f"bad key {secret}!",
    "at the end": lambda secret: f"bad key {secret.strip()}",
    "basic auth": lambda secret: f"Authorization: Basic {b64(f'user:{secret}')}",
    "base64": b64,
    "base64 in the middle": lambda secret: b64(f"my token={secret}, yours"),
    "base64url": lambda secret: base64.urlsafe_b64encode(f"k={secret};".encode()).decode().rstrip("="),
    "URL": lambda secret: f"GET /?key={quote(secret, safe='')}&x=1",
    "URL, lower case": lambda secret: f"/?key={lower_escapes(quote(secret))}&x",
    "URL, of JavaScript": lambda secret: "/?key=" + quote(secret, safe="!'()*~"),
    "form": lambda secret: f"key={quote_plus(secret)}&x=1",
    "JSON": lambda secret: json.dumps({"key": secret}),
    "JSON, of Go": lambda secret: re.sub("[&<>]", lambda match: f"\\u{ord(match[0]):04x}", json.dumps([secret])),
    "JSON, of JavaScript": lambda secret: json.dumps({"key": secret}, ensure_ascii=False),
    "repr": lambda secret: repr({"key": secret}),
    "repr of a text": lambda secret: repr(f"\"bad\" 'key' {secret}"),
    "repr of bytes": lambda secret: repr(secret.encode()),
}


def homes(folder: Path) -> dict[str, str]:
    """Folders of the person who starts it, all below one that can be searched."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    return {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}


def left_behind(wire: Wire, folder: Path) -> dict[str, str | bytes]:
    """What a run of the workbench wrote: its log, its errors, and whatever file."""
    return {
        "stderr": wire.stderr,
        **canary.our_errors(wire.order),
        **canary.files_below(folder / "home", folder / "tmp"),
    }


def code_of(result: Json) -> str:
    return result["_meta"][ERROR]["code"]


@pytest.mark.parametrize("shape", canary.WRITTEN)
def test_the_search_finds_a_secret_in_every_form_and_half_of_one(shape: str):
    canaries = Canaries()
    secret = canaries.new("here", shape)
    said = {name: echo(secret) for name, echo in ECHOES.items()}
    if len(secret) > 2 * canary.SHOWN:
        said |= {"first half": secret[: len(secret) // 2], "second half": f"…{secret[-len(secret) // 2 :]}"}
    found = canaries.found_in(said)
    assert {what.partition(": ")[0] for what in found} == set(said)
    assert not canaries.found_in({"another one": canary.SHAPES[shape](), "none": " ".join(map(str, range(1000)))})


# -- C5: servers that repeat their secrets


@pytest.mark.row("C5", "F3")
async def test_c5_no_secret_that_a_server_repeats_in_a_call_is_in_an_error_or_in_the_log(tmp_path: Path):
    canaries = Canaries()
    server, environ = canary.planted(canaries, "s", rogue("spill"))
    config = write_config(tmp_path, {"dev": {"s": server}})
    env = environ | canary.ambient(canaries) | homes(tmp_path)
    async with serving(config, "--log-level", "debug", env=env) as wire:
        for place, secret in canaries.of("s"):
            await wire.use("dev", "s", "stderr", {"text": secret})
            for echo in ECHOES.values() if "VAR" not in place else [ECHOES["plain"]]:
                result = await wire.use("dev", "s", "message", {"text": echo(secret)})
                assert code_of(result) == "server_refused"
                assert "***" in error_of(result)
        for place in (*ANSWERS, "stderr", "exit", "exception"):
            for variable in ("CANARY_MIXED", "CANARY_VAR_LATIN", "CANARY_LONG", "CANARY_LINES"):
                heard(await wire.use("dev", "s", "echo", {}))  # it is well again, and rests from nothing
                result = await wire.use("dev", "s", place, {"variable": variable})
                assert result.get("isError") or place in GOES_ON
        await wire.hang_up()
    assert wire.stderr.count("a server wrote to stderr") >= len(canaries.of("s"))
    assert not canaries.found_in(left_behind(wire, tmp_path))


SOME = ("token", "edges", "quotes", "accents", "lines", "latin", "long")
STARTS = ("stderr", "exit", "exception", "version", "refused", "list", "cursor", "noise", "withheld")


def spilling_servers(
    canaries: Canaries, folder: Path, events: Iterable[str] = STARTS
) -> tuple[dict[str, Server], dict[str, str]]:
    """A server for each place of its first steps, twice: it says its environment, and its secrets in many forms."""
    servers: dict[str, Server] = {}
    environ: dict[str, str] = {}
    for name in (f"{event}_{kind}" for event in events for kind in ("environment", "forms")):
        event, kind = name.split("_")
        text = folder / f"{name}.txt"
        arguments = [event, text] if kind == "forms" else [event]
        servers[name], variables = canary.planted(canaries, name, rogue("spill", *arguments), SOME)
        environ |= variables
        said = [echo(secret) for _, secret in canaries.of(name) for echo in ECHOES.values()]
        text.write_text("\n".join(said), encoding="utf-8")
    return servers, environ


@pytest.mark.row("C5", "F3")
async def test_c5_no_secret_that_a_server_repeats_in_its_first_steps_is_in_an_error_or_in_the_log(tmp_path: Path):
    canaries = Canaries()
    servers, environ = spilling_servers(canaries, tmp_path)
    config = write_config(tmp_path, {"dev": servers})
    env = environ | canary.ambient(canaries) | homes(tmp_path)
    async with serving(config, "--log-level", "debug", env=env) as wire:
        opened = await wire.open("dev", seconds=20)
        failed = {entry["server"] for entry in opened["servers_failed"]}
        assert failed == {name for name in servers if not name.startswith(("noise", "withheld"))}
        assert {entry["name"] for entry in opened["tools_withheld"]} == {"twice", "large"}
        await asyncio.gather(*(wire.use("dev", name, "echo", {}) for name in failed))
        await wire.hang_up()
    assert wire.stderr.count("that is not a message") == 2
    assert wire.stderr.count("could not be started") >= 10
    assert not canaries.found_in(left_behind(wire, tmp_path))


@pytest.mark.row("C5", "F3")
@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_c5_no_secret_is_in_an_error_of_a_server_that_is_served_as_it_is(tmp_path: Path, era: Era):
    """Such an error is the server's own, and passed on with its data; but not with a secret in it."""
    canaries = Canaries()
    shapes = ("token", "markup", "quotes", "base64", "accents", "lines", "long") if era == "handshake" else ("markup",)
    server, environ = canary.planted(canaries, "s", rogue("spill"), shapes)
    config = write_config(tmp_path, {"dev": {"s": server}})
    arguments = ("--toolbox", "dev", "--server", "s", "--log-level", "debug")
    async with serving(config, *arguments, era=era, env=environ | homes(tmp_path)) as wire:

        async def refusal(tool: str, text: str) -> Json:
            return (await wire.request("tools/call", {"name": tool, "arguments": {"text": text}}))["error"]

        for _, secret in canaries.of("s"):
            for name, echo in ECHOES.items():
                assert (await refusal("message", echo(secret)))["message"].count("***") >= 1, name
                assert "data" not in await refusal("data", echo(secret)), name
            escaped = re.sub("[&<>'+/]", lambda match: f"\\u{ord(match[0]):04X}", json.dumps(secret))
            line = f'{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":-32050,"message":"no","data":[{escaped}]}}}}'
            assert await refusal("raw", line) == {"code": -32050, "message": "no"}
        harmless = await refusal("data", "nothing to hide")
        assert harmless == {"code": -32050, "message": "no", "data": {"detail": ["nothing to hide"]}}
        await wire.hang_up()
    assert not canaries.found_in(left_behind(wire, tmp_path))


@pytest.mark.row("F3")
async def test_f3_what_a_server_says_of_an_error_is_cut_and_stands_behind_its_name(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"s": rogue("spill")}})
    async with serving(config) as wire:
        result = await wire.use("dev", "s", "message", {"text": "words " * 100_000})
    text = error_of(result)
    frame, _, quoted = text.partition("failed: ")
    assert "'s'" in frame
    assert "'message'" in frame
    assert quoted.startswith("words words")
    assert len(quoted.encode()) < 2048 + 100
    assert "words" in text_of(result)


# -- C5: where stderr is cut

LETTERS = string.ascii_letters
STDERR_PIECES = st.text("0123456789 \n", max_size=40)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as one:
        yield one


@pytest.mark.row("C5")
@settings(deadline=None)
@given(
    secrets=st.lists(st.text(LETTERS, min_size=6, max_size=80), min_size=1, max_size=3),
    sizes=st.tuples(st.integers(1, 400), st.integers(1, 60), st.integers(1, 60)),
    data=st.data(),
)
def test_c5_no_character_of_a_secret_is_shown_wherever_stderr_is_cut(
    runner: asyncio.Runner, secrets: list[str], sizes: tuple[int, int, int], data: st.DataObject
):
    """At the end of the ring, at the end of what an error shows, at the end of a line, between two reads."""
    text = "".join(data.draw(st.lists(STDERR_PIECES | st.sampled_from(secrets), max_size=30))).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    chunks = [text[begin:end] for begin, end in itertools.pairwise([0, *cuts, len(text)])]
    logged: list[bytes] = []
    log = logger.Log(level="debug")
    log.redact.hide(secrets)
    with mock.patch.object(logger, "log", log), mock.patch.object(log, "_write", logged.append):
        tail = runner.run(read_stderr(chunks, sizes))
    said = [line.decode().partition("text=")[2] for line in logged if b" text=" in line]
    assert not set("".join([tail, *said])) & set(LETTERS)


async def read_stderr(chunks: list[bytes], sizes: tuple[int, int, int]) -> str:
    ring, tail, line = sizes
    limits = Limits(stderr_ring_bytes=ring, stderr_tail_bytes=tail, stderr_line_length=line)
    stderr = Stderr("dev/s", limits)
    for chunk in chunks:
        stderr.data_received(chunk)
    stderr.connection_lost(None)
    return stderr.tail()


@pytest.mark.row("C5")
@pytest.mark.parametrize("length", [50, 4096])
async def test_c5_the_end_of_stderr_is_shown_though_there_are_secrets_in_it(length: int):
    log = logger.Log(level="off")
    log.redact.hide([secret := "s3cr3t-" * (length // 7)])
    said = b"".join(b"line %04d %s\n" % (number, secret.encode()) for number in range(2000))
    said += b"".join(b"end %04d\n" % number for number in range(100))
    with mock.patch.object(logger, "log", log):
        tail = await read_stderr([said], (65_536, 2048, 4096))
    assert tail.splitlines()[-100:] == [f"end {number:04}" for number in range(100)]
    assert ("line 1999 ***" in tail) is (length == 50)


# -- C5: servers that can't be started, and what `check` says of a configuration


def unusable(canaries: Canaries) -> tuple[dict[str, Server], dict[str, str]]:
    """Servers with secrets in every other place, none of which can be used; and the variables that they refer to."""
    remote, environ = canary.planted_url(canaries, "remote")
    servers = {"remote": remote}
    for number, form in enumerate(("{}", "/nowhere/{}", "~/{}", "./below//{}", "{}/tool", "~/{}/tool")):
        value = canaries.new(f"command {number}")
        environ[f"COMMAND_{number}"] = form.format(value)
        servers[f"command_{number}"] = {"command": f"${{COMMAND_{number}}}"}
        environ[f"FOLDER_{number}"] = form.format(canaries.new(f"cwd {number}"))
        servers[f"cwd_{number}"] = rogue(cwd=f"${{FOLDER_{number}}}")
    environ["AN_ARGUMENT_TOKEN"] = canaries.new("args")
    arguments = ["--token", "${AN_ARGUMENT_TOKEN}", "--key=${AN_ARGUMENT_TOKEN}"]
    servers["args"] = {"command": "not-to-be-found", "args": arguments}
    env = {"NEEDED": "${NEVER_SET}", "TOKEN": canaries.new("beside a missing variable")}
    servers["missing"] = {"command": "not-to-be-found", "env": env}
    return servers, environ


@pytest.mark.row("C5")
async def test_c5_no_secret_is_in_the_errors_of_servers_that_cannot_be_started(tmp_path: Path):
    canaries = Canaries()
    servers, environ = unusable(canaries)
    config = write_config(tmp_path, {"dev": servers | {"good": rogue()}})
    async with serving(config, "--log-level", "debug", env=environ | homes(tmp_path)) as wire:
        opened = await wire.open("dev")
        assert {entry["server"] for entry in opened["servers_failed"]} == set(servers)
        await asyncio.gather(*(wire.use("dev", name, "echo", {}) for name in servers))
        await wire.hang_up()
    assert not canaries.found_in(left_behind(wire, tmp_path))


COMMANDS = {
    "check": (["check"], 2),
    "check --json": (["check", "--json"], 2),
    "serve --strict": (["serve", "--strict", "--log-level", "debug"], 2),
}


@pytest.mark.row("C5")
@pytest.mark.parametrize("arguments", COMMANDS)
def test_c5_no_secret_is_in_what_a_command_says_of_a_configuration(tmp_path: Path, arguments: str):
    canaries = Canaries()
    servers, environ = unusable(canaries)
    servers["all"], variables = canary.planted(canaries, "all", rogue())
    config = write_config(tmp_path, {"dev": servers})
    env = environment(tmp_path) | environ | variables | canary.ambient(canaries) | homes(tmp_path)
    command = [*programs.PROGRAM, *COMMANDS[arguments][0], "--config", str(config)]
    done = programs.run(command, env=env)
    assert done.returncode == COMMANDS[arguments][1]
    assert "NEVER_SET" in done.stdout + done.stderr
    written = canary.files_below(tmp_path / "home", tmp_path / "tmp")
    assert not canaries.found_in({"stdout": done.stdout, "stderr": done.stderr, **written})


def broken_files(text: str) -> Iterator[str]:
    """A file with a mistake in it, for each place where there may be one."""
    for at in range(0, len(text), 3):
        yield text[:at]
        yield text[:at] + text[at + 1 :]
    for token in re.finditer(r'"[^"]*"|[{}\[\]:,]', text):
        for instead in ("", "1", "null", "[]", "'x'", f"{{{token[0]}: {token[0]}}}", token[0] * 2):
            yield text[: token.start()] + instead + text[token.end() :]


@pytest.mark.row("C5")
def test_c5_no_mistake_in_a_file_makes_an_error_that_repeats_a_value():
    canaries = Canaries()
    servers: dict[str, Server] = {
        "a": {
            "command": canaries.new("command"),
            "args": ["-k", canaries.new("args")],
            "env": {"K": canaries.new("env")},
        },
        "b": {"url": f"https://{canaries.new('url')}", "headers": {"X": canaries.new("headers")}},
        "c": {"command": "${V}", "cwd": canaries.new("cwd"), "env": {"K": f"${{U:-{canaries.new('default')}}}"}},
    }
    content = {"toolboxes": {"d": {"description": "described", "mcpServers": servers}}}
    said: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workbench-config.json"
        for number, text in enumerate(broken_files(json.dumps(content))):
            path.write_text(text, encoding="utf-8")
            try:
                config = load_config(path, environ={"V": canaries.values["command"]})
            except ConfigError as error:
                said[f"file {number}: {text}"] = f"{error!r} {error} {error.hint}"
            else:
                said[f"file {number}: {text}"] = f"{config!r} {config.warnings}"
    assert len(set(said.values())) > 300
    # A value that stands where a key belongs is a key, and is named.
    as_key = re.compile(r'[{,] ?"sk-\w+"? ?:')
    found = [what for what in canaries.found_in(said) if not as_key.search(what)]
    assert not found


def told(error: BaseException) -> str:
    """All that an exception says of itself, and of those that led to it."""
    hint = getattr(error, "hint", "")
    return "\n".join([str(error), repr(error), hint, *traceback.format_exception(error)])


# -- C5: the library


@pytest.mark.row("C5")
async def test_c5_no_secret_is_in_an_exception_or_a_representation_of_the_library(tmp_path: Path):
    canaries = Canaries()
    server, environ = canary.planted(canaries, "s", rogue("spill"), SOME)
    starting, more = spilling_servers(canaries, tmp_path, ("stderr", "refused", "list"))
    broken, most = unusable(canaries)
    said: dict[str, str] = {}
    log = logger.Log(level="off")
    with mock.patch.dict(os.environ, environ | more | most), mock.patch.object(logger, "log", log):
        async with workbench(tmp_path, {"dev": {"s": server}, "starting": starting, "broken": broken}) as running:
            said |= {f"repr of {name}": text for name, text in representations(running.config)}
            for place in (*ANSWERS, "exit", "exception"):
                for variable in ("CANARY_QUOTES", "CANARY_VAR_LATIN"):
                    await running.use(tool("s", "echo"))
                    said |= await outcome(f"{place} {variable}", running.use(tool("s", place), {"variable": variable}))
            for toolbox in ("starting", "broken"):
                opened = running.open(toolbox)
                said |= await outcome(f"opening {toolbox}", opened)
            names = [(box, name) for box, servers in (("starting", starting), ("broken", broken)) for name in servers]
            calls = (outcome(f"{box}, {name}", running.use(tool(name, "echo", toolbox=box))) for box, name in names)
            for one in await asyncio.gather(*calls):
                said |= one
            said["repr"] = repr(running)
    assert sum("***" in text for text in said.values()) > 20
    assert not canaries.found_in(said)


async def outcome(name: str, call: Awaitable[object]) -> dict[str, str]:
    """What an exception of the library says, if there is one; or what an open says of those that failed."""
    try:
        result = await call
    except WorkbenchError as error:
        return {name: told(error)}
    failed = getattr(result, "failed", ())
    return {f"{name}: {one.server}": told(one) + told(one.fault) for one in failed}


def representations(thing: object, name: str = "config") -> Iterator[tuple[str, str]]:
    """Of a configuration and everything in it that is no plain value."""
    if isinstance(thing, msgspec.Struct):
        yield name, f"{thing!r} {thing}"
        for field in thing.__struct_fields__:
            yield from representations(getattr(thing, field), f"{name}.{field}")
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            if isinstance(value, msgspec.Struct):
                yield from representations(value, f"{name}[{key!r}]")
    elif isinstance(thing, tuple) and all(isinstance(item, msgspec.Struct) for item in thing):
        for number, item in enumerate(thing):
            yield from representations(item, f"{name}[{number}]")


# -- C5: defects of our own


DEFECTS = {
    "in a request": "proxy.ProxySurface.call_tool = broken",
    "in a callback": "peer.Peer.receive = broken",
    "in a task": "connector.Connector._open_once = broken",
    "in a reader": "servers_stdio.Stderr.data_received = broken",
    "in a thread": "proxy.ProxySurface.call_tool = lambda *_: threading.Thread(target=broken).start()",
    "at the end of an object": "proxy.ProxySurface.call_tool = lambda *_: type('Broken', (), {'__del__': broken})()",
    "before the start": "early_initialize.greet = broken",
    "in the loop": "stdio.StdioEndpoint.run = broken",
    "in its own description": "early_initialize.greet = undescribed",
}
PROGRAM = """
import os, sys, threading
from mcp_workbench.servers import connector, stdio as servers_stdio
from mcp_workbench.serve import early_initialize, stdio
from mcp_workbench.surfaces import proxy
from mcp_workbench.wire import peer
from mcp_workbench.__main__ import main
def broken(*_, **__):
    raise RuntimeError(*(value for name, value in os.environ.items() if name.startswith("SOURCE_")))
def undescribed(*_, **__):
    raise type("RuntimeError", (RuntimeError,), {"__repr__": broken, "__str__": broken})(os.environ)
"""


@pytest.mark.row("C5")
@pytest.mark.parametrize("defect", DEFECTS)
async def test_c5_no_secret_is_in_what_a_defect_of_ours_writes(tmp_path: Path, defect: str):
    canaries = Canaries()
    server, environ = canary.planted(canaries, "s", rogue("spill", "noise"), ("token", "quotes", "lines"))
    config = write_config(tmp_path, {"dev": {"s": server}})
    arguments = ["serve", "--config", str(config), "--log-level", "debug"]
    command = [sys.executable, "-c", f"{PROGRAM}\n{DEFECTS[defect]}\nmain()", *arguments]
    wire = await Wire.spawn(command, env=environment(tmp_path) | environ | homes(tmp_path))
    try:
        await wire.begin("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO})
        await wire.begin("tools/call", {"name": "use_tool", "arguments": use_params("dev", "s", "stderr", {})})
        ended = wire.process
        await wait_until(lambda: "RuntimeError" in wire.stderr or ended.returncode is not None, 15)
    finally:
        await wire.close()
    assert "RuntimeError" in wire.stderr
    assert not canaries.found_in(left_behind(wire, tmp_path))


# -- C6: who sees which environment

ALLOWED = (
    *("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR", "LC_ALL", "LC_TIME", "TZ", "DOCKER_HOST"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
    *("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"),
)
OURS = ("WORKBENCH_TOKEN", "WORKBENCH_CREDENTIALS", "MCP_WORKBENCH_RUN")


def environment_of(pid: int) -> dict[bytes, bytes]:
    """What a process was started with."""
    entries = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if entry)


def children_of(pid: int) -> list[int]:
    found = [task.read_text(encoding="utf-8").split() for task in (PROC / str(pid) / "task").glob("*/children")]
    return [int(child) for children in found for child in children]


@needs_proc
@pytest.mark.row("C6")
async def test_c6_a_server_has_its_own_environment_and_a_few_basics_and_nothing_else(tmp_path: Path):
    canaries = Canaries()
    ambient = canary.ambient(canaries)
    first, some = canary.planted(canaries, "first", rogue())
    second, more = canary.planted(canaries, "second", rogue(inheritEnv=["GITHUB_*", "OPENAI_API_KEY"]))
    greedy = rogue(inheritEnv=["*", "WORKBENCH_*", "WORKBENCH_TOKEN"])
    config = write_config(tmp_path, {"dev": {"first": first, "second": second, "bare": rogue(), "greedy": greedy}})
    kept = {name: value for name, value in environment(tmp_path).items() if "_" not in name}
    given = kept | dict.fromkeys(ALLOWED, "a basic") | ambient | some | more | homes(tmp_path)
    given |= {"PATH": os.environ["PATH"], **dict.fromkeys(OURS, "of the workbench itself")}
    wire = await Wire.spawn([sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config)], env=given)
    try:
        await wire.handshake()
        pids = {
            name: heard(await wire.use("dev", name, "echo"))["pid"] for name in ("first", "second", "bare", "greedy")
        }
        seen = {name: environment_of(pid) for name, pid in pids.items()}
        descriptors = {name: sorted(os.listdir(PROC / str(pid) / "fd")) for name, pid in pids.items()}  # noqa: PTH208
    finally:
        await wire.close()
    marks = {name: env.pop(b"MCP_WORKBENCH_RUN") for name, env in seen.items()}
    assert len({*marks.values(), b"of the workbench itself"}) == 5
    basics = {name: given[name] for name in ALLOWED}
    inherited = {name: ambient[name] for name in ("GITHUB_TOKEN", "OPENAI_API_KEY")}
    own = {server: {f"INHERITED_{server}": given[f"INHERITED_{server}"]} for server in ("FIRST", "SECOND")}
    assert seen["bare"] == encoded(basics)
    assert seen["first"] == encoded(basics | own["FIRST"] | expanded(first["env"], some))
    assert seen["second"] == encoded(basics | inherited | own["SECOND"] | expanded(second["env"], more))
    assert seen["greedy"] == encoded({name: value for name, value in given.items() if name not in OURS})
    assert set(map(tuple, descriptors.values())) == {("0", "1", "2")}, "no pipe of a neighbour either"


def expanded(env: dict[str, str], environ: dict[str, str]) -> dict[str, str]:
    """As the product documents it, by other means."""
    for variable, value in environ.items():
        env = {name: text.replace(f"${{{variable}}}", value) for name, text in env.items()}
    return {name: re.sub(r"\$\{NEVER_SET:-(.*)\}", r"\1", text) for name, text in env.items()}


def encoded(env: dict[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}


@needs_proc
@pytest.mark.row("C5", "C6")
async def test_c6_no_process_of_ours_has_a_secret_in_its_arguments_or_more_environment_than_it_needs(tmp_path: Path):
    canaries, chosen = Canaries(), Canaries()
    ambient = canary.ambient(canaries)
    server, environ = canary.planted(canaries, "s", rogue("ok"))
    visible = {"SOURCE_ARGUMENT": chosen.new("args")}
    config = write_config(tmp_path, {"dev": {"s": server, "args": rogue("ok", "echo", "${SOURCE_ARGUMENT}")}})
    async with serving(config, env=ambient | environ | visible | homes(tmp_path)) as wire:
        pids = {name: heard(await wire.use("dev", name, "echo"))["pid"] for name in ("s", "args")}
        ours = [wire.process.pid, *children_of(wire.process.pid)]
        arguments = {pid: (PROC / str(pid) / "cmdline").read_bytes() for pid in ours}
        (guardian,) = set(ours) - {wire.process.pid, *pids.values()}
        assert environment_of(guardian) == {}
    assert not canaries.found_in({f"arguments of {pid}": text for pid, text in arguments.items()})
    found = {pid for pid, text in arguments.items() if chosen.found_in({"arguments": text})}
    assert found == {pids["args"]}, "it is there because the configuration says so"
