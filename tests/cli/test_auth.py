"""`mcp-workbench auth`: a person logs in once, in a browser, and the workbench serves with that from then on."""

# ruff: noqa: S105, S106 -- files are what this is about; none of the secrets is one

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.cli import login
from mcp_workbench.command_errors import LoginFailed
from mcp_workbench.config.model import NO_STORE, CatalogConfig, Config, Endpoint
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.servers.http.callback import LoginRedirect, listening
from mcp_workbench.servers.http.credential_stores import FileStore
from mcp_workbench.servers.http.credentials import Credentials
from tests.support import canary, programs
from tests.support.commands import invoke
from tests.support.configs import rogue, write_config
from tests.support.oauth import SECONDS, OAuthPeer, Person, aged, come_back, person, remote
from tests.support.procs import wait_until
from tests.support.wire import error_of, serving, text_of

COMMAND = "mcp-workbench auth dev remote"


@pytest.fixture
def somebody(peer: OAuthPeer, tmp_path: Path) -> Person:
    return person(tmp_path, peer.url)


def left_behind(somebody: Person, *outputs: str) -> dict[str, Any]:
    """All that was said, and every file but the one that is for secrets."""
    found = canary.files_below(somebody.folder)
    own = ("credentials", "browser.log")
    kept = {name: content for name, content in found.items() if not name.endswith(own)}
    return kept | {f"output {number}": output for number, output in enumerate(outputs)}


def two_lines(done: subprocess.CompletedProcess[str]) -> tuple[str, str]:
    """What is wrong and what to do, of a command that failed and said nothing else."""
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) in (1, 2), done.stderr
    assert lines[0].startswith("error: ")
    assert all(line.startswith("hint: ") for line in lines[1:])
    return lines[0].removeprefix("error: "), "".join(lines[1:]).removeprefix("hint: ")


# -- logging in


def test_a_login_in_the_browser_is_told_and_kept(peer: OAuthPeer, somebody: Person):
    done = somebody.auth()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"dev/remote requires a login at {peer.address}.",
        "Opening it in your browser.",
        f"dev/remote: logged in (user). The login is stored in {somebody.credentials}.",
    ]
    [seen] = somebody.seen(1)
    assert seen["status"] == 200
    assert "whether you are logged in" in seen["page"]
    kept = somebody.login(peer.url)
    assert kept is not None
    assert kept.access_token == peer.events("issued")[0]["secret"]
    assert somebody.credentials.stat().st_mode & 0o777 == 0o600
    assert not peer.canaries().found_in(left_behind(somebody, done.stdout, done.stderr, seen["page"]))


async def test_serving_needs_a_login_says_so_and_works_after_it_without_a_restart(peer: OAuthPeer, somebody: Person):
    async with serving(somebody.config, "--log-level", "debug", env=somebody.env) as wire:
        opened = await wire.call("open_toolbox", {"toolbox": "dev"})
        assert f"- remote: the server needs a login\nRun in a terminal: {COMMAND}" in error_of(opened)
        for _ in range(8):  # more than a server that fails may be asked without a rest
            result = await wire.use("dev", "remote", "whoami", {})
            assert error_of(result).splitlines() == [
                "Failed to connect to server 'remote' in toolbox 'dev': the server needs a login",
                f"Run in a terminal: {COMMAND}",
            ]
            assert result["_meta"]["mcp-workbench/error"]["code"] == "needs_auth"
        assert not somebody.seen()
        await somebody.logged_in()
        assert '"scopes": ["user"]' in text_of(await wire.use("dev", "remote", "whoami", {}))
        peer.expire()
        assert '"scopes": ["user"]' in text_of(await wire.use("dev", "remote", "whoami", {}))
        peer.expire()
        peer.control(refreshes="refuse")
        result = await wire.use("dev", "remote", "whoami", {})
        assert "failed: the login has ended, and the server needs a new one" in error_of(result)
        assert result["_meta"]["mcp-workbench/error"]["code"] == "needs_auth"
        peer.control(refreshes="rotate")
        await somebody.logged_in()
        assert '"scopes": ["user"]' in text_of(await wire.use("dev", "remote", "whoami", {}))
        await wire.hang_up()
    assert len(somebody.seen(2)) == 2
    said = b"".join(wire.lines).decode()
    assert not peer.canaries().found_in(left_behind(somebody, wire.stderr, said))


