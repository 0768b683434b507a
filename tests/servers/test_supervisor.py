"""One server: started once, when it is needed, and again after it died; nothing after it was closed."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import logger
from mcp_workbench.config.model import Launch, MissingVariable, ServerConfig
from mcp_workbench.errors import (
    CallTimeout,
    Fault,
    InsecureTransport,
    ServerExited,
    ServerRefused,
    ServerResting,
    ShuttingDown,
    SpawnFailed,
    StartupTimeout,
    Unresponsive,
    VariableMissing,
)
from mcp_workbench.limits import Limits
from mcp_workbench.servers.connector import open_channel
from mcp_workbench.servers.health import Health
from mcp_workbench.servers.processes import Processes
from mcp_workbench.servers.supervisor import Events, ServerClosed, Supervisor
from mcp_workbench.wire.caller import LIBRARY, Caller
from mcp_workbench.wire.jsonrpc import RpcError
from tests.peers.rogue_stdio import SLOPPY
from tests.servers.real import Recorded, launch, processes, supervisor, supervisor_of
from tests.support.configs import read_log, received, starts
from tests.support.memory import MemoryChannel, MemoryServer, Unsent, never
from tests.support.procs import census, needs_proc, new_marker, wait_until
from tests.wire.pair import settle

ECHO: dict[str, Any] = {"name": "echo", "arguments": {}}
MODERN_CLIENT = Caller(version="2026-07-28", modern=True)


async def test_nothing_starts_before_it_is_needed(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("ok", log=log)) as supervised:
        await settle()
        assert (supervised.state, supervised.current) == ("idle", None)
    assert starts(log) == []


async def test_a_hundred_callers_at_once_share_one_process(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("slow_start", 0.1, log=log)) as supervised:
        connections = await asyncio.gather(*(supervised.connection() for _ in range(100)))
        assert len(set(map(id, connections))) == 1
        assert supervised.state == "ready"
        assert supervised.current is connections[0]
        await supervised.forward("tools/call", ECHO, None)
    assert len(starts(log)) == 1
    assert supervised.state == "closed"


async def test_a_failed_start_fails_all_who_wait_and_the_next_one_tries_again():
    async with supervisor(Launch(command="/no/such/program"), backoff_first_seconds=0.05) as supervised:
        outcomes = await asyncio.gather(*(supervised.connection() for _ in range(10)), return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {SpawnFailed}
        assert supervised.state == "failing"
        with pytest.raises(SpawnFailed):
            await supervised.connection()


async def test_a_cancelled_first_caller_does_not_cancel_the_rest(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("slow_start", 0.1, log=log)) as supervised:
        first = asyncio.ensure_future(supervised.connection())
        await asyncio.sleep(0)
        rest = [asyncio.ensure_future(supervised.connection()) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait_for(asyncio.gather(*rest), 5)
        assert first.cancelled()
    assert len(starts(log)) == 1


async def test_a_start_that_everybody_left_goes_on_and_is_used_later(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("slow_start", 0.1, log=log)) as supervised:
        only = asyncio.ensure_future(supervised.connection())
        await asyncio.sleep(0)
        only.cancel()
        await wait_until(lambda: supervised.state == "ready")
        await supervised.connection()
    assert len(starts(log)) == 1


async def test_after_its_death_the_next_call_starts_it_again(tmp_path: Path):
    log = tmp_path / "log"
    events = Recorded()
    async with supervisor(launch("ok", log=log), events=events) as supervised:
        await supervised.forward("tools/call", ECHO, None)
        assert events.again == [False]
        os.kill(starts(log)[0], signal.SIGKILL)
        await wait_until(lambda: supervised.state == "failing")
        assert supervised.current is None
        await supervised.forward("tools/call", ECHO, None)
        assert len(set(starts(log))) == 2
        assert events.again == [False, True]  # a new process may offer other tools


async def test_a_call_that_is_under_way_fails_with_its_server(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("never", log=log)) as supervised:
        call = asyncio.ensure_future(supervised.forward("tools/call", {"name": "hang", "arguments": {}}, None))
        await wait_until(lambda: received(log, "tools/call"))
        os.kill(starts(log)[0], signal.SIGKILL)
        with pytest.raises(ServerExited, match="SIGKILL"):
            await asyncio.wait_for(call, 5)


async def test_a_server_that_exits_on_the_probe_is_restarted_once_without_it_and_that_is_remembered(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("exits_on_probe", log=log), client=MODERN_CLIENT) as supervised:
        await supervised.connection()
        assert len(starts(log)) == 2
        assert len(received(log, "server/discover")) == 1
        os.kill(starts(log)[-1], signal.SIGKILL)
        await wait_until(lambda: supervised.state == "failing")
        await supervised.connection()
        assert len(starts(log)) == 3
        assert len(received(log, "server/discover")) == 1


@pytest.mark.parametrize("client", [LIBRARY, MODERN_CLIENT])
async def test_a_server_that_exits_at_its_start_is_tried_no_more_than_twice(client: Caller, tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("exit_at_start", log=log), client=client) as supervised:
        with pytest.raises(ServerExited, match=r"status 3; its last words:\n.*disk is on fire"):
            await asyncio.wait_for(supervised.connection(), 10)
    assert len(starts(log)) == 2


ERA_OF = {"ok": False, "silent_probe": False, "modern": True, "modern_silent": True}


@pytest.mark.parametrize("client", [LIBRARY, MODERN_CLIENT])
@pytest.mark.parametrize("mode", ERA_OF)
async def test_servers_of_either_era_answer_clients_of_both_and_their_era_is_remembered(
    mode: str, client: Caller, tmp_path: Path
):
    log = tmp_path / "log"
    async with supervisor(launch(mode, log=log), client=client, probe_patience_seconds=0.1) as supervised:
        connection = await supervised.connection()
        assert connection.agreement.modern is ERA_OF[mode]
        await supervised.forward("tools/call", ECHO, None)
        assert supervised.is_modern is ERA_OF[mode]
    assert len(starts(log)) == 1


GREETINGS = ("initialize", "server/discover")


def greetings(log: Path) -> list[str]:
    messages = (entry["message"]["method"] for entry in read_log(log) if entry["event"] == "message")
    return [method for method in messages if method in GREETINGS]


async def test_a_handshake_client_has_a_handshake_server_greeted_with_nothing_else(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("exits_on_probe", log=log)) as supervised:
        await supervised.connection()
    assert greetings(log) == ["initialize"]


async def test_a_modern_server_that_exits_on_the_handshake_is_restarted_once_and_that_is_remembered(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("modern_exits", log=log)) as supervised:
        assert (await supervised.connection()).agreement.modern
        assert greetings(log) == ["initialize", "server/discover"]
        os.kill(starts(log)[-1], signal.SIGKILL)
        await wait_until(lambda: supervised.state == "failing")
        await supervised.connection()
    assert len(starts(log)) == 3
    assert greetings(log) == ["initialize", "server/discover", "server/discover"]


@pytest.mark.parametrize("code", [-32022, -32601])
async def test_a_modern_server_that_answers_nothing_after_a_refused_handshake_is_restarted_once(code: int):
    """Servers on the official SDK stay in the era of the first request."""
    server = MemoryServer(modern=True)
    discovered = server.methods["server/discover"]

    def discover(_params: object) -> Any:
        is_locked = server.starts == 1
        return ServerRefused("not in this era", rpc_code=-32600) if is_locked else discovered

    server.methods |= {"initialize": ServerRefused("no", rpc_code=code), "server/discover": discover}
    supervised = memory(server, Watching())
    assert (await asyncio.wait_for(supervised.connection(), 5)).agreement.modern
    assert server.starts == 2
    await supervised.close()


async def test_a_slow_handshake_server_that_exits_on_the_probe_is_restarted_without_it(tmp_path: Path):
    """It has agreed to the handshake by then: no client sees that it went."""
    log, health = tmp_path / "log", Health(Limits())
    slow = launch("exits_on_probe", 0.3, log=log)
    async with supervisor(slow, health=health, probe_patience_seconds=0.15) as supervised:
        await supervised.forward("tools/call", ECHO, None)
        assert len(starts(log)) == 2
        assert greetings(log) == ["initialize", "server/discover", "initialize"]
        assert health.failures == 0


async def test_a_server_that_fails_once_at_its_start_is_reached_all_the_same():
    """It speaks the handshake alone, so the other greeting is not all that it gets the second time."""
    server, refusing = MemoryServer(), MemoryServer()
    refusing.methods["initialize"] = leaving(refusing)
    opened = iter((refusing, server))
    supervised = Supervisor("dev/fs", lambda: next(opened).open(), LIBRARY, Limits(), Watching())
    assert not (await asyncio.wait_for(supervised.connection(), 5)).agreement.modern
    await supervised.close()


@pytest.mark.parametrize("kind", SLOPPY)
async def test_a_server_that_refuses_the_probe_in_a_broken_message_is_initialized_the_old_way(
    kind: str, tmp_path: Path
):
    log = tmp_path / "log"
    sloppy = launch("sloppy_probe", kind, log=log)
    async with supervisor(sloppy, client=MODERN_CLIENT, probe_patience_seconds=0.2) as supervised:
        assert not (await asyncio.wait_for(supervised.connection(), 5)).agreement.modern
        await supervised.forward("tools/call", ECHO, None)
        assert not supervised.is_modern
    assert len(received(log, "server/discover")) == 1


@pytest.mark.parametrize("client", [LIBRARY, MODERN_CLIENT])
async def test_a_handshake_server_that_starts_slowly_and_answers_both_questions_at_once_is_agreed_with(
    client: Caller, tmp_path: Path
):
    for number in range(4):
        log = tmp_path / f"log{number}"
        slow = launch("slow_start", 0.15, log=log)
        async with supervisor(slow, client=client, probe_patience_seconds=0.02) as supervised:
            assert not (await supervised.connection()).agreement.modern
            assert sorted(greetings(log)) == sorted(GREETINGS)
        assert len(starts(log)) == 1


@needs_proc
async def test_many_starts_and_ends_leave_no_descriptor_and_no_task(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("ok", log=log)) as supervised:

        async def start_and_end() -> None:
            await supervised.forward("tools/call", ECHO, None)
            os.kill(starts(log)[-1], signal.SIGKILL)
            await wait_until(lambda: supervised.state == "failing")
            await supervised.wait_closed()

        await start_and_end()
        descriptors, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())  # noqa: PTH208 -- /proc does not block
        for _ in range(10):
            await start_and_end()
        await settle()
        assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
        assert len(asyncio.all_tasks()) == tasks


@needs_proc
async def test_where_the_kernel_gives_no_handle_of_a_process_its_end_is_seen_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """No descriptor is left, or the kernel is old: `pidfd_open` fails."""

    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    log, marker = tmp_path / "log", new_marker()
    async with supervisor(launch("ok", log=log, env=marker), stdin_eof_seconds=0.5) as supervised:

        async def start_and_end() -> None:
            await supervised.forward("tools/call", ECHO, None)
            os.kill(starts(log)[-1], signal.SIGKILL)
            await wait_until(lambda: supervised.state == "failing")
            await supervised.wait_closed()
            await wait_until(lambda: threading.active_count() == threads, what="the end of the watching thread")

        threads = threading.active_count()
        await start_and_end()
        descriptors = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 -- /proc does not block
        for _ in range(5):
            await start_and_end()
        assert len(os.listdir("/proc/self/fd")) == descriptors  # noqa: PTH208
        connection = await supervised.connection()
        assert connection is supervised.current
    assert census(marker) == []
    assert len(set(starts(log))) == 7


@needs_proc
async def test_a_server_that_never_answers_is_given_up_and_gone():
    marker = new_marker()
    async with supervisor(
        launch("hang_init", env=marker), startup_timeout_seconds=0.3, probe_patience_seconds=0.05, stdin_eof_seconds=0.3
    ) as supervised:
        with pytest.raises(StartupTimeout, match=r"0\.3 s"):
            await asyncio.wait_for(supervised.connection(), 5)
        await wait_until(lambda: census(marker) == [], what="its end")


# -- its states, and the pauses between its starts


def memory(server: MemoryServer, events: Events | None = None, health: Health | None = None, **limits: Any):
    """A supervisor of a server in this process."""
    return Supervisor("dev/fs", server.open, LIBRARY, Limits(**limits), events or Recorded(), health=health)


async def test_a_server_goes_from_idle_to_starting_ready_failing_resting_and_closed():
    server, gate = MemoryServer(), asyncio.Event()
    hello = server.methods["initialize"]

    async def initialize(_params: object) -> object:
        await gate.wait()
        return hello

    server.methods["initialize"] = initialize
    supervised = memory(server, breaker_failures=2, backoff_first_seconds=0.0)
    states = [supervised.state]
    starting = asyncio.ensure_future(supervised.connection())
    await wait_until(lambda: server.asked("initialize"))
    states.append(supervised.state)
    gate.set()
    await starting
    for _ in range(2):
        states.append(supervised.state)
        server.channels[-1].end()
        await settle()
        states.append(supervised.state)
        if supervised.state == "failing":
            await supervised.connection()
    await supervised.close()
    states.append(supervised.state)
    assert states == ["idle", "starting", "ready", "failing", "ready", "resting", "closed"]


async def test_whoever_comes_during_the_pause_after_a_failed_start_shares_the_next_one(tmp_path: Path):
    log, file = tmp_path / "log", tmp_path / "file"
    async with supervisor(launch("needs", file, log=log), backoff_first_seconds=0.3) as supervised:
        with pytest.raises(ServerExited):
            await supervised.connection()
        before = len(starts(log))
        file.touch()
        first = asyncio.ensure_future(supervised.connection())
        rest = [asyncio.ensure_future(supervised.connection()) for _ in range(9)]
        await settle()
        assert supervised.state == "failing"
        first.cancel()
        connections = await asyncio.wait_for(asyncio.gather(*rest), 5)
        assert len(set(map(id, connections))) == 1
        assert len(starts(log)) == before + 1
        assert first.cancelled()


async def test_closing_ends_the_wait_for_the_next_start_at_once():
    async with supervisor(Launch(command="/no/such/program"), backoff_first_seconds=1.9) as supervised:
        with pytest.raises(SpawnFailed):
            await supervised.connection()
        waiting = asyncio.ensure_future(supervised.connection())
        await settle()
        await asyncio.wait_for(supervised.close(), 1)
        with pytest.raises(ShuttingDown):
            await asyncio.wait_for(waiting, 1)


async def test_supervisors_of_one_server_share_its_health():
    server, health = MemoryServer(), Health(Limits(breaker_failures=2, backoff_first_seconds=0.0))
    server.methods["initialize"] = server.methods["server/discover"] = SpawnFailed("no")
    one, other = memory(server, health=health), memory(server, health=health)
    for supervised in (one, other):
        with pytest.raises(SpawnFailed):
            await supervised.connection()
    before = server.starts
    for supervised in (one, other):
        assert supervised.state == "resting"
        with pytest.raises(ServerResting):
            await supervised.connection()
    assert server.starts == before


@pytest.mark.parametrize("fault", [VariableMissing("X is not set"), InsecureTransport("no")])
async def test_what_is_wrong_in_the_configuration_is_said_each_time_and_nothing_rests(fault: Fault):
    async def refuse() -> Any:
        raise fault

    supervised = Supervisor("dev/fs", refuse, LIBRARY, Limits(), Recorded())
    for _ in range(10):
        with pytest.raises(type(fault)):
            await asyncio.wait_for(supervised.connection(), 0.5)
    assert supervised.state == "idle"


async def test_an_error_that_a_server_answers_with_makes_it_well():
    server = MemoryServer()
    supervised = memory(server, breaker_failures=2)
    await supervised.connection()
    server.channels[-1].end()
    server.methods["tools/call"] = ServerRefused("not on a Sunday", rpc_code=-1)
    with pytest.raises(ServerRefused):
        await supervised.forward("tools/call", ECHO, None)
    server.channels[-1].end()
    await settle()
    assert supervised.state == "failing"
    await supervised.close()


@pytest.mark.parametrize(
    ("steady_seconds", "fault", "state"),
    [
        (0.0, ServerExited("it died"), "failing"),
        (60.0, ServerExited("it died"), "resting"),
        (0.0, Unresponsive("silence"), "resting"),
    ],
)
async def test_a_server_that_ran_for_long_is_well_again_unless_that_was_only_a_wait_for_it(
    steady_seconds: float, fault: Fault, state: str
):
    server = MemoryServer()
    supervised = memory(server, steady_seconds=steady_seconds, breaker_failures=2, backoff_first_seconds=0.0)
    for _ in range(2):
        await supervised.connection()
        server.channels[-1].give_up(fault)
        await settle()
    assert supervised.state == state
    await supervised.close()


# -- whether it lives


@pytest.mark.parametrize(("alive_seconds", "pings"), [(0.0, 1), (60.0, 0)])
async def test_a_cancelled_call_makes_its_server_suspect_only_where_it_was_silent_for_long(
    alive_seconds: float, pings: int
):
    server = MemoryServer()
    server.methods |= {"tools/call": never, "ping": never}
    supervised = memory(server, alive_seconds=alive_seconds)
    call = asyncio.ensure_future(supervised.forward("tools/call", ECHO, None))
    await wait_until(lambda: server.asked("tools/call"))
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await settle()
    assert len(server.asked("ping")) == pings
    assert supervised.state == "ready"
    await supervised.close()


@pytest.mark.parametrize("speaks", [False, True])
async def test_a_call_that_timed_out_makes_its_server_suspect_only_where_it_said_nothing_at_all(*, speaks: bool):
    server = MemoryServer()

    async def time_out(_params: object) -> object:
        if speaks:
            server.channels[-1].peer.received_at = asyncio.get_running_loop().time()
        raise CallTimeout("no answer")

    server.methods |= {"tools/call": time_out, "ping": never}
    supervised = memory(server, alive_seconds=60.0)
    with pytest.raises(CallTimeout):
        await supervised.forward("tools/call", ECHO, None)
    await settle()
    assert len(server.asked("ping")) == (0 if speaks else 1)
    await supervised.close()


# -- calls that were not sent


class Dead(MemoryServer):
    """The connection turns out to be dead before a call is written, `times` in a row."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.methods["tools/call"] = self.fail

    def fail(self, _params: object) -> object:
        if not self.times:
            return {"content": []}
        self.times -= 1
        fault = ServerExited("it died")
        self.channels[-1].give_up(fault)
        return Unsent(fault)


