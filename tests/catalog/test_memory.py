"""What is remembered of a server: where, for whom, how long, and without its secrets."""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.catalog.cache.server_cache import CachedServer, ServerCache
from mcp_workbench.catalog.cache.store import Kind, fingerprint
from mcp_workbench.config.model import CatalogConfig, Config, Launch, MissingVariable, Refresh, ServerConfig
from mcp_workbench.limits import DEFAULTS, Limits
from tests.support.remembering import Clock, own_clock

NOTHING = Raw(b"{}")
ITEMS = (Raw(b'{"name":"read"}'), Raw(b'{"name":"write", "n":1.00}'))
SECRET = "sk-4711-Ahoy"  # noqa: S105 -- a test's


@pytest.fixture(autouse=True)
def own_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is a secret here is none for other tests."""
    monkeypatch.setattr(logger, "log", logger.Log())


@pytest.fixture(autouse=True)
def closed_memories(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what a test opened: since Python 3.13 a database that is collected while it is open is a warning."""
    made: list[ServerCache] = []
    init = ServerCache.__init__

    def remember(self: ServerCache, *arguments: Any) -> None:
        init(self, *arguments)
        made.append(self)

    monkeypatch.setattr(ServerCache, "__init__", remember)
    yield
    for memory in made:
        memory.close()


@pytest.fixture
def clock() -> Iterator[Clock]:
    with own_clock() as clock:
        yield clock


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "store" / "catalog.sqlite"
    monkeypatch.setenv("WORKBENCH_CATALOG", str(path))
    return path


def config(refresh: Refresh = "background", path: Path | None = None) -> Config:
    catalog = CatalogConfig(refresh=refresh, path=str(path) if path else None)
    return Config(file="/etc/config.json", toolboxes={}, catalog=catalog)


def server(name: str = "fs", *, args: Sequence[str] = (), secrets: Sequence[str] = (), **fields: Any) -> ServerConfig:
    env = {f"V{number}": secret for number, secret in enumerate(secrets)}
    launch = Launch(command="/bin/server", args=tuple(args), env=env)
    return ServerConfig(name=name, toolbox="dev", target=launch, secrets=frozenset(secrets), **fields)


def put(record: CachedServer, *items: Raw, modern: bool = False, offers: Sequence[str] = ("tools",)) -> None:
    record.put("tools", record.draft(items, modern=modern, offers=offers))


def kept(record: CachedServer) -> tuple[Raw, ...] | None:
    entry = record.get("tools")
    return entry.items if entry is not None else None


def record_of(
    entry: ServerConfig, declared: Raw = NOTHING, *, modern: bool = False, of: Config | None = None
) -> CachedServer:
    """In a workbench of its own, as after a restart."""
    return only(ServerCache(of or config(), DEFAULTS), entry, declared, modern=modern)


def only(memory: ServerCache, entry: ServerConfig, declared: Raw = NOTHING, *, modern: bool = False) -> CachedServer:
    (record,) = memory.of([entry], declared, modern=modern)
    return record


def files(store: Path) -> bytes:
    """Every byte of every file in the folder of the store."""
    return b"\n".join(path.read_bytes() for path in sorted(store.parent.iterdir()))


# -- for whom


def test_a_list_is_remembered_as_it_was_with_what_its_server_said_of_itself(store: Path):
    put(record_of(server()), *ITEMS, modern=True, offers=["tools", "prompts"])
    entry = record_of(server()).get("tools")
    assert entry is not None
    assert (entry.items, entry.modern, entry.offers) == (ITEMS, True, {"tools", "prompts"})
    assert record_of(server()).get("prompts") is None
    assert store.exists()


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (server("renamed", tool_filters=("x",), bounds={"in_flight": 1}), True),
        (server(args=["--toolsets=all"]), False),
        (server(secrets=["another-token"]), False),
    ],
)
def test_it_belongs_to_how_the_server_is_started_and_not_to_its_name(other: ServerConfig, *, is_same: bool):
    put(record_of(server()), *ITEMS)
    assert kept(record_of(other)) == (ITEMS if is_same else None)


@pytest.mark.usefixtures("store")
def test_it_belongs_to_what_was_declared_however_that_was_written():
    put(record_of(server(), Raw(b'{"sampling":{},"roots":{"listChanged":true}}')), *ITEMS)
    assert kept(record_of(server(), Raw(b'{ "roots": {}, "sampling": {} }'))) == ITEMS
    assert kept(record_of(server())) is None


