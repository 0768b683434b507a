"""The local HTTP server to which a browser returns after a login. It runs only during the login.

Guarantees: it listens only on 127.0.0.1. It accepts only a request that carries the state of this login; it answers any
other request with an error. No page repeats anything from a request.
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

_DONE: Final = "Return to the terminal to see whether you are logged in. You can close this page."
_DENIED: Final = "The login was not granted. Return to the terminal for details. You can close this page."
_STRANGE: Final = "This request does not belong to the current login."
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
    """The parameters with which the browser returned: a code, or an error."""

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

    def has_state(self, state: str) -> bool:
        return bool(self.state) and hmac.compare_digest(self.state.encode(), state.encode())

    def check(self) -> None:
        """Raise `LoginFailed` if there is no code."""
        if self._error:
            raise LoginFailed(f"the login was not granted: {logger.foreign(self._error)}")
        if not self.code:
            raise LoginFailed("the browser returned without a code")


class Callback:
    """Waits for the browser on one port."""

    def __init__(self, server: asyncio.Server, answered: asyncio.Future[LoginRedirect]) -> None:
        self._answered = answered
        self._state = ""
        port = server.sockets[0].getsockname()[1]
        self.uri = f"http://{HOST}:{port}{PATH}"

    async def answer(self, state: str) -> LoginRedirect:
        """Wait for the redirect that carries this state."""
        self._state = state
        return await asyncio.shield(self._answered)

    def check_request(self, method: str, target: str) -> tuple[str, str]:
        """Check a request. Returns the status and the text of the response."""
        parts = urlsplit(target)
        if method != "GET":
            return "405 Method Not Allowed", _STRANGE
        if parts.path != PATH:
            return "404 Not Found", _STRANGE
        answer = LoginRedirect(parts.query)
        if not self._state or not answer.has_state(self._state):
            logger.warning("a request that does not belong to the current login was ignored")
            return "400 Bad Request", _STRANGE
        if not self._answered.done():
            self._answered.set_result(answer)
        return "200 OK", _DONE if answer.code else _DENIED


@contextlib.asynccontextmanager
async def listening(port: int, limits: Limits) -> AsyncGenerator[Callback]:
    """Listen for the browser on `port`; 0 is any free port. Raises `LoginFailed`."""
    callback: Callback | None = None

    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := cast("asyncio.Task[None]", asyncio.current_task()))
        try:
            async with asyncio.timeout(limits.login_browser_seconds):
                method, target = _first_line(await reader.readuntil(b"\r\n\r\n"))
                if callback is not None:
                    await _respond(writer, *callback.check_request(method, target))
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            logger.debug("a request to the login callback failed", error=type(error).__name__)
        finally:
            tasks.discard(task)
            writer.close()

    try:
        server = await asyncio.start_server(serve, HOST, port, limit=limits.login_request_bytes)
    except OSError as error:
        reason = f"can't listen on port {port} of this machine ({os.strerror(error.errno or 0)})"
        raise LoginFailed(
            reason, hint="Another program may use it: end that program, or set another callbackPort in its oauth."
        ) from None
    callback = Callback(server, asyncio.get_running_loop().create_future())
    try:
        yield callback
    finally:
        server.close()
        for task in tasks:  # browsers open connections that they never use
            task.cancel()


def _first_line(head: bytes) -> tuple[str, str]:
    """The method and the target of a request. Raises `ValueError`."""
    method, target, _ = head.partition(b"\r\n")[0].decode("ascii").split(" ")
    return method, target


async def _respond(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = _PAGE.format(text).encode()
    writer.write(_HEAD.format(status, len(body)).encode() + body)
    await writer.drain()
