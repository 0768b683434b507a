"""A database file that is opened on demand, reopened if another process replaced it, and rebuilt if damaged.

The caller defines the tables. This module does not import SQLite, which some Pythons lack.
"""

# ruff: noqa: PTH119 -- a first open needs this module, and importing pathlib takes longer than all of it

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar

from mcp_workbench.config.locate import FOLDER_NAME
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import Damaged, Identity, Unusable


class _Closed(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closed)
R = TypeVar("R")


class Kind(NamedTuple, Generic[T]):
    """A kind of file."""

    name: str
    """The default file name."""
    loss: str
    """The log message when the file is rebuilt."""
    tries: int
    """How often one process rebuilds it."""
    opened: Callable[[str], T]
    """Opens the tables. Raises `ImportError`, or the errors of `Database`."""
    was_ours: Callable[[str], bool]
    """Whether a damaged file was of this kind. Raises `OSError`."""


class KeptFile(Generic[T]):
    """The file at a path. Only the thread that opened it may use it."""

    def __init__(self, path: str, kind: Kind[T]) -> None:
        self.path = secure_files.located(path)
        self.tables: T | None = None
        self._kind = kind
        self._identity: Identity | None = None
        self._times_rebuilt = 0

    def act(self, action: Callable[[T], R]) -> R:
        """Run an action on the tables and return its result. Raises `Busy`, `Unusable` or `OSError`."""
        while True:
            try:
                return action(self._open())
            except Damaged as damage:
                self._rebuild(damage)

    def let_go(self) -> None:
        """Close the file until the next use."""
        if self.tables is not None:
            self.tables.close()
            self.tables = None

    def _open(self) -> T:
        """The tables of the present file, which may have been replaced or removed since the last use."""
        if self.tables is not None and secure_files.identity(self.path) != self._identity:
            self.let_go()
        if self.tables is None:
            self._identity = secure_files.ensure_file(self.path)
            try:
                self.tables = self._kind.opened(self.path)
            except ImportError:
                raise Unusable("this Python was built without SQLite") from None
        return self.tables

    def _rebuild(self, damage: Damaged) -> None:
        """Remove a damaged file. Raises `Unusable` or `OSError` if it can't or must not be removed."""
        self.let_go()
        if self._times_rebuilt >= self._kind.tries:
            raise Unusable("it is damaged again and again")
        if not self._is_in_its_place() and not self._kind.was_ours(self.path):
            raise Unusable(f"{damage}; another file is not overwritten")
        self._times_rebuilt += 1
        secure_files.remove(self.path, self._identity)  # SQLite removes the journal
        secure_files.warn_once(self._kind.loss, self.path, damage)

    def _is_in_its_place(self) -> bool:
        """Whether the file has its default name in our folder, so that it can only be ours."""
        folder, name = os.path.split(self.path)
        return name == self._kind.name and os.path.basename(folder) == FOLDER_NAME