@pytest.mark.usefixtures("store")
def test_a_server_whose_variables_are_missing_has_no_memory():
    """What it would be started with is not known."""
    missing = server(missing=(MissingVariable("TOKEN", "toolboxes.dev.mcpServers.fs.env.TOKEN", 1, 1),))
    put(record_of(missing), *ITEMS)
    assert kept(record_of(missing)) is None
    assert kept(record_of(server())) is None


@pytest.mark.usefixtures("store")
def test_many_servers_are_looked_up_at_once_each_with_its_own():
    for number in range(3):
        put(record_of(server(args=[str(number)])), Raw(b'{"name":"t%d"}' % number))
    asked = [server(args=[str(number)]) for number in (2, 9, 0)]
    records = ServerCache(config(), DEFAULTS).of(asked, NOTHING, modern=False)
    assert [kept(record) for record in records] == [(Raw(b'{"name":"t2"}'),), None, (Raw(b'{"name":"t0"}'),)]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("looks", [0, 1, 2])
def test_what_was_put_last_is_what_is_got_whether_somebody_looked_before_or_not(looks: int):
    put(record_of(server()), *ITEMS)
    record = record_of(server())
    for _ in range(looks):
        assert kept(record) == ITEMS
    put(record, ITEMS[0])
    assert kept(record) == (ITEMS[0],)


def test_a_store_is_opened_beforehand_where_there_is_one_and_none_is_made(store: Path):
    memory = ServerCache(config(), DEFAULTS)
    memory.prepare()
    assert not store.parent.exists()
    put(only(memory, server()), *ITEMS)
    another = ServerCache(config(), DEFAULTS)
    another.prepare()
    store.unlink()
    store.mkdir()  # of no use to who opens it now
    assert another.problem is None
    assert ServerCache(config(), DEFAULTS).problem is not None


# -- the two eras


@pytest.mark.usefixtures("store")
def test_clients_of_each_era_have_lists_of_their_own():
    put(record_of(server()), ITEMS[0])
    put(record_of(server(), modern=True), ITEMS[1], modern=True)
    assert kept(record_of(server())) == (ITEMS[0],)
    assert kept(record_of(server(), modern=True)) == (ITEMS[1],)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("kind", ["tools", "prompts"])
@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("spoken", [False, True])
def test_a_client_is_lent_the_list_of_the_other_era_and_it_counts_if_it_is_in_its_own(
    kind: Kind, *, client: bool, spoken: bool
):
    """A server that did not speak its client's era has one era only; one that did may have two."""
    other = record_of(server(), modern=not client)
    other.put(kind, other.draft(ITEMS, modern=spoken, offers=[]))
    record = record_of(server(), modern=client)
    entry = record.get(kind)
    assert entry is not None
    assert (entry.items, entry.is_fallback) == (ITEMS, True)
    assert record.is_current(entry) is (spoken == client)
    record.put(kind, record.draft(ITEMS[:1], modern=client, offers=[]))
    own = record.get(kind)
    assert own is not None
    assert (own.items, own.is_fallback, record.is_current(own)) == (ITEMS[:1], False, True)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("client", [False, True])
def test_a_list_with_output_schemas_is_lent_only_in_the_era_that_it_was_listed_in(*, client: bool):
    """A server with both eras wraps results that are no objects in the older one, and their schemas with them."""
    items = (Raw(b'{"name":"read","outputSchema":{"type":"array"}}'),)
    other = record_of(server(), modern=not client)
    other.put("tools", other.draft(items, modern=not client, offers=[]))
    assert record_of(server(), modern=client).get("tools") is None
    other.put("tools", other.draft(items, modern=client, offers=[]))
    lent = record_of(server(), modern=client).get("tools")
    assert lent is not None
    assert (lent.items, lent.is_fallback) == (items, True)


@pytest.mark.usefixtures("store")
def test_a_lent_list_counts_where_the_server_is_known_to_speak_the_same_with_both():
    put(record_of(server()), *ITEMS)
    record_of(server(), Raw(b'{"sampling":{}}'), modern=True).record_era(modern=False)
    record = record_of(server(), modern=True)
    entry = record.get("tools")
    assert entry is not None
    assert record.is_current(entry)


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("client", [False, True])
@pytest.mark.parametrize("spoken", [False, True])
def test_the_era_that_a_server_spoke_is_known_for_every_client_of_that_era_and_for_no_other(
    *, client: bool, spoken: bool
):
    assert record_of(server(), modern=client).era() is None
    record_of(server(), modern=client).record_era(modern=spoken)
    for declared in (NOTHING, Raw(b'{"sampling":{}}')):
        assert record_of(server(), declared, modern=client).era() is spoken
        assert record_of(server(), declared, modern=not client).era() is None
        assert record_of(server(args=["other"]), declared, modern=client).era() is None
    record_of(server(), modern=client).record_era(modern=not spoken)
    assert record_of(server(), modern=client).era() is not spoken


