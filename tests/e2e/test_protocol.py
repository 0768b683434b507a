"""Every feature of the protocol, through the workbench: client era by server era, on every surface that has it.

Each test says which row of the table in docs/protocol.md it holds, and for which pairs; the table and the
tests are checked against each other. Where a feature does not exist in a pair, a test shows what is there instead.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from tests.support.lag import LagProbe
from tests.support.pairs import (
    ABLE,
    ACCEPTED,
    ERAS,
    META,
    PAIRS,
    PEERS,
    ROOTS,
    SAME_ERA,
    SAMPLED,
    SUBSCRIPTION,
    SURFACES,
    TASKS,
    WITH_ROOTS,
    WITH_TASKS,
    Case,
    Host,
    Hosts,
    Pair,
    Refusal,
    Surface,
    answer_to,
    hosting,
    members,
    plain,
    reply,
    whole,
    without,
)
from tests.support.procs import poll_until
from tests.support.wire import Era, Json, error_of, result_of, text_of

T = TypeVar("T", bound=Callable[..., Any])

SEVERAL: tuple[Surface, ...] = ("default", "toolbox")
"""Where several servers are seen at once."""
NATIVE: tuple[Surface, ...] = ("toolbox", "server")
"""Where tools have names of their own."""
TO_HANDSHAKE: tuple[Pair, ...] = (("handshake", "handshake"), ("modern", "handshake"))
TO_MODERN: tuple[Pair, ...] = (("handshake", "modern"), ("modern", "modern"))
BY_HANDSHAKE: tuple[Pair, ...] = (("handshake", "handshake"), ("handshake", "modern"))
BY_MODERN: tuple[Pair, ...] = (("modern", "handshake"), ("modern", "modern"))
CROSS_ERA: tuple[Pair, ...] = (("handshake", "modern"), ("modern", "handshake"))

BAD_PARAMS = -32602
NO_METHOD = -32601
DIGITS = "12345678901234567890.10"
UPDATED = "notifications/resources/updated"
LOGGED = "notifications/message"
PROGRESS = "notifications/progress"
COMPLETE = "notifications/elicitation/complete"
URL_NEEDED = -32042
HOPS = 4
"""From us to the server and back: on a busy machine each takes as long as it keeps us waiting."""


class Covered(NamedTuple):
    """That a test shows a feature, or what is there instead of it."""

    case: Case
    works: bool


COVERED: dict[str, set[Covered]] = {}
"""For each row of the table, where a test shows it."""


def each_case(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Run a test in these cases, one case after the other."""
    return pytest.mark.parametrize("case", cases, ids=str, scope="module")


