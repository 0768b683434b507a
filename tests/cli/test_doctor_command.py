"""`mcp-workbench doctor`: every server is started once, and what is wrong is said with what to do about it."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import logger
from mcp_workbench.cli.display import Live
from mcp_workbench.cli.doctor_report import DoctorProgress
from mcp_workbench.doctor.findings import ConfigReport, ServerExamination
from mcp_workbench.doctor.probe import EXAMINED_GRACE_SECONDS
from mcp_workbench.identity import ServerIdentifier
from tests.docs.markdown import ROOT, blocks, code_words, rows
from tests.support import programs
from tests.support.canary import Canaries
from tests.support.commands import Result, invoke
from tests.support.configs import Toolboxes, read_log, received, rogue, starts, write_config
from tests.support.oauth import OAuthPeer, oauth_peer
from tests.support.procs import census, needs_proc, new_marker, wait_until
from tests.support.screens import started
from tests.support.wire import environment

PAGE = ROOT / "docs" / "commands" / "doctor.md"


@pytest.fixture(autouse=True)
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command changes for its whole process is undone; nothing is left of an earlier test."""
    monkeypatch.setattr(logger, "log", logger.Log())
    for name, value in environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)


ODD_SERVER = Path(__file__).parents[1] / "peers" / "odd_server.py"


def doctor(config: Path, *arguments: str) -> Result:
    return invoke("doctor", "--config", str(config), *arguments)


def examined(folder: Path, toolboxes: Toolboxes, *arguments: str, status: int = 0) -> dict[str, Any]:
    result = doctor(write_config(folder, toolboxes), "--json", *arguments)
    assert result.exit_code == status, result.output
    told = json.loads(result.stdout)
    assert told["ok"] is (status == 0)
    return told


def one(folder: Path, server: dict[str, Any], *arguments: str, status: int = 0) -> dict[str, Any]:
    [found] = examined(folder, {"dev": {"one": server}}, *arguments, status=status)["servers"]
    return found


def codes(told: dict[str, Any]) -> list[str]:
    return [finding["code"] for finding in told["findings"]]


# -- servers that work


def test_a_server_is_started_asked_and_ended(tmp_path: Path):
    log = tmp_path / "log"
    found = one(tmp_path, rogue(log=log))
    assert {key: found[key] for key in ("toolbox", "server", "state", "transport", "era", "protocol", "tools")} == {
        "toolbox": "dev",
        "server": "one",
        "state": "ok",
        "transport": "stdio",
        "era": "handshake",
        "protocol": "2025-11-25",
        "tools": 2,
    }
    assert found["command"] == sys.executable
    assert found["tokens"] > 20
    assert 0 < found["seconds"]["start"] < 20
    assert 0 <= found["seconds"]["list"] < 20
    assert found["findings"] == []
    assert len(starts(log)) == 1
    assert received(log, "tools/call") == []
    assert [entry["event"] for entry in read_log(log)][-1] == "exit"


def test_the_era_of_a_server_is_told(tmp_path: Path):
    found = one(tmp_path, rogue("modern"))
    assert (found["era"], found["protocol"]) == ("modern", "2026-07-28")


def test_one_toolbox_can_be_named(tmp_path: Path):
    log = tmp_path / "log"
    boxes = {"dev": {"a": rogue(log=log)}, "ops": {"b": rogue(log=log)}}
    assert [one["server"] for one in examined(tmp_path, boxes, "ops")["servers"]] == ["b"]
    assert len(starts(log)) == 1
    result = doctor(tmp_path / "workbench-config.json", "opps")
    assert (result.exit_code, "Did you mean 'ops'?" in result.stderr) == (2, True)


def test_servers_are_examined_at_once_and_told_in_the_order_of_the_file(tmp_path: Path):
    boxes = {"dev": {name: rogue("slow_start", 2.0 - 0.4 * n) for n, name in enumerate("abcd")}}
    began = time.monotonic()
    told = examined(tmp_path, boxes)
    assert time.monotonic() - began < 5.6, "one after the other they need that long to start alone"
    assert [one["server"] for one in told["servers"]] == list("abcd")