@pytest.mark.usefixtures("store")
def test_that_a_server_does_not_speak_the_era_of_its_clients_is_asked_again_when_it_is_old(clock: Clock):
    record = record_of(server())
    record.record_era(modern=True)
    put(record, *ITEMS, modern=True)
    assert record_of(server()).era() is True
    clock.later(DEFAULTS.catalog_age_seconds)
    put(record_of(server()), *ITEMS, modern=True)  # it was listed again meanwhile, in the era that was known
    assert record_of(server()).era() is None


@pytest.mark.usefixtures("store")
def test_what_a_server_listed_in_the_era_of_its_clients_tells_that_it_speaks_it():
    put(record_of(server()), *ITEMS, modern=False)
    assert record_of(server()).era() is False


@pytest.mark.usefixtures("store")
def test_what_clients_declared_is_known_the_newest_first():
    memory = ServerCache(config(), DEFAULTS)
    for declared in (b'{"a":{}}', b'{"b":{}}', b'{"a":{}}'):
        memory.record_client(Raw(declared), modern=False)
    assert [bytes(one) for one, _ in ServerCache(config(), DEFAULTS).recent_clients()] == [b'{"a":{}}', b'{"b":{}}']


@pytest.mark.usefixtures("store")
def test_no_more_kinds_of_clients_are_known_than_a_client_may_have_places():
    memory = ServerCache(config(), limits := Limits(places=3))
    for number in range(9):
        memory.record_client(Raw(b'{"n":%d}' % number), modern=False)
    assert len(memory.recent_clients()) == limits.places


# -- where


def test_the_variable_wins_over_the_file_and_the_file_over_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    named, variable = (tmp_path / name / "catalog.sqlite" for name in ("file", "variable"))
    caches = (tmp_path / "mcp-workbench", tmp_path / "Library")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORKBENCH_CATALOG", str(variable))
    put(record_of(server(), of=config(path=named)), *ITEMS)
    assert variable.exists()
    monkeypatch.delenv("WORKBENCH_CATALOG")
    put(record_of(server(), of=config(path=named)), *ITEMS)
    assert named.exists()
    assert [path for path in caches if path.exists()] == []
    put(record_of(server()), *ITEMS)
    assert [path for path in caches if path.exists()] != []


@pytest.mark.parametrize("where", ["variable", "file"])
def test_none_stands_for_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str):
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORKBENCH_CATALOG")
    if where == "variable":
        monkeypatch.setenv("WORKBENCH_CATALOG", "none")
    catalog = CatalogConfig(path="none" if where == "file" else str(tmp_path / "named"))
    memory = ServerCache(Config(file="/etc/config.json", toolboxes={}, catalog=catalog), DEFAULTS)
    record = only(memory, server())
    memory.record_client(NOTHING, modern=False)
    put(record, *ITEMS)
    assert (kept(record), memory.recent_clients()) == (None, [])
    memory.close()
    assert list(tmp_path.iterdir()) == []


def test_the_variable_may_begin_with_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WORKBENCH_CATALOG", "~/mine.sqlite")
    put(record_of(server()), *ITEMS)
    assert (tmp_path / "mine.sqlite").exists()


def _folder(path: Path) -> None:
    path.mkdir(parents=True)


def _in_a_file(path: Path) -> None:
    path.parent.write_text("no folder", encoding="utf-8")


def _closed_key(path: Path) -> None:
    path.parent.mkdir(parents=True)
    (path.parent / "catalog.key").mkdir()


@pytest.mark.parametrize("prepare", [_folder, _in_a_file, _closed_key])
def test_without_a_usable_file_nothing_is_remembered_and_nothing_fails(
    store: Path, prepare: Callable[[Path], None], tmp_path: Path
):
    prepare(store)
    seen = (tmp_path / "log").open("wb")
    logger.log = logger.Log(seen.fileno())
    memory = ServerCache(config(), DEFAULTS)
    for _ in range(3):
        record = only(memory, server())
        memory.record_client(NOTHING, modern=False)
        put(record, *ITEMS)
        assert (kept(record), memory.recent_clients()) == (None, [])
    memory.close()
    seen.close()
    lines = (tmp_path / "log").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1
    assert "warning lists of servers are not kept on disk" in lines[0]


def test_nothing_is_made_before_somebody_asks(store: Path):
    memory = ServerCache(config(), DEFAULTS)
    memory.close()
    assert not store.parent.exists()