async def test_a_call_that_was_not_sent_is_made_once_more_on_a_new_connection():
    server = Dead(1)
    supervised = memory(server)
    assert await supervised.forward("tools/call", ECHO, None)
    assert (server.starts, len(server.asked("tools/call"))) == (2, 2)
    await supervised.close()


async def test_a_call_that_could_not_be_sent_twice_is_given_up():
    server = Dead(5)
    supervised = memory(server, backoff_first_seconds=0.0)
    with pytest.raises(ServerExited):
        await supervised.forward("tools/call", ECHO, None)
    assert len(server.asked("tools/call")) == 2
    await supervised.close()


async def test_a_call_that_was_sent_is_not_made_again():
    server = MemoryServer()
    server.methods["tools/call"] = ServerExited("it died")
    supervised = memory(server)
    with pytest.raises(ServerExited):
        await supervised.forward("tools/call", ECHO, None)
    assert len(server.asked("tools/call")) == 1
    await supervised.close()


# -- a server that nobody uses


class Watching(Recorded):
    """Somebody who may wait for something that the server says by itself."""

    is_waiting = False


async def test_a_server_that_nobody_uses_is_stopped_and_that_is_no_failure():
    server = MemoryServer()
    supervised = memory(server, Watching(), idle_timeout_seconds=0.05)
    for number in range(1, 4):
        await supervised.forward("tools/call", ECHO, None)
        await wait_until(lambda: supervised.current is None, what="its end")
        assert (supervised.state, server.starts) == ("idle", number)
    await supervised.close()


