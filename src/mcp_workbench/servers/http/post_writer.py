"""Sends our messages to a remote server over HTTP, each in its own task.

A request waits only for the handshake to complete, and its failure affects no other request. Notifications and answers
are bounded in time and in number.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Protocol

from mcp_workbench import logger
from mcp_workbench.errors import Fault, ServerUnavailable
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http import request_headers
from mcp_workbench.servers.http.status_errors import ServerUnreachable, expired, is_expired
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.jsonrpc import Envelope, Id, Params
from mcp_workbench.wire.peer import CANCELLED, Peer

NOTICE_SECONDS = 10.0
"""How long a remote server may take to accept a notification or an answer."""
NOTICES = 256
"""How many notifications and answers may wait to be accepted before the server counts as congested."""


class Notices:
    """Sends notifications one after the other, and answers at once."""

    def __init__(self, send: Callable[[bytes], Coroutine[Any, Any, None]], label: ServerIdentifier) -> None:
        """`send` sends one message, and raises the `Fault` that prevents it."""
        self._send_notice = send
        self._label = label
        self._last: asyncio.Task[None] | None = None
        self._unaccepted = 0
        self._room = asyncio.Event()
        self._room.set()
        self.tasks = BackgroundTasks()

    @property
    def congested(self) -> bool:
        return self._unaccepted >= NOTICES

    async def drained(self) -> None:
        await self._room.wait()

    def send(self, line: bytes, *, in_order: bool) -> asyncio.Task[None]:
        """Start sending a message; with `in_order`, after the earlier ones."""
        before = self._last if in_order else None
        self._unaccepted += 1
        if self.congested:
            self._room.clear()
        task = self.tasks.start(self._send(line, before))
        if in_order:
            self._last = task
        return task

    def stop(self) -> None:
        self.tasks.cancel()
        self._room.set()

    async def _send(self, line: bytes, before: asyncio.Task[None] | None) -> None:
        try:
            if before is not None:
                await asyncio.wait((before,))
            async with asyncio.timeout(NOTICE_SECONDS):
                await self._send_notice(line)
        except (Fault, TimeoutError) as error:
            why = str(error) or "it did not accept it in time"
            logger.info("a server did not accept a notification or an answer", server=self._label, reason=why)
        finally:
            self._unaccepted -= 1
            if not self.congested:
                self._room.set()


GOODBYE_SECONDS = 2.0
"""How long ending a session may take. The server expires it later anyway."""

INITIALIZED: Final = "notifications/initialized"


class Owner(Protocol):
    """The channel that an outbox belongs to."""

    def end(self, fault: Fault) -> None:
        """End the connection."""
        ...

    def greeted(self) -> None:
        """The handshake is complete."""
        ...


class Post:
    """A request that waits for its answer."""

    __slots__ = ("answered", "id", "is_accepted", "line", "method", "owner", "params", "task", "version")

    task: asyncio.Task[None]

    def __init__(self, id_: int, request: Envelope, params: Params, owner: object) -> None:
        self.id = id_
        self.owner = self if owner is None else owner
        """Owner of the messages on its response stream: a call, or this request if there is no call."""
        self.line = request.line
        self.method = request.method
        self.params = params
        self.version = request_headers.version_in(self.params)
        """The protocol version in the request; None in the handshake era."""
        self.is_accepted = False
        """Whether the server answered the request with a success status."""
        self.answered = False

    def was_sent(self, fault: Fault) -> bool:
        """Whether the server may have acted on the request, which failed with `fault`.

        A server that does not know the session of a request does not look at the rest of it.
        """
        return self.is_accepted or not (isinstance(fault, ServerUnreachable) or is_expired(fault))

    @property
    def tool(self) -> str | None:
        """The tool that the request calls, if the server is modern."""
        calls = self.version is not None and self.method == "tools/call"
        return request_headers.text_in(self.params, "name") if calls else None


class Outbox(ABC):
    """The `Writer` of a peer over HTTP."""

    peer: Peer

    def __init__(self, owner: Owner, label: ServerIdentifier, limits: Limits) -> None:
        self._owner = owner
        self._label = label
        self._limits = limits
        self._posts: dict[Id, Post] = {}
        self._notices = Notices(self._send_notice, label)
        self._greeting: asyncio.Task[None] | None = None
        self.is_closed = False

    # -- what differs between the transports

    @abstractmethod
    async def _exchange(self, post: Post) -> None:
        """Send a request and read the response. Raises the `Fault` that ends it."""

    @abstractmethod
    async def _send_notice(self, line: bytes) -> None:
        """Send a notification or an answer. Raises the `Fault` if the server does not accept it."""

    def _notifies_cancel(self, cancelled: Id) -> bool:  # noqa: ARG002 -- for overriding methods
        """Whether to send the server a notification that a request was cancelled."""
        return True

    # -- Writer

    @property
    def congested(self) -> bool:
        return self._notices.congested

    async def drained(self) -> None:
        await self._notices.drained()

    def write(self, envelope: Envelope) -> None:
        """Send a message in its own HTTP request, so that none waits behind others and none is dropped."""
        id_, content = envelope.id, envelope.content
        if self.is_closed:
            return
        if envelope.is_request and isinstance(id_, int) and isinstance(content, Mapping):
            post = self._posts[id_] = Post(id_, envelope, content, self.peer.owner_of(id_))
            post.task = asyncio.get_running_loop().create_task(self._run(post))
        elif envelope.method == CANCELLED and isinstance(content, Mapping):
            if self._notifies_cancel(content["requestId"]):
                self._notices.send(envelope.line, in_order=False)
        else:
            told = self._notices.send(envelope.line, in_order=not envelope.is_answer)
            if envelope.method == INITIALIZED:
                self._greeting = self._notices.tasks.start(self._greet(told))

    def over(self, id_: int) -> None:
        """Abort a request whose answer nobody waits for any more."""
        post = self._posts.get(id_)
        if post is not None and not post.answered:
            post.task.cancel()

    def stop(self) -> None:
        """Abort everything, and send nothing more."""
        self.is_closed = True
        self._notices.stop()
        for post in self._posts.values():
            post.task.cancel()

    async def wait_stopped(self) -> None:
        """Wait for the aborted tasks."""
        tasks = {post.task for post in self._posts.values()} | set(self._notices.tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=GOODBYE_SECONDS)

    async def _greet(self, initialized: asyncio.Task[None]) -> None:
        await asyncio.wait((initialized,))
        self._owner.greeted()

    # -- one request

    async def _run(self, post: Post) -> None:
        try:
            if post.version is None and self._greeting is not None:
                await asyncio.wait((self._greeting,))  # the protocol allows no request before it
            await self._exchange(post)
        except Fault as fault:
            self._failed(post, fault)
        except Exception as error:  # noqa: BLE001 -- a bug of ours must end only this request
            logger.error("a request failed inside the workbench", server=self._label, error=repr(error))
            self._failed(post, ServerUnavailable("the workbench could not read its answer", kind="internal"))
        finally:
            if self._posts.get(post.id) is post:
                del self._posts[post.id]

    def _failed(self, post: Post, fault: Fault) -> None:
        was_sent = post.was_sent(fault)
        self.peer.fail(post.id, fault, was_sent=was_sent)
        if is_expired(fault):
            self._owner.end(expired())  # nobody knows what became of the other requests
        elif not self.peer.received_at and (not fault.counts or not was_sent):
            self._owner.end(fault)  # nothing is negotiated yet, and another greeting would not help
