"""An MCP server on stdio that does everything in the protocol, in either era. Standard library only.

    whole_server.py ERA [NAME]

ERA is `handshake` or `modern`; NAME stands in its texts, so that two of them can be told apart.

A handler returns its result, or is a generator that yields questions and is sent their answers. In the handshake
era a question is a request to the client. In the modern era it is an `input_required` result, and the retry runs
the generator again, with the answers that the `requestState` holds. A generator that yields no questions is held
until it is cancelled.

Numbers with a fraction are written with the digits that they came with.
"""

from __future__ import annotations

import binascii
import contextlib
import json
import os
import re
import sys

TYPE_CHECKING = False  # as in `typing`: its import, and that of `dataclasses`, would take as long as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable
    from typing import Any

    Message = dict[str, Any]
    Work = Generator[Message, Message, Message]
    Handler = Callable[["Server", "Call"], "Message | Work"]

HANDSHAKE = "handshake"
MODERN = "modern"
BOTH = (HANDSHAKE, MODERN)
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
TIME = "2026-01-01T00:00:00Z"
FOREVER = 15

META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
SUBSCRIPTION = META + "subscriptionId"
RELATED = META + "related-task"
TASKS_NEEDED: Message = {"extensions": {TASKS: {}}}

NO_REQUEST = -32600
NO_METHOD = -32601
BAD_PARAMS = -32602
NO_RESOURCE = -32002
REFUSED = -32050
URL_NEEDED = -32042
NO_CAPABILITY = -32021
NO_VERSION = -32022

CHANGES = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
CACHED = {"server/discover", "resources/read", *LISTS}

HELD: Message = {}
METHODS: dict[str, tuple[Handler, tuple[str, ...]]] = {}
TOOLS: dict[str, tuple[Handler, tuple[str, ...], Message]] = {}
CAPABILITIES = {"form": "elicitation", "url": "elicitation", "sampling": "sampling", "roots": "roots"}