async def test_a_server_is_not_stopped_while_it_is_needed():
    server, events, gate = MemoryServer(), Watching(), asyncio.Event()

    async def answer(_params: object) -> object:
        await gate.wait()
        return {"content": []}

    server.methods["tools/call"] = answer
    supervised = memory(server, events, idle_timeout_seconds=0.05)
    call = asyncio.ensure_future(supervised.forward("tools/call", ECHO, None))
    await stays(supervised)
    events.is_waiting = True
    gate.set()
    await call
    await stays(supervised)
    with supervised.in_use():
        events.is_waiting = False
        await stays(supervised)
    await wait_until(lambda: supervised.current is None, what="its end")
    assert server.starts == 1
    await supervised.close()


@pytest.mark.parametrize("turns", range(6))
async def test_a_server_that_is_stopped_takes_no_call_with_it(turns: int, monkeypatch: pytest.MonkeyPatch):
    """Neither in the moment in which that is decided, nor in those that follow."""
    server, calls = MemoryServer(), list[asyncio.Task[Any]]()
    supervised = memory(server, Watching(), idle_timeout_seconds=0.02)

    async def answer(_params: object) -> object:
        mine = server.channels[-1]
        await settle(20)
        return ShuttingDown("the connection was closed") if mine in closed else {"content": []}

    async def close(channel: MemoryChannel) -> None:
        closed.append(channel)

    async def call_later() -> Any:
        await settle(turns)
        return await supervised.forward("tools/call", ECHO, None)

    def note(event: str, **_: object) -> None:
        if "stopped" in event and not calls:
            calls.append(asyncio.ensure_future(call_later()))

    closed: list[MemoryChannel] = []
    server.methods["tools/call"] = answer
    monkeypatch.setattr(MemoryChannel, "close", close)
    monkeypatch.setattr(logger, "info", note)
    await supervised.connection()
    await wait_until(lambda: calls, what="its end")
    assert await asyncio.wait_for(calls[0], 5)
    assert server.starts == 2
    await supervised.close()


