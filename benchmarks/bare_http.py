"""The floor for HTTP: a bare starlette application on uvicorn that answers the same JSON itself.

    bare_http.py PORT

It checks nothing, keeps nothing and has no server behind it.
"""

from __future__ import annotations

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


class Message(msgspec.Struct):
    id: int | str | None = None
    method: str = ""
    params: dict[str, msgspec.Raw] = {}


class Arguments(msgspec.Struct):
    text: str = ""


read_message = msgspec.json.Decoder(Message).decode
read_arguments = msgspec.json.Decoder(Arguments).decode
encode = msgspec.json.Encoder().encode
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bare", "version": "1"},
    },
    "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
    "tools/list": {"tools": []},
}


async def answer(request: Request) -> Response:
    message = read_message(await request.body())
    if message.id is None:
        return Response(status_code=202)
    if message.method == "tools/call":
        text = read_arguments(message.params["arguments"]).text
        result: object = {"content": [{"type": "text", "text": text}], "isError": False}
    else:
        result = RESULTS[message.method]
    body = encode({"jsonrpc": "2.0", "id": message.id, "result": result})
    return Response(body, media_type="application/json", headers={"mcp-session-id": "bare"})


if __name__ == "__main__":
    app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
    uvicorn.run(app, port=int(sys.argv[1]), http="h11", ws="none", lifespan="off", log_level="error", access_log=False)
