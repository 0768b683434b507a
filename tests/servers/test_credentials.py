"""Logins on disk: private, whole, shared by processes, and never a reason to fail."""

# ruff: noqa: ASYNC240, S106 -- files are what this is about; none of the secrets is one

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import logger
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.servers.http import credential_stores
from mcp_workbench.servers.http import credentials as module
from mcp_workbench.servers.http.credential_stores import FileStore, KeyringStore
from mcp_workbench.servers.http.credentials import (
    Busy,
    Credentials,
    Login,
    Unusable,
    credentials_path,
    open_credentials,
)
from mcp_workbench.storage import secure_files
from tests.support.oauth import aged
from tests.support.wire import environment

URL = "https://mcp.example/mcp"


def login(number: int = 1, url: str = URL) -> Login:
    return Login(
        url=url,
        issuer="https://auth.example",
        token_endpoint="https://auth.example/token",
        client_id="client",
        client_secret=f"client-secret-{number}",
        access_token=f"access-token-{number}",
        refresh_token=f"refresh-token-{number}",
    )


@pytest.fixture(autouse=True)
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What people were told, with the reason; every test begins as a new process does."""
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(secure_files, "warned", set())
    monkeypatch.setattr(logger, "warning", lambda message, **values: told.append((message, str(values["reason"]))))
    return told


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "mcp-workbench" / "credentials"


def credentials(path: Path, **limits: Any) -> Credentials:
    chosen = Limits(**limits)
    return Credentials(FileStore(str(path), chosen), str(path), chosen)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "/h"}, "/h/.local/share/mcp-workbench/credentials"),
        ({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "/x/mcp-workbench/credentials"),
        ({"HOME": "/h", "XDG_DATA_HOME": "x"}, "/h/.local/share/mcp-workbench/credentials"),
        ({"HOME": "/h", "WORKBENCH_CREDENTIALS": "/y/z"}, "/y/z"),
        ({"HOME": "/h", "WORKBENCH_CREDENTIALS": "keyring"}, "/h/.local/share/mcp-workbench/credentials"),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="platform: other folders")
def test_the_file_is_in_the_users_data_folder_unless_another_is_named(environ: dict[str, str], expected: str):
    assert credentials_path(environ) == expected


async def test_a_login_that_was_saved_is_found_by_another_process_and_by_nobody_else(path: Path):
    await credentials(path).save(login(1))
    await credentials(path).save(login(2, "https://other.example/mcp"))
    assert await credentials(path).find(URL) == login(1)
    assert await credentials(path).find("https://mcp.example/mcp/") is None
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)


async def test_the_file_is_private_whatever_the_umask(path: Path):
    before = os.umask(0)
    try:
        await credentials(path).save(login())
    finally:
        os.umask(before)
    assert all(mode(one) == 0o600 for one in path.parent.iterdir())


async def test_what_another_process_saved_or_removed_is_seen_at_once(path: Path):
    mine, other = credentials(path), credentials(path)
    assert await mine.find(URL) is None
    await other.save(login(1))
    assert await mine.find(URL) == login(1)
    await other.save(login(2))
    assert await mine.find(URL) == login(2)
    await other.remove(URL)
    assert await mine.find(URL) is None


SAVES = """
import sys
from mcp_workbench.servers.http.credentials import Login
from mcp_workbench.servers.http.credential_stores import FileStore
from mcp_workbench.limits import DEFAULTS