@pytest.fixture(scope="module")
def hosts(case: Case, shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """For tests that leave nothing behind; the others start a workbench of their own."""
    running = Hosts(case, lambda: tmp_path_factory.mktemp("host"))
    yield running
    shared_loop.run(running.close())


def feature(
    row: str, *, surfaces: Iterable[Surface] = SURFACES, pairs: Iterable[Pair] = PAIRS, works: bool = True
) -> Callable[[T], T]:
    """Run a test in these pairs on these surfaces, for a row of the table."""
    cases = [Case(*pair, surface) for pair in pairs for surface in surfaces]
    COVERED.setdefault(row, set()).update(Covered(case, works) for case in cases)
    return each_case(cases)


def two(case: Case) -> dict[str, Any]:
    """Two servers that have the same things under the same names."""
    return {"s": whole(case.server, "W"), "t": whole(case.server, "X")}


def with_apps(case: Case) -> dict[str, Any]:
    """Two servers with MCP Apps and skills, under the same URIs."""
    peer = str(PEERS / "apps_server.py")
    return {name: {"command": sys.executable, "args": ["-SE", peer, name, case.server]} for name in ("s", "t")}


# -- greeting


@feature("greeting", surfaces=SEVERAL)
async def test_the_workbench_says_what_it_has(case: Case, hosts: Hosts):
    async with hosts.at() as host:
        hello = host.wire.hello
        capabilities = hello["capabilities"]
        assert {"tools", "prompts", "resources", "completions", "logging"} <= capabilities.keys()
        assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
        info = hello["_meta"][META + "serverInfo"] if case.is_modern else hello["serverInfo"]
        assert info["name"] == "mcp-workbench"
        has_tasks = "tasks" in capabilities or TASKS in capabilities.get("extensions", {})
        assert not (has_tasks and case.surface == "default")
        assert has_tasks or case.surface == "default" or case.pair not in SAME_ERA


@feature("greeting", surfaces=("server",))
async def test_a_server_speaks_for_itself(case: Case, hosts: Hosts):
    async with hosts.at() as host, hosts.alone() as server:
        hello = await host.get("server/discover") if case.is_modern else host.wire.hello
        own = await server.get("server/discover") if case.server == "modern" else server.wire.hello
        assert hello["instructions"] == own["instructions"] == "Use W."
        infos = [said.get("serverInfo") or said["_meta"][META + "serverInfo"] for said in (hello, own)]
        assert infos[0] == infos[1]
        tasks = ("tasks", "extensions")
        assert without(hello["capabilities"], *tasks) == without(own["capabilities"], *tasks)
        if case.pair in SAME_ERA:
            assert hello["capabilities"] == own["capabilities"]
        else:
            assert TASKS not in json.dumps(hello["capabilities"])
            assert "tasks" not in hello["capabilities"]


@feature("ping", pairs=BY_HANDSHAKE)
async def test_a_ping_is_answered(hosts: Hosts):
    async with hosts.at() as host:
        assert await host.get("ping") == {}


@feature("ping", pairs=BY_MODERN, works=False)
async def test_the_modern_era_has_no_ping(hosts: Hosts):
    async with hosts.at() as host:
        assert (await host.error("ping"))["code"] == NO_METHOD


# -- tools


@feature("tools/list")
async def test_tools_are_listed_with_all_that_their_server_sent(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host, hosts.alone(ABLE) as server:
        own = await server.listed("tools/list", "tools")
        if case.surface == "default":
            tools = (await host.wire.open("dev"))["tools"]
            assert {(tool["toolbox_name"], tool["source_server"]) for tool in tools} == {("dev", "s")}
            tools = [without(tool, "toolbox_name", "source_server") for tool in tools]
            assert [tool["name"] for tool in await host.wire.list_tools()] == ["open_toolbox", "use_tool"]
        else:
            tools = await host.listed("tools/list", "tools")
        assert tools == own
        (echo,) = [tool for tool in tools if tool["name"] == "echo"]
        assert (echo["x-unknown"], echo["annotations"]["x-unknown"]) == ({"kept": True}, 1)


@feature("tools/list", surfaces=("toolbox",))
async def test_a_tool_name_that_two_servers_share_is_joined(case: Case, hosts: Hosts):
    async with hosts.at(servers=two(case)) as host:
        names = [tool["name"] for tool in await host.listed("tools/list", "tools")]
        assert {"dev__s__echo", "dev__t__echo"} <= set(names)
        assert "echo" not in names
        for server, name in (("s", "W"), ("t", "X")):
            assert (await host.call("echo", {}, server))["structuredContent"]["server"] == name
        assert (await host.error("tools/call", {"name": "echo"}))["code"] == BAD_PARAMS


@feature("tools/call")
async def test_a_result_is_untouched(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host, hosts.alone(ABLE) as server:
        for tool in ("structured", "fail", "link"):
            lines = [
                (await one.wire.finish(await one.wire.begin("tools/call", one.named(tool, {}))))[1]
                for one in (host, server)
            ]
            through, own = (members(line) for line in lines)
            assert through.pop("resultType", None) == (b'"complete"' if case.is_modern else None)
            own.pop("resultType", None)
            assert through == own
        echoed = await host.call("echo", {"a": [1, None]})
        assert echoed["content"][1] == {"type": "hologram", "data": "x"}
        assert echoed["x-unknown"] == {"kept": True}
        assert echoed["_meta"]["vendor/trace"] == "W"


@feature("tools/call")
async def test_the_digits_of_arguments_and_results_are_kept(case: Case, hosts: Hosts):
    async with hosts.at() as host:
        envelope: Json = {META + "protocolVersion": "2026-07-28", META + "clientCapabilities": {}}
        params = host.named("echo", {"n": "@"}) | ({"_meta": envelope} if case.is_modern else {})
        request = json.dumps({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": params})
        await host.wire.raw(request.replace('"@"', DIGITS).encode() + b"\n")
        await host.wire.wait_for(lambda: answer_to(host.wire, 77), "the echo")
        (line,) = [line for line in host.wire.lines if b'"id":77' in line.replace(b" ", b"")]
        assert f'"arguments": {{"n": {DIGITS}}}'.encode() in line
        assert json.loads(line)["result"]["content"][0]["text"] == f'{{"n": {DIGITS}}}'


@feature("`_meta` and trace context")
async def test_meta_travels_but_for_the_token_and_the_envelope(case: Case, hosts: Hosts):
    trace = {"traceparent": "00-1", "tracestate": "a=1", "baggage": "b=2", "vendor/x": [1], META + "other": 1}
    mine = {"progressToken": "mine"}
    async with hosts.at(ABLE) as host:
        heard = (await host.call("echo", {}, _meta=trace | mine))["structuredContent"]["meta"]
        assert {key: heard.get(key) for key in trace} == trace
        assert heard["progressToken"] != "mine"
        reserved = {key: value for key, value in heard.items() if key.startswith(META) and key not in trace}
        if case.server == "handshake":
            assert reserved == {}
        else:
            assert reserved.keys() == {META + "protocolVersion", META + "clientInfo", META + "clientCapabilities"}
            assert reserved[META + "clientInfo"]["name"] == "mcp-workbench"
            assert reserved[META + "clientCapabilities"] == ABLE


@feature("progress")
async def test_progress_comes_under_the_token_of_the_client(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        await host.call("count", {})
        assert host.wire.seen(PROGRESS) == []
        for token in ("p", 7):
            await host.call("count", {}, _meta={"progressToken": token})
            assert "result" in host.wire.order[-1]
        assert [message["params"] for message in host.wire.seen(PROGRESS)] == [
            {"progressToken": token, "progress": step, "total": 3, "message": f"step {step} of W"}
            for token in ("p", 7)
            for step in (1, 2, 3)
        ]


@feature("cancellation")
@pytest.mark.parametrize("capabilities", [{}, ABLE], ids=["mute", "able"])
async def test_a_cancellation_reaches_the_server_within_a_second(capabilities: Json, hosts: Hosts, tmp_path: Path):
    file = tmp_path / "held"
    async with hosts.at(capabilities) as host:
        held = host.named("hold", {"file": str(file)}, _meta={"progressToken": "p"})
        number = await host.wire.begin("tools/call", held)
        await host.wire.notification(PROGRESS)
        async with LagProbe() as lag:
            since = time.monotonic()
            await host.wire.notify("notifications/cancelled", {"requestId": number})
            await host.call("count", {})  # the server takes one message after the other
            took_seconds = time.monotonic() - since
        assert took_seconds < 1 + HOPS * lag.worst_seconds
        assert file.read_text() == "started\ncancelled\n"
        assert not answer_to(host.wire, number)


@feature("cancellation", pairs=BY_HANDSHAKE)
async def test_a_cancelled_call_takes_its_question_back(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        number = await host.wire.begin("tools/call", host.named("ask", {"kind": "form"}))
        await host.wire.wait_for(lambda: host.wire.asked, "the question")
        await host.wire.notify("notifications/cancelled", {"requestId": number})
        (taken_back,) = await host.wire.notification("notifications/cancelled")
        assert taken_back["params"]["requestId"] == host.wire.asked[0]["id"]
        await host.call("count", {})
        assert not answer_to(host.wire, number)


@feature("errors of servers")
async def test_a_server_refuses_in_its_own_words(case: Case, hosts: Hosts):
    async with hosts.at() as host:
        if case.surface == "default":
            refused = await host.call("refuse", {})
            assert "refused by W (code -32050)" in error_of(refused)
            assert refused["_meta"]["mcp-workbench/error"]["code"] == "server_refused"
        else:
            refused = await host.error("tools/call", host.named("refuse", {}))
            assert refused == {"code": -32050, "message": "refused by W", "data": {"why": 1}}
        if case.surface != "default":
            prompt = await host.error("prompts/get", {"name": host.prompt("greet")})
            assert prompt == {
                "code": BAD_PARAMS,
                "message": "Unknown prompt, or an argument is missing: greet",
            }


@feature("errors of servers")
async def test_a_missing_capability_is_told_as_the_server_says_it(case: Case, hosts: Hosts):
    code = -32021 if case.server == "modern" else -32600
    async with hosts.at({"elicitation": {}}) as host:
        message = await host.wire.request("tools/call", host.named("ask", {"kind": "sampling"}))
        if case.surface != "default" or (case.pair == ("modern", "modern")):
            assert message["error"]["code"] == code
            assert message["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
        else:
            assert f"(code {code})" in error_of(result_of(message))


# -- resources


def opens(case: Case) -> bool:
    """Whether prompts and resources are there once a toolbox is open, and not before."""
    return case.surface == "default" and not case.is_modern


def unopened(case: Case, hosts: Hosts, folder: Path) -> AbstractAsyncContextManager[Host]:
    """A workbench of its own where it matters that nothing is open."""
    return hosting(case, folder) if opens(case) else hosts.at()


@feature("resources/list and resources/templates/list")
async def test_resources_are_listed_as_their_server_lists_them(case: Case, hosts: Hosts, tmp_path: Path):
    async with unopened(case, hosts, tmp_path) as host, hosts.alone() as server:
        if opens(case):
            assert await host.listed("resources/list", "resources") == []
            await host.wire.open("dev")
            await host.wire.notification("notifications/resources/list_changed")
        for method, kind in (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")):
            assert await host.listed(method, kind) == await server.listed(method, kind)
            hints = await host.get(method)
            assert {"resultType", "ttlMs", "cacheScope"} <= hints.keys() or not case.is_modern


@feature("resources/read")
async def test_resources_are_read(case: Case, hosts: Hosts):
    async with hosts.at() as host, hosts.alone() as server:
        for uri in ("test://W/a", "test://W/item/5", "test://shared/same", "test://shared/5", "test://W/blob"):
            read = await host.get("resources/read", {"uri": uri})
            assert plain(read) == plain(await server.get("resources/read", {"uri": uri}))
            assert {"resultType", "ttlMs", "cacheScope"} <= read.keys() or not case.is_modern
            assert "resultType" not in read or case.is_modern


@feature("resources/read")
async def test_a_missing_resource_has_the_code_of_the_era(case: Case, hosts: Hosts):
    async with hosts.at() as host:
        missing = await host.error("resources/read", {"uri": "test://W/no"})
        assert missing["code"] == (-32002 if case.pair == ("handshake", "handshake") else BAD_PARAMS)
        assert missing["data"] == {"uri": "test://W/no"}


@feature("resources/read", surfaces=SEVERAL)
async def test_a_resource_of_no_server_has_the_code_of_the_client(case: Case, hosts: Hosts):
    async with hosts.at(servers=two(case)) as host:
        missing = await host.error("resources/read", {"uri": "none://x"})
        assert missing["code"] == (BAD_PARAMS if case.is_modern else -32002)
        assert missing["data"] == {"uri": "none://x"}


@feature("resources that no list has")
async def test_what_a_result_links_to_can_be_read(case: Case, hosts: Hosts):
    async with hosts.at(servers=None if case.surface == "server" else two(case)) as host:
        for path in ("hidden", "embedded"):
            if case.surface != "server":
                assert (await host.error("resources/read", {"uri": f"test://W/{path}"}))["code"] in {BAD_PARAMS, -32002}
        await host.call("link", {})
        for path in ("hidden", "embedded"):
            read = await host.get("resources/read", {"uri": f"test://W/{path}"})
            assert read["contents"][0]["text"] == f"test://W/{path} read from W"


@feature("the same URI in two servers", surfaces=SEVERAL)
async def test_an_uri_that_two_servers_list_names_the_server(case: Case, hosts: Hosts):
    async with hosts.at(servers=two(case)) as host:
        uris = [resource["uri"] for resource in await host.listed("resources/list", "resources")]
        shared = {server: f"mcp-workbench://resource/dev/{server}/test://shared/same" for server in ("s", "t")}
        assert uris == ["test://W/a", "test://W/b", shared["s"], "test://X/a", "test://X/b", shared["t"]]
        templates = await host.listed("resources/templates/list", "resourceTemplates")
        assert "mcp-workbench://resource/dev/t/test://shared/{id}" in [each["uriTemplate"] for each in templates]
        for server, name in (("s", "W"), ("t", "X")):
            read = await host.get("resources/read", {"uri": shared[server]})
            assert read["contents"][0]["text"] == f"test://shared/same read from {name}"
            at = f"mcp-workbench://resource/dev/{server}/test://shared/5"
            read = await host.get("resources/read", {"uri": at})
            assert read["contents"][0]["text"] == f"test://shared/5 read from {name}"
            completed = await host.get(
                "completion/complete",
                {
                    "ref": {
                        "type": "ref/resource",
                        "uri": f"mcp-workbench://resource/dev/{server}/test://shared/{{id}}",
                    },
                    "argument": {"name": "id", "value": "v"},
                },
            )
            assert completed["completion"]["values"] == ["v-one", "v-two", f"v-{name}"]


@feature("the same URI in two servers", surfaces=SEVERAL)
async def test_an_uri_of_two_servers_is_read_from_neither_without_its_server(case: Case, hosts: Hosts):
    async with hosts.at(servers=two(case)) as host:
        refused = await host.error("resources/read", {"uri": "test://shared/same"})
        assert refused["code"] == BAD_PARAMS
        for server in ("s", "t"):
            assert f"mcp-workbench://resource/dev/{server}/test://shared/same" in refused["message"]


@feature("the same URI in two servers", surfaces=SEVERAL)
async def test_updates_of_a_shared_uri_name_the_server(case: Case, hosts: Hosts):
    async with hosts.at(servers=two(case)) as host:
        uri = "mcp-workbench://resource/dev/t/test://shared/same"
        number = await watch(host, uri)
        await host.call("touch", {"uri": "test://shared/same"}, "s")
        await host.call("touch", {"uri": "test://shared/same"}, "t")
        (updated,) = await host.wire.notification(UPDATED)
        assert updated["params"] == {"uri": uri, **tagged(number)}
        await unwatch(host, uri, number)


@feature("MCP Apps", surfaces=NATIVE)
async def test_the_ui_that_a_tool_names_can_be_read(case: Case, hosts: Hosts):
    async with hosts.at(servers=with_apps(case)) as host:
        tools = (await host.get("tools/list"))["tools"]
        named = {tool["name"]: tool["_meta"]["ui"]["resourceUri"] for tool in tools}
        prefix = "s/" if case.surface == "toolbox" else ""
        assert named["main_s"] == f"ui://{prefix}widget/main"
        for tool, uri in named.items():
            read = await host.get("resources/read", {"uri": uri})
            assert read["contents"][0]["text"] == "<p>{} of {}</p>".format(*tool.split("_"))


@feature("skills", surfaces=NATIVE)
async def test_skills_are_listed_and_got_and_their_files_read(case: Case, hosts: Hosts):
    async with hosts.at(servers=with_apps(case)) as host:
        result = await host.get("skills/list")
        assert not case.is_modern or {"ttlMs", "cacheScope"} <= result.keys()
        skills = result["skills"]
        prefix = "s/" if case.surface == "toolbox" else ""
        assert skills[0]["uri"] == f"skill://{prefix}team/git/SKILL.md"
        assert (await host.get("skills/get", {"uri": skills[0]["uri"]}))["skill"] == skills[0]
        read = await host.get("resources/read", {"uri": skills[0]["resources"][1]["uri"]})
        assert read["contents"][0]["text"] == "x of s\n"


async def watch(host: Host, uri: str) -> int | None:
    """Have the client told of changes of a resource; the number of its subscription if it has one."""
    if host.case.is_modern:
        return await host.listen(resourceSubscriptions=[uri])
    assert await host.get("resources/subscribe", {"uri": uri}) == {}
    return None


async def unwatch(host: Host, uri: str, number: int | None) -> None:
    """Take back what `watch` did."""
    if number is None:
        assert await host.get("resources/unsubscribe", {"uri": uri}) == {}
    else:
        await host.wire.notify("notifications/cancelled", {"requestId": number})


def tagged(number: int | None) -> Json:
    return {} if number is None else {"_meta": {SUBSCRIPTION: number}}


@feature("resource updates")
async def test_updates_come_for_what_is_watched(hosts: Hosts):
    a, b = {"uri": "test://W/a"}, {"uri": "test://W/b"}
    async with hosts.at(use="changes") as host:
        await host.call("touch", a)
        number = await watch(host, a["uri"])
        await host.call("touch", b)
        added = (await host.call("change", {"kind": "prompts"}))["structuredContent"]["added"]
        await host.call("touch", a)
        (updated,) = await host.wire.notification(UPDATED)
        assert updated["params"] == {**a, **tagged(number)}
        if number is not None:
            assert host.wire.seen("notifications/prompts/list_changed") == []
        await unwatch(host, a["uri"], number)
        await host.call("touch", a)
        await host.call("touch", a)
        assert len(host.wire.seen(UPDATED)) == 1

        async def is_listed() -> bool:
            return host.prompt(added) in [prompt["name"] for prompt in await host.listed("prompts/list", "prompts")]

        await poll_until(is_listed, what="the new prompt, before another test adds one")


@feature("resource updates", pairs=BY_MODERN)
async def test_two_subscriptions_are_told_apart(hosts: Hosts):
    a, b = {"uri": "test://W/a"}, {"uri": "test://W/b"}
    async with hosts.at() as host:
        first = await host.listen(resourceSubscriptions=[a["uri"]])
        second = await host.listen(resourceSubscriptions=[b["uri"]])
        for uri in (a, b, a):
            await host.call("touch", uri)
        told = [message["params"] for message in await host.wire.notification(UPDATED, 3)]
        assert told == [{**a, **tagged(first)}, {**b, **tagged(second)}, {**a, **tagged(first)}]
        await unwatch(host, a["uri"], first)
        await unwatch(host, b["uri"], second)


# -- prompts and completion


@feature("prompts")
async def test_prompts_are_listed_and_got(case: Case, hosts: Hosts, tmp_path: Path):
    async with unopened(case, hosts, tmp_path) as host, hosts.alone() as server:
        if opens(case):
            assert await host.listed("prompts/list", "prompts") == []
            await host.wire.open("dev")
        prompts = await host.listed("prompts/list", "prompts")
        own = await server.listed("prompts/list", "prompts")
        assert [prompt["name"] for prompt in prompts] == [host.prompt(prompt["name"]) for prompt in own]
        assert prompts[0]["x-unknown"] == "W"
        assert prompts[0]["arguments"] == own[0]["arguments"]
        if case.surface != "default":
            assert prompts == own
        wanted = {"arguments": {"who": "Ann"}}
        got = await host.get("prompts/get", {"name": host.prompt("greet"), **wanted})
        assert plain(got) == plain(await server.get("prompts/get", {"name": "greet", **wanted}))
        assert (await host.error("prompts/get", {"name": "none"}))["code"] == BAD_PARAMS


@feature("prompts", surfaces=SEVERAL)
async def test_prompts_of_two_servers_have_names_of_their_own(case: Case, hosts: Hosts):
    async with hosts.at(servers=two(case)) as host:
        for server, name in (("s", "W"), ("t", "X")):
            got = await host.get("prompts/get", {"name": f"dev__{server}__plain"})
            assert got["messages"][0]["content"]["text"] == f"plain of {name}"


@feature("completion")
async def test_arguments_of_prompts_and_templates_are_completed(hosts: Hosts):
    async with hosts.at() as host:
        references: list[tuple[Json, str]] = [
            ({"type": "ref/prompt", "name": host.prompt("greet")}, "who"),
            ({"type": "ref/resource", "uri": "test://W/item/{id}"}, "id"),
        ]
        for reference, name in references:
            params: Json = {"ref": reference, "argument": {"name": name, "value": "v"}}
            completion = (await host.get("completion/complete", params))["completion"]
            assert completion == {"values": ["v-one", "v-two", "v-W"], "total": 3, "hasMore": False, "x-unknown": 1}
            params["context"] = {"arguments": {"x": "y"}}
            completion = (await host.get("completion/complete", params))["completion"]
            assert completion["values"][3] == '{"arguments": {"x": "y"}}'
        wrong = {"ref": {"type": "ref/prompt", "name": host.prompt("plain")}, "argument": {"name": "x", "value": ""}}
        assert (await host.error("completion/complete", wrong))["code"] == BAD_PARAMS


# -- logs


def logged(host: Host) -> list[str]:
    return [message["params"]["level"] for message in host.wire.seen(LOGGED)]


@feature("log messages", pairs=BY_HANDSHAKE)
async def test_a_handshake_client_sets_one_level(case: Case, tmp_path: Path):
    async with hosting(case, tmp_path) as host:
        await host.call("log", {})
        before = logged(host)
        assert before == (["debug", "info", "error"] if case.server == "handshake" else [])
        assert await host.get("logging/setLevel", {"level": "info"}) == {}
        await host.call("log", {})
        assert logged(host) == [*before, "info", "error"]
        message = {"level": "error", "logger": "W", "data": "error from W", "x-unknown": 1}
        assert host.wire.seen(LOGGED)[-1]["params"] == message
        await host.call("late_log", {})
        assert (await host.wire.notification(LOGGED, len(before) + 3))[-1]["params"]["data"] == "late from W"
        assert (await host.error("logging/setLevel", {"level": "loud"}))["code"] == BAD_PARAMS


@feature("log messages", pairs=BY_HANDSHAKE)
async def test_a_level_that_is_set_first_holds_for_servers_that_start_later(case: Case, tmp_path: Path):
    async with hosting(case, tmp_path) as host:
        await host.get("logging/setLevel", {"level": "error"})
        await host.call("log", {})
        assert logged(host) == ["error"]


@feature("log messages", pairs=BY_MODERN)
async def test_a_modern_client_has_a_level_for_each_request(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        await host.call("log", {})
        assert logged(host) == []
        await host.call("log", {}, _meta={META + "logLevel": "info"})
        assert logged(host) == ["info", "error"]
        await host.call("log", {})
        assert len(logged(host)) == 2
        await host.call("log", {}, _meta={META + "logLevel": "debug"})
        assert logged(host)[2:] == ["debug", "info", "error"]
        await host.call("log", {}, _meta={META + "logLevel": "error"})
        assert logged(host)[5:] == ["error"]
        wrong = host.named("log", {}, _meta={META + "logLevel": "loud"})
        assert (await host.error("tools/call", wrong))["code"] == BAD_PARAMS


# -- lists that change


async def told_of_changes(host: Host, *kinds: str) -> int | None:
    """Be a client that is told of these lists and has read them."""
    number = await host.listen(**{f"{kind}ListChanged": True for kind in kinds}) if host.case.is_modern else None
    for kind in kinds:
        await host.listed(f"{kind}/list", kind)
    return number


async def told_no_more(host: Host, number: int | None) -> None:
    if number is not None:
        await host.wire.notify("notifications/cancelled", {"requestId": number})


@feature("list_changed of prompts and resources")
async def test_a_client_is_told_of_new_prompts_and_resources(hosts: Hosts):
    async with hosts.at(use="changes") as host:
        number = await told_of_changes(host, "prompts", "resources")
        for kind, member in (("prompts", "name"), ("resources", "uri")):
            method = f"notifications/{kind}/list_changed"
            before = len(host.wire.seen(method))
            added = (await host.call("change", {"kind": kind}))["structuredContent"]["added"]
            changed = await host.wire.notification(method, before + 1)
            assert changed[-1].get("params", {}) == tagged(number)
            shown = host.prompt(added) if kind == "prompts" else added
            assert shown in [item[member] for item in await host.listed(f"{kind}/list", kind)]
        assert host.wire.seen("notifications/tools/list_changed") == []
        await told_no_more(host, number)


@feature("list_changed of tools", surfaces=NATIVE)
async def test_a_client_is_told_of_new_tools(hosts: Hosts):
    async with hosts.at(use="changes") as host:
        number = await told_of_changes(host, "tools")
        added = (await host.call("change", {"kind": "tools"}))["structuredContent"]["added"]
        (changed,) = await host.wire.notification("notifications/tools/list_changed")
        assert changed.get("params", {}) == tagged(number)
        assert added in [tool["name"] for tool in await host.listed("tools/list", "tools")]
        assert text_of(await host.call(added, {})) == f"{added} of W"
        await told_no_more(host, number)


@feature("tools/list", surfaces=("default",))
async def test_the_two_tools_stay_and_an_open_shows_what_is_new(case: Case, tmp_path: Path):
    async with hosting(case, tmp_path) as host:
        await host.wire.open("dev")
        await host.call("change", {"kind": "tools"})
        assert "added_1" in [tool["name"] for tool in (await host.wire.open("dev"))["tools"]]
        assert host.wire.seen("notifications/tools/list_changed") == []
        assert [tool["name"] for tool in await host.wire.list_tools()] == ["open_toolbox", "use_tool"]


# -- questions


def question_of(name: str, kind: str, era: Era) -> Json:
    """What the server asks."""
    match kind:
        case "form":
            schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
            return {"mode": "form", "message": f"{name} asks", "requestedSchema": schema, "x-unknown": 1}
        case "url":
            named = {} if era == "modern" else {"elicitationId": "e1"}
            return {"mode": "url", "message": f"{name} asks", "url": f"https://example.com/{name}"} | named
        case "sampling":
            said = {"role": "user", "content": {"type": "text", "text": f"{name} asks"}}
            return {"messages": [said], "maxTokens": 10}
        case _:
            return {}


async def check_asked(host: Host, kind: str, answer: Json) -> Json:
    outcome = await host.asking("ask", {"kind": kind}, lambda _: answer)
    (question,) = outcome.questions
    added = "elicitationId" if kind == "url" and host.case.pair == ("handshake", "modern") else ""
    assert without(question.get("params", {}), "_meta", added) == question_of("W", kind, host.case.server)
    structured = outcome.result["structuredContent"]
    assert without(structured, "progress") == {"kind": kind, "answer": answer, "server": "W"}
    return question.get("params", {})


@feature("elicitation, form")
async def test_a_server_asks_by_a_form(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        await check_asked(host, "form", ACCEPTED)
        await check_asked(host, "form", {"action": "decline"})
        await check_asked(host, "form", {"action": "cancel", "x-unknown": [1]})


@feature("elicitation, URL")
async def test_a_server_asks_to_open_a_page(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host:
        asked = await check_asked(host, "url", {"action": "accept"})
        if case.is_modern:
            assert host.wire.seen(COMPLETE) == []
            return
        (complete,) = await host.wire.notification(COMPLETE)
        assert complete["params"] == {"elicitationId": asked["elicitationId"]}
        if case.server == "handshake":
            assert asked["elicitationId"] == "e1"
            return
        again = await check_asked(host, "url", {"action": "accept"})
        assert len(again["elicitationId"]) >= 32
        assert again["elicitationId"] != asked["elicitationId"]
        await check_asked(host, "url", {"action": "decline"})
        assert [one["params"] for one in host.wire.seen(COMPLETE)[1:]] == [{"elicitationId": again["elicitationId"]}]


@feature("elicitation, URL")
async def test_a_page_is_asked_for_only_where_the_client_declared_that(case: Case, hosts: Hosts):
    async with hosts.at({"elicitation": {}}) as host:
        outcome = await host.asking("ask", {"kind": "url", "anyway": True}, lambda _: {"action": "accept"})
        if case.pair == ("handshake", "handshake"):  # the two agree on it, or the client refuses it itself
            assert len(outcome.questions) == 1
        elif case.server == "handshake":
            assert outcome.result["structuredContent"]["answer"]["code"] == BAD_PARAMS
        else:
            assert "elicitation/create in URL mode" in error_of(outcome.result)
            assert outcome.result["_meta"]["mcp-workbench/error"]["code"] == "input_unavailable"


@feature("elicitation, URL", pairs=(("modern", "handshake"),))
async def test_a_refusal_until_a_page_is_opened_becomes_a_question(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host:
        for method, params in (
            ("tools/call", host.named("needs_url", {})),
            ("prompts/get", {"name": host.prompt("plain")}),
            ("resources/read", {"uri": "test://W/a"}),
        ):
            await host.call("gate", {"times": 1})
            outcome = await host.answering(method, params, lambda _: {"action": "accept"})
            (question,) = outcome.questions
            assert question == {"method": "elicitation/create", "params": question_of("W", "url", "handshake")}
            assert outcome.result["resultType"] == "complete"
            assert "isError" not in outcome.result
        assert case.is_modern


@feature("elicitation, URL", pairs=(("modern", "handshake"),))
async def test_a_page_that_is_not_opened_fails_the_call(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        await host.call("gate", {"times": 1})
        outcome = await host.asking("needs_url", {}, lambda _: {"action": "decline"})
        assert outcome.result["_meta"]["mcp-workbench/error"]["code"] == "input_unavailable"
        assert "did not open the page" in error_of(outcome.result)


@feature("elicitation, URL", pairs=TO_HANDSHAKE)
@pytest.mark.parametrize("capabilities", [{"elicitation": {}}, {}], ids=["forms", "nothing"])
async def test_a_refusal_until_a_page_is_opened_passes_to_others_as_it_is(case: Case, capabilities: Json, hosts: Hosts):
    async with hosts.at(capabilities) as host:
        await host.call("gate", {"times": 1})
        message = await host.wire.request("tools/call", host.named("needs_url", {}))
        if case.surface != "default" or (capabilities and not case.is_modern):
            assert message["error"]["code"] == URL_NEEDED
            assert message["error"]["data"] == {"elicitations": [question_of("W", "url", "handshake")]}
        else:
            assert "A page must be opened first (code -32042)" in error_of(result_of(message))
            assert result_of(message)["_meta"]["mcp-workbench/error"]["code"] == "server_refused"


@feature("sampling")
async def test_a_server_samples(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        await check_asked(host, "sampling", SAMPLED)


@feature("progress of sampling", pairs=[("handshake", "handshake")])
async def test_progress_of_sampling_goes_back_to_the_server(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        number = await host.wire.begin("tools/call", host.named("ask", {"kind": "sampling"}))
        await host.wire.wait_for(lambda: host.wire.asked, "the question")
        (question,) = host.wire.asked
        token = question["params"]["_meta"]["progressToken"]
        for step in (1, 2):
            await host.wire.notify(PROGRESS, {"progressToken": token, "progress": step})
        await reply(host.wire, question, SAMPLED)
        result = result_of((await host.wire.finish(number))[0])
        assert result["structuredContent"]["progress"] == 2


@feature("progress of sampling", pairs=[*CROSS_ERA, ("modern", "modern")], works=False)
async def test_the_modern_era_has_no_progress_of_an_answer(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host:
        outcome = await host.asking("ask", {"kind": "sampling"})
        (question,) = outcome.questions
        if not case.is_modern:
            assert "progressToken" not in question.get("params", {}).get("_meta", {})
        assert outcome.result["structuredContent"].get("progress", 0) == 0


@feature("roots")
async def test_a_server_asks_for_the_roots(case: Case, hosts: Hosts):
    async with hosts.at(WITH_ROOTS) as host:
        outcome = await host.asking("ask", {"kind": "roots"})
        assert outcome.result["structuredContent"] == {"kind": "roots", "answer": ROOTS, "server": "W"}
        assert {question["method"] for question in outcome.questions} == {"roots/list"}
        if case.server == "handshake":  # it asks at its start, between calls, as well
            seen = (await host.answering("tools/call", host.named("roots_seen", {}))).result
            assert seen["structuredContent"]["roots"] == ROOTS


@feature("roots", pairs=TO_HANDSHAKE)
async def test_a_question_between_calls_is_answered(case: Case, tmp_path: Path):
    async with hosting(case, tmp_path, WITH_ROOTS) as host:
        await host.answering("tools/call", host.named("background_ask", {}))
        if not case.is_modern:
            while len(host.wire.asked) < 2:  # at its start, and after the call
                await host.answer_next()
        seen: list[Any] = []

        async def is_seen() -> bool:
            """A modern client is asked by one of these calls, as soon as the server asked, and a later one sees it."""
            result = (await host.answering("tools/call", host.named("roots_seen", {}))).result
            seen[:] = result["structuredContent"]["background"]
            return bool(seen)

        await poll_until(is_seen, what="the answer")
        assert seen == [ROOTS]


@feature("roots/list_changed", pairs=[("handshake", "handshake")])
async def test_a_server_is_told_of_changed_roots(case: Case, tmp_path: Path):
    async with hosting(case, tmp_path, WITH_ROOTS) as host:
        await host.answering("tools/call", host.named("count", {}))
        await host.wire.notify("notifications/roots/list_changed")

        async def is_told() -> bool:
            """It asks for them when it hears that they changed, and answers others meanwhile."""
            seen = (await host.answering("tools/call", host.named("roots_seen", {}))).result["structuredContent"]
            assert seen["changes"] <= 1
            return (seen["changes"], seen["roots"]) == (1, ROOTS)

        await poll_until(is_told, what="the new roots")


@feature("roots/list_changed", pairs=[*CROSS_ERA, ("modern", "modern")], works=False)
async def test_the_modern_era_asks_for_roots_when_it_needs_them(hosts: Hosts):
    other: Json = {"roots": [{"uri": "file:///other"}]}
    async with hosts.at(WITH_ROOTS) as host:
        await host.asking("ask", {"kind": "roots"})
        await host.wire.notify("notifications/roots/list_changed")
        outcome = await host.asking("ask", {"kind": "roots"}, lambda _: other)
        assert outcome.result["structuredContent"]["answer"] == other


@feature("questions of prompts and resources")
async def test_a_prompt_and_a_resource_ask(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        got = await host.answering("prompts/get", {"name": host.prompt("asking")})
        heard = json.loads(got.result["messages"][0]["content"]["text"])
        assert heard == {"server": "W", "answer": ACCEPTED}
        read = await host.answering("resources/read", {"uri": "test://W/asking"})
        assert json.loads(read.result["contents"][0]["text"]) == {"server": "W", "answer": ACCEPTED}
        for outcome in (got, read):
            (question,) = outcome.questions
            assert question["params"]["message"] == "W asks"


@feature("several questions")
async def test_two_questions_one_after_the_other(hosts: Hosts):
    answers: list[Json] = [ACCEPTED, {"action": "decline"}]
    async with hosts.at(ABLE) as host:
        given = iter(answers)
        outcome = await host.asking("ask_twice", {}, lambda _: next(given))
        assert len(outcome.rounds) == 2
        assert outcome.result["structuredContent"] == {"answers": answers, "server": "W"}


@feature("several questions")
async def test_two_questions_at_once(hosts: Hosts):
    async with hosts.at(WITH_ROOTS) as host:
        await host.answering("tools/call", host.named("count", {}))
        outcome = await host.asking("ask_both", {})
        assert outcome.result["structuredContent"]["answers"] == {"k1": ACCEPTED, "k2": ROOTS}
        methods = sorted(question["method"] for question in outcome.questions)
        assert methods in (["elicitation/create", "roots/list"], ["elicitation/create", "roots/list", "roots/list"])


@each_case([Case("modern", "handshake", surface) for surface in SURFACES])
async def test_a_call_that_waits_for_its_client_lets_others_pass(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        first = await host.call("ask", {"kind": "form"})
        second = await host.call("ask", {"kind": "form"})
        for result, word in ((second, "second"), (first, "first")):
            (key,) = result["inputRequests"]
            answer: Json = {"action": "accept", "content": {"answer": word}}
            retry: Json = {"inputResponses": {key: answer}, "requestState": result["requestState"]}
            assert (await host.call("ask", {"kind": "form"}, **retry))["structuredContent"]["answer"] == answer


@feature("several questions", pairs=TO_HANDSHAKE)
async def test_fifteen_questions_of_a_handshake_server(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        outcome = await host.asking("ask_forever", {})
        assert (outcome.result["structuredContent"]["times"], len(outcome.rounds)) == (15, 15)


@feature("several questions", pairs=[("handshake", "modern")])
async def test_a_modern_server_that_never_stops_is_given_up_after_ten_rounds(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        outcome = await host.asking("ask_forever", {})
        assert len(outcome.rounds) == 10
        assert "it asked 10 times and still wants to know more" in error_of(outcome.result)
        assert outcome.result["_meta"]["mcp-workbench/error"]["code"] == "input_unavailable"


@feature("several questions", pairs=[("modern", "modern")])
async def test_a_modern_client_decides_itself_how_often_it_is_asked(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        params = host.named("ask_forever", {})
        outcome = await host.answering("tools/call", params, most=14)
        assert list(outcome.result["inputRequests"]) == ["k15"]


@feature("questions that are not answered")
async def test_a_refusal_of_the_client_reaches_the_server_as_its_era_has_it(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host:
        if case.is_modern:  # it has no refusals: it declines, or comes back without an answer and is asked again
            first = await host.call("ask", {"kind": "form"})
            again = await host.call("ask", {"kind": "form"}, inputResponses={}, requestState=first["requestState"])
            assert again["resultType"] == "input_required"
            (question,) = again["inputRequests"].values()
            assert question["params"]["message"] == "W asks"
            (key,) = again["inputRequests"]
            done: Json = {"inputResponses": {key: {"action": "decline"}}, "requestState": again["requestState"]}
            result = await host.call("ask", {"kind": "form"}, **done)
            assert result["structuredContent"]["answer"] == {"action": "decline"}
            return
        outcome = await host.asking("ask", {"kind": "form"}, lambda _: Refusal(-1, "no, thanks"))
        if case.server == "handshake":
            assert outcome.result["structuredContent"]["answer"] == {"code": -1, "message": "no, thanks"}
        else:
            assert "refused elicitation/create: no, thanks (code -1)" in error_of(outcome.result)
            assert outcome.result["_meta"]["mcp-workbench/error"]["code"] == "input_unavailable"


@feature("questions that are not answered")
async def test_what_a_client_did_not_declare_it_is_not_asked(case: Case, hosts: Hosts):
    async with hosts.at({"elicitation": {}}) as host:
        outcome = await host.asking("ask", {"kind": "roots", "anyway": True})
        assert outcome.rounds == []
        if case.server == "handshake":
            assert outcome.result["structuredContent"]["answer"]["code"] == NO_METHOD
        else:
            assert outcome.result["_meta"]["mcp-workbench/error"]["code"] == "input_unavailable"
        assert (await host.asking("ask", {"kind": "form"})).result["structuredContent"]["answer"] == ACCEPTED


# -- requestState


async def refused_params(host: Host, params: Json) -> None:
    """A call that is refused for its parameters, by the workbench or by the server itself."""
    message = await host.wire.request("tools/call", params)
    if "error" in message:
        assert message["error"]["code"] == BAD_PARAMS
    else:
        assert "(code -32602)" in error_of(result_of(message))


@feature("requestState", pairs=BY_MODERN)
async def test_a_state_is_good_once_and_for_its_own_request(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host:
        first = await host.call("ask", {"kind": "form"})
        (key,) = first["inputRequests"]
        retry: Json = {"inputResponses": {key: ACCEPTED}, "requestState": first["requestState"]}
        await refused_params(host, host.named("ask_twice", {}, **retry))
        await refused_params(host, host.named("ask", {"kind": "url"}, **retry))
        for unknown in ("mcp-workbench.0", first["requestState"] + "0", "no", 1):
            wrong: Json = retry | {"requestState": unknown}
            await refused_params(host, host.named("ask", {"kind": "form"}, **wrong))
        done = await host.call("ask", {"kind": "form"}, **retry)
        assert done["structuredContent"]["answer"] == ACCEPTED
        if case.server == "handshake":
            await refused_params(host, host.named("ask", {"kind": "form"}, **retry))


@feature("requestState", pairs=BY_MODERN)
async def test_a_state_of_a_prompt_is_good_for_that_prompt(hosts: Hosts):
    async with hosts.at(ABLE) as host:
        first = await host.get("prompts/get", {"name": host.prompt("asking")})
        (key,) = first["inputRequests"]
        retry: Json = {"inputResponses": {key: ACCEPTED}, "requestState": first["requestState"]}
        other = await host.wire.request("resources/read", {"uri": "test://W/asking", **retry})
        assert other["error"]["code"] == BAD_PARAMS
        done = await host.get("prompts/get", {"name": host.prompt("asking"), **retry})
        assert json.loads(done["messages"][0]["content"]["text"])["answer"] == ACCEPTED


@feature("requestState", pairs=BY_HANDSHAKE, works=False)
async def test_a_handshake_client_has_no_state(case: Case, hosts: Hosts):
    async with hosts.at(ABLE) as host:
        outcome = await host.asking("ask", {"kind": "form"})
        assert "requestState" not in json.dumps(outcome.message)
        retries: list[Json] = [{"inputResponses": {"k1": ACCEPTED}}, {"requestState": "no"}]
        for retry in retries:
            call = host.named("ask", {"kind": "form"}, **retry)
            if case.server == "modern":  # it never gave that state, and says so
                await refused_params(host, call)
            else:  # what it does not know it does not look at
                again = await host.answering("tools/call", call)
                assert again.result["structuredContent"] == outcome.result["structuredContent"]


# -- tasks


@feature("tasks", surfaces=NATIVE, pairs=[("handshake", "handshake")])
async def test_tasks_of_the_handshake_era(case: Case, tmp_path: Path):
    prefix = "s:" if case.surface == "toolbox" else ""
    async with hosting(case, tmp_path, ABLE) as host:
        assert (await host.call("slow", {}))["structuredContent"]["task"] is None
        task = (await host.call("slow", {}, task={"ttl": 5}))["task"]
        assert (task["taskId"], task["status"], task["ttl"]) == (f"{prefix}t1", "working", 5)
        first = {"taskId": task["taskId"]}
        assert [(await host.get("tasks/get", first))["status"] for _ in range(2)] == ["working", "completed"]
        (status,) = await host.wire.notification("notifications/tasks/status")
        assert (status["params"]["taskId"], status["params"]["status"]) == (f"{prefix}t1", "completed")
        done = await host.get("tasks/result", first)
        assert (text_of(done), done["_meta"]) == ("slow W", {META + "related-task": first})
        await host.call("slow", {}, task={})
        second = {"taskId": f"{prefix}t2"}
        assert (await host.get("tasks/cancel", second))["status"] == "cancelled"
        listed = (await host.get("tasks/list"))["tasks"]
        assert [(each["taskId"], each["status"]) for each in listed] == [
            (f"{prefix}t1", "completed"),
            (f"{prefix}t2", "cancelled"),
        ]
        assert (await host.error("tasks/get", {"taskId": "no"}))["code"] == BAD_PARAMS
        assert (await host.error("tasks/get", {"taskId": f"{prefix}t9"}))["code"] == BAD_PARAMS


@feature("tasks", surfaces=NATIVE, pairs=[("handshake", "handshake")])
async def test_a_task_of_the_handshake_era_asks(case: Case, tmp_path: Path):
    prefix = "s:" if case.surface == "toolbox" else ""
    async with hosting(case, tmp_path, ABLE) as host:
        task = {"taskId": (await host.call("slow_ask", {}, task={}))["task"]["taskId"]}
        assert task == {"taskId": f"{prefix}t1"}
        assert (await host.get("tasks/get", task))["status"] == "input_required"
        outcome = await host.answering("tasks/result", task)
        (question,) = outcome.questions
        assert question["params"]["_meta"][META + "related-task"] == task
        assert outcome.result["structuredContent"]["answers"] == {"k1": ACCEPTED}


@feature("tasks", surfaces=NATIVE, pairs=[("modern", "modern")])
async def test_tasks_of_the_modern_era(case: Case, tmp_path: Path):
    prefix = "s:" if case.surface == "toolbox" else ""
    async with hosting(case, tmp_path, WITH_TASKS) as host:
        task = await host.call("slow", {})
        assert (task["resultType"], task["taskId"], task["status"]) == ("task", f"{prefix}t1", "working")
        first = {"taskId": task["taskId"]}
        number = await host.listen(taskIds=[task["taskId"]])
        assert (await host.get("tasks/get", first))["status"] == "working"
        done = await host.get("tasks/get", first)
        assert (done["resultType"], done["status"], text_of(done["result"])) == ("complete", "completed", "slow W")
        (told,) = await host.wire.notification("notifications/tasks")
        assert (told["params"]["taskId"], told["params"]["_meta"]) == (f"{prefix}t1", {SUBSCRIPTION: number})
        second = {"taskId": (await host.call("slow_ask", {}))["taskId"]}
        asking = await host.get("tasks/get", second)
        assert asking["inputRequests"]["k1"]["method"] == "elicitation/create"
        await host.get("tasks/update", {**second, "inputResponses": {"k1": ACCEPTED}})
        answered = await host.get("tasks/get", second)
        assert answered["result"]["structuredContent"]["answers"] == {"k1": ACCEPTED}
        third = {"taskId": (await host.call("slow", {}))["taskId"]}
        await host.get("tasks/cancel", third)
        assert (await host.get("tasks/get", third))["status"] == "cancelled"
        assert (await host.error("tasks/list"))["code"] == NO_METHOD


@feature("tasks", surfaces=NATIVE, pairs=CROSS_ERA, works=False)
async def test_across_the_eras_a_call_is_answered_directly(case: Case, hosts: Hosts):
    async with hosts.at(WITH_TASKS if case.is_modern else ABLE) as host:
        wish: Json = {} if case.is_modern else {"task": {"ttl": 5}}
        done = await host.call("slow", {}, **wish)
        assert done["structuredContent"] == {"server": "W", "task": None}
        assert (await host.error("tasks/get", {"taskId": "s:t1"}))["code"] in {NO_METHOD, BAD_PARAMS}
        direct = await host.answering("tools/call", host.named("slow_ask", {}, **wish))
        assert direct.result["structuredContent"]["answers"] == {"k1": ACCEPTED}


@each_case([Case(*pair, "default") for pair in PAIRS])
async def test_the_two_tools_have_no_tasks(case: Case, hosts: Hosts):
    async with hosts.at(WITH_TASKS if case.is_modern else ABLE) as host:
        wish: Json = {} if case.is_modern else {"task": {"ttl": 5}}
        done = await host.call("slow", {}, **wish)
        assert done["structuredContent"] == {"server": "W", "task": None}
        assert (await host.error("tasks/get", {"taskId": "t1"}))["code"] == NO_METHOD


# -- what the protocol does not know


@feature("unknown methods", surfaces=("server",))
async def test_unknown_requests_and_notifications_pass(hosts: Hosts):
    async with hosts.at(use="vendor") as host:
        heard = await host.get("vendor/echo", {"a": [1], "_meta": {"vendor/x": 1}})
        assert heard["a"] == [1]
        assert heard["_meta"]["vendor/x"] == 1
        await host.wire.notify("notifications/vendor/ping", {"n": 7})
        (pong,) = await host.wire.notification("notifications/vendor/pong")
        assert pong["params"] == {"n": 7}
        assert await host.error("vendor/other") == {
            "code": NO_METHOD,
            "message": "Method not found",
            "data": {"method": "vendor/other"},
        }


@each_case([Case(*pair, surface) for pair in PAIRS for surface in SEVERAL])
async def test_several_servers_have_no_unknown_methods(hosts: Hosts):
    async with hosts.at() as host:
        await host.call("count", {})
        assert (await host.error("vendor/echo", {"a": 1}))["code"] == NO_METHOD
        await host.wire.notify("notifications/vendor/ping", {"n": 7})
        await host.call("count", {})
        assert host.wire.seen("notifications/vendor/pong") == []


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("client", ERAS)
async def test_an_unknown_question_reaches_a_handshake_client_of_one_server(
    client: Era, surface: Surface, tmp_path: Path
):
    entry = {"command": sys.executable, "args": ["-SE", str(PEERS / "vendor_server.py")]}
    async with hosting(Case(client, "handshake", surface), tmp_path, ABLE, {"s": entry}) as host:
        asked = {"method": "vendor/question", "params": {"a": 1}}
        outcome = await host.asking("ask", asked, lambda _: {"b": 2})
        heard = json.loads(text_of(outcome.result))
        if (client, surface) == ("handshake", "server"):
            assert [question["params"] for question in outcome.questions] == [{"a": 1}]
            assert heard == {"result": {"b": 2}, "error": None}
        else:
            assert (outcome.rounds, heard["error"]["code"]) == ([], NO_METHOD)
        pinged = await host.asking("ask", {"method": "ping"})
        assert (pinged.rounds, json.loads(text_of(pinged.result))["result"]) == ([], {})


# -- capabilities and pages


@feature("capabilities")
async def test_servers_see_what_the_client_declared(case: Case, hosts: Hosts):
    async def names(host: Host) -> list[str]:
        if host.case.surface == "default":
            return [tool["name"] for tool in (await host.wire.open("dev"))["tools"]]
        return [tool["name"] for tool in await host.listed("tools/list", "tools")]

    async with hosts.at() as host:
        assert "only_when_askable" not in await names(host)
        assert "echo" in await names(host)
        if case.is_modern:  # it declares with every request, and may declare something else
            host.wire.capabilities = ABLE
            assert "only_when_askable" in await names(host)
            assert text_of(await host.call("only_when_askable", {})) == "only_when_askable of W"
            host.wire.capabilities = {}
            assert "only_when_askable" not in await names(host)
    if not case.is_modern:
        async with hosts.at({"elicitation": {}}) as host:
            assert "only_when_askable" in await names(host)
            assert text_of(await host.call("only_when_askable", {})) == "only_when_askable of W"
            refused = json.dumps(await host.wire.request("tools/call", host.named("ask", {"kind": "sampling"})))
            assert "The client cannot be asked: sampling" in refused


LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


@feature("pages of lists", surfaces=("server",))
async def test_the_pages_of_one_server_are_its_own(hosts: Hosts):
    async with hosts.at() as host, hosts.alone() as server:
        for method in LISTS:
            first, own = await host.get(method), await server.get(method)
            assert first["nextCursor"] == own["nextCursor"]
            second, rest = [await one.get(method, {"cursor": own["nextCursor"]}) for one in (host, server)]
            assert [plain(page) for page in (first, second)] == [plain(page) for page in (own, rest)]
            assert first["x-unknown"]
            assert (await host.error(method, {"cursor": "no"}))["code"] == BAD_PARAMS


@feature("pages of lists", surfaces=SEVERAL)
async def test_lists_of_several_servers_have_one_page(hosts: Hosts):
    async with hosts.at() as host:
        for method in LISTS:
            assert "nextCursor" not in await host.get(method)
            assert (await host.error(method, {"cursor": "no"}))["code"] == BAD_PARAMS
