"""What a remembered list belongs to: stamps of configured servers, their key, and what clients declared."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.catalog.cache.entry import CacheKeys, declared_digest, load_key
from mcp_workbench.config.environment import is_default
from mcp_workbench.config.model import Endpoint, Launch, OAuthClient, ServerConfig
from mcp_workbench.servers.processes import environment

STAMPS = CacheKeys(b"k" * 32)
LAUNCH = Launch(
    command="/bin/serve",
    args=("--port", "80"),
    env={"TOKEN": "secret", "TOOLSETS": "all"},
    cwd=Path("/srv"),
    inherit_env=("REGION", "AWS_*"),
)
ENDPOINT = Endpoint(url="https://example.org/mcp", headers={"Authorization": "Bearer secret"})
ENVIRON = {"REGION": "eu", "AWS_PROFILE": "dev", "AWS_KEY": "k", "EDITOR": "vi", "PATH": "/bin", "HOME": "/root"}


def server(target: Launch | Endpoint, **fields: Any) -> ServerConfig:
    return ServerConfig(**{"name": "fs", "toolbox": "dev", "target": target, **fields})


def stamp(target: Launch | Endpoint, environ: dict[str, str] = ENVIRON) -> bytes:
    return STAMPS.of(server(target), environ)


def changed(target: Launch | Endpoint, **fields: Any) -> Launch | Endpoint:
    return msgspec.structs.replace(target, **fields)


# -- what is part of a stamp


@pytest.mark.parametrize(
    "fields",
    [
        {"command": "/bin/serves"},
        {"args": ("--port", "81")},
        {"args": ("--port 80",)},
        {"args": ("80", "--port")},
        {"args": ("--port", "80", "")},
        {"env": {"TOKEN": "secret2", "TOOLSETS": "all"}},
        {"env": {"TOKEN": "secret", "TOOLSETS": "some"}},
        {"env": {"TOKEN": "secret"}},
        {"env": {"TOKEN": "all", "TOOLSETS": "secret"}},
        {"env": {"TOKEN": "secret", "TOOLSETS": "all", "MORE": ""}},
        {"cwd": Path("/srv/x")},
        {"cwd": None},
        {"inherit_env": ("REGION",)},
        {"inherit_env": ("REGION", "AWS_*", "EDITOR")},
    ],
)
def test_a_change_of_how_a_server_is_started_changes_its_stamp(fields: dict[str, Any]):
    assert stamp(changed(LAUNCH, **fields)) != stamp(LAUNCH)


@pytest.mark.parametrize(
    "fields",
    [
        {"url": "https://example.org/mcp2"},
        {"headers": {"Authorization": "Bearer secret2"}},
        {"headers": {"authorisation": "Bearer secret"}},
        {"headers": {}},
        {"transport": "sse"},
        {"oauth": OAuthClient(client_id="another")},
        {"oauth": OAuthClient(scopes=("admin",))},
    ],
)
def test_a_change_of_how_a_server_is_reached_changes_its_stamp(fields: dict[str, Any]):
    assert stamp(changed(ENDPOINT, **fields)) != stamp(ENDPOINT)


@pytest.mark.parametrize(
    "variables", [{"REGION": "us"}, {"AWS_PROFILE": "prod"}, {"AWS_NEW": ""}, {"AWS_KEY": "\udcff"}], ids=str
)
def test_a_change_of_an_inherited_variable_changes_the_stamp(variables: dict[str, str]):
    assert stamp(LAUNCH, ENVIRON | variables) != stamp(LAUNCH)


def test_an_inherited_variable_that_is_gone_changes_the_stamp():
    assert stamp(LAUNCH, {name: value for name, value in ENVIRON.items() if name != "REGION"}) != stamp(LAUNCH)


@pytest.mark.parametrize(
    "variables", [{"EDITOR": "ed"}, {"PATH": "/usr/bin"}, {"HOME": "/x"}, {"region": "us"}, {"XAWS_KEY": "x"}], ids=str
)
def test_other_variables_do_not_matter(variables: dict[str, str]):
    assert stamp(LAUNCH, ENVIRON | variables) == stamp(LAUNCH)


def test_a_variable_that_the_entry_sets_itself_is_not_inherited():
    own = changed(LAUNCH, env={"REGION": "own"})
    assert stamp(own, ENVIRON | {"REGION": "us"}) == stamp(own)


def test_variables_do_not_matter_to_a_remote_server():
    assert stamp(ENDPOINT, {}) == stamp(ENDPOINT, ENVIRON)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "files"},
        {"toolbox": "ops"},
        {"tool_filters": ("read_*",)},
        {"bounds": {"in_flight": 1}},
        {"secrets": frozenset({"secret"})},
    ],
    ids=str,
)
@pytest.mark.parametrize("target", [LAUNCH, ENDPOINT], ids=["launch", "endpoint"])
def test_names_filters_and_limits_do_not_matter(target: Launch | Endpoint, fields: dict[str, Any]):
    assert STAMPS.of(server(target, **fields), ENVIRON) == stamp(target)


def test_the_order_in_which_variables_are_written_does_not_matter():
    turned = changed(LAUNCH, env=dict(reversed(LAUNCH.env.items())), inherit_env=tuple(reversed(LAUNCH.inherit_env)))
    assert stamp(turned, dict(reversed(ENVIRON.items()))) == stamp(LAUNCH)


TEXT = st.text(st.one_of(st.sampled_from('a",{}[]:\\\n\x00\ud83d\ude00\udc80😀é'), st.characters()), max_size=4)
LAUNCHES = st.fixed_dictionaries(
    {
        "command": TEXT,
        "args": st.lists(TEXT, max_size=3).map(tuple),
        "env": st.dictionaries(TEXT, TEXT, max_size=2),
        "cwd": st.sampled_from([None, Path("/a"), Path("/b")]),
    }
).map(lambda fields: Launch(**fields))
ENDPOINTS = st.fixed_dictionaries(
    {
        "url": TEXT,
        "headers": st.dictionaries(TEXT, TEXT, max_size=2),
        "transport": st.sampled_from(["http", "sse"]),
    }
).map(lambda fields: Endpoint(**fields))
TARGETS = st.one_of(LAUNCHES, ENDPOINTS)


@given(TARGETS, TARGETS)
def test_two_entries_have_the_same_stamp_only_if_they_are_the_same(one: Launch | Endpoint, other: Launch | Endpoint):
    assert (stamp(one, {}) == stamp(other, {})) == (one == other)


@given(st.lists(TEXT, max_size=4), st.integers(0, 4), st.integers(0, 4))
def test_where_one_argument_ends_is_part_of_the_stamp(args: list[str], start: int, end: int):
    joined = [*args[:start], "".join(args[start:end]), *args[max(start, end) :]]
    one, other = (changed(LAUNCH, args=tuple(arguments)) for arguments in (args, joined))
    assert (stamp(one) == stamp(other)) == (args == joined)


def test_a_pair_of_surrogates_is_not_the_character_that_they_stand_for():
    pair, character = (changed(LAUNCH, command=command) for command in ("\ud83d\ude00", "\U0001f600"))
    assert stamp(pair) != stamp(character)


def test_a_variable_that_is_no_text_has_a_stamp_of_its_own():
    stamps = {stamp(LAUNCH, ENVIRON | {"REGION": region}) for region in ("?", "\udcff", "\udcfe", "\xff", "\\udcff")}
    assert len(stamps) == 5


NAMES = st.sampled_from(["A", "AB", "AWS_X", "PATH", "HOME", "b", "[", "A*"])
PATTERNS = st.lists(st.sampled_from(["A", "A*", "?", "*", "[A]", "[!A]*", "b", "PATH", "", "A[*]"]), max_size=3)
VARIABLES = st.dictionaries(NAMES, st.sampled_from(["", "1", "2"]), max_size=4)


@given(PATTERNS, VARIABLES, VARIABLES, VARIABLES)
def test_variables_matter_exactly_if_the_server_would_see_them(
    patterns: list[str], own: dict[str, str], one: dict[str, str], other: dict[str, str]
):
    launch = Launch(command="x", env=own, inherit_env=tuple(patterns))
    basics = {"PATH": "the same", "HOME": "the same"}
    seen = [environment(launch, {**basics, **variables}, "marker") for variables in (one, other)]
    stamps = [stamp(launch, {**basics, **variables}) for variables in (one, other)]
    beyond_basics = [{name: value for name, value in env.items() if not is_default(name)} for env in seen]
    if seen[0] == seen[1]:
        assert stamps[0] == stamps[1]
    if beyond_basics[0] != beyond_basics[1]:
        assert stamps[0] != stamps[1]


# -- the key


def test_another_key_makes_another_stamp():
    assert CacheKeys(b"j" * 32).of(server(LAUNCH), ENVIRON) != stamp(LAUNCH)


def test_a_stamp_stays_the_same_in_the_next_version_so_that_lists_are_not_forgotten():
    assert stamp(LAUNCH).hex() == "94decb05ff5ec8c1a59268e3d2486e972430b3ea762bf1e070254c9664b51697"
    assert stamp(ENDPOINT).hex() == "c611bd517ddc25134a2ca83e840613fbce7a2c0da4c1dd4fb2967bcad0e28a5f"


def test_no_digest_without_the_key_is_the_stamp():
    """Somebody who has the file but not the key can't tell whether a guess of the token is right."""
    entry = {"url": ENDPOINT.url, "headers": dict(ENDPOINT.headers), "transport": "http"}
    written = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()
    made = stamp(ENDPOINT)
    assert made not in {hashlib.new(name, written).digest() for name in ("sha256", "sha512", "sha1", "md5")}
    assert b"secret" not in made
    assert len(made) == 32


