"""The official TypeScript clients: the same script against a server itself and through the workbench."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.support.configs import write_config
from tests.support.reference import client_driver, everything, filesystem, memory
from tests.support.typescript import (
    Play,
    Player,
    Scene,
    handshake_part,
    is_json,
    masked,
    play,
    play_all,
    play_of,
    without_execution,
    workbench_environment,
)
from tests.support.wire import use_params

Json = dict[str, Any]
Surface = Literal["direct", "server", "toolbox", "default"]

TOOLBOX, SERVER = "all", "everything"
OLD, SECOND, NEW = Player("ts1"), Player("ts2"), Player("ts2", "auto")
PINNED = Player("ts2", "modern")
HANDSHAKE = [OLD, SECOND]
PLAYERS = [OLD, SECOND, NEW]
SURFACES: list[Surface] = ["server", "toolbox", "default"]
MODERN_VERSION = "2026-07-28"
LOG_LEVEL = "io.modelcontextprotocol/logLevel"

WATCHED, UNWATCHED = "demo://resource/dynamic/text/7", "demo://resource/dynamic/text/8"
DOCUMENTS = ["architecture", "extension", "features", "how-it-works", "instructions", "startup", "structure"]
PACKED = {"name": "packed.gz", "data": "data:text/plain,to%20be%20packed"}
PAGE = "https://example.org/consent"

TELLABLE: Json = {
    "capabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {"listChanged": True}},
    "answers": {
        "roots/list": {"roots": [{"uri": "file:///work/a", "name": "A"}, {"uri": "file:///work/b"}]},
        "sampling/createMessage": {
            "role": "assistant",
            "model": "canned",
            "content": {"type": "text", "text": "A canned answer"},
            "stopReason": "endTurn",
        },
        "elicitation/create": [
            {"action": "accept", "content": {"name": "Ada", "check": True, "integer": 7, "number": 2.5}},
            {"action": "decline"},
            {"action": "accept"},
            {"action": "cancel"},
        ],
    },
}
"""A client that can be asked, and what it answers, in the order of the questions below."""


# -- the script


def call(tool: str, arguments: Json | None = None, **more: Any) -> Json:
    return {"do": "callTool", "params": {"name": tool, "arguments": arguments or {}}, **more}


def read(uri: str) -> Json:
    return {"do": "readResource", "params": {"uri": uri}}


def prompt(name: str, /, **arguments: str) -> Json:
    return {"do": "getPrompt", "params": {"name": name, **({"arguments": arguments} if arguments else {})}}


def complete(ref: Json, name: str, value: str, /, **context: str) -> Json:
    known = {"context": {"arguments": context}} if context else {}
    return {"do": "complete", "params": {"ref": ref, "argument": {"name": name, "value": value}, **known}}


def wait(method: str, **match: Any) -> Json:
    return {"do": "wait", "method": f"notifications/{method}", "match": match}


LISTS: dict[str, Json] = {
    "tools": {"do": "listTools"},
    "resources": {"do": "listResources"},
    "templates": {"do": "listResourceTemplates"},
    "prompts": {"do": "listPrompts"},
}

PLAIN_TOOLS: dict[str, Json] = {
    "echo": call("echo", {"message": "héllo ✓"}),
    "echo without its argument": call("echo"),
    "get-annotated-message": call("get-annotated-message", {"messageType": "success", "includeImage": True}),
    "get-env": call("get-env"),
    "get-resource-links": call("get-resource-links", {"count": 4}),
    "get-resource-reference text": call("get-resource-reference", {"resourceType": "Text", "resourceId": 3}),
    "get-resource-reference blob": call("get-resource-reference", {"resourceType": "Blob", "resourceId": 4}),
    "get-structured-content": call("get-structured-content", {"location": "New York"}),
    "get-sum": call("get-sum", {"a": 1.5, "b": -4}),
    "get-sum of no number": call("get-sum", {"a": "one", "b": 2}),
    "get-tiny-image": call("get-tiny-image"),
    "gzip-file-as-resource whole": call("gzip-file-as-resource", {**PACKED, "outputType": "resource"}),
    "simulate-research-query": {
        # The first client refuses to call a tool that wants a task, so the request is sent as it is.
        "do": "request",
        "method": "tools/call",
        "params": {"name": "simulate-research-query", "arguments": {"topic": "gateways"}},
    },
    "trigger-long-running-operation": call(
        "trigger-long-running-operation", {"duration": 0.2, "steps": 4}, progress=True
    ),
}

ASKING_TOOLS: dict[str, Json] = {
    # The server asks for the roots when they are needed, or 350 ms after its start, in whatever call is open then:
    # so this is played first of all.
    "get-roots-list": call("get-roots-list"),
    "trigger-elicitation-request accepted": call("trigger-elicitation-request"),
    "trigger-elicitation-request declined": call("trigger-elicitation-request"),
    "trigger-url-elicitation accepted": call("trigger-url-elicitation", {"url": PAGE, "elicitationId": "one"}),
    "trigger-url-elicitation cancelled": call("trigger-url-elicitation", {"url": PAGE, "elicitationId": "two"}),
    "trigger-sampling-request": call("trigger-sampling-request", {"prompt": "Say it", "maxTokens": 20}),
}

RESOURCES: dict[str, Json] = {
    **{f"document {name}": read(f"demo://resource/static/document/{name}.md") for name in DOCUMENTS},
    "dynamic text": read("demo://resource/dynamic/text/1"),
    "dynamic blob": read("demo://resource/dynamic/blob/2"),
    "gzip-file-as-resource link": call("gzip-file-as-resource", PACKED),
    "session resource": read("demo://resource/session/packed.gz"),
}

BY_PROMPT = {"type": "ref/prompt", "name": "completable-prompt"}
BY_TEMPLATE = {"type": "ref/resource", "uri": "demo://resource/dynamic/text/{resourceId}"}

PROMPTS: dict[str, Json] = {
    "simple-prompt": prompt("simple-prompt"),
    "args-prompt": prompt("args-prompt", city="Graz", state="Styria"),
    "args-prompt with one": prompt("args-prompt", city="Graz"),
    "args-prompt without": prompt("args-prompt"),
    "completable-prompt": prompt("completable-prompt", department="Sales", name="Eve"),
    "resource-prompt": prompt("resource-prompt", resourceType="Text", resourceId="5"),
    "resource-prompt blob": prompt("resource-prompt", resourceType="Blob", resourceId="6"),
    "complete a first argument": complete(BY_PROMPT, "department", "S"),
    "complete by another argument": complete(BY_PROMPT, "name", "", department="Marketing"),
    "complete a template": complete(BY_TEMPLATE, "resourceId", "12"),
}

ERRORS: dict[str, Json] = {
    "unknown resource": read("demo://resource/nowhere"),
    "unknown prompt": prompt("no-such-prompt"),
}

ERROR_PATH: dict[str, Json] = {
    "trigger-url-elicitation as an error": call(
        "trigger-url-elicitation", {"url": PAGE, "elicitationId": "three", "errorPath": True}
    )
}

CANCELLED: dict[str, Json] = {
    "cancelled": call("trigger-long-running-operation", {"duration": 1, "steps": 20}, abort=2),
    # The server goes on after it was told not to: time for what it says to come through.
    "after the cancelled": call("trigger-long-running-operation", {"duration": 0.3, "steps": 1}),
}

HANDSHAKE_ONLY: dict[str, Json] = {
    "ping": {"do": "ping"},
    "log everything": {"do": "setLoggingLevel", "params": "debug"},
    "toggle-simulated-logging on": call("toggle-simulated-logging"),
    "a log message": wait("message"),
    "toggle-simulated-logging off": call("toggle-simulated-logging"),
    "subscribe": {"do": "subscribeResource", "params": {"uri": WATCHED}},
    "a log of it": wait("message", data=f"Received Subscribe Resource request for URI: {WATCHED} "),
    "toggle-subscriber-updates on": call("toggle-subscriber-updates"),
    "an update": wait("resources/updated", uri=WATCHED),
    "toggle-subscriber-updates off": call("toggle-subscriber-updates"),
    "unsubscribe": {"do": "unsubscribeResource", "params": {"uri": WATCHED}},
    "log nothing": {"do": "setLoggingLevel", "params": "emergency"},
    "subscribe unlogged": {"do": "subscribeResource", "params": {"uri": UNWATCHED}},
    "a change of the list": wait("resources/list_changed"),
}

ROOTS_CHANGED: dict[str, Json] = {
    "roots changed": {"do": "sendRootsListChanged"},
    "a log of the roots": wait("message", data="Roots updated: 2 root(s) received from client"),
}

MODERN_ONLY: dict[str, Json] = {
    "listen": {"do": "listen", "params": {"resourcesListChanged": True, "resourceSubscriptions": [WATCHED]}},
    "toggle-simulated-logging on": {
        "do": "callTool",
        "params": {"name": "toggle-simulated-logging", "arguments": {}, "_meta": {LOG_LEVEL: "debug"}},
    },
    "a log message": wait("message"),
    "toggle-simulated-logging off": call("toggle-simulated-logging"),
    "toggle-subscriber-updates on": call("toggle-subscriber-updates"),
    "an update": wait("resources/updated", uri=WATCHED),
    "toggle-subscriber-updates off": call("toggle-subscriber-updates"),
}

COMPARED = ASKING_TOOLS | LISTS | PLAIN_TOOLS | RESOURCES | PROMPTS | ERRORS
"""Every tool, resource and prompt of the server, in both eras. Those left are in the scripts of an era."""


def script_of(player: Player) -> dict[str, Json]:
    """All that a client of this era can do with the server."""
    if player.mode == "legacy":
        return COMPARED | ERROR_PATH | HANDSHAKE_ONLY | ROOTS_CHANGED | CANCELLED
    return MODERN_ONLY | COMPARED | CANCELLED


def as_meta(step: Json) -> Json:
    """The step as the default surface wants it: tools are behind `use_tool`, prompts have joined names."""
    params: Any = step.get("params")
    if not is_json(params):
        return step
    if step["do"] == "callTool" or step.get("method") == "tools/call":
        wrapped = use_params(TOOLBOX, SERVER, params["name"], params["arguments"])
        return step | {"params": params | {"name": "use_tool", "arguments": wrapped}}
    if step["do"] == "getPrompt":
        return step | {"params": params | {"name": joined(params["name"])}}
    if params.get("ref", {}).get("type") == "ref/prompt":
        return step | {"params": params | {"ref": params["ref"] | {"name": joined(params["ref"]["name"])}}}
    return step


def joined(name: str) -> str:
    return f"{TOOLBOX}__{SERVER}__{name}"


# -- playing it


Key = tuple[Surface, Player, bool]
Group = tuple[Surface, str]

PLAYS: list[Key] = [
    *((surface, player, True) for surface in ("direct", *SURFACES) for player in PLAYERS),
    *((surface, player, False) for surface in ("direct", *SURFACES) for player in PLAYERS),
    ("server", PINNED, False),
]
PLAYS.remove(("direct", NEW, True))  # with the server itself it falls back to the handshake, as `SECOND` does


def group_of(key: Key) -> Group:
    return key[0], key[1].driver


class Stage:
    """Plays each script once per surface, client and capabilities, two groups at a time: that asked for and the next.

    A group is what one process of a client plays on one surface.
    """

    def __init__(self, folder: Path, pool: ThreadPoolExecutor) -> None:
        self.folder = folder
        self.entry = everything()
        self._pool = pool
        self._running: dict[Group, Future[dict[Key, Play | str]]] = {}

    def play(self, surface: Surface, player: Player, *, tellable: bool = True) -> Play:
        key = (surface, player, tellable)
        if group_of(key) not in self._running:
            following = next(
                (group_of(one) for one in PLAYS if group_of(one) not in {*self._running, group_of(key)}), None
            )
            for group in (group_of(key), following):
                if group is not None:
                    self._running[group] = self._pool.submit(self._play_group, group)
        return play_of(self._running[group_of(key)].result()[key])

    def _play_group(self, group: Group) -> dict[Key, Play | str]:
        folder = make(self.folder / "-".join(group))
        keys = [key for key in PLAYS if group_of(key) == group]
        return dict(zip(keys, play_all([self._scene(folder, *key) for key in keys], folder), strict=True))

    def _scene(self, folder: Path, surface: Surface, player: Player, tellable: bool) -> Scene:  # noqa: FBT001 -- a key, spread
        steps = script_of(player) if tellable else {"tools": LISTS["tools"]}
        script = TELLABLE if tellable else {}
        if surface == "direct":
            return Scene(player, [self.entry["command"], *self.entry["args"]], steps, self.entry["env"], script)
        if surface == "default":
            steps = {"open": call("open_toolbox", {"toolbox": TOOLBOX})} | {
                label: as_meta(step) for label, step in steps.items()
            }
        own = make(folder / f"{player}-{tellable}")
        config = write_config(own, {TOOLBOX: {SERVER: self.entry}})
        return Scene(player, workbench(config, surface), steps, workbench_environment(own), script)


def workbench(config: Path, surface: Surface, toolbox: str = TOOLBOX) -> list[str]:
    chosen = {"default": [], "toolbox": ["--toolbox", toolbox], "server": ["--toolbox", toolbox, "--server", SERVER]}
    return [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config), *chosen[surface]]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    for driver in ("ts1", "ts2"):
        client_driver(driver)
    with ThreadPoolExecutor(2) as pool:
        yield Stage(tmp_path_factory.mktemp("typescript"), pool)


# -- comparing


def assert_same(through: Json, itself: Json, player: Player) -> None:
    """The same outcome of a step: what the client returned, and the last answer on the wire, field by field."""
    if player.mode == "legacy":
        assert seen(through) == seen(itself)
    else:
        expected = seen(itself)
        assert seen(through, part=handshake_part) == expected | {"result": without_execution(expected["result"])}


def seen(outcome: Json, part: Callable[[Any], Any] = lambda answer: answer) -> Json:
    """What is compared of a step."""
    last: Json = outcome["wire"][-1] if outcome["wire"] else {}
    view = {"result": outcome.get("result"), "error": outcome.get("error"), "progress": outcome["progress"]}
    view |= {"answer": last.get("result"), "refusal": last.get("error")}
    return masked({name: part(value) for name, value in view.items()})


def each(players: list[Player]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("player", players, ids=str)


def same_client_direct(stage: Stage, player: Player) -> Play:
    """The server itself is of the handshake era, so that is what every client speaks with it."""
    return stage.play("direct", Player(player.driver))


# -- the server itself, so that a comparison compares something


@each(PLAYERS)
def test_every_client_falls_back_to_the_handshake_with_the_server_itself(stage: Stage, player: Player):
    report = stage.play("direct", player, tellable=False).report
    assert report["greeting"]["protocolVersion"] == "2025-11-25"
    assert report["connecting"] == ["initialize", "notifications/initialized"]


@each(HANDSHAKE)
def test_the_script_has_every_tool_resource_and_prompt_of_the_server(stage: Stage, player: Player):
    itself = stage.play("direct", player)
    used = [step["params"] for step in script_of(player).values() if isinstance(step.get("params"), dict)]
    names = {params.get("name") for params in used}
    tools = {tool["name"] for tool in itself.result("tools")["tools"]}
    assert len(tools) == 17
    assert tools <= names
    assert {one["name"] for one in itself.result("prompts")["prompts"]} <= names
    uris = {params.get("uri") for params in used}
    assert {one["uri"] for one in itself.result("resources")["resources"]} <= uris
    for template in itself.result("templates")["resourceTemplates"]:
        assert any(str(uri).startswith(template["uriTemplate"].partition("{")[0]) for uri in uris)


@each(HANDSHAKE)
def test_the_server_itself_answers_as_the_comparison_needs_it(stage: Stage, player: Player):
    itself = stage.play("direct", player)
    failed = {label for label in itself.labels if "error" in itself[label]}
    errors = {"args-prompt without", "unknown resource", "unknown prompt", "trigger-url-elicitation as an error"}
    assert failed == errors | {"cancelled"}
    assert len(itself.asked("elicitation/create")) == 4
    assert len(itself.asked("sampling/createMessage")) == 1
    assert itself.asked("roots/list")


# -- one server transparently


@each(PLAYERS)
@pytest.mark.parametrize("label", COMPARED)
def test_a_transparent_server_answers_as_the_server_itself(stage: Stage, player: Player, label: str):
    itself = same_client_direct(stage, player)
    through = stage.play("server", player)
    assert_same(through[label], itself[label], player)


@each(HANDSHAKE)
@pytest.mark.parametrize("label", [*ERROR_PATH, *HANDSHAKE_ONLY, *ROOTS_CHANGED])
def test_a_transparent_server_does_what_only_the_handshake_era_has(stage: Stage, player: Player, label: str):
    assert_same(stage.play("server", player)[label], stage.play("direct", player)[label], player)


@pytest.mark.parametrize("label", list(MODERN_ONLY)[1:])
def test_a_transparent_server_logs_and_notifies_in_the_modern_era(stage: Stage, label: str):
    itself = stage.play("direct", SECOND)
    assert_same(stage.play("server", NEW)[label], itself[label], NEW)


@each([OLD, SECOND, NEW, PINNED])
def test_a_transparent_server_is_greeted_in_the_era_of_the_client(stage: Stage, player: Player):
    report = stage.play("server", player, tellable=False).report
    modern = player.mode != "legacy"
    assert report["greeting"]["protocolVersion"] == (MODERN_VERSION if modern else "2025-11-25")
    assert report["connecting"] == ([] if modern else ["initialize", "notifications/initialized"])
    assert report["problems"] == []
    offered = report["greeting"]["capabilities"]
    assert {"tools", "resources", "prompts", "completions"} <= offered.keys()
    assert offered["resources"].get("subscribe") is True


@each(PLAYERS)
@pytest.mark.parametrize("surface", ["server", "toolbox"])
@pytest.mark.parametrize(("tellable", "count"), [(True, 17), (False, 13)], ids=["askable", "not askable"])
def test_the_capabilities_of_the_client_decide_what_the_server_lists(
    stage: Stage, player: Player, surface: Surface, *, tellable: bool, count: int
):
    itself = stage.play("direct", Player(player.driver), tellable=tellable).result("tools")["tools"]
    through = stage.play(surface, player, tellable=tellable).result("tools")["tools"]
    assert len(itself) == len(through) == count
    assert [tool["name"] for tool in through] == [tool["name"] for tool in itself]


@each(PLAYERS)
@pytest.mark.parametrize("tellable", [True, False], ids=["askable", "not askable"])
def test_the_capabilities_of_the_client_decide_what_a_toolbox_shows(stage: Stage, player: Player, *, tellable: bool):
    itself = stage.play("direct", Player(player.driver), tellable=tellable).result("tools")["tools"]
    opened = json.loads(stage.play("default", player, tellable=tellable).result("open")["content"][0]["text"])
    assert [tool["name"] for tool in opened["tools"]] == [tool["name"] for tool in itself]


# -- what a server asks and says, on every surface


@each(PLAYERS)
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("method", ["elicitation/create", "sampling/createMessage"])
def test_a_question_reaches_the_client_as_the_server_asked_it(
    stage: Stage, player: Player, surface: Surface, method: str
):
    assert stage.play(surface, player).asked(method) == same_client_direct(stage, player).asked(method)


@each(PLAYERS)
@pytest.mark.parametrize("surface", SURFACES)
def test_the_roots_are_asked_for(stage: Stage, player: Player, surface: Surface):
    # How often is a matter of time: the server asks a while after its start, or when the roots are needed before that.
    asked = stage.play(surface, player).asked("roots/list")
    assert asked
    assert all(params in ({}, *same_client_direct(stage, player).asked("roots/list")) for params in asked)


LOGGED = {
    level: f"{level.capitalize()}-level message"
    for level in ("debug", "info", "notice", "warning", "error", "critical", "emergency")
} | {"alert": "Alert level-message"}


@each(PLAYERS)
@pytest.mark.parametrize("surface", ["direct", *SURFACES])
def test_a_log_message_arrives_as_the_server_sent_it(stage: Stage, player: Player, surface: Surface):
    # The server draws the level at random, so the message is compared with what stands in its source.
    if surface == "direct":
        player = Player(player.driver)
    messages = stage.play(surface, player).notified("notifications/message")
    drawn = [message for message in messages if message.get("data") == LOGGED.get(message["level"])]
    assert drawn
    assert {frozenset(message) for message in drawn} == {frozenset({"level", "data"})}


@each(HANDSHAKE)
@pytest.mark.parametrize("surface", ["direct", *SURFACES])
def test_the_level_of_the_log_is_the_one_that_the_client_set(stage: Stage, player: Player, surface: Surface):
    said = [str(message.get("data")) for message in stage.play(surface, player).notified("notifications/message")]
    assert any(text.startswith("Received Subscribe") and WATCHED in text for text in said)
    assert not any(UNWATCHED in text for text in said)


@each(PLAYERS)
@pytest.mark.parametrize("surface", SURFACES)
def test_an_update_of_a_resource_reaches_its_subscriber_only_for_what_it_watches(
    stage: Stage, player: Player, surface: Surface
):
    updates = stage.play(surface, player).notified("notifications/resources/updated")
    assert {update["uri"] for update in updates} == {WATCHED}


@each(PLAYERS)
@pytest.mark.parametrize("surface", SURFACES)
def test_a_cancelled_call_is_never_answered_and_the_client_finds_no_fault(
    stage: Stage, player: Player, surface: Surface
):
    played = stage.play(surface, player)
    assert [one for one in played.report["unanswered"] if one["method"] == "tools/call"] == [{"method": "tools/call"}]
    progress = [one["progress"] for one in played["cancelled"]["progress"]]
    assert progress in ([1, 2], [1, 2, 3])
    assert "result" in played["after the cancelled"]
    # Both clients find fault with news of progress that arrive together with the answer, or cross the cancellation.
    problems = [problem["message"] for problem in played.report["problems"]]
    assert not [text for text in problems if not text.startswith("Received a progress notification for an unknown")]


@each(PLAYERS)
@pytest.mark.parametrize("surface", SURFACES)
def test_the_workbench_ends_by_itself_when_the_client_hangs_up(stage: Stage, player: Player, surface: Surface):
    # After 2 s the client would end it with a signal.
    assert stage.play(surface, player).report["closing_ms"] < 2000


# -- a call as a task, which only the first client and one tool of the server have


TASK: dict[str, Json] = {
    "tools": LISTS["tools"],
    "task": {
        "do": "callToolTask",
        "params": {"name": "simulate-research-query", "arguments": {"topic": "python", "ambiguous": True}},
    },
}
ASKED_IN_A_TASK: Json = {
    "capabilities": {"elicitation": {"form": {}}},
    "answers": {"elicitation/create": {"action": "accept", "content": {"interpretation": "snake"}}},
}


def test_a_call_as_a_task_runs_asks_and_ends_as_with_the_server_itself(stage: Stage, tmp_path: Path):
    config = write_config(tmp_path, {TOOLBOX: {SERVER: stage.entry}})
    direct = [stage.entry["command"], *stage.entry["args"]]
    scenes = (
        Scene(OLD, direct, TASK, stage.entry["env"], ASKED_IN_A_TASK),
        Scene(OLD, workbench(config, "server"), TASK, workbench_environment(tmp_path), ASKED_IN_A_TASK),
    )
    with ThreadPoolExecutor() as pool:  # The server takes 4 s for it.
        itself, through = pool.map(play, scenes, (make(tmp_path / "direct"), make(tmp_path / "through")))
    assert course(through) == course(itself)
    assert "Research Report: python (snake)" in course(itself)["result"]["content"][0]["text"]
    assert through.report["problems"] == []


def course(played: Play) -> Json:
    """How a task went, without its id and dates, and without how often the client looked at it."""
    stages = played.result("task")["stages"]
    statuses = played.notified("notifications/tasks/status")
    return {
        "created": undated(stages[0]),
        "result": undated(stages[-1]["result"]),
        "statuses": undated(statuses),
        "ids": len({status["taskId"] for status in [*statuses, stages[0]["task"]]}),
        "asked": undated(played.asked("elicitation/create")),
    }


def undated(value: Any) -> Any:
    text = re.sub(r"\b[0-9a-f]{32}\b", "<task>", json.dumps(value))
    return json.loads(re.sub(r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "<date>", text))


# -- a toolbox natively, and the two tools


ONE_NAME_EACH = {label: step for label, step in COMPARED.items() if label not in {"prompts", *PROMPTS, *ERRORS}}


@each(PLAYERS)
@pytest.mark.parametrize("label", ONE_NAME_EACH)
def test_a_toolbox_with_one_server_answers_as_the_server_itself(stage: Stage, player: Player, label: str):
    itself = same_client_direct(stage, player)
    through = stage.play("toolbox", player)
    assert_same(through[label], itself[label], player)


@each(PLAYERS)
@pytest.mark.parametrize("label", PLAIN_TOOLS | ASKING_TOOLS | RESOURCES | PROMPTS)
def test_the_two_tools_answer_as_the_server_itself(stage: Stage, player: Player, label: str):
    itself = same_client_direct(stage, player)
    through = stage.play("default", player)
    assert_same(through[label], itself[label], player)


@each(PLAYERS)
def test_the_default_surface_lists_two_tools_the_resources_and_prompts_by_joined_names(stage: Stage, player: Player):
    itself = same_client_direct(stage, player)
    through = stage.play("default", player)
    assert [tool["name"] for tool in through.result("tools")["tools"]] == ["open_toolbox", "use_tool"]
    assert through.result("resources")["resources"] == itself.result("resources")["resources"]
    assert through.result("templates")["resourceTemplates"] == itself.result("templates")["resourceTemplates"]
    names = [one["name"] for one in itself.result("prompts")["prompts"]]
    assert [one["name"] for one in through.result("prompts")["prompts"]] == [joined(name) for name in names]


@each(PLAYERS)
@pytest.mark.parametrize("label", ERRORS)
def test_the_default_surface_refuses_with_an_error_what_is_not_there(stage: Stage, player: Player, label: str):
    refused = stage.play("default", player)[label]["error"]["code"]
    assert refused in ({-32602} if player.mode != "legacy" else {-32602, -32002})


# -- other servers, side by side


@each([OLD, NEW])
def test_the_tools_of_two_servers_of_a_toolbox_are_listed_and_used_natively(tmp_path: Path, player: Player):
    files = (tmp_path / "files").resolve()
    files.mkdir()
    (files / "hello.txt").write_text("héllo\n", encoding="utf-8")
    servers = {"memory": memory(tmp_path), "filesystem": filesystem(files)}
    entity = {"name": "workbench", "entityType": "program", "observations": ["it is tested"]}
    steps = {
        "create": call("create_entities", {"entities": [entity]}),
        "graph": call("read_graph"),
        "read": call("read_text_file", {"path": str(files / "hello.txt")}),
        "missing": call("read_text_file", {"path": str(files / "missing.txt")}),
    }
    config = write_config(tmp_path, {"mind": servers})
    toolbox = workbench(config, "toolbox", "mind")
    scenes = [Scene(player, toolbox, LISTS | steps, workbench_environment(tmp_path))]
    labels = {"filesystem": ["read", "missing"], "memory": ["create", "graph"]}
    for server, chosen in labels.items():
        entry = servers[server]
        own = {"tools": LISTS["tools"]} | {label: steps[label] for label in chosen}
        env = entry["env"] | ({"MEMORY_FILE_PATH": str(tmp_path / "another.json")} if server == "memory" else {})
        scenes.append(Scene(Player(player.driver), [entry["command"], *entry["args"]], own, env))
    through, *alone = [play_of(played) for played in play_all(scenes, tmp_path)]
    itself = dict(zip(labels, alone, strict=True))
    for server, chosen in labels.items():
        for label in chosen:
            assert_same(through[label], itself[server][label], player)
    expected = [tool["name"] for server in servers for tool in itself[server].result("tools")["tools"]]
    assert [tool["name"] for tool in through.result("tools")["tools"]] == expected


def make(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_the_disposable_first_start_of_the_second_client_does_no_harm(stage: Stage):
    # It asks one process for `server/discover`, ends that with a signal, and starts another for the session.
    report = stage.play("default", NEW).report
    assert report["connecting"] == []
    assert report["greeting"]["protocolVersion"] == MODERN_VERSION
