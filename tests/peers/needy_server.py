"""A small server that works only if its environment has certain variables.

    needy_server.py start|list|hang FOLDER

`FOLDER/needs` names the variables, one a line. Without one of them the server prints the values of its environment to
stderr and exits (`start`), refuses to list its tools (`list`), or does not answer (`hang`). Each start adds the names
of its variables as a line to `FOLDER/starts`; a number in `FOLDER/fails` is how many starts fail in any case.
"""

from __future__ import annotations

import json
import os
import sys


def main(when: str, folder: str) -> None:
    with open(f"{folder}/starts", "a+") as log:  # noqa: PTH123 -- few imports: it is started many times
        print(*os.environ, file=log, flush=True)
        log.seek(0)
        number = len(log.readlines())
    is_lacking = number <= int(read(f"{folder}/fails") or "0") or not set(read(f"{folder}/needs").split()) <= {
        *os.environ
    }
    if is_lacking and when == "start":
        sys.exit("\n".join(["it needs something that is not there:", *os.environ.values()]))
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request or (is_lacking and when == "hang"):
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer(request["method"], is_lacking)}), flush=True)


def read(path: str) -> str:
    try:
        with open(path) as file:  # noqa: PTH123 -- same
            return file.read()
    except FileNotFoundError:
        return ""


def answer(method: str, is_lacking: bool) -> dict[str, object]:  # noqa: FBT001 -- a peer of the tests
    if method == "initialize":
        info = {"name": "needy", "version": "1"}
        return {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}}
    if method == "tools/list" and not is_lacking:
        return {"result": {"tools": [{"name": "one", "inputSchema": {"type": "object"}}]}}
    return {"error": {"code": -32000 if method == "tools/list" else -32601, "message": "it can not"}}


if __name__ == "__main__":
    main(*sys.argv[1:])