store = FileStore(sys.argv[1], DEFAULTS)
first = int(sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
fields = dict(issuer="https://auth.example", token_endpoint="https://auth.example/token", client_id="client")
for number in range(first, first + 20):
    url = f"https://{number}.example/"
    store.save(Login(url=url, access_token=f"access-token-{number}", refresh_token=f"refresh-token-{number}", **fields))
"""


def test_no_login_is_lost_when_processes_save_at_once(path: Path):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SAVES, str(path), str(100 * number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(path.parent),
        )
        for number in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=30)
        assert process.returncode == 0
    store = FileStore(str(path), DEFAULTS)
    kept = [store.load(f"https://{100 * number + one}.example/") for number in range(3) for one in range(20)]
    assert all(kept)
    assert not list(path.parent.glob("*.new"))


async def test_a_file_that_others_could_read_is_closed_to_them_and_told(path: Path, warnings: list[tuple[str, str]]):
    await credentials(path).save(login())
    path.chmod(0o644)
    assert await credentials(path).find(URL) == login()
    assert mode(path) == 0o600
    assert [message for message, _ in warnings] == ["others could read the stored logins, and no longer can"]


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b'{"version":1,"logins":[{}]}', b'{"version":"1"}'])
async def test_a_damaged_file_is_told_and_set_aside_by_the_next_login(
    path: Path, content: bytes, warnings: list[tuple[str, str]]
):
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_bytes(content)
    path.chmod(0o600)
    some = credentials(path)
    assert await some.find(URL) is None
    assert await some.find(URL) is None
    assert warnings == [("the stored logins can't be used", "it is damaged")]
    await some.save(login())
    assert await some.find(URL) == login()
    assert path.with_name("credentials.damaged").read_bytes() == content


async def test_a_file_of_a_newer_version_is_left_alone(path: Path, warnings: list[tuple[str, str]]):
    path.parent.mkdir(parents=True, mode=0o700)
    content = json.dumps({"version": 2, "logins": {"a": 1}})
    path.write_text(content, encoding="utf-8")
    some = credentials(path)
    assert await some.find(URL) is None
    with pytest.raises(Unusable, match="newer version"):
        await some.save(login())
    assert path.read_text(encoding="utf-8") == content
    assert "newer version" in warnings[-1][1]


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
async def test_what_is_no_file_of_ours_is_not_used(path: Path, kind: str, warnings: list[tuple[str, str]]):
    path.parent.mkdir(parents=True, mode=0o700)
    elsewhere = path.parent / "elsewhere"
    if kind == "link":
        FileStore(str(elsewhere), DEFAULTS).save(login())
        path.symlink_to(elsewhere)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    some = credentials(path)
    assert await some.find(URL) is None
    assert [message for message, _ in warnings] == ["the stored logins can't be used"]
    with pytest.raises(Unusable):
        await some.save(login(2))


async def test_a_folder_that_everyone_can_write_to_is_not_used(tmp_path: Path):
    folder = tmp_path / "everyone"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(Unusable, match="everyone can write"):
        await credentials(folder / "credentials").save(login())


async def test_a_file_that_is_too_large_is_not_read(
    path: Path, warnings: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
):
    await credentials(path).save(login())
    monkeypatch.setattr(credential_stores, "LOGIN_STORE_BYTES", 100)
    assert await credentials(path).find(URL) is None
    assert "too large" in warnings[0][1]


@pytest.mark.skipif(os.geteuid() == 0, reason="platform: nothing is read-only to root")
async def test_a_renewed_login_that_can_not_be_stored_is_kept_in_memory(path: Path, warnings: list[tuple[str, str]]):
    await credentials(path).save(login(1))
    path.parent.chmod(0o500)
    try:
        some = credentials(path)
        await some.renew(login(1), login(2))
        assert await some.find(URL) == login(2)
        async with some.locked(URL):
            pass
        assert len(warnings) == 2
    finally:
        path.parent.chmod(0o700)


async def test_what_could_not_be_stored_counts_until_another_process_stores_a_login(
    path: Path, monkeypatch: pytest.MonkeyPatch, warnings: list[tuple[str, str]]
):
    some = credentials(path)
    await some.save(login(1))
    with monkeypatch.context() as broken:
        broken.setattr(secure_files, "replace", refuse)
        await some.renew(login(1), login(2))
        assert await some.find(URL) == login(2)
        await some.renew(login(2), login(22))
    assert "can't be stored" in warnings[0][0]
    assert await some.find(URL) == login(22)
    await credentials(path).save(login(3))
    assert await some.find(URL) == login(3)


def refuse(*_: object) -> None:
    raise OSError(30, "Read-only file system")


async def test_an_unwritten_change_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch):
    some = credentials(path)
    await some.save(login(1))
    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", refuse)
        with pytest.raises(Unusable, match="Read-only"):
            await some.save(login(2))
    assert await some.find(URL) == login(1)
    assert not list(path.parent.glob("*.new"))


async def test_one_at_a_time_renews_a_login_and_others_another(path: Path):
    first, second = credentials(path), credentials(path, login_lock_seconds=0.05)
    async with first.locked(URL), second.locked("https://other.example/"):
        with pytest.raises(Busy):
            async with second.locked(URL):
                pass
    async with second.locked(URL):
        pass


async def test_who_waits_for_a_renewal_goes_on_when_it_is_done(path: Path):
    order: list[str] = []
    entered = asyncio.Event()

    async def waits() -> None:
        await entered.wait()
        async with credentials(path).locked(URL):
            order.append("second")

    task = asyncio.create_task(waits())
    async with credentials(path).locked(URL):
        entered.set()
        for _ in range(10):
            await asyncio.sleep(0)
        order.append("first")
    await task
    assert order == ["first", "second"]


async def test_secrets_are_hidden_from_the_log_when_they_are_loaded(path: Path):
    secret = login(77)
    FileStore(str(path), DEFAULTS).save(secret)
    log = logger.Log()
    before, logger.log.redact = logger.log.redact, log.redact
    try:
        await credentials(path).find(URL)
        assert logger.redacted(" ".join(secret.secrets)) == "*** *** ***"
    finally:
        logger.log.redact = before
    assert "77" not in repr(secret)


async def test_tokens_that_ended_long_ago_are_forgotten_and_the_later_ones_are_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "LOGIN_TOKENS_HIDDEN", 3)
    before, logger.log.redact = logger.log.redact, logger.Log().redact
    try:
        some = credentials(path)
        for number in range(100, 110):
            await some.save(login(number, URL) if number % 2 else aged(login(number), client_secret="one-for-all"))
        hidden = [number for number in range(100, 110) if logger.redacted(f"access-token-{number}") == "***"]
        assert hidden == [106, 107, 108, 109]
        assert logger.redacted("refresh-token-109 client-secret-109") == "*** ***"
    finally:
        logger.log.redact = before


# -- the keyring


class FakeKeyring(types.ModuleType):
    def __init__(self) -> None:
        super().__init__("keyring")
        self.entries: dict[tuple[str, str], str] = {}
        self.error: Exception | None = None
        self.asked = 0

    def get_password(self, service: str, name: str) -> str | None:
        self.asked += 1
        if self.error:
            raise self.error
        return self.entries.get((service, name))

    def set_password(self, service: str, name: str, value: str) -> None:
        if self.error:
            raise self.error
        self.entries[service, name] = value

    def delete_password(self, service: str, name: str) -> None:
        del self.entries[service, name]


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> FakeKeyring:
    fake = FakeKeyring()
    monkeypatch.setitem(sys.modules, "keyring", fake)
    return fake


async def test_logins_are_in_the_keyring_where_that_is_asked_for(tmp_path: Path, keyring: FakeKeyring):
    environ = {"HOME": str(tmp_path), "WORKBENCH_CREDENTIALS": "keyring"}
    some, other = (open_credentials(environ, DEFAULTS) for _ in range(2))
    await some.save(login())
    assert list(keyring.entries) == [("mcp-workbench", URL)]
    assert await other.find(URL) == login()
    asked = keyring.asked
    assert await other.find(URL) == login()
    assert keyring.asked == asked
    await some.save(login(2))
    assert await other.find(URL, fresh=True) == login(2)
    await other.remove(URL)
    assert not keyring.entries
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url":"x"}'])
async def test_a_damaged_entry_of_the_keyring_is_told(
    tmp_path: Path, keyring: FakeKeyring, text: str, warnings: list[tuple[str, str]]
):
    keyring.entries["mcp-workbench", URL] = text
    some = Credentials(KeyringStore(), str(tmp_path / "x"), DEFAULTS, name="the keyring")
    assert await some.find(URL) is None
    assert warnings == [("the stored logins can't be used", "its entry in the keyring is damaged")]


async def test_a_keyring_that_fails_is_told_and_shows_no_secret(
    tmp_path: Path, keyring: FakeKeyring, warnings: list[tuple[str, str]]
):
    keyring.error = RuntimeError("locked with access-token-1")
    some = Credentials(KeyringStore(), str(tmp_path / "x"), DEFAULTS, name="the keyring")
    assert await some.find(URL) is None
    with pytest.raises(Unusable, match=r"^the keyring can't be used \(RuntimeError\)$"):
        await some.save(login())
    assert "access-token" not in str(warnings)


async def test_a_keyring_that_is_not_installed_is_no_reason_to_write_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "keyring", None)
    some = open_credentials({"HOME": str(tmp_path), "WORKBENCH_CREDENTIALS": "keyring"}, DEFAULTS)
    with pytest.raises(Unusable, match="not installed"):
        await some.save(login())
    assert not list(tmp_path.iterdir())
