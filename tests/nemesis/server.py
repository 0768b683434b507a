"""One of the servers of a run. Standard library only, so it starts fast.

    server.py NAME OPTIONS

OPTIONS is an object of JSON: `log` (where it writes what it gets), `calm` (a file; once it is there no start
fails), `starts` (a file that counts them), `seed`, `flap` (how many of its starts fail, 0 to 1), `delay` (of its
start, in seconds), `modern`, `stubborn` (ends neither by EOF nor by SIGTERM, and starts a process that left its group),
`noisy` (writes a banner to stdout and stderr), `twins` (lists two tools under one name), `references` (lists tools
whose schemas have so many references).

Each tool is a way to behave; each result carries the nonce of its call.
"""

# ruff: noqa: ARG001, PTH110, S311 -- tools share one signature; it starts fast; luck is no secret

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
Tool = Callable[[Message, Message], None]

VERSION = "2026-07-28"
NAME = sys.argv[1]
OPTIONS: Message = json.loads(sys.argv[2])
LOG = os.open(OPTIONS["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
TOOLS: dict[str, Tool] = {}
WRITING = threading.Lock()
CANCELLED: set[Any] = set()


def log(kind: str, **fields: Any) -> None:
    event = {"kind": kind, "at": time.monotonic(), "server": NAME, "pid": os.getpid(), **fields}
    os.write(LOG, json.dumps(event).encode() + b"\n")


def put(line: bytes) -> None:
    with WRITING:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def send(**message: Any) -> None:
    put(json.dumps({"jsonrpc": "2.0", **message}).encode())


def answer(request: Message, **result: Any) -> None:
    send(id=request["id"], result={"resultType": "complete", **result} if OPTIONS.get("modern") else result)


def say(request: Message, text: str, **fields: Any) -> None:
    answer(request, content=[{"type": "text", "text": text}], **fields)


def tool(function: Tool) -> Tool:
    TOOLS[function.__name__] = function
    return function


# -- tools


@tool
def echo(request: Message, given: Message) -> None:
    say(request, given["nonce"])


@tool
def slow(request: Message, given: Message) -> None:
    """It answers `seconds` later, whether somebody still waits or not."""
    threading.Timer(given["seconds"], lambda: echo(request, given)).start()


@tool
def report(request: Message, given: Message) -> None:
    """Progress for `seconds`, then an answer."""
    threading.Thread(target=lambda: tell(request, given, given["seconds"]) and echo(request, given)).start()


@tool
def endless(request: Message, given: Message) -> None:
    """Progress until it is cancelled."""
    threading.Thread(target=lambda: tell(request, given, 30)).start()


@tool
def hang(request: Message, given: Message) -> None:
    """It is never answered; others are."""


@tool
def freeze(request: Message, given: Message) -> None:
    """Nothing is read and nothing is answered any more."""
    time.sleep(600)


@tool
def crash(request: Message, given: Message) -> None:
    sys.stderr.write("the disk is on fire\n")
    sys.stderr.flush()
    os._exit(3)


@tool
def shout(request: Message, given: Message) -> None:
    """`count` lines to stderr, then an answer."""
    for start in range(0, given["count"], 1000):
        sys.stderr.write("a line that nobody reads, of some length\n" * min(1000, given["count"] - start))
    sys.stderr.flush()
    echo(request, given)


@tool
def babble(request: Message, given: Message) -> None:
    """`count` lines that are no messages, then an answer."""
    put(b"\n".join([b"this is no message"] * given["count"]))
    echo(request, given)


@tool
def large(request: Message, given: Message) -> None:
    """`count` bytes in one answer."""
    say(request, f"{given['nonce']} {'x' * given['count']}")


@tool
def clamour(request: Message, given: Message) -> None:
    """`count` notifications of several kinds, then an answer."""
    said = {"level": "error", "data": "nobody asked " * 8}
    for number in range(given["count"]):
        method = ("notifications/message", "notifications/unheard", "notifications/tools/list_changed")[number % 3]
        send(method=method, params=said if number % 3 == 0 else {})
    echo(request, given)


@tool
def twice(request: Message, given: Message) -> None:
    """Two answers to one call."""
    echo(request, given)
    echo(request, given)


@tool
def fails(request: Message, given: Message) -> None:
    say(request, f"no: {given['nonce']}", isError=True)


@tool
def refuses(request: Message, given: Message) -> None:
    send(id=request["id"], error={"code": -32001, "message": f"no: {given['nonce']}"})


@tool
def forbidden(request: Message, given: Message) -> None:
    echo(request, given)


def tell(request: Message, given: Message, seconds: float) -> bool:
    """Progress until the time is over; whether nobody cancelled it."""
    token = request["params"].get("_meta", {}).get("progressToken")
    end = time.monotonic() + seconds
    step = 0
    while time.monotonic() < end and request["id"] not in CANCELLED:
        step += 1
        if token is not None:
            params = {"progressToken": token, "progress": step, "message": given["nonce"]}
            send(method="notifications/progress", params=params)
        time.sleep(0.3)
    return request["id"] not in CANCELLED


# -- the protocol


def listed() -> list[Message]:
    names = [*TOOLS, *(["twin", "twin"] if OPTIONS.get("twins") else [])]
    plain = [{"name": name, "description": f"It can {name}.", "inputSchema": {"type": "object"}} for name in names]
    return [*plain, *hostile(OPTIONS.get("references", 0))]


def hostile(references: int) -> list[Message]:
    """Definitions that are legal, and much work for who resolves every reference again."""
    if not references:
        return []
    inner = {f"p{number}": {"$ref": f"#/$defs/d{number % 50}"} for number in range(references)}
    defs = {
        f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{(number + step) % 50}"} for step in (1, 7)]}
        for number in range(50)
    }
    schema = {"type": "object", "properties": inner, "$defs": defs}
    return [{"name": f"tangle{number}", "description": "It tangles.", "inputSchema": schema} for number in range(16)]


def handle(message: Message) -> None:
    method, params = message.get("method"), message.get("params") or {}
    if method == "notifications/cancelled":
        CANCELLED.add(params.get("requestId"))
    elif "id" not in message:
        return
    elif method == "tools/call":
        call(message, params)
    elif method == "tools/list":
        answer(message, tools=listed(), **({"ttlMs": 0, "cacheScope": "private"} if OPTIONS.get("modern") else {}))
    elif method == "ping":
        answer(message)
    elif method == ("server/discover" if OPTIONS.get("modern") else "initialize"):
        greet(message, params)
    else:
        send(id=message["id"], error={"code": -32601, "message": f"unknown method {method}"})


def greet(message: Message, params: Message) -> None:
    info = {"name": NAME, "version": "1"}
    if OPTIONS.get("modern"):
        meta = {"io.modelcontextprotocol/serverInfo": info}
        hints = {"ttlMs": 0, "cacheScope": "private", "_meta": meta}
        answer(message, supportedVersions=[VERSION], capabilities={"tools": {}}, **hints)
    else:
        answer(message, protocolVersion=params["protocolVersion"], capabilities={"tools": {}}, serverInfo=info)


def call(request: Message, params: Message) -> None:
    given = params.get("arguments") or {}
    log("delivered", tool=params["name"], nonce=str(given.get("nonce", "")))
    TOOLS.get(params["name"], refuses)(request, {"nonce": "", **given})


# -- its life


def start() -> None:
    log("started")
    count = os.open(OPTIONS["starts"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(count, b".")
    number = os.lseek(count, 0, os.SEEK_CUR)
    os.close(count)
    luck = random.Random(f"{OPTIONS['seed']}:{NAME}:{number}").random()
    if luck < OPTIONS.get("flap", 0) and not os.path.exists(OPTIONS["calm"]):
        sys.exit("not today")
    if OPTIONS.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        quiet = subprocess.DEVNULL
        subprocess.Popen(["sleep", "600"], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    if OPTIONS.get("noisy"):
        put(b"Welcome to \x1b[1mthe server\x1b[0m!\nhttp://localhost:1234")
        sys.stderr.write("starting\n" * 100)
    time.sleep(OPTIONS.get("delay", 0))


def main() -> None:
    start()
    for line in sys.stdin.buffer:
        handle(json.loads(line))
    log("stopped")
    while OPTIONS.get("stubborn"):
        time.sleep(60)
    os._exit(0)  # threads may still want to answer


if __name__ == "__main__":
    main()