class Refused(Exception):
    """An answer that is an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.error: Message = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Cancelled(Exception):
    """Thrown into the work of a call that was cancelled."""


class Call:
    """A request in work: its questions in flight, and what follows its answer."""

    def __init__(self, number: Any, method: str, params: Message, capabilities: Message) -> None:
        self.id = number
        self.method = method
        self.params = params
        self.capabilities = capabilities
        self.work: Work | None = None
        self.open: set[int] = set()
        self.answers: Message = {}
        self.rounds = 0
        self.history: list[Message] = []
        self.progress = 0
        self.after: list[Callable[[], None]] = []

    @property
    def arguments(self) -> Message:
        return part(self.params, "arguments")

    @property
    def meta(self) -> Message:
        return part(self.params, "_meta")


class Question:
    """A request to the client: who waits for it, under which key; `then` takes an answer that no call waits for."""

    def __init__(
        self, call: Call | None, key: str = "", token: str = "", then: Callable[[Any], None] | None = None
    ) -> None:
        self.call = call
        self.key = key
        self.token = token
        self.then = then


class Task:
    """It is done at the second look, or when its result is asked for; one that asks is done when it has its answer."""

    def __init__(self, name: str, ttl: Any, asks: Message) -> None:
        self.id = name
        self.ttl = ttl
        self.asks = asks
        self.status = "working"
        self.looks = 0
        self.answers: Message | None = None


# -- json with the digits that it came with


def kept(digits: str) -> str:
    return f"\x00{digits}"


def load(line: bytes | str) -> Any:
    return json.loads(line, parse_float=kept)


def dump(value: Any) -> str:
    return re.sub(r'"\\u0000([0-9eE.+-]+)"', r"\1", json.dumps(value))


def part(message: Message, key: str) -> Message:
    """A member that is an object; empty if there is none."""
    value: Message = message.get(key) or {}
    return value


def text(*texts: str) -> list[Message]:
    return [{"type": "text", "text": one} for one in texts]


def says(value: str, **structured: Any) -> Message:
    return {"content": text(value)} | ({"structuredContent": structured} if structured else {})


# -- the tables


def method(name: str, *eras: str) -> Callable[[Handler], Handler]:
    def enter(handler: Handler) -> Handler:
        METHODS[name] = (handler, eras or BOTH)
        return handler

    return enter


def tool(name: str, *eras: str, takes: Iterable[str] = (), **fields: Any) -> Callable[[Handler], Handler]:
    """Enter a tool; the members of `fields` are in its definition as they are."""
    schema = {"type": "object", "properties": {argument: {"type": "string"} for argument in takes}}
    definition = {"name": name, "description": f"The tool {name}.", "inputSchema": schema, **fields}

    def enter(handler: Handler) -> Handler:
        TOOLS[name] = (handler, eras or BOTH, definition)
        return handler

    return enter


class Server:
    def __init__(self, era: str, name: str) -> None:
        self.era = era
        self.name = name
        self.capabilities: Message = {}
        self.initialized = era == MODERN
        self.level = "debug"
        self.calls: dict[Any, Call] = {}
        self.questions: dict[int, Question] = {}
        self.asked = 0
        self.subscribed: set[str] = set()
        self.listens: dict[Any, Message] = {}
        self.tasks: dict[str, Task] = {}
        self.added: dict[str, list[str]] = {kind: [] for kind in CHANGES}
        self.gated: int | None = None
        self.roots: Any = None
        self.roots_changes = 0
        self.background: list[Any] = []

    @property
    def modern(self) -> bool:
        return self.era == MODERN

    # -- the wire

    def send(self, **message: Any) -> None:
        sys.stdout.write(dump({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def notify(self, method: str, params: Message | None = None) -> None:
        self.send(method=method, **({} if params is None else {"params": params}))

    def run(self) -> None:
        for line in sys.stdin.buffer:
            try:
                message: Message = load(line)
            except ValueError:
                self.send(id=None, error={"code": -32700, "message": "Parse error"})
                continue
            if "method" not in message:
                self.take_answer(message)
            elif "id" in message:
                self.take_request(message)
            else:
                self.take_notification(message["method"], part(message, "params"))
        with contextlib.suppress(BrokenPipeError):
            self.end_listens()

    # -- requests

    def take_request(self, message: Message) -> None:
        params = part(message, "params")
        of_request = part(part(params, "_meta"), META + "clientCapabilities")
        call = Call(message["id"], message["method"], params, of_request if self.modern else self.capabilities)
        try:
            handler = self.handler_of(call)
            made = handler(self, call)
            if isinstance(made, dict):
                self.answer(call, made)
                return
            call.work = made
            call.history = self.history_of(call)
            self.calls[call.id] = call
            self.advance(call, None)
        except Refused as refused:
            self.refuse(call, refused)

    def handler_of(self, call: Call) -> Handler:
        handler, eras = METHODS.get(call.method, (None, ()))
        if handler is None or self.era not in eras:
            raise Refused(NO_METHOD, "Method not found", {"method": call.method})
        if self.modern:
            self.check_envelope(call.meta)
        elif not self.initialized and call.method not in {"initialize", "ping"}:
            raise Refused(NO_REQUEST, "Not initialized")
        return handler

    def check_envelope(self, meta: Message) -> None:
        for member in ("protocolVersion", "clientCapabilities"):
            if META + member not in meta:
                raise Refused(BAD_PARAMS, f"Missing _meta: {META}{member}")
        if (version := meta[META + "protocolVersion"]) != MODERN_VERSION:
            raise Refused(NO_VERSION, "Unsupported version", {"supported": [MODERN_VERSION], "requested": version})
        if meta.get(META + "logLevel", "debug") not in LEVELS:
            raise Refused(BAD_PARAMS, "Unknown log level")

    def advance(self, call: Call, answers: Message | None) -> None:
        """Run the work of a call until it ends or waits."""
        assert call.work is not None
        try:
            while True:
                questions = next(call.work) if answers is None else call.work.send(answers)
                answers = self.ask(call, questions) if questions else None
                if answers is None:
                    return
        except StopIteration as end:
            self.answer(call, end.value)
        except Refused as refused:
            self.refuse(call, refused)

    def answer(self, call: Call, result: Message) -> None:
        self.calls.pop(call.id, None)
        if self.modern:
            result = {"resultType": "complete", **result}
            result["_meta"] = {**part(result, "_meta"), META + "serverInfo": self.info()}
            if call.method in CACHED and result["resultType"] == "complete":
                result |= {"ttlMs": 0, "cacheScope": "private"}
        self.send(id=call.id, result=result)
        for then in call.after:
            then()

    def refuse(self, call: Call, refused: Refused) -> None:
        self.calls.pop(call.id, None)
        self.send(id=call.id, error=refused.error)

    def info(self) -> Message:
        return {"name": self.name, "title": f"All of {self.name}", "version": "1", "x-unknown": True}

    # -- questions

    def ask(self, call: Call, questions: Message) -> Message | None:
        """The answers, if they are there already."""
        if self.modern:
            return self.ask_by_result(call, questions)
        call.answers = {}
        for key, question in questions.items():
            call.open.add(self.ask_client(Question(call, key), question))
        return None

    def ask_client(self, waiting: Question, question: Message) -> int:
        self.asked += 1
        params = {**part(question, "params")}
        if question["method"] == "sampling/createMessage":
            waiting.token = f"sampling-{self.asked}"
            params["_meta"] = {**part(params, "_meta"), "progressToken": waiting.token}
        self.questions[self.asked] = waiting
        self.send(id=self.asked, method=question["method"], **({"params": params} if params else {}))
        return self.asked

    def ask_by_result(self, call: Call, questions: Message) -> Message | None:
        call.rounds += 1
        if call.rounds <= len(call.history):
            return call.history[call.rounds - 1]
        given = part(call.params, "inputResponses")
        if questions.keys() <= given.keys():
            del call.params["inputResponses"]
            call.history.append({key: given[key] for key in questions})
            return call.history[-1]
        state = self.seal(call)
        self.answer(call, {"resultType": "input_required", "inputRequests": questions, "requestState": state})
        return None

    def seal(self, call: Call) -> str:
        """A state with quotes, a line break and letters beyond ASCII, bound to the request and to this server."""
        state = 'é "\n' + dump(call.history)
        return f"{state}#{self.digest(call, state)}"

    def digest(self, call: Call, state: str) -> str:
        own = {"_meta", "inputResponses", "requestState"}
        asked = {key: value for key, value in call.params.items() if key not in own}
        bound = json.dumps([self.name, call.method, asked, state], sort_keys=True)
        from hashlib import sha256  # noqa: PLC0415 -- a tenth of the time of a start

        return sha256(bound.encode()).hexdigest()

    def history_of(self, call: Call) -> list[Message]:
        """The answers of the rounds before, which the client brings back."""
        if not self.modern or not {"requestState", "inputResponses"} & call.params.keys():
            return []
        state, _, seal = str(call.params.get("requestState", "")).rpartition("#")
        if seal != self.digest(call, state):
            raise Refused(BAD_PARAMS, "The requestState is not the one that was given for this request")
        answers: list[Message] = load(state.partition("\n")[2])
        return answers

    def take_answer(self, message: Message) -> None:
        question = self.questions.pop(message["id"], None)
        if question is None:
            return
        answer = message.get("result", message.get("error"))
        if question.then:
            question.then(answer)
        if call := question.call:
            call.open.discard(message["id"])
            call.answers[question.key] = answer
            if not call.open:
                self.advance(call, call.answers)

    # -- notifications

    def take_notification(self, name: str, params: Message) -> None:
        match name:
            case "notifications/initialized" if "roots" in self.capabilities:
                self.ask_client(Question(None, then=self.see_roots), {"method": "roots/list"})
            case "notifications/roots/list_changed":
                self.roots_changes += 1
            case "notifications/cancelled":
                self.cancel(params.get("requestId"))
            case "notifications/progress":
                for question in self.questions.values():
                    if question.call and question.token == params.get("progressToken"):
                        question.call.progress += 1
            case "notifications/vendor/ping":
                self.notify("notifications/vendor/pong", params)
            case _:
                pass

    def see_roots(self, answer: Any) -> None:
        self.roots = answer

    def cancel(self, number: Any) -> None:
        """A cancelled call is not answered; what it asked is taken back."""
        self.listens.pop(number, None)
        call = self.calls.pop(number, None)
        if call is None or call.work is None:
            return
        for asked in sorted(call.open):
            del self.questions[asked]
            self.notify("notifications/cancelled", {"requestId": asked, "reason": "the call was cancelled"})
        with contextlib.suppress(Cancelled, StopIteration):
            call.work.throw(Cancelled())

    def log(self, call: Call, level: str, data: Any) -> None:
        least = call.meta.get(META + "logLevel") if self.modern else self.level
        if least in LEVELS and LEVELS.index(level) >= LEVELS.index(least):
            self.notify("notifications/message", {"level": level, "logger": self.name, "data": data, "x-unknown": 1})

    def report(self, call: Call, progress: int, total: int, message: str) -> None:
        if (token := call.meta.get("progressToken")) is not None:
            params = {"progressToken": token, "progress": progress, "total": total, "message": message}
            self.notify("notifications/progress", params)

    def tell(self, wanted: Callable[[Message], bool], method: str, params: Message | None = None) -> None:
        """Send to the listen streams that asked for it."""
        for number, wishes in self.listens.items():
            if wanted(wishes):
                self.notify(method, {**(params or {}), "_meta": {SUBSCRIPTION: number}})

    def end_listens(self) -> None:
        for number in list(self.listens):
            del self.listens[number]
            self.calls.pop(number, None)
            self.send(id=number, result={"resultType": "complete", "_meta": {SUBSCRIPTION: number}})

    # -- what there is

    def uri(self, path: str) -> str:
        return f"test://{self.name}/{path}"

    def page(self, call: Call, kind: str, items: list[Message]) -> Message:
        """Half of the items, and behind the cursor the rest."""
        second = binascii.b2a_base64(f"{self.name}/{kind}/2".encode(), newline=False).decode() + "≠"
        half = (len(items) + 1) // 2
        if "cursor" not in call.params:
            return {kind: items[:half], "nextCursor": second, "x-unknown": kind}
        if call.params["cursor"] != second:
            raise Refused(BAD_PARAMS, "Unknown cursor")
        return {kind: items[half:], "x-unknown": kind}

    def templates(self) -> list[str]:
        return [self.uri("item/{id}"), "test://shared/{id}"]

    def readable(self, uri: str) -> bool:
        paths = ("a", "b", "hidden", "embedded", "blob", "asking")
        known = uri in {self.uri(path) for path in paths} | set(self.added["resources"])
        return known or uri.startswith((self.uri("item/"), "test://shared/"))

    def question(self, call: Call, kind: str) -> Message:
        """A question of a kind, if the client said that it can answer it, or if the call asks for it `anyway`."""
        capability = CAPABILITIES[kind]
        able = capability in call.capabilities
        if able and capability == "elicitation":
            modes = part(call.capabilities, capability) or {"form": {}}
            able = kind in modes
        needed: Message = {capability: {kind: {}} if capability == "elicitation" else {}}
        if not able and not call.arguments.get("anyway"):
            code = NO_CAPABILITY if self.modern else NO_REQUEST
            raise Refused(code, f"The client cannot be asked: {kind}", {"requiredCapabilities": needed})
        return self.questions_of(kind)

    def questions_of(self, kind: str) -> Message:
        message = f"{self.name} asks"
        match kind:
            case "form":
                schema = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}
                params: Message = {"mode": "form", "message": message, "requestedSchema": schema, "x-unknown": 1}
                return {"method": "elicitation/create", "params": params}
            case "url":
                params = {"mode": "url", "message": message, "url": f"https://example.com/{self.name}"}
                named = {} if self.modern else {"elicitationId": "e1"}
                return {"method": "elicitation/create", "params": params | named}
            case "sampling":
                said = {"role": "user", "content": {"type": "text", "text": message}}
                return {"method": "sampling/createMessage", "params": {"messages": [said], "maxTokens": 10}}
            case _:
                return {"method": "roots/list"}

    # -- tasks

    def new_task(self, call: Call, asks: Message) -> Message:
        task = Task(f"t{len(self.tasks) + 1}", part(call.params, "task").get("ttl", 60_000), asks)
        self.tasks[task.id] = task
        return {"resultType": "task", **self.shown(task)} if self.modern else {"task": self.shown(task)}

    def task_of(self, call: Call) -> Task:
        if self.modern and TASKS not in part(call.capabilities, "extensions"):
            raise Refused(NO_CAPABILITY, "Missing required client capability", {"requiredCapabilities": TASKS_NEEDED})
        if (task := self.tasks.get(call.params.get("taskId", ""))) is None:
            raise Refused(BAD_PARAMS, f"{self.name} has no such task")
        return task

    def shown(self, task: Task) -> Message:
        """A task as its era writes it; in the modern era with what its status brings along."""
        seen: Message = {"taskId": task.id, "status": task.status, "createdAt": TIME, "lastUpdatedAt": TIME}
        seen["x-unknown"] = self.name
        if not self.modern:
            return seen | {"ttl": task.ttl, "pollInterval": 10}
        seen |= {"ttlMs": task.ttl, "pollIntervalMs": 10}
        if task.status == "input_required":
            seen["inputRequests"] = task.asks
        if task.status == "completed":
            seen["result"] = {"resultType": "complete", **self.done(task)}
        return seen

    def done(self, task: Task) -> Message:
        return says(f"slow {self.name}", server=self.name, task=task.id, answers=task.answers)

    def move(self, task: Task, status: str) -> None:
        if task.status == status:
            return
        task.status = status
        if self.modern:
            self.tell(lambda wishes: task.id in wishes.get("taskIds", []), "notifications/tasks", self.shown(task))
        else:
            self.notify("notifications/tasks/status", self.shown(task))

    def look(self, task: Task) -> None:
        """What a `tasks/get` sets going."""
        task.looks += 1
        if task.status in {"completed", "cancelled"}:
            return
        if task.asks and task.answers is None:
            self.move(task, "input_required")
        elif task.asks or task.looks > 1:
            self.move(task, "completed")


# -- beginning


def capabilities_of(server: Server) -> Message:
    common: Message = {
        "tools": {"listChanged": True},
        "prompts": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "completions": {},
        "logging": {},
        "experimental": {"vendor": {}},
    }
    if server.modern:
        return common | {"extensions": {TASKS: {}}}
    return common | {"tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}


@method("initialize", HANDSHAKE)
def initialize(server: Server, call: Call) -> Message:
    version = call.params.get("protocolVersion")
    server.capabilities = part(call.params, "capabilities")
    server.initialized = True
    return {
        "protocolVersion": version if version in VERSIONS else VERSIONS[-1],
        "capabilities": capabilities_of(server),
        "serverInfo": server.info(),
        "instructions": f"Use {server.name}.",
    }


@method("server/discover", MODERN)
def discover(server: Server, _: Call) -> Message:
    return {
        "supportedVersions": [MODERN_VERSION],
        "capabilities": capabilities_of(server),
        "instructions": f"Use {server.name}.",
    }


@method("ping", HANDSHAKE)
def ping(_: Server, __: Call) -> Message:
    return {}


@method("logging/setLevel", HANDSHAKE)
def set_level(server: Server, call: Call) -> Message:
    if (level := call.params.get("level")) not in LEVELS:
        raise Refused(BAD_PARAMS, "Unknown log level")
    server.level = level
    return {}


@method("vendor/echo")
def vendor_echo(_: Server, call: Call) -> Message:
    return call.params


# -- tools


@method("tools/list")
def list_tools(server: Server, call: Call) -> Message:
    tools = [definition for _, eras, definition in TOOLS.values() if server.era in eras]
    if server.modern:
        tools = [{key: value for key, value in each.items() if key != "execution"} for each in tools]
    if "elicitation" in call.capabilities:
        tools.append({"name": "only_when_askable", "inputSchema": {"type": "object"}})
    tools += [{"name": name, "inputSchema": {"type": "object"}} for name in server.added["tools"]]
    return server.page(call, "tools", tools)


@method("tools/call")
def call_tool(server: Server, call: Call) -> Message | Work:
    name = call.params.get("name", "")
    if name == "only_when_askable" or name in server.added["tools"]:
        return says(f"{name} of {server.name}")
    if name not in TOOLS or server.era not in TOOLS[name][1]:
        raise Refused(BAD_PARAMS, f"Unknown tool: {name}")
    handler, _, definition = TOOLS[name]
    if not server.modern and "task" in call.params and "execution" not in definition:
        raise Refused(NO_METHOD, f"{name} is not run as a task")
    return handler(server, call)


@tool(
    "echo",
    title="Echo",
    annotations={"readOnlyHint": True, "x-unknown": 1},
    icons=[{"src": "data:image/png;base64,AA==", "mimeType": "image/png"}],
    _meta={"vendor/key": [1, None]},
    **{"x-unknown": {"kept": True}},
)
def echo(server: Server, call: Call) -> Message:
    heard = says(dump(call.arguments), server=server.name, arguments=call.arguments, meta=call.meta)
    heard["content"].append({"type": "hologram", "data": "x"})
    return heard | {"x-unknown": {"kept": True}, "_meta": {"vendor/trace": server.name}}


@tool("count")
def count(server: Server, call: Call) -> Message:
    for step in (1, 2, 3):
        server.report(call, step, 3, f"step {step} of {server.name}")
    return says(f"counted by {server.name}")


@tool("log")
def log(server: Server, call: Call) -> Message:
    for level in ("debug", "info", "error"):
        server.log(call, level, f"{level} from {server.name}")
    return says(f"logged by {server.name}")


@tool("late_log")
def late_log(server: Server, call: Call) -> Message:
    call.after.append(lambda: server.log(call, "info", f"late from {server.name}"))
    return says(f"logs later: {server.name}")


@tool("ask", takes=("kind",))
def ask(server: Server, call: Call) -> Work:
    kind: str = call.arguments.get("kind", "form")
    if kind not in CAPABILITIES:
        raise Refused(BAD_PARAMS, f"Unknown kind: {kind}")
    answers = yield {"k1": server.question(call, kind)}
    seen = {"kind": kind, "answer": answers["k1"], "server": server.name}
    if kind == "sampling" and not server.modern:
        seen["progress"] = call.progress
    if kind == "url" and not server.modern:
        call.after.append(lambda: server.notify("notifications/elicitation/complete", {"elicitationId": "e1"}))
    return says(dump(answers["k1"]), **seen)


@tool("ask_twice")
def ask_twice(server: Server, call: Call) -> Work:
    first = yield {"k1": server.question(call, "form")}
    second = yield {"k2": server.question(call, "form")}
    return says("asked twice", answers=[first["k1"], second["k2"]], server=server.name)


@tool("ask_forever")
def ask_forever(server: Server, call: Call) -> Work:
    number = 0
    while server.modern or number < FOREVER:
        number += 1
        yield {f"k{number}": server.question(call, "form")}
    return says(f"asked {number} times", times=number, server=server.name)


@tool("ask_both")
def ask_both(server: Server, call: Call) -> Work:
    answers = yield {"k1": server.question(call, "form"), "k2": server.question(call, "roots")}
    return says("asked both", answers=answers, server=server.name)


@tool("background_ask", HANDSHAKE)
def background_ask(server: Server, call: Call) -> Message:
    question = Question(None, then=server.background.append)
    call.after.append(lambda: void(server.ask_client(question, {"method": "roots/list"})))
    return says(f"asks later: {server.name}")


def void(_: object) -> None:
    """Let a value go."""


@tool("roots_seen", HANDSHAKE)
def roots_seen(server: Server, _: Call) -> Message:
    seen = {"roots": server.roots, "changes": server.roots_changes, "background": server.background}
    return says("roots", **seen, server=server.name)


@tool("hold", takes=("file",))
def hold(server: Server, call: Call) -> Work:
    path = call.arguments.get("file")
    append(path, "started")
    print(f"held {call.id}", file=sys.stderr, flush=True)
    server.report(call, 0, 1, "holding")
    try:
        while True:
            yield HELD
    except Cancelled:
        append(path, "cancelled")
        raise


def append(path: str | None, line: str) -> None:
    if path:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, f"{line}\n".encode())
        os.close(file)


@tool("link")
def link(server: Server, _: Call) -> Message:
    embedded = {"uri": server.uri("embedded"), "mimeType": "text/plain", "text": f"embedded of {server.name}"}
    return {
        "content": [
            {"type": "resource_link", "uri": server.uri("hidden"), "name": "hidden", "x-unknown": 1},
            {"type": "resource", "resource": embedded, "x-unknown": 1},
        ]
    }


@tool("change", takes=("kind",))
def change(server: Server, call: Call) -> Message:
    kind = call.arguments.get("kind", "tools")
    if kind not in CHANGES:
        raise Refused(BAD_PARAMS, f"Unknown kind: {kind}")
    number = len(server.added[kind]) + 1
    name = server.uri(f"added/{number}") if kind == "resources" else f"added_{number}"
    server.added[kind].append(name)
    announced = f"notifications/{kind}/list_changed"
    if server.modern:
        server.tell(lambda wishes: wishes.get(CHANGES[kind]) is True, announced)
    else:
        server.notify(announced)
    return says(f"added {name}", added=name, server=server.name)


@tool("touch", takes=("uri",))
def touch(server: Server, call: Call) -> Message:
    uri = call.arguments.get("uri", "")
    method, params = "notifications/resources/updated", {"uri": uri}
    if server.modern:
        server.tell(lambda wishes: uri in wishes.get("resourceSubscriptions", []), method, params)
    elif uri in server.subscribed:
        server.notify(method, params)
    return says(f"touched {uri}", uri=uri, server=server.name)


@tool("end_listens", MODERN)
def end_listens(server: Server, _: Call) -> Message:
    server.end_listens()
    return says("ended")


@tool("structured", outputSchema={"type": "object", "properties": {"n": {"type": "number"}}, "x-unknown": 1})
def structured(server: Server, _: Call) -> Message:
    return says(f"structured by {server.name}", n=kept("12345678901234567890.10"))


@tool("fail")
def fail(server: Server, _: Call) -> Message:
    return says(f"failed by {server.name}") | {"isError": True}


@tool("refuse")
def refuse(server: Server, _: Call) -> Message:
    raise Refused(REFUSED, f"refused by {server.name}", {"why": 1})


@tool("gate", HANDSHAKE, takes=("times",))
def gate(server: Server, call: Call) -> Message:
    """So many requests are refused until a page is opened; then they pass."""
    server.gated = int(call.arguments["times"])
    return says("gated")


def pass_gate(server: Server) -> None:
    if server.gated:
        server.gated -= 1
        page = server.questions_of("url")["params"]
        raise Refused(URL_NEEDED, "A page must be opened first", {"elicitations": [page]})


@tool("needs_url", HANDSHAKE)
def needs_url(server: Server, _: Call) -> Message:
    server.gated = 1 if server.gated is None else server.gated
    pass_gate(server)
    return says(f"let in by {server.name}")


@tool("slow", execution={"taskSupport": "optional"})
def slow(server: Server, call: Call) -> Message:
    if is_task(server, call):
        return server.new_task(call, {})
    return says(f"slow {server.name}", server=server.name, task=None)


@tool("slow_ask", execution={"taskSupport": "optional"})
def slow_ask(server: Server, call: Call) -> Message | Work:
    asks = {"k1": server.question(call, "form")}
    return server.new_task(call, asks) if is_task(server, call) else ask_now(server, asks)


def ask_now(server: Server, asks: Message) -> Work:
    answers = yield asks
    return says(f"slow {server.name}", server=server.name, task=None, answers=answers)


def is_task(server: Server, call: Call) -> bool:
    return TASKS in part(call.capabilities, "extensions") if server.modern else "task" in call.params


# -- tasks


@method("tasks/get")
def get_task(server: Server, call: Call) -> Message:
    task = server.task_of(call)
    server.look(task)
    return server.shown(task)


@method("tasks/result", HANDSHAKE)
def task_result(server: Server, call: Call) -> Work:
    task = server.task_of(call)
    related = {RELATED: {"taskId": task.id}}
    if task.asks and task.answers is None:
        server.move(task, "input_required")
        asked = task.asks["k1"]
        answers = yield {"k1": asked | {"params": {**part(asked, "params"), "_meta": related}}}
        task.answers = answers
    if task.status == "cancelled":
        raise Refused(BAD_PARAMS, "The task was cancelled")
    server.move(task, "completed")
    return server.done(task) | {"_meta": related}


@method("tasks/list", HANDSHAKE)
def list_tasks(server: Server, _: Call) -> Message:
    return {"tasks": [server.shown(task) for task in server.tasks.values()]}


@method("tasks/update", MODERN)
def update_task(server: Server, call: Call) -> Message:
    task = server.task_of(call)
    given = part(call.params, "inputResponses")
    if task.status == "input_required" and task.asks.keys() <= given.keys():
        task.answers = {key: given[key] for key in task.asks}
        server.move(task, "working")
    return {}


@method("tasks/cancel")
def cancel_task(server: Server, call: Call) -> Message:
    task = server.task_of(call)
    ended = task.status in {"completed", "cancelled"}
    if ended and not server.modern:
        raise Refused(BAD_PARAMS, f"The task is {task.status}")
    if not ended:
        server.move(task, "cancelled")
    return {} if server.modern else server.shown(task)


# -- resources


def resource(server: Server, uri: str) -> Message:
    return {
        "uri": uri,
        "name": uri.rpartition("/")[2],
        "title": f"{uri} of {server.name}",
        "mimeType": "text/plain",
        "annotations": {"audience": ["user"], "priority": 0.5, "x-unknown": 1},
        "size": 3,
        "x-unknown": server.name,
    }


@method("resources/list")
def list_resources(server: Server, call: Call) -> Message:
    uris = [server.uri("a"), server.uri("b"), "test://shared/same", *server.added["resources"]]
    return server.page(call, "resources", [resource(server, uri) for uri in uris])


@method("resources/templates/list")
def list_templates(server: Server, call: Call) -> Message:
    templates = [
        {"uriTemplate": template, "name": template, "title": f"{template} of {server.name}", "x-unknown": server.name}
        for template in server.templates()
    ]
    return server.page(call, "resourceTemplates", templates)


@method("resources/read")
def read_resource(server: Server, call: Call) -> Message | Work:
    pass_gate(server)
    uri: str = call.params.get("uri", "")
    if not server.readable(uri):
        raise Refused(BAD_PARAMS if server.modern else NO_RESOURCE, f"{server.name} has no such resource", {"uri": uri})
    if uri == server.uri("blob"):
        return {"contents": [{"uri": uri, "mimeType": "application/octet-stream", "blob": "AAEC"}]}
    if uri == server.uri("asking"):
        return read_asking(server, call)
    return contents(uri, f"{uri} read from {server.name}")


def read_asking(server: Server, call: Call) -> Work:
    answers = yield {"k1": server.question(call, "form")}
    return contents(server.uri("asking"), dump({"server": server.name, "answer": answers["k1"]}))


def contents(uri: str, value: str) -> Message:
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": value, "x-unknown": 1}], "x-unknown": 1}


@method("resources/subscribe", HANDSHAKE)
def subscribe(server: Server, call: Call) -> Message:
    server.subscribed.add(call.params["uri"])
    return {}


@method("resources/unsubscribe", HANDSHAKE)
def unsubscribe(server: Server, call: Call) -> Message:
    server.subscribed.discard(call.params["uri"])
    return {}


@method("subscriptions/listen", MODERN)
def listen(server: Server, call: Call) -> Work:
    """It is open until one side ends it; the loop knows it by its number alone."""
    wishes = part(call.params, "notifications")
    if "taskIds" in wishes and TASKS not in part(call.capabilities, "extensions"):
        raise Refused(NO_CAPABILITY, "Missing required client capability", {"requiredCapabilities": TASKS_NEEDED})
    known = {*CHANGES.values(), "resourceSubscriptions", "taskIds"}
    agreed = {wish: value for wish, value in wishes.items() if wish in known}
    server.listens[call.id] = agreed
    params = {"notifications": agreed, "_meta": {SUBSCRIPTION: call.id}}
    server.notify("notifications/subscriptions/acknowledged", params)
    while True:
        yield HELD


# -- prompts and completion


@method("prompts/list")
def list_prompts(server: Server, call: Call) -> Message:
    who = {"name": "who", "description": "Whom to greet.", "required": True, "x-unknown": 1}
    prompts: list[Message] = [
        {"name": "greet", "title": f"Greet of {server.name}", "arguments": [who], "x-unknown": server.name},
        {"name": "plain", "description": f"Plain of {server.name}."},
        {"name": "asking"},
    ]
    return server.page(call, "prompts", prompts + [{"name": name} for name in server.added["prompts"]])


@method("prompts/get")
def get_prompt(server: Server, call: Call) -> Message | Work:
    pass_gate(server)
    match call.params.get("name"):
        case "greet" if "who" in call.arguments:
            return prompt(f"Hello {call.arguments['who']} from {server.name}")
        case "asking":
            return get_asking(server, call)
        case name if name == "plain" or name in server.added["prompts"]:
            return prompt(f"{name} of {server.name}")
        case name:
            raise Refused(BAD_PARAMS, f"Unknown prompt, or an argument is missing: {name}")


def get_asking(server: Server, call: Call) -> Work:
    answers = yield {"k1": server.question(call, "form")}
    return prompt(dump({"server": server.name, "answer": answers["k1"]}))


def prompt(value: str) -> Message:
    said = {"role": "user", "content": {"type": "text", "text": value}, "x-unknown": 1}
    return {"description": value, "messages": [said], "x-unknown": 1}


@method("completion/complete")
def complete(server: Server, call: Call) -> Message:
    reference, argument = part(call.params, "ref"), part(call.params, "argument")
    known = (
        (reference.get("name") == "greet" and argument.get("name") == "who")
        if reference.get("type") == "ref/prompt"
        else (reference.get("uri") in server.templates() and argument.get("name") == "id")
    )
    if not known:
        raise Refused(BAD_PARAMS, "Nothing to complete")
    values = [f"{argument.get('value', '')}{end}" for end in ("-one", "-two", f"-{server.name}")]
    if "context" in call.params:
        values.append(dump(call.params["context"]))
    return {"completion": {"values": values, "total": len(values), "hasMore": False, "x-unknown": 1}}


def main() -> None:
    era, name = (*sys.argv[1:], "whole")[:2]
    if era not in BOTH:
        sys.exit(f"whole_server.py {'|'.join(BOTH)} [NAME]")
    Server(era, name).run()


if __name__ == "__main__":
    main()
