"""Authorization servers that mean harm, or are broken: a login fails in plain words, and shows no secret."""

# ruff: noqa: S105, S106 -- none of the secrets is one

from __future__ import annotations

import asyncio
import traceback
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import msgspec
import pytest

from mcp_workbench.command_errors import LoginFailed
from mcp_workbench.config.model import Endpoint
from mcp_workbench.errors import NeedsLogin, ServerUnavailable
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http import oauth
from mcp_workbench.servers.http.authority import Authority
from mcp_workbench.servers.http.client import HttpClient
from mcp_workbench.servers.http.credential_stores import FileStore
from mcp_workbench.servers.http.credentials import Credentials, Login
from mcp_workbench.servers.http.login import LOGIN_SCOPES_LENGTH, Renewals, StoredLogin
from tests.peers.rogue_authority import Answer, Asked, RogueAuthority, rogue_authority
from tests.support.oauth import aged, log_in, remote
from tests.support.procs import wait_until

SECRET = "very-secret-0815"
METADATA = "/.well-known/oauth-authorization-server"
DEEP = b"[" * 100_000


class Somebody:
    """Grants everything, and remembers where that was asked for."""

    def __init__(self) -> None:
        self.addresses: list[str] = []

    async def __call__(self, address: str, state: str) -> oauth.AuthorizationResponse:
        self.addresses.append(address)
        assert state in address
        return oauth.AuthorizationResponse("the-code-of-somebody")

    def asked(self, name: str) -> str | None:
        [address] = self.addresses
        return parse_qs(urlsplit(address).query).get(name, [None])[0]


