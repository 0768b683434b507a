"""An MCP server on stdio with one fault per mode. Standard library only, so it starts fast.

    rogue_stdio.py MODE [ARGUMENT...]

A mode is a handful of handlers: what it does at the `start`, on a method, on an `unknown` method, at `eof`.
What a mode does not say is as in `ok`. With ROGUE_LOG set, every message that it gets stands there as one
line of JSON, and so do its start and its end.
"""

# ruff: noqa: ARG001 -- handlers share one signature

from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in `typing`, whose import would take a tenth of the time of a start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Message = dict[str, Any]
    Handler = Callable[["Peer", Message], None]

SCHEMA = {"type": "object", "properties": {"nonce": {"type": "string"}}}
MODERN = "2026-07-28"
STDERR_TEXT = "boom: the disk is on fire"
MODES: dict[str, dict[str, Handler]] = {}


def on(mode: str, *events: str) -> Callable[[Handler], Handler]:
    """Enter a handler into the table of modes."""

    def enter(handler: Handler) -> Handler:
        for event in events:
            MODES.setdefault(mode, {})[event] = handler
        return handler

    return enter


class Peer:
    """The wire, the log, and what a mode wants to remember."""

    def __init__(self, mode: str, arguments: list[str]) -> None:
        self.mode = mode
        self.arguments = arguments
        self.handlers = MODES["ok"] | MODES[mode]
        self.tools = [tool(name) for name in TOOLS.get(mode, ("echo", "nonce"))]
        self.owed: list[Message] = []
        self.listeners: list[Any] = []

    def log(self, event: str, **fields: Any) -> None:
        if path := os.environ.get("ROGUE_LOG"):
            stamp = {"event": event, "pid": os.getpid(), "mode": self.mode, "at": time.monotonic()}
            line = json.dumps({**stamp, **fields}) + "\n"
            log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(log, line.encode())
            os.close(log)

    def raw(self, line: bytes) -> None:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def answer(self, request: Message, result: Any) -> None:
        self.send(id=request["id"], result=result)

    def say(self, request: Message, text: str, **fields: Any) -> None:
        self.answer(request, {"content": [{"type": "text", "text": text}], **fields})

    def handle(self, event: str, message: Message | None = None) -> None:
        handler = self.handlers.get(event) or self.handlers["unknown"]
        handler(self, message or {})

    def run(self) -> None:
        self.log("start", argv=sys.argv[1:])
        self.handle("start")
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self.log("message", message=message, line=line.decode())
            if "method" in message:
                self.handle(message["method"], message)
        self.handle("eof")
        self.log("exit")


def tool(name: str, **fields: Any) -> Message:
    return {"name": name, "description": f"The tool {name}.", "inputSchema": SCHEMA, **fields}


def arguments_of(request: Message) -> Message:
    return request["params"].get("arguments") or {}


def called(request: Message) -> str:
    return request["params"]["name"]


def sleep_for_ever() -> None:
    while True:
        time.sleep(60)


def nothing(peer: Peer, message: Message) -> None:
    """Ignore it."""


# -- ok [TOOL...]: every call is echoed: arguments, _meta, pid, and the name that it came under


@on("ok", "start")
def start(peer: Peer, _: Message) -> None:
    if peer.mode == "ok" and peer.arguments:
        peer.tools = [tool(name) for name in peer.arguments]


@on("ok", "initialize")
def initialize(peer: Peer, request: Message) -> None:
    result = {
        "protocolVersion": request["params"]["protocolVersion"],
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": "rogue", "version": "1"},
    }
    peer.answer(request, result)


@on("ok", "tools/list")
def list_tools(peer: Peer, request: Message) -> None:
    peer.answer(request, {"tools": peer.tools})


@on("ok", "tools/call")
def echo(peer: Peer, request: Message) -> None:
    params = request["params"]
    heard = {
        "name": params["name"],
        "arguments": params.get("arguments"),
        "meta": params.get("_meta"),
        "pid": os.getpid(),
        "argv": sys.argv[1:],
    }
    text = arguments_of(request).get("nonce") if called(request) == "nonce" else json.dumps(heard)
    peer.say(request, str(text), structuredContent=heard)


@on("ok", "ping")
def pong(peer: Peer, request: Message) -> None:
    peer.answer(request, {})


@on("ok", "unknown")
def refuse(peer: Peer, message: Message) -> None:
    if "id" in message:
        peer.send(id=message["id"], error={"code": -32601, "message": "Method not found"})


MODES["ok"]["eof"] = nothing
MODES["ok"]["notifications/initialized"] = nothing

TOOLS: dict[str, tuple[str, ...]] = {}


# -- starting: exit_at_start, needs FILE, hang_init [stubborn] [daemon], slow_start SECONDS, exits_on_probe [SECONDS],
# -- silent_probe, sloppy_probe KIND


@on("exit_at_start", "start")
def exit_at_start(peer: Peer, _: Message) -> None:
    print(STDERR_TEXT, file=sys.stderr, flush=True)
    sys.exit(3)


@on("needs", "start")
def needs(peer: Peer, message: Message) -> None:
    """It starts only while the file exists."""
    if not os.path.exists(peer.arguments[0]):  # noqa: PTH110 -- stdlib peer
        exit_at_start(peer, message)


on("hang_init", "unknown", "initialize", "tools/list")(nothing)


@on("hang_init", "start")
def hang_with(peer: Peer, message: Message) -> None:
    """`stubborn`: it heeds neither a signal nor the end of its input. `daemon`: it has left one behind."""
    if "stubborn" in peer.arguments:
        ignore_sigterm(peer, message)
    if "daemon" in peer.arguments:
        leave_behind(start_new_session=True)


