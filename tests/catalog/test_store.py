"""Lists on disk: what is put is read again, in whatever state the file is, and nothing ever raises."""

from __future__ import annotations

import os
import random
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.catalog.cache import tables
from mcp_workbench.catalog.cache.entry import STORE_TRIES
from mcp_workbench.catalog.cache.store import CacheStore, Entry, fingerprint, store_path
from mcp_workbench.catalog.cache.tables import VERSION, CacheTables
from mcp_workbench.limits import Limits
from mcp_workbench.storage import secure_files
from mcp_workbench.storage.secure_files import Damaged
from mcp_workbench.storage.sqlite import Database

AT_ONCE = Limits(store_rest_seconds=0.0, store_busy_seconds=0.05)
"""Nothing is waited for."""
STAMP, DECLARED = b"s" * 32, b"d" * 32
DAY = 86_400.0


def entry(*items: bytes, listed_at: float = 1.0, **fields: Any) -> Entry:
    raws = tuple(Raw(item) for item in items)
    known = {"fingerprint": fingerprint(raws), "modern": True, "offers": frozenset({"tools"})}
    return Entry(items=raws, listed_at=listed_at, **{**known, **fields})


LIST = entry(b'{"name":"a"}', b'{"name":"b"}')


@pytest.fixture(autouse=True)
def bounds_are_kept_with_every_put(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "STORE_PRUNE_EVERY", 1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is by default: whatever lies there is ours."""
    return tmp_path / "mcp-workbench" / "catalog.sqlite"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Those to SQLite, in the order in which they are made."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    return made


@pytest.fixture
def store(path: Path) -> Iterator[CacheStore]:
    store = CacheStore.open(str(path), AT_ONCE)
    yield store
    store.close()


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The reasons of what people were told."""
    told: list[str] = []
    monkeypatch.setattr(logger, "warning", lambda message, **values: told.append(f"{message}: {values['reason']}"))
    return told


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, as days since the store was made."""
    now = [0.0]
    monkeypatch.setattr(time, "time", lambda: 1.8e9 + now[0] * DAY)
    return now


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.lstat().st_mode))


def works(store: CacheStore) -> bool:
    """Whether what is put now can be got."""
    fresh = entry(os.urandom(8).hex().encode())
    store.put(b"works", DECLARED, "tools", fresh)
    return store.get(b"works", DECLARED, "tools") == fresh


# -- what it keeps


ENTRIES = st.builds(
    lambda items, fields: entry(*items, **fields),
    st.lists(st.binary(max_size=50), max_size=5),
    st.fixed_dictionaries(
        {
            "offers": st.frozensets(st.text(st.characters(exclude_categories=["Cs"]))),
            "modern": st.booleans(),
            "listed_at": st.floats(allow_nan=False),
            "ttl_seconds": st.none() | st.floats(min_value=0),
        }
    ),
)
KINDS = st.sampled_from(["tools", "prompts", "resources", "templates"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(kept=ENTRIES, kind=KINDS)
def test_whatever_is_put_is_got_unchanged(store: CacheStore, kept: Entry, kind: Any):
    store.put(STAMP, DECLARED, kind, kept)
    assert store.get(STAMP, DECLARED, kind) == kept


def test_it_is_there_for_the_next_process(path: Path, store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    store.close()
    again = CacheStore.open(str(path), AT_ONCE)
    assert again.get(STAMP, DECLARED, "tools") == LIST
    again.close()


def test_a_list_is_found_by_stamp_declared_capabilities_and_kind_together(store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    assert store.get(b"t" * 32, DECLARED, "tools") is None
    assert store.get(STAMP, b"e" * 32, "tools") is None
    assert store.get(STAMP, DECLARED, "prompts") is None
    assert store.get(STAMP, DECLARED, "tools") == LIST


def test_many_are_got_in_the_order_that_was_asked_for(store: CacheStore):
    entries = {bytes([number]): entry(b"%d" % number) for number in range(50)}
    for stamp, one in entries.items():
        store.put(stamp, DECLARED, "tools", one)
    order = [*entries, b"unknown"]
    random.Random(5).shuffle(order)  # noqa: S311
    assert store.get_many([(stamp, DECLARED) for stamp in order], "tools") == [entries.get(stamp) for stamp in order]
    assert store.get_many([], "tools") == []


def test_an_unchanged_list_costs_no_write_of_its_items(store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    same = entry(b"never written", fingerprint=LIST.fingerprint, modern=False, offers=frozenset("x"), listed_at=9.0)
    store.put(STAMP, DECLARED, "tools", same)
    got = store.get(STAMP, DECLARED, "tools")
    assert got is not None
    assert (got.items, got.modern, got.offers, got.listed_at) == (LIST.items, False, frozenset("x"), 9.0)


def test_a_changed_list_takes_the_place_of_the_one_before(path: Path, store: CacheStore):
    for number in range(3):
        store.put(STAMP, DECLARED, "tools", entry(b"%d" % number))
    assert store.get(STAMP, DECLARED, "tools") == entry(b"2")
    assert rows(path, "workbench_lists") == rows(path, "workbench_items") == 1


def test_a_dropped_server_loses_all_its_lists_and_no_other_does(path: Path, store: CacheStore):
    for stamp in (STAMP, b"other"):
        store.put(stamp, DECLARED, "tools", LIST)
        store.put(stamp, DECLARED, "prompts", LIST)
    store.drop(STAMP, DECLARED)
    assert [store.get(STAMP, DECLARED, kind) for kind in ("tools", "prompts")] == [None, None]
    assert store.get(b"other", DECLARED, "tools") == LIST
    assert rows(path, "workbench_items") == 2


def test_a_closed_store_does_nothing_and_raises_nothing(store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    store.close()
    store.close()
    store.put(STAMP, DECLARED, "tools", LIST)
    store.drop(STAMP, DECLARED)
    store.record_client(Raw(b"{}"), modern=False)
    assert store.get(STAMP, DECLARED, "tools") is None
    assert store.recent_clients(5) == []
    assert not store.is_usable


def test_another_thread_than_the_one_that_opened_it_is_told_so(store: CacheStore):
    errors: list[BaseException] = []

    def use() -> None:
        try:
            store.get(STAMP, DECLARED, "tools")
        except sqlite3.ProgrammingError as error:
            errors.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert works(store)


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_lists_have_the_same_fingerprint_only_if_they_are_the_same(one: list[bytes], other: list[bytes]):
    fingerprints = [fingerprint([Raw(item) for item in items]) for items in (one, other)]
    assert (fingerprints[0] == fingerprints[1]) == (one == other)


def test_where_one_item_ends_is_part_of_the_fingerprint():
    assert fingerprint([Raw(b"1"), Raw(b"2")]) != fingerprint([Raw(b"12")])
    assert fingerprint([Raw(b"1"), Raw(b"1:2")]) != fingerprint([Raw(b"11:1"), Raw(b"2")])


# -- its bounds


def rows(path: Path, table: str) -> int:
    connection = sqlite3.connect(path)
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    connection.close()
    return count


def bounded(path: Path, **bounds: Any) -> CacheStore:
    return CacheStore.open(str(path), Limits(store_rest_seconds=0.0, **bounds))


def stamps_left(store: CacheStore, number: int) -> list[int]:
    found = store.get_many([(b"%d" % one, DECLARED) for one in range(number)], "tools")
    return [one for one, kept in enumerate(found) if kept is not None]


def test_beyond_their_number_the_lists_that_were_put_first_go(path: Path, clock: list[float]):
    store = bounded(path, store_entries=3)
    for number in range(5):
        clock[0] += 1
        store.put(b"%d" % number, DECLARED, "tools", LIST)
    assert stamps_left(store, 5) == [2, 3, 4]
    assert rows(path, "workbench_items") == 3
    store.close()


def test_beyond_their_size_the_lists_that_were_put_first_go(path: Path, clock: list[float]):
    store = bounded(path, store_bytes=2500)
    for number in range(5):
        clock[0] += 1
        store.put(b"%d" % number, DECLARED, "tools", entry(b"x" * 1000))
    assert stamps_left(store, 5) == [3, 4]
    store.close()


def test_a_list_that_nobody_used_for_long_goes_and_one_that_was_used_stays(path: Path, clock: list[float]):
    store = bounded(path)
    store.put(b"0", DECLARED, "tools", LIST)
    store.put(b"1", DECLARED, "tools", LIST)
    clock[0] = 80
    assert store.get(b"1", DECLARED, "tools") == LIST
    clock[0] = 100
    store.put(b"2", DECLARED, "tools", LIST)
    assert stamps_left(store, 3) == [1, 2]
    store.close()


def test_a_list_that_was_used_lately_is_got_without_a_write(path: Path, store: CacheStore, clock: list[float]):
    store.put(STAMP, DECLARED, "tools", LIST)
    written = path.read_bytes()
    clock[0] = 6
    store.get(STAMP, DECLARED, "tools")
    assert path.read_bytes() == written
    clock[0] = 8
    store.get(STAMP, DECLARED, "tools")
    assert path.read_bytes() != written


def test_bounds_are_looked_at_only_now_and_then(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "STORE_PRUNE_EVERY", 4)
    store = CacheStore.open(str(path), Limits(store_entries=2))
    for number in range(3):
        store.put(b"%d" % number, DECLARED, "tools", LIST)
    assert stamps_left(store, 4) == [0, 1, 2]
    store.put(b"3", DECLARED, "tools", LIST)
    assert stamps_left(store, 4) == [2, 3]
    store.close()


def test_a_list_that_is_too_large_is_not_kept_and_neither_is_the_one_before(path: Path):
    store = bounded(path, store_entry_bytes=1000)
    store.put(STAMP, DECLARED, "tools", LIST)
    store.put(STAMP, DECLARED, "tools", entry(b"x" * 1001))
    assert store.get(STAMP, DECLARED, "tools") is None
    assert rows(path, "workbench_items") == 0
    store.close()


def test_a_process_with_smaller_bounds_does_without_a_large_list_and_destroys_nothing(path: Path, store: CacheStore):
    large = entry(b"x" * 200_000)
    store.put(STAMP, DECLARED, "tools", large)
    small = bounded(path, store_entry_bytes=1000)
    assert small.get(STAMP, DECLARED, "tools") is None
    assert works(small)
    small.close()
    assert store.get(STAMP, DECLARED, "tools") == large


# -- what clients declared


def test_what_clients_declared_is_told_newest_first_and_once(store: CacheStore):
    a, b, c = Raw(b'{"sampling":{}}'), Raw(b'{"elicitation":{}}'), Raw(b"{}")
    for declared in (a, b, c, a, a):
        store.record_client(declared, modern=False)
    assert store.recent_clients(10) == [(a, False), (c, False), (b, False)]
    assert store.recent_clients(2) == [(a, False), (c, False)]


def test_clients_of_both_eras_that_declare_the_same_are_two(store: CacheStore):
    for modern in (False, True):
        store.record_client(Raw(b"{}"), modern=modern)
    assert store.recent_clients(10) == [(Raw(b"{}"), True), (Raw(b"{}"), False)]


def test_sets_that_mean_the_same_are_one(store: CacheStore):
    store.record_client(Raw(b'{"roots":{"listChanged":true},"sampling":{}}'), modern=False)
    store.record_client(Raw(b'{"sampling":{}, "roots":{}}'), modern=False)
    assert len(store.recent_clients(10)) == 1


def test_no_more_sets_are_remembered_than_one_client_may_declare(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tables, "STORE_DECLARED", 3)
    store = bounded(path)
    for number in range(5):
        store.record_client(Raw(b'{"x":%d}' % number), modern=False)
    assert store.recent_clients(10) == [(Raw(b'{"x":%d}' % number), False) for number in (4, 3, 2)]
    store.close()


def test_a_client_that_declares_the_same_again_costs_no_write_for_a_week(
    path: Path, store: CacheStore, clock: list[float]
):
    store.record_client(Raw(b"{}"), modern=False)
    written = path.read_bytes()
    clock[0] = 6
    store.record_client(Raw(b"{}"), modern=False)
    assert path.read_bytes() == written
    clock[0] = 8
    store.record_client(Raw(b"{}"), modern=False)
    assert path.read_bytes() != written


def test_what_nobody_declared_for_long_is_not_told(store: CacheStore, clock: list[float]):
    store.record_client(Raw(b"{}"), modern=False)
    clock[0] = 60
    store.record_client(Raw(b'{"x":1}'), modern=False)
    clock[0] = 100
    assert store.recent_clients(10) == [(Raw(b'{"x":1}'), False)]


# -- who may read it


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """In force after the test's own folder was made."""
    assert tmp_path.exists()
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_only_the_user_can_read_it_and_its_journal_whatever_the_umask(
    tmp_path: Path, connections: list[sqlite3.Connection]
):
    path = tmp_path / "deep" / "mcp-workbench" / "catalog.sqlite"
    store = CacheStore.open(str(path), AT_ONCE)
    assert works(store)
    assert mode(path) == "0o600"
    assert mode(path.parent) == mode(path.parent.parent) == "0o700"
    connections[-1].execute("BEGIN IMMEDIATE")
    connections[-1].execute("DELETE FROM workbench_lists")
    beside = [one for one in path.parent.iterdir() if one != path]
    assert [(one.name, mode(one)) for one in beside] == [("catalog.sqlite-journal", "0o600")]
    store.close()


def test_nobody_else_can_read_them_from_the_first_moment(path: Path, monkeypatch: pytest.MonkeyPatch):
    before = os.umask(0)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    monkeypatch.setattr(os, "chmod", lambda *_: None)
    CacheStore.open(str(path), AT_ONCE).close()
    os.umask(before)
    assert (mode(path), mode(path.parent)) == ("0o600", "0o700")


def test_a_file_and_folder_of_ours_that_others_could_read_are_closed_to_them(path: Path, store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    store.close()
    path.chmod(0o664)
    path.parent.chmod(0o755)
    again = CacheStore.open(str(path), AT_ONCE)
    assert again.get(STAMP, DECLARED, "tools") == LIST
    assert (mode(path), mode(path.parent)) == ("0o600", "0o700")
    again.close()


def test_the_mode_of_a_folder_that_somebody_else_made_is_left_alone(tmp_path: Path):
    (tmp_path / "own").mkdir(mode=0o755)
    store = CacheStore.open(str(tmp_path / "own" / "x.sqlite"), AT_ONCE)
    assert works(store)
    assert mode(tmp_path / "own") == "0o755"
    store.close()


def refused(path: Path | str, warnings: list[str]) -> str:
    """Why the store is not used; it does nothing, and says so once."""
    for _ in range(2):
        store = CacheStore.open(str(path), AT_ONCE)
        store.put(STAMP, DECLARED, "tools", LIST)
        store.record_client(Raw(b"{}"), modern=False)
        store.drop(STAMP, b"")
        assert store.get_many([(STAMP, DECLARED)] * 2, "tools") == [None, None]
        assert store.recent_clients(3) == []
        assert not store.is_usable
        store.close()
    assert len(warnings) == 1
    return warnings[0]


def test_a_symbolic_link_is_not_followed(path: Path, tmp_path: Path, warnings: list[str]):
    target = tmp_path / "precious"
    target.write_bytes(b"")
    path.parent.mkdir()
    path.symlink_to(target)
    assert "it is a symbolic link" in refused(path, warnings)
    assert target.read_bytes() == b""


def test_a_link_to_nowhere_does_not_make_us_create_a_file_there(path: Path, tmp_path: Path, warnings: list[str]):
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    assert "it is a symbolic link" in refused(path, warnings)
    assert not (tmp_path / "elsewhere").exists()


def test_a_link_in_the_place_of_the_journal_is_not_written_through(
    path: Path, tmp_path: Path, store: CacheStore, warnings: list[str]
):
    target = tmp_path / "precious"
    target.write_bytes(b"")
    (path.parent / "catalog.sqlite-journal").symlink_to(target)
    assert not works(store)
    assert target.read_bytes() == b""
    assert len(warnings) == 1


def test_a_file_of_another_user_is_not_used(
    path: Path, store: CacheStore, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    store.put(STAMP, DECLARED, "tools", LIST)
    store.close()
    path.chmod(0o644)
    before = path.read_bytes()
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    assert "belongs to another user" in refused(path, warnings)
    assert path.read_bytes() == before
    assert mode(path) == "0o644"
    with pytest.raises(secure_files.Unusable, match="it belongs to another user"):
        secure_files.inspect(str(path))


def test_a_folder_of_another_user_is_not_used_and_neither_is_their_link_to_one(
    tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    """Everything belongs to us here, so it is told otherwise: the folder, or the link to it."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    real = os.lstat

    def foreign(path: str, **options: Any) -> os.stat_result:
        status = real(path, **options)
        return os.stat_result((*status[:4], os.geteuid() + 7, *status[5:])) if path.endswith("link") else status

    monkeypatch.setattr(os, "lstat", foreign)
    assert "its folder belongs to another user" in refused(tmp_path / "link" / "catalog.sqlite", warnings)
    assert not any((tmp_path / "folder").iterdir())


def test_a_store_is_used_once_what_prevented_it_is_gone(path: Path, warnings: list[str]):
    path.parent.mkdir()
    path.symlink_to("elsewhere")
    store = CacheStore.open(str(path), AT_ONCE)
    assert not store.is_usable
    path.unlink()
    assert works(store)
    assert store.is_usable
    assert len(warnings) == 1
    store.close()


@pytest.mark.parametrize("shared", [0o777, 0o1777], ids=oct)
def test_a_folder_that_everyone_can_write_to_is_not_used(tmp_path: Path, shared: int, warnings: list[str]):
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(shared)
    assert "everyone can write to its folder" in refused(tmp_path / "tmp" / "catalog.sqlite", warnings)
    assert not any((tmp_path / "tmp").iterdir())


# -- files that are not what they should be


def described(number: int) -> Entry:
    return entry(b'{"description":"%d %s"}' % (number, b"x" * 900))


def filled(path: Path) -> bytes:
    """A store with several pages, and what it looks like on disk."""
    store = CacheStore.open(str(path), AT_ONCE)
    for number in range(30):
        store.put(b"%d" % number, DECLARED, "tools", described(number))
    store.record_client(Raw(b'{"sampling":{}}'), modern=False)
    store.close()
    return path.read_bytes()


DAMAGES = {
    "random bytes": lambda _: random.Random(1).randbytes(50_000),  # noqa: S311
    "a few bytes": lambda _: b"SQLite",
    "text": lambda _: b"Dear diary,\n" * 1000,
    "no header": lambda data: bytes(100) + data[100:],
    "half of it": lambda data: data[: len(data) // 2],
    "its first page": lambda data: data[:4096],
    "its second page overwritten": lambda data: data[:4096] + bytes(4096) + data[8192:],
    "its end overwritten": lambda data: data[:8192] + bytes(len(data) - 8192),
    "tables of another name": lambda data: data.replace(b"workbench_lists", b"workbench_liszt"),
    "a column of another name": lambda data: data.replace(b"used_at", b"used_@\xff"),
    "read-only by its header": lambda data: data[:18] + b"\x05" + data[19:],
    "another program's number": lambda data: data[:68] + b"\x00\x00\x00\x07" + data[72:],
    "an older version": lambda data: data[:60] + bytes(4) + data[64:],
    "one letter of a description": lambda data: data.replace(b'"description":"7 x', b'"description":"8 x'),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_store_is_made_anew_and_told_of_once(path: Path, damage: str, warnings: list[str]):
    path.parent.mkdir()
    data = DAMAGES[damage](filled(path))
    path.write_bytes(data)
    store = CacheStore.open(str(path), AT_ONCE)
    assert store.is_usable
    for number in range(30):
        assert store.get(b"%d" % number, DECLARED, "tools") in (None, described(number))
    assert works(store)
    assert mode(path) == "0o600"
    assert len(warnings) == 1
    assert warnings[0].startswith("the cached lists of servers are lost and will be rebuilt")
    store.close()


def test_an_empty_file_becomes_a_store_without_a_word(path: Path, warnings: list[str]):
    path.parent.mkdir()
    path.touch()
    store = CacheStore.open(str(path), AT_ONCE)
    assert works(store)
    assert warnings == []
    store.close()


def test_a_store_damaged_while_it_is_open_is_made_anew_by_the_put_that_finds_it(
    path: Path, store: CacheStore, warnings: list[str]
):
    store.put(STAMP, DECLARED, "tools", LIST)
    with path.open("r+b") as file:
        file.write(b"garbage!" * 1000)
    assert works(store)
    assert len(warnings) == 1


class Damage(NamedTuple):
    """Bytes overwritten here and there, and an end cut off."""

    writes: list[tuple[int, bytes]]
    cut: int | None

    def of(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for place, content in self.writes:
            at = place % len(changed)
            changed[at : at + len(content)] = content[: len(changed) - at]
        return bytes(changed[: self.cut % len(changed)] if self.cut is not None else changed)


PLACES = st.one_of(st.integers(0, 200), st.integers(0, 2**20))
WRITES = st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=64)), max_size=5)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("original") / "catalog.sqlite"
    filled(path)
    return path


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(damage=st.builds(Damage, WRITES, st.one_of(st.none(), PLACES)))
@pytest.mark.usefixtures("warnings")
def test_no_damage_raises_or_changes_what_is_read_and_a_put_works_again(path: Path, original: Path, damage: Damage):
    path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    whole = original.read_bytes()
    data = damage.of(whole)
    path.write_bytes(data)
    store = CacheStore.open(str(path), AT_ONCE)
    for number in range(30):
        assert store.get(b"%d" % number, DECLARED, "tools") in (None, described(number))
    assert store.recent_clients(5) in ([], [(Raw(b'{"sampling":{}}'), False)])
    if store.is_usable:
        assert any(works(store) for _ in range(3))
    else:  # the one damage that is taken for something else, and left alone
        assert data[68:72] == whole[68:72]
        assert int.from_bytes(data[60:64], signed=True) > 1
    store.close()


def test_a_store_of_a_newer_version_is_left_alone(path: Path, warnings: list[str]):
    path.parent.mkdir()
    data = filled(path)
    newer = data[:60] + (VERSION + 1).to_bytes(4) + data[64:]
    path.write_bytes(newer)
    assert "a newer version of the program wrote it" in refused(path, warnings)
    assert path.read_bytes() == newer


def test_a_store_of_an_older_version_is_replaced(path: Path):
    path.parent.mkdir()
    data = filled(path)
    path.write_bytes(data[:60] + (VERSION - 1).to_bytes(4) + data[64:])
    store = CacheStore.open(str(path), AT_ONCE)
    assert store.get(b"3", DECLARED, "tools") is None
    assert works(store)
    store.close()


def test_a_file_of_somebody_else_that_was_named_by_mistake_is_left_alone(tmp_path: Path, warnings: list[str]):
    notes = tmp_path / "mcp-workbench" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("Dear diary,\n" * 100)
    assert "another file is not overwritten" in refused(notes, warnings)
    assert notes.read_text() == "Dear diary,\n" * 100


def test_the_database_of_another_program_is_left_alone(tmp_path: Path, warnings: list[str]):
    path = tmp_path / "catalog.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE orders (id)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert "it is not our file; another file is not overwritten" in refused(path, warnings)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "damage", ["half of it", "no header", "another program's number", "tables of another name", "an older version"]
)
def test_a_damaged_store_is_known_as_ours_wherever_it_is(tmp_path: Path, damage: str):
    path = tmp_path / "named.db"
    path.write_bytes(DAMAGES[damage](filled(path)))
    store = CacheStore.open(str(path), AT_ONCE)
    assert works(store)
    store.close()


def test_a_disk_that_damages_what_is_written_is_given_up(path: Path, store: CacheStore, warnings: list[str]):
    for _ in range(STORE_TRIES):
        with path.open("r+b") as file:
            file.write(b"garbage!" * 1000)
        assert works(store)
    with path.open("r+b") as file:
        file.write(b"garbage!" * 1000)
    assert not works(store)
    assert not works(store)
    assert [told.partition(":")[2] for told in warnings] == [" it is damaged", " it is damaged again and again"]


def test_what_was_left_beside_a_store_that_was_removed_is_not_taken_for_a_part_of_the_new_one(path: Path):
    path.parent.mkdir()
    filled(path)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA cache_size = 1")
    other.execute("BEGIN")
    other.execute("UPDATE workbench_items SET body = zeroblob(5000)")
    journal = path.with_name("catalog.sqlite-journal").read_bytes()
    other.close()
    path.unlink()
    for suffix in ("-journal", "-wal", "-shm"):
        path.with_name(path.name + suffix).write_bytes(journal)
    store = CacheStore.open(str(path), AT_ONCE)
    assert works(store)
    assert store.get(b"7", DECLARED, "tools") is None
    assert rows(path, "workbench_items") == 1
    store.close()


SPOILED = [
    "UPDATE workbench_lists SET head = 7",
    "UPDATE workbench_lists SET head = zeroblob(2)",
    "UPDATE workbench_lists SET used_at = 'never'",
    "UPDATE workbench_items SET body = 'text'",
    "UPDATE workbench_items SET body = CAST(x'ff' AS TEXT)",
    "UPDATE workbench_items SET body = (SELECT body FROM workbench_items LIMIT 1)",
    "DELETE FROM workbench_items",
    "DROP TABLE workbench_items",
    "UPDATE workbench_declared SET capabilities = NULL",
    "UPDATE workbench_declared SET capabilities = x'00'",
]


@pytest.mark.parametrize("statement", SPOILED)
def test_rows_that_somebody_changed_are_damage(path: Path, store: CacheStore, statement: str, warnings: list[str]):
    filled(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA ignore_check_constraints = 1")
    connection.execute("PRAGMA writable_schema = 1")
    connection.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    connection.commit()
    connection.close()
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    assert store.get_many([(b"3", DECLARED), (b"7", DECLARED)], "tools") in ([None] * 2, [described(3), described(7)])
    assert store.recent_clients(5) == []
    assert works(store)
    assert warnings == ["the cached lists of servers are lost and will be rebuilt: it is damaged"]


def test_a_damaged_length_does_not_fill_the_memory(path: Path, store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE workbench_items SET body = zeroblob(50000000)")
    connection.commit()
    connection.close()
    tracemalloc.start()
    assert store.get(STAMP, DECLARED, "tools") is None
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5_000_000


def test_a_store_with_a_write_ahead_log_loses_it_and_nothing_else(path: Path, store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    store.close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("UPDATE workbench_lists SET used_at = 1")
    connection.commit()
    connection.close()
    again = CacheStore.open(str(path), AT_ONCE)
    assert again.get(STAMP, DECLARED, "tools") == LIST
    assert [one.name for one in path.parent.iterdir()] == ["catalog.sqlite"]
    again.close()


def test_no_write_waits_for_the_disk(connections: list[sqlite3.Connection], store: CacheStore):
    assert works(store)
    assert [one.execute("PRAGMA synchronous").fetchone() for one in connections] == [(0,)]


# -- places where nothing can be written


def test_a_folder_in_the_place_of_the_file_is_left_alone(path: Path, warnings: list[str]):
    path.mkdir(parents=True)
    assert "it is not a regular file" in refused(path, warnings)


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(path: Path, warnings: list[str]):
    path.parent.mkdir()
    os.mkfifo(path)
    assert "it is not a regular file" in refused(path, warnings)


@pytest.mark.parametrize(
    "place", ["{file}/mcp-workbench/catalog.sqlite", "/dev/null/catalog.sqlite", "{tmp}/" + "x" * 300 + "/c", "{tmp}/"]
)
def test_a_folder_that_can_not_be_made_is_done_without(tmp_path: Path, place: str, warnings: list[str]):
    file = tmp_path / "file"
    file.touch()
    refused(place.format(file=file, tmp=tmp_path), warnings)


@pytest.mark.parametrize("place", ["a\0b", "/\ud800/c.sqlite", "~nobody-of-this-name/c.sqlite", "/" + "a/" * 90_000])
def test_what_is_no_path_is_done_without(
    tmp_path: Path, place: str, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    refused(place, warnings)
    assert not any(tmp_path.iterdir())


def test_a_relative_path_in_a_folder_that_is_gone_is_done_without(
    tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    refused("catalog.sqlite", warnings)


def test_a_path_with_signs_that_mean_something_in_an_address_is_taken_as_it_is(tmp_path: Path):
    path = tmp_path / "50%25?mode=memory#x&y" / "c d.sqlite"
    store = CacheStore.open(str(path), AT_ONCE)
    assert works(store)
    assert path.stat().st_size > 0
    store.close()


def test_a_python_without_sqlite_does_without(path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch):
    for module in ("catalog.cache.tables", "storage.sqlite"):
        monkeypatch.delitem(sys.modules, f"mcp_workbench.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    assert "this Python was built without SQLite" in refused(path, warnings)


READS = """
    import os, resource, sys
    from msgspec import Raw
    from mcp_workbench.catalog.cache.store import CacheStore, Entry, fingerprint
    from mcp_workbench.limits import Limits

    def entry(*items):
        raws = tuple(map(Raw, items))
        return Entry(items=raws, fingerprint=fingerprint(raws), modern=True, offers=frozenset({"tools"}), listed_at=1.0)

    LIMITS = Limits(store_rest_seconds=0.0)
    path, *rest = sys.argv[1:]
"""


def run(script: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    code = textwrap.dedent(READS) + textwrap.dedent(script)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=env,
        **options,
    )


def ended(process: subprocess.Popen[str]) -> tuple[str, list[str]]:
    """What it printed, and the lines that it logged."""
    output, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    return output.strip(), log.splitlines()


ASKS = """
    import mcp_workbench.catalog.cache.tables  # now: this user may not be allowed to read it
    os.setuid(int(rest[0]))
    store = CacheStore.open(path, LIMITS)
    for _ in range(2):
        store.put(b"new", b"d", "tools", entry(b"1"))
    print(store.is_usable, store.get(b"s", b"d", "tools") is not None, store.get(b"new", b"d", "tools") is not None)
"""


@pytest.fixture
def ordinary() -> Iterator[tuple[Path, int]]:
    """A folder and a user for whom permissions hold: not root."""
    import tempfile  # noqa: PLC0415

    user = os.geteuid() or 65534
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder, user
        folder.chmod(0o755)


@pytest.mark.parametrize("folder_mode", [0o555, 0o755])
@pytest.mark.parametrize("file_mode", [0o400, 0o600])
def test_a_store_in_a_read_only_folder_or_that_is_read_only_is_read(
    ordinary: tuple[Path, int], folder_mode: int, file_mode: int
):
    folder, user = ordinary
    path = folder / "catalog.sqlite"
    store = CacheStore.open(str(path), AT_ONCE)
    store.put(b"s", b"d", "tools", LIST)
    store.close()
    os.chown(path, user, -1)
    os.chown(folder, user if folder_mode == 0o755 else os.geteuid(), -1)
    path.chmod(file_mode)
    folder.chmod(folder_mode)
    output, log = ended(run(ASKS, str(path), str(user)))
    is_writable = folder_mode == 0o755 and file_mode == 0o600
    assert output == f"True True {is_writable}"
    assert len(log) == (0 if is_writable else 1)


def test_a_folder_without_a_store_that_can_not_be_written_is_done_without(ordinary: tuple[Path, int]):
    folder, user = ordinary
    folder.chmod(0o555)
    output, log = ended(run(ASKS, str(folder / "mcp-workbench" / "catalog.sqlite"), str(user)))
    assert output == "False False False"
    assert len(log) == 1
    assert "Permission denied" in log[0]


def test_a_full_disk_costs_what_is_put_and_nothing_else(
    connections: list[sqlite3.Connection], store: CacheStore, warnings: list[str]
):
    store.put(STAMP, DECLARED, "tools", LIST)
    [file] = connections
    (pages,) = file.execute("PRAGMA page_count").fetchone()
    file.execute(f"PRAGMA max_page_count = {pages + 2}")
    store.put(b"large", DECLARED, "tools", entry(b"x" * 100_000))
    assert warnings == ["lists of servers are not kept on disk: database or disk is full"]
    assert store.get(STAMP, DECLARED, "tools") == LIST
    assert store.get(b"large", DECLARED, "tools") is None
    assert store.is_usable
    store.put(b"large", DECLARED, "tools", entry(b"x" * 100_000))
    assert store.get(b"large", DECLARED, "tools") == entry(b"x" * 100_000)
    assert len(warnings) == 1


def test_a_limit_on_the_size_of_files_is_a_full_disk(path: Path):
    script = """
        store = CacheStore.open(path, LIMITS)
        store.put(b"s", b"d", "tools", entry(b"1"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        for _ in range(3):
            store.put(b"l", b"d", "tools", entry(b"x" * 200_000))
        print(store.get(b"s", b"d", "tools") == entry(b"1"), store.get(b"l", b"d", "tools"))
    """
    output, log = ended(run(script, str(path)))
    assert output == "True None"
    assert len(log) == 1


def test_after_a_refused_write_the_store_rests_and_reading_goes_on(
    path: Path, connections: list[sqlite3.Connection], warnings: list[str]
):
    store = CacheStore.open(str(path), Limits(store_rest_seconds=600))
    store.put(STAMP, DECLARED, "tools", LIST)
    connections[-1].execute("PRAGMA max_page_count = 1")
    store.put(b"large", DECLARED, "tools", entry(b"x" * 100_000))
    assert not works(store)
    assert store.get(STAMP, DECLARED, "tools") == LIST
    assert len(warnings) == 1
    store.close()


# -- other processes, and files that go away


def test_a_store_that_vanished_is_made_anew_while_it_is_open(path: Path, store: CacheStore, warnings: list[str]):
    store.put(STAMP, DECLARED, "tools", LIST)
    path.unlink()
    assert store.get(STAMP, DECLARED, "tools") is None
    assert works(store)
    assert mode(path) == "0o600"
    path.unlink()
    path.parent.rmdir()
    assert works(store)
    assert mode(path.parent) == "0o700"
    assert warnings == []


def test_a_store_that_another_process_made_anew_is_the_one_that_is_used(path: Path, store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    path.unlink()
    other = CacheStore.open(str(path), AT_ONCE)
    other.put(b"other", DECLARED, "tools", LIST)
    assert store.get(b"other", DECLARED, "tools") == LIST
    assert store.get(STAMP, DECLARED, "tools") is None
    other.close()


def test_what_another_process_made_anew_is_not_removed_by_one_that_found_the_damage_too(
    path: Path, store: CacheStore, monkeypatch: pytest.MonkeyPatch
):
    store.put(STAMP, DECLARED, "tools", LIST)
    real = CacheTables.find

    def find(*_: Any) -> Any:
        monkeypatch.setattr(CacheTables, "find", real)
        path.rename(path.with_name("damaged"))
        other = CacheStore.open(str(path), AT_ONCE)
        other.put(b"other", DECLARED, "tools", LIST)
        other.close()
        raise Damaged("it is damaged")

    monkeypatch.setattr(CacheTables, "find", find)
    assert store.get(b"other", DECLARED, "tools") == LIST


def test_a_file_that_another_process_makes_at_the_same_moment_is_used(
    path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    real = secure_files.create

    def create(path: str) -> None:
        real(path)
        real(path)

    monkeypatch.setattr(secure_files, "create", create)
    store = CacheStore.open(str(path), AT_ONCE)
    assert works(store)
    assert warnings == []
    store.close()


def test_tables_that_another_process_makes_at_the_same_moment_are_used(
    path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    real = Database._make

    def make(self: Database, statements: Any) -> None:
        monkeypatch.setattr(Database, "_make", real)
        other = CacheStore.open(str(path), AT_ONCE)
        other.put(STAMP, DECLARED, "tools", LIST)
        other.close()
        real(self, statements)

    monkeypatch.setattr(Database, "_make", make)
    store = CacheStore.open(str(path), AT_ONCE)
    assert store.get(STAMP, DECLARED, "tools") == LIST
    assert warnings == []
    store.close()


def test_a_file_that_is_gone_again_is_not_made_by_sqlite(
    path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(secure_files, "create", lambda _: None)
    assert "unable to open database file" in refused(path, warnings)
    assert not path.exists()


@pytest.fixture
def locked(path: Path, store: CacheStore) -> Iterator[sqlite3.Connection]:
    """A process that has the file for itself until it is told to let go."""
    store.put(STAMP, DECLARED, "tools", LIST)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    yield other
    other.close()


def test_a_locked_store_is_done_without_until_it_is_free(
    store: CacheStore, locked: sqlite3.Connection, warnings: list[str]
):
    began = time.monotonic()
    assert store.get(STAMP, DECLARED, "tools") is None
    assert time.monotonic() - began < 2.5
    assert not works(store)
    assert store.is_usable
    locked.execute("ROLLBACK")
    assert store.get(STAMP, DECLARED, "tools") == LIST
    assert works(store)
    assert warnings == []


def test_a_store_that_is_locked_when_it_is_opened_is_used_later(
    path: Path, locked: sqlite3.Connection, warnings: list[str]
):
    store = CacheStore.open(str(path), AT_ONCE)
    assert store.is_usable
    assert store.get(STAMP, DECLARED, "tools") is None
    locked.execute("ROLLBACK")
    assert store.get(STAMP, DECLARED, "tools") == LIST
    assert warnings == []
    store.close()


def test_a_stuck_process_is_waited_for_once_and_not_by_every_call(path: Path, locked: sqlite3.Connection):
    store = CacheStore.open(str(path), Limits(store_busy_seconds=0.05, store_rest_seconds=600))
    assert store.get(STAMP, DECLARED, "tools") is None
    locked.execute("ROLLBACK")
    assert store.get(STAMP, DECLARED, "tools") is None
    store.close()


def test_who_reads_does_not_keep_others_from_reading(path: Path, store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM workbench_lists").fetchone()
    assert store.get(STAMP, DECLARED, "tools") == LIST
    reader.close()


MANY = """
    store = CacheStore.open(path, Limits(store_busy_seconds=20.0))
    print("ready", flush=True)
    sys.stdin.readline()
    me, seen = os.getpid(), 0
    for turn in range(40):
        key = b"%d" % (turn % 4)
        text = b"%d %d " % (me, turn)
        store.put(key, b"d", "tools", entry(*(text * 100 for _ in range(turn % 7))))
        store.record_client(Raw(b'{"x":%d}' % (turn % 3)), modern=False)
        for found in store.get_many([(b"%d" % one, b"d") for one in range(4)], "tools"):
            if found is not None:
                assert fingerprint(found.items) == found.fingerprint
                assert len(set(map(bytes, found.items))) <= 1
                seen += 1
        if turn % 10 == 9:
            store.drop(key, b"d")
    store.close()
    print(seen)
"""


def start_together(script: str, path: Path, number: int = 4) -> list[tuple[str, list[str]]]:
    processes = [run(script, str(path), stdin=subprocess.PIPE) for _ in range(number)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [ended(process) for process in processes]


def test_several_processes_at_once_read_whole_entries_and_harm_nothing(path: Path):
    results = start_together(MANY, path)
    assert all(int(seen) > 40 for seen, _ in results)
    assert [log for _, log in results] == [[]] * 4
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


FIRST = """
    print("ready", flush=True)
    sys.stdin.readline()
    store = CacheStore.open(path, Limits(store_busy_seconds=20.0))
    store.put(b"%d" % os.getpid(), b"d", "tools", entry(b"1"))
    print(os.getpid())
"""


def test_processes_that_make_the_store_at_the_same_time_make_one(path: Path):
    results = start_together(FIRST, path)
    store = CacheStore.open(str(path), AT_ONCE)
    found = store.get_many([(pid.encode(), b"d") for pid, _ in results], "tools")
    assert found == [entry(b"1")] * 4
    assert [log for _, log in results] == [[]] * 4
    store.close()


def test_processes_that_find_the_same_damage_all_go_on(path: Path):
    path.parent.mkdir()
    path.write_bytes(DAMAGES["half of it"](filled(path)))
    for _, log in start_together(MANY, path):
        assert len(log) <= 1
    store = CacheStore.open(str(path), AT_ONCE)
    assert works(store)
    store.close()


def test_a_process_that_is_killed_in_the_middle_of_a_write_leaves_the_store_as_it_was(path: Path, store: CacheStore):
    store.put(STAMP, DECLARED, "tools", LIST)
    script = """
        store = CacheStore.open(path, LIMITS)
        file = store._file.tables._file
        file.row("PRAGMA cache_size = 1")
        file.run("BEGIN IMMEDIATE")
        file.run("DELETE FROM workbench_lists")
        for number in range(100):
            file.run("INSERT INTO workbench_items VALUES (?, ?)", (number + 10, bytes(5000)))
        print("ready", flush=True)
        sys.stdin.readline()
    """
    process = run(script, str(path), stdin=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.communicate()
    assert path.with_name("catalog.sqlite-journal").exists()
    assert store.get(STAMP, DECLARED, "tools") == LIST
    assert works(store)


# -- where it is, and what it costs


def test_the_path_is_the_one_that_is_named_or_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "linux")
    home = {"HOME": "/home/ann"}
    assert store_path({**home, "WORKBENCH_CATALOG": "/x/y.db"}) == "/x/y.db"
    assert store_path({**home, "WORKBENCH_CATALOG": ""}) == "/home/ann/.cache/mcp-workbench/catalog.sqlite"
    assert store_path({**home, "XDG_CACHE_HOME": "/c"}) == "/c/mcp-workbench/catalog.sqlite"
    assert store_path({**home, "XDG_CACHE_HOME": "c"}) == "/home/ann/.cache/mcp-workbench/catalog.sqlite"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert store_path(home) == "/home/ann/Library/Caches/mcp-workbench/catalog.sqlite"


def test_a_home_folder_in_a_named_path_is_the_users(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/ann")
    assert store_path({"WORKBENCH_CATALOG": "~/c.sqlite"}) == "/home/ann/c.sqlite"
    assert store_path({}).startswith("/home/ann/")


def test_fifty_servers_are_got_in_a_moment(path: Path, store: CacheStore):
    keys = [(bytes([number]) * 32, DECLARED) for number in range(50)]
    for stamp, declared in keys:
        store.put(stamp, declared, "tools", entry(*(b'"%s%d"' % (b"x" * 1000, one) for one in range(20))))

    def took() -> float:
        began = time.process_time()
        again = CacheStore.open(str(path))
        assert None not in again.get_many(keys, "tools")
        again.close()
        return time.process_time() - began

    assert min(took() for _ in range(5)) < 0.025
