"""The configuration as frozen values: what the rest of the program reads.

A `Config` is complete and checked: paths are absolute, variables are expanded, and of disabled servers only the names
remain. Structs that may hold a secret show none of their values in `repr`.
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
    """The command of a local server: an argument vector, never a shell line."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: Path | None = None
    inherit_env: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Launch(...)"


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """The OAuth client of the workbench for a remote server. If it is empty, the workbench registers itself."""

    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    """The scopes to request. Empty: those that the server names."""
    callback_port: int = 0
    """The port of the redirect URI. 0: any free port."""
    issuer: str = ""
    """The only authorization server that gets the client credentials. Empty: a person logs in."""
    private_key: str = ""
    """In PEM format, in place of a secret."""
    signing_algorithm: str = "RS256"

    @property
    def logs_in_itself(self) -> bool:
        """Whether the workbench gets tokens with client credentials, without a person."""
        return bool(self.issuer)

    def __repr__(self) -> str:
        return "OAuthClient(...)"


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a remote server, and how to log in there."""

    url: str
    headers: Mapping[str, str] = {}
    transport: Literal["http", "sse"] = "http"
    oauth: OAuthClient = OAuthClient()
    allow_insecure: bool = False
    """Whether credentials may be sent over plain http."""

    def __repr__(self) -> str:
        return "Endpoint(...)"


class MissingVariable(msgspec.Struct, frozen=True):
    """A `${VAR}` that is not set. Only its own server fails."""

    variable: str
    path: str
    """Its path in the file, such as `toolboxes.production.mcpServers.database.env.API_KEY`."""
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
    """The limits that the file sets for this server, by their names in `limits.py`."""
    missing: tuple[MissingVariable, ...] = ()
    secrets: frozenset[str] = frozenset()
    """Values that must never be shown: `env`, `headers` and every expanded `${VAR}`."""

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
    """The names of its disabled servers, to show to people."""


class ConfigWarning(msgspec.Struct, frozen=True, kw_only=True):
    """A problem that `check` reports and that does not stop the start."""

    path: str
    message: str
    line: int
    column: int


NO_STORE = "none"
"""The value of `catalog.path` that turns the cache off."""


class CatalogConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How the lists of servers are cached."""

    refresh: Refresh = "background"
    path: str | None = None
    """The absolute path of the cache, or `none`. None: the path that the environment or the platform sets."""


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    file: str
    """The absolute path of the file."""
    toolboxes: Mapping[str, ToolboxConfig]
    tool_mode: ToolMode = "proxy"
    open_detail: OpenDetail = "auto"
    """How `open_toolbox` shows tools if the call does not say."""
    strict: bool = False
    bounds: Mapping[str, float] = {}
    """The limits of the workbench itself, by their names in `limits.py`."""
    catalog: CatalogConfig = CatalogConfig()
    record: Recording = "calls"
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def source(self) -> Path:
        """The file, for code that works with it."""
        from pathlib import Path  # noqa: PLC0415 -- serving does not need it, and importing it delays every start

        return Path(self.file)

    @property
    def secrets(self) -> set[str]:
        """The values of all servers that must never be shown. Names of toolboxes and servers are shown anyway."""
        from mcp_workbench.config.secret_patterns import credentials_of  # noqa: PLC0415 -- not needed until something is printed

        names = {*self.toolboxes, *(server.name for server in self.servers())}
        return {secret for server in self.servers() for secret in (*server.secrets, *credentials_of(server))} - names

    def servers(self) -> Iterator[ServerConfig]:
        """Every server of every toolbox, in the order of the file."""
        for toolbox in self.toolboxes.values():
            yield from toolbox.servers.values()


Help: TypeAlias = Callable[[str, Iterable[str], str], str]
"""Builds the hint for an unknown name. Its arguments: the name, the known names, and what they name."""


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