@on("hang_init", "eof")
def hang_on(peer: Peer, _: Message) -> None:
    if "stubborn" in peer.arguments:
        sleep_for_ever()


@on("slow_start", "start")
@on("exits_on_probe", "start")
@on("modern", "start")
def slow_start(peer: Peer, _: Message) -> None:
    time.sleep(float(peer.arguments[0]) if peer.arguments else 0)


@on("exits_on_probe", "unknown")
def exits_on_probe(peer: Peer, _: Message) -> None:
    print("unexpected first message", file=sys.stderr, flush=True)
    sys.exit(1)


on("silent_probe", "unknown")(nothing)


SLOPPY: dict[str, Message] = {
    "both": {"jsonrpc": "2.0", "result": None, "error": {"code": -32601, "message": "no"}},
    "no_version": {"error": {"code": -32601, "message": "no"}},
    "null_id": {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "not initialized"}},
}


@on("sloppy_probe", "server/discover")
def sloppy_probe(peer: Peer, request: Message) -> None:
    peer.raw(json.dumps({"id": request["id"]} | SLOPPY[peer.arguments[0]]).encode())


# -- listing: hang_list, pages COUNT [SIZE], cursor KIND, duptools, schemas, names, unknown_fields, list_changed,
# -- changed_list THEN, flap, storm, large_tools COUNT BYTES

on("hang_list", "tools/list")(nothing)


@on("pages", "tools/list")
def pages(peer: Peer, request: Message) -> None:
    count, size = (int(argument) for argument in (*peer.arguments, "50")[:2])
    first = int((request.get("params") or {}).get("cursor") or 0)
    page = [tool(f"tool_{number:04}") for number in range(first, min(first + size, count))]
    more = {"nextCursor": str(first + size)} if first + size < count else {}
    peer.answer(request, {"tools": page, **more})


CURSORS: dict[str, Callable[[str], str]] = {
    "same": lambda _: "again",
    "alternating": lambda cursor: "tock" if cursor == "tick" else "tick",
    "new": lambda cursor: str(int(cursor or 0) + 1),
    "empty": lambda _: "",
}


@on("cursor", "tools/list")
def endless(peer: Peer, request: Message) -> None:
    cursor = (request.get("params") or {}).get("cursor", "")
    peer.owed.append(request)
    page = [tool(f"tool_{len(peer.owed)}")]
    peer.answer(request, {"tools": page, "nextCursor": CURSORS[peer.arguments[0]](cursor)})


@on("empty_cursor_once", "tools/list")
def empty_cursor_once(peer: Peer, request: Message) -> None:
    """Its second page lies behind the cursor ""."""
    if "cursor" in (request.get("params") or {}):
        peer.answer(request, {"tools": [tool("second")]})
    else:
        peer.answer(request, {"tools": [tool("first")], "nextCursor": ""})


@on("by_capability", "initialize")
def notes_capabilities(peer: Peer, request: Message) -> None:
    """One tool more for a client that can be asked."""
    if "elicitation" in request["params"]["capabilities"]:
        peer.tools.append(tool("ask_first"))
    MODES["ok"]["initialize"](peer, request)


TOOLS["duptools"] = ("first", "twice", "last", "twice")
MODES["duptools"] = {}


def nested(depth: int) -> str:
    return '{"type":"object","properties":{"a":' * depth + "{}" + "}}" * depth


PROSE = {
    "type": "object",
    "description": "many words, " * 30 + '\u00ad \u2028 \x85 \x7f \U000e0001 \u202e \t \x1b[31m " \\ ü 日本 end',
}

SCHEMAS: dict[str, Callable[[], str]] = {
    "plain": lambda: json.dumps(SCHEMA),
    "prose": lambda: json.dumps(PROSE, ensure_ascii=False),
    "huge": lambda: json.dumps({"type": "object", "description": "x" * 5_000_000}),
    "nested": lambda: nested(100),
    "deep": lambda: nested(10_000),
    "many": lambda: json.dumps({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100_000)}}),
    "cycle": lambda: '{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}',
    "remote": lambda: json.dumps({"type": "object", "properties": {"a": {"$ref": os.environ.get("ROGUE_REF", "")}}}),
}


@on("schemas", "tools/list")
def schemas(peer: Peer, request: Message) -> None:
    """Tools named after their schema; which ones stands in the arguments."""
    tools = ",".join(f'{{"name":"{kind}","inputSchema":{SCHEMAS[kind]()}}}' for kind in peer.arguments)
    peer.raw(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{{"tools":[{tools}]}}}}'.encode())


WEIRD_NAMES = (
    "a b",
    "dev__fs__x",
    "__",
    "_",
    "a__b__",
    "dots.and-dashes",
    "sla/sh:colon",
    "line\nbreak",
    "\x1b[31mred",
    "right\u202eleft",
    "naïve-日本語-🙂",
    "open_toolbox",
    "use_tool",
    "'quoted' \"twice\" {json}",
    "n" * 10_000,
)
TOOLS["names"] = WEIRD_NAMES
MODES["names"] = {}

RICH_TOOL = tool(
    "rich",
    title="Rich",
    annotations={"readOnlyHint": True, "title": "Rich too", "x-vendor-hint": [1, None]},
    outputSchema={"type": "object", "x-unknown": {"$comment": "kept"}},
    icons=[{"src": "data:image/png;base64,AA==", "mimeType": "image/png", "sizes": ["16x16"], "theme": "dark"}],
    execution={"taskSupport": "forbidden"},
    _meta={"vendor/key": {"nested": [True, 0.5, "x"]}},
    toolbox_name="liar",
    source_server="liar",
)
RICH_TOOL["x-vendor"] = {"anything": ["goes", {"here": None}]}
RICH_RESULT = {
    "content": [
        {"type": "text", "text": "hello", "annotations": {"audience": ["user"], "priority": 0.9}, "x-part": 1},
        {"type": "video", "data": "AA==", "mimeType": "video/mp4"},
    ],
    "structuredContent": {"a": [1, 2, {"b": None}]},
    "isError": False,
    "_meta": {"vendor/trace": "abc"},
    "x-unknown": {"kept": True},
}