async def test_an_open_tells_of_a_login_beside_the_tools_of_other_servers(peer: OAuthPeer, tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"remote": {"url": peer.url}, "local": rogue()}})
    async with serving(config) as wire:
        opened = await wire.open("dev")
    assert opened["servers_failed"] == [
        {"server": "remote", "error": f"the server needs a login. Run in a terminal: {COMMAND}"}
    ]
    assert opened["tools"]


async def test_a_restart_serves_without_a_login_and_renews_what_has_ended(peer: OAuthPeer, somebody: Person):
    peer.control(lifetime=2)
    await somebody.logged_in()
    for _ in range(2):
        async with serving(somebody.config, env=somebody.env) as wire:
            assert text_of(await wire.use("dev", "remote", "whoami", {"n": 1}))
            ends = time.monotonic() + 2.1
            while time.monotonic() < ends:  # tokens end meanwhile, and no call notices
                assert text_of(await wire.use("dev", "remote", "whoami", {}))
                await asyncio.sleep(0.02)
    used = [event["token"] for event in peer.events("refresh")]
    assert len(used) >= 2
    assert len(set(used)) == len(used)
    assert len(somebody.seen(1)) == 1


def test_an_address_is_printed_where_no_browser_is_wanted_and_its_redirect_is_taken(peer: OAuthPeer, somebody: Person):
    with started(somebody, "--no-browser") as process:
        address = printed_address(process)
        assert address.startswith(f"{peer.address}/authorize?")
        subprocess.run(
            [sys.executable, "tests/peers/browser.py", str(somebody.folder / "browser.log"), address], check=True
        )
        output, error = process.communicate(timeout=SECONDS)
    assert (process.returncode, error) == (0, "")
    assert "paste" not in output
    assert somebody.login(peer.url)


def test_where_no_browser_can_be_opened_the_address_is_printed(peer: OAuthPeer, somebody: Person):
    with started(somebody, env={"BROWSER": "/no/such/browser", "PATH": "/nowhere"}) as process:
        address = printed_address(process)
        assert address.startswith(f"{peer.address}/authorize?")
        process.kill()
        process.communicate()


def test_at_a_terminal_the_address_that_a_browser_ended_at_can_be_pasted(peer: OAuthPeer, somebody: Person):
    ours, theirs = pty.openpty()
    with started(somebody, "--no-browser", stdin=theirs) as process:
        address = printed_address(process)
        os.write(ours, f"{ended_at(address)}\n".encode())
        output, error = process.communicate(timeout=SECONDS)
    os.close(ours)
    os.close(theirs)
    assert (process.returncode, error) == (0, "")
    assert "That address belongs to another login" not in output
    assert somebody.login(peer.url)