# -- what clients declared


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":{},"b":{}}', b'{ "b": {}, "a": {} }'),
        (b'{"roots":{}}', b'{"roots":{"listChanged":true}}'),
        (
            b'{"roots":{"listChanged":false},"sampling":{"x":{"b":1,"a":2}}}',
            b'{"sampling":{"x":{"a":2,"b":1}},"roots":{}}',
        ),
        (b'{"a":"\\u0041"}', b'{"a":"A"}'),
    ],
)
def test_capabilities_that_mean_the_same_have_the_same_digest(one: bytes, other: bytes):
    assert declared_digest(Raw(one), modern=False) == declared_digest(Raw(other), modern=False)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"{}", b'{"roots":{}}'),
        (b"{}", b'{"sampling":{}}'),
        (b'{"sampling":{}}', b'{"sampling":{"tools":{}}}'),
        (b'{"x":[1,2]}', b'{"x":[2,1]}'),
        (b'{"roots":{}}', b'{"roots":null}'),
        (b'{"x":{"roots":{}}}', b'{"x":{"roots":{"listChanged":true}}}'),
        (b"{}", b"[]"),
        (b"no json", b"no jsom"),
    ],
)
def test_capabilities_that_differ_have_other_digests(one: bytes, other: bytes):
    assert declared_digest(Raw(one), modern=False) != declared_digest(Raw(other), modern=False)


