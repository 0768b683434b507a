"""Logins of remote servers: made once, used and renewed while serving, and given to nobody else."""

# ruff: noqa: FBT001, S105, S106 -- files are what this is about; none of the secrets is one

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_workbench import logger
from mcp_workbench.command_errors import LoginFailed
from mcp_workbench.config.model import Endpoint, Launch, OAuthClient, ServerConfig
from mcp_workbench.errors import NeedsLogin, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.health import Health
from mcp_workbench.servers.http import oauth
from mcp_workbench.servers.http.authority import check_address
from mcp_workbench.servers.http.credential_stores import FileStore
from mcp_workbench.servers.http.credentials import Credentials, Login
from mcp_workbench.servers.http.login import StoredLogin, auth_for, is_asked_to_log_in
from mcp_workbench.servers.supervisor import Supervisor
from mcp_workbench.wire.caller import LIBRARY
from tests.servers.real import Recorded
from tests.support.memory import MemoryChannel, MemoryServer
from tests.support.oauth import OAuthPeer, aged, come_back, granted, log_in, remote
from tests.support.procs import poll_until
from tests.support.wire import environment

LIST = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""To read the certificates of the world for each client would take longer than all that it does."""
ACCEPTED = 400
"""What the SDK's server says to a request without a session, once it knows who makes it."""


class Place:
    """A store, and clients that use it as processes would."""

    def __init__(self, path: Path, server: ServerConfig, limits: Limits) -> None:
        self.path = path
        self.server = server
        self.limits = limits

    @property
    def credentials(self) -> Credentials:
        return Credentials(FileStore(str(self.path), self.limits), str(self.path), self.limits)

    @contextlib.asynccontextmanager
    async def client(self, **options: Any) -> AsyncIterator[Callable[[], Any]]:
        """What makes one request as `serve` would."""
        endpoint = self.server.target
        assert isinstance(endpoint, Endpoint)
        auth = StoredLogin(self.server, endpoint, self.credentials, self.limits)
        async with httpx2.AsyncClient(auth=auth, trust_env=False, verify=NO_TLS, **options) as client:
            yield lambda: client.post(endpoint.url, content=LIST, headers=HEADERS)

    async def kept(self) -> Login | None:
        assert isinstance(self.server.target, Endpoint)
        return await self.credentials.find(self.server.target.url)

    async def logged_in(self, **changes: Any) -> Login:
        login = await log_in(self.server)
        assert login is not None
        login = aged(login, **changes)
        await self.credentials.save(login)
        return login


def place(folder: Path, url: str, oauth: dict[str, Any] | None = None, **limits: Any) -> Place:
    return Place(folder / "mcp-workbench" / "credentials", remote(url, **oauth or {}), Limits(**limits))


async def status(ask: Callable[[], Any]) -> int:
    return (await ask()).status_code


# -- logging in


async def test_a_login_finds_registers_and_proves_everything_and_keeps_what_renewing_needs(peer: OAuthPeer):
    login = await log_in(remote(peer.url))
    assert login is not None
    assert (login.url, login.resource, login.scope) == (peer.url, peer.url, "user")
    assert login.issuer.rstrip("/") == peer.address
    assert login.token_endpoint == f"{peer.address}/token"
    assert login.revocation_endpoint == f"{peer.address}/revoke"
    assert [event["name"] for event in peer.events("registered")] == ["MCP Workbench"]
    [asked] = peer.events("authorize")
    assert (asked["resource"], asked["scopes"]) == (peer.url, ["user"])


@pytest.mark.parametrize("method", ["none", "client_secret_basic"])
async def test_a_configured_client_and_its_scopes_are_used_instead_of_a_new_one(peer: OAuthPeer, method: str):
    secret = "" if method == "none" else "secret-of-a-client & more"
    peer.register(
        client_id="mine",
        client_secret=secret,
        token_endpoint_auth_method=method,
        redirect_uris=["http://127.0.0.1:1/callback"],
        scope="user more",
    )
    login = await log_in(remote(peer.url, client_id="mine", client_secret=secret, scopes=("user", "more")))
    assert login is not None
    assert (login.client_id, login.client_secret, login.client_auth) == ("mine", secret, method)
    assert login.scope == "user more"
    assert not peer.events("registered")


