"""A server on its stdin and stdout: noise, broken messages, its end and its last words."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.config.model import Launch
from mcp_workbench.errors import MessageTooLarge, ProtocolViolation, ServerExited, ServerRefused, ShuttingDown
from mcp_workbench.servers import peer_channel
from tests.servers.real import channel, launch
from tests.support.configs import read_log
from tests.support.procs import census, needs_proc, new_marker, wait_until


def script(code: str) -> Launch:
    """A server that is one line of Python; `say` writes a line, `id_of` reads a request and returns its id."""
    head = (
        "import json, os, sys, time\n"
        "def say(data): os.write(1, (data if isinstance(data, bytes) else json.dumps(data).encode()) + b'\\n')\n"
        "def id_of(): return json.loads(sys.stdin.buffer.readline())['id']\n"
        "def answer(i): say({'jsonrpc': '2.0', 'id': i, 'result': {'id': i}})\n"
    )
    return Launch(command=sys.executable, args=("-SEc", head + code))


ASKS = (
    "i = id_of(); say({{'jsonrpc': '2.0', 'id': 'p', 'method': '{}'}}); "
    "say({{'jsonrpc': '2.0', 'id': i, 'result': json.loads(sys.stdin.buffer.readline())}})"
)


class Hears:
    """Takes what a server starts: notifications are written down, requests answered with their method."""

    def __init__(self) -> None:
        self.methods: list[str] = []

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        del params, owner
        self.methods.append(method)

    async def request(self, method: str, params: dict[str, Raw], owner: object) -> Raw:
        del params, owner
        return Raw(json.dumps({"method": method}).encode())


async def test_a_request_is_answered_and_a_ping_of_the_server_too():
    async with channel(script(ASKS.format("ping"))) as opened:
        assert json.loads(bytes(await opened.peer.request("m", {}))) == {"jsonrpc": "2.0", "id": "p", "result": {}}


async def test_nothing_else_that_a_server_asks_is_offered_where_nobody_listens():
    async with channel(script(ASKS.format("roots/list"))) as opened:
        assert json.loads(bytes(await opened.peer.request("m", {})))["error"]["code"] == -32601


async def test_what_a_server_asks_is_answered_by_who_listens_but_a_ping_is_not_handed_on():
    for method, result in (("roots/list", {"method": "roots/list"}), ("ping", {})):
        async with channel(script(ASKS.format(method))) as opened:
            opened.listen(Hears())
            assert json.loads(bytes(await opened.peer.request("m", {})))["result"] == result


async def test_notifications_of_the_server_are_handed_on_in_order():
    hears = Hears()
    code = "i = id_of(); [say({'jsonrpc': '2.0', 'method': f'n{n}'}) for n in range(5)]; answer(i)"
    async with channel(script(code)) as opened:
        opened.listen(hears)
        await opened.peer.request("m", {})
        assert hears.methods == [f"n{number}" for number in range(5)]


async def test_a_broken_answer_fails_its_own_call_and_the_connection_goes_on():
    code = 'a, b = id_of(), id_of(); say(b\'{"jsonrpc":"2.0","id":%d,"result":{\' % a); answer(b); answer(id_of())'
    async with channel(script(code)) as opened:
        broken, good = (asyncio.ensure_future(opened.peer.request(method, {})) for method in "ab")
        with pytest.raises(ProtocolViolation):
            await broken
        await good
        await opened.peer.request("c", {})


async def test_a_broken_message_that_names_no_call_ends_the_connection():
    async with channel(
        script('id_of(); say(b\'{"jsonrpc":"2.0","id":1.5}\'); time.sleep(60)'), stdin_eof_seconds=0.1
    ) as opened:
        with pytest.raises(ProtocolViolation):
            await asyncio.wait_for(opened.peer.request("m", {}), 5)
        assert isinstance(await opened.ended, ProtocolViolation)


async def test_a_server_that_could_not_read_us_fails_every_call_since_none_can_be_told():
    code = "id_of(); id_of(); say({'jsonrpc': '2.0', 'id': None, 'error': {'code': -32700, 'message': 'Parse error'}})"
    async with channel(script(f"{code}; time.sleep(60)"), stdin_eof_seconds=0.1) as opened:
        calls = [asyncio.ensure_future(opened.peer.request("m", {})) for _ in range(2)]
        for outcome in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5):
            assert isinstance(outcome, ProtocolViolation)


async def test_some_noise_is_tolerated_and_a_good_message_makes_up_for_it():
    code = "\nfor _ in range(3):\n    i = id_of()\n    for n in range(8): say(b'\\x1b[1mbanner')\n    answer(i)"
    async with channel(script(code), noise_lines=10) as opened:
        for _ in range(3):
            await opened.peer.request("m", {})


@pytest.mark.parametrize("code", ["for n in range(11): say(b'banner')", "say(b'x' * 600); say(b'y' * 600)"])
async def test_too_much_noise_ends_the_connection(code: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peer_channel, "NOISE_BYTES", 1000)
    silent = script(f"i = id_of()\n{code}\ntime.sleep(60)")
    async with channel(silent, stdin_eof_seconds=0.1, noise_lines=10) as opened:
        with pytest.raises(ProtocolViolation, match="something other than MCP messages"):
            await asyncio.wait_for(opened.peer.request("m", {}), 5)


async def test_a_message_over_the_cap_ends_the_connection():
    async with channel(
        script("id_of(); say(b'x' * 3000); time.sleep(60)"), message_bytes=2000, stdin_eof_seconds=0.1
    ) as opened:
        with pytest.raises(MessageTooLarge):
            await asyncio.wait_for(opened.peer.request("m", {}), 5)


# -- its end


@pytest.mark.parametrize(
    ("code", "how"),
    [
        (
            "sys.stderr.write('the disk is on fire'); sys.exit(3)",
            "it exited with status 3; its last words:\nthe disk is on fire",
        ),
        ("sys.exit(0)", "it exited with status 0"),
        ("os.kill(os.getpid(), 9)", "it was killed by SIGKILL"),
    ],
)
async def test_when_a_server_ends_its_calls_fail_with_how_and_its_last_words(code: str, how: str):
    async with channel(script(f"id_of(); {code}")) as opened:
        calls = [asyncio.ensure_future(opened.peer.request("m", {})) for _ in range(5)]
        for outcome in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 5):
            assert isinstance(outcome, ServerExited)
            assert str(outcome) == how
        assert isinstance(await opened.ended, ServerExited)
        with pytest.raises(ServerExited):
            await opened.peer.request("late", {})


async def test_an_answer_just_before_the_end_is_delivered():
    for _ in range(5):
        async with channel(script("answer(id_of()); os._exit(1)")) as opened:
            assert bytes(await asyncio.wait_for(opened.peer.request("m", {}), 5))


async def test_a_server_that_closes_its_output_and_stays_has_ended():
    async with channel(
        script("id_of(); os.close(1); time.sleep(60)"), obituary_seconds=0.1, stdin_eof_seconds=0.1
    ) as opened:
        with pytest.raises(ServerExited, match="closed its output"):
            await asyncio.wait_for(opened.peer.request("m", {}), 5)


async def test_noise_between_good_messages_is_shown_once_and_counted(monkeypatch: pytest.MonkeyPatch):
    told: list[Any] = []
    monkeypatch.setattr(logger, "warning", lambda message, **values: told.append((message, values)))
    notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    code = f"[(say(b'x' * 180), say({notice})) for _ in range(3000)]; answer(id_of())"
    async with channel(script(code)) as opened:
        await asyncio.wait_for(opened.peer.request("m", {}), 10)
    assert [values.get("sample", values.get("count")) for _, values in told] == ["x" * 180, 3000]


async def test_a_flood_of_notifications_is_cut_and_the_log_says_so_once(monkeypatch: pytest.MonkeyPatch):
    told: list[Any] = []
    monkeypatch.setattr(logger, "warning", lambda message, **values: told.append((message, values)))
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    code = f"one = id_of(); [say({log}) for _ in range(500)]; say({changed}); answer(one)"
    heard: list[str] = []

    class Listener:
        def notification(self, method: str, *_: object) -> None:
            heard.append(method)

    async with channel(script(code), notices_per_second=0.1, notices_burst=20) as opened:
        opened.listen(Listener())  # type: ignore[arg-type]  # it is asked nothing
        await asyncio.wait_for(opened.peer.request("m", {}), 10)
    assert heard[-1] == "notifications/tools/list_changed"
    passed = heard.count("notifications/message")
    assert 15 <= passed <= 21
    assert [values.get("count") for _, values in told] == [None, 500 - passed]


async def test_closing_fails_what_is_under_way_and_can_be_done_twice():
    async with channel(script("id_of(); id_of()")) as opened:
        call = asyncio.ensure_future(opened.peer.request("m", {}))
        await asyncio.sleep(0)
        await asyncio.gather(opened.close(), opened.close())
        with pytest.raises(ShuttingDown):
            await call


@needs_proc
async def test_a_cancelled_close_goes_on():
    how, marker = script("id_of(); time.sleep(60)"), new_marker()
    how = Launch(command=how.command, args=how.args, env=marker)
    async with channel(how, stdin_eof_seconds=0.1) as opened:
        closing = asyncio.ensure_future(opened.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        await asyncio.wait_for(opened.close(), 5)
        assert census(marker) == []


async def test_a_cancelled_call_is_cancelled_at_the_server(tmp_path: Path):
    log = tmp_path / "log"
    async with channel(launch("hang_list", log=log)) as opened:
        call = asyncio.ensure_future(opened.peer.request("tools/list", {}))
        await wait_until(lambda: len(read_log(log)) >= 2)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await wait_until(lambda: read_log(log)[-1]["message"]["method"] == "notifications/cancelled")


async def test_a_refusal_is_a_refusal():
    async with channel(launch("ok")) as opened:
        with pytest.raises(ServerRefused):
            await opened.peer.request("nonsense", {"a": Raw(b"1.00")})


# -- its last words