@pytest.mark.parametrize("odd", [b"", b"null", b"[" * 100_000, b'{"x":' * 5000, b'{"x":' + b"9" * 5000 + b"}", b"\xff"])
def test_what_is_no_object_has_a_digest_too(odd: bytes):
    assert len(declared_digest(Raw(odd), modern=False)) == 32


# -- the file of the key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mcp-workbench"


@pytest.fixture
def load(folder: Path) -> Callable[[], bytes | None]:
    return lambda: load_key(str(folder / "catalog.sqlite"))


@pytest.fixture
def key(folder: Path) -> Path:
    return folder / "catalog.key"


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    told: list[str] = []
    monkeypatch.setattr(logger, "warning", lambda _, **values: told.append(str(values["reason"])))
    return told


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """In force after the test's own folder was made."""
    assert tmp_path.exists()
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_the_key_is_random_made_once_and_for_the_user_alone(load: Any, key: Path, tmp_path: Path):
    first = load()
    assert len(first) == 32
    assert load() == first == key.read_bytes()
    assert [one.name for one in key.parent.iterdir()] == ["catalog.key"]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert load_key(str(tmp_path / "other" / "catalog.sqlite")) != first


@pytest.mark.parametrize("damaged", [b"", b"short", b"x" * 31, bytes(32)], ids=len)
def test_a_damaged_key_is_made_anew(load: Any, key: Path, damaged: bytes):
    load()
    key.write_bytes(damaged)
    made = load()
    assert len(made) == 32
    assert any(made)
    assert made not in (damaged, damaged.ljust(32, b"\0"))
    assert load() == made


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o666], ids=oct)
def test_a_key_that_others_could_read_is_made_anew(load: Any, key: Path, mode: int):
    first = load()
    key.chmod(mode)
    made = load()
    assert made != first
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert load() == made


