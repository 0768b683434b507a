"""Child processes: what they see, how their end is told, and that none is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mcp_workbench
from mcp_workbench.config.environment import INHERITED
from mcp_workbench.config.model import Launch
from mcp_workbench.errors import SpawnFailed
from mcp_workbench.servers import guardian
from mcp_workbench.servers.guardian import VARIABLE
from mcp_workbench.servers.orphans import start_of
from mcp_workbench.servers.processes import environment, exit_text
from tests.servers.real import launch, processes
from tests.support.procs import census, guardian_running, hang_up, is_alive, needs_proc, new_marker, wait_until

SRC = Path(mcp_workbench.__file__).parents[1]


# -- what a server sees

DEFAULT = [pattern.replace("*", "ANY") for patterns in INHERITED.values() for pattern in patterns]
OURS = {name: f"our-{name}" for name in DEFAULT} | {
    "WORKBENCH_TOKEN": "never",
    "WORKBENCH_PROXY": "never",
    "PROXY": "never",
    "XDG": "never",
    "AWS_SECRET_ACCESS_KEY": "never",
    "SSH_AUTH_SOCK": "/sock",
    "AWS_PROFILE": "p",
    "PYTHONPATH": "/x",
    "LD_PRELOAD": "/evil.so",
}


def test_a_server_sees_the_basics_its_own_env_and_the_marker_and_nothing_else():
    seen = environment(Launch(command="x", env={"KEY": "v", "PATH": "/own"}), OURS, "m.1.")
    assert seen == {name: f"our-{name}" for name in DEFAULT} | {"KEY": "v", "PATH": "/own", VARIABLE: "m.1."}


def test_what_is_to_be_inherited_is_named_or_matched_by_case():
    seen = environment(Launch(command="x", inherit_env=("SSH_AUTH_SOCK", "AWS_P*", "aws_*", "NOT_THERE")), OURS, "m")
    assert set(seen) == {*DEFAULT, "SSH_AUTH_SOCK", "AWS_PROFILE", VARIABLE}


@pytest.mark.parametrize("pattern", ["*", "WORKBENCH_*", "WORKBENCH_TOKEN", "W*", "?ORKBENCH_TOKEN", "*_WORKBENCH_RUN"])
def test_no_pattern_lets_a_variable_of_the_workbench_itself_through(pattern: str):
    seen = environment(Launch(command="x", inherit_env=(pattern,)), OURS | {VARIABLE: "outer"}, "m")
    assert not [name for name in seen if name.startswith("WORKBENCH_")]
    assert seen[VARIABLE] == "m"


def test_the_marker_cannot_be_overridden():
    assert (
        environment(Launch(command="x", env={VARIABLE: "forged"}), OURS | {VARIABLE: "outer"}, "m.1.")[VARIABLE]
        == "m.1."
    )


def test_of_what_is_missing_nothing_is_made_up():
    assert environment(Launch(command="x"), {}, "m") == {VARIABLE: "m"}


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exited with status 0"),
        (3, "exited with status 3"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-200, "was killed by signal 200"),
    ],
)
def test_how_a_process_ended_is_told_for_people(code: int, text: str):
    assert exit_text(code) == text


# -- starting


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (Launch(command="/no/such/program"), "ENOENT"),
        (Launch(command="no-such-program-anywhere"), "ENOENT"),
        (Launch(command="/etc/passwd"), "EACCES"),
        (Launch(command=sys.executable, cwd=Path("/no/such/folder")), "working folder"),
        (Launch(command="nul\0byte"), "not a valid argument"),
        (Launch(command=""), "could not be run|was not found|not executable"),
    ],
)
async def test_a_command_that_cannot_be_run_is_told_with_its_reason(how: Launch, said: str):
    async with processes() as running:
        with pytest.raises(SpawnFailed, match=said):
            running.spawn(how)


@contextlib.contextmanager
def no_file_left() -> Iterator[None]:
    """Nothing more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(free := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("guarded", [False, True])
async def test_with_no_file_left_to_open_a_start_fails_and_says_what_to_do(*, guarded: bool):
    async with processes() as running:
        if guarded:
            await running.end(running.spawn(launch()))
        with no_file_left(), pytest.raises(SpawnFailed, match="EMFILE") as caught:
            running.spawn(launch())
        assert "ulimit -n" in caught.value.hint
        await running.end(running.spawn(launch()))


@needs_proc
async def test_a_server_whose_pipes_can_not_be_had_is_ended():
    marker = new_marker()
    async with processes() as running:
        child = running.spawn(launch(env=marker))
        with no_file_left(), pytest.raises(SpawnFailed, match="EMFILE"):
            child.descriptor("stdout")
        await running.end(child)
    assert census(marker) == []


async def test_a_command_is_an_argument_vector_and_never_a_shell_line(tmp_path: Path):
    async with processes() as running:
        code = "import sys, json; print(json.dumps(sys.argv[1:]))"
        tricky = ("; touch x", "$(touch x)", "`touch x`", "-rf", "", "a b", "*")
        child = running.spawn(Launch(command=sys.executable, args=("-c", code, *tricky), cwd=tmp_path))
        await asyncio.wait_for(child.exited, 10)
        descriptor = child.descriptor("stdout")
        os.close(child.descriptor("stdin"))
        os.close(child.descriptor("stderr"))
        with os.fdopen(descriptor, "rb") as output:
            assert json.loads(output.read()) == list(tricky)
        await running.end(child)
    assert os.listdir(tmp_path) == []  # noqa: PTH208 -- pathlib would be a blocking call by its name


# -- ending


async def ended(code: str, **limits: float) -> int:
    """The return code of a program that is stopped; its stdin is closed first, as a channel does."""
    quick = {"stdin_eof_seconds": 0.1, "terminate_seconds": 0.1, "kill_seconds": 2.0} | limits
    async with processes(**quick) as running:
        child = running.spawn(Launch(command=sys.executable, args=("-SEc", code)))
        pipes = [child.descriptor(name) for name in ("stdin", "stdout", "stderr")]
        os.read(pipes[1], 1)
        os.close(pipes[0])
        await running.end(child)
        for pipe in pipes[1:]:
            os.close(pipe)
        return await asyncio.wait_for(child.exited, 5)


READY = "import os, signal, sys, time; os.write(1, b'x');"


async def test_a_good_server_ends_by_itself_when_its_input_ends():
    assert await ended(f"{READY} sys.stdin.read(); sys.exit(7)", stdin_eof_seconds=5) == 7


async def test_one_that_ignores_the_end_of_its_input_is_terminated():
    assert await ended(f"{READY} time.sleep(60)", terminate_seconds=5) == -signal.SIGTERM


async def test_one_that_ignores_that_too_is_killed():
    code = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY} time.sleep(60)"
    assert await ended(code) == -signal.SIGKILL


