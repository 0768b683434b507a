"""Carries a demo server over stdin and stdout: one JSON-RPC message per line.

Guarantees: reading never waits for a tool, so pings and cancellations get through; tools run one
after another, in the order of their requests, so a server needs no locks; a cancelled request is
not answered; a bad line gets an error and the next line is read; nothing but the protocol reaches
stdout. At the end of the input, what was asked before is answered, and the process ends.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from queue import SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

from mcp_workbench.demo.server import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RpcError

if TYPE_CHECKING:
    from mcp_workbench.demo.server import Server
    from mcp_workbench.demo.tool import JsonObject

# Far more than any argument of a demo tool; a longer line is refused without being kept.
LINE_BYTES = 4 * 1024 * 1024

RequestId = int | str


class CancelledCallError(Exception):
    """The client no longer wants the answer."""


class RunningCall:
    """One request until its answer: who waits, how to report progress, whether it is cancelled."""

    def __init__(self, connection: Connection, request_id: RequestId, method: str, params: JsonObject) -> None:
        self.request_id = request_id
        self.method = method
        self.params = params
        self.cancelled = Event()
        self._connection = connection

    def report(self, done: int, total: int, message: str) -> None:
        """Send progress, if the request has a token for it."""
        if self.cancelled.is_set():
            raise CancelledCallError
        meta = cast("JsonObject", self.params.get("_meta") or {})
        if (token := meta.get("progressToken")) is not None:
            params = {"progressToken": token, "progress": done, "total": total, "message": message}
            self._connection.send({"method": "notifications/progress", "params": params})


class Connection:
    """One client, from its first line to the end of its input."""

    def __init__(self, server: Server, reader: BinaryIO, writer: BinaryIO) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self._writing = Lock()
        self._waiting: SimpleQueue[RunningCall | None] = SimpleQueue()
        self._calls: dict[RequestId, RunningCall] = {}

    def run(self) -> None:
        """Read until the input ends; then finish what was asked."""
        worker = Thread(target=self._work, daemon=True)
        worker.start()
        while line := self._reader.readline(LINE_BYTES):
            self._receive(line)
        self._waiting.put(None)
        worker.join()

    def send(self, message: JsonObject) -> None:
        """Write one message; a client that has gone away is no error."""
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        try:
            with self._writing:
                self._writer.write(text.encode("utf-8", "replace") + b"\n")
                self._writer.flush()
        except BrokenPipeError:
            # Nobody is left to talk to; flushing again at exit would only complain about it.
            os._exit(0)

    def _receive(self, line: bytes) -> None:
        try:
            message = self._decode(line)
            self._dispatch(message)
        except RpcError as error:
            self.send({"id": None, "error": error.body()})

    def _decode(self, line: bytes) -> JsonObject:
        if len(line) == LINE_BYTES and not line.endswith(b"\n"):
            while (rest := self._reader.readline(LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            raise RpcError(PARSE_ERROR, f"Line longer than {LINE_BYTES} bytes")
        try:
            message = json.loads(line, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise RpcError(PARSE_ERROR, "Line is not JSON") from error
        if not isinstance(message, dict):
            raise RpcError(INVALID_REQUEST, "Message is not an object")
        return cast("JsonObject", message)

    def _dispatch(self, message: JsonObject) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method is None and ("result" in message or "error" in message):
            return  # an answer, though we never ask
        if not isinstance(method, str):
            raise RpcError(INVALID_REQUEST, "method must be a string")
        if "id" not in message:
            self._notice(method, params)
            return
        request_id = message["id"]
        if not isinstance(request_id, int | str) or isinstance(request_id, bool):
            raise RpcError(INVALID_REQUEST, "id must be a string or an integer")
        self._request(request_id, method, params)

    def _notice(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            request_id = cast("JsonObject", params).get("requestId")
            call = self._calls.get(request_id) if isinstance(request_id, int | str) else None
            if call is not None:
                call.cancelled.set()

    def _request(self, request_id: RequestId, method: str, params: Any) -> None:
        if not isinstance(params, dict):
            error = RpcError(INVALID_PARAMS, "params must be an object")
            self.send({"id": request_id, "error": error.body()})
            return
        call = RunningCall(self, request_id, method, cast("JsonObject", params))
        if method != "tools/call":
            self._answer(call)
            return
        self._calls[request_id] = call
        self._waiting.put(call)

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            if not call.cancelled.is_set():
                self._answer(call)
            self._calls.pop(call.request_id, None)

    def _answer(self, call: RunningCall) -> None:
        try:
            body: JsonObject = {"result": self._server.answer(call.method, call.params, call)}
        except RpcError as error:
            body = {"error": error.body()}
        except CancelledCallError:
            return
        except Exception:  # noqa: BLE001 -- a tool's bug must not end the server
            traceback.print_exc(file=sys.stderr)
            body = {"error": RpcError(INTERNAL_ERROR, "Internal error").body()}
        if not call.cancelled.is_set():
            self.send({"id": call.request_id, **body})


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def serve(server: Server) -> None:
    """Speak for `server` on this process's stdin and stdout until the client leaves."""
    with os.fdopen(os.dup(1), "wb") as writer:
        os.dup2(2, 1)  # a stray print must not break the protocol
        try:
            Connection(server, sys.stdin.buffer, writer).run()
        except KeyboardInterrupt:
            os._exit(0)
