"""Records what a process that serves does: collects events on the event loop and passes them to the writer's thread.

Recording a call takes a microsecond or two. The first event schedules a batch for a second later, so an idle process
does nothing. The recorder never waits for the file and never fails a call. It keeps arguments and results only if the
configuration says so (`"record": "full"`), and redacts the same secrets as the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from mcp_workbench import __version__, logger
from mcp_workbench.activity.batch import Batch, Call, ClientState, Flight, Line, Opening, Run, ServerState
from mcp_workbench.activity.writer import RecordWriter, record_path
from mcp_workbench.config.model import Config
from mcp_workbench.errors import CallFailed, ConnectFailed, Fault, RequestError, WorkbenchError
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.logger import LOG_VALUE_LENGTH
from mcp_workbench.text.tracebacks import on_one_line
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import RECORD_CLIENTS, RECORD_NAME_LENGTH, ClientInfo
from mcp_workbench.wire.jsonrpc import Params

RECORD_FLIGHTS = 1000
"""Calls under way that are shown."""
RECORD_AUDIENCES = 10_000
"""Pairs of client and toolbox that the recorder remembers, so that it counts a list once."""
RECORD_ERROR_BYTES = 65_536
"""Bytes of a failed call's content that are searched for its text. Texts for people are shorter."""
RECORD_ERROR_LENGTH = 300
"""Characters of a call's error that are recorded: a sentence or two."""
RECORD_ARGUMENTS_LENGTH = 4000
"""Characters of a call's arguments, if they are recorded."""
RECORD_RESULT_LENGTH = 16_000
"""Characters of its result."""

TOOL_ERROR: Final = "tool_error"
CANCELLED: Final = "cancelled"
UNEXPECTED: Final = "unexpected"
_TRUE: Final = Raw(b"true")
_clock: Final = time.perf_counter
_ORDER: Final = ("ready", "starting", "needs_auth", "resting", "failing", "idle", "closed")
"""The states of connections, by precedence: the first one is the state of their server."""


class ConnectionState(NamedTuple):
    """The state of one connection to a server."""

    state: str
    tools: int | None
    """The number of the server's tools, if known."""


class Noted(msgspec.Struct, gc=False, eq=False):
    """A call under way."""

    tool: ToolIdentifier
    began: float


Look = Callable[[ServerIdentifier], Sequence[ConnectionState]]


def recorder_of(
    config: Config, transport: str, limits: Limits = DEFAULTS, environ: Mapping[str, str] | None = None
) -> Recorder | None:
    """The recorder of a process that serves; None if nothing is recorded."""
    path = record_path(os.environ if environ is None else environ)
    if config.record == "off" or not path:
        return None
    run = Run(os.getpid(), "", __version__, config.file, transport, time.time())
    return Recorder(RecordWriter(path, run, limits), limits, is_full=config.record == "full")