@pytest.mark.parametrize("paste", ["code", "another first"])
async def test_the_code_alone_can_be_pasted_and_what_belongs_to_another_login_can_not(
    peer: OAuthPeer, tmp_path: Path, paste: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    output = ""

    def address() -> str:
        nonlocal output
        output += capsys.readouterr().out
        return next((line for line in output.splitlines() if line.startswith("http")), "")

    ours, theirs = pty.openpty()
    with os.fdopen(theirs, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        place = place_of(peer, tmp_path, DEFAULTS)
        waiting = asyncio.ensure_future(login.log_in(place, opens=False))
        await wait_until(address, what="the address")
        whole = await asyncio.to_thread(ended_at, address())
        state, code = re.findall(r"(?:state|code)=([^&]+)", whole)[::-1]
        if paste == "another first":
            os.write(ours, f"\n{whole.replace(state, 'forged')}\n".encode())
        os.write(ours, f"{code if paste == 'code' else whole}\n".encode())
        async with asyncio.timeout(SECONDS):
            await waiting
    os.close(ours)
    output += capsys.readouterr().out
    assert "paste the address that it ends at" in output
    assert ("That address belongs to another login" in output) == (paste == "another first")
    assert await place.credentials.find(peer.url)


def ended_at(address: str) -> str:
    """Where a browser ends that can't come back."""
    values = come_back(address)
    return f"http://127.0.0.1:1/callback?code={values['code'][0]}&state={values['state'][0]}"


def place_of(peer: OAuthPeer, folder: Path, limits: Limits) -> login.LoginTarget:
    """The server `remote`, whose login is stored in the folder."""
    server = remote(peer.url)
    assert isinstance(server.target, Endpoint)
    path = str(folder / "data" / "credentials")
    credentials = Credentials(FileStore(path, limits), path, limits)
    config = Config(file="/etc/config.json", toolboxes={}, catalog=CatalogConfig(path=NO_STORE))
    return login.LoginTarget(server, server.target, credentials, limits, config)


@contextlib.contextmanager
def started(
    somebody: Person, *arguments: str, stdin: int | None = None, env: dict[str, str] | None = None
) -> Iterator[programs.Running]:
    command = somebody.command("dev", "remote", *arguments)
    with programs.running(command, env=somebody.env | (env or {}), stdin=stdin) as process:
        yield process


def printed_address(process: programs.Running) -> str:
    """The address on a line of its own."""
    for line in process.stdout:
        if line.startswith("http"):
            return line.strip()
    pytest.fail("no address was printed")


def test_a_configured_client_comes_back_to_its_own_port(peer: OAuthPeer, tmp_path: Path):
    port = free_port()
    secret = "the-secret-of-my-client"
    peer.register(
        client_id="mine",
        client_secret=secret,
        token_endpoint_auth_method="client_secret_basic",
        redirect_uris=[f"http://127.0.0.1:{port}/callback"],
        scope="user more",
    )
    oauth = {"clientId": "mine", "clientSecret": "${CLIENT_SECRET}", "scopes": ["user", "more"], "callbackPort": port}
    somebody = person(tmp_path, peer.url, oauth=oauth)
    done = somebody.runs(env={"CLIENT_SECRET": secret})
    assert (done.returncode, done.stderr) == (0, "")
    assert "logged in (user more)" in done.stdout
    assert not peer.events("registered")
    canaries = peer.canaries()
    canaries.plant("the configuration", secret)
    assert not canaries.found_in(left_behind(somebody, done.stdout, done.stderr))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_a_server_that_wants_no_login_is_told(peer: OAuthPeer, tmp_path: Path):
    done = person(tmp_path, f"{peer.address}/open").runs()
    assert (done.returncode, done.stdout) == (0, "dev/remote needs no login.\n")


# -- failing


def test_a_login_that_is_denied_is_told_without_what_could_change_a_terminal(peer: OAuthPeer, somebody: Person):
    peer.control(answer="deny")
    problem, _ = two_lines(somebody.runs())
    assert problem == r"the login was not granted: access_denied: not\x1b[31m today"
    assert "was not granted" in somebody.seen(1)[0]["page"]
    assert not somebody.credentials.exists()


def test_a_server_that_points_elsewhere_is_refused_before_a_browser_is_opened(peer: OAuthPeer, tmp_path: Path):
    somebody = person(tmp_path, f"{peer.address}/elsewhere/mcp")
    problem, _ = two_lines(somebody.runs())
    assert "Protected resource https://other.example/mcp does not match" in problem
    assert not somebody.seen()


@pytest.mark.parametrize("answer", ["forge", "wander"])
async def test_nothing_but_our_own_state_ends_the_wait_which_is_bounded(
    peer: OAuthPeer, tmp_path: Path, answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    peer.control(answer=answer)

    async def opened(address: str) -> bool:
        return await asyncio.to_thread(Person(tmp_path, tmp_path).browse, address)

    monkeypatch.setattr(login, "open_browser", opened)
    with pytest.raises(LoginFailed, match="nobody logged in within 3 s") as caught:
        await login.log_in(place_of(peer, tmp_path, Limits(login_wait_seconds=3)), opens=True)
    assert caught.value.hint == "Run the command again."
    [seen] = Person(tmp_path, tmp_path).seen(1)
    assert seen["status"] == (400 if answer == "forge" else 404)
    assert not (tmp_path / "data" / "credentials").exists()
    assert not peer.canaries().found_in({"output": capsys.readouterr().out, "page": seen["page"]})


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("dev", "local"), 1, "'local' is a local program and has no login"),
        (("dev", "keyed"), 1, "'keyed' has an Authorization header and needs no login"),
        (("dev", "plain"), 1, "anyone on the network could read a login over http"),
        (("dev", "gone"), 1, "http://127.0.0.1:9 could not be reached"),
        (("dev", "unset"), 2, "${NOT_SET} is not set"),
        (("dev", "remot"), 2, "Server 'remot' not found in toolbox 'dev'"),
        (("dev", ""), 2, "empty"),
        (("dev",), 2, "Missing argument 'SERVER'"),
    ],
)
def test_a_server_that_can_not_be_logged_in_to_is_told(
    peer: OAuthPeer, tmp_path: Path, arguments: tuple[str, ...], status: int, text: str
):
    servers: dict[str, Any] = {
        "local": rogue(),
        "keyed": {"url": peer.url, "headers": {"Authorization": "Bearer 0815-0815"}},
        "plain": {"url": "http://mcp.example/mcp"},
        "gone": {"url": "http://127.0.0.1:9/mcp"},
        "unset": {"url": "https://mcp.example/${NOT_SET}"},
        "remote": {"url": peer.url},
    }
    config = write_config(tmp_path, {"dev": servers})
    done = invoke("auth", "--config", str(config), *arguments)
    assert done.exit_code == status, done.output
    assert text in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("kind", ["link", "everyone"])