async def stays(supervised: Supervisor) -> None:
    """For four times as long as it may be unused."""
    connection = await supervised.connection()
    since = time.monotonic()
    await wait_until(lambda: time.monotonic() - since > 0.2)
    assert supervised.current is connection


# -- a server that was started for a look alone


async def test_a_server_that_has_done_nothing_is_let_go_and_that_is_no_failure():
    server, health = MemoryServer(), Health(Limits())
    supervised = memory(server, Watching(), health)
    for number in (1, 2):
        await supervised.connection()
        supervised.stop_when_idle()
        assert (supervised.current, supervised.state, health.failures) == (None, "idle", 0)
        assert server.starts == number
    await supervised.forward("tools/call", ECHO, None)
    assert server.starts == 3
    await supervised.close()


async def test_a_server_that_has_worked_for_a_client_is_not_let_go():
    server = MemoryServer()
    supervised = memory(server, Watching())
    await supervised.forward("tools/call", ECHO, None)
    connection = supervised.current
    supervised.stop_when_idle()
    assert connection is not None
    assert supervised.current is connection
    connection.channel.give_up(ServerExited("it died"))
    await wait_until(lambda: supervised.current is None)
    await supervised.connection()
    supervised.stop_when_idle()  # a new one, which has done nothing yet
    assert supervised.current is None
    await supervised.close()