async def test_a_new_client_is_registered_for_the_configured_scopes(peer: OAuthPeer):
    login = await log_in(remote(peer.url, scopes=("more", "user")))
    assert login is not None
    assert login.scope == "more user"


async def test_a_server_that_wants_no_login_needs_none(peer: OAuthPeer):
    assert await log_in(remote(f"{peer.address}/open")) is None


@pytest.mark.parametrize("known", ["discover", "initialize"])
async def test_a_server_of_one_era_is_asked_for_its_login_as_its_era_has_it(peer: OAuthPeer, known: str):
    """It says that it wants one only to a request that it knows; here it then points to a bad place."""
    with pytest.raises(LoginFailed, match="does not match"):
        await log_in(remote(f"{peer.address}/{known}/mcp"))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("elsewhere", r"Protected resource https://other\.example/mcp does not match"),
        ("insecure", r"sends logins to http://auth\.example, where anyone on the way can read them"),
        ("page", r"sends logins to http://auth\.example, where anyone on the way can read them"),
        ("metadata", r"https://169\.254\.169\.254 could not be reached"),
    ],
)
async def test_a_server_that_points_to_another_resource_or_to_a_bad_place_is_refused(
    peer: OAuthPeer, name: str, why: str
):
    async def never(address: str, _: str) -> oauth.AuthorizationResponse:
        pytest.fail(f"{address} was opened")

    with pytest.raises(LoginFailed, match=why):
        await log_in(remote(f"{peer.address}/{name}/mcp"), never)
    assert not peer.events("authorize")


@pytest.mark.parametrize(
    ("address", "server", "is_good"),
    [
        ("https://auth.example/token", "https://mcp.example/mcp", True),
        ("http://auth.example/token", "https://mcp.example/mcp", False),
        ("http://auth.example/token", "http://127.0.0.1:1/mcp", False),
        ("http://127.0.0.1:2/token", "http://127.0.0.1:1/mcp", True),
        ("http://localhost:2/token", "http://127.0.0.1:1/mcp", True),
        ("http://127.0.0.1:2/token", "https://mcp.example/mcp", False),
        ("https://localhost/token", "https://mcp.example/mcp", False),
        ("http://mcp.example/token", "http://mcp.example/mcp", True),
        ("https://me:secret@auth.example/", "https://mcp.example/mcp", False),
        ("file:///etc/passwd", "https://mcp.example/mcp", False),
        ("javascript:alert(1)", "https://mcp.example/mcp", False),
    ],
)
def test_an_address_that_somebody_names_is_checked_before_it_is_used(address: str, server: str, is_good: bool):
    with contextlib.nullcontext() if is_good else pytest.raises(LoginFailed):
        check_address(httpx2.URL(address), httpx2.URL(server))


async def test_a_code_that_is_wrong_is_refused_and_not_shown(peer: OAuthPeer):
    async def forged(address: str, _: str) -> oauth.AuthorizationResponse:
        await asyncio.to_thread(come_back, address)
        return oauth.AuthorizationResponse("a-code-that-somebody-made-up")

    with pytest.raises(LoginFailed, match="refused the login: invalid_grant") as caught:
        await log_in(remote(peer.url), forged)
    assert "made-up" not in told(caught.value)


async def test_an_answer_of_another_issuer_is_refused_and_the_sdk_logs_nothing_of_it(
    peer: OAuthPeer, caplog: pytest.LogCaptureFixture
):
    async def mixed_up(address: str, state: str) -> oauth.AuthorizationResponse:
        return (await granted(address, state))._replace(iss="https://evil.example")

    caplog.set_level(logging.DEBUG)
    with pytest.raises(LoginFailed, match="iss mismatch"):
        await log_in(remote(peer.url), mixed_up)
    assert not peer.events("issued")
    assert not [record for record in caplog.records if record.name.startswith("mcp.")]


