"""A handshake server on stdio that asks its client what no protocol knows. Standard library only.

Its tool `ask` sends the request that its arguments name, and answers with what came back.
"""

from __future__ import annotations

import json
import sys
from typing import Any

Message = dict[str, Any]


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(message: Message) -> Message:
    match message["method"]:
        case "initialize":
            info = {"name": "vendor", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            asked = message["params"]["arguments"]
            send(id="question", method=asked["method"], params=asked.get("params", {}))
            came = json.loads(sys.stdin.buffer.readline())
            text = json.dumps({"result": came.get("result"), "error": came.get("error")})
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


def main() -> None:
    for line in sys.stdin.buffer:
        message: Message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        if message["method"] == "server/discover":
            send(id=message["id"], error={"code": -32601, "message": "Method not found"})
        else:
            send(id=message["id"], result=answer(message))


if __name__ == "__main__":
    main()