def test_a_login_that_can_not_be_kept_is_told(peer: OAuthPeer, somebody: Person, kind: str):
    folder = somebody.credentials.parent
    folder.mkdir(parents=True, mode=0o700)
    env = {}
    if kind == "link":
        somebody.credentials.symlink_to("/etc/passwd")
    else:
        folder = somebody.folder / "everyone"
        folder.mkdir()
        folder.chmod(0o777)
        env = {"WORKBENCH_CREDENTIALS": str(folder / "logins")}
    done = somebody.runs(env=env)
    problem, hint = two_lines(done)
    assert "the login can't be stored in" in problem
    assert "$WORKBENCH_CREDENTIALS" in hint
    assert not peer.canaries().found_in(left_behind(somebody, done.stdout, done.stderr))


def test_a_damaged_file_of_logins_is_told_and_does_not_prevent_a_login(peer: OAuthPeer, somebody: Person):
    somebody.credentials.parent.mkdir(parents=True, mode=0o700)
    somebody.credentials.write_text("{", encoding="utf-8")
    done = somebody.runs()
    assert done.returncode == 0
    assert "warning the stored logins are damaged and were set aside" in done.stderr
    assert somebody.login(peer.url)


# -- logging out


def test_a_logout_forgets_the_login_and_has_it_revoked(peer: OAuthPeer, somebody: Person):
    assert somebody.runs().returncode == 0
    kept = somebody.login(peer.url)
    done = somebody.runs("--logout")
    assert (done.returncode, done.stdout) == (0, "dev/remote: logged out. It was revoked.\n")
    assert kept is not None
    assert {event["token"] for event in peer.events("revoked")} == {kept.access_token, kept.refresh_token}
    assert not peer.canaries().found_in(left_behind(somebody, done.stdout, done.stderr))
    assert somebody.login(peer.url) is None
    assert kept.access_token not in somebody.credentials.read_text(encoding="utf-8")
    again = somebody.runs("--logout")
    assert again.returncode == 0
    assert again.stdout == f"dev/remote: no login is stored in {somebody.credentials}.\n"


