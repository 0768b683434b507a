"""Endpoints: pass a client's messages to its session, on any transport, and choose the client's surface.

An endpoint identifies the caller of each request and refuses requests that would overload the workbench.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import Overloaded, WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.serve.callers import Callers
from mcp_workbench.serve.session import Session
from mcp_workbench.surfaces.base import Surface
from mcp_workbench.surfaces.failures import as_rpc_error
from mcp_workbench.surfaces.server_info import EVERYTHING, View
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.batch import BatchElement, is_batch, read_batch
from mcp_workbench.wire.exchange import OpenRequest
from mcp_workbench.wire.jsonrpc import ErrorBody, Id, RpcError, Unreadable
from mcp_workbench.wire.peer import Peer, PeerRequest, Writer
from mcp_workbench.workbench import Workbench


def surface_for(workbench: Workbench, view: View = EVERYTHING) -> Surface:
    """The surface for a view and the configured tool mode."""
    if view.server:
        from mcp_workbench.surfaces.server import ServerSurface  # noqa: PLC0415 -- import only the surface that is used

        return ServerSurface(workbench, ServerIdentifier(view.toolbox, view.server))
    if view.toolbox:
        from mcp_workbench.surfaces.toolbox import ToolboxSurface  # noqa: PLC0415

        return ToolboxSurface(workbench, view.toolbox)
    if workbench.config.tool_mode == "dynamic":
        from mcp_workbench.surfaces.dynamic import DynamicSurface  # noqa: PLC0415

        return DynamicSurface(workbench)
    from mcp_workbench.surfaces.proxy import ProxySurface  # noqa: PLC0415

    return ProxySurface(workbench)


class ClientEndpoint:
    """One client, on any transport."""

    def __init__(self, workbench: Workbench, callers: Callers, view: View, line: OpenRequest) -> None:
        """`line` carries messages to the client that belong to none of its requests."""
        self._workbench = workbench
        self.account = workbench.account(callers.audience)
        """The memory that is held for this client."""
        self._callers = callers
        self._surface = surface_for(workbench, view)
        self._session = Session(workbench, self._surface, line, callers.audience, workbench.limits)
        callers.introduce_to(partial(workbench.introduce, callers.audience))

    def request(
        self, method: str, params: dict[str, Raw], line: OpenRequest, meta: dict[str, Raw] | None = None
    ) -> Awaitable[Raw]:
        """Answer a request. `meta` is its `_meta` if that is already decoded. Raises `RpcError`."""
        if isinstance(params, jsonrpc.NotAnObject):
            raise _no_object()
        if meta is None:
            meta = jsonrpc.members(params["_meta"]) if "_meta" in params else {}
        caller = self._callers.handshake
        if caller is None or meta or method == "initialize":
            caller = self._callers.of(method, params, meta)
        work = self._session.handle(caller, line, method, params, meta)
        return self._greeted(work) if method == "initialize" else work

    def notification(self, method: str, params: dict[str, Raw], owner: object = None) -> None:
        del owner  # a client's messages never come on a response stream
        try:
            if isinstance(params, jsonrpc.NotAnObject):
                raise _no_object()
            self._session.notice(method, params)
        except (RpcError, WorkbenchError) as error:  # notifications have no response
            logger.warning("a client's notification was dropped", method=method, reason=str(error))

    def admit(self, load: int, method: str, params: dict[str, Raw]) -> RpcError | Raw | None:
        """None if this client may make the request now, else its refusal."""
        account = self.account
        if load < self._workbench.limits.client_requests and account.held - account.kept <= account.limit:
            return None  # fast path: this runs before every call
        overload = self.overload(load)
        if overload is None:
            return None
        if isinstance(params, jsonrpc.NotAnObject):
            return _no_object()
        try:
            return self.refusal(overload, method, params, jsonrpc.members(params.get("_meta")))
        except RpcError as error:
            return error

    def overload(self, load: int) -> Overloaded | None:
        """The error for one more request if it is too much: one client must not use up all memory."""
        if load >= self._workbench.limits.client_requests:
            hint = "Try again in a few seconds, with fewer requests at once."
            return Overloaded(f"{load} requests are already being answered", hint=hint)
        if self.account.is_full:
            return out_of_memory("The workbench already holds too much data for this client")
        return None

    def refusal(self, overload: Overloaded, method: str, params: dict[str, Raw], meta: dict[str, Raw]) -> Raw:
        """Refuse a request for overload: return a result for a tool call, else raise `RpcError`."""
        if method != "tools/call":
            raise as_rpc_error(overload)
        return self._session.refuse(self._callers.of(method, params, meta), method, params, overload)

    def end_subscriptions(self) -> None:
        """End all subscriptions with their results."""
        self._session.end_subscriptions()

    async def leave(self) -> None:
        """Clean up after the client has disconnected."""
        self._session.close()
        await self._workbench.leave(self._callers.audience)

    async def _greeted(self, work: Awaitable[Raw]) -> Raw:
        """Await the result of `initialize`. If it fails, the client may try again."""
        try:
            return await work
        except BaseException:
            self._callers.forget()
            raise


def out_of_memory(message: str) -> Overloaded:
    """The error for a client that makes the workbench hold too much data."""
    return Overloaded(message, hint="Read the pending responses, then try again with fewer or smaller calls.")


def call_shed() -> RpcError:
    """The error of a call that was cancelled to free memory."""
    return as_rpc_error(out_of_memory("The call was cancelled: the workbench holds too much data for this client"))


class PeerEndpoint(ClientEndpoint):
    """One client whose messages go through a `Peer`."""

    def __init__(self, workbench: Workbench, callers: Callers, view: View, writer: Writer) -> None:
        account = workbench.account(callers.audience)
        self._peer = Peer(writer, self, admit=self.admit, adjourn=self.adjourn, account=account)
        super().__init__(workbench, callers, view, PeerRequest(self._peer, None))
        account.cancel = self._cancel_calls

    def _cancel_calls(self) -> None:
        self._peer.shed(call_shed())

    def adjourn(self, request: Id) -> None:
        """Let the client fetch the rest of a response later. Transports that support this override it."""

    def unreadable(self, line: bytes, problem: Unreadable) -> None:
        if not is_batch(line):
            self.refuse(line, jsonrpc.refusal(problem))
            return
        try:
            batch = self.read_batch(line)
        except RpcError as error:
            self.refuse(line, error)
        else:
            self._peer.receive_batch(batch)

    def read_batch(self, line: bytes) -> list[BatchElement]:
        """Read the messages of a batch. Raises `RpcError` if this client may not send it."""
        return read_batch(line, self._callers.version, self._workbench.limits.client_requests)

    def refuse(self, line: bytes, error: RpcError) -> None:
        """Answer an invalid line with an error."""
        self._peer.refuse(line, error)

    def complaint(self, error: ErrorBody) -> None:
        logger.warning("the client could not read a message", code=error.code, reason=error.message)


def _no_object() -> RpcError:
    return RpcError(jsonrpc.INVALID_PARAMS, "params must be an object")