@needs_proc
@pytest.mark.parametrize("mode", ["grandchild", "daemon"])
async def test_what_a_server_started_ends_with_it(mode: str):
    """Also what has left its group and session: the marker in its environment finds it."""
    marker = new_marker()
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-SEc', 'import time; time.sleep(60)'], {}); {}"
    options = f"start_new_session={mode == 'daemon'}, stdin=-3, stdout=-3, stderr=-3"
    script = code.format(options, f"{READY} sys.stdin.read()")
    async with processes(stdin_eof_seconds=0.3) as running:
        child = running.spawn(Launch(command=sys.executable, args=("-SEc", script), env=marker))
        pipes = [child.descriptor(name) for name in ("stdin", "stdout", "stderr")]
        os.read(pipes[1], 1)
        await wait_until(lambda: len(census(marker)) == 2, what="the server and its child")
        os.close(pipes[0])
        await running.end(child)
        assert census(marker) == []
        for pipe in pipes[1:]:
            os.close(pipe)


@needs_proc
async def test_a_neighbours_processes_are_spared():
    spared, ended_ = new_marker(), new_marker()
    async with processes() as running:
        children = [running.spawn(launch("ok", env=marker)) for marker in (spared, ended_)]
        pipes = [child.descriptor(name) for child in children for name in ("stdin", "stdout", "stderr")]
        os.close(pipes[3])
        await running.end(children[1])
        assert census(ended_) == []
        assert len(census(spared)) == 1
        os.close(pipes[0])
        await running.end(children[0])
        for pipe in (*pipes[1:3], *pipes[4:]):
            os.close(pipe)


@needs_proc
async def test_without_its_guardian_a_server_is_still_ended():
    marker = new_marker()
    async with processes(sweep_seconds=0.1) as running:
        child = running.spawn(launch("ok", env=marker))
        pipes = [child.descriptor(name) for name in ("stdin", "stdout", "stderr")]
        killed = await guardian_running()
        os.kill(killed, signal.SIGKILL)
        await wait_until(lambda: not is_alive(killed), what="the end of the guardian")
        os.close(pipes[0])
        await running.end(child)
        assert census(marker) == []
        for pipe in pipes[1:]:
            os.close(pipe)


