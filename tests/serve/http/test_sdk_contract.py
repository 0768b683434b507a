"""What `serve/http/sdk.py` assumes of the official SDK's provisional and private parts; an update may change it."""

from __future__ import annotations

import asyncio
import inspect
from importlib.metadata import version
from typing import Any

import anyio
import pytest
from mcp.server import _streamable_http_modern as modern_entry
from mcp.server import streamable_http
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http import GET_STREAM_KEY, EventMessage, StreamableHTTPServerTransport
from mcp.types import JSONRPCNotification, JSONRPCResponse

from mcp_workbench import Limits
from mcp_workbench.serve.http import sdk
from mcp_workbench.serve.http.asked import Asked
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import RpcError

RESULT = jsonrpc.result_line(7, jsonrpc.Raw(b'{"n":1.00}'))
ERROR = jsonrpc.error_line("x", RpcError(-1, "no"))
NOTICE = jsonrpc.notification_line("notifications/progress", {"progress": 1})
QUESTION = jsonrpc.request_line(5, "roots/list", {})


def test_it_is_the_version_that_was_looked_at():
    assert version("mcp").startswith("2.3.")


def test_messages_are_serialised_in_no_other_way_than_ours_is_overridden():
    source = inspect.getsource(streamable_http)
    assert source.count("model_dump") == source.count("model_dump_json(by_alias=True, exclude_unset=True)") == 3


@pytest.mark.parametrize(("line", "about"), [(RESULT, 7), (ERROR, "x"), (NOTICE, 7), (QUESTION, 7), (NOTICE, None)])
def test_a_message_of_ours_is_sent_as_the_bytes_that_it_is(line: bytes, about: int | str | None):
    transport = StreamableHTTPServerTransport("session")
    message = sdk.outgoing(line, about).message
    event = transport._create_event_data(EventMessage(message, "1"))
    assert event == {"event": "message", "data": line.decode(), "id": "1"}


def test_answers_are_told_from_what_only_belongs_to_a_request():
    answers = [sdk.outgoing(line, about) for line, about in ((RESULT, 7), (ERROR, "x"))]
    assert all(isinstance(one.message, JSONRPCResponse) for one in answers)
    assert [one.message.id for one in answers] == [7, "x"]
    others = [sdk.outgoing(line, 7) for line in (NOTICE, QUESTION)]
    assert all(isinstance(one.message, JSONRPCNotification) for one in others)
    assert not any(isinstance(one.message, JSONRPCResponse) for one in others)
    assert not sdk.is_answer(RESULT, "7")
    assert not sdk.is_answer(RESULT, 70)
    assert not sdk.is_answer(RESULT, None)


async def test_the_transport_sends_each_message_on_the_stream_of_its_request():
    transport = sdk.Transport("session", Limits())
    async with transport.streams() as (_, writing):
        streams = {key: anyio.create_memory_object_stream[EventMessage](4) for key in ("7", GET_STREAM_KEY)}
        transport._request_streams.update(streams)
        assert transport.is_listening
        assert transport.is_taken(7)
        assert transport.is_taken("7")
        for line, about in ((NOTICE, 7), (QUESTION, None), (RESULT, 7)):
            await writing.send(sdk.outgoing(line, about))
        seen = [(await streams["7"][1].receive()).message.model_dump_json() for _ in range(2)]
        assert seen == [NOTICE.decode(), RESULT.decode()]
        assert (await streams[GET_STREAM_KEY][1].receive()).message.model_dump_json() == QUESTION.decode()