@pytest.mark.usefixtures("store")
def test_after_its_end_a_memory_gives_and_takes_nothing():
    memory = ServerCache(config(), DEFAULTS)
    record = only(memory, server())
    put(record, *ITEMS)
    memory.close()
    put(record, ITEMS[0])
    assert kept(record) is None
    assert kept(record_of(server())) == ITEMS


# -- how long


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("refresh", "age", "expected"),
    [
        ("background", 0.0, True),
        ("background", DEFAULTS.catalog_age_seconds - 1, True),
        ("background", DEFAULTS.catalog_age_seconds, False),
        ("background", -1.0, False),
        ("never", 1e9, True),
        ("never", -1.0, True),
        ("always", 0.0, True),
    ],
)
def test_a_list_is_current_until_it_is_old(clock: Clock, refresh: Refresh, age: float, *, expected: bool):
    record = record_of(server(), of=config(refresh))
    put(record, *ITEMS)
    clock.later(age)
    entry = record.get("tools")
    assert entry is not None
    assert (record.is_current(entry), record.refresh) == (expected, refresh)


@pytest.mark.usefixtures("store", "clock")
def test_with_an_age_of_nothing_no_list_is_current():
    record = only(ServerCache(config(), Limits(catalog_age_seconds=0.0)), server())
    put(record, *ITEMS)
    entry = record.get("tools")
    assert entry is not None
    assert not record.is_current(entry)


@pytest.mark.usefixtures("store")
def test_a_list_that_was_read_again_is_as_new_as_that(clock: Clock):
    put(record_of(server()), *ITEMS)
    clock.later(DEFAULTS.catalog_age_seconds)
    put(record_of(server()), *ITEMS)
    record = record_of(server())
    entry = record.get("tools")
    assert entry is not None
    assert record.is_current(entry)


# -- secrets


def test_a_secret_that_its_server_repeats_is_shown_again_and_not_in_the_file(store: Path):
    item = Raw(msgspec.json.encode({"name": "t", "description": f"signs in with {SECRET}"}))
    put(record_of(server(secrets=[SECRET])), item, *ITEMS)
    assert kept(record_of(server(secrets=[SECRET]))) == (item, *ITEMS)
    assert SECRET.encode() not in files(store)
    assert b"signs in with" in files(store)


def test_a_list_with_a_secret_in_another_form_is_not_written_and_the_one_before_is_gone(store: Path):
    encoded = base64.b64encode(SECRET.encode())
    put(record_of(server(secrets=[SECRET])), *ITEMS)
    put(record_of(server(secrets=[SECRET])), Raw(b'{"name":"t","description":"' + encoded + b'"}'))
    assert kept(record_of(server(secrets=[SECRET]))) is None
    assert encoded not in files(store)


def test_nothing_in_the_file_lets_a_guess_of_a_secret_be_tried(store: Path):
    """A fingerprint of the list with its secret in it would: the rest of the list stands beside it."""
    item = Raw(msgspec.json.encode({"name": "t", "description": SECRET}))
    put(record_of(server(secrets=[SECRET])), item)
    assert fingerprint([item]) not in files(store)


WORDS = st.lists(st.sampled_from(["read", "päth", "日本", '"', "\\", "\n", "x" * 50]), max_size=4).map(" ".join)
SECRETS = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=16), max_size=3)


@settings(max_examples=25)
@given(WORDS, SECRETS, st.data())
def test_whatever_is_listed_comes_back_or_is_asked_for_again_and_no_secret_is_on_disk(
    words: str, secrets: list[str], data: st.DataObject
):
    spoken = data.draw(st.lists(st.sampled_from([*secrets, words]), max_size=3))
    item = Raw(msgspec.json.encode({"name": "t", "description": f"{words} {' '.join(spoken)}"}))
    logger.log = logger.Log()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        store = Path(folder) / "s" / "catalog.sqlite"
        patch.setenv("WORKBENCH_CATALOG", str(store))
        put(record_of(server(secrets=secrets)), item)
        found = kept(record_of(server(secrets=secrets)))
        assert found in ((item,), None)
        on_disk = files(store)
        for secret in secrets:
            as_json = json.dumps(secret, ensure_ascii=False)[1:-1].encode()
            if as_json in bytes(item).replace(b'{"name":"t","description":"', b""):
                assert as_json not in on_disk


@pytest.mark.usefixtures("store")
def test_a_draft_is_made_only_where_it_can_be_kept(monkeypatch: pytest.MonkeyPatch):
    draft = record_of(server()).draft(ITEMS, modern=False, offers=[])
    assert draft is not None
    assert draft.fingerprint == fingerprint(ITEMS)
    monkeypatch.setenv("WORKBENCH_CATALOG", "none")
    assert record_of(server()).draft(ITEMS, modern=False, offers=[]) is None