def test_no_more_than_a_few_run_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import mcp_workbench.doctor.examination as module  # noqa: PLC0415 -- to change its limit

    monkeypatch.setattr(module, "EXAMINED_AT_ONCE", 1)
    log = tmp_path / "log"
    examined(tmp_path, {"dev": {name: rogue(log=log) for name in "ab"}})
    assert [entry["event"] for entry in read_log(log) if entry["event"] in ("start", "exit")] == [
        "start",
        "exit",
        "start",
        "exit",
    ]


# -- servers that do not


@pytest.mark.parametrize(
    ("server", "code", "said", "advice"),
    [
        (rogue("exit_at_start"), "server_exited", "disk is on fire", "in a terminal"),
        (rogue("hang_init"), "startup_timeout", "did not answer within 2 s", "startupTimeout"),
        (rogue("hang_init", "stubborn"), "startup_timeout", "did not answer within 2 s", "startupTimeout"),
        (rogue("cursor", "same"), "list_too_large", "", "."),
        ({"command": "/bin/cat", "args": ["/dev/zero"]}, "", "", "."),
        ({"command": "/bin/echo", "args": ["hello"]}, "", "", "."),
        ({"command": "no-such-program"}, "spawn_failed", "was not found", "Install it"),
        ({"command": "uvx", "env": {"PATH": "/nowhere"}}, "spawn_failed", "was not found", "uv"),
        ({"command": "/"}, "spawn_failed", "", "folder"),
        ({"url": "http://127.0.0.1:1/mcp"}, "server_unavailable", "", "."),
        (rogue(env={"X": "${NOT_SET}"}), "variable_missing", "NOT_SET", "install HOST --env NOT_SET"),
        (
            rogue(env={"X": "${WORKSPACE_FOLDER}"}),
            "variable_missing",
            "WORKSPACE_FOLDER",
            "the folder that is open there",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_server_that_fails_is_told_with_what_to_do(
    tmp_path: Path, server: dict[str, Any], code: str, said: str, advice: str
):
    boxes = {"dev": {"ill": server, "well": rogue()}}
    ill, well = examined(tmp_path, boxes, "--timeout", "2", status=1)["servers"]
    assert (ill["state"], well["state"]) == ("failed", "ok")
    error = next(finding for finding in ill["findings"] if finding["severity"] == "error")
    assert error["code"] == code or (not code and error["code"])
    assert said in error["message"]
    assert advice in error["advice"]
    assert "mcp-workbench doctor" not in error["advice"], "that is what is running"


def test_log_lines_on_stdout_are_told_and_do_no_harm(tmp_path: Path):
    found = one(tmp_path, rogue("garbage", 200))
    assert (found["state"], codes(found)) == ("ok", ["noise_on_stdout"])
    assert "to stderr" in found["findings"][0]["advice"]
    talks = {"command": "/bin/sh", "args": ["-c", "echo listening on 3000; sleep 60"]}
    silent = one(tmp_path, talks, "--timeout", "2", status=1)
    assert "writes log lines to stdout: 'listening on 3000'" in silent["findings"][0]["message"]


def test_a_remote_server_that_says_nothing_has_no_command_that_could_be_tried(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        [finding] = one(tmp_path, {"url": url}, "--timeout", "0.5", status=1)["findings"]
    assert finding["code"] == "startup_timeout"
    assert ("command" in finding["advice"], "url" in finding["advice"]) == (False, True)


@needs_proc
def test_a_hung_server_takes_no_longer_than_its_own_limit_and_is_ended(tmp_path: Path):
    marker = new_marker()
    began = time.monotonic()
    found = one(tmp_path, rogue("hang_init", env=marker, startupTimeout=1), status=1)
    assert codes(found) == ["startup_timeout"]
    assert time.monotonic() - began < 1 + EXAMINED_GRACE_SECONDS + 6, "and the time in which it is ended"
    assert census(marker) == []


def test_a_server_that_needs_a_login_is_no_failure_and_the_command_is_named(tmp_path: Path):
    with oauth_peer() as peer:
        found = one(tmp_path, {"url": peer.url})
        assert (found["state"], found["transport"]) == ("needs_login", "http")
        [finding] = found["findings"]
        assert (finding["code"], finding["severity"]) == ("needs_auth", "warning")
        assert "mcp-workbench auth dev one" in finding["advice"]
        assert doctor(tmp_path / "workbench-config.json", "--strict").exit_code == 1


def test_client_credentials_that_are_refused_are_a_failure(tmp_path: Path, peer: OAuthPeer):
    client = {"grantType": "client_credentials", "clientId": "robot", "clientSecret": "x", "issuer": peer.address}
    found = one(tmp_path, {"url": peer.url, "oauth": client}, status=1)
    assert (found["state"], codes(found)) == ("failed", ["client_refused"])
    assert "Check clientId" in found["findings"][0]["advice"]


# -- what is odd about servers that work


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        (rogue(toolFilters=["echo", "eco*", "!gone"]), ["filter_matches_nothing", "filter_matches_nothing"]),
        (rogue(toolFilters=["nothing"]), ["filter_matches_nothing", "no_tools"]),
        (rogue("duptools"), ["tool_withheld"]),
        (rogue(autoApprove=["echo"]), ["config_warning"]),
        (rogue(env={"API_TOKEN": "tops3cret-canary"}), ["secret_in_file"]),
    ],
)
def test_warnings_fail_only_where_that_is_wanted(tmp_path: Path, server: dict[str, Any], expected: list[str]):
    found = one(tmp_path, server)
    assert codes(found) == expected
    assert {finding["severity"] for finding in found["findings"]} == {"warning"}
    assert all(finding["advice"] for finding in found["findings"])
    assert one(tmp_path, server, "--strict", status=1)["state"] == "ok"


def test_definitions_that_clients_refuse_are_named_with_the_reason(tmp_path: Path):
    content = {
        "tools/list": {"tools": [{"name": "good"}, {"name": "bad", "inputSchema": {"type": "string"}}]},
        "prompts/list": {"prompts": [{"name": "ask", "arguments": "text"}]},
        "resources/list": {"resources": [{"name": "nowhere"}]},
        "resources/templates/list": {"resourceTemplates": 5},
    }
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    found = one(tmp_path, {"command": sys.executable, "args": ["-SE", str(ODD_SERVER), "handshake", str(file)]})
    assert [(finding["code"], finding["message"]) for finding in found["findings"]] == [
        ("tool_withheld", "its tool 'bad' is not offered: official clients refuse its inputSchema.type"),
        ("item_withheld", "its prompt 'ask' is not offered: official clients refuse its arguments"),
        ("item_withheld", "its resource '' is not offered: it has no uri"),
        ("list_failed", "its resource templates can't be listed: its answer to resources/templates/list is not a list"),
    ]


def test_a_note_fails_nothing(tmp_path: Path):
    told = examined(tmp_path, {"dev": {"a": rogue("ok", "a"), "b": rogue("ok", "b", "a")}}, "--strict")
    [note] = [finding for finding in told["findings"] if finding["code"] == "names_shared"]
    assert {finding["severity"] for finding in told["findings"]} == {"note"}
    assert "'dev'" in note["message"]
    assert note["message"].endswith(": a")


def test_a_description_that_an_agent_can_not_choose_by_is_noted_with_the_command_that_changes_it(tmp_path: Path):
    toolboxes = {
        "echoes": {"description": "echo, say", "mcpServers": {"one": rogue("ok", "echo", "say")}},
        "git": {"description": "Servers of Cursor", "mcpServers": {"git": rogue("ok", "a")}},
        "good": {"description": "Call what was built", "mcpServers": {"two": rogue("ok", "b")}},
        "same": {"description": "call  what was built", "mcpServers": {"three": rogue("ok", "c")}},
    }
    config = tmp_path / "workbench-config.json"
    config.write_text(json.dumps({"toolboxes": toolboxes}), encoding="utf-8")
    told = json.loads(doctor(config, "--json", "--strict").stdout)
    assert told["ok"] is True
    assert [(finding["code"], finding["message"], finding["advice"]) for finding in told["findings"]] == [
        (
            "weak_description",
            "the description of toolbox 'echoes' only lists names, and agents choose by it: 'echo, say'",
            "Say what an agent can do with it: mcp-workbench describe echoes TEXT",
        ),
        (
            "weak_description",
            "the description of toolbox 'git' says next to nothing, and agents choose by it: 'Servers of Cursor'",
            "Say what an agent can do with it: mcp-workbench describe git 'Work with Git repositories'",
        ),
        (
            "same_description",
            "toolboxes 'good', 'same' have the same description, so an agent can't choose between them",
            "Say what is different about each: mcp-workbench describe same TEXT",
        ),
    ]
    checked = invoke("check", "--config", str(config), "--json")
    notes = json.loads(checked.stdout)["notes"]
    assert [note["code"] for note in notes] == ["weak_description", "same_description"]
    words = invoke("check", "--config", str(config)).stdout
    assert all(f"\nnote: {note['message']}\n  do: {note['advice']}\n" in words for note in notes)


def test_tools_that_fill_an_open_are_noted(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"one": rogue("ok", *range(100))}}, openBudget=500)
    [found] = json.loads(doctor(config, "--json").stdout)["servers"]
    assert [finding["code"] for finding in found["findings"] if finding["severity"] == "note"] == ["many_tokens"]


