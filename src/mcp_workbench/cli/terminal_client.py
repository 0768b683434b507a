"""The user at the terminal as an MCP client: shows progress, and passes on the questions of servers.

Without a terminal it shows no progress and declines every question. Text from servers is escaped.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Raw

from mcp_workbench.catalog.rendering import notes
from mcp_workbench.cli import display
from mcp_workbench.cli.display import REFRESH_SECONDS, Words
from mcp_workbench.cli.full_screen import TYPED_LINE_BYTES
from mcp_workbench.cli.parameters import Parameters, as_json
from mcp_workbench.cli.results import decoded, number, word
from mcp_workbench.cli.terminal import discard_typed_input
from mcp_workbench.errors import InvalidParameters, ServerRefused
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.sanitize import escape
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS
from mcp_workbench.wire.exchange import PROGRESS, Exchange, OnProgress
from mcp_workbench.wire.jsonrpc import Id, Params


def prompt(form: Parameters, name: str) -> str:
    """The prompt for one field, with invisible characters escaped."""
    schema = form.schema(name)
    said = schema.get("description") or schema.get("title") or ""
    about = f" {_whole(said)}" if isinstance(said, str) and said else ""
    return f"  {escape(name)} ({', '.join(filter(None, _takes(form, name)))}){about}: "


def _takes(form: Parameters, name: str) -> Iterator[str]:
    schema = form.schema(name)
    kind = schema.get("type")
    yield _choices(form, name) or (escape(kind) if isinstance(kind, str) else "")
    yield from (_whole(note) for note in notes.constraints(schema))
    yield "" if name in form.required else "optional"
    if form.is_list(name):
        yield 'several as ["...", "..."]'
    if "default" in schema:
        yield f"default {_whole(bytes(as_json(schema['default'])).decode())}"


def _choices(form: Parameters, name: str) -> str:
    titles = form.titles(name)
    told = [(choice, titles.get(choice, "")) for choice in form.choices(name)]
    return " or ".join(f"{escape(choice)}: {escape(title)}" if title else escape(choice) for choice, title in told)


def _whole(text: str) -> str:
    """A text on one line, in full: the user can't read it elsewhere."""
    return escape(" ".join(text.split()), len(text))


AUDIENCE: Final = "terminal"
_ASKED: Final = "elicitation/create"
_DECLARED: Final = b'{"elicitation":{}}'
CALLER: Final = Caller(
    version=HANDSHAKE_VERSIONS[-1],
    modern=False,
    capabilities=Raw(_DECLARED),
    audience=AUDIENCE,
    answers=frozenset({_ASKED}),
    key=(AUDIENCE, False, _DECLARED),
)
"""Declares elicitation even without a terminal, so that servers always list the same tools."""
_STDIN: Final = 0


