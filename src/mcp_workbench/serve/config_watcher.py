"""A configuration file that changes while it is served.

A thread looks at the file now and then: a disk that hangs must not hold up a call, and no event tells of changes on
every system. A file that can't be used changes nothing; the log says why.
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
    """While it lasts, a workbench follows its configuration, if that comes from files."""

    def __init__(self, workbench: Workbench, origin: Origin | None, limits: Limits) -> None:
        self._workbench = workbench
        self._origin = origin
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._over = threading.Event()
        self._is_refused = False

    def __enter__(self) -> None:
        if self._origin is not None:
            threading.Thread(target=self._watch, args=(self._origin,), name="following", daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()  # and a look that a disk holds up is not waited for

    # -- in the thread

    def _watch(self, origin: Origin) -> None:
        seen = origin.stamp
        while not self._over.wait(self._limits.reload_poll_seconds):
            if (now := stamp_of(origin.files)) != seen and (settled := self._settled(origin, now)) is not None:
                seen = settled
                self._read(origin)

    def _settled(self, origin: Origin, now: Stamp) -> Stamp | None:
        """How the files are when nobody writes them any more; None where that is not to be waited for."""
        while not self._over.wait(self._limits.reload_settle_seconds):
            before, now = now, stamp_of(origin.files)
            if before == now:
                return now
        return None

    def _read(self, origin: Origin) -> None:
        try:
            config = origin.read()
        except WorkbenchError as error:
            self._tell(self._refused, str(error), error.hint)
        except Exception as error:  # noqa: BLE001 -- the end of a thread: what is served must go on, and be followed
            self._tell(self._refused, logger.foreign(repr(error)), "")
        else:
            self._tell(self._apply, config)

    def _tell(self, do: Callable[..., None], *what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(do, *what)

    # -- in the event loop

    def _refused(self, reason: str, hint: str) -> None:
        what = "the configuration changed and is not used; the one before it stays in force"
        logger.error(what, reason=reason, hint=hint or None)
        self._workbench.refuse(reason)
        self._is_refused = True

    def _apply(self, config: Config) -> None:
        if self._over.is_set():
            return
        found = self._workbench.apply(config)
        if found.toolboxes:
            logger.info(
                "the configuration changed and is in force",
                added=_named(found.added),
                changed=_named(found.changed),
                removed=_named(found.removed),
                toolboxes=_listed(slashed(name) for name in found.toolboxes),
            )
        elif self._is_refused:
            logger.info("the configuration can be used again and is as the one in force")
        self._is_refused = False
        if found.settings:
            logger.warning("settings that take effect at the next start", settings=" ".join(found.settings))
        new = {*found.added, *found.changed}
        for server in config.servers():
            if ServerIdentifier(server.toolbox, server.name) in new:
                for missing in server.missing:
                    logger.warning("a variable is not set", variable=missing.variable, path=missing.path)


def _named(servers: Sequence[ServerIdentifier]) -> str | None:
    return _listed(slashed(*server.parts()) for server in servers)


def _listed(names: Iterable[str]) -> str | None:
    """Names in one value, separated by spaces; a space inside a name is escaped."""
    return " ".join(name.replace(" ", "\\ ") for name in names) or None