@on("unknown_fields", "tools/list")
def rich_list(peer: Peer, request: Message) -> None:
    peer.answer(request, {"tools": [RICH_TOOL], "x-list": 1})


@on("unknown_fields", "tools/call")
def rich_call(peer: Peer, request: Message) -> None:
    peer.answer(request, RICH_RESULT)


@on("list_changed", "tools/call")
def grow(peer: Peer, request: Message) -> None:
    if called(request) != "grow":
        return echo(peer, request)
    peer.tools.append(tool(f"grown_{len(peer.tools)}"))
    peer.answer(request, {"content": []})
    return peer.send(method="notifications/tools/list_changed")


TOOLS["list_changed"] = ("echo", "grow")


@on("changed_list", "tools/call")
def change(peer: Peer, request: Message) -> None:
    """As list_changed, but it says so before it answers; THEN is what a new listing does: lists, hangs or refuses."""
    if called(request) != "change":
        return echo(peer, request)
    peer.tools.append(tool("new"))
    peer.owed.append(request)
    peer.send(method="notifications/tools/list_changed")
    return peer.answer(request, {"content": []})


@on("changed_list", "tools/list")
def changed_list(peer: Peer, request: Message) -> None:
    then = peer.arguments[0] if peer.owed else "lists"
    if then != "hangs":
        list_tools(peer, request) if then == "lists" else rpc_error(peer, request)


TOOLS["changed_list"] = ("echo", "change")


@on("flap", "tools/list")
def flap(peer: Peer, request: Message) -> None:
    """It lists, says that its list changed, and goes."""
    list_tools(peer, request)
    peer.send(method="notifications/tools/list_changed")
    sys.exit(0)


@on("storm", "tools/list")
def slow_list(peer: Peer, request: Message) -> None:
    """Slow enough that a second one would be asked for meanwhile."""
    peer.log("listing")
    time.sleep(0.1)
    list_tools(peer, request)
    peer.log("listed")


@on("storm", "tools/call")
def storm(peer: Peer, request: Message) -> None:
    """It says `count` times, a thousand times a second, that its list changed; with the last there is a new tool."""
    import threading  # noqa: PLC0415 -- only here

    def rage(count: int) -> None:
        begun = time.monotonic()
        for number in range(count):
            if number == count - 1:
                peer.tools = [*peer.tools, tool("after")]
            peer.send(method="notifications/tools/list_changed")
            time.sleep(max(0.0, begun + number / 1000 - time.monotonic()))
        peer.log("over", seconds=time.monotonic() - begun)

    echo(peer, request)
    threading.Thread(target=rage, args=(arguments_of(request).get("count", 500),), daemon=True).start()


@on("large_tools", "tools/list")
def large_tools(peer: Peer, request: Message) -> None:
    """Twenty to a page; each with more brackets than the depth that is allowed, so that its depth must be found out."""
    count, size = (int(argument) for argument in peer.arguments)
    first = int((request.get("params") or {}).get("cursor") or 0)
    many = {"type": "object", "p": [{} for _ in range(70)], "description": "\n" * (size // 2 - 500)}
    page = [tool(f"tool_{number}", inputSchema=many) for number in range(first, min(first + 20, count))]
    peer.answer(request, {"tools": page, **({"nextCursor": str(first + 20)} if first + 20 < count else {})})


# -- modern [SECONDS]: the modern era alone, with server/discover, per-request _meta and subscriptions/listen


@on("modern", "initialize")
def refuse_handshake(peer: Peer, request: Message) -> None:
    data = {"supported": [MODERN], "requested": request["params"].get("protocolVersion")}
    peer.send(id=request["id"], error={"code": -32022, "message": "Unsupported protocol version", "data": data})


@on("modern", "server/discover")
def discover(peer: Peer, request: Message) -> None:
    result = {
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {"listChanged": True}},
        "instructions": "A modern server.",
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "rogue", "version": "1"}},
    }
    peer.answer(request, result)


