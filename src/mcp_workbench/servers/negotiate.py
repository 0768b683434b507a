"""Negotiates the protocol with a server: `initialize` opens the handshake era, `server/discover` the modern one.

Many servers speak both, and can do different things in each: in the handshake era, for example, a server sends requests
to its client. So we try the client's era first, and the other one as the fallback. The result, an `Agreement`, adds
what later requests must carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import NegotiationFailed, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.servers.base import Channel, explained
from mcp_workbench.wire import eras
from mcp_workbench.wire.background import BackgroundTasks
from mcp_workbench.wire.caller import Caller
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT, METHOD_NOT_FOUND, UNSUPPORTED_VERSION

Order: TypeAlias = tuple[bool, ...]
"""The eras to try, in order: True is the modern one."""
HANDSHAKE_ONLY: Final[Order] = (False,)
HANDSHAKE_FIRST: Final[Order] = (False, True)
MODERN_FIRST: Final[Order] = (True, False)


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a negotiation."""

    version: str
    modern: bool
    hello: Raw = EMPTY_OBJECT
    """The server's whole answer to the greeting."""
    offers: Mapping[str, Any] = {}
    """The capabilities that the server declared."""
    envelope: Mapping[str, Any] = {}
    """The `_meta` entries of every request to a modern server."""

    @property
    def features(self) -> frozenset[str]:
        """The names of its capabilities and of its extensions; early drafts of an extension were experimental."""
        groups = (self.offers.get("extensions"), self.offers.get("experimental"))
        named = [cast("dict[str, Any]", group) for group in groups if isinstance(group, dict)]
        # The name of an extension has a prefix. Without one it could pass for a capability.
        return frozenset(self.offers).union(name for group in named for name in group if "/" in name)

    def stamp(self, log_level: str | None = None, capabilities: Raw | None = None) -> Mapping[str, Any]:
        """The `_meta` entries of a request to a modern server, with the capabilities of the present caller."""
        stamp = dict(self.envelope)
        if capabilities is not None:
            stamp[eras.CLIENT_CAPABILITIES] = capabilities
        if log_level is not None:
            stamp[eras.LOG_LEVEL] = log_level
        return stamp

    def declares(self, capability: str, feature: str) -> bool:
        """Whether the server declared e.g. `tools.listChanged`."""
        declared = self.offers.get(capability)
        return isinstance(declared, dict) and cast("dict[str, Any]", declared).get(feature) is True


class _Discovered(msgspec.Struct, rename="camel"):
    supported_versions: list[str]
    capabilities: Raw = EMPTY_OBJECT


class _Supported(msgspec.Struct):
    supported: list[str]


class _Initialized(msgspec.Struct, rename="camel"):
    protocol_version: str
    capabilities: Raw = EMPTY_OBJECT


