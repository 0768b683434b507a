"""A model on loopback that calls given tools in its first turn and keeps their results, for hosts that need one.

It speaks as much of the APIs of Anthropic and Gemini as Claude Code and Gemini CLI use in a session without a person.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

Json = dict[str, Any]

TOOL = "use_tool"


class Model(NamedTuple):
    url: str
    results: list[str]
    """The text of each result, in the order of the calls."""


@contextmanager
def scripted_model(calls: Sequence[Json]) -> Iterator[Model]:
    """Serve a model that sends `calls` as arguments of `use_tool`."""
    results: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api = _anthropic if "messages" in asked else _gemini
            kind, answer, found = api(asked, calls)
            results[:] = found or results
            body = answer.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Model(f"http://127.0.0.1:{server.server_port}", results)
        finally:
            server.shutdown()
            thread.join()


def _anthropic(asked: Json, calls: Sequence[Json]) -> tuple[str, str, list[str]]:
    """The events of the Messages API."""
    contents = [one["content"] for one in asked["messages"] if isinstance(one["content"], list)]
    found = [_text(block["content"]) for content in contents for block in content if block["type"] == "tool_result"]
    name = next((one["name"] for one in asked.get("tools", []) if one["name"].endswith(TOOL)), None)
    blocks: list[tuple[Json, Json]] = [({"type": "text", "text": ""}, {"type": "text_delta", "text": "done"})]
    if name and not found:
        blocks = [
            (
                {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(call)},
            )
            for number, call in enumerate(calls)
        ]
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": asked["model"], "content": []}
    usage = {"input_tokens": 1, "output_tokens": 1}
    events: list[Json] = [
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None, "usage": usage}}
    ]
    for index, (block, delta) in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    reason = "tool_use" if blocks[0][0]["type"] == "tool_use" else "end_turn"
    events += [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return "text/event-stream", "".join(lines), found


def _gemini(asked: Json, calls: Sequence[Json]) -> tuple[str, str, list[str]]:
    """The one event of `streamGenerateContent`."""
    parts = [part for content in asked["contents"] for part in content["parts"]]
    responses = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    found = [one.get("output") or one["error"] for one in responses]
    declared = [one["name"] for tool in asked.get("tools", []) for one in tool.get("functionDeclarations", [])]
    name = next((one for one in declared if one.endswith(TOOL)), None)
    said: list[Json] = [{"text": "done"}]
    if name and not found:
        said = [{"functionCall": {"name": name, "args": call}} for call in calls]
    candidate = {"content": {"role": "model", "parts": said}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    answer = {"candidates": [candidate], "usageMetadata": usage}
    return "text/event-stream", f"data: {json.dumps(answer)}\r\n\r\n", found


def _text(content: str | list[Json]) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