async def test_an_authorization_server_that_is_gone_or_too_slow_is_told(peer: OAuthPeer):
    with pytest.raises(LoginFailed, match=r"http://127\.0\.0\.1:9 could not be reached"):
        await log_in(remote("http://127.0.0.1:9/mcp"))
    with pytest.raises(LoginFailed, match="did not answer in time"):
        await log_in(remote(peer.url), limits=Limits(login_http_seconds=0.0))


async def test_an_answer_that_is_too_long_is_not_read(peer: OAuthPeer):
    with pytest.raises(LoginFailed, match="sent a response that is too large for a login"):
        await log_in(remote(peer.url), limits=Limits(login_body_bytes=20))


# -- serving


async def test_without_a_login_the_fault_says_what_to_do_and_one_made_meanwhile_is_used(
    peer: OAuthPeer, tmp_path: Path
):
    here = place(tmp_path, peer.url)
    async with here.client() as ask:
        for _ in range(3):
            with pytest.raises(NeedsLogin) as caught:
                await ask()
        assert (str(caught.value), caught.value.code) == ("the server needs a login", "needs_auth")
        assert caught.value.hint == "Run in a terminal: mcp-workbench auth dev remote"
        assert not peer.events("registered", "authorize")
        await here.logged_in()
        assert await status(ask) == ACCEPTED


async def test_a_stored_token_is_used_after_a_restart_without_a_login(peer: OAuthPeer, tmp_path: Path):
    here = place(tmp_path, peer.url)
    await here.logged_in()
    for _ in range(2):
        async with here.client() as ask:
            assert await status(ask) == ACCEPTED
    assert len(peer.events("issued")) == 1


@pytest.mark.parametrize("refreshes", ["rotate", "keep"])
async def test_a_token_is_renewed_before_its_end_and_stored(peer: OAuthPeer, tmp_path: Path, refreshes: str):
    peer.control(refreshes=refreshes)
    here = place(tmp_path, peer.url)
    old = await here.logged_in(renew_at=time.time() - 1)
    async with here.client() as ask:
        assert await status(ask) == ACCEPTED
        assert await status(ask) == ACCEPTED
    [refresh] = peer.events("refresh")
    assert refresh["token"] == old.refresh_token
    new = await here.kept()
    assert new is not None
    assert new.access_token != old.access_token
    assert (new.refresh_token == old.refresh_token) == (refreshes == "keep")
    assert new.renew_at is not None
    assert new.renew_at > time.time() + 3000