def test_a_server_that_starts_later_than_an_open_waits_is_told(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"one": rogue("slow_start", 1.5)}}, openTimeout=1)
    [found] = json.loads(doctor(config, "--json").stdout)["servers"]
    assert codes(found) == ["slow_start"]


def test_a_package_without_a_version_is_told_where_it_stands(tmp_path: Path):
    server = {"command": "npx", "args": ["-y", "@scope/pkg@latest"], "env": {"PATH": "/nowhere"}}
    found = one(tmp_path, server, status=1)
    finding = next(finding for finding in found["findings"] if finding["code"] == "unpinned_package")
    assert "@scope/pkg@latest" in finding["message"]
    assert finding["advice"] == "Pin the version that you tested: @scope/pkg@VERSION"
    assert finding["path"] == "toolboxes.dev.mcpServers.one.args"


def test_each_package_without_a_version_is_told(tmp_path: Path):
    server = {"command": "sh", "args": ["-c", "exec uvx --with mcp --with b==1.0 pkg"], "env": {"PATH": "/nowhere"}}
    found = one(tmp_path, server, status=1)
    unpinned = [finding for finding in found["findings"] if finding["code"] == "unpinned_package"]
    assert [finding["advice"].rpartition(" ")[2] for finding in unpinned] == ["pkg==VERSION", "mcp==VERSION"]
    assert all(finding["line"] for finding in unpinned)


