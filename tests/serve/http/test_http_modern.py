"""Modern requests over HTTP: headers, streams, questions, subscriptions, hanging up."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from mcp_workbench import Limits
from tests.peers.rogue_stdio import DIGITS
from tests.serve.http.serving import (
    BOB,
    META,
    Events,
    Served,
    events,
    modern,
    modern_headers,
    post_modern,
    served,
    use,
)
from tests.support.configs import received, rogue, starts, write_config
from tests.support.pairs import whole
from tests.support.procs import wait_until
from tests.support.wire import Json

PEERS = Path(__file__).parents[2] / "peers"
RAW_ECHO = {"command": sys.executable, "args": [str(PEERS / "raw_echo.py")]}
PATHS = ("/mcp", "/mcp/dev", "/mcp/dev/fs")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


def calling(path: str, tool: str, arguments: Json | None = None) -> Json:
    """The params of a call at an endpoint."""
    return use(tool, arguments) if path == "/mcp" else {"name": tool, "arguments": arguments or {}}


async def test_a_modern_client_needs_no_session(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        discovered = await post_modern(http, modern("server/discover"))
        assert discovered.json()["result"]["supportedVersions"] == ["2026-07-28"]
        assert "mcp-session-id" not in discovered.headers
        tools = (await post_modern(http, modern("tools/list"))).json()["result"]
        assert [tool["name"] for tool in tools["tools"]] == ["open_toolbox", "use_tool"]
        assert tools["resultType"] == "complete"


@pytest.mark.parametrize("path", PATHS)
async def test_a_tool_is_called_at_every_endpoint(tmp_path: Path, path: str):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        answer = await post_modern(http, modern("tools/call", calling(path, "nonce", {"nonce": "7"}), "seven"), path)
        assert answer.status_code == 200
        assert answer.json()["id"] == "seven"
        assert answer.json()["result"]["content"] == [{"type": "text", "text": "7"}]


@pytest.mark.parametrize("path", PATHS)
async def test_what_a_server_says_passes_digit_by_digit(tmp_path: Path, path: str):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue("digits")}})) as running, running.client() as http:
        answer = await post_modern(http, modern("tools/call", calling(path, "echo")), path)
        assert f'"structuredContent":{DIGITS}' in answer.text
        assert int(answer.headers["content-length"]) == len(answer.content)


@pytest.mark.parametrize("path", PATHS)
async def test_what_a_client_says_passes_digit_by_digit(tmp_path: Path, path: str):
    async with served(write_config(tmp_path, {"dev": {"fs": RAW_ECHO}})) as running, running.client() as http:
        message = modern("tools/call", calling(path, "say", {"n": "DIGITS"}))
        body = json.dumps(message, indent=1).replace('"DIGITS"', "[12345678901234567890.10, 1.00]")
        headers = modern_headers(message) | {"content-type": "application/json"}
        answer = await http.post(path, content=body, headers=headers)
        heard = answer.json()["result"]["content"][0]["text"]
        assert "[12345678901234567890.10, 1.00]" in heard or "[12345678901234567890.10,1.00]" in heard


async def test_what_looks_like_a_mark_of_ours_is_passed_on(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        text = '{"mcp-workbench":"00000000000000000000000000000000"}'
        answer = await post_modern(http, modern("tools/call", calling("/mcp", "nonce", {"nonce": text})))
        assert answer.json()["result"]["content"][0]["text"] == text


async def test_an_error_of_a_server_keeps_its_code_and_data(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue("rpc_error")}})) as running, running.client() as http:
        answer = await post_modern(http, modern("tools/call", {"name": "echo", "arguments": {}}), "/mcp/dev/fs")
        assert answer.json()["error"] == {"code": -32050, "message": "not on a Sunday", "data": {"day": 7}}
        assert answer.json()["id"] == 1


ERRORS: dict[str, tuple[Json, int, int]] = {
    "an unknown method": (modern("nothing/there"), 404, -32601),
    "the greeting of the other era": (modern("initialize"), 404, -32601),
    "a method of the other era": (modern("ping"), 404, -32601),
    "params that are wrong": (modern("subscriptions/listen", {"notifications": 7}), 400, -32602),
    "a state that nobody has": (modern("tools/call", use("echo") | {"requestState": "mcp-workbench.x"}), 400, -32602),
}


@pytest.mark.parametrize("case", ERRORS)
async def test_what_is_wrong_with_a_request_has_its_code_and_its_status(tmp_path: Path, case: str):
    message, status, code = ERRORS[case]
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        answer = await post_modern(http, message)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


CALL = modern("tools/call", {"name": "nonce", "arguments": {"nonce": "7"}})
HEADERS: dict[str, tuple[list[tuple[str, str]], int]] = {
    "all of them": ([*modern_headers(CALL).items()], 200),
    "another name": ([*(modern_headers(CALL) | {"mcp-name": "echo"}).items()], 400),
    "no name": ([("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")], 400),
    "another method": ([*(modern_headers(CALL) | {"mcp-method": "tools/list"}).items()], 400),
    "no method": ([("mcp-protocol-version", "2026-07-28"), ("mcp-name", "nonce")], 400),
    "the name twice": ([*modern_headers(CALL).items(), ("mcp-name", "nonce")], 400),
    "the name in base64": ([*(modern_headers(CALL) | {"mcp-name": "=?base64?bm9uY2U=?="}).items()], 200),
    "another one in base64": ([*(modern_headers(CALL) | {"mcp-name": "=?base64?ZWNobw==?="}).items()], 400),
    "no version": ([("mcp-method", "tools/call"), ("mcp-name", "nonce")], 400),
    "another version": ([*(modern_headers(CALL) | {"mcp-protocol-version": "2099-01-01"}).items()], 400),
    "the version twice": ([*modern_headers(CALL).items(), ("mcp-protocol-version", "2025-11-25")], 400),
}


@pytest.mark.row("E12")
@pytest.mark.parametrize("case", HEADERS)
async def test_headers_must_say_what_the_body_says(tmp_path: Path, log: Path, case: str):
    headers, status = HEADERS[case]
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as running, running.client() as http:
        answer = await http.post("/mcp/dev/fs", json=CALL, headers=[*http.headers.items(), *headers])
        assert answer.status_code == status, answer.text
        assert len(received(log, "tools/call")) == (status == 200)
        if status != 200 and case != "another version":
            assert answer.json()["error"]["code"] == -32020


ABOUT_TASKS: dict[str, tuple[dict[str, str], int]] = {
    "the task": ({"mcp-name": "fs:t1"}, 200),
    "the task in base64": ({"mcp-name": "=?base64?ZnM6dDE=?="}, 200),
    "another task": ({"mcp-name": "fs:t2"}, 400),
    "nothing": ({}, 400),
}
TASKS = {"extensions": {META + "tasks": {}}}


@pytest.mark.row("E12")
@pytest.mark.parametrize("case", ABOUT_TASKS)
async def test_a_request_about_a_task_names_it_in_its_header(tmp_path: Path, case: str):
    headers, status = ABOUT_TASKS[case]
    config = write_config(tmp_path, {"dev": {"fs": whole("modern", "W")}})
    async with served(config) as running, running.client() as http:
        await post_modern(http, modern("tools/call", {"name": "slow"}, capabilities=TASKS), "/mcp/dev")
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            request = modern(method, {"taskId": "fs:t1", "inputResponses": {}}, capabilities=TASKS)
            answer = await post_modern(http, request, "/mcp/dev", headers)
            assert answer.status_code == status, answer.text
            if status != 200:
                assert answer.json()["error"]["code"] == -32020
        undeclared = await post_modern(http, modern("tasks/get", {"taskId": "fs:t1"}), "/mcp/dev", headers)
        assert undeclared.json()["error"]["code"] == (-32021 if status == 200 else -32020)
        assert undeclared.status_code == 400
        elsewhere = await post_modern(http, modern("tasks/get", {"taskId": "fs:t1"}), "/mcp", headers)
        assert elsewhere.json()["error"]["code"] == -32601


SMUGGLED: dict[str, str] = {
    "the method twice": '"method":"tools/call","method":"tools/list"',
    "the method twice, the other way": '"method":"tools/list","method":"tools/call"',
    "the method in capitals": '"Method":"tools/list","method":"tools/call"',
    "params twice": '"method":"tools/call","params":{"name":"nonce"}',
}


@pytest.mark.row("E12")
@pytest.mark.parametrize("case", SMUGGLED)
async def test_what_is_checked_is_what_is_passed_on(tmp_path: Path, log: Path, case: str):
    """Two readers of the same bytes must not see two different requests."""
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as running, running.client() as http:
        params = json.dumps(modern("tools/call", {"name": "echo", "arguments": {}})["params"])
        body = f'{{"jsonrpc":"2.0","id":1,{SMUGGLED[case]},"params":{params}}}'
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "echo"}
        answer = await http.post("/mcp/dev/fs", content=body, headers=headers | {"content-type": "application/json"})
        calls = received(log, "tools/call")
        assert [call["params"]["name"] for call in calls] == (["echo"] if answer.status_code == 200 else [])
        assert received(log, "tools/list") == [] or answer.status_code == 200


@pytest.mark.row("E12")
async def test_a_name_smuggled_into_the_arguments_is_none(tmp_path: Path, log: Path):
    params = {"name": "echo", "arguments": {"name": "nonce"}, "Name": "nonce", "NAME": "nonce"}
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as running, running.client() as http:
        answer = await post_modern(http, modern("tools/call", params), "/mcp/dev/fs", {"mcp-name": "nonce"})
        assert answer.status_code == 400
        assert received(log, "tools/call") == []
        answer = await post_modern(http, modern("tools/call", params), "/mcp/dev/fs")
        assert answer.json()["result"]["structuredContent"]["name"] == "echo"


@pytest.mark.row("E12")
@pytest.mark.parametrize("path", ["/mcp/dev", "/mcp/dev/fs"])
async def test_an_argument_that_is_a_header_too_must_be_the_same_in_both(tmp_path: Path, path: str):
    async with served(write_config(tmp_path, {"dev": {"fs": RAW_ECHO}})) as running, running.client() as http:
        assert "x-mcp-header" in (await post_modern(http, modern("tools/list"), path)).text
        message = modern("tools/call", {"name": "say", "arguments": {"region": "north"}})
        for given, status in (({"mcp-param-region": "north"}, 200), ({"mcp-param-region": "south"}, 400), ({}, 400)):
            answer = await post_modern(http, message, path, given)
            assert answer.status_code == status
            assert status == 200 or answer.json()["error"]["code"] == -32020


async def test_no_server_is_started_to_check_a_header(tmp_path: Path, log: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})) as running, running.client() as http:
        message = modern("tools/call", {"name": "use_tool", "arguments": {"tool": {}}})
        answer = await post_modern(http, message, "/mcp", {"mcp-param-region": "south"})
        assert answer.json()["result"]["isError"] is True
    assert starts(log) == []


async def test_progress_comes_before_the_answer(tmp_path: Path):
    async with (
        served(write_config(tmp_path, {"dev": {"fs": rogue("progress", 3)}})) as running,
        running.client() as http,
    ):
        message = modern("tools/call", {"name": "echo", "arguments": {}, "_meta": {"progressToken": "mine"}})
        said = events((await post_modern(http, message, "/mcp/dev/fs")).text)
        steps = [one["params"]["progress"] for one in said if one.get("method") == "notifications/progress"]
        assert [step for step in steps if step >= 1] == [1, 2, 3]
        assert {one["params"]["progressToken"] for one in said[:-1]} == {"mine"}
        assert said[-1]["id"] == 1


@pytest.mark.parametrize("path", PATHS)
async def test_hanging_up_cancels_the_call_at_its_server(tmp_path: Path, log: Path, path: str):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config) as running, running.client() as http:
        message = modern("tools/call", calling(path, "hang"))
        call = asyncio.ensure_future(post_modern(http, message, path))
        await wait_until(lambda: received(log, "tools/call"), what="the call")
        call.cancel()
        await wait_until(lambda: received(log, "notifications/cancelled"), 1.0, what="the cancellation")
        answer = await post_modern(http, modern("tools/call", calling(path, "echo")), path)
        assert answer.status_code == 200


async def ask(http, path: str, message: Json) -> tuple[Json, str]:
    result = (await post_modern(http, message, path)).json()["result"]
    assert result["resultType"] == "input_required"
    [key] = result["inputRequests"]
    return result, key


@pytest.mark.parametrize("path", PATHS)
async def test_a_question_is_the_answer_and_the_retry_goes_on(tmp_path: Path, path: str):
    config = write_config(tmp_path, {"dev": {"fs": rogue("asks_sampling")}})
    async with served(config) as running, running.client() as http:
        params = calling(path, "echo", {"method": "elicitation/create"})
        able = {"elicitation": {"form": {}}}
        result, key = await ask(http, path, modern("tools/call", params, 1, able))
        retry = params | {"requestState": result["requestState"], "inputResponses": {key: {"action": "decline"}}}
        answer = (await post_modern(http, modern("tools/call", retry, 2, able), path)).json()["result"]
        assert json.loads(answer["content"][0]["text"])["result"] == {"action": "decline"}


@pytest.mark.row("E13")
async def test_a_question_can_be_answered_only_with_the_token_that_was_asked(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("asks_sampling", log=log)}})
    async with served(config) as running, running.client() as alice, running.client(BOB) as bob:
        params = use("echo", {"method": "elicitation/create"})
        able = {"elicitation": {"form": {}}}
        result, key = await ask(alice, "/mcp", modern("tools/call", params, 1, able))
        retry = params | {"requestState": result["requestState"], "inputResponses": {key: {"action": "accept"}}}
        stolen = await post_modern(bob, modern("tools/call", retry, 2, able))
        assert (stolen.status_code, stolen.json()["error"]["code"]) == (400, -32602)
        answer = (await post_modern(alice, modern("tools/call", retry, 2, able))).json()["result"]
        assert json.loads(answer["content"][0]["text"])["result"] == {"action": "accept"}
    assert len(starts(log)) == 1


@pytest.mark.row("E13")
async def test_clients_with_two_tokens_have_servers_of_their_own(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})
    async with served(config) as running, running.client() as alice, running.client(BOB) as bob:
        pids = [
            (await post_modern(http, modern("tools/call", use("echo")))).json()["result"]["structuredContent"]["pid"]
            for http in (alice, bob, alice)
        ]
        assert pids[0] == pids[2] != pids[1]
    assert len(starts(log)) == 2


async def test_a_subscription_tells_of_changes_until_it_is_hung_up_on(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue("modern")}})) as running, running.client() as http:
        message = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "sub")
        headers = modern_headers(message)
        async with http.stream("POST", "/mcp/dev/fs", json=message, headers=headers) as response:
            stream = Events(response)
            acknowledged = await stream.next()
            assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
            assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
            await post_modern(http, modern("tools/call", {"name": "grow", "arguments": {}}), "/mcp/dev/fs")
            changed = await stream.next()
            assert changed["method"] == "notifications/tools/list_changed"
            assert changed["params"]["_meta"][META + "subscriptionId"] == "sub"
        await wait_until(lambda: not subscriptions(running), what="the end of the subscription")


def subscriptions(running: Served) -> list[object]:
    assert running.workbench is not None
    return [line for client in running.workbench._clients.values() for line in client._subscribers._open]  # type: ignore[attr-defined]


async def test_no_more_requests_at_once_than_there_may_be(tmp_path: Path, log: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue("never", log=log)}})
    async with served(config, limits=Limits(client_requests=2)) as running, running.client() as http:
        hanging = [
            asyncio.ensure_future(post_modern(http, modern("tools/call", {"name": "hang"}), "/mcp/dev/fs"))
            for _ in range(2)
        ]
        await wait_until(lambda: len(received(log, "tools/call")) == 2, what="the calls")
        refused = (await post_modern(http, modern("tools/list"), "/mcp/dev/fs")).json()
        assert refused["error"]["data"]["code"] == "overloaded"
        result = (await post_modern(http, modern("tools/call", {"name": "hang"}), "/mcp/dev/fs")).json()["result"]
        named = {"toolbox": "dev", "server": "fs", "tool": "hang"}
        assert result["_meta"]["mcp-workbench/error"] == {"code": "overloaded", **named, "retry_after": 5}
        assert (result["isError"], result["resultType"]) == (True, "complete")
        for call in hanging:
            call.cancel()
        await wait_until(lambda: len(received(log, "notifications/cancelled")) == 2, what="the cancellations")
        assert "result" in (await post_modern(http, modern("tools/list"), "/mcp/dev/fs")).json()


async def test_a_notification_is_accepted_and_get_and_delete_are_not(tmp_path: Path):
    async with served(write_config(tmp_path, {"dev": {"fs": rogue()}})) as running, running.client() as http:
        headers = {"mcp-protocol-version": "2026-07-28"}
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        assert (await http.post("/mcp", json=notice, headers=headers)).status_code == 202
        assert (await http.get("/mcp", headers=headers)).status_code == 405
        assert (await http.delete("/mcp", headers=headers)).status_code == 405
