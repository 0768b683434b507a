"""Which toolboxes a client sees the prompts and resources of."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mcp_workbench.wire.caller import Caller


class Scope:
    """A handshake client sees what it opened. A modern client's lists must not change by a call: it sees all."""

    def __init__(self, toolboxes: Callable[[], Collection[str]], *, all_open: bool = False) -> None:
        """`toolboxes` are those that there are now."""
        self._toolboxes = toolboxes
        self._opened = dict.fromkeys(toolboxes() if all_open else ())
        self._all_seen = False

    def of(self, caller: Caller) -> tuple[str, ...]:
        """What this caller sees, in the order of the configuration."""
        self._all_seen = self._all_seen or caller.modern
        return tuple(name for name in self._toolboxes() if caller.modern or name in self._opened)

    def all(self) -> tuple[str, ...]:
        """Every toolbox that this client can use, open or not."""
        return tuple(self._toolboxes())

    def allows(self, toolbox: str) -> bool:
        """Whether it is there for this client at all, open or not."""
        return toolbox in self._toolboxes()

    def open(self, toolbox: str) -> bool:
        """Add a toolbox; whether it is new."""
        if toolbox in self._opened:
            return False
        self._opened[toolbox] = None
        return True

    def has_shown(self, toolbox: str) -> bool:
        """Whether the client has seen what is in it, and so is told when that changes."""
        return self._all_seen or toolbox in self._opened