def test_the_same_server_under_two_names_is_told_once(tmp_path: Path):
    boxes = {"dev": {"a": rogue(), "b": rogue()}, "ops": {"a": rogue()}}
    told = examined(tmp_path, boxes)
    found = {(one["toolbox"], one["server"]): codes(one) for one in told["servers"]}
    assert found == {("dev", "a"): [], ("dev", "b"): ["duplicate_server"], ("ops", "a"): []}
    assert "dev/a" in told["servers"][1]["findings"][0]["message"]


@pytest.mark.parametrize(
    ("url", "is_told"),
    [("http://203.0.113.7/mcp", True), ("http://127.0.0.1:1/mcp", False), ("http://[::1]:1/", False)],
)
def test_a_remote_server_without_tls_is_told(tmp_path: Path, url: str, *, is_told: bool):
    found = one(tmp_path, {"url": url}, "--timeout", "0.5", status=1)
    assert ("no_tls" in codes(found)) is is_told


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o640, True), (0o600, False)])
def test_a_file_with_secrets_that_others_can_read_is_told(tmp_path: Path, mode: int, *, is_told: bool):
    config = write_config(tmp_path, {"dev": {"one": rogue(env={"KEY": "tops3cret-canary"})}})
    config.chmod(mode)
    told = json.loads(doctor(config, "--json").stdout)
    assert ("file_readable" in codes(told)) is is_told
    write_config(tmp_path, {"dev": {"one": rogue()}})
    config.chmod(mode)
    assert "file_readable" not in codes(json.loads(doctor(config, "--json").stdout))


def test_a_secret_in_a_server_that_is_disabled_is_told_and_the_server_is_left_alone(tmp_path: Path):
    log = tmp_path / "log"
    off = rogue(log=log, env={"KEY": "tops3cret-canary"}, disabled=True)
    told = examined(tmp_path, {"dev": {"off": off, "on": rogue()}})
    assert [one["server"] for one in told["servers"]] == ["on"]
    assert codes(told)[0] == "secret_in_file"
    assert starts(log) == []


# -- secrets