async def test_tokens_that_live_for_a_moment_are_renewed_again_and_again(
    peer: OAuthPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(oauth, "LOGIN_MARGIN_SHARE", 1.0)
    peer.control(lifetime=1)
    here = place(tmp_path, peer.url)
    await here.logged_in(renew_at=0.0)
    async with here.client() as ask:
        for _ in range(4):
            assert await status(ask) == ACCEPTED
    tokens = [event["token"] for event in peer.events("refresh")]
    assert len(tokens) == len(set(tokens)) == 4


async def test_a_token_that_is_refused_is_renewed_once_for_all_calls(
    peer: OAuthPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    locked: list[str] = []
    real = Credentials.locked
    monkeypatch.setattr(Credentials, "locked", lambda self, url: (locked.append(url), real(self, url))[1])
    peer.control(delay=0.2)
    here = place(tmp_path, peer.url)
    await here.logged_in()
    peer.expire()
    async with here.client() as ask:
        assert set(await asyncio.gather(*(status(ask) for _ in range(20)))) == {ACCEPTED}
    assert len(peer.events("refresh")) == len(locked) == 1


async def test_a_caller_who_gives_up_does_not_lose_the_renewal(peer: OAuthPeer, tmp_path: Path):
    here = place(tmp_path, peer.url)
    old = await here.logged_in()
    peer.expire()
    peer.control(delay=0.5)
    async with here.client() as ask:
        call = asyncio.ensure_future(ask())
        await poll_until(lambda: asyncio.to_thread(peer.events, "refresh"), what="the renewal")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await status(ask) == ACCEPTED
    assert [event["token"] for event in peer.events("refresh")] == [old.refresh_token]


async def test_a_renewal_that_is_refused_ends_the_login_and_a_new_one_is_picked_up(peer: OAuthPeer, tmp_path: Path):
    here = place(tmp_path, peer.url)
    await here.logged_in()
    peer.expire()
    peer.control(refreshes="refuse")
    async with here.client() as ask:
        with pytest.raises(NeedsLogin, match="the login has ended, and the server needs a new one"):
            await ask()
        assert await here.kept() is None
        with pytest.raises(NeedsLogin, match="the server needs a login"):
            await ask()
        assert len(peer.events("refresh")) == 1
        peer.control(refreshes="rotate")
        await here.logged_in()
        assert await status(ask) == ACCEPTED


async def test_a_renewal_that_fails_for_now_keeps_the_login(peer: OAuthPeer, tmp_path: Path):
    here = place(tmp_path, peer.url)
    old = await here.logged_in(renew_at=time.time() - 1)
    peer.control(refreshes="break")
    async with here.client() as ask:
        for _ in range(3):
            assert await status(ask) == ACCEPTED  # the old one is good for a while
        assert len(peer.events("refresh")) == 1
        peer.expire()
        with pytest.raises(ServerUnavailable, match=r"could not be renewed: .* \(HTTP 500\)") as caught:
            await ask()
        assert (caught.value.kind, caught.value.counts) == ("login", False)
        assert caught.value.hint == "If this persists, log in again: mcp-workbench auth dev remote"
        assert await here.kept() == old
        peer.control(refreshes="rotate")
        assert await status(ask) == ACCEPTED


async def test_a_login_without_a_refresh_token_lasts_as_long_as_its_token(peer: OAuthPeer, tmp_path: Path):
    peer.control(refreshes="none")
    here = place(tmp_path, peer.url)
    await here.logged_in(renew_at=0.0)
    async with here.client() as ask:
        assert await status(ask) == ACCEPTED
        peer.expire()
        with pytest.raises(NeedsLogin, match="has ended"):
            await ask()


async def test_a_login_of_another_client_than_the_configured_one_is_not_used(peer: OAuthPeer, tmp_path: Path):
    await place(tmp_path, peer.url).logged_in()
    async with place(tmp_path, peer.url, {"client_id": "another"}).client() as ask:
        with pytest.raises(NeedsLogin):
            await ask()


PROCESS = """
import asyncio, sys
import httpx2
from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.servers.http.credentials import Credentials
from mcp_workbench.servers.http.login import StoredLogin
from mcp_workbench.servers.http.credential_stores import FileStore
from mcp_workbench.limits import DEFAULTS

async def main():
    path, url, body = sys.argv[1:]
    endpoint = Endpoint(url=url)
    server = ServerConfig(name="remote", toolbox="dev", target=endpoint)
    credentials = Credentials(FileStore(path, DEFAULTS), path, DEFAULTS)
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    auth = StoredLogin(server, endpoint, credentials, DEFAULTS)
    async with httpx2.AsyncClient(auth=auth, trust_env=False) as client:
        print((await client.post(url, content=body, headers=headers)).status_code)

asyncio.run(main())
"""


async def test_two_processes_that_need_a_new_token_at_once_use_the_refresh_token_once(peer: OAuthPeer, tmp_path: Path):
    here = place(tmp_path, peer.url)
    await here.logged_in(renew_at=time.time() - 1)
    peer.control(delay=1.0)
    command = [sys.executable, "-c", PROCESS, str(here.path), peer.url, LIST.decode()]
    processes = [
        await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(tmp_path)
        )
        for _ in range(3)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    assert [out.strip() for out, _ in outputs] == [str(ACCEPTED).encode()] * 3, outputs
    assert len(peer.events("refresh")) == 1


IMPORTS = """
import asyncio, sys
from pathlib import Path
from mcp_workbench.config.model import Endpoint, ServerConfig
from mcp_workbench.servers.http.login import auth_for
from mcp_workbench.limits import DEFAULTS
import httpx2

async def main():
    server = ServerConfig(name="remote", toolbox="dev", target=Endpoint(url=sys.argv[1]))
    async with httpx2.AsyncClient(auth=auth_for(server, DEFAULTS), trust_env=False) as client:
        print((await client.post(sys.argv[1])).status_code, "mcp" in sys.modules, "pydantic" in sys.modules)

asyncio.run(main())
"""


async def test_a_token_that_is_good_is_used_without_the_sdk(peer: OAuthPeer, tmp_path: Path):
    here = place(tmp_path, peer.url)
    await here.logged_in()
    env = environment(tmp_path) | {"WORKBENCH_CREDENTIALS": str(here.path)}
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", IMPORTS, peer.url], env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout.split()[1:] == ["False", "False"], done.stderr
    assert done.stdout.split()[0] != "401"


async def test_a_server_that_needs_a_login_is_in_a_state_of_its_own_and_never_rests():
    server = MemoryServer()
    missing = True

    async def opened() -> MemoryChannel:
        if missing:
            raise NeedsLogin("dev", "remote")
        return await server.open()

    health = Health(Limits())
    supervised = Supervisor("dev/remote", opened, LIBRARY, Limits(), Recorded(), health=health)
    for _ in range(2 * Limits().breaker_failures):
        with pytest.raises(NeedsLogin):
            await supervised.connection()
        assert (supervised.state, health.failures) == ("needs_auth", 0)
    missing = False
    await supervised.connection()
    assert supervised.state == "ready"
    await supervised.close()


# -- corner cases of the wire, without a server


def login(url: str = "https://mcp.example/mcp", **changes: Any) -> Login:
    return Login(
        url=url,
        issuer="https://auth.example",
        token_endpoint="https://auth.example/token",
        client_id="client",
        access_token="access-token-of-the-server",
        **changes,
    )


async def test_the_token_goes_to_the_servers_own_origin_alone(tmp_path: Path):
    here = place(tmp_path, "https://mcp.example/mcp")
    await here.credentials.save(login())
    seen: dict[str, str | None] = {}

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen[str(request.url)] = request.headers.get("authorization")
        return httpx2.Response(200)

    assert isinstance(here.server.target, Endpoint)
    auth = StoredLogin(here.server, here.server.target, here.credentials, here.limits)
    others = ["http://mcp.example/mcp", "https://mcp.example:8443/mcp", "https://evil.example/mcp"]
    async with httpx2.AsyncClient(auth=auth, transport=httpx2.MockTransport(answer)) as client:
        for url in ("https://mcp.example/mcp", "https://MCP.example:443/other", *others):
            await client.get(url)
    assert [url for url, sent in seen.items() if sent] == ["https://mcp.example/mcp", "https://mcp.example/other"]
    assert set(seen) >= set(others)


async def test_a_login_that_may_do_too_little_is_one_that_is_missing(tmp_path: Path):
    here = place(tmp_path, "https://mcp.example/mcp")
    await here.credentials.save(login())
    challenge = {"www-authenticate": 'Bearer error="insufficient_scope", scope="files:write \x1b[31m"'}
    transport = httpx2.MockTransport(lambda _: httpx2.Response(403, headers=challenge))
    async with here.client(transport=transport) as ask:
        with pytest.raises(NeedsLogin, match=r"with more scopes \(files:write .x1b\[31m\); see oauth\.scopes"):
            await ask()


async def test_a_refusal_that_never_ends_is_not_read(tmp_path: Path):
    here = place(tmp_path, "https://mcp.example/mcp")
    await here.credentials.save(login())
    asked: list[str] = []
    read = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal read
        while True:
            read += 1
            yield bytes(65_536)

    def refuse(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.headers["authorization"])
        FileStore(str(here.path), here.limits).save(aged(login(), access_token="another-token"))
        return httpx2.Response(401, content=endless())

    async with here.client(transport=httpx2.MockTransport(refuse)) as ask, asyncio.timeout(10):
        with pytest.raises(NeedsLogin, match="refuses the stored login"):
            await ask()
    assert asked == ["Bearer access-token-of-the-server", "Bearer another-token"]
    assert read <= 1


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        ("Bearer", True),
        ('bearer realm="x"', True),
        ('Basic realm="x", Bearer resource_metadata="y"', True),
        ('Basic realm="Bearer"', False),
        ("Negotiate", False),
        (None, False),
    ],
)
async def test_only_a_server_that_asks_for_a_bearer_token_needs_a_login(
    tmp_path: Path, challenge: str | None, expected: bool
):
    response = httpx2.Response(401, headers={"www-authenticate": challenge} if challenge else {})
    assert is_asked_to_log_in(response) == expected
    async with place(tmp_path, "https://mcp.example/mcp").client(
        transport=httpx2.MockTransport(lambda _: response)
    ) as ask:
        with pytest.raises(NeedsLogin) if expected else contextlib.nullcontext():
            assert await status(ask) == 401


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Endpoint(url="https://mcp.example/"), True),
        (Endpoint(url="https://mcp.example/", headers={"X-Key": "k"}), True),
        (Endpoint(url="https://mcp.example/", headers={"authorization": "Bearer x"}), False),
        (Endpoint(url="http://mcp.example/"), False),
        (Endpoint(url="http://mcp.example/", allow_insecure=True), True),
        (Endpoint(url="http://127.0.0.1:1/"), True),
        (Launch(command="x"), False),
    ],
)
def test_logins_are_for_servers_without_credentials_that_can_be_sent_one_safely(target: Any, expected: bool):
    server = ServerConfig(name="remote", toolbox="dev", target=target)
    assert (auth_for(server, Limits()) is not None) == expected