def told(error: BaseException) -> str:
    """All that anybody could print of an error."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(getattr(error, "__dict__", {}))


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/token", Answer(200, {"refresh_token": SECRET})),
        ("/token", Answer(200, {"access_token": SECRET, "token_type": "mac", "refresh_token": SECRET})),
        ("/token", Answer(200, [SECRET])),
        ("/token", Answer(500, SECRET.encode())),
        ("/token", Answer(302, SECRET.encode(), {"location": "https://evil.example/"})),
        ("/token", Answer(400, b'{"error":' + DEEP)),
        ("/token", Answer(400, b'{"error":"\xff"}')),
        ("/token", Answer(200, {"access_token": SECRET, "token_type": "Bearer", "expires_in": 10**400})),
        ("/token", Answer(200, {"access_token": f"{SECRET}\r\nx: y", "token_type": "Bearer"})),
        ("/token", Answer(200, {"access_token": f"{SECRET}ä", "token_type": "Bearer"})),
        ("/token", Answer(200, {"access_token": "", "token_type": "Bearer"})),
        ("/registration", Answer(201, {"client_secret": SECRET})),
        ("/registration", Answer(201, DEEP)),
        ("/registration", Answer(400, DEEP)),
        ("/registration", Answer(500, SECRET.encode())),
        ("/registration", Answer(201, {"client_id": "x", "token_endpoint_auth_method": "tls_client_auth"})),
        ("/.well-known/oauth-protected-resource/mcp", Answer(200, DEEP)),
        (METADATA, Answer(200, DEEP)),
    ],
)
async def test_an_answer_that_is_none_ends_the_login_in_words_without_a_secret(path: str, answer: Answer):
    async with rogue_authority() as server:
        server.answers[path] = answer
        if "well-known" in path:
            server.answers["/registration"] = server.answers["/register"] = Answer(404)
        with pytest.raises(LoginFailed) as caught:
            await log_in(remote(server.url), Somebody())
    assert SECRET not in told(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("endpoint", ["/authorize#part", "/authorize?state=theirs#part"])
async def test_a_page_that_no_state_can_be_added_to_is_refused(endpoint: str):
    async with rogue_authority() as server:
        server.answers[METADATA] = Answer(200, server.metadata | {"authorization_endpoint": server.address + endpoint})
        with pytest.raises(LoginFailed):
            await log_in(remote(server.url), Somebody())


@pytest.mark.parametrize(
    "challenge",
    [
        "Bearer",
        'Bearer scope="everything"',
        "Bearer\tscope=everything",
        'Bearer realm="scope=everything"',
        'Bearer error="x",\tscope="everything", resource_metadata="{address}/.well-known/oauth-protected-resource/mcp"',
        'Basic realm="x", Bearer scope="everything"',
    ],
)
async def test_configured_scopes_win_whatever_a_server_asks_for(challenge: str):
    async with rogue_authority() as server:
        usual = server.mcp

        async def challenging(asked: Asked) -> Answer:
            answer = usual(asked)
            said = {"www-authenticate": challenge.replace("{address}", server.address)}
            return answer if answer.status != 401 else Answer(401, b"", said)

        server.answers["/mcp"] = challenging
        somebody = Somebody()
        assert await log_in(remote(server.url, scopes=("little",)), somebody) is not None
    assert somebody.asked("scope") == "little"


# -- renewing


def stored(server: RogueAuthority, **changes: Any) -> Login:
    return Login(
        url=server.url,
        issuer=server.address,
        resource=server.url,
        token_endpoint=f"{server.address}/token",
        client_id="client-1",
        access_token="at-old",
        refresh_token="rt-old",
        **changes,
    )


def credentials(tmp_path: Path) -> Credentials:
    path = str(tmp_path / "mcp-workbench" / "credentials")
    return Credentials(FileStore(path, Limits()), path, Limits())


def login_of(server: RogueAuthority, kept: Credentials, limits: Limits | None = None) -> StoredLogin:
    config = remote(server.url)
    assert isinstance(config.target, Endpoint)
    return StoredLogin(config, config.target, kept, limits or Limits())


async def renewed(server: RogueAuthority, kept: Credentials, stale: Login) -> Login:
    config = remote(server.url)
    assert isinstance(config.target, Endpoint)
    return await Renewals(config, config.target, kept, Limits()).renew(stale)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, {"access_token": f"{SECRET}\r\nx: y", "token_type": "Bearer"}),
        Answer(200, {"access_token": f"{SECRET}ä", "token_type": "Bearer"}),
        Answer(200, {"refresh_token": SECRET}),
        Answer(200, {"access_token": SECRET, "token_type": "Bearer", "expires_in": 10**400}),
        Answer(200, DEEP),
        Answer(400, DEEP),
        Answer(400, b'{"error":"\xff"}'),
        Answer(302, b"", {"location": "https://evil.example/"}),
        Answer(204),
    ],
)
async def test_a_renewal_that_brings_no_token_keeps_the_login_and_shows_no_secret(tmp_path: Path, answer: Answer):
    async with rogue_authority() as server:
        kept, login = credentials(tmp_path), stored(server)
        await kept.save(login)
        server.answers["/token"] = answer
        with pytest.raises(ServerUnavailable, match="its login could not be renewed") as caught:
            await renewed(server, kept, login)
        assert SECRET not in told(caught.value)
        assert await kept.find(server.url, fresh=True) == login


async def test_a_renewal_asks_for_tokens_of_this_server_alone(tmp_path: Path):
    async with rogue_authority() as server:
        resource = f"{server.address}/"
        kept, login = credentials(tmp_path), stored(server)
        login = aged(login, resource=resource)
        await kept.save(login)
        new = await renewed(server, kept, login)
        [asked] = server.asked("/token")
    assert asked.form["resource"] == resource
    assert new.resource == resource


async def test_a_login_made_while_an_old_one_is_refused_stays(tmp_path: Path):
    async with rogue_authority() as server:
        kept, login = credentials(tmp_path), stored(server)
        await kept.save(login)

        async def refuse(_: Asked) -> Answer:
            saving.append(asyncio.ensure_future(credentials(tmp_path).replace(aged(login, access_token="at-new"))))
            await asyncio.sleep(0.2)  # so that whoever does not wait has done it
            return Answer(400, {"error": "invalid_grant"})

        saving: list[asyncio.Future[None]] = []
        server.answers["/token"] = refuse
        with pytest.raises(NeedsLogin):
            await renewed(server, kept, login)
        await asyncio.gather(*saving)
        found = await kept.find(server.url, fresh=True)
        assert found is not None
        assert found.access_token == "at-new"


async def test_a_logout_while_a_login_is_renewed_is_the_last_word(tmp_path: Path):
    async with rogue_authority() as server:
        kept, login = credentials(tmp_path), stored(server)
        await kept.save(login)

        async def slow(_: Asked) -> Answer:
            leaving.append(asyncio.ensure_future(credentials(tmp_path).forget(server.url)))
            await asyncio.sleep(0.2)  # as above
            return Answer(200, server.tokens)

        leaving: list[asyncio.Future[Login | None]] = []
        server.answers["/token"] = slow
        assert (await renewed(server, kept, login)).access_token == "at-0"
        [left] = await asyncio.gather(*leaving)
        assert await kept.find(server.url, fresh=True) is None
        assert left is not None
        assert left.refresh_token == "rt-0"  # what is revoked is what was given last


async def test_closing_a_connection_waits_for_the_renewal_that_would_be_lost(tmp_path: Path):
    async with rogue_authority() as server:
        kept, login = credentials(tmp_path), stored(server)
        await kept.save(login)
        release = asyncio.Event()

        async def slow(_: Asked) -> Answer:
            await release.wait()
            return Answer(200, server.tokens)

        server.answers["/token"] = slow
        config = remote(server.url)
        assert isinstance(config.target, Endpoint)
        auth = login_of(server, kept)
        client = HttpClient(config.target, Limits(), auth=auth)
        requests = auth.async_auth_flow(httpx2.Request("POST", server.url))
        refused = httpx2.Response(401, request=await anext(requests))
        caller = asyncio.ensure_future(requests.asend(refused))
        await wait_until(lambda: server.asked("/token"))
        caller.cancel()
        closing = asyncio.ensure_future(client.close())
        await asyncio.sleep(0)
        assert not closing.done()
        release.set()
        await closing
        found = await kept.find(server.url, fresh=True)
        assert found is not None
        assert found.refresh_token == "rt-0"


# -- logins that are made for more than the opening


async def test_a_server_that_wants_a_login_for_its_tools_alone_is_logged_in_to():
    async with rogue_authority() as server:
        server.is_open = True
        login = await log_in(remote(server.url), Somebody())
        assert login is not None
        assert login.access_token == "at-0"
        assert server.got[-1].headers["authorization"] == "Bearer at-0"


@pytest.mark.parametrize(
    "metadata",
    [
        Answer(404),
        Answer(200, b"<html>"),
        Answer(200, {"resource": "https://other.example/mcp", "authorization_servers": ["https://other.example"]}),
        Answer(200, DEEP),
    ],
)
async def test_a_server_that_answers_without_a_login_and_offers_none_wants_none(metadata: Answer):
    async with rogue_authority() as server:
        server.is_open = True
        server.answers["/.well-known/oauth-protected-resource/mcp"] = metadata
        assert await log_in(remote(server.url), Somebody()) is None


async def lacking(server: RogueAuthority, kept: Credentials, challenge: str, **oauth: Any) -> str:
    """What a call is told whose login may do too little."""

    async def refuse(_: Asked) -> Answer:
        return Answer(403, b"", {"www-authenticate": challenge})

    server.answers["/mcp"] = refuse
    config = remote(server.url, **oauth)
    assert isinstance(config.target, Endpoint)
    client = HttpClient(config.target, Limits(), auth=StoredLogin(config, config.target, kept, Limits()))
    with pytest.raises(NeedsLogin) as caught:
        async with client.exchange("POST", {}, b"{}"):
            pass
    await client.close()
    del server.answers["/mcp"]
    return str(caught.value)


async def test_what_a_login_is_too_little_for_is_asked_for_by_the_next_one(tmp_path: Path):
    async with rogue_authority() as server:
        kept = credentials(tmp_path)
        await kept.save(aged(stored(server), scope="read list"))
        for scope in ("write", "read write", "admin"):
            said = await lacking(server, kept, f'Bearer error="insufficient_scope", scope="{scope}"')
            assert said == f"the server needs a login with more scopes ({scope})"
        before = await credentials(tmp_path).find(server.url)
        assert before is not None
        somebody = Somebody()
        login = await log_in(remote(server.url), somebody, before=before)
        assert somebody.asked("scope") == "read list write admin"
        assert login is not None
        assert login.wanted == ""


@pytest.mark.parametrize(
    ("challenge", "oauth"),
    [
        ('Bearer error="insufficient_scope", scope="write"', {"scopes": ("read",)}),
        ('Bearer error="insufficient_scope", scope="wr\x7fite"', {}),
        ('Bearer error="insufficient_scope"', {}),
    ],
)
async def test_a_scope_that_is_for_the_configuration_or_is_none_is_not_asked_for(
    tmp_path: Path, challenge: str, oauth: dict[str, Any]
):
    async with rogue_authority() as server:
        kept, login = credentials(tmp_path), stored(server)
        await kept.save(login)
        assert "; see oauth.scopes" in await lacking(server, kept, challenge, **oauth)
        assert await kept.find(server.url, fresh=True) == login


async def test_scopes_that_a_server_asks_for_without_end_are_not_kept(tmp_path: Path):
    async with rogue_authority() as server:
        kept = credentials(tmp_path)
        await kept.save(stored(server))
        for number in range(20):
            await lacking(server, kept, f'Bearer error="insufficient_scope", scope="{number:0100}"')
        found = await kept.find(server.url, fresh=True)
        assert found is not None
        assert 500 < len(found.wanted) <= LOGIN_SCOPES_LENGTH


# -- whose login it is


async def test_two_clients_of_ones_own_at_one_address_keep_their_logins_apart(tmp_path: Path):
    async with rogue_authority() as server:
        kept = credentials(tmp_path)
        for name in ("mine", "yours", ""):
            server.tokens = {"access_token": f"at-{name}", "token_type": "Bearer"}
            login = await log_in(remote(server.url, client_id=name), Somebody())
            assert login is not None
            await kept.replace(login)
        for name in ("mine", "yours", ""):
            config = remote(server.url, client_id=name)
            assert isinstance(config.target, Endpoint)
            client = HttpClient(config.target, Limits(), auth=StoredLogin(config, config.target, kept, Limits()))
            async with client.exchange("POST", {"content-type": "application/json"}, b"{}") as response:
                assert response.is_success
            await client.close()
            assert server.got[-1].headers["authorization"] == f"Bearer at-{name}"


async def test_a_login_on_an_open_wire_does_not_leave_the_machine_though_a_name_leads_elsewhere():
    endpoint = Endpoint(url="http://mcp.localhost:9/mcp")

    async def elsewhere(host: str, port: int) -> list[str]:
        del host, port
        return ["10.1.2.3"]

    async with Authority(endpoint, Limits(login_http_seconds=3), resolve=elsewhere) as authority:
        for url in ("http://mcp.localhost:9/token", "http://auth.localhost:9/token"):
            with pytest.raises(LoginFailed, match="an address that is no server's"):
                await authority.send(httpx2.Request("POST", url))


# -- servers that can't be asked


@pytest.mark.parametrize("status", [301, 400, 404, 405, 429, 500, 503])
async def test_a_server_that_does_not_answer_is_not_said_to_want_no_login(status: int):
    async with rogue_authority() as server:
        server.answers["/mcp"] = Answer(status, b"", {"location": "https://elsewhere.example/"})
        server.answers["/.well-known/oauth-protected-resource/mcp"] = Answer(404)
        with pytest.raises(LoginFailed, match=rf"does not say whether it requires a login: .*\(HTTP {status}\)"):
            await log_in(remote(server.url), Somebody())


async def test_a_server_of_the_old_transport_is_asked_for_its_stream():
    async with rogue_authority() as server:

        async def stream(asked: Asked) -> Answer:
            if asked.method != "GET":
                return Answer(405)
            if "authorization" not in asked.headers:
                return Answer(401, b"", {"www-authenticate": f'Bearer resource_metadata="{server.address}/about"'})
            return Answer(200, b": a stream\n", {"content-type": "text/event-stream"})

        about = {"resource": server.url, "authorization_servers": [server.address]}
        hidden = "/.well-known/oauth-protected-resource/mcp"  # so that the stream alone says where
        server.answers |= {"/mcp": stream, "/about": Answer(200, about), hidden: Answer(404)}
        config = remote(server.url)
        assert isinstance(config.target, Endpoint)
        old = msgspec.structs.replace(config, target=msgspec.structs.replace(config.target, transport="sse"))
        login = await log_in(old, Somebody())
        assert login is not None
        assert login.access_token == "at-0"


async def test_a_server_that_moves_within_its_origin_is_logged_in_to():
    async with rogue_authority() as server:

        async def moved(_: Asked) -> Answer:
            return Answer(307, b"", {"location": "/real"})

        async def real(asked: Asked) -> Answer:
            return server.mcp(asked)

        server.answers |= {"/mcp": moved, "/real": real}
        login = await log_in(remote(server.url), Somebody())
        assert login is not None
        assert server.asked("/real")[-1].headers["authorization"] == "Bearer at-0"


@pytest.mark.parametrize("lifetime", [0, -1, -(10**12)])
async def test_a_token_that_never_lived_by_its_own_words_is_used_until_it_is_refused(tmp_path: Path, lifetime: int):
    async with rogue_authority() as server:
        server.tokens |= {"expires_in": lifetime}
        login = await log_in(remote(server.url), Somebody())
        assert login is not None
        kept = credentials(tmp_path)
        await kept.save(login)
        config = remote(server.url)
        assert isinstance(config.target, Endpoint)
        client = HttpClient(config.target, Limits(), auth=login_of(server, kept))
        for _ in range(3):
            async with client.exchange("POST", {}, b"{}") as response:
                assert response.is_success
        await client.close()
        assert len(server.asked("/token")) == 1