class Person:
    """The user, who sees the progress of a call and answers questions. Implements `Client`."""

    def __init__(self) -> None:
        self._live = display.Live()
        self._is_there = display.is_terminal(sys.stdin) and display.is_terminal(sys.stderr)
        self._began = time.monotonic()
        self._turn = asyncio.Lock()
        self._has_heard = False

    def exchange(self) -> Exchange:
        """The exchange of a call that requests progress."""
        return Exchange(CALLER, CallLine(self), progress_token=Raw(b"1"))

    async def watch(self, server: str) -> None:
        """Show the waiting time until the server reports progress."""
        while not self._has_heard:
            await asyncio.sleep(REFRESH_SECONDS)
            if not self._has_heard:
                self._show(f"waiting for '{escape(server)}' ({self._seconds:.0f} s)")

    def done(self) -> None:
        """Remove the progress display."""
        self._live.clear()

    @property
    def _seconds(self) -> float:
        return time.monotonic() - self._began

    def _show(self, text: str) -> None:
        if not self._turn.locked():  # otherwise a question is on the screen
            self._live.show(Words(text, "quiet"))

    # -- messages of the server

    def progressed(self, params: Params) -> None:
        self._has_heard = True
        self._show(_progress(params, self._seconds))

    def tell(
        self, source: ServerIdentifier, method: str, params: dict[str, Raw], exchange: Exchange | None = None
    ) -> None:
        """Ignore log messages and list changes, which are for hosts."""

    def changed(self, toolbox: str, kind: str) -> None:
        """Ignore changed lists: the user requested one call."""

    # -- questions of the server

    async def ask(
        self,
        source: ServerIdentifier,
        method: str,
        params: Params,
        on_progress: OnProgress | None,
        exchange: Exchange | None,
    ) -> Raw:
        del source, on_progress, exchange  # one server, one call, and no progress
        return await self.answer(method, params)

    async def answer(self, method: str, params: Params) -> Raw:
        """Ask the user, one question at a time. Raises `ServerRefused`."""
        if method != _ASKED:
            raise ServerRefused(f"{escape(method)} is not supported at a terminal", rpc_code=jsonrpc.METHOD_NOT_FOUND)
        async with self._turn:
            self._live.clear()
            return Raw(jsonrpc.encode(await self._answer(params)))

    async def _answer(self, params: Params) -> dict[str, Any]:
        message = word(params.get("message"))
        if not self._is_there:
            display.write(f"declined, since this is not a terminal; the server asked: {message}", to=sys.stderr)
            return {"action": "decline"}
        if word(params.get("mode")) == "url":  # not declared, and we can't check the page
            display.write(f"declined, since it opens a web page; the server asked: {message}", to=sys.stderr)
            return {"action": "decline"}
        discard_typed_input()
        display.write(Words(f"The server asks: {message}", "strong"), to=sys.stderr)
        try:
            content = await self._filled(Parameters(decoded(params.get("requestedSchema"))))
            discard_typed_input()
            agreed = (await self._line("Send this answer? [Y/n] ")).strip().lower() in ("", "y", "yes")
        except EOFError:
            display.write("", to=sys.stderr)
            return {"action": "cancel"}
        return {"action": "accept", "content": content} if agreed else {"action": "decline"}

    async def _filled(self, form: Parameters) -> dict[str, Raw]:
        """Ask for every field of a form. Raises `EOFError` on Ctrl-D."""
        if form.names:
            display.write(Words("An empty line leaves out a field. Ctrl-D cancels the form.", "quiet"), to=sys.stderr)
        content: dict[str, Raw] = {}
        for name in form.names:
            if (value := await self._field(form, name)) is not None:
                content[name] = value
        return content

    async def _field(self, form: Parameters, name: str) -> Raw | None:
        schema = form.schema(name)
        while True:
            text = (await self._line(prompt(form, name))).strip()
            if not text and "default" in schema:
                return as_json(schema["default"])
            if not text and name not in form.required:
                return None
            try:
                return _read(form, name, text)
            except InvalidParameters as error:
                display.write(Words(error.problem, "bad"), to=sys.stderr)

    async def _line(self, prompt: str) -> str:
        """Read one typed line without blocking the event loop. Raises `EOFError`."""
        sys.stderr.write(prompt)
        sys.stderr.flush()
        loop = asyncio.get_running_loop()
        typed: asyncio.Future[bytes] = loop.create_future()
        loop.add_reader(_STDIN, lambda: typed.done() or typed.set_result(os.read(_STDIN, TYPED_LINE_BYTES)))
        try:
            line = await typed
        finally:
            loop.remove_reader(_STDIN)
        if not line:
            raise EOFError
        return line.decode("utf-8", "replace")


class CallLine:
    """Passes the progress of a call to the user, as the `OpenRequest` of its exchange."""

    def __init__(self, person: Person) -> None:
        self._person = person

    @property
    def request_id(self) -> Id | None:
        return None

    def notify(self, method: str, params: Params) -> None:
        if method == PROGRESS:
            self._person.progressed(params)

    def adjourn(self) -> None:
        """Nothing to do: a terminal does not resume requests."""

    async def ask(self, method: str, params: Params, on_progress: OnProgress | None = None) -> Raw:
        del on_progress
        return await self._person.answer(method, params)


def _read(form: Parameters, name: str, text: str) -> Raw:
    """Convert typed text to JSON. Raises `InvalidParameters`."""
    if not text:
        raise InvalidParameters(f"'{escape(name)}' is required")
    return form.typed(name, text)


def _progress(params: Params, seconds: float) -> str:
    done, total = number(params.get("progress")), number(params.get("total"))
    message = word(params.get("message"))
    share = f"{done / total:.0%}" if done is not None and total else ""
    return " ".join(filter(None, (share, escape(message)))) or f"working ({seconds:.0f} s)"
