"""Which protocol a server speaks, found out once and remembered.

Modern servers answer `server/discover`, older ones `initialize`. Both can be asked: the first good
answer wins. The result, an `Agreement`, stamps what later requests must carry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import msgspec
from msgspec import Raw

from mcp_workbench import observe
from mcp_workbench.connections.base import Channel, explained
from mcp_workbench.errors import Fault, NegotiationFailed, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.wire import eras
from mcp_workbench.wire.eras import HANDSHAKE_VERSIONS, MODERN_VERSIONS
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT, UNSUPPORTED_VERSION, Params
from mcp_workbench.wire.tasks import heard


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """What a server and we agreed on."""

    version: str
    modern: bool
    hello: Raw = EMPTY_OBJECT
    """The server's whole first answer."""
    offers: Mapping[str, Any] = {}
    """The capabilities that it declared."""
    envelope: Mapping[str, Any] = {}
    """What a modern server gets in the `_meta` of every request."""

    def stamp(self, params: Params, log_level: str | None = None, capabilities: Raw | None = None) -> Params:
        """`params` as this server wants them; `capabilities` are those of who calls now."""
        if not self.modern:
            return params
        meta = {**params.get("_meta", {}), **self.envelope}
        if capabilities is not None:
            meta[eras.CLIENT_CAPABILITIES] = capabilities
        if log_level is not None:
            meta[eras.LOG_LEVEL] = log_level
        return {**params, "_meta": meta}

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
    channel: Channel,
    limits: Limits,
    *,
    declared: Raw = EMPTY_OBJECT,
    modern: bool | None = None,
    handshake_first: bool = False,
) -> Agreement:
    """Agree with the server on a protocol.

    `declared` are the capabilities of the client that it will work for; `modern` is what it spoke last
    time, if known; with `handshake_first` it is the handshake that a server which speaks both is asked for.
    Raises a `Fault`: `NegotiationFailed`, or whatever ended the connection.
    """
    if modern is False:
        return await _initialize(channel, declared)
    if handshake_first and modern is None:
        return await _initialize_or_discover(channel, declared)
    probe = asyncio.ensure_future(_discover(channel, declared))
    asked = [probe]
    try:
        await asyncio.wait(asked, timeout=limits.probe_patience_seconds)
        if not _is_settled(probe, channel):
            asked.append(asyncio.ensure_future(_initialize(channel, declared)))
        return await _first_good(asked)
    finally:
        for task in asked:
            task.cancel()
            task.add_done_callback(heard)


async def _initialize_or_discover(channel: Channel, declared: Raw) -> Agreement:
    """They aren't asked at once: a session would be left behind that nobody knows of."""
    try:
        return await _initialize(channel, declared)
    except Fault as fault:
        if channel.ended.done():
            raise
        why = fault
    try:
        return await _discover(channel, declared)
    except Fault as fault:
        raise (fault if channel.ended.done() else why) from None


def _is_settled(probe: asyncio.Task[Agreement], channel: Channel) -> bool:
    """Whether the probe decided it: an agreement, or the end of the connection. A refusal does not."""
    return probe.done() and (probe.exception() is None or channel.ended.done())


async def _first_good(tasks: list[asyncio.Task[Agreement]]) -> Agreement:
    """The first success; if all fail, the last one's reason."""
    waiting = set(tasks)
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done() and task.exception() is None:
                return task.result()
    return tasks[-1].result()


async def _discover(channel: Channel, declared: Raw) -> Agreement:
    version = MODERN_VERSIONS[-1]
    envelope: dict[str, Any] = {
        eras.PROTOCOL_VERSION: version,
        eras.CLIENT_INFO: eras.SELF,
        eras.CLIENT_CAPABILITIES: declared,
    }
    try:
        raw = await channel.request("server/discover", {"_meta": envelope}, cancellable=False)
    except ServerRefused as refusal:
        if not _is_offered(refusal, version):
            raise
        raw = await channel.request("server/discover", {"_meta": envelope}, cancellable=False)
    try:
        found = msgspec.json.decode(raw, type=_Discovered)
    except (msgspec.DecodeError, RecursionError):
        raise NegotiationFailed("it answered server/discover with something else") from None
    if version not in found.supported_versions:
        raise NegotiationFailed("it supports no modern version that we know")
    offers = _offers(found.capabilities)
    return Agreement(version=version, modern=True, hello=raw, offers=offers, envelope=envelope)


def _is_offered(refusal: ServerRefused, version: str) -> bool:
    """Whether a server that refuses a version names it among those that it speaks: then it is asked once more."""
    if refusal.rpc_code != UNSUPPORTED_VERSION:
        return False
    try:
        return version in msgspec.json.decode(refusal.data, type=_Supported).supported
    except (msgspec.DecodeError, RecursionError):
        return False


async def _initialize(channel: Channel, declared: Raw) -> Agreement:
    params = {"protocolVersion": HANDSHAKE_VERSIONS[-1], "capabilities": declared, "clientInfo": eras.SELF}
    try:
        raw = await channel.request("initialize", params, cancellable=False)
        found = msgspec.json.decode(raw, type=_Initialized)
    except ServerRefused as refusal:
        raise NegotiationFailed(f"it refused to initialize: {explained(refusal)}") from None
    except (msgspec.DecodeError, RecursionError):
        raise NegotiationFailed("it answered initialize with something else") from None
    if found.protocol_version not in HANDSHAKE_VERSIONS:
        raise NegotiationFailed(f"it speaks only protocol version {observe.foreign(found.protocol_version)}")
    channel.notify("notifications/initialized", {})
    return Agreement(version=found.protocol_version, modern=False, hello=raw, offers=_offers(found.capabilities))


def _offers(capabilities: Raw) -> dict[str, Any]:
    """What a server declared; nothing where that can't be read."""
    try:
        return msgspec.json.decode(capabilities, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