def test_no_secret_is_in_what_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Of env, args, headers and url; from the file or the environment; also where a server repeats it."""
    canaries = Canaries()
    secret = {place: canaries.plant(place, f"{place}-x7Kq9Zr2Wv5") for place in ("env", "arg", "url", "header", "var")}
    monkeypatch.setenv("FROM_OUTSIDE", secret["var"])
    talks = "import sys, os; print(sys.argv, dict(os.environ), file=sys.stderr); sys.exit(1)"
    local = {
        "command": sys.executable,
        "args": ["-c", talks, "--api-key", secret["arg"], "${FROM_OUTSIDE}"],
        "env": {"SOME": secret["env"]},
    }
    remote = {"url": f"http://127.0.0.1:1/mcp?token={secret['url']}", "headers": {"X-Key": secret["header"]}}
    boxes = {"dev": {"local": local, "remote": remote}}
    config = write_config(tmp_path, boxes)
    for arguments in ([], ["--json"]):
        result = doctor(config, *arguments)
        assert "***" in result.output
        assert canaries.found_in({"output": result.output}) == []


# -- how it is told


def run(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return programs.run([*programs.PROGRAM, "doctor", "--config", str(config), *arguments], timeout=60)


def test_in_a_pipe_there_are_plain_lines(tmp_path: Path):
    boxes = {"dev": {"ill": rogue("exit_at_start"), "well": rogue(toolFilters=["echo", "x"])}}
    done = run(write_config(tmp_path, boxes))
    assert (done.returncode, done.stderr) == (1, "")
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "dev/ill: failed"
    assert lines[1].startswith("  error: it exited with status 3")
    assert lines[2] == "      boom: the disk is on fire"
    assert lines[3].startswith("    do: ")
    assert lines[4].startswith("dev/well: ok, 1 tool, ")
    assert lines[4].endswith(" s, MCP 2025-11-25")
    assert "warning: dev/well: the tool filter 'x' matches no tool of the server" in lines
    assert lines[-1] == "2 servers: 1 ok, 1 failed, 1 warning"


def test_a_traceback_is_shown_by_its_useful_lines(tmp_path: Path):
    script = tmp_path / "server.py"
    script.write_text("import os, asyncio\nasync def load():\n    os.environ['NOTES_4711']\nasyncio.run(load())\n")
    done = run(write_config(tmp_path, {"dev": {"notes": {"command": sys.executable, "args": [str(script)]}}}))
    assert done.stdout.splitlines()[1:8] == [
        "  error: it exited with status 1; its last words:",
        f'        File "{script}", line 4, in <module>',
        "          asyncio.run(load())",
        f'        File "{script}", line 3, in load',
        "          os.environ['NOTES_4711']",
        "      KeyError: 'NOTES_4711'",
        "    do: Start its command in a terminal to see why it ends.",
    ]


def test_equal_warnings_are_told_once_with_their_servers_and_versions(tmp_path: Path):
    """The launcher is a stand-in that "installs" into the cache of `npx` when it is started, as `npx` does."""
    cache = tmp_path / "npm" / "_npx" / "0123"
    launcher = tmp_path / "npx"
    rogue_line = shlex.join([rogue()["command"], *rogue()["args"]])
    launcher.write_text(
        f"#!/bin/sh\nmkdir -p {cache}/node_modules/@scope/pkg\n"
        f"""echo '{{"_npx": {{"packages": ["@scope/pkg"]}}}}' > {cache}/package.json\n"""
        f"""echo '{{"version": "2026.8.31"}}' > {cache}/node_modules/@scope/pkg/package.json\n"""
        f"exec {rogue_line}\n"
    )
    launcher.chmod(0o755)
    env = {"npm_config_cache": str(tmp_path / "npm")}
    boxes = {
        "dev": {
            "one": {"command": str(launcher), "args": ["-y", "@scope/pkg"], "env": env},
            "two": {"command": str(launcher), "args": ["-y", "other"], "env": env},
            "odd": rogue(toolFilters=["echo", "x"]),
            "also": rogue("ok", toolFilters=["nonce", "x"]),
        }
    }
    text = run(write_config(tmp_path, boxes)).stdout
    assert text.partition("\n\n")[2].splitlines()[:9] == [
        "warning: a package is fetched without a fixed version, so each start may run different code",
        "  dev/one: @scope/pkg (line 1)",
        "    do: Pin the version that is installed: @scope/pkg@2026.8.31",
        "  dev/two: other (line 1)",
        "    do: Pin the version that you tested: other@VERSION (the server reports version 1)",
        "warning: the tool filter 'x' matches no tool of the server",
        "  dev/odd",
        "  dev/also",
        "  do: Correct or remove it in toolFilters; without filters every tool is offered.",
    ]


def test_at_a_terminal_what_is_waited_for_is_shown_meanwhile(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"slow": rogue("slow_start", 1.5), "one": rogue()}})
    person, device = pty.openpty()
    env = os.environ | {"COLUMNS": "100", "TERM": "xterm"}
    process = started([*programs.PROGRAM, "doctor", "--config", str(config)], env, None, device)
    os.close(device)
    seen = b""
    while True:
        try:
            seen += os.read(person, 65_536)
        except OSError:
            break
    assert process.wait(30) == 0
    os.close(person)
    text = seen.decode()
    assert "examining dev/slow" in text
    assert "(1 s)" in text
    assert "dev/slow: ok, 2 tools" in text
    assert text.index("dev/slow: ok") < text.index("dev/one: ok")
    assert "2 servers: 2 ok, 0 warnings" in text


@needs_proc
async def test_an_interrupted_examination_ends_what_it_started(tmp_path: Path):
    log, marker = tmp_path / "log", new_marker()
    config = write_config(tmp_path, {"dev": {name: rogue("hang_init", log=log, env=marker) for name in "ab"}})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "mcp_workbench", "doctor", "--config", str(config),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=dict(os.environ),
    )  # fmt: skip
    await wait_until(lambda: len(starts(log)) == 2, 20, what="both servers")
    process.send_signal(signal.SIGINT)
    _, told = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 130
    assert b"Traceback" not in told
    await wait_until(lambda: census(marker) == [], 10, what="their end")


async def test_who_stops_waiting_is_told_what_was_found_so_far(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The first of the file hangs, the second is done."""
    hung, done = (ServerIdentifier("dev", name) for name in ("hung", "done"))
    live, meanwhile = Live(), list[str]()
    monkeypatch.setattr(live, "show", lambda words: meanwhile.append(words.text))
    course = DoctorProgress([hung, done], live, is_quiet=False)

    async def work() -> ConfigReport:
        course.began(hung)
        course.began(done)
        course.done(ServerExamination(server=done, transport="stdio"))
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await course.watched(work())
    assert meanwhile[-1] == "examining dev/hung (0 s), 1 done"
    assert capsys.readouterr().out == "dev/done: ok\n"


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf"])
def test_a_limit_must_be_a_number_of_seconds(tmp_path: Path, seconds: str):
    result = doctor(write_config(tmp_path, {"dev": {"one": rogue()}}), "--timeout", seconds)
    assert (result.exit_code, "--timeout must be a number of seconds" in result.stderr) == (2, True)


