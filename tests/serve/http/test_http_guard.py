"""Who may speak to the workbench over HTTP: hosts, origins and tokens, on every route."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_workbench.serve.http.address import Address
from mcp_workbench.serve.http.guard import Guard
from mcp_workbench.serve.http.request import RequestHead, RequestRefused
from tests.serve.http.serving import ALICE, BOTH, TOKENS, greeting, raw_exchange, served
from tests.support.configs import rogue, starts, write_config

LOCAL = Address("127.0.0.1", 8300)
ROUTES = ("/mcp", "/mcp/dev", "/mcp/dev/fs", "/healthz", "/healthz/", "/%68ealthz", "/nothing")


def head(**headers: str | list[str]) -> RequestHead:
    pairs = [
        (name.encode(), one.encode("latin-1"))
        for name, value in headers.items()
        for one in ([value] if isinstance(value, str) else value)
    ]
    return RequestHead({"method": "GET", "headers": pairs})


def status_of(guard: Guard, **headers: str | list[str]) -> int:
    try:
        guard.check_place(head(**headers))
    except RequestRefused as refused:
        return refused.status
    return 200


HOSTS = {
    "127.0.0.1:8300": 200,
    "localhost:8300": 200,
    "LOCALHOST:8300": 200,
    "[::1]:8300": 200,
    "localhost": 421,
    "127.0.0.1": 421,
    "localhost:8301": 421,
    "localhost.:8300": 421,
    "localhost:8300.": 421,
    "localhost:": 421,
    "localhost:+8300": 421,
    "localhost:\uff18\uff13\uff10\uff10": 421,
    "": 421,
    ":8300": 421,
    "evil.example:8300": 421,
    "localhost.evil.example:8300": 421,
    "evil.example@localhost:8300": 421,
    "localhost:8300/evil": 421,
    "localhost:8300:8300": 421,
    "::1:8300": 421,
    "[127.0.0.1]:8300": 421,
    "[::1:8300": 421,
    "[::ffff:127.0.0.1]:8300": 421,
    "127.1:8300": 421,
    "0.0.0.0:8300": 421,
    "192.168.1.5:8300": 421,
}


@pytest.mark.row("E10")
@pytest.mark.parametrize(("host", "status"), HOSTS.items())
def test_only_the_host_that_is_served_is_served(host: str, status: int):
    given = host.encode().decode("latin-1")
    assert status_of(Guard(LOCAL, TOKENS), host=given) == status


@pytest.mark.row("E10")
def test_a_host_that_is_missing_or_there_twice_is_misdirected():
    guard = Guard(LOCAL, TOKENS)
    assert status_of(guard) == 421
    assert status_of(guard, host=["localhost:8300", "localhost:8300"]) == 421


ORIGINS = {
    "http://127.0.0.1:8300": 200,
    "http://localhost:8300": 200,
    "HTTP://LOCALHOST:8300": 200,
    "http://[::1]:8300": 200,
    "null": 403,
    "": 403,
    "http://localhost": 403,
    "http://localhost:8301": 403,
    "https://localhost:8300": 403,
    "http://localhost.:8300": 403,
    "http://localhost:8300/": 403,
    "http://localhost:8300.evil.example": 403,
    "http://localhost.evil.example:8300": 403,
    "http://evil.example#localhost:8300": 403,
    "http://evil.example?localhost:8300": 403,
    "http://user@localhost:8300": 403,
    "localhost:8300": 403,
    "file://": 403,
    "http://localhost:8300 http://evil.example": 403,
}


@pytest.mark.row("E10")
@pytest.mark.parametrize(("origin", "status"), ORIGINS.items())
def test_only_pages_of_the_workbench_itself_may_speak_to_it(origin: str, status: int):
    assert status_of(Guard(LOCAL, TOKENS), host="localhost:8300", origin=origin) == status


@pytest.mark.row("E10")
def test_an_origin_may_be_absent_and_not_there_twice():
    guard = Guard(LOCAL, TOKENS)
    assert status_of(guard, host="localhost:8300") == 200
    twice = ["http://localhost:8300", "http://localhost:8300"]
    assert status_of(guard, host="localhost:8300", origin=twice) == 403


def test_a_workbench_for_every_address_is_reached_by_address_and_not_by_foreign_names():
    guard = Guard(Address("0.0.0.0", 8300), TOKENS)  # noqa: S104 -- what it is about
    assert status_of(guard, host="192.168.1.5:8300") == 200
    assert status_of(guard, host="[fe80::1]:8300") == 200
    assert status_of(guard, host="localhost:8300") == 200
    assert status_of(guard, host="evil.example:8300") == 421


def test_a_workbench_on_one_address_is_not_reached_as_localhost():
    guard = Guard(Address("192.168.1.5", 8300), TOKENS)
    assert status_of(guard, host="192.168.1.5:8300") == 200
    assert status_of(guard, host="localhost:8300") == 421


CREDENTIALS: dict[str, tuple[list[str], str]] = {
    "the token": ([f"Bearer {ALICE}"], "alice"),
    "the scheme in small letters": ([f"bearer {ALICE}"], "alice"),
    "the scheme in capitals": ([f"BEARER {ALICE}"], "alice"),
    "spaces around": ([f"Bearer   {ALICE} "], "alice"),
    "none": ([], ""),
    "empty": ([""], ""),
    "only the scheme": (["Bearer"], ""),
    "an empty token": (["Bearer "], ""),
    "another token": (["Bearer nobody-has-this-token-at-all"], ""),
    "the token in capitals": ([f"Bearer {ALICE.upper()}"], ""),
    "the beginning": ([f"Bearer {ALICE[:-1]}"], ""),
    "more than the token": ([f"Bearer {ALICE}x"], ""),
    "without a scheme": ([ALICE], ""),
    "another scheme": ([f"Basic {ALICE}"], ""),
    "twice": ([f"Bearer {ALICE}", f"Bearer {ALICE}"], ""),
    "two in one": ([f"Bearer {ALICE}, Bearer {ALICE}"], ""),
    "not ASCII": (["Bearer äöü"], ""),
}


@pytest.mark.row("E9")
@pytest.mark.parametrize("case", CREDENTIALS)
def test_a_token_is_known_or_refused_the_same_way(case: str):
    values, owner = CREDENTIALS[case]
    guard = Guard(LOCAL, TOKENS)
    if owner:
        assert guard.owner(head(authorization=values)) == owner
        return
    with pytest.raises(RequestRefused) as raised:
        guard.owner(head(authorization=values))
    assert raised.value.status == 401
    assert str(raised.value) == "A bearer token is required"
    assert raised.value.headers == {"www-authenticate": "Bearer"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rogue.log"


@pytest.fixture
def config(tmp_path: Path, log: Path) -> Path:
    return write_config(tmp_path, {"dev": {"fs": rogue(log=log)}})


@pytest.mark.row("E9")
async def test_whoever_has_no_token_reaches_no_handler_and_no_server(config: Path, log: Path):
    async with served(config) as running, running.client() as http:
        bodies: set[str] = set()
        for values, owner in CREDENTIALS.values():
            if owner:
                continue
            lines = "".join(f"Authorization: {value}\r\n" for value in values)
            head = f"POST /mcp/dev/fs HTTP/1.1\r\nHost: localhost:{running.port}\r\nContent-Length: 0\r\n{lines}\r\n"
            answer = (await raw_exchange(running.port, head.encode("latin-1"))).decode()
            assert answer.startswith("HTTP/1.1 401 "), (values, answer)
            assert "www-authenticate: bearer" in answer.lower()
            bodies.add(answer.partition("\r\n\r\n")[2])
        for query in (f"token={ALICE}", f"access_token={ALICE}", f"authorization=Bearer%20{ALICE}"):
            http.headers.pop("authorization", None)
            refused = await http.post(f"/mcp/dev/fs?{query}", json=greeting())
            assert refused.status_code == 401
            bodies.add(refused.text)
        assert len(bodies) == 1
        assert running.workbench is not None
        assert not running.workbench._clients
    assert starts(log) == []


@pytest.mark.row("E10")
@pytest.mark.parametrize("route", ROUTES)
async def test_every_route_checks_host_and_origin(config: Path, route: str):
    async with served(config) as running, running.client() as http:
        assert (await http.get(route, headers={"host": "evil.example"})).status_code == 421
        assert (await http.get(route, headers={"origin": "http://evil.example"})).status_code == 403
        assert (await http.options(route, headers={"origin": "null"})).status_code == 403


@pytest.mark.row("E10")
@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost:{port}", "evil.example"]])
async def test_a_connection_without_one_host_is_misdirected(config: Path, hosts: list[str]):
    async with served(config) as running:
        lines = "".join(f"Host: {host.format(port=running.port)}\r\n" for host in hosts)
        for version in ("1.1", "1.0"):
            request = f"GET /healthz HTTP/{version}\r\n{lines}\r\n".encode()
            assert (await raw_exchange(running.port, request)).startswith(b"HTTP/1.1 421 ")


async def test_health_says_ok_without_a_token_and_nothing_else(config: Path, log: Path):
    async with served(config) as running, running.client() as http:
        del http.headers["authorization"]
        response = await http.get("/healthz")
        assert (response.status_code, response.text) == (200, "ok\n")
        assert "server" not in response.headers
        assert (await http.post("/healthz")).status_code == 405
    assert starts(log) == []


async def test_there_is_no_cors(config: Path):
    async with served(config) as running, running.client() as http:
        own = {"origin": running.url, "access-control-request-method": "POST"}
        preflight = await http.options("/mcp", headers=own)
        assert preflight.status_code == 405
        posted = await http.post("/mcp", json=greeting(), headers={"origin": running.url, "accept": BOTH})
        assert posted.status_code == 200
        for response in (preflight, posted):
            assert not [name for name in response.headers if name.startswith("access-control")]
