"""`mcp-workbench auth` where something is in its way: it ends, says why, and its exit status tells."""

# ruff: noqa: S106 -- none of the secrets is one

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from mcp_workbench.cli import login
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.servers.http.callback import listening
from mcp_workbench.servers.http.credential_stores import FileStore
from tests.cli.test_auth import ask_for, printed_address, started, two_lines
from tests.support.oauth import SECONDS, OAuthPeer, Person, person


@pytest.fixture
def somebody(peer: OAuthPeer, tmp_path: Path) -> Person:
    return person(tmp_path, peer.url)


def logged_in(somebody: Person) -> None:
    done = somebody.runs()
    assert (done.returncode, done.stderr) == (0, "")


# -- the wait for the browser


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_login_ends_at_once_and_leaves_nothing(
    peer: OAuthPeer, somebody: Person, number: signal.Signals
):
    with started(somebody, "--no-browser") as process:
        printed_address(process)
        process.send_signal(number)
        output, error = process.communicate(timeout=SECONDS)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGTERM)
    assert "Traceback" not in output + error
    assert not somebody.credentials.exists()
    assert not peer.events("issued")


async def test_a_connection_that_a_browser_opened_and_did_not_use_keeps_nobody_waiting():
    async with listening(0, DEFAULTS) as callback:
        port = int(callback.uri.rpartition(":")[2].partition("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        asking = asyncio.ensure_future(callback.answer("right"))
        await asyncio.sleep(0)
        assert b"200 OK" in await ask_for(callback.uri, b"GET /callback?code=c&state=right HTTP/1.1\r\n\r\n")
        await asking
    async with asyncio.timeout(3):
        assert await reader.read() == b""
    writer.close()


async def test_a_second_answer_changes_nothing_and_the_page_repeats_nothing():
    async with listening(0, DEFAULTS) as callback:
        asking = asyncio.ensure_future(callback.answer("right"))
        await asyncio.sleep(0)
        hostile = "%3Cscript%3Ealert(1)%3C/script%3E"
        first = f"GET /callback?code=first&state=right&iss={hostile} HTTP/1.1\r\nHost: <script>\r\n\r\n"
        second = f"GET /callback?error={hostile}&error_description={hostile}&state=right HTTP/1.1\r\n\r\n"
        pages = [await ask_for(callback.uri, said.encode()) for said in (first, second)]
        assert (await asking).code == "first"
    assert b"script" not in b"".join(pages)
    assert all(b"default-src 'none'" in page for page in pages)


def test_a_port_that_another_program_has_is_told(peer: OAuthPeer, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        problem, hint = two_lines(person(tmp_path, peer.url, oauth={"clientId": "x", "callbackPort": port}).runs())
    assert problem == f"can't listen on port {port} of this machine (Address already in use)"
    assert "callbackPort" in hint


def test_a_browser_that_is_no_command_is_one_that_can_not_be_opened(peer: OAuthPeer, somebody: Person):
    with started(somebody, env={"BROWSER": "'unbalanced %s", "PATH": "/nowhere"}) as process:
        assert printed_address(process).startswith(f"{peer.address}/authorize?")
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=SECONDS)
    assert (process.returncode, error) == (130, "")


@pytest.mark.parametrize("code", ["4/0AX4+abc=", "a&b=c", "100%25", "ä"])
async def test_a_code_is_taken_as_it_is_pasted(code: str, monkeypatch: pytest.MonkeyPatch):
    async def line() -> str:
        return f"  {code}\n"

    monkeypatch.setattr(login, "_line", line)
    answer = await login.read_pasted("our-state")
    assert answer.code == code
    assert answer.has_state("our-state")


# -- logging out


def test_a_login_can_be_given_up_also_where_headers_have_taken_its_place(peer: OAuthPeer, somebody: Person):
    logged_in(somebody)
    keyed = person(somebody.folder, peer.url, headers={"Authorization": "Bearer 0815-0815"})
    done = keyed.runs("--logout")
    assert (done.returncode, done.stdout) == (0, "dev/remote: logged out. It was revoked.\n")
    assert somebody.login(peer.url) is None


@pytest.mark.parametrize("kind", ["damaged", "link", "newer"])
def test_a_logout_that_can_not_be_done_is_no_success(peer: OAuthPeer, somebody: Person, kind: str):
    logged_in(somebody)
    kept = somebody.credentials
    if kind == "link":
        kept.rename(kept.with_name("elsewhere"))
        kept.symlink_to(kept.with_name("elsewhere"))
    else:
        kept.write_text('{"version":99}' if kind == "newer" else "{", encoding="utf-8")
    problem, _ = two_lines(somebody.runs("--logout"))
    assert problem.startswith(f"the login can't be removed from {kept}: ")
    assert not peer.events("revoked")


def test_a_logout_of_a_client_of_ones_own_leaves_the_logins_of_others(peer: OAuthPeer, somebody: Person):
    logged_in(somebody)
    port = free_port()
    back = [f"http://127.0.0.1:{port}/callback"]
    peer.register(client_id="mine", redirect_uris=back, scope="user", token_endpoint_auth_method="none")
    mine = person(somebody.folder, peer.url, oauth={"clientId": "mine", "callbackPort": port})
    logged_in(mine)
    done = mine.runs("--logout")
    assert done.returncode == 0
    assert done.stdout.startswith("dev/remote: logged out. ")
    assert somebody.login(peer.url) is not None
    again = mine.runs("--logout")
    assert (again.returncode, again.stdout) == (0, f"dev/remote: no login is stored in {mine.credentials}.\n")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


# -- the file of logins


async def test_a_file_in_a_folder_that_everyone_can_write_to_is_not_read(peer: OAuthPeer, somebody: Person):
    await somebody.logged_in()
    os.chmod(somebody.credentials.parent, 0o777)  # noqa: PTH101, S103 -- what it is about
    with pytest.raises(login.Unusable, match="everyone can write to its folder"):
        FileStore(str(somebody.credentials), Limits()).load(peer.url)


def test_what_a_killed_process_left_unfinished_goes_with_the_next_change(somebody: Person):
    logged_in(somebody)
    folder = somebody.credentials.parent
    left, others = folder / "credentials.4711.0a1b2c3d.new", folder / "credentials.mine.new"
    for path in (left, others):
        path.write_text("a token", encoding="utf-8")
    assert somebody.runs("--logout").returncode == 0
    assert not left.exists()
    assert others.exists()


def test_the_page_does_not_say_more_than_is_known(somebody: Person):
    logged_in(somebody)
    [seen] = somebody.seen(1)
    assert "You are logged in" not in seen["page"]
    assert "Return to the terminal to see whether you are logged in" in seen["page"]


def test_a_server_that_can_not_be_asked_is_no_success(peer: OAuthPeer, tmp_path: Path):
    problem, hint = two_lines(person(tmp_path, f"{peer.address}/nothing/here").runs())
    assert problem == "the server does not say whether it requires a login: it refuses the requests (HTTP 404)"
    assert hint == "Check its url."