def test_a_logout_forgets_also_where_nobody_can_be_asked_to_revoke(peer: OAuthPeer, somebody: Person):
    assert somebody.runs().returncode == 0
    kept = somebody.login(peer.url)
    assert kept is not None
    gone = f"http://127.0.0.1:{free_port()}/revoke"
    FileStore(str(somebody.credentials), DEFAULTS).save(aged(kept, revocation_endpoint=gone))
    done = somebody.runs("--logout")
    assert done.returncode == 0
    assert "could not be reached" in done.stdout
    assert done.stdout.startswith("dev/remote: logged out. It could not be revoked and stays valid until it expires: ")
    assert somebody.login(peer.url) is None


@pytest.mark.parametrize("first", [("--logout",), ()], ids=["logout", "login"])
async def test_what_a_server_listed_to_one_account_is_not_shown_to_the_next(somebody: Person, first: tuple[str, ...]):
    async def opened() -> dict[str, Any]:
        async with serving(somebody.config, env=somebody.env) as wire:
            return await wire.open("dev")

    await somebody.logged_in()
    assert "stored" not in await opened()
    assert (await opened())["stored"] is True
    assert (await asyncio.to_thread(somebody.runs, *first)).returncode == 0
    await somebody.logged_in()
    assert "stored" not in await opened()


# -- parts


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "--help",
        "https://a.example/$(touch x) y",
        'https://a.example/"; touch x; "',
        "https://a.example/'|calc",
        "https://a.example/\nhttps://b.example/",
        "https://a.example/`id`",
        "https://a.example/\\\\share",
        "vscode://x",
        "",
    ],
)
async def test_nothing_but_a_plain_address_is_given_to_a_browser(address: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("webbrowser.open", lambda *_: pytest.fail("it was opened"))
    with pytest.raises(LoginFailed):
        await login.open_browser(address)


async def ask_for(uri: str, request: bytes) -> bytes:
    host, port = re.findall(r"//([^:/]+):(\d+)", uri)[0]
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        await writer.drain()
        with contextlib.suppress(ConnectionResetError):
            return await reader.read()
        return b""
    finally:
        writer.close()


async def test_whoever_else_comes_to_the_port_is_answered_and_forgotten():
    limits = Limits(login_request_bytes=1000, login_browser_seconds=0.2)
    async with listening(0, limits) as callback:
        assert callback.uri.startswith("http://127.0.0.1:")
        waiting = asyncio.ensure_future(callback.answer("right"))
        await asyncio.sleep(0)
        for request, expected in [
            (b"GET /favicon.ico HTTP/1.1\r\n\r\n", b"404"),
            (b"POST /callback?code=c&state=right HTTP/1.1\r\n\r\n", b"405"),
            (b"GET /callback?code=c HTTP/1.1\r\n\r\n", b"400"),
            (b"GET /callback?code=c&state=wrong HTTP/1.1\r\n\r\n", b"400"),
            (b"GET /callback?code=c&state=right&state=right HTTP/1.1\r\n\r\n", b"400"),
            (b"\x00\xff\r\n\r\n", b""),
            (b"GET /" + bytes(5000), b""),
            (b"GET /callback", b""),
        ]:
            answer = await ask_for(callback.uri, request)
            assert answer.startswith(b"HTTP/1.1 " + expected) if expected else answer == b"", request
        assert not waiting.done()
        page = await ask_for(callback.uri, b"GET /callback?code=the-code&state=right HTTP/1.1\r\n\r\n")
        assert b"200 OK" in page
        assert b"the-code" not in page
        assert (await waiting).code == "the-code"


def test_an_answer_shows_nothing_of_itself():
    assert "the-code" not in repr(LoginRedirect("code=the-code&state=s"))
    with pytest.raises(LoginFailed, match="without a code"):
        LoginRedirect("state=s").check()
