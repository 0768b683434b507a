"""What is otherwise in a configuration than in the one before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mcp_workbench.identity import ServerIdentifier

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_workbench.config.model import Config, ServerConfig

FIXED = {"tool_mode": "toolMode", "bounds": "limits", "catalog": "catalog", "record": "record"}
"""What counts until the end of a process, by its name in `Config`; clients were told, or files are open."""


class Changes(NamedTuple):
    """What differs. A server that is as it was is in none of these."""

    added: tuple[ServerIdentifier, ...] = ()
    changed: tuple[ServerIdentifier, ...] = ()
    removed: tuple[ServerIdentifier, ...] = ()
    toolboxes: tuple[str, ...] = ()
    """Where anything is new, gone or otherwise, descriptions included."""
    settings: tuple[str, ...] = ()
    """Settings of the whole file that take effect at the next start."""

    @property
    def replaced(self) -> tuple[ServerIdentifier, ...]:
        """Servers that are not to run any more as they do."""
        return self.changed + self.removed


def changes(old: Config, new: Config) -> Changes:
    """What of `new` is otherwise than in `old`."""
    before, after = dict(_servers(old)), dict(_servers(new))
    names = [*new.toolboxes, *(name for name in old.toolboxes if name not in new.toolboxes)]
    return Changes(
        added=tuple(server for server in after if server not in before),
        changed=tuple(server for server in after if server in before and after[server] != before[server]),
        removed=tuple(server for server in before if server not in after),
        toolboxes=tuple(name for name in names if old.toolboxes.get(name) != new.toolboxes.get(name)),
        settings=tuple(shown for name, shown in FIXED.items() if getattr(old, name) != getattr(new, name)),
    )


def _servers(config: Config) -> Iterator[tuple[ServerIdentifier, ServerConfig]]:
    return ((ServerIdentifier(server.toolbox, server.name), server) for server in config.servers())