async def test_a_server_whose_list_is_read_is_let_go_after_that():
    server = MemoryServer()
    supervised = memory(server, Watching())
    await supervised.connection()
    with supervised.in_use():
        with supervised.in_use():
            supervised.stop_when_idle()
        assert supervised.current is not None
    assert (supervised.current, supervised.state) == (None, "idle")
    await supervised.connection()
    with supervised.in_use():
        pass
    assert supervised.current is not None  # nobody has let go of this one
    await supervised.close()


@pytest.mark.parametrize("need", ["a call", "a call after", "news"])
async def test_a_server_that_is_needed_is_not_let_go(need: str):
    server, events, gate = MemoryServer(), Watching(), asyncio.Event()

    async def answer(_params: object) -> object:
        await gate.wait()
        return {"content": []}

    server.methods["tools/call"] = answer
    supervised = memory(server, events)
    await supervised.connection()
    match need:
        case "a call":
            call = asyncio.ensure_future(supervised.forward("tools/call", ECHO, None))
            await settle()
            supervised.stop_when_idle()
            gate.set()
            assert await asyncio.wait_for(call, 5)
        case "a call after":
            with supervised.in_use():
                supervised.stop_when_idle()
                gate.set()
                await supervised.forward("tools/call", ECHO, None)
        case _:
            events.is_waiting = True
            supervised.stop_when_idle()
    assert supervised.current is not None
    assert server.starts == 1
    await supervised.close()


