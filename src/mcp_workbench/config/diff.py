"""Diff of two configurations.

A server counts as changed only if it would run differently. Another pattern in `inheritEnv` that matches the same
variables is no change.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mcp_workbench.config.environment import environment_of
from mcp_workbench.config.model import Launch
from mcp_workbench.identity import ServerIdentifier

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_workbench.config.model import Config, ServerConfig, ToolboxConfig

FIXED = {"tool_mode": "toolMode", "bounds": "limits", "catalog": "catalog", "record": "record"}
"""Settings that take effect at the next start, by their names in `Config`: clients know them, or files are open."""


class Changes(NamedTuple):
    """The differences between two configurations. Unchanged servers are not listed."""

    added: tuple[ServerIdentifier, ...] = ()
    changed: tuple[ServerIdentifier, ...] = ()
    removed: tuple[ServerIdentifier, ...] = ()
    toolboxes: tuple[str, ...] = ()
    """The toolboxes that were added, changed or removed. A new description is a change."""
    settings: tuple[str, ...] = ()
    """Settings of the whole file that take effect at the next start."""

    @property
    def replaced(self) -> tuple[ServerIdentifier, ...]:
        """The servers whose running processes must stop."""
        return self.changed + self.removed


def changes(old: Config, new: Config, environ: Mapping[str, str] | None = None) -> Changes:
    """How `new` differs from `old`; servers inherit from `environ`, by default our own environment."""
    environ = os.environ if environ is None else environ
    before, after = ({name: _resolved(box, environ) for name, box in config.toolboxes.items()} for config in (old, new))
    old_servers, new_servers = dict(_servers(before)), dict(_servers(after))
    names = [*after, *(name for name in before if name not in after)]
    return Changes(
        added=tuple(server for server in new_servers if server not in old_servers),
        changed=tuple(
            server for server in new_servers if server in old_servers and new_servers[server] != old_servers[server]
        ),
        removed=tuple(server for server in old_servers if server not in new_servers),
        toolboxes=tuple(name for name in names if before.get(name) != after.get(name)),
        settings=tuple(key for name, key in FIXED.items() if getattr(old, name) != getattr(new, name)),
    )


def _resolved(toolbox: ToolboxConfig, environ: Mapping[str, str]) -> ToolboxConfig:
    """The toolbox with the actual environment of each server in place of its patterns."""
    servers = {name: _with_environment(server, environ) for name, server in toolbox.servers.items()}
    return msgspec.structs.replace(toolbox, servers=servers)


def _with_environment(server: ServerConfig, environ: Mapping[str, str]) -> ServerConfig:
    launch = server.target
    if not isinstance(launch, Launch):
        return server
    resolved = msgspec.structs.replace(launch, env=environment_of(launch, environ), inherit_env=())
    return msgspec.structs.replace(server, target=resolved)


def _servers(toolboxes: Mapping[str, ToolboxConfig]) -> Iterator[tuple[ServerIdentifier, ServerConfig]]:
    return (
        (ServerIdentifier(server.toolbox, server.name), server)
        for toolbox in toolboxes.values()
        for server in toolbox.servers.values()
    )
