"""The states and cached tools of configured servers. It starts none."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from mcp_workbench.catalog.cache.server_cache import CachedServer, ServerCache
from mcp_workbench.catalog.cache.store import Entry, StoredClient
from mcp_workbench.catalog.definition import OFFERED, offer_text
from mcp_workbench.catalog.snapshot import ServerTools, take_listing
from mcp_workbench.cli.display import Tone, Words
from mcp_workbench.config.model import Config, Endpoint, ServerConfig
from mcp_workbench.errors import ToolNotFound
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import count
from mcp_workbench.text.suggest import nearest_or_known
from mcp_workbench.wire import jsonrpc

Found = dict[ServerIdentifier, "Known"]


class Known(NamedTuple):
    """A cached list of a server, and the time of listing (`time.time()`)."""

    listing: ServerTools
    listed_at: float
    offer: str = ""
    """Other text of the server: its instructions, and the names of its prompts and resources."""


def known_tools(config: Config, servers: Iterable[ServerConfig]) -> Found:
    """The cached tools of these servers. Servers that have never listed theirs are left out."""
    limits = DEFAULTS.bounded(config.bounds)
    memory = ServerCache(config, limits)
    if not memory.exists:
        return {}
    try:
        return dict(_read(memory, list(servers)))
    finally:
        memory.close()


def checked_tool(listing: ServerTools, identifier: ToolIdentifier) -> None:
    """Raise `ToolNotFound` unless the tool is listed. The hint says why a tool is withheld."""
    if identifier.tool in listing.tools:
        return
    withheld = {one.name: one.reason for one in listing.withheld}
    near = nearest_or_known(identifier.tool, listing.tools, "tools")
    problem = withheld.get(identifier.tool)
    raise ToolNotFound(identifier, hint=f"Its server lists it, but {problem}." if problem else near)


def _read(memory: ServerCache, servers: list[ServerConfig]) -> Iterator[tuple[ServerIdentifier, Known]]:
    for declared, modern in (*memory.recent_clients(), StoredClient(jsonrpc.EMPTY_OBJECT, modern=False)):
        missing: list[ServerConfig] = []
        for server, record in zip(servers, memory.of(servers, declared, modern=modern), strict=True):
            if (entry := record.get("tools")) is None:
                missing.append(server)
                continue
            limits = DEFAULTS.bounded(server.bounds)
            listing = take_listing(entry.items, server.tool_filters, limits)
            yield server.identifier, Known(listing, entry.listed_at, _offer(record, entry))
        if not (servers := missing):
            return


def _offer(record: CachedServer, entry: Entry) -> str:
    lists = (record.get(kind) for kind in OFFERED if kind in entry.offers)
    items = (item for one in lists if one is not None for item in one.items)
    return offer_text(jsonrpc.text_or_none(entry.instructions) or "", items)


Kind: TypeAlias = Literal["remembered", "never_listed", "needs_login", "variable_missing", "disabled"]

_TONES: Final[dict[Kind, Tone]] = {
    "remembered": "good",
    "never_listed": "quiet",
    "needs_login": "doubtful",
    "variable_missing": "bad",
    "disabled": "quiet",
}
_UNITS: Final = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


class State(NamedTuple):
    """The state of a server: a fixed word for JSON, and a text."""

    kind: Kind
    text: str

    @property
    def words(self) -> Words:
        return Words(self.text, _TONES[self.kind])


DISABLED: Final = State("disabled", "disabled")


def state_of(server: ServerConfig, known: Known | None) -> State:
    """The state of a server. Obstacles to its use come first."""
    if server.missing:
        names = dict.fromkeys(f"${{{missing.variable}}}" for missing in server.missing)
        return State("variable_missing", f"{' and '.join(names)} not set")
    if _needs_login(server):
        return State("needs_login", "needs a login: mcp-workbench auth")
    if known is None:
        return State("never_listed", "never listed")
    return State("remembered", f"{known.listing.count}, listed {age_of(known)}")


def server_count(config: Config, toolboxes: Iterable[str] | None = None) -> str:
    """The servers of these toolboxes, or of all: `3 servers (1 disabled)`."""
    boxes = [config.toolboxes[name] for name in (config.toolboxes if toolboxes is None else toolboxes)]
    disabled = sum(len(box.disabled) for box in boxes)
    return count(sum(len(box.servers) for box in boxes), "server") + (f" ({disabled} disabled)" if disabled else "")


def age_of(known: Known) -> str:
    """The age of a cached list."""
    seconds = time.time() - known.listed_at
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{count(int(seconds // size), unit)} ago"
    return "just now"


def _needs_login(server: ServerConfig) -> bool:
    """Whether the configuration declares a login, and none is stored on this machine."""
    endpoint = server.target
    if not isinstance(endpoint, Endpoint) or not (endpoint.oauth.client_id or endpoint.oauth.scopes):
        return False
    if endpoint.oauth.logs_in_itself:
        return False
    # These modules are large, and few servers have logins.
    from mcp_workbench.servers.http.authority import server_url  # noqa: PLC0415
    from mcp_workbench.servers.http.credential_stores import FileStore, Unusable  # noqa: PLC0415
    from mcp_workbench.servers.http.credentials import KEYRING, VARIABLE, credentials_path  # noqa: PLC0415

    if os.environ.get(VARIABLE) == KEYRING:
        return False  # reading the keyring may open a window
    try:
        return FileStore(credentials_path(os.environ), DEFAULTS).load(str(server_url(endpoint))) is None
    except Unusable:
        return True
