"""A running `tests/peers/oauth_server.py`, a browser for it, and a workbench that logs in to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from mcp_workbench import logger
from mcp_workbench.config.model import Endpoint, OAuthClient, ServerConfig
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.servers.http import oauth
from mcp_workbench.servers.http.authority import Authority
from mcp_workbench.servers.http.credential_stores import FileStore
from mcp_workbench.servers.http.credentials import Login
from mcp_workbench.storage import secure_files
from tests.peers import browser
from tests.support import programs
from tests.support.canary import Canaries
from tests.support.commands import invoke
from tests.support.configs import write_config
from tests.support.procs import POLL_SECONDS
from tests.support.wire import environment

PEERS = Path(__file__).parents[1] / "peers"
SECONDS = 60


class OAuthPeer:
    """The peer: how it behaves, and what it saw."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = f"{address}/mcp"

    def control(self, **behaviour: Any) -> None:
        self._post("/control", behaviour)

    def reset(self) -> None:
        """As if it had just been started."""
        self._post("/reset", {})

    def register(self, **client: Any) -> None:
        self._post("/client", client)

    def expire(self) -> None:
        """No token that was given so far is accepted any more."""
        self._post("/expire", {})

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        found = json.loads(self._ask(f"{self.address}/events"))
        return [event for event in found if not kinds or event["event"] in kinds]

    def canaries(self) -> Canaries:
        """Every secret that it gave or got."""
        canaries = Canaries()
        for number, event in enumerate(self.events()):
            for name in ("secret", "refresh", "token"):
                if event.get(name):
                    canaries.plant(f"{event['event']} {number}: {name}", event[name])
        return canaries

    def _post(self, path: str, body: Any) -> None:
        self._ask(urllib.request.Request(f"{self.address}{path}", json.dumps(body).encode(), method="POST"))

    def _ask(self, request: Any) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=SECONDS) as answer:
            return answer.read()


@contextlib.contextmanager
def oauth_peer() -> Iterator[OAuthPeer]:
    with programs.running([sys.executable, str(PEERS / "oauth_server.py")], env=os.environ) as process:
        address = process.stdout.readline().strip()
        assert address, "the authorization server did not start"
        yield OAuthPeer(address)


class Person(NamedTuple):
    """Somebody with a configuration, a browser and a home of their own."""

    folder: Path
    config: Path

    @property
    def env(self) -> dict[str, str]:
        command = [sys.executable, str(PEERS / "browser.py"), str(self.folder / "browser.log")]
        return environment(self.folder / "home") | {"BROWSER": f"{shlex.join(command)} %s"}

    @property
    def credentials(self) -> Path:
        return self.folder / "home" / "XDG_DATA_HOME" / "mcp-workbench" / "credentials"

    def seen(self, count: int = 0) -> list[dict[str, Any]]:
        """What the browser saw, as soon as that is so many pages: it is a program of its own, and may need a moment."""
        log, deadline = self.folder / "browser.log", time.monotonic() + SECONDS
        while count and (not log.exists() or log.read_bytes().count(b"\n") < count) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []

    def login(self, url: str) -> Login | None:
        """What is kept for a server."""
        return FileStore(str(self.credentials), DEFAULTS).load(url)

    def command(self, *arguments: str) -> list[str]:
        return [*programs.PROGRAM, "auth", "--config", str(self.config), *arguments]

    def auth(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run `mcp-workbench auth dev remote` as a program."""
        command = self.command("dev", "remote", *arguments)
        return programs.run(command, env=self.env | (env or {}), timeout=SECONDS)

    def runs(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """The same in this process, with a browser that is a thread of it."""
        command = ["auth", "--config", str(self.config), "dev", "remote", *arguments]
        with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryFile() as log:
            patch.setattr(logger, "log", logger.Log(log.fileno()))
            patch.setattr(secure_files, "warned", set())
            for hook in ("excepthook", "unraisablehook"):
                patch.setattr(sys, hook, getattr(sys, hook))
            patch.setattr(webbrowser, "open", self.browse)
            for name in set(os.environ) - set(self.env):
                patch.delenv(name)
            result = invoke(*command, env=self.env | (env or {}))
            log.seek(0)
            logged = log.read().decode()
        return subprocess.CompletedProcess(command, result.exit_code, result.stdout, logged + result.stderr)

    def browse(self, address: str) -> bool:
        """Have the browser show an address."""
        browser.show(self.folder / "browser.log", address)
        return True

    async def logged_in(self) -> None:
        done = await asyncio.to_thread(self.runs)
        assert done.returncode == 0, done.stderr


def person(folder: Path, url: str, **entry: Any) -> Person:
    """Somebody whose toolbox `dev` has the server `remote`."""
    return Person(folder, write_config(folder, {"dev": {"remote": {"url": url, **entry}}}))


def remote(url: str, **oauth: Any) -> ServerConfig:
    return ServerConfig(name="remote", toolbox="dev", target=Endpoint(url=url, oauth=OAuthClient(**oauth)))


def come_back(address: str) -> dict[str, list[str]]:
    """What a browser would come back with from an address, without coming back."""
    http = http_client(address)
    try:
        http.request("GET", address.removeprefix(address[: address.index("/", 8)]))
        return parse_qs(urlsplit(http.getresponse().headers["location"]).query)
    finally:
        http.close()


def http_client(address: str) -> HTTPConnection:
    return HTTPConnection(urlsplit(address).netloc, timeout=SECONDS)


async def granted(address: str, state: str) -> oauth.AuthorizationResponse:
    """A person who grants everything."""
    values = await asyncio.to_thread(come_back, address)
    assert values["state"] == [state]
    return oauth.AuthorizationResponse(values["code"][0])


async def log_in(
    server: ServerConfig, ask: oauth.Ask = granted, limits: Limits = DEFAULTS, before: Login | None = None
) -> Login | None:
    """A login without a command and a browser."""
    assert isinstance(server.target, Endpoint)
    client, back = server.target.oauth, "http://127.0.0.1:1/callback"
    async with Authority(server.target, limits) as authority:
        return await oauth.log_in(authority, client, back, ask, limits, before=before)


def aged(login: Login, **changes: Any) -> Login:
    """The same with something changed."""
    return msgspec.structs.replace(login, **changes)