class Recorder:
    """Records events. It belongs to the event loop in which `begin` was called."""

    def __init__(self, writer: RecordWriter, limits: Limits, *, is_full: bool = False) -> None:
        self._writer = writer
        self._limits = limits
        self._is_full = is_full
        self._look: Look = lambda _server: ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_scheduled = False
        self._is_behind = False
        self._written: asyncio.Future[None] | None = None
        self._calls: list[Call] = []
        self._rows_left = limits.record_batch_calls
        """How many more calls get a row in this batch."""
        self._counts: dict[ToolIdentifier, list[int]] = {}
        self._lines: list[Line] = []
        self._openings: list[Opening] = []
        self._under_way: set[Noted] = set()
        self._lost = 0
        self._seen: set[tuple[str, str]] = set()
        self._changed: dict[ServerIdentifier, float] = {}
        self._servers: dict[ServerIdentifier, ServerState] = {}
        self._newly_removed: set[ServerIdentifier] = set()
        self._removed: set[ServerIdentifier] = set()
        self._problem = ""
        self._clients: dict[ClientInfo, int] = {}
        """The open sessions of each current or former client program."""
        self._changed_clients: dict[ClientInfo, int] = {}
        self._memory: Callable[[], tuple[str, int]] = lambda: ("calm", 0)

    def begin(self, look: Look, memory: Callable[[], tuple[str, int]] = lambda: ("calm", 0)) -> None:
        """Start to record. `look` returns the states of a server, `memory` the pressure level and the bytes held."""
        self._look = look
        self._memory = memory
        self._loop = asyncio.get_running_loop()
        logger.log.set_listener(self._note_line)
        self._schedule()

    async def close(self) -> None:
        """Write the remaining events, within `record_end_seconds`."""
        if self._loop is None:
            return
        logger.log.clear_listener()
        self._is_scheduled = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.record_end_seconds):
                if self._written is not None:
                    await self._written
                await self._hand_over(is_last=True)
        self._loop = None

    # -- events

    def began(self, tool: ToolIdentifier) -> Noted:
        """Record the begin of a call; returns the argument for `ended` or `failed`. This is a hot path."""
        noted = Noted(tool, _clock())
        self._under_way.add(noted)
        if not self._is_scheduled:
            self._schedule()
        return noted

    def ended(self, noted: Noted, arguments: Raw, result: Raw, members: Params) -> None:
        """Record the result of a call, which may be an error of the tool."""
        outcome = TOOL_ERROR if members.get("isError") == _TRUE else ""
        if self._rows_left or outcome or (counted := self._counts.get(noted.tool)) is None:
            self._add_call(noted, outcome, arguments, result, _error_text(members) if outcome else "")
            return
        self._under_way.remove(noted)
        counted[0] += 1  # the batch is full: a success is only counted

    def failed(self, noted: Noted, arguments: Raw, error: BaseException) -> None:
        """Record a call that raised."""
        cause = error.fault if isinstance(error, CallFailed | ConnectFailed) else error
        text = _shown(on_one_line(logger.redacted(str(cause)))) if isinstance(cause, WorkbenchError) else ""
        self._add_call(noted, _outcome(error), arguments, jsonrpc.NOTHING, text)

    def _add_call(self, noted: Noted, outcome: str | None, arguments: Raw, result: Raw, error: str) -> None:
        self._under_way.remove(noted)
        if not self._is_scheduled:
            self._schedule()
        if outcome is None:
            return
        tool = noted.tool if len(noted.tool.tool) <= RECORD_NAME_LENGTH else _shortened(noted.tool)
        if not self._rows_left:
            self._count(tool, outcome)
            return
        self._rows_left -= 1
        took = (_clock() - noted.began) * 1000
        given = _excerpt(arguments, RECORD_ARGUMENTS_LENGTH) if self._is_full else None
        returned = _excerpt(result, RECORD_RESULT_LENGTH) if self._is_full else None
        self._calls.append((tool, noted.began, took, outcome, given, returned, error))

    def opened(self, audience: str, toolbox: str, definitions: Iterable[int], answered: int) -> None:
        """Record that an agent opened a toolbox, with the sizes of all definitions and of the answer."""
        if len(self._seen) >= RECORD_AUDIENCES:
            self._seen.clear()
        is_new = (audience, toolbox) not in self._seen
        self._seen.add((audience, toolbox))
        if len(self._openings) < self._limits.record_pending:
            self._openings.append(Opening(toolbox, sum(definitions) if is_new else 0, answered))
        self._schedule()

    def changed(self, server: ServerIdentifier, fault: Fault | None = None) -> None:
        """Record that the state of a server changed, perhaps because of an error."""
        now = time.time()
        self._changed[server] = now
        if fault is not None:
            # Redact first: a secret may have several lines.
            text = logger.foreign(on_one_line(logger.redacted(str(fault))), LOG_VALUE_LENGTH)
            self._servers[server] = self._known(server)._replace(code=fault.code, error=text, error_at=now)
        self._schedule()

    def sessions_changed(self, client: ClientInfo, by: int) -> None:
        """Change the number of a client's open sessions. A client that is gone stays in the record."""
        if client not in self._clients and len(self._clients) >= RECORD_CLIENTS:
            return
        self._clients[client] = self._changed_clients[client] = self._clients.get(client, 0) + by
        self._schedule()

    def configured(
        self,
        *,
        added: Iterable[ServerIdentifier] = (),
        changed: Iterable[ServerIdentifier] = (),
        removed: Iterable[ServerIdentifier] = (),
    ) -> None:
        """Record a new configuration. Removed servers, which may still drain, are no longer recorded."""
        self._problem = ""
        for server in changed:  # drop the state of the predecessor
            self._servers.pop(server, None)
            self._changed[server] = time.time()
        for server in added:
            self._removed.discard(server)
            self._changed.setdefault(server, time.time())
        for server in removed:
            self._servers.pop(server, None)
            self._newly_removed.add(server)
            self._removed.add(server)
        self._schedule()

    def pressed(self) -> None:
        """Record that the level of memory pressure changed."""
        self._schedule()

    def refused(self, reason: str) -> None:
        """Record that the changed configuration file is not used."""
        self._problem = logger.foreign(reason, LOG_VALUE_LENGTH)
        self._schedule()

    def _note_line(self, event: logger.LogEvent) -> None:
        """Record a log line. Any thread may call it."""
        if len(self._lines) < self._limits.record_pending:
            self._lines.append(Line(*event))
        else:
            self._lost += 1
        self._schedule()

    def _count(self, tool: ToolIdentifier, outcome: str) -> None:
        """Count a call that gets no row of its own."""
        if (counted := self._counts.get(tool)) is not None:
            counted[outcome != ""] += 1
        elif len(self._counts) < self._limits.record_batch_calls:
            self._counts[tool] = [0, 1] if outcome else [1, 0]
        else:
            self._lost += 1

    # -- batches

    def _schedule(self) -> None:
        loop = self._loop
        if self._is_scheduled or loop is None:
            return
        self._is_scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop ended, and this is another thread
            loop.call_soon_threadsafe(loop.call_later, self._limits.record_flush_seconds, self._flush)

    def _flush(self) -> None:
        if self._loop is None or (self._written is not None and not self._written.done()):
            self._is_scheduled, self._is_behind = False, True
            return
        self._is_scheduled = False
        self._hand_over()

    def _hand_over(self, *, is_last: bool = False) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[None] = loop.create_future()
        self._written = written

        def done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop ended meanwhile
                loop.call_soon_threadsafe(self._batch_written, written)

        self._writer.put(self._batch(is_last=is_last), done)
        return written

    def _batch_written(self, written: asyncio.Future[None]) -> None:
        if not written.done():
            written.set_result(None)
        if self._is_behind:
            self._is_behind = False
            self._schedule()

    def _batch(self, *, is_last: bool) -> Batch:
        calls, self._calls = self._calls, []
        self._rows_left = self._limits.record_batch_calls
        counts, self._counts = self._counts, {}
        lines, self._lines = self._lines, []
        openings, self._openings = self._openings, []
        lost, self._lost = self._lost, 0
        gone, self._newly_removed = self._newly_removed, set()
        met, self._changed_clients = self._changed_clients, {}
        used = {(tool.toolbox, tool.server) for tool in (*(call[0] for call in calls), *counts)}
        changed, self._changed = {ServerIdentifier(*one): 0.0 for one in used} | self._changed, {}
        changed = {server: moment for server, moment in changed.items() if server not in self._removed}
        now = time.time()
        epoch = now - _clock()
        servers = [self._state_of(server, moment) for server, moment in changed.items()]
        under_way = sorted(self._under_way, key=lambda call: call.began)[:RECORD_FLIGHTS]
        return Batch(
            now,
            epoch=epoch,
            calls=calls,
            counts=counts,
            lines=lines,
            openings=openings,
            servers=servers,
            gone=[(server.toolbox, server.server) for server in gone],
            flights=[Flight(epoch + one.began, *_shortened(one.tool).parts()) for one in under_way],
            lost=lost,
            is_last=is_last,
            clients=[ClientState(*client, number) for client, number in met.items()],
            problem=self._problem,
            memory=self._memory(),
        )

    def _state_of(self, server: ServerIdentifier, moment: float) -> ServerState:
        found = self._look(server)
        state = min((one.state for one in found), key=_ORDER.index, default="idle")
        tools = max((one.tools for one in found if one.tools is not None), default=None)
        known = self._known(server)
        self._servers[server] = looked = known._replace(
            state=state,
            since=known.since if known.state == state else moment or time.time(),
            connections=sum(one.state == "ready" for one in found),
            tools=known.tools if tools is None else tools,
        )
        return looked

    def _known(self, server: ServerIdentifier) -> ServerState:
        return self._servers.get(server) or ServerState(server.toolbox, server.server, "", 0.0, 0, None)


