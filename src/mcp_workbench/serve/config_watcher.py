"""Watches the configuration files while they are served, and applies changes.

A thread polls the files: a disk that hangs must not delay calls, and not every file system reports changes. An invalid
file changes nothing; the log says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence

from mcp_workbench import logger
from mcp_workbench.config.locate import Origin, Stamp, stamp_of
from mcp_workbench.config.model import Config
from mcp_workbench.errors import WorkbenchError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits
from mcp_workbench.text.sanitize import slashed
from mcp_workbench.workbench import Workbench


class ConfigWatcher:
    """Context manager in which a workbench follows its configuration files, if it has any."""

    def __init__(self, workbench: Workbench, origin: Origin | None, limits: Limits) -> None:
        self._workbench = workbench
        self._origin = origin
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._is_stopped = threading.Event()
        self._is_refused = False

    def __enter__(self) -> None:
        if self._origin is not None:
            threading.Thread(target=self._watch, args=(self._origin,), name="config-watcher", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._is_stopped.set()  # do not join the thread: a disk may block it

    # -- in the thread

    def _watch(self, origin: Origin) -> None:
        seen = origin.stamp
        while not self._is_stopped.wait(self._limits.reload_poll_seconds):
            if (now := stamp_of(origin.files)) != seen and (stable := self._wait_until_stable(origin, now)) is not None:
                seen = stable
                self._read(origin)

    def _wait_until_stable(self, origin: Origin, now: Stamp) -> Stamp | None:
        """The stamp of the files after the last write to them; None if the watcher was stopped meanwhile."""
        while not self._is_stopped.wait(self._limits.reload_settle_seconds):
            before, now = now, stamp_of(origin.files)
            if before == now:
                return now
        return None

    def _read(self, origin: Origin) -> None:
        try:
            config = origin.read()
        except WorkbenchError as error:
            self._call_in_loop(self._reject, str(error), error.hint)
        except Exception as error:  # noqa: BLE001 -- a bug here must end neither the thread nor what is served
            self._call_in_loop(self._reject, logger.foreign(repr(error)), "")
        else:
            self._call_in_loop(self._apply, config)

    def _call_in_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(function, *arguments)

    # -- in the event loop

    def _reject(self, reason: str, hint: str) -> None:
        event = "the changed configuration is invalid; the previous one stays in force"
        logger.error(event, reason=reason, hint=hint or None)
        self._workbench.refuse(reason)
        self._is_refused = True

    def _apply(self, config: Config) -> None:
        if self._is_stopped.is_set():
            return
        diff = self._workbench.apply(config)
        if diff.toolboxes:
            logger.info(
                "the changed configuration is in force",
                added=_join_servers(diff.added),
                changed=_join_servers(diff.changed),
                removed=_join_servers(diff.removed),
                toolboxes=_join(slashed(name) for name in diff.toolboxes),
            )
        elif self._is_refused:
            logger.info("the configuration is valid again and equals the one in force")
        self._is_refused = False
        if diff.settings:
            logger.warning("some changed settings take effect at the next start", settings=" ".join(diff.settings))
        new = {*diff.added, *diff.changed}
        for server in config.servers():
            if ServerIdentifier(server.toolbox, server.name) in new:
                for missing in server.missing:
                    logger.warning("a variable is not set", variable=missing.variable, path=missing.path)


def _join_servers(servers: Sequence[ServerIdentifier]) -> str | None:
    return _join(slashed(*server.parts()) for server in servers)


def _join(names: Iterable[str]) -> str | None:
    """Join names with spaces, and escape spaces inside of them."""
    return " ".join(name.replace(" ", "\\ ") for name in names) or None
