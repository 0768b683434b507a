"""What must be equal in a cell, and how a cell is read from a play."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.matrix import scenes
from tests.matrix.cells import BEHAVIOURS, CHANGE, LIST, Behaviour, Client, Server, Surface, reference
from tests.support.typescript import Play, handshake_part, is_json, without_execution

if TYPE_CHECKING:
    from tests.matrix.matrix import Group

Json = dict[str, Any]

MESSAGE = "notifications/message"
COMPLETE = "notifications/elicitation/complete"
ANSWERED = "Answered: "
DRAWN_ID = re.compile(r'("elicitationId": )"(?![^"]*-page)[^"]*"')
"""An id that was drawn at random, and not given by the server."""
ERRORS_AS_RESULTS: set[Surface] = {"meta", "dynamic"}
"""Where a server's refusal of a call is told as the result of a tool: the tool is the workbench's, or shown by it."""
OF_THE_TOOL = ("inputSchema", "outputSchema", "annotations")
"""Members of a definition that dynamic mode leaves as they are."""


def differences(group: Group, server: Server, through: Play, direct: Play) -> list[str]:
    """What a client got otherwise than directly, a line each."""
    client, surface, front = group
    ours = View(through, surface, server, scenes.scene_name(client, surface, front))
    other, itself = reference(client, server)
    theirs = View(direct, "direct", itself, f"{other}-direct")
    found: list[str] = []
    for label in BEHAVIOURS:
        found += [f"{label}: {line}" for line in behaviour_differences(group, server, label, ours, theirs)]
    found += [f"{LIST}: {line}" for line in list_differences(surface, ours, theirs)]
    found += [f"{CHANGE}: {line}" for line in change_differences(surface, ours, theirs)]
    return found + [f"foreign: {line}" for line in ours.foreign()]


class View:
    """A play, as far as it is about one server."""

    def __init__(self, play: Play, surface: Surface, server: Server, scene: str) -> None:
        self._play = play
        self._surface: Surface = surface
        self._server = server
        self._scene = scene
        self._mark = scenes.mark(scene, server)

    def outcome(self, label: str) -> Json:
        """The result or the error of a step, without the fields that only one era has, and its progress."""
        outcome = self._play[f"{self._server} {label}"]
        result, error = outcome.get("result"), outcome.get("error")
        told = {name: error.get(name) for name in ("code", "message", "data")} if error else None
        read = {"result": _with_answer(handshake_part(result)), "error": told, "progress": outcome["progress"]}
        return self.masked(read)

    def said(self, tool: str) -> list[Json]:
        """All that was asked and told in the course of a call."""
        report = self._play.report
        about = f"{self._mark}{tool}"
        heard = [one for one in report["notifications"] if one["method"] in (MESSAGE, COMPLETE)]
        return self.masked([_as_asked(one) for one in [*report["questions"], *heard] if _mentions(one, about)])

    def foreign(self) -> list[str]:
        """What was told to this client though it belongs to another."""
        logs = [one for one in self._play.report["notifications"] if one["method"] == MESSAGE]
        return [json.dumps(one) for one in logs if f"<{self._scene}/" not in json.dumps(one)]

    def definitions(self, label: str) -> dict[str, Json] | str:
        """The tools of the server by their own names, without those that were added; or why there are none."""
        outcome = self._play[f"{self._server} {label}"]
        if "result" not in outcome:
            return json.dumps(outcome.get("error"))
        if self._surface == "meta":
            tools = scenes.opened_tools(outcome)
        else:
            tools = without_execution(outcome["result"])["tools"]
        prefix = f"{self._server}__{scenes.SERVER}__" if self._surface == "dynamic" else ""
        own = [tool | {"name": tool["name"].removeprefix(prefix)} for tool in tools if tool["name"].startswith(prefix)]
        return {tool["name"]: tool for tool in own}

    def has_added(self) -> bool:
        listed = self.definitions(f"{CHANGE}: listed")
        return not isinstance(listed, str) and scenes.added_tool(self._scene, self._server) in listed

    def was_told(self) -> bool:
        return "error" not in self._play[f"{self._server} {CHANGE}: told"]

    def masked(self, value: Any) -> Any:
        """Without what tells the scene, and without ids that were drawn."""
        text = json.dumps(value, sort_keys=True).replace(self._mark, "")
        text = text.replace(scenes.added_tool(self._scene, self._server), "<added>")
        return json.loads(DRAWN_ID.sub(r'\1"<drawn>"', text))


def _with_answer(result: Any) -> Any:
    """A result that tells of an answer, with the answer as a value: the members of an object have no order."""
    content = result.get("content") if is_json(result) else None
    if not content or not str(content[0].get("text", "")).startswith(ANSWERED):
        return result
    answer = json.loads(content[0]["text"].removeprefix(ANSWERED))
    return result | {"content": [{"type": "text", "text": ANSWERED, "answer": answer}]}


def _as_asked(message: Json) -> Json:
    """A question without its progress token, and without the mode that it has where it names none."""
    params = {name: value for name, value in message.get("params", {}).items() if name != "_meta"}
    return message | {"params": {name: value for name, value in params.items() if (name, value) != ("mode", "form")}}


def _mentions(message: Json, about: str) -> bool:
    """Whether it is about this call: the name of one tool may begin with another's."""
    return re.search(re.escape(json.dumps(about)[1:-1]) + r"(?![a-z_])", json.dumps(message)) is not None


# -- calls