def _shortened(tool: ToolIdentifier) -> ToolIdentifier:
    """The identifier with a name of limited length, since a server may choose any."""
    return ToolIdentifier(tool.toolbox, tool.server, tool.tool[:RECORD_NAME_LENGTH])


def _outcome(error: BaseException) -> str | None:
    """The outcome of a call that raised; None if the request was invalid."""
    if isinstance(error, WorkbenchError):
        if isinstance(error, RequestError):
            return None
        return error.wire_code if isinstance(error, CallFailed | ConnectFailed) else error.code
    return CANCELLED if isinstance(error, asyncio.CancelledError) else UNEXPECTED


def _error_text(members: Params) -> str:
    """The text of a tool's error."""
    content = members.get("content")
    if not isinstance(content, Raw) or len(bytes(content)) > RECORD_ERROR_BYTES:
        return ""
    try:
        blocks = msgspec.json.decode(content, type=list[Raw])
    except (msgspec.DecodeError, RecursionError):
        return ""
    texts = (jsonrpc.text_or_none(jsonrpc.members(block).get("text")) for block in blocks)
    return _shown(on_one_line(logger.redacted("\n".join(filter(None, texts)))))


def _shown(text: str) -> str:
    return logger.foreign(text, RECORD_ERROR_LENGTH)


def _excerpt(raw: Raw, length: int) -> str | None:
    """The beginning of a JSON text, redacted."""
    reach = 4 * (length + logger.log.redact.longest)  # a character has up to four bytes
    text = bytes(memoryview(raw)[:reach]).decode("utf-8", "replace")
    return logger.redacted(text, length) or None