@needs_proc
async def test_a_guardian_that_was_killed_is_replaced_at_the_next_start_and_knows_every_server():
    """By its group: the marker of the first one, which writes over its environment, can't be found."""
    async with processes(stdin_eof_seconds=0.3) as running:
        first = running.spawn(launch("clobber"))
        pipes = [first.descriptor(name) for name in ("stdin", "stdout", "stderr")]
        os.write(pipes[0], b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        assert os.read(pipes[1], 1)  # it is past its start
        killed = await guardian_running()
        os.kill(killed, signal.SIGKILL)
        await wait_until(lambda: not is_alive(killed), what="the end of the guardian")
        second = running.spawn(launch("ok"))
        posted = await guardian_running()
        assert posted != killed
        hang_up(posted)
        for child in (first, second):
            assert await asyncio.wait_for(child.exited, 5) == -signal.SIGKILL
            await running.end(child)
        for pipe in pipes:
            os.close(pipe)


@pytest.mark.parametrize(
    ("orders", "survives"),
    [
        ("group {}", False),
        ("group {0}\ngone {0}", True),
        ("gone {}", True),
        ("orphan {} {}", False),
        ("orphan {} 1{}", True),
    ],
)
def test_the_guardian_kills_what_was_announced_and_not_taken_back(orders: str, *, survives: bool):
    """A number that was given back may be another's by now; one that has another start is."""
    command = [sys.executable, "-SEc", "import time; print(flush=True); time.sleep(60)"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True, env={}) as bystander:
        assert bystander.stdout is not None
        bystander.stdout.readline()
        script = [sys.executable, "-I", "-S", guardian.__file__, "no-such-run"]
        given = orders.format(bystander.pid, start_of(bystander.pid))
        subprocess.run(script, input=given.encode() + b"\n", check=True, timeout=10)
        if survives:
            assert bystander.poll() is None
            bystander.kill()
        assert bystander.wait(5) == -signal.SIGKILL


@needs_proc
async def test_a_server_that_has_ended_is_taken_back_from_the_guardian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    script, orders = tmp_path / "guardian.py", tmp_path / "orders"
    script.write_text(
        f"import sys\nwith open({str(orders)!r}, 'w', buffering=1) as file:\n"
        "    for line in sys.stdin:\n        file.write(line)\n        print(line.split()[0], 0, flush=True)\n"
    )
    monkeypatch.setattr(guardian, "__file__", str(script))
    async with processes() as running:
        child = running.spawn(launch("ok"))
        await running.end(child)
    assert orders.read_text().splitlines() == [f"group {child.pid}", child.marker, f"gone {child.pid}"]


HOST = """
import asyncio, os, sys
from mcp_workbench.servers.processes import Processes
from mcp_workbench.limits import Limits
from tests.servers.real import launch

async def main():
    running = Processes(Limits())
    marker = dict([sys.argv[1].split("=")])
    daemon = launch("daemon", env=marker)
    children = [running.spawn(launch("ignore_sigterm", env=marker)), running.spawn(daemon)]
    call = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"spawn"}}'
    os.write(children[1]._process.stdin.fileno(), call + b"\\n")
    os.write(1, f"{os.getpid()} {running._guardian._process.pid}\\n".encode())
    await asyncio.sleep(60)

asyncio.run(main())
"""


@needs_proc
async def test_after_a_kill_of_the_workbench_itself_nothing_of_it_remains():
    marker = new_marker()
    pair = "=".join(next(iter(marker.items())))
    root = Path(__file__).parents[2]
    env = os.environ | {"PYTHONPATH": f"{SRC}{os.pathsep}{root}"}
    host = subprocess.Popen([sys.executable, "-c", HOST, pair], stdout=subprocess.PIPE, env=env, cwd=root)  # noqa: ASYNC220
    assert host.stdout is not None
    _, guardian = map(int, host.stdout.readline().split())
    await wait_until(lambda: len(census(marker)) >= 3, what="two servers and a daemon")
    host.kill()
    host.wait()
    host.stdout.close()
    await wait_until(lambda: not census(marker), 5, what="the end of every process")
    await wait_until(lambda: not is_alive(guardian), 5, what="the end of the guardian")
