"""An MCP server on stdio of one era alone that lists and answers what a file says. Standard library only.

    odd_server.py (handshake | modern) FILE

The file is an object: for each list method its result, under `tools/call` the result of each tool by its name, and
under `instructions` what the server says in a handshake.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OFFERS: Json = {"tools": {}, "prompts": {}, "resources": {}}
INFO = {"name": "odd", "version": "1"}
HANDSHAKE: Json = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": OFFERS, "serverInfo": INFO},
    "ping": {},
}
MODERN: Json = {
    "server/discover": {
        "supportedVersions": ["2026-07-28"],
        "capabilities": OFFERS,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    }
}


def main() -> None:
    era, file = sys.argv[1:]
    results = json.loads(Path(file).read_text(encoding="utf-8")) | (MODERN if era == "modern" else HANDSHAKE)
    if era == "handshake":
        results["initialize"] = {**results["initialize"], "instructions": results.get("instructions", "")}
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            answer = answered(request, results, era)
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}), flush=True)


def answered(request: Json, results: Json, era: str) -> Json:
    result = results.get(request["method"])
    if request["method"] == "tools/call":
        result = result.get(request["params"]["name"])
    if result is None:
        return {"error": {"code": -32601, "message": "Method not found"}}
    hints = {"resultType": "complete"} if era == "modern" else {}
    if era == "modern" and request["method"].endswith("/list"):
        hints |= {"ttlMs": 0, "cacheScope": "private"}
    return {"result": {**hints, **result}}


if __name__ == "__main__":
    main()
