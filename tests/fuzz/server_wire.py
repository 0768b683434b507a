"""INVARIANT: whatever bytes a server sends, every request to it has one outcome, by its deadline at the latest.

A good answer that follows is delivered, unless the connection was ended with a fault that says why.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from msgspec import Raw

from mcp_workbench.config.model import Launch
from mcp_workbench.errors import CallTimeout, Fault, MessageTooLarge, ProtocolViolation, ServerExited
from mcp_workbench.servers.stdio import StdioChannel
from mcp_workbench.wire.jsonrpc import RpcError, encode
from tests.fuzz.clock import run
from tests.fuzz.corpus import pack
from tests.fuzz.puppets import ID, SMALL, Puppet, chunks, same, settle, strung

CALLS = 3
DEADLINES: tuple[dict[str, float], ...] = (
    {"idle_seconds": 3, "hard_seconds": 9},
    {"hard_seconds": 6},
    {"idle_seconds": 5, "hard_seconds": 9},
)
LONGEST_SECONDS = 9
AFTERWARDS = b'{"good":true}'


class Silent(Puppet):
    """Says nothing by itself."""

    def _reply(self, method: str) -> bytes:
        del method
        return b""


class Listener:
    """Takes what the server starts: every request is answered, or refused."""

    def __init__(self) -> None:
        self.notifications = 0

    def notification(self, method: str, params: dict[str, Raw], owner: object) -> None:
        del method, params, owner
        self.notifications += 1

    async def request(self, method: str, params: dict[str, Raw], owner: object) -> Raw:
        del owner
        if method.startswith("no"):
            raise RpcError(-32601, "no")
        await asyncio.sleep(1)
        return Raw(encode(params))


def check(case: dict[str, Any]) -> dict[str, Any]:
    """`stream` are the bytes, in pieces that `cuts` make. How each call ended, and why the connection did."""
    return run(_scene(pack(case["stream"]), case.get("cuts", [])))


async def _scene(stream: bytes, cuts: list[int]) -> dict[str, Any]:
    loop = asyncio.get_running_loop()
    puppet = Silent("a")
    channel = await StdioChannel.open(strung({"a": puppet}), Launch(command="a"), "dev/a", SMALL)
    channel.listen(Listener())
    progress: list[dict[str, Raw]] = []
    calls = [
        asyncio.ensure_future(channel.peer.request(f"m{n}", {}, progress.append, **DEADLINES[n])) for n in range(CALLS)
    ]
    await settle()
    ids = [message["id"] for message in puppet.heard]
    assert len(set(ids)) == CALLS
    for n, id_ in enumerate(ids):
        stream = stream.replace(str(ID + n).encode(), str(id_).encode())
    for chunk in chunks(stream, cuts):
        puppet.say(chunk)
        await puppet.said()
        await settle(3)
    await settle()
    await _try_one_more(channel, puppet, calls)
    await asyncio.wait(calls, timeout=LONGEST_SECONDS)
    assert loop.time() < LONGEST_SECONDS + 6
    assert all(call.done() for call in calls)
    for call, id_ in zip(calls, ids, strict=True):
        _check_outcome(call, id_, stream, channel)
    _check_answers(puppet, stream, channel)
    ended = channel.ended.result().code if channel.ended.done() else None
    await channel.close()
    return {"outcomes": [outcome_of(call) for call in calls], "ended": ended}


def outcome_of(call: asyncio.Future[Raw]) -> str:
    """The result as text, or the code of the fault."""
    error = call.exception()
    return error.code if isinstance(error, Fault) else bytes(call.result()).decode()


async def _try_one_more(channel: StdioChannel, puppet: Puppet, calls: list[asyncio.Future[Raw]]) -> None:
    """A request that is made now is answered, unless the connection is over, which every call knows then."""
    is_over = channel.ended.done()
    if is_over:
        assert isinstance(channel.ended.result(), (ProtocolViolation, MessageTooLarge))
        assert all(call.done() for call in calls)
    more = asyncio.ensure_future(channel.peer.request("more", {}, hard_seconds=5))
    await settle()
    sent = puppet.asked("more")
    assert len(sent) == (not is_over)
    if sent:
        puppet.say(b'\n{"jsonrpc":"2.0","id":%d,"result":%s}\n' % (sent[0]["id"], AFTERWARDS))
    await asyncio.wait((more,), timeout=5)
    if more.exception() is None:
        assert bytes(more.result()) == AFTERWARDS
    else:  # The line break that came first made a message of what was unfinished.
        assert isinstance(channel.ended.result(), (ProtocolViolation, MessageTooLarge))


def _check_outcome(call: asyncio.Future[Raw], id_: int, stream: bytes, channel: StdioChannel) -> None:
    outcome: Any = call.exception() or call.result()
    assert isinstance(outcome, (Raw, Fault)), outcome
    assert not isinstance(outcome, ServerExited)
    if channel.ended.done():
        return
    expected = _first_word(stream, id_)
    if expected is None:
        assert isinstance(outcome, CallTimeout)
    elif "result" in expected:
        assert isinstance(outcome, Raw), outcome
        assert json.loads(bytes(outcome)) == expected["result"]
    elif "error" in expected:
        assert isinstance(outcome, Fault)
        assert outcome.code == "server_refused"


def _first_word(stream: bytes, id_: int) -> dict[str, Any] | None:
    """The first message about a request: None if there is none, {} if it is no plain answer."""
    for line in stream.split(b"\n"):
        message = plain(line)
        if message is not None and "method" not in message and same(message.get("id"), id_):
            return message
        if message is None and str(id_).encode() in line:
            return {}
    return None


def _check_answers(puppet: Puppet, stream: bytes, channel: StdioChannel) -> None:
    """What the server asked under an id of its own is answered as often as it was asked."""
    answers = [message for message in puppet.heard if "method" not in message]
    messages = [plain(line) for line in stream.split(b"\n")]
    unsure = messages.count(None)  # Each may be taken for a request, and answered.
    asked = Counter(
        json.dumps(message["id"])
        for message in messages
        if message is not None and "method" in message and "id" in message
    )
    answered = Counter(json.dumps(message["id"]) for message in answers)
    withdrawn = b"cancelled" in stream
    for id_, times in asked.items():
        assert answered[id_] <= times + unsure, id_
        assert answered[id_] >= times or channel.ended.done() or withdrawn, id_


def plain(line: bytes) -> dict[str, Any] | None:
    """A message that nobody could misread; None where readers may differ."""
    try:
        message = json.loads(line.decode(), object_pairs_hook=_distinct, parse_constant=_no, parse_float=_no)
        json.dumps(message, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or len(line) > SMALL.message_bytes // 2:
        return None
    id_, method = message.get("id"), message.get("method", "m")
    if isinstance(id_, bool) or not isinstance(id_, int | str) or not isinstance(method, str):
        return None
    if len(str(id_)) > 18 or ("method" not in message and ("result" in message) == ("error" in message)):
        return None
    return message


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(pairs)
    return dict(pairs)


def _no(text: str) -> None:
    raise ValueError(text)
