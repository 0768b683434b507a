"""Where a browser comes back to after a login: a port of this machine that is open for that long.

Guarantees: it listens on 127.0.0.1 alone; only what carries the state of this login counts, and anything else that
asks is answered and forgotten; nothing that it gets is repeated in a page.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
from collections.abc import AsyncGenerator
from typing import Final, cast
from urllib.parse import parse_qs, urlsplit

from mcp_workbench import logger
from mcp_workbench.command_errors import LoginFailed
from mcp_workbench.limits import Limits

HOST: Final = "127.0.0.1"
PATH: Final = "/callback"

_DONE: Final = "The terminal tells whether you are logged in. This page can be closed."
_DENIED: Final = "The login was not granted. The terminal says more; this page can be closed."
_STRANGE: Final = "This does not belong to the login that is under way."
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>MCP Workbench</title>"
    "<body style='font-family:sans-serif;margin:4em auto;max-width:32em'><h1>MCP Workbench</h1><p>{}</p>"
)
_HEAD: Final = (
    "HTTP/1.1 {}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n"
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n"
)


class LoginRedirect:
    """What a browser brought back, judged: a code, or why there is none."""

    def __init__(self, query: str) -> None:
        values = parse_qs(query)

        def only(name: str) -> str:
            found = values.get(name, [])
            return found[0] if len(found) == 1 else ""

        self.state = only("state")
        self.code = only("code")
        self.iss = only("iss") or None
        self._error = ": ".join(filter(None, (only("error"), only("error_description"))))
        logger.log.redact.hide(filter(None, (self.code,)))

    def __repr__(self) -> str:
        return "Answer(...)"

    def belongs(self, state: str) -> bool:
        return bool(self.state) and hmac.compare_digest(self.state.encode(), state.encode())

    def check(self) -> None:
        """Raise `LoginFailed` unless there is a code."""
        if self._error:
            raise LoginFailed(f"the login was not granted: {logger.foreign(self._error)}")
        if not self.code:
            raise LoginFailed("the browser came back without a code")


class Callback:
    """The port, and what comes back to it."""

    def __init__(self, server: asyncio.Server, answered: asyncio.Future[LoginRedirect]) -> None:
        self._answered = answered
        self._state = ""
        port = server.sockets[0].getsockname()[1]
        self.uri = f"http://{HOST}:{port}{PATH}"

    async def answer(self, state: str) -> LoginRedirect:
        """What comes back with this state."""
        self._state = state
        return await asyncio.shield(self._answered)

    def judge(self, method: str, target: str) -> tuple[str, str]:
        """The status and the text for whoever asks."""
        parts = urlsplit(target)
        if method != "GET":
            return "405 Method Not Allowed", _STRANGE
        if parts.path != PATH:
            return "404 Not Found", _STRANGE
        answer = LoginRedirect(parts.query)
        if not self._state or not answer.belongs(self._state):
            logger.warning("something else than the login that is under way came back, and was ignored")
            return "400 Bad Request", _STRANGE
        if not self._answered.done():
            self._answered.set_result(answer)
        return "200 OK", _DONE if answer.code else _DENIED


@contextlib.asynccontextmanager
async def listening(port: int, limits: Limits) -> AsyncGenerator[Callback]:
    """Listen for a browser that comes back, on a port or on any. Raises `LoginFailed`."""
    callback: Callback | None = None

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            await converse(reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(
            OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(limits.login_browser_seconds):
                method, target = _first_line(await reader.readuntil(b"\r\n\r\n"))
                if callback is not None:
                    await _respond(writer, *callback.judge(method, target))

    try:
        server = await asyncio.start_server(serve, HOST, port, limit=limits.login_request_bytes)
    except OSError as error:
        reason = f"port {port} of this machine can't be listened on ({os.strerror(error.errno or 0)})"
        raise LoginFailed(
            reason, hint="Another program may use it: end that, or set another callbackPort in its oauth."
        ) from None
    callback = Callback(server, asyncio.get_running_loop().create_future())
    try:
        yield callback
    finally:
        server.close()
        for task in tasks:  # a browser may have opened connections that it never used
            task.cancel()


def _first_line(head: bytes) -> tuple[str, str]:
    """The method and what is asked for. Raises `ValueError`."""
    method, target, _ = head.partition(b"\r\n")[0].decode("ascii").split(" ")
    return method, target


async def _respond(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = _PAGE.format(text).encode()
    writer.write(_HEAD.format(status, len(body)).encode() + body)
    await writer.drain()