def test_a_longer_file_is_somebody_elses_key_and_is_left_alone(load: Any, key: Path, warnings: list[str]):
    key.parent.mkdir()
    key.write_bytes(b"-----BEGIN PRIVATE KEY-----\n" * 2)
    key.chmod(0o600)
    assert load() is None
    assert load() is None
    assert key.read_bytes().startswith(b"-----BEGIN")
    assert warnings == ["it is not a key, so it is not overwritten"]


@pytest.mark.parametrize("target_is_there", [True, False])
def test_a_symbolic_link_is_not_followed(
    load: Any, key: Path, tmp_path: Path, warnings: list[str], *, target_is_there: bool
):
    target = tmp_path / "target"
    if target_is_there:
        target.write_bytes(b"k" * 32)
        target.chmod(0o600)
    key.parent.mkdir()
    key.symlink_to(target)
    assert load() is None
    assert target.exists() == target_is_there
    assert warnings == ["it is a symbolic link"]


def test_a_key_of_another_user_is_not_used(load: Any, key: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch):
    first = load()
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    assert load() is None
    assert key.read_bytes() == first
    assert "another user" in warnings[0]


def test_a_pipe_in_the_place_of_the_key_is_not_waited_for(load: Any, key: Path, warnings: list[str]):
    key.parent.mkdir()
    os.mkfifo(key)
    assert load() is None
    assert warnings == ["it is not a regular file"]


@pytest.mark.parametrize("place", ["/dev/null/x/catalog.sqlite", "~nobody-of-this-name/c.sqlite", "a\0b"])
def test_where_no_key_can_be_kept_there_is_none_and_that_is_told_once(
    place: str, tmp_path: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    if "\0" in place:
        place = f"{tmp_path}/{place}/c.sqlite"
    assert load_key(place) is None
    assert load_key(place) is None
    assert len(warnings) == 1
    assert not any(tmp_path.iterdir())


def test_a_file_system_without_hard_links_holds_a_key_too(load: Any, key: Path, monkeypatch: pytest.MonkeyPatch):
    def link(*_: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    assert load() == key.read_bytes()
    assert len(list(key.parent.iterdir())) == 1


def test_a_key_that_another_process_made_meanwhile_is_the_one_that_is_used(
    load: Any, key: Path, monkeypatch: pytest.MonkeyPatch
):
    real = os.link

    def link(draft: str, path: str) -> None:
        key.write_bytes(b"k" * 32)
        key.chmod(0o600)
        real(draft, path)

    monkeypatch.setattr(os, "link", link)
    assert load() == b"k" * 32
    assert len(list(key.parent.iterdir())) == 1


def test_a_key_that_is_removed_again_and_again_is_given_up(
    load: Any, key: Path, warnings: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "link", lambda *_: None)
    assert load() is None
    assert warnings == ["it is damaged again and again"]
    assert not any(key.parent.iterdir())


LOADS = """
import sys
from mcp_workbench.catalog.cache.entry import load_key
print("ready", flush=True)
sys.stdin.readline()
print(load_key(sys.argv[1]).hex())
"""


@pytest.mark.parametrize("before", [None, b"", b"short"], ids=["none", "empty", "short"])
def test_processes_that_start_at_the_same_time_have_a_key_each_and_leave_one(
    folder: Path, key: Path, before: bytes | None
):
    if before is not None:
        folder.mkdir()
        key.write_bytes(before)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LOADS, str(folder / "catalog.sqlite")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )
        for _ in range(5)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    keys = {bytes.fromhex(process.communicate(timeout=60)[0]) for process in processes}
    assert [one.name for one in folder.iterdir()] == ["catalog.key"]
    assert key.read_bytes() in keys
    if before is None:  # where a damaged one is replaced, one process may be left with a key that nobody has
        assert len(keys) == 1
