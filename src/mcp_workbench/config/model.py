"""The configuration as frozen values: what the rest of the program reads.

A `Config` is complete and checked: paths are absolute, variables are expanded, disabled
servers are names. It knows nothing of files, tokens or positions. Structs that may hold a
secret show only their names in `repr`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from mcp_workbench.errors import ServerNotFound, ToolboxNotFound
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.suggest import nearest_or_known

if TYPE_CHECKING:
    from pathlib import Path


ToolMode = Literal["proxy", "dynamic"]
OpenDetail = Literal["auto", "full", "signature"]
Refresh = Literal["background", "always", "never"]
Recording = Literal["off", "calls", "full"]


class Launch(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """How a local server is started: an argument vector, never a shell line."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: Path | None = None
    inherit_env: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Launch(...)"


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """How the workbench is known to the authorization server of a remote server; empty: it registers itself."""

    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    """What to ask for; empty: what the server says."""
    callback_port: int = 0
    """The port to which a login comes back; 0 is any."""
    issuer: str = ""
    """The only authorization server that gets the client credentials. Empty: a person logs in."""
    private_key: str = ""
    """In PEM form, instead of a secret."""
    signing_algorithm: str = "RS256"

    @property
    def logs_in_itself(self) -> bool:
        """Whether tokens are fetched with client credentials, without a person."""
        return bool(self.issuer)

    def __repr__(self) -> str:
        return "OAuthClient(...)"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a remote server is reached."""

    url: str
    headers: Mapping[str, str] = {}
    transport: Literal["http", "sse"] = "http"
    oauth: OAuthClient = OAuthClient()
    allow_insecure: bool = False
    """Whether credentials may be sent over plain http."""

    def __repr__(self) -> str:
        return "Endpoint(...)"


class MissingVariable(msgspec.Struct, frozen=True):
    """A `${VAR}` that is not set: it fails its own server, nothing else."""

    variable: str
    path: str
    """Where it stands, e.g. `toolboxes.production.mcpServers.database.env.API_KEY`."""
    line: int
    column: int


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `mcpServers`."""

    name: str
    toolbox: str
    target: Launch | Endpoint
    tool_filters: tuple[str, ...] = ()
    """Empty: every tool."""
    bounds: Mapping[str, float] = {}
    """Limits that the file sets for it, by their names in `limits.py`."""
    missing: tuple[MissingVariable, ...] = ()
    secrets: frozenset[str] = frozenset()
    """Values that must never be shown: `env`, `headers` and everything that `${VAR}` brought in."""

    @property
    def identifier(self) -> ServerIdentifier:
        return ServerIdentifier(self.toolbox, self.name)

    def __repr__(self) -> str:
        return f"ServerConfig({self.toolbox!r}, {self.name!r})"


class ToolboxConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A named group of servers, in the order of the file."""

    name: str
    description: str
    servers: Mapping[str, ServerConfig]
    disabled: tuple[str, ...] = ()
    """The names of those that are switched off: they are shown to people, and nothing else is known of them."""


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    """Something that `check` mentions and that stops nothing."""

    path: str
    message: str
    line: int
    column: int


NO_STORE = "none"
"""Stands for a path where nothing is remembered."""


class CatalogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the lists of servers are remembered."""

    refresh: Refresh = "background"
    path: str | None = None
    """The absolute path of the store, or `none`; None: where the environment or the platform says."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    file: str
    """The absolute path of the file."""
    toolboxes: Mapping[str, ToolboxConfig]
    tool_mode: ToolMode = "proxy"
    open_detail: OpenDetail = "auto"
    """How tools are shown where an `open_toolbox` call does not say."""
    strict: bool = False
    bounds: Mapping[str, float] = {}
    """Limits that are not a server's, by their names in `limits.py`."""
    catalog: CatalogConfig = CatalogConfig()
    record: Recording = "calls"
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def source(self) -> Path:
        """The file, for code that works with it."""
        from pathlib import Path  # noqa: PLC0415 -- serving does not need it, and every start would pay for it

        return Path(self.file)

    @property
    def secrets(self) -> set[str]:
        """Values that must never be shown, of whichever server; names that are shown anyway are none."""
        from mcp_workbench.config.secret_patterns import credentials_of  # noqa: PLC0415 -- not needed before something is said

        names = {*self.toolboxes, *(server.name for server in self.servers())}
        return {one for server in self.servers() for one in (*server.secrets, *credentials_of(server))} - names

    def servers(self) -> Iterator[ServerConfig]:
        """Every server of every toolbox, in the order of the file."""
        for toolbox in self.toolboxes.values():
            yield from toolbox.servers.values()


Help: TypeAlias = Callable[[str, Iterable[str], str], str]
"""What to say about a name that does not exist, those that do, and what they name."""


def find_toolbox(config: Config, name: str, help_with: Help = nearest_or_known) -> ToolboxConfig:
    """Raises `ToolboxNotFound`."""
    if (toolbox := config.toolboxes.get(name)) is None:
        raise ToolboxNotFound(name, hint=help_with(name, config.toolboxes, "toolboxes"))
    return toolbox


def find_server(config: Config, toolbox_name: str, name: str, help_with: Help = nearest_or_known) -> ServerConfig:
    """Raises `ToolboxNotFound` or `ServerNotFound`."""
    toolbox = find_toolbox(config, toolbox_name, help_with)
    if (server := toolbox.servers.get(name)) is not None:
        return server
    is_disabled = name in toolbox.disabled
    hint = "It is disabled in the configuration." if is_disabled else help_with(name, toolbox.servers, "servers")
    raise ServerNotFound(toolbox_name, name, hint=hint)