async def test_who_comes_in_the_moment_in_which_a_server_is_let_go_has_another_one():
    server = MemoryServer()
    supervised = memory(server, Watching())
    await supervised.connection()
    waiting = asyncio.ensure_future(supervised.connection())
    supervised.stop_when_idle()
    assert (await asyncio.wait_for(waiting, 5)).channel is server.channels[1]
    await supervised.close()


async def test_letting_go_of_what_does_not_run_does_nothing():
    server = MemoryServer()
    supervised = memory(server, Watching())
    supervised.stop_when_idle()
    starting = asyncio.ensure_future(supervised.connection())
    await asyncio.sleep(0)
    supervised.stop_when_idle()
    assert await asyncio.wait_for(starting, 5) is supervised.current
    await supervised.close()
    supervised.stop_when_idle()
    assert server.starts == 1


# -- an era that is known from before


def hearsay(
    server: MemoryServer,
    *,
    modern: bool | None,
    client: Caller = LIBRARY,
    health: Health | None = None,
    **limits: Any,
) -> Supervisor:
    bounds = Limits(**limits)
    return Supervisor("dev/fs", server.open, client, bounds, Watching(), health=health, era=lambda: modern)


async def test_a_server_of_the_handshake_era_is_not_probed_again():
    server = MemoryServer()
    supervised = hearsay(server, modern=False)
    assert not (await supervised.connection()).agreement.modern
    assert (server.starts, server.events) == (1, ["initialize"])
    await supervised.close()


async def test_a_modern_server_is_asked_as_one():
    server = MemoryServer(modern=True)
    supervised = hearsay(server, modern=True)
    assert (await supervised.connection()).agreement.modern
    assert (server.starts, server.asked("initialize")) == (1, [])
    await supervised.close()


ERAS_NOW = [
    *((way, now) for way in ("refuses", "exits", "answers something else") for now in ("modern", "handshake")),
    ("is silent", "handshake"),
]
"""A modern server refuses `initialize`, as the protocol has it."""


def leaving(server: MemoryServer) -> Any:
    """A method on which the server exits."""

    def leave(_params: object) -> Fault:
        fault = ServerExited("it exited")
        server.channels[-1].give_up(fault)
        return fault

    return leave


@pytest.mark.parametrize("client", [LIBRARY, MODERN_CLIENT])
@pytest.mark.parametrize(("way", "now"), ERAS_NOW)
async def test_a_server_that_changed_its_era_meanwhile_is_reached_all_the_same(way: str, now: str, client: Caller):
    is_modern = now == "modern"
    server = MemoryServer(modern=is_modern)
    old = "initialize" if is_modern else "server/discover"
    if way == "exits":
        server.methods[old] = leaving(server)
    elif way == "answers something else":
        server.methods[old] = {"what": "ever"}
    elif way == "is silent":
        server.methods[old] = never
    health = Health(Limits(backoff_first_seconds=0.0))
    supervised = hearsay(server, modern=not is_modern, client=client, health=health, probe_patience_seconds=0.05)
    expected = 0
    if (way, now, client) == ("exits", "modern", LIBRARY):
        # It may have failed to start as well: the other era is not what a handshake client gets for that.
        with pytest.raises(ServerExited):
            await asyncio.wait_for(supervised.connection(), 5)
        expected = 1
    assert (await asyncio.wait_for(supervised.connection(), 5)).agreement.modern is is_modern
    assert supervised.is_modern is is_modern
    assert health.failures == expected
    await supervised.close()


async def test_a_server_that_speaks_both_and_failed_to_start_once_keeps_the_era_of_its_client():
    server, refusing = MemoryServer(), MemoryServer()
    server.methods["server/discover"] = MemoryServer(modern=True).methods["server/discover"]
    refusing.methods["initialize"] = leaving(refusing)
    opened = iter((refusing, server))
    supervised = Supervisor("dev/fs", lambda: next(opened).open(), LIBRARY, Limits(), Watching(), era=lambda: False)
    assert not (await asyncio.wait_for(supervised.connection(), 5)).agreement.modern
    await supervised.close()


