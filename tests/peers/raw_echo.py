"""An MCP server on stdio whose one tool says the very line that called it. Its argument `region` is a header too."""

from __future__ import annotations

import json
import sys

SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "raw", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "say", "inputSchema": SCHEMA}]},
    "ping": {},
}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        answer = {"result": RESULTS.get(request["method"])}
        if request["method"] == "tools/call":
            answer = {"result": {"content": [{"type": "text", "text": line.strip()}]}}
        elif answer["result"] is None:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