async def negotiate(
    channel: Channel, limits: Limits, caller: Caller, order: Order, *, is_remote: bool = False
) -> Agreement:
    """Agree with the server on a protocol, on behalf of `caller`.

    If a server stays silent, the next era is tried after a while; the first greeting stays open. A remote server is
    not probed while `initialize` is unanswered: a late answer would open a session that nobody closes.
    Raises `NegotiationFailed`, or the `Fault` that ended the connection.
    """
    greetings = BackgroundTasks()
    asked = {order[0]: greetings.start(_greet(channel, caller, modern=order[0]))}
    patience = None if order == HANDSHAKE_ONLY or (is_remote and not order[0]) else limits.probe_patience_seconds
    try:
        await asyncio.wait(asked.values(), timeout=patience)
        for modern in order[1:]:
            if not _is_settled(asked[order[0]], channel):
                asked[modern] = greetings.start(_greet(channel, caller, modern=modern))
        agreement = await _first_good(channel, asked)
        if order == HANDSHAKE_FIRST and not agreement.modern and (probe := asked.get(True)) is not None:
            # It started slowly, so it got the probe too. Some servers exit on it: better now than during a call.
            await asyncio.wait((probe, channel.ended), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        return agreement
    finally:
        greetings.cancel()


def has_no_handshake(fault: NegotiationFailed) -> bool:
    """Whether a server refused `initialize` like a modern server that does not know it."""
    refusal = fault.__cause__
    return isinstance(refusal, ServerRefused) and refusal.rpc_code in (METHOD_NOT_FOUND, UNSUPPORTED_VERSION)


def _greet(channel: Channel, caller: Caller, *, modern: bool) -> Coroutine[Any, Any, Agreement]:
    return _discover(channel, caller) if modern else _initialize(channel, caller)


def _is_settled(greeting: asyncio.Task[Agreement], channel: Channel) -> bool:
    """Whether a greeting settled it: by an agreement or by the end of the connection, not by a refusal."""
    return greeting.done() and (greeting.exception() is None or channel.ended.done())


async def _first_good(channel: Channel, asked: Mapping[bool, asyncio.Task[Agreement]]) -> Agreement:
    """The first success; if several come at once, that of the first era. If all fail, raises the handshake's fault."""
    waiting = set(asked.values())
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in asked.values():
            if task.done() and task.exception() is None:
                return task.result()
    last = list(asked.values())[-1]
    return (last if channel.ended.done() else asked[False]).result()


async def _discover(channel: Channel, caller: Caller) -> Agreement:
    version = MODERN_VERSIONS[-1]
    envelope: dict[str, Any] = {
        eras.PROTOCOL_VERSION: version,
        eras.CLIENT_INFO: eras.SELF,
        eras.CLIENT_CAPABILITIES: caller.capabilities,
    }
    try:
        raw = await channel.peer.request("server/discover", {"_meta": envelope}, cancellable=False)
    except ServerRefused as refusal:
        if not _is_offered(refusal, version):
            raise
        raw = await channel.peer.request("server/discover", {"_meta": envelope}, cancellable=False)
    try:
        found = msgspec.json.decode(raw, type=_Discovered)
    except (msgspec.DecodeError, RecursionError):
        raise NegotiationFailed("it answered server/discover with something else") from None
    if version not in found.supported_versions:
        raise NegotiationFailed("it supports no modern version that we know")
    offers = _offers(found.capabilities)
    return Agreement(version=version, modern=True, hello=raw, offers=offers, envelope=envelope)


def _is_offered(refusal: ServerRefused, version: str) -> bool:
    """Whether a server that refuses a version lists it as supported; then the request is repeated once."""
    if refusal.rpc_code != UNSUPPORTED_VERSION:
        return False
    try:
        return version in msgspec.json.decode(refusal.data, type=_Supported).supported
    except (msgspec.DecodeError, RecursionError):
        return False


async def _initialize(channel: Channel, caller: Caller) -> Agreement:
    # The client's own version, so that the server sends only what the client knows.
    version = caller.version if caller.version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1]
    params = {"protocolVersion": version, "capabilities": caller.capabilities, "clientInfo": eras.SELF}
    try:
        raw = await channel.peer.request("initialize", params, cancellable=False)
        found = msgspec.json.decode(raw, type=_Initialized)
    except ServerRefused as refusal:
        raise NegotiationFailed(f"it refused to initialize: {explained(refusal)}") from refusal
    except (msgspec.DecodeError, RecursionError):
        raise NegotiationFailed("it answered initialize with something else") from None
    if found.protocol_version not in HANDSHAKE_VERSIONS:
        raise NegotiationFailed(f"it speaks only protocol version {logger.foreign(found.protocol_version)}")
    channel.peer.notify("notifications/initialized", {})
    return Agreement(version=found.protocol_version, modern=False, hello=raw, offers=_offers(found.capabilities))


def _offers(capabilities: Raw) -> dict[str, Any]:
    """The declared capabilities; empty if they can't be decoded."""
    try:
        return msgspec.json.decode(capabilities, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