@on("modern", "tools/list")
def modern_list(peer: Peer, request: Message) -> None:
    if is_enveloped(peer, request):
        peer.answer(request, {"tools": peer.tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"})


@on("modern", "subscriptions/listen")
def listen(peer: Peer, request: Message) -> None:
    peer.listeners.append(request["id"])
    tell_listeners(peer, "notifications/subscriptions/acknowledged", notifications=request["params"]["notifications"])


@on("modern", "tools/call")
def modern_call(peer: Peer, request: Message) -> None:
    if not is_enveloped(peer, request):
        return None
    if called(request) == "grow":
        peer.tools.append(tool(f"grown_{len(peer.tools)}"))
        tell_listeners(peer, "notifications/tools/list_changed")
        return peer.answer(request, {"content": [], "resultType": "complete"})
    text = json.dumps({"name": called(request), "arguments": arguments_of(request), "meta": request["params"]["_meta"]})
    return peer.say(request, text, resultType="complete")


def tell_listeners(peer: Peer, method: str, **params: Any) -> None:
    for listener in peer.listeners:
        peer.send(method=method, params={**params, "_meta": {"io.modelcontextprotocol/subscriptionId": listener}})


def is_enveloped(peer: Peer, request: Message) -> bool:
    meta = (request.get("params") or {}).get("_meta") or {}
    needed = ("io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities")
    if all(key in meta for key in needed):
        return True
    peer.send(id=request["id"], error={"code": -32602, "message": "the request's _meta lacks the envelope"})
    return False


TOOLS["modern"] = ("echo", "grow")


# -- modern_exits, modern_silent [SECONDS]: the same, but it exits on `initialize`, or ignores it

MODES["modern_exits"] = dict(MODES["modern"], initialize=exits_on_probe)
MODES["modern_silent"] = dict(MODES["modern"], initialize=nothing)
TOOLS["modern_exits"] = TOOLS["modern_silent"] = TOOLS["modern"]


# -- modern_never: the same, and `hang` is never answered

MODES["modern_never"] = dict(MODES["modern"])


@on("modern_never", "tools/call")
def modern_never(peer: Peer, request: Message) -> None:
    if called(request) != "hang":
        modern_call(peer, request)


TOOLS["modern_never"] = ("echo", "hang")


# -- modern_asks [exits]: the same, and a call is answered with a question; after that it may be gone

MODES["modern_asks"] = dict(MODES["modern"], start=nothing)


@on("modern_asks", "tools/call")
def modern_asks(peer: Peer, request: Message) -> None:
    if "inputResponses" in request["params"]:
        return modern_call(peer, request)
    question = {"method": "elicitation/create", "params": QUESTIONS["elicitation/create"]}
    peer.answer(request, {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"})
    if "exits" in peer.arguments:
        sys.exit(0)
    return None


# -- calling: crash, hang_call, never, progress COUNT, asks_sampling, asks_later, dump_env, is_error, rpc_error,
# bad_arguments, digits


@on("crash", "tools/call")
def crash(peer: Peer, request: Message) -> None:
    """With the argument `words` these are its last ones; with `signal` that ends it."""
    if called(request) != "crash":
        return echo(peer, request)
    print(arguments_of(request).get("words", STDERR_TEXT), file=sys.stderr, flush=True)
    if number := arguments_of(request).get("signal"):
        os.kill(os.getpid(), number)
    sys.exit(3)


TOOLS["crash"] = ("echo", "crash")


on("hang_call", "tools/call", "ping")(nothing)


@on("never", "tools/call")
def never(peer: Peer, request: Message) -> None:
    """`hang` is answered only when the next call comes, just before that one's own answer."""
    if called(request) == "hang":
        return peer.owed.append(request)
    while peer.owed:
        peer.say(peer.owed.pop(), "late")
    return echo(peer, request)


on("never", "notifications/cancelled")(nothing)
TOOLS["never"] = ("hang", "echo")


@on("progress", "tools/call")
def progress(peer: Peer, request: Message) -> None:
    """With the argument `gap`, that many seconds pass before each notification."""
    count = int(peer.arguments[0])
    token = (request["params"].get("_meta") or {}).get("progressToken")
    for step in range(1, count + 1):
        time.sleep(arguments_of(request).get("gap", 0))
        params = {"progressToken": token, "progress": step, "total": count, "message": f"step {step}"}
        if token is not None:
            peer.send(method="notifications/progress", params=params)
    echo(peer, request)


QUESTIONS: dict[str, Message] = {
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "elicitation/create": {"message": "Why?", "requestedSchema": {"type": "object", "properties": {}}},
    "roots/list": {},
}


@on("asks_sampling", "tools/call")
def asks_sampling(peer: Peer, request: Message) -> None:
    """Or what the argument `method` says."""
    method = arguments_of(request).get("method", "sampling/createMessage")
    peer.send(id="question", method=method, params=QUESTIONS[method])
    while True:
        message = json.loads(sys.stdin.buffer.readline())
        peer.log("message", message=message)
        if message.get("id") == "question":
            return peer.say(request, json.dumps(message))


@on("asks_later", "tools/call")
def asks_later(peer: Peer, request: Message) -> None:
    """It answers, and asks afterwards."""
    echo(peer, request)
    peer.send(id="question", method="elicitation/create", params=QUESTIONS["elicitation/create"])


@on("dump_env", "tools/call")
def dump_env(peer: Peer, request: Message) -> None:
    peer.say(request, json.dumps(dict(os.environ)), structuredContent={"cwd": os.getcwd()})  # noqa: PTH109 -- stdlib peer


@on("is_error", "tools/call")
def is_error(peer: Peer, request: Message) -> None:
    peer.say(request, "the tool itself failed", isError=True, _meta={"vendor/why": 1})


@on("rpc_error", "tools/call")
def rpc_error(peer: Peer, request: Message) -> None:
    peer.send(id=request["id"], error={"code": -32050, "message": "not on a Sunday", "data": {"day": 7}})


@on("bad_arguments", "tools/call")
def bad_arguments(peer: Peer, request: Message) -> None:
    peer.send(id=request["id"], error={"code": -32602, "message": "nonce must be a string"})


DIGITS = '{"n":[1.00,12345678901234567890.10,1e400,-0.0,1E+2,0.1000000000000000055511151231257827]}'


@on("digits", "tools/call")
def digits(peer: Peer, request: Message) -> None:
    result = f'{{"content":[],"structuredContent":{DIGITS}}}'
    peer.raw(f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{result}}}'.encode())


# -- the stream: garbage LINES, quotes PREFIX, bigline, drip, stderrflood, close_stdout, no_read [daemon],
# -- request_flood COUNT

BANNER = "\x1b[1;32m== Starting the best server ever ==\x1b[0m"


@on("garbage", "start")
def garbage_at_start(peer: Peer, _: Message) -> None:
    garbage(peer, int(peer.arguments[0]))


@on("garbage", "tools/call")
def garbage_in_call(peer: Peer, request: Message) -> None:
    garbage(peer, arguments_of(request).get("lines", 0))
    echo(peer, request)


@on("quotes", "initialize", "tools/list", "tools/call", "unknown")
def quotes(peer: Peer, message: Message) -> None:
    """A debug print of what it got, as people leave them in; what stands before it is the argument."""
    peer.raw(f"{peer.arguments[0]} {json.dumps(message)}".encode())
    (MODES["ok"].get(message["method"]) or refuse)(peer, message)


def garbage(peer: Peer, lines: int) -> None:
    for number in range(lines):
        peer.raw(f"{BANNER} {number}".encode())


@on("bigline", "tools/call")
def bigline(peer: Peer, request: Message) -> None:
    """An answer of the size that the argument `bytes` names, in one line."""
    size = arguments_of(request).get("bytes", 0)
    out = sys.stdout.buffer
    out.write(
        f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{{"content":[{{"type":"text","text":"'.encode()
    )
    for _ in range(size // 65_536):
        out.write(b"x" * 65_536)
    out.write(b'"}]}}\n')
    out.flush()


@on("drip", "tools/call")
def drip(peer: Peer, request: Message) -> None:
    os.write(1, f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},"result":{{"content":['.encode())
    while True:
        os.write(1, b" " * arguments_of(request).get("bytes", 1))
        time.sleep(0.02)


@on("stderrflood", "tools/call")
def stderrflood(peer: Peer, request: Message) -> None:
    line = b"e" * 99 + b"\n"
    for _ in range(arguments_of(request).get("bytes", 0) // 100_000):
        os.write(2, line * 1000)
    echo(peer, request)


@on("close_stdout", "tools/call")
def close_stdout(peer: Peer, request: Message) -> None:
    os.close(1)
    sleep_for_ever()


@on("no_read", "tools/list")
def no_read(peer: Peer, request: Message) -> None:
    """`daemon`: it has left one behind."""
    if "daemon" in peer.arguments:
        leave_behind(start_new_session=True)
    list_tools(peer, request)
    sleep_for_ever()


@on("request_flood", "tools/list")
def request_flood(peer: Peer, request: Message) -> None:
    """It asks and asks, and reads no answer."""
    list_tools(peer, request)
    for first in range(0, int(peer.arguments[0]), 100):
        lines = (b'{"jsonrpc":"2.0","id":"%01000d","method":"ping"}\n' % number for number in range(first, first + 100))
        os.write(1, b"".join(lines))
    peer.log("flooded")
    sleep_for_ever()


# -- chatter KIND: short messages without end, as many as fit in one read, before each answer

CHATTER: dict[str, bytes] = {
    "empty": b"",
    "scalar": b"1",
    "noise": b"x",
    "ping": b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
    "notice": b'{"jsonrpc":"2.0","method":"x"}',
    "changed": b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
    "log": b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}',
    "progress": b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1}}',
    "stray": b'{"jsonrpc":"2.0","id":1,"result":{}}',
    "question": b'{"jsonrpc":"2.0","id":"N","method":"roots/list"}',
    "cancelled": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
}


@on("chatter", "tools/call")
def chatter(peer: Peer, request: Message) -> None:
    line = CHATTER[peer.arguments[0]].replace(b"ID", json.dumps(request["id"]).encode()) + b"\n"
    for number in range(4):
        data = b"".join(line.replace(b"N", b"%d-%d" % (number, n)) for n in range(262_144 // len(line)))
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    echo(peer, request)


# -- costly KIND COUNT: legal definitions that take long to handle, twenty to a page


@on("costly", "tools/list")
def costly(peer: Peer, request: Message) -> None:
    from costly_tools import tools  # noqa: PLC0415 -- `launch.py` runs this as a module of its folder

    first = int(request["params"].get("cursor", 0))
    found = tools(peer.arguments[0], int(peer.arguments[1]))
    after = {"nextCursor": str(first + 20)} if first + 20 < len(found) else {}
    peer.answer(request, {"tools": found[first : first + 20], **after})


# -- flood KIND: messages without end once it is called; it answers nothing from then on

_LOG = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"DATA"}}'
FLOODS: dict[str, bytes] = {
    "unknown": b'{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1}}',
    "log": _LOG.replace(b"DATA", b"d" * 200),
    "large_log": _LOG.replace(b"DATA", b"d" * 200_000),
    "surrogate": _LOG.replace(b"DATA", b"\\ud800"),
    "large_surrogate": _LOG.replace(b"DATA", b"\\ud800" * 40_000),
    "progress": b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":N}}',
    "changed": b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
}


@on("flood", "tools/call")
def flood(peer: Peer, request: Message) -> None:
    peer.log("flooding")
    line = FLOODS[peer.arguments[0]].replace(b"ID", json.dumps(request["id"]).encode()) + b"\n"
    data = line * (1 + 65_536 // len(line))
    number = 0
    while True:
        number += 1
        sys.stdout.buffer.write(data.replace(b"N}", b"%d}" % number))


# -- leak KIND: it repeats its own secret, the variable TOKEN, where it can

LEAKS: dict[str, Callable[[Message, str], bytes | Message]] = {
    "message": lambda _, token: {"error": {"code": -1, "message": f"bad key {token}"}},
    "json": lambda _, token: {"error": {"code": -1, "message": f"refused {json.dumps({'key': token})}"}},
    "line": lambda _, token: {"error": {"code": -1, "message": f"bad line {token.splitlines()[1]}"}},
    "jsonrpc": lambda request, token: json.dumps({"jsonrpc": token, "id": request["id"], "result": {}}).encode(),
    "noise": lambda _, token: b"n" * 190 + token.encode().replace(b"\n", b" "),
}


@on("leak", "initialize")
def leak_at_start(peer: Peer, request: Message) -> None:
    if peer.arguments[0] != "version":
        return initialize(peer, request)
    return peer.answer(request, {"protocolVersion": os.environ["TOKEN"], "capabilities": {}})


@on("leak", "tools/call")
def leak(peer: Peer, request: Message) -> None:
    leaked = LEAKS[peer.arguments[0]](request, os.environ["TOKEN"])
    if isinstance(leaked, dict):
        return peer.send(id=request["id"], **leaked)
    peer.raw(leaked)
    return echo(peer, request)


# -- malformed answers, one per tool name; ID stands for the id of the request

MALFORMED: dict[str, bytes] = {
    "wrong_version": b'{"jsonrpc":"1.0","id":ID,"result":{"content":[]}}',
    "no_version": b'{"id":ID,"result":{"content":[]}}',
    "no_id": b'{"jsonrpc":"2.0","result":{"content":[]}}',
    "null_id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
    "both": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[]},"error":{"code":1,"message":"x"}}',
    "neither": b'{"jsonrpc":"2.0","id":ID}',
    "float_id": b'{"jsonrpc":"2.0","id":ID.5,"result":{"content":[]}}',
    "object_id": b'{"jsonrpc":"2.0","id":{"a":ID},"result":{"content":[]}}',
    "deep": b'{"jsonrpc":"2.0","id":ID,"result":{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
    "long_int": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"n":' + b"9" * 5000 + b"}}",
    "bad_utf8": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"\xff\xfe"}]}}',
    "truncated": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[',
    "array": b'[{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}]',
    "result_is_string": b'{"jsonrpc":"2.0","id":ID,"result":"fine"}',
    "result_is_null": b'{"jsonrpc":"2.0","id":ID,"result":null}',
    "error_is_string": b'{"jsonrpc":"2.0","id":ID,"error":"no"}',
    "error_code_is_string": b'{"jsonrpc":"2.0","id":ID,"error":{"code":"x","message":5}}',
    "not_a_number": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[],"n":NaN}}',
    "two_values": b'{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}{"jsonrpc":"2.0"}',
    "single_quotes": b"{'jsonrpc':'2.0','id':ID,'result':{}}",
}
TEXTS: dict[str, bytes] = {
    "surrogate": b"half \\ud83d emoji",
    "two_halves": b"\\udc00\\ud800",
    "whole": b"\\ud83d\\ude42",
    "nul": b"a\\u0000b",
    "separator": "a\u2028b\u2029c".encode(),
}


@on("malformed", "tools/call")
def malformed(peer: Peer, request: Message) -> None:
    """The tool `raw` sends the line that its argument holds."""
    line = MALFORMED.get(called(request)) or arguments_of(request).get("line", "").encode("latin-1")
    if not line:
        return echo(peer, request)
    return peer.raw(line.replace(b"ID", json.dumps(request["id"]).encode()))


@on("texts", "tools/call")
def texts(peer: Peer, request: Message) -> None:
    identity = json.dumps(request["id"]).encode()
    text = TEXTS[called(request)]
    peer.raw(b'{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}' % (identity, text))


TOOLS["malformed"] = ("echo", "raw", *MALFORMED)
TOOLS["texts"] = tuple(TEXTS)


# -- answers that nobody asked for: twice, to a future id, to an unknown id; answers to another call


@on("replies", "tools/call")
def replies(peer: Peer, request: Message) -> None:
    number = request["id"] if isinstance(request["id"], int) else 0
    if called(request) == "future":
        for ahead in range(1, 50):
            peer.send(id=number + ahead, result={"content": [{"type": "text", "text": "forged"}]})
    if called(request) == "unknown":
        peer.send(id="nobody asked", result={"content": [{"type": "text", "text": "forged"}]})
    echo(peer, request)
    if called(request) == "twice":
        peer.say(request, "forged")


TOOLS["replies"] = ("echo", "twice", "future", "unknown")


@on("swap", "tools/call")
def swap(peer: Peer, request: Message) -> None:
    """It answers calls in pairs, each with what the other one is to hear."""
    peer.owed.append(request)
    if len(peer.owed) == 2:
        one, other = peer.owed
        peer.owed = []
        for mine, theirs in ((one, other), (other, one)):
            peer.say(mine, str(arguments_of(theirs).get("nonce")))


# -- processes: grandchild, daemon, orphans, lock FILE SECONDS, hog, ignore_eof, slow_eof SECONDS,
# -- ignore_sigterm (and end of file), clobber (too)


def leave_behind(**options: Any) -> int:
    import subprocess  # noqa: PLC0415 -- a fifth of the time of a start

    quiet: Message = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    return subprocess.Popen([sys.executable, "-SE", "-c", "import time; time.sleep(600)"], **quiet | options).pid


@on("grandchild", "tools/call")
def grandchild(peer: Peer, request: Message) -> None:
    """With the argument `bare` it inherits nothing of the environment."""
    environment = {"env": {}} if arguments_of(request).get("bare") else {}
    peer.say(request, str(leave_behind(**environment)))


def leave_hidden(seconds: float) -> int:
    """Something that left our group and has no environment, and whose parent is gone; it ends after `seconds`."""
    come, go = os.pipe()
    if (middle := os.fork()) == 0:
        os.setsid()
        if (pid := os.fork()) != 0:
            os.write(go, str(pid).encode())
            os._exit(0)
        for number in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        os.execve(sys.executable, [sys.executable, "-SE", "-c", f"import time; time.sleep({seconds})"], {})  # noqa: S606
    os.waitpid(middle, 0)
    pid = int(os.read(come, 20))
    os.close(come)
    os.close(go)
    return pid


@on("daemon", "tools/call")
def daemon(peer: Peer, request: Message) -> None:
    """With the argument `hidden`, a number of seconds, nothing tells whose it is."""
    if (seconds := arguments_of(request).get("hidden")) is not None:
        peer.say(request, str(leave_hidden(seconds)))
    else:
        peer.say(request, str(leave_behind(start_new_session=True)))


@on("orphans", "tools/call")
def orphans(peer: Peer, request: Message) -> None:
    """`leave`: it is gone, and something that it started has its stderr."""
    echo(peer, request)
    if called(request) == "leave":
        leave_behind(stderr=None)
        sys.exit(0)


TOOLS["orphans"] = ("echo", "leave")


@on("lock", "start")
def lock(peer: Peer, _: Message) -> None:
    """Only one of it can run at a time."""
    import fcntl  # noqa: PLC0415 -- only here

    peer.owed.append({"lock": os.open(peer.arguments[0], os.O_WRONLY | os.O_CREAT, 0o600)})
    try:
        fcntl.flock(peer.owed[0]["lock"], fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit("another one is running")


@on("lock", "eof")
def unlock(peer: Peer, _: Message) -> None:
    time.sleep(float(peer.arguments[1]))


@on("hog", "start")
def limited(peer: Peer, _: Message) -> None:
    """As a user limits what a server may take, so that the machine lives."""
    import resource  # noqa: PLC0415 -- only here

    resource.setrlimit(resource.RLIMIT_AS, (256 * 1024 * 1024,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@on("hog", "tools/call")
def hog(peer: Peer, request: Message) -> None:
    """`eat` takes memory until there is none; `fork` starts `count` processes that heed no hint."""
    if called(request) == "eat":
        peer.owed = [{"x": bytearray(1024 * 1024)} for _ in range(10_000)]
    for _ in range(arguments_of(request).get("count", 20) if called(request) == "fork" else 0):
        if os.fork() == 0:
            ignore_sigterm(peer, request)
            sleep_for_ever()
    echo(peer, request)


TOOLS["hog"] = ("echo", "fork", "eat")


@on("ignore_eof", "eof")
def ignore_eof(peer: Peer, _: Message) -> None:
    sleep_for_ever()


@on("slow_eof", "eof")
def slow_eof(peer: Peer, _: Message) -> None:
    """It takes its time to save its state; only after that it logs its exit."""
    peer.log("eof")
    time.sleep(float(peer.arguments[0]))


@on("ignore_sigterm", "start")
def ignore_sigterm(peer: Peer, _: Message) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


on("ignore_sigterm", "eof")(ignore_eof)


@on("clobber", "start")
def clobber(peer: Peer, message: Message) -> None:
    """Overwrite the environment block, as programs do that set their title."""
    import ctypes  # noqa: PLC0415 -- slow to import

    with open("/proc/self/stat", encoding="utf-8") as file:  # noqa: PTH123 -- stdlib peer
        first, end = map(int, file.read().rpartition(")")[2].split()[47:49])
    ctypes.memset(first, 0, end - first)
    ignore_sigterm(peer, message)


on("clobber", "eof")(ignore_eof)


# -- names_of FILE, shelf FILE [WAY], impostor NAME, modern_impostor NAME, crowd, says, refuses METHOD: names, numbers
# -- and texts of a test


@on("names_of", "start")
def names_of(peer: Peer, _: Message) -> None:
    """Its tools are those that the file lists."""
    with open(peer.arguments[0], encoding="utf-8") as file:  # noqa: PTH123 -- stdlib peer
        peer.tools = [tool(name) for name in json.load(file)]


@on("shelf", "tools/list")
def shelf(peer: Peer, request: Message) -> None:
    """`shelf FILE [WAY]`: its tools are the definitions in the file, as it is when they are asked for."""
    peer.answer(request, {"tools": on_shelf(peer)})


@on("shelf", "tools/call")
def from_shelf(peer: Peer, request: Message) -> None:
    """A tool that is not in the file is refused with an error, or where WAY is `result` with a result."""
    name = called(request)
    if any(one["name"] == name for one in on_shelf(peer)):
        MODES["ok"]["tools/call"](peer, request)
    elif peer.arguments[1:] == ["result"]:
        peer.say(request, f"Unknown tool: {name}", isError=True)
    else:
        peer.send(id=request["id"], error={"code": -32602, "message": f"Unknown tool: {name}"})


def on_shelf(peer: Peer) -> list[Message]:
    with open(peer.arguments[0], encoding="utf-8") as file:  # noqa: PTH123 -- stdlib peer
        return json.load(file)


@on("impostor", "initialize")
def impostor(peer: Peer, request: Message) -> None:
    peer.answer(
        request,
        {
            "protocolVersion": request["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": peer.arguments[0], "title": peer.arguments[0], "version": "1"},
        },
    )


MODES["modern_impostor"] = dict(MODES["modern"], start=nothing)


@on("modern_impostor", "server/discover")
def modern_impostor(peer: Peer, request: Message) -> None:
    info = {"name": peer.arguments[0], "title": peer.arguments[0], "version": "1"}
    meta = {"io.modelcontextprotocol/serverInfo": info}
    capabilities: Message = {"tools": {}}
    peer.answer(request, {"supportedVersions": [MODERN], "capabilities": capabilities, "_meta": meta})


@on("crowd", "start")
def crowd(peer: Peer, _: Message) -> None:
    """A thread answers call by call, each with how many there were at once, at most, so far."""
    import threading  # noqa: PLC0415 -- slow to import

    def answer_all() -> None:
        while True:
            time.sleep(0.001)  # so that those that are allowed to can come
            if peer.owed:
                peer.say(peer.owed.pop(0), str(MOST[0]))

    threading.Thread(target=answer_all, daemon=True).start()


@on("crowd", "tools/call")
def join_crowd(peer: Peer, request: Message) -> None:
    peer.owed.append(request)
    MOST[0] = max(MOST[0], len(peer.owed))


MOST = [0]


@on("says", "tools/call")
def says(peer: Peer, request: Message) -> None:
    """The tool is where it is said, the argument `text` what; where that ends no call, the call is echoed."""
    text = arguments_of(request)["text"]
    match called(request):
        case "stderr":
            os.write(2, text.encode() + b"\n")
        case "noise":
            peer.raw(text.replace("\n", "\r").encode())
        case "notice":
            peer.send(method=text, params={})
        case "question":
            peer.send(id=text, method=text)
        case "stray":
            peer.send(id=text, result={})
        case "error":
            return peer.send(id=request["id"], error={"code": -1, "message": text})
        case "version":
            return peer.raw(json.dumps({"jsonrpc": text, "id": request["id"], "result": {}}).encode())
        case "exit":
            os.write(2, text.encode())
            sys.exit(3)
    return echo(peer, request)


@on("refuses", "initialize", "tools/list")
def refuses(peer: Peer, request: Message) -> None:
    """The method that the argument names, with a long text and its own secret, the variable TOKEN."""
    if request["method"] == peer.arguments[0]:
        text = f"bad key {os.environ['TOKEN']} " + "x" * 100_000
        return peer.send(id=request["id"], error={"code": -1, "message": text})
    return MODES["ok"][request["method"]](peer, request)


TOOLS["says"] = SAYS = ("stderr", "noise", "notice", "question", "stray", "error", "version", "exit")


# -- spill [EVENT [FILE]]: it says the text that a call gives it (`text`, or the value of `variable`) where the tool's
# -- name says. With an EVENT it does so by itself, in its first steps, with the text in FILE, or with its environment


def text_to_spill(peer: Peer, request: Message) -> str:
    given = arguments_of(request) if request else {}
    if "variable" in given:
        return os.environ[given["variable"]]
    if "text" in given:
        return str(given["text"])
    if len(peer.arguments) > 1:
        with open(peer.arguments[1], encoding="utf-8") as file:  # noqa: PTH123 -- stdlib peer
            return file.read()
    return repr(dict(os.environ))


def spill_stderr(text: str) -> None:
    os.write(2, os.fsencode(text) + b"\n")


def spill_and_die(text: str) -> None:
    raise RuntimeError(text)


SPILLS: dict[str, Callable[[str], Any]] = {"stderr": spill_stderr, "exit": sys.exit, "exception": spill_and_die}
"""Beside the protocol."""
ANSWERS: dict[str, Callable[[str], Message]] = {
    "message": lambda text: {"error": {"code": -32050, "message": text}},
    "data": lambda text: {"error": {"code": -32050, "message": "no", "data": {"detail": [text]}}},
    "no_error": lambda text: {"error": text},
    "no_object": lambda text: {"result": text},
    "jsonrpc": lambda text: {"jsonrpc": text, "result": {}},
    "neither": lambda text: {"x": text},
    "complaint": lambda text: {"id": None, "error": {"code": -32700, "message": text}},
    "stray": lambda text: {"id": text, "result": {}},
    "method": lambda text: {"id": "q", "method": text},
    "notice": lambda text: {"id": None, "method": text, "params": text},
}
"""Instead of an answer."""


@on("spill", "tools/call")
def spill(peer: Peer, request: Message) -> None:
    place, text = called(request), text_to_spill(peer, request)
    if place in ANSWERS:
        peer.raw(json.dumps({"jsonrpc": "2.0", "id": request["id"]} | ANSWERS[place](text)).encode())
    elif place == "raw":
        peer.raw(text.replace("@ID@", json.dumps(request["id"])).encode())
    elif place in SPILLS:
        SPILLS[place](text)
    if place in {"stderr", "stray", "method", "notice", "echo"}:
        echo(peer, request)


@on("spill", "start")
def spill_at_start(peer: Peer, _: Message) -> None:
    event = peer.arguments[0] if peer.arguments else ""
    text = text_to_spill(peer, {})
    if event in SPILLS:
        SPILLS[event](text)
        sys.exit(3)
    if event == "noise":
        peer.raw(text.replace("\n", " ").encode("utf-8", "replace"))
    peer.tools = [tool(name) for name in ("echo", "raw", *SPILLS, *ANSWERS)]
    if event == "withheld":
        large = {"d": (text * 100)[:500_000]}
        peer.tools += [tool("twice", description=text), tool("twice"), tool("large", inputSchema=large)]


FIRST_ANSWERS: dict[tuple[str, str], Callable[[str], Message]] = {
    ("initialize", "version"): lambda text: {"result": {"protocolVersion": text, "capabilities": {}}},
    ("initialize", "refused"): lambda text: {"error": {"code": -32050, "message": text, "data": text}},
    ("tools/list", "list"): lambda text: {"error": {"code": -32050, "message": text, "data": text}},
    ("tools/list", "cursor"): lambda text: {"result": {"tools": [], "nextCursor": text}},
}


@on("spill", "initialize", "tools/list")
def spill_first(peer: Peer, request: Message) -> None:
    event = peer.arguments[0] if peer.arguments else ""
    if (spilled := FIRST_ANSWERS.get((request["method"], event))) is not None:
        return peer.send(id=request["id"], **spilled(text_to_spill(peer, {})))
    return MODES["ok"][request["method"]](peer, request)


def main() -> None:
    Peer(sys.argv[1], sys.argv[2:]).run()


if __name__ == "__main__":
    main()