def test_a_file_that_can_not_be_used_is_told_to_programs_too(tmp_path: Path):
    config = tmp_path / "workbench-config.json"
    config.write_text("{", encoding="utf-8")
    result = doctor(config, "--json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["ok"] is False


def test_a_file_without_servers_is_told(tmp_path: Path):
    config = tmp_path / "workbench-config.json"
    config.write_text('{"toolboxes": {}}', encoding="utf-8")
    result = doctor(config)
    assert result.exit_code == 0
    assert "no server is configured" in result.stdout
    assert "mcp-workbench import" in result.stdout


# -- the page


def test_every_code_of_a_finding_is_documented():
    source = "".join(path.read_text() for path in (ROOT / "src/mcp_workbench/doctor").glob("*.py"))
    made = {line.split('"')[1] for line in source.splitlines() if line.strip().startswith('code="')}
    assert len(made) > 10
    shown = {word for row in rows(PAGE.read_text(encoding="utf-8")) for word in code_words(row[0])}
    assert made <= shown


def test_the_document_for_programs_is_as_it_is_described(tmp_path: Path):
    [block] = [one for one in blocks(PAGE.read_text(encoding="utf-8")) if one.language == "json"]
    shown = json.loads(block.text)
    ok = rogue(env={"API_TOKEN": "tops3cret-canary"})
    told = examined(tmp_path, {"dev": {"ok": ok, "ill": {"command": "no-such-program"}}}, status=1)
    assert list(told) == list(shown)
    for one_told, one_shown in zip(told["servers"], shown["servers"], strict=True):
        assert list(one_told) == list(one_shown)
        assert list(one_told["findings"][0]) == list(one_shown["findings"][0])
