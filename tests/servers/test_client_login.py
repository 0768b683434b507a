"""Client credentials: tokens without a person, fetched once, renewed in time, and shown to nobody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from mcp_workbench import ToolIdentifier, Workbench, load_config
from mcp_workbench.cli.server_states import state_of
from mcp_workbench.config.model import Endpoint
from mcp_workbench.errors import ConnectFailed, ToolboxFailed
from mcp_workbench.limits import Limits
from mcp_workbench.servers.http import client_login, oauth
from tests.support.canary import files_below
from tests.support.configs import write_config
from tests.support.oauth import OAuthPeer, person
from tests.support.wire import environment, error_of, serving

SECRET = "s3cret-of-a-machine & more"  # noqa: S105 -- it is none
WHOAMI = ToolIdentifier("dev", "remote", "whoami")


def entry(peer: OAuthPeer, **oauth: Any) -> dict[str, Any]:
    client = {"grantType": "client_credentials", "clientId": "robot", "clientSecret": SECRET, "issuer": peer.address}
    return {"url": peer.url, "oauth": {key: value for key, value in (client | oauth).items() if value is not None}}


def register(peer: OAuthPeer, **client: Any) -> None:
    peer.register(**{"client_id": "robot", "client_secret": SECRET, "redirect_uris": None} | client)


@contextlib.asynccontextmanager
async def workbench(folder: Path, server: dict[str, Any], **limits: Any) -> AsyncIterator[Workbench]:
    config = load_config(write_config(folder, {"dev": {"remote": server}}))
    with mock.patch.dict(os.environ, environment(folder / "home")):
        async with Workbench(config, limits=Limits(**limits)) as bench:
            yield bench


async def whoami(bench: Workbench) -> Any:
    return json.loads((await bench.use(WHOAMI))["content"][0]["text"])


# -- a token


async def test_a_call_needs_no_person_and_no_store(peer: OAuthPeer, tmp_path: Path):
    register(peer)
    async with workbench(tmp_path, entry(peer, scopes=["user", "more"])) as bench:
        assert (await whoami(bench))["scopes"] == ["user", "more"]
        assert [tool["name"] for tool in (await bench.open("dev")).tools] == ["whoami"]
    [asked] = peer.events("machine")
    assert (asked["method"], asked["scope"], asked["resource"]) == ("client_secret_basic", "user more", peer.url)
    assert not peer.events("registered", "authorize", "code")
    assert not list((tmp_path / "home").rglob("credentials*"))


@pytest.mark.parametrize("signer", ["right", "wrong"])
async def test_a_client_may_sign_instead_of_having_a_secret(peer: OAuthPeer, tmp_path: Path, signer: str):
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("right", "wrong")}
    public = keys["right"].public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    private = keys[signer].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    register(peer, client_secret=None, public_key=public)
    server = entry(peer, clientSecret=None, privateKey=private, signingAlgorithm="ES256")
    async with workbench(tmp_path, server) as bench:
        if signer == "right":
            assert (await whoami(bench))["scopes"] == ["user"]
        else:
            with pytest.raises(ConnectFailed) as caught:
                await whoami(bench)
            assert caught.value.wire_code == "client_refused"
            assert peer.canaries().found_in({"error": str(caught.value)}) == [], "the server repeats the assertion"
    assert {event["method"] for event in peer.events("machine")} == {"private_key_jwt"}


async def test_a_token_is_renewed_before_its_end(peer: OAuthPeer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(oauth, "LOGIN_MARGIN_SHARE", 1.0)
    register(peer)
    peer.control(told_lifetime=1)  # the token itself lasts for an hour
    async with workbench(tmp_path, entry(peer), login_margin_seconds=1.0) as bench:
        await whoami(bench)
        first = len(peer.events("issued"))
        await whoami(bench)
        assert len(peer.events("issued")) > first
        assert all(event["known"] for event in peer.events("used"))
        peer.control(machines="break")
        assert (await whoami(bench))["scopes"] == ["user"], "the one before it is still good"


async def test_a_token_that_the_server_refuses_is_replaced_once_for_all_who_need_it(peer: OAuthPeer, tmp_path: Path):
    register(peer)
    async with workbench(tmp_path, entry(peer)) as bench:
        await whoami(bench)
        peer.control(delay=0.3)
        peer.expire()
        answers = await asyncio.gather(*(whoami(bench) for _ in range(10)))
    assert [one["scopes"] for one in answers] == [["user"]] * 10
    assert len(peer.events("issued")) == 2


async def test_connections_of_a_process_share_a_token_and_a_failure(peer: OAuthPeer, tmp_path: Path):
    config = load_config(write_config(tmp_path, {"dev": {"remote": entry(peer)}}))
    endpoint = config.toolboxes["dev"].servers["remote"].target
    peer.control(delay=0.2)
    assert isinstance(endpoint, Endpoint)
    logins = [client_login.client_login(endpoint, Limits()) for _ in range(5)]

    async def authorization(login: httpx2.Auth) -> str:
        """What it adds to a request."""
        requests = login.async_auth_flow(httpx2.Request("POST", endpoint.url))
        request = await anext(requests)
        await requests.aclose()
        return request.headers["authorization"]

    failed = await asyncio.gather(*map(authorization, logins), return_exceptions=True)
    assert {type(one).__name__ for one in failed} == {"ClientRefused"}
    assert len(peer.events("machine")) == 1
    register(peer)
    [token] = {authorized.removeprefix("Bearer ") for authorized in await asyncio.gather(*map(authorization, logins))}
    assert len(peer.events("issued")) == 1
    assert token not in repr((logins, client_login.AccessToken(token)))


# -- commands


def test_auth_tries_the_credentials_and_keeps_nothing(peer: OAuthPeer, tmp_path: Path):
    register(peer)
    somebody = person(tmp_path, **entry(peer))
    done = somebody.runs()
    assert (done.returncode, somebody.credentials.exists()) == (0, False)
    assert "dev/remote: its client credentials work (user). `serve` logs in with them" in done.stdout
    peer.control(machines="refuse")
    done = somebody.runs()
    assert done.returncode == 1
    assert "refused the login: invalid_client" in done.stderr
    assert SECRET not in done.stdout + done.stderr
    assert not somebody.seen()


def test_other_commands_know_that_nobody_need_log_in(peer: OAuthPeer, tmp_path: Path):
    config = load_config(write_config(tmp_path, {"dev": {"remote": entry(peer)}}))
    assert state_of(config.toolboxes["dev"].servers["remote"], None).kind == "never_listed"


# -- refusals


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [({"machines": "refuse"}, "client_refused"), ({"machines": "break"}, "server_unavailable")],
)
async def test_what_goes_wrong_has_a_code_and_a_hint(peer: OAuthPeer, tmp_path: Path, behaviour: Any, code: str):
    register(peer)
    peer.control(**behaviour)
    async with workbench(tmp_path, entry(peer)) as bench:
        with pytest.raises(ToolboxFailed) as caught:
            await bench.open("dev")
    [failure] = caught.value.failures
    assert failure.fault.code == code
    assert "in its oauth" in failure.fault.hint
    assert failure.fault.retryable == (code != "client_refused")


async def test_the_secret_goes_to_the_configured_issuer_and_to_nobody_else(peer: OAuthPeer, tmp_path: Path):
    register(peer)
    async with workbench(tmp_path, entry(peer, issuer="https://auth.example")) as bench:
        with pytest.raises(ConnectFailed, match="issuer mismatch"):
            await whoami(bench)
    assert not peer.events("machine")


async def test_a_token_that_may_do_too_little_says_which_scopes_to_configure(peer: OAuthPeer, tmp_path: Path):
    register(peer)
    async with workbench(tmp_path, entry(peer, scopes=["more"])) as bench:
        with pytest.raises(ConnectFailed, match="requires more scopes") as caught:
            await whoami(bench)
    assert (caught.value.wire_code, caught.value.fault.hint) == ("client_refused", "Add them to scopes in its oauth.")


@pytest.mark.parametrize("machines", ["grant", "refuse"])
async def test_no_secret_is_logged_told_or_kept(peer: OAuthPeer, tmp_path: Path, machines: str):
    """The authorization server repeats what it got in its refusal, and the log has every detail."""
    register(peer)
    peer.control(machines=machines)
    config = write_config(tmp_path, {"dev": {"remote": entry(peer, clientSecret="${ROBOT}")}})
    async with serving(config, "--log-level", "debug", env={"ROBOT": SECRET}) as wire:
        told = await wire.use("dev", "remote", "whoami")
        if machines == "refuse":
            assert "its client credentials are refused" in error_of(told)
        else:
            assert not told["isError"]
    canaries = peer.canaries()
    canaries.plant("the client's secret", SECRET)
    left = {"answer": json.dumps(told), "log": wire.stderr, **files_below(tmp_path / "home")}
    assert canaries.found_in(left) == []
