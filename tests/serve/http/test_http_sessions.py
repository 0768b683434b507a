"""Handshake sessions over HTTP: whose they are, how they end, what their streams carry."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from mcp_workbench import Limits
from tests.peers.rogue_stdio import DIGITS
from tests.serve.http.serving import (
    BOB,
    Handshake,
    answer_in,
    events,
    greeting,
    rpc,
    served,
    use,
)
from tests.support.configs import received, rogue, starts, write_config
from tests.support.procs import census, needs_proc, new_marker, wait_until


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


def is_answer_to(number: int):
    return lambda message: message.get("id") == number and "method" not in message


async def test_a_session_greets_lists_and_calls(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        assert client.hello["result"]["serverInfo"]["name"] == "mcp-workbench"
        tools = (await client.request("tools/list"))["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["open_toolbox", "use_tool"]
        assert (await client.call(use("nonce", {"nonce": "7"})))["content"][0]["text"] == "7"


async def test_what_a_server_says_passes_digit_by_digit(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue("digits")}})) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        response = await client.post(rpc("tools/call", {"name": "echo", "arguments": {}}))
        assert f'"structuredContent":{DIGITS}' in response.text


async def test_a_body_with_line_breaks_reaches_a_server_whole(tmp_path: Path, log: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        message = rpc("tools/call", {"name": "nonce", "arguments": {"nonce": "two\nlines", "n": [1, {"a": 2}]}}, 5)
        body = json.dumps(message, indent=2).replace("\n", "\r\n")
        response = await http.post(
            "/mcp/dev/fs", content=body, headers=client.headers | {"content-type": "application/json"}
        )
        assert answer_in(response)["result"]["content"][0]["text"] == "two\nlines"
    [call] = received(log, "tools/call")
    assert call["params"]["arguments"] == {"nonce": "two\nlines", "n": [1, {"a": 2}]}


@pytest.mark.row("E13")
async def test_to_another_token_a_session_does_not_exist(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})
    async with served(config) as running, running.client() as alice, running.client(BOB) as bob:
        hers = await Handshake.begin(alice, "/mcp/dev/fs")
        thief = Handshake(bob, hers.path, hers.session, {})
        missing = Handshake(bob, hers.path, "0" * len(hers.session), {})
        for attempt in ("POST", "GET", "DELETE"):
            stolen = await bob.request(attempt, hers.path, headers=thief.headers)
            unknown = await bob.request(attempt, hers.path, headers=missing.headers)
            assert stolen.status_code == unknown.status_code == 404
            assert stolen.text == unknown.text
        assert (await thief.post(rpc("tools/list"))).status_code == 404
        assert (await thief.post({"jsonrpc": "2.0", "method": "notifications/cancelled"})).status_code == 404
        assert "result" in await hers.request("tools/list")


@pytest.mark.row("E13")
async def test_a_session_belongs_to_the_endpoint_where_it_began(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        elsewhere = Handshake(http, "/mcp/dev", client.session, {})
        assert (await elsewhere.post(rpc("tools/list"))).status_code == 404


@pytest.mark.row("E13")
async def test_the_ids_of_sessions_can_not_be_guessed(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        ids = {(await Handshake.begin(http)).session for _ in range(8)}
        assert len(ids) == 8
        assert all(len(one) == 48 and int(one, 16) >= 0 for one in ids)


@pytest.mark.row("E13")
async def test_a_second_stream_for_notifications_is_refused(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        async with client.listen() as first:
            assert first.response.status_code == 200
            async with client.listen() as second:
                assert second.response.status_code == 409


@pytest.mark.row("E13")
async def test_clients_with_two_tokens_have_servers_of_their_own(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})
    async with served(config) as running, running.client() as alice, running.client(BOB) as bob:
        pids: list[int] = []
        for http in (alice, bob):
            client = await Handshake.begin(http)
            pids.append((await client.call(use("echo")))["structuredContent"]["pid"])
        assert len(set(pids)) == 2
    assert len(starts(log)) == 2


@needs_proc
async def test_deleting_a_session_ends_its_servers_and_the_session(tmp_path: Path):
    marker = new_marker()
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(env=marker)}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        await client.call(use("echo"))
        assert census(marker)
        assert (await http.delete("/mcp", headers=client.headers)).status_code == 200
        await wait_until(lambda: not census(marker), what="the end of its server")
        assert (await client.post(rpc("tools/list"))).status_code == 404
        assert running.workbench is not None
        await wait_until(lambda: not running.workbench.routers(), what="the end of its router")
        assert not running.workbench._clients


@needs_proc
async def test_a_session_that_nobody_uses_ends_and_one_that_listens_does_not(tmp_path: Path):
    marker = new_marker()
    config = write_config(tmp_path, {"dev": {"fs": rogue(env=marker)}})
    async with served(config, limits=Limits(http_idle_seconds=0.3)) as running, running.client() as http:
        client = await Handshake.begin(http)
        await client.call(use("echo"))
        async with client.listen():
            await asyncio.sleep(0.6)  # twice as long as it may be idle: what is tested is that nothing happens
            assert census(marker)
        await wait_until(lambda: not census(marker), what="the end of its server")
        assert (await client.post(rpc("tools/list"))).status_code == 404


async def test_a_call_whose_client_hung_up_keeps_its_session(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config, limits=Limits(http_idle_seconds=0.2)) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        async with client.stream(rpc("tools/call", {"name": "hang"}, 7)) as stream:
            event = await stream.primed()
            await wait_until(lambda: received(log, "tools/call"), what="the call")
        await asyncio.sleep(0.5)  # more than it may be idle: what is tested is that nothing happens
        assert received(log, "notifications/cancelled") == []
        async with client.listen(**{"last-event-id": event}) as resumed:
            await client.request("tools/call", {"name": "echo"})
            assert (await resumed.next())["result"]["content"][0]["text"] == "late"


async def test_no_more_sessions_than_there_may_be(tmp_path: Path):
    limits = Limits(http_sessions=3, http_owner_sessions=2)
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with served(config, limits=limits) as running, running.client() as alice, running.client(BOB) as bob:
        first = await Handshake.begin(alice)
        await Handshake.begin(alice)
        refused = await alice.post("/mcp", json=greeting())
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        await Handshake.begin(bob)
        assert (await bob.post("/mcp", json=greeting())).status_code == 503
        assert "result" in await first.request("tools/list")
        await alice.delete("/mcp", headers=first.headers)
        await Handshake.begin(bob)


async def test_a_session_that_was_left_makes_room_for_a_new_one_with_its_token(tmp_path: Path):
    limits = Limits(http_owner_sessions=3, http_left_seconds=0.0)
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=tmp_path / "log")}})
    async with served(config, limits=limits) as running, running.client() as alice, running.client(BOB) as bob:
        other = await Handshake.begin(bob)
        busy, left, used = [await Handshake.begin(alice) for _ in range(3)]
        calling = asyncio.ensure_future(busy.call(use("hang")))
        await wait_until(lambda: received(tmp_path / "log", "tools/call"), what="the call")
        await used.request("tools/list")
        newest = await Handshake.begin(alice)
        assert (await left.post(rpc("ping"))).status_code == 404
        for session in (other, used, newest):
            assert "result" in await session.request("ping")
        assert not calling.done()
        calling.cancel()


async def test_a_greeting_that_is_refused_leaves_no_session(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("exit_at_start")}})
    async with served(config) as running, running.client() as http:
        response = await http.post("/mcp/dev/fs", json=greeting())
        assert "error" in answer_in(response)
        gone = Handshake(http, "/mcp/dev/fs", response.headers["mcp-session-id"], {})
        assert (await gone.post(rpc("ping"))).status_code == 404


async def test_a_greeting_that_fails_after_its_client_hung_up_leaves_no_session(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("hang_init", log=log)}})
    async with served(config, limits=Limits(startup_timeout_seconds=1)) as running, running.client() as http:
        assert running.listener is not None
        sessions = running.listener._app._sessions
        hanging = asyncio.create_task(http.post("/mcp/dev/fs", json=greeting()))
        await wait_until(lambda: starts(log), what="the server")
        [session] = sessions._all.values()
        hanging.cancel()
        await wait_until(lambda: not session._requests, what="the end of the request")
        await wait_until(lambda: not session.is_open, what="the failure of the greeting")
        await wait_until(lambda: not len(sessions), 5, what="the end of the session")


BEFORE = {
    "a list": rpc("tools/list"),
    "a notification": {"jsonrpc": "2.0", "method": "notifications/initialized"},
    "an answer": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "several": [greeting(), rpc("tools/list")],
    "a number": 7,
}


@pytest.mark.parametrize("case", BEFORE)
async def test_a_session_begins_with_initialize_and_with_nothing_else(tmp_path: Path, case: str):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        response = await http.post("/mcp", json=BEFORE[case])
        assert response.status_code == 400
        assert response.json()["error"]["code"] == -32600
        assert running.workbench is not None
        assert not running.workbench._clients


async def test_an_id_that_is_being_answered_is_not_taken_again(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        async with client.stream(rpc("tools/call", {"name": "hang"}, 7)) as stream:
            await wait_until(lambda: received(log, "tools/call"), what="the call")
            refused = await client.post(rpc("tools/list", {}, 7))
            assert refused.status_code == 400
            assert refused.json()["id"] == 7
            assert "result" in answer_in(await client.post(rpc("tools/list", {}, "7")))  # a text is another id
            await client.call({"name": "echo"})
            assert (await stream.next())["result"]["content"][0]["text"] == "late"
        assert "result" in answer_in(await client.post(rpc("tools/list", {}, 7)))


@pytest.mark.parametrize("size", [1024, 1025])
async def test_an_id_that_is_too_long_is_told_on_its_own_stream(tmp_path: Path, size: int):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        answer = answer_in(await client.post(rpc("tools/list", {}, "x" * size)))
        assert ("result" in answer) == (size == 1024)


async def test_a_cancelled_call_ends_at_its_server_and_its_stream_ends(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        async with client.stream(rpc("tools/call", {"name": "hang"}, 7)) as stream:
            await wait_until(lambda: received(log, "tools/call"), what="the call")
            await client.notify("notifications/cancelled", {"requestId": 7, "reason": "enough"})
            await wait_until(lambda: received(log, "notifications/cancelled"), 1.0, what="the cancellation")
            assert (await stream.next())["error"]["code"] == -32800
        assert "result" in await client.request("tools/list")


async def test_what_is_cancelled_twice_or_after_its_answer_is_not_answered_again(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        answered = await client.post(rpc("tools/list", {}, 7))
        for _ in range(2):
            await client.notify("notifications/cancelled", {"requestId": 7})
        assert len(events(answered.text)) == 1
        assert "result" in await client.request("tools/list")


async def test_progress_comes_before_the_answer_on_the_same_stream(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("progress", 3)}})
    async with served(config) as running, running.client() as http:
        client = await Handshake.begin(http)
        params = {**use("echo"), "_meta": {"progressToken": "mine"}}
        said = events((await client.post(rpc("tools/call", params, 9))).text)
        steps = [one["params"]["progress"] for one in said if one.get("method") == "notifications/progress"]
        assert [step for step in steps if step >= 1] == [1, 2, 3]
        assert {one["params"]["progressToken"] for one in said[:-1]} == {"mine"}
        assert said[-1]["id"] == 9


@pytest.mark.parametrize("path", ["/mcp", "/mcp/dev", "/mcp/dev/fs"])
async def test_a_question_comes_on_the_stream_of_its_call(tmp_path: Path, path: str):
    config = write_config(tmp_path, {"dev": {"fs": rogue("asks_sampling")}})
    async with served(config) as running, running.client() as http:
        client = await Handshake.begin(http, path, {"sampling": {}})
        params = use("echo") if path == "/mcp" else {"name": "echo", "arguments": {}}
        async with client.stream(rpc("tools/call", params, 3)) as stream:
            question = await stream.until(lambda one: one.get("method") == "sampling/createMessage")
            reply = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
            assert (await client.post({"jsonrpc": "2.0", "id": question["id"], "result": reply})).status_code == 202
            heard = json.loads((await stream.until(is_answer_to(3)))["result"]["content"][0]["text"])
            assert heard["result"] == reply


async def test_what_belongs_to_no_request_waits_for_the_stream_that_carries_it(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}}, toolMode="dynamic")
    async with served(config) as running, running.client() as http:
        client = await Handshake.begin(http)
        await client.call({"name": "open_toolbox", "arguments": {"toolbox": "dev"}})
        async with client.listen() as stream:
            assert (await stream.next())["method"] == "notifications/tools/list_changed"


async def test_a_stream_that_broke_is_resumed_where_it_was(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("progress", 3, log=log)}})
    async with served(config) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        params = {"name": "echo", "arguments": {"gap": 0.2}, "_meta": {"progressToken": 1}}
        async with client.stream(rpc("tools/call", params, 5)) as stream:
            while (await stream.next())["params"]["progress"] < 1:
                pass
            event = stream.last_id
        async with client.listen(**{"last-event-id": event}) as resumed:
            rest = [await resumed.next() for _ in range(3)]
        assert [one["params"]["progress"] for one in rest[:2]] == [2, 3]
        assert rest[2]["id"] == 5
    assert received(log, "notifications/cancelled") == []


async def test_an_answer_that_was_never_read_can_be_fetched_and_then_the_stream_ends(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        async with client.stream(rpc("tools/call", {"name": "hang"}, 5)) as stream:
            event = await stream.primed()
            await wait_until(lambda: received(log, "tools/call"), what="the call")
        await client.call({"name": "echo"})
        resumed = await http.get("/mcp/dev/fs", headers=client.headers | {"last-event-id": event})
        assert [one["result"]["content"][0]["text"] for one in events(resumed.text)] == ["late"]


@pytest.mark.parametrize("event", ["0", "999999", "-1", "x", "१", "1" * 5000])
async def test_an_event_that_is_not_known_resumes_nothing(tmp_path: Path, event: str):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        client = await Handshake.begin(http)
        headers = [*client.headers.items(), ("last-event-id", event.encode())]
        response = await http.get("/mcp", headers=headers)
        assert response.status_code == 200
        assert events(response.text) == []


async def test_only_the_last_messages_are_kept_for_a_broken_stream(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("progress", 40, log=log)}})
    async with served(config, limits=Limits(http_events=8)) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        params = {"name": "echo", "arguments": {}, "_meta": {"progressToken": 1}}
        answered = await client.post(rpc("tools/call", params, 5))
        lines = answered.text.splitlines()
        ids = [line[3:].strip() for line in lines if line.startswith("id:")]
        first = await http.get("/mcp/dev/fs", headers=client.headers | {"last-event-id": ids[0]})
        late = await http.get("/mcp/dev/fs", headers=client.headers | {"last-event-id": ids[-3]})
        assert events(first.text) == []
        assert [one.get("id") for one in events(late.text)] == [None, 5]


async def test_a_client_that_does_not_read_is_hung_up_on_and_its_session_goes_on(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    async with served(config, limits=Limits(http_write_seconds=0.3)) as running, running.client() as http:
        client = await Handshake.begin(http, "/mcp/dev/fs")
        params = {"name": "nonce", "arguments": {"nonce": "x" * 3_000_000}}
        headers = dict(http.headers) | client.headers
        others = running.connections
        writers = [
            await unread(running.port, client.path, json.dumps(rpc("tools/call", params, f"d{number}")), headers)
            for number in range(4)
        ]
        unread_ones = running.connections - others
        assert len(unread_ones) == 4
        answers = await asyncio.gather(*(client.request("tools/list") for _ in range(4)))
        assert all("result" in one for one in answers)
        await wait_until(lambda: not running.connections & unread_ones, what="the end of what nobody reads")
        for writer in writers:
            writer.close()
        assert "result" in await client.request("tools/list")


async def unread(port: int, path: str, text: str, headers: dict[str, str]) -> asyncio.StreamWriter:
    """A request whose answer nobody reads."""
    body = text.encode()
    own = {"host": f"127.0.0.1:{port}", "content-type": "application/json", "content-length": str(len(body))}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in (headers | own).items())]
    _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return writer