class Heard:
    """What is sent as the answer to a request."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def __call__(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    @property
    def is_over(self) -> bool:
        return not self.messages[-1].get("more_body", True)


ASKED = Asked(7, b"{}", "2025-11-25")


def reply_of(transport: sdk.Transport, heard: Heard) -> asyncio.Task[None]:
    return asyncio.ensure_future(transport.open_reply(ASKED, lambda _: None).run(heard))


async def test_the_transport_takes_a_reply_for_a_stream_of_its_own():
    transport, heard = sdk.Transport("session", Limits()), Heard()
    async with transport.streams() as (_, writing):
        sending = reply_of(transport, heard)
        assert transport.is_taken(7)
        for line in (NOTICE, RESULT):
            await writing.send(sdk.outgoing(line, 7))
        await sending
    data = [line for line in heard.body.splitlines() if line.startswith(b"data: ")]
    assert data == [b"data: ", b"data: " + NOTICE, b"data: " + RESULT]
    assert heard.is_over


@pytest.mark.parametrize("ending", ["close_sse_stream", "adjourn", "terminate"])
async def test_the_transport_ends_a_reply_as_it_ends_a_stream_of_its_own(ending: str):
    transport, heard = sdk.Transport("session", Limits()), Heard()
    async with transport.streams():
        sending = reply_of(transport, heard)
        assert transport.carry(NOTICE, 7, is_last=False)
        if ending == "terminate":
            await transport.terminate()
        else:
            getattr(transport, ending)("7")
        assert not transport.is_taken(7)
        assert not transport.carry(RESULT, 7, is_last=True)
        await sending
    assert NOTICE in heard.body
    assert RESULT not in heard.body
    assert heard.is_over


async def test_what_is_carried_is_kept_for_a_client_that_comes_back():
    transport, heard = sdk.Transport("session", Limits()), Heard()
    async with transport.streams():
        sending = reply_of(transport, heard)
        assert transport.carry(NOTICE, 7, is_last=False)
        assert transport.carry(RESULT, 7, is_last=True)
        await sending
    seen: list[str] = []

    async def take(event: EventMessage) -> None:
        seen.append(event.message.model_dump_json())

    assert await transport._events.replay_events_after("1", take) is None
    assert seen == [NOTICE.decode(), RESULT.decode()]


def test_a_request_has_the_sink_of_its_stream():
    assert "_request_outbound" in inspect.getsource(ServerSession)
    fields = modern_entry._SingleExchangeDispatchContext.__dataclass_fields__
    assert "sink" in fields
    assert "dctx.sink = send_ch" in inspect.getsource(modern_entry.handle_modern_request)


def test_a_server_has_middleware_and_a_look_up_for_schemas():
    server = sdk.modern_server(lambda *_: None, {"a": 1}.get)  # type: ignore[arg-type,return-value]
    assert isinstance(server, Server)
    assert len(server.middleware) == 1
    assert server.get_tool_input_schema is not None
    assert server.get_tool_input_schema("a") == 1


def test_the_modern_entry_takes_what_it_is_given():
    names = [*inspect.signature(modern_entry.handle_modern_request).parameters]
    assert names == ["app", "security_settings", "json_response", "lifespan_state", "scope", "receive", "send"]


async def test_events_are_kept_within_bounds_and_in_order():
    events = sdk.Events(Limits(http_events=4, http_event_bytes=10_000))
    ids = [await events.store_event(GET_STREAM_KEY, sdk.outgoing(NOTICE, None).message) for _ in range(6)]
    seen: list[str | None] = []

    async def take(event: EventMessage) -> None:
        seen.append(event.event_id)

    assert await events.replay_events_after(ids[0], take) is None
    assert await events.replay_events_after(ids[2], take) == GET_STREAM_KEY
    assert seen == ids[3:]


async def test_a_large_event_is_kept_alone():
    events = sdk.Events(Limits(http_event_bytes=100))
    first = await events.store_event("s", None)
    large = sdk.outgoing(jsonrpc.result_line(7, jsonrpc.Raw(b'"' + b"x" * 1000 + b'"')), 7).message
    last = await events.store_event("s", large)
    seen: list[str | None] = []

    async def take(event: EventMessage) -> None:
        seen.append(event.event_id)

    assert await events.replay_events_after(first, take) is None
    assert seen == []
    await events.store_event("s", None)
    assert await events.replay_events_after(last, take) is None
