"""The path of the record, and the thread that writes it.

The record never makes the workbench fail or wait. While another process locks the file, batches are kept for the next
write. A damaged record is rebuilt. If the system refuses a write, that is logged once and recording pauses. The thread
sleeps while there is nothing to write, and does not keep the process alive.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from mcp_workbench import logger
from mcp_workbench.activity.batch import Batch, ClientState, Run, ServerState
from mcp_workbench.activity.process_identity import birth
from mcp_workbench.config.locate import own_file
from mcp_workbench.limits import Limits
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import Busy, Unusable
from mcp_workbench.storage.table_file import KeptFile, Kind

if TYPE_CHECKING:
    from mcp_workbench.activity.tables import RecordTables


# ruff: noqa: PTH111 -- imported at startup, which pathlib would slow down


VARIABLE: Final = "WORKBENCH_RECORD"
FILE_NAME: Final = "record.sqlite"
NO_RECORD: Final = "none"


def record_path(environ: Mapping[str, str]) -> str:
    """`$WORKBENCH_RECORD`, or a file in the user's state folder; empty if nothing is recorded."""
    if named := environ.get(VARIABLE):
        return "" if named == NO_RECORD else os.path.expanduser(named)
    return own_file(environ, "state", FILE_NAME)


RECORD_PRUNE_EVERY = 60
"""Old rows and old runs are removed after this many writes: about a minute of steady work. The other bounds hold after
every write, however many processes write."""
RECORD_TRIES = 3
"""How often one process rebuilds a damaged file, and how often it tries to write the last events."""
RECORD_WAITING = 10
"""Writes that are put off while another process holds the file. It needs milliseconds, unless it is stuck."""
RECORD_REST_SECONDS = 60.0
"""How long recording pauses after the system refused a write. A full disk stays full for a while."""

LOST = "the activity of the workbench is not recorded"
LOSS = "the record was lost and is rebuilt"


class RecordWriter:
    """Writes batches one after the other, in its own thread."""

    def __init__(self, path: str, run: Run, limits: Limits) -> None:
        self._file: KeptFile[RecordTables] = KeptFile(
            path, Kind(FILE_NAME, LOSS, RECORD_TRIES, self._opened, self._was_ours)
        )
        self._run = run
        self._limits = limits
        self._queue: queue.SimpleQueue[tuple[Batch, Callable[[], None]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._number = 0
        self._batches = 0
        self._rests_until = 0.0
        self._waiting: list[Batch] = []
        self._servers: dict[tuple[str, str], ServerState] = {}
        self._clients: dict[tuple[str, str, str], ClientState] = {}

    def put(self, batch: Batch, done: Callable[[], None] = lambda: None) -> None:
        """Queue a batch. The thread calls `done` after the write, even if it failed."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="record", daemon=True)
            self._thread.start()
        self._queue.put((batch, done))

    def _work(self) -> None:
        while True:
            batch, done = self._queue.get()
            try:
                self._handle(batch)
            except Exception as error:  # noqa: BLE001 -- a defect of the record must not end the process
                secure_files.warn_once(LOST, self._file.path, logger.foreign(repr(error)))
                self._rest()
            finally:
                done()
            if batch.is_last:
                self._file.let_go()
                return

    def _handle(self, batch: Batch) -> None:
        self._servers |= {(one.toolbox, one.server): one for one in batch.servers}
        self._clients |= {(one.name, one.version, one.protocol): one for one in batch.clients}
        for one in batch.gone:
            self._servers.pop(one, None)
        if time.monotonic() < self._rests_until and not batch.is_last:
            return
        self._waiting.append(batch)
        try:
            for _ in range(RECORD_TRIES if batch.is_last else 1):
                with contextlib.suppress(Busy):
                    self._write_all()
                    return
            self._keep_for_later()
        except (Unusable, OSError) as error:
            secure_files.warn_once(LOST, self._file.path, secure_files.reason(error))
            self._rest()

    def _keep_for_later(self) -> None:
        """Keep the batches for the next write, since another process has locked the file; give up if that lasts."""
        if len(self._waiting) >= RECORD_WAITING:
            secure_files.warn_once(LOST, self._file.path, "another process keeps it locked")
            self._rest()

    def _rest(self) -> None:
        self._file.let_go()
        self._waiting.clear()
        self._rests_until = time.monotonic() + RECORD_REST_SECONDS

    def _write_all(self) -> None:
        while self._waiting:
            self._file.act(self._write)
            del self._waiting[0]

    def _write(self, tables: RecordTables) -> None:
        batch = self._waiting[0]
        self._batches += 1
        prunes = self._batches % RECORD_PRUNE_EVERY == 0
        if not tables.write(self._number, batch, prunes=prunes):
            self._begin(tables)
            tables.write(self._number, batch, prunes=prunes)

    def _opened(self, path: str) -> RecordTables:
        from mcp_workbench.activity.tables import RecordTables  # noqa: PLC0415 -- some Pythons lack SQLite

        tables = RecordTables(path, self._limits)
        try:
            self._begin(tables)
        except BaseException:
            tables.close()
            raise
        return tables

    def _begin(self, tables: RecordTables) -> None:
        self._number = tables.begin(self._run._replace(birth=birth(self._run.pid)))
        known = Batch(time.time(), servers=list(self._servers.values()), clients=list(self._clients.values()))
        tables.write(self._number, known, prunes=False)

    def _was_ours(self, path: str) -> bool:
        from mcp_workbench.activity.tables import is_record  # noqa: PLC0415 -- as above

        return is_record(path)