async def test_what_is_known_from_before_counts_once_and_then_what_the_server_spoke():
    server = MemoryServer(modern=True)
    supervised = hearsay(server, modern=False)
    await supervised.connection()
    assert server.starts == 2
    before = len(server.asked("initialize"))
    supervised.stop_when_idle()
    server.channels[-1].end()
    await wait_until(lambda: supervised.current is None)
    await supervised.connection()
    assert server.starts == 3
    assert len(server.asked("initialize")) == before
    await supervised.close()


async def test_a_server_that_had_no_handshake_is_not_asked_for_one_at_the_next_start():
    server = MemoryServer(modern=True)
    supervised = Supervisor("dev/fs", server.open, LIBRARY, Limits(), Watching())
    assert (await supervised.connection()).agreement.modern
    server.channels[-1].end()
    await wait_until(lambda: supervised.current is None)
    await supervised.connection()
    assert server.starts == 2
    assert [one for one in server.events if one in ("initialize", "server/discover")] == [
        "initialize",
        "server/discover",
        "server/discover",
    ]
    await supervised.close()


async def test_a_server_that_cannot_be_started_is_not_tried_more_often_for_what_is_known_of_it():
    server = MemoryServer()
    server.methods["initialize"] = server.methods["server/discover"] = ServerRefused("no", rpc_code=-1)
    health = Health(Limits())
    supervised = hearsay(server, modern=False, health=health)
    with pytest.raises(Fault):
        await asyncio.wait_for(supervised.connection(), 5)
    assert server.starts == 2
    assert health.failures == 1
    await supervised.close()


async def test_a_silent_server_that_is_known_is_started_without_the_patience_for_a_probe(tmp_path: Path):
    log = tmp_path / "log"
    how = launch("silent_probe", log=log)
    async with processes() as running:
        server = ServerConfig(name="fs", toolbox="dev", target=how)
        opening = partial(open_channel, server, running, Limits())
        supervised = Supervisor(
            "dev/fs", opening, MODERN_CLIENT, Limits(probe_patience_seconds=60.0), Recorded(), era=lambda: False
        )
        await asyncio.wait_for(supervised.connection(), 10)
        await supervised.close()
    assert received(log, "server/discover") == []


# -- one process at a time