def behaviour_differences(group: Group, server: Server, label: str, ours: View, theirs: View) -> list[str]:
    behaviour = BEHAVIOURS[label]
    through, direct = ours.outcome(label), theirs.outcome(label)
    if stated := expected(group.client, server, label):
        return stated(through, ours.said(behaviour.tool))
    if may_do_better(behaviour, direct) and is_answered(through):
        return []
    lines = outcome_differences(group.surface, through, direct)
    asked, expected_ = ours.said(behaviour.tool), theirs.said(behaviour.tool)
    if asked != expected_:
        lines.append(f"said {json.dumps(asked)} instead of {json.dumps(expected_)}")
    return lines


def outcome_differences(surface: Surface, through: Json, direct: Json) -> list[str]:
    if surface in ERRORS_AS_RESULTS and direct["error"] and through["result"]:
        message = direct["error"]["message"].removeprefix(f"MCP error {direct['error']['code']}: ")
        text = json.dumps(through["result"])
        told = through["result"].get("isError") and json.dumps(message)[1:-1] in text
        return [] if told else [f"{text} does not tell of {message}"]
    return [f"{json.dumps(through)} instead of {json.dumps(direct)}"] if through != direct else []


def may_do_better(behaviour: Behaviour, direct: Json) -> bool:
    """A question that an SDK can't ask in an era may reach the client nevertheless."""
    return behaviour.style != "any" and not is_answered(direct)


def is_answered(outcome: Json) -> bool:
    result = outcome["result"]
    return bool(result) and not result.get("isError") and "Answered" in json.dumps(result)


Stated = Callable[[Json, list[Json]], list[str]]


def expected(client: Client, server: Server, label: str) -> Stated | None:
    """What is expected where nothing direct tells, or where it is told in other words."""
    behaviour = BEHAVIOURS[label]
    if behaviour.asks and not client.able:
        return is_refused
    if server.era == "modern" and not client.is_modern:
        if behaviour.style == "push" or label == "url by an error":
            return is_refused
        if label == "log":
            return logs_nothing_unasked
    if label == "url by an error" and client.is_modern and server.era == "handshake" and client.able:
        return is_sent_to_the_page
    return None


def is_refused(through: Json, said: list[Json]) -> list[str]:
    """The call fails, in words that may differ: the protocol does not let the server ask.

    It must not ask a client what that did not declare; and in the modern era it can't ask in the middle of a call,
    which a server that has no other era does not do for any client.
    """
    failed = through["error"] or (through["result"] or {}).get("isError")
    return [] if failed and not said else [f"{json.dumps(through)} after {json.dumps(said)}"]


def logs_nothing_unasked(through: Json, said: list[Json]) -> list[str]:
    """In the modern era a server logs what the request asks for, and a client of the handshake era asks by a level."""
    silent = "Logged" in json.dumps(through["result"]) and not said
    return [] if silent else [f"{json.dumps(through)} after {json.dumps(said)}"]


def is_sent_to_the_page(through: Json, said: list[Json]) -> list[str]:
    """The error -32042 of a handshake server becomes a question, and the call goes on when it is answered."""
    asked = [one["params"].get("url") for one in said if one["method"] == "elicitation/create"]
    if asked and "Visited" in json.dumps(through["result"]):
        return []
    return [f"{json.dumps(through)} after {json.dumps(said)}"]


# -- lists


def list_differences(surface: Surface, ours: View, theirs: View) -> list[str]:
    through, direct = ours.definitions(LIST), theirs.definitions(LIST)
    if isinstance(direct, str):
        return [f"the server itself: {direct}"]
    if isinstance(through, str):
        return [f"refused: {through}"]
    through, direct = own_tools(through), own_tools(direct)
    lines = [f"{name} is missing" for name in direct.keys() - through.keys()]
    lines += [f"{name} is too many" for name in through.keys() - direct.keys()]
    for name in direct.keys() & through.keys():
        members = OF_THE_TOOL if surface == "dynamic" else direct[name].keys()
        for member in members:
            if through[name].get(member) != direct[name].get(member):
                lines.append(f"{name}.{member}: {through[name].get(member)} instead of {direct[name].get(member)}")
    return lines


def own_tools(definitions: dict[str, Json]) -> dict[str, Json]:
    """Those that the server had from its start: scenes that are played at the same time add others."""
    return {name: tool for name, tool in definitions.items() if not name.startswith("added-")}


def change_differences(surface: Surface, ours: View, theirs: View) -> list[str]:
    lines: list[str] = []
    called = f"{CHANGE}: called"
    if (through := ours.outcome(called)) != (direct := theirs.outcome(called)):
        lines.append(f"called: {json.dumps(through)} instead of {json.dumps(direct)}")
    if theirs.has_added() and not ours.has_added():
        lines.append("what was added is not listed")
    if surface != "meta" and theirs.was_told() and not ours.was_told():
        lines.append("the change was not told")
    return lines


# -- definitions that clients refuse


def refused_definitions(group: Group, server: Server, through: Play) -> list[str]:
    """The list is taken, the sound tools are in it and can be called.

    The transparent surface passes a server's list as it is, so a client may refuse it there as it does directly.
    """
    client, surface, front = group
    view = View(through, surface, server, scenes.scene_name(client, surface, front))
    listed = view.definitions(LIST)
    if isinstance(listed, str):
        return [] if surface == "server" else [f"refused: {listed}"]
    lines = [f"{name} is missing" for name in ("sound", "sound_too", "no_schema", "empty_schema") if name not in listed]
    lines += [f"{name}: {tool}" for name, tool in listed.items() if not is_sound(tool)]
    for name in ("sound", "sound_too"):
        result = view.outcome(name)["result"]
        if not is_json(result) or name not in json.dumps(result.get("content")):
            lines.append(f"{name} answered {json.dumps(result)}")
    return lines


def is_sound(tool: Json) -> bool:
    schema = tool.get("inputSchema")
    title = tool.get("annotations", {}).get("title", "")
    return is_json(schema) and schema.get("type") == "object" and isinstance(title, str)
