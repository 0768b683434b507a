"""Answers `initialize` or `server/discover` before the event loop is loaded.

Importing asyncio takes longer than the rest of the start. A client's first request usually arrives before that, and its
answer depends only on the configuration, so it is sent at once, by the same functions as later. All other input is kept
for the session. The standard streams are reserved for the protocol: what a library prints goes to stderr.
"""

from __future__ import annotations

import os
import select
from typing import Any, Final, NamedTuple

from msgspec import UNSET, Raw

from mcp_workbench.config.model import Config
from mcp_workbench.serve.callers import Callers
from mcp_workbench.surfaces.server_info import EVERYTHING, ServerInfo, View, static_info
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import Caller

AUDIENCE_BYTES = 8
"""Random bytes that identify a client of this process."""
GREETING_BYTES = 32 * 1024
"""The largest answer that is written before the event loop runs: half the size of an empty pipe."""
FIRST_READ_BYTES = 256 * 1024
"""How much input is read at once: more than a first request needs."""
LIST_TTL_MS = 3_600_000
"""How long a modern client may cache a list that can't change while we run."""

COMPLETE: Final[dict[str, Any]] = {"resultType": "complete", "_meta": {eras.SERVER_INFO: eras.SELF}}


class Greeting(NamedTuple):
    """The state after the early answer: the client's callers, and its input that is not answered yet."""

    callers: Callers
    unread: bytes = b""


def greet(config: Config, source: int, sink: int, *, view: View = EVERYTHING) -> Greeting:
    """Answer the first request if it has arrived and depends only on the configuration. Never blocks."""
    callers = new_callers(view)
    if view.toolbox or config.tool_mode == "dynamic":  # these answers depend on the servers or on the catalog
        return Greeting(callers)
    received = _read_available(source)
    line, ended, rest = received.partition(b"\n")
    answer = _answer(config, callers, line) if ended else None
    if answer is None or not _write(sink, answer):
        return Greeting(new_callers(view), received)
    return Greeting(callers, rest)


def new_callers(view: View, principal: str = "local") -> Callers:
    """The callers of a new client, with an audience of its own."""
    return Callers(os.urandom(AUDIENCE_BYTES).hex(), view, principal)


def initialize_result(caller: Caller, info: ServerInfo) -> Raw:
    """The result of `initialize`."""
    result: dict[str, Any] = {
        **info.others,
        "protocolVersion": caller.version,
        "capabilities": info.capabilities,
        "serverInfo": info.server_info,
    }
    return Raw(jsonrpc.encode(result | _instructions(info)))


def discover_result(info: ServerInfo) -> Raw:
    """The result of `server/discover`."""
    result: dict[str, Any] = {
        "supportedVersions": list(eras.MODERN_VERSIONS),
        "capabilities": info.capabilities,
        "ttlMs": LIST_TTL_MS,
        "cacheScope": "private",
        **info.others,
        "resultType": "complete",
        "_meta": {**jsonrpc.members(info.others.get("_meta")), eras.SERVER_INFO: info.server_info},
    }
    return Raw(jsonrpc.encode(result | _instructions(info)))


def _instructions(info: ServerInfo) -> dict[str, Any]:
    return {"instructions": info.instructions} if info.instructions else {}


def _read_available(source: int) -> bytes:
    """Read without blocking. Terminals are not read: they report the end of input only once."""
    if os.isatty(source):
        return b""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    if not any(state & select.POLLIN for _, state in poll.poll(0)):
        return b""
    try:
        return os.read(source, FIRST_READ_BYTES)
    except OSError:
        return b""


def _answer(config: Config, callers: Callers, line: bytes) -> bytes | None:
    """The answer to `initialize` or `server/discover`; None for anything else, including errors."""
    try:
        message = jsonrpc.read(line)
        if message.method not in ("initialize", "server/discover") or message.id is UNSET or message.id is None:
            return None
        caller = callers.of(message.method, message.params, jsonrpc.members(message.params.get("_meta")))
    except (jsonrpc.Unreadable, jsonrpc.RpcError):
        return None
    if caller.modern == (message.method == "initialize"):
        return None
    info = static_info(config)
    if caller.modern:
        return jsonrpc.Envelope(discover_result(info), message.id).line
    return jsonrpc.Envelope(initialize_result(caller, info), message.id).line


def _write(sink: int, answer: bytes) -> bool:
    """Write the answer if it certainly fits into an empty pipe. Returns whether it was written."""
    if len(answer) >= GREETING_BYTES:
        return False
    try:
        return os.write(sink, answer + b"\n") == len(answer) + 1
    except OSError:
        return False


def claim_standard_streams() -> tuple[int, int]:
    """Duplicate stdin and stdout for the client; then 0 becomes /dev/null and 1 becomes stderr."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):  # replace closed ones
        try:
            os.fstat(standard)
        except OSError:
            os.dup2(null, standard)
    source, sink = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return source, sink
