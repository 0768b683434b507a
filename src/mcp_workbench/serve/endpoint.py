"""What every front does with a client's messages: it knows who calls, and hands them to the client's session."""

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
    """What a client sees, by what it asked for and what the configuration says."""
    if view.server:
        from mcp_workbench.surfaces.server import ServerSurface  # noqa: PLC0415 -- only what is used is loaded

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
    """One client, on whatever wire."""

    def __init__(self, workbench: Workbench, callers: Callers, view: View, line: OpenRequest) -> None:
        """`line` is how the client is reached outside of its requests."""
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
        """The result of a request. `meta` is its `_meta`, if that was decoded already. Raises `RpcError`."""
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
        except (RpcError, WorkbenchError) as error:  # nobody waits for an answer
            logger.warning("a client's notification was not passed on", method=method, reason=str(error))

    def admit(self, load: int, method: str, params: dict[str, Raw]) -> RpcError | Raw | None:
        """None, or the answer to a request that this client may not make now."""
        account = self.account
        if load < self._workbench.limits.client_requests and account.held - account.kept <= account.limit:
            return None  # nearly always, and before every call
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
        """Why one more request is too much: one client must not use up all memory."""
        if load >= self._workbench.limits.client_requests:
            hint = "Try again in a few seconds, with fewer requests at once."
            return Overloaded(f"{load} requests are being answered already", hint=hint)
        if self.account.is_full:
            return out_of_memory("The workbench holds too much for this client already")
        return None

    def refusal(self, overload: Overloaded, method: str, params: dict[str, Raw], meta: dict[str, Raw]) -> Raw:
        """The answer to a request that is too much: a result for a call, else raises `RpcError`."""
        if method != "tools/call":
            raise as_rpc_error(overload)
        return self._session.refuse(self._callers.of(method, params, meta), method, params, overload)

    def end_subscriptions(self) -> None:
        """Answer every subscription: there will be no more to tell."""
        self._session.end_subscriptions()

    async def leave(self) -> None:
        """The client is gone: end what was started for it."""
        self._session.close()
        await self._workbench.leave(self._callers.audience)

    async def _greeted(self, work: Awaitable[Raw]) -> Raw:
        """A greeting that failed, because a server did, may be tried again."""
        try:
            return await work
        except BaseException:
            self._callers.forget()
            raise


def out_of_memory(message: str) -> Overloaded:
    """The error for a client that makes the workbench hold too much."""
    return Overloaded(message, hint="Read the answers that are waiting, then try again with fewer or smaller calls.")


def call_shed() -> RpcError:
    """The answer to a call that was cancelled to free memory."""
    return as_rpc_error(out_of_memory("The call was cancelled, since the workbench holds too much for this client"))


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
        """Have the client come back for the rest of what a request brings, on a wire that has that."""

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
        """The messages of a batch. Raises `RpcError` if this client may not send it."""
        return read_batch(line, self._callers.version, self._workbench.limits.client_requests)

    def refuse(self, line: bytes, error: RpcError) -> None:
        """Answer a line that can't be accepted with an error."""
        self._peer.refuse(line, error)

    def complaint(self, error: ErrorBody) -> None:
        logger.warning("the client could not read a message", code=error.code, reason=error.message)


def _no_object() -> RpcError:
    return RpcError(jsonrpc.INVALID_PARAMS, "params must be an object")