# -- secrets


def told(error: BaseException) -> str:
    """All that anybody could print of an error."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(getattr(error, "__dict__", {}))


async def test_no_secret_is_in_an_error_a_log_or_a_repr(
    peer: OAuthPeer, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    caplog.set_level(logging.DEBUG)
    events: list[str] = []
    monkeypatch.setattr(logger.log, "event", lambda *said: events.append(repr(said)))
    secret = "the-secret-of-a-client-0815"
    peer.register(
        client_id="mine",
        client_secret=secret,
        token_endpoint_auth_method="client_secret_basic",
        redirect_uris=["http://127.0.0.1:1/callback"],
        scope="user",
    )
    here = place(tmp_path, peer.url, {"client_id": "mine", "client_secret": secret})
    kept = await here.logged_in()
    assert isinstance(here.server.target, Endpoint)
    shown = [repr(kept), repr(here.server), repr(here.server.target), repr(OAuthClient(client_secret=secret))]
    shown.append(repr(StoredLogin(here.server, here.server.target, here.credentials, here.limits)))
    peer.expire()
    for refreshes in ("break", "refuse"):
        peer.control(refreshes=refreshes)
        async with here.client() as ask:
            with pytest.raises((ServerUnavailable, NeedsLogin)) as caught:
                await ask()
            shown.append(told(caught.value))
    canaries = peer.canaries()
    canaries.plant("the configuration", secret)
    assert len(canaries.values) >= 5
    logs = "\n".join(record.getMessage() + str(record.exc_info or "") for record in caplog.records)
    assert not canaries.found_in({"errors": "\n".join(shown), "log": logs, "events": "\n".join(events)})
    assert logger.redacted(" ".join(canaries.values.values())).replace("***", "").strip() == ""


async def test_what_is_kept_is_nowhere_but_in_the_store(peer: OAuthPeer, tmp_path: Path):
    here = place(tmp_path, peer.url)
    await here.logged_in()
    found = peer.canaries().found_in({str(path): path.read_bytes() for path in files(tmp_path)})
    assert {what.partition(": ")[0] for what in found} == {str(here.path)}
    assert json.loads(here.path.read_bytes())["version"] == 1


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