class Slow(MemoryServer):
    """It takes its time to end."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def open(self) -> MemoryChannel:
        channel = await super().open()
        channel.close = self.gate.wait  # type: ignore[method-assign, assignment]
        return channel


@pytest.mark.parametrize("end", ["unused", "given up", "refused"])
async def test_a_new_start_waits_for_the_end_of_the_one_before(end: str):
    """It may hold a port, or a lock."""
    server = Slow()
    hello = server.methods["initialize"]
    limits = {"idle_timeout_seconds": 0.02} if end == "unused" else {"backoff_first_seconds": 0.0}
    supervised = memory(server, Watching(), **limits)
    if end == "refused":
        server.methods["initialize"] = ServerRefused("not now", rpc_code=-1)
        with pytest.raises(Fault):
            await supervised.connection()
        server.methods["initialize"] = hello
    else:
        await supervised.connection()
    if end == "given up":  # and whoever comes at once does not wait until that has been noticed
        server.channels[-1].give_up(Unresponsive("silence"))
    elif end == "unused":
        await wait_until(lambda: supervised.current is None, what="its end")
    waiting = asyncio.ensure_future(supervised.connection())
    await settle(50)
    assert (server.starts, waiting.done()) == (1, False)
    server.gate.set()
    assert await asyncio.wait_for(waiting, 5)
    assert server.starts == 2
    await supervised.close()


async def test_a_server_that_holds_a_lock_until_its_end_is_stopped_and_started_again(tmp_path: Path):
    log, health = tmp_path / "log", Health(Limits())
    how = launch("lock", tmp_path / "lock", 0.3, log=log)
    async with supervisor(how, events=Watching(), health=health, idle_timeout_seconds=0.1) as supervised:
        for _ in range(2):
            await supervised.forward("tools/call", ECHO, None)
            await wait_until(lambda: supervised.current is None, what="its end")
        assert supervised.state == "idle"
        assert health.failures == 0
    assert len(starts(log)) == 2


# -- closing


async def test_calls_that_wait_for_their_turn_are_not_made_any_more_once_it_closes():
    server, gate = MemoryServer(), asyncio.Event()

    async def answer(_params: object) -> object:
        await gate.wait()
        return {"content": []}

    server.methods["tools/call"] = answer
    supervised = memory(server, in_flight=1)
    first, *rest = (asyncio.ensure_future(supervised.forward("tools/call", ECHO, None)) for _ in range(4))
    await wait_until(lambda: server.asked("tools/call"))
    closing = asyncio.ensure_future(supervised.close())
    await settle()
    gate.set()
    assert await first
    outcomes = await asyncio.gather(*rest, return_exceptions=True)
    await closing
    assert {type(outcome) for outcome in outcomes} == {ServerClosed}
    assert len(server.asked("tools/call")) == 1


@needs_proc
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 4, 5, 6, 8, 12])
async def test_closing_during_a_start_leaves_no_process_and_fails_who_waits(turns: int):
    marker = new_marker()
    async with supervisor(launch("hang_init", env=marker), stdin_eof_seconds=0.3) as supervised:
        waiting = asyncio.ensure_future(supervised.connection())
        await settle(turns)
        await asyncio.wait_for(supervised.close(), 5)
        remaining = census(marker)
        with pytest.raises(ShuttingDown):
            await asyncio.wait_for(waiting, 1)
        assert remaining == []
        assert supervised.state == "closed"


async def test_nothing_starts_after_close(tmp_path: Path):
    log = tmp_path / "log"
    async with supervisor(launch("ok", log=log)) as supervised:
        await supervised.close()
        with pytest.raises(ShuttingDown):
            await supervised.connection()
        with pytest.raises(ShuttingDown):
            await supervised.forward("tools/call", ECHO, None)
    assert read_log(log) == []


@needs_proc
async def test_closing_ends_a_ready_server_and_fails_its_calls(tmp_path: Path):
    log, marker = tmp_path / "log", new_marker()
    async with supervisor(launch("never", log=log, env=marker), stdin_eof_seconds=0.3) as supervised:
        call = asyncio.ensure_future(supervised.forward("tools/call", {"name": "hang", "arguments": {}}, None))
        await wait_until(lambda: received(log, "tools/call"))
        await asyncio.gather(supervised.close(), supervised.close())
        with pytest.raises(Fault):
            await call
        assert census(marker) == []


# -- what cannot be started at all


async def fault_of(server: ServerConfig) -> Fault:
    running = Processes(Limits())
    supervised = supervisor_of(server, running, Limits())
    with pytest.raises(Fault) as caught:
        await asyncio.wait_for(supervised.connection(), 5)
    await supervised.close()
    await running.close()
    return caught.value


async def test_a_missing_variable_is_named_with_its_place():
    missing = (MissingVariable("API_KEY", "toolboxes.dev.mcpServers.fs.env.API_KEY", 3, 5),)
    fault = await fault_of(ServerConfig(name="fs", toolbox="dev", target=Launch(command="x"), missing=missing))
    assert isinstance(fault, VariableMissing)
    assert "API_KEY" in str(fault)
    assert "toolboxes.dev.mcpServers.fs.env.API_KEY" in str(fault)


async def test_an_unexpected_failure_of_a_start_reaches_who_waits_instead_of_leaving_them_waiting():
    """For example no more file descriptors: every caller has an outcome, and the next one tries again."""
    running = Processes(Limits())

    def spawn(_: Launch) -> Any:
        raise OSError(24, "Too many open files")

    running.spawn = spawn  # type: ignore[method-assign]
    supervised = supervisor_of(ServerConfig(name="fs", toolbox="dev", target=launch()), running, Limits())
    outcome = await asyncio.gather(asyncio.wait_for(supervised.connection(), 2), return_exceptions=True)
    assert not isinstance(outcome[0], TimeoutError)
    assert isinstance(outcome[0], SpawnFailed)
    assert supervised.state == "failing"
    await supervised.close()


# -- what a server asks before there is an agreement


async def test_before_an_agreement_a_few_questions_wait_for_it_and_the_others_are_refused_at_once():
    server, events = MemoryServer(), Recorded()
    greeted = asyncio.Event()
    hello = server.methods["initialize"]

    async def initialize(_params: object) -> object:
        await greeted.wait()
        return hello

    server.methods["initialize"] = initialize
    supervised = Supervisor("dev/fs", server.open, LIBRARY, Limits(questions=2), events)
    starting = asyncio.ensure_future(supervised.connection())
    await wait_until(lambda: server.asked("initialize"))
    questions = [asyncio.ensure_future(server.ask("roots/list")) for _ in range(20)]
    await settle()
    assert [question.done() for question in questions] == [False] * 2 + [True] * 18
    assert events.asked_for == []
    greeted.set()
    await asyncio.wait_for(starting, 5)
    outcomes = await asyncio.gather(*questions, return_exceptions=True)
    assert all(isinstance(outcome, RpcError) for outcome in outcomes)
    assert events.asked_for == ["roots/list"] * 2
    with pytest.raises(RpcError):  # as `Recorded` answers
        await server.ask("later")
    assert events.asked_for[2:] == ["later"]
    await supervised.close()
