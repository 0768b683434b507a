"""Rows E1 to E7 and E15: remote servers that refuse, vanish, hang, flood or lead elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.outcomes import MIB, peak_memory, told
from tests.peers.rogue_http import Request, Rogue, rogue
from tests.peers.toxics import TOXICS, Proxy, proxy
from tests.support.configs import write_config
from tests.support.procs import needs_proc, wait_until
from tests.support.remote import free_port
from tests.support.wire import Wire, error_of, lasting, serving

ROOT = Path(__file__).parents[2]
TOKEN = "s3cret-token-123"  # noqa: S105 -- planted
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@contextlib.asynccontextmanager
async def bench(
    folder: Path, bad: dict[str, Any], good: Rogue, *, env: dict[str, str] | None = None
) -> AsyncIterator[Wire]:
    """A workbench of its own with the servers `bad` and `good`, which is asked before and after."""
    config = write_config(folder, {"dev": {"bad": bad, "good": {"url": good.url("ok")}}})
    async with serving(config, env=env) as wire, unharmed(wire):
        yield wire


@contextlib.asynccontextmanager
async def unharmed(wire: Wire) -> AsyncIterator[None]:
    """A neighbour is asked before and after, and nothing is told that should not be."""
    await is_well(wire)
    yield
    await is_well(wire)
    assert TOKEN not in wire.stderr
    assert "unexpected" not in wire.stderr
    assert "inside the workbench" not in wire.stderr


async def is_well(wire: Wire) -> None:
    """The neighbour answers, at once."""
    began = time.monotonic()
    result = await wire.use("dev", "good", "echo", {"n": 1})
    assert not result.get("isError"), result
    assert time.monotonic() - began < 5


async def failed(wire: Wire, server: str = "bad") -> tuple[dict[str, Any], str]:
    """What a call of a bad server tells programs, and people."""
    result = await wire.use("dev", server, "echo", {})
    assert TOKEN not in json.dumps(result)
    return told(result), error_of(result)


# -- one workbench with many bad servers, each of which is asked by one test


CREDENTIALS = ["all_status401", "all_status403"]
BUSY = ["status429", "status500", "status503"]
BROKEN = {
    "reset": "broke off",
    "truncated": "in the middle",
    "html": "web page",
    "not_http": "does not speak HTTP",
    "no_json": "can't be read",
    "wrong_id": "does not answer the request",
}
NO_SERVERS = ["all_html", "all_reset", "all_not_http", "all_status404", "all_truncated"]
ENDLESS = ["hang", "drip", "comments", "silent"]


class Bad(NamedTuple):
    """The workbench, what is behind it, and the networks between."""

    wire: Wire
    server: Rogue
    once: Rogue
    """Another, which loses the first of its sessions."""
    betweens: dict[str, Proxy]

    def asked(self, path: str, rpc: str = "") -> list[Request]:
        """What came to a path."""
        return [one for one in self.server.requests if one.path == f"/{path}" and rpc in ("", one.rpc)]


@pytest.fixture(scope="module")
def running(shared_loop: asyncio.Runner, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bad]:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(lasting(shared_loop, rogue()))
        once = stack.enter_context(lasting(shared_loop, rogue()))
        betweens = {toxic: stack.enter_context(lasting(shared_loop, proxy(server.port))) for toxic in sorted(TOXICS)}
        servers: dict[str, Any] = {
            mode: {"url": server.url(mode)} for mode in ("expires_always", *BUSY, *BROKEN, *NO_SERVERS)
        }
        servers |= {mode: {"url": server.url(mode), "headers": HEADERS} for mode in (*CREDENTIALS, "all_moved_away")}
        servers |= {mode: {"url": server.url(mode), "callTimeout": 1, "maxCallTime": 1} for mode in ENDLESS}
        short = {"callTimeout": 2, "maxCallTime": 2, "startupTimeout": 2}
        servers |= {
            f"behind_{toxic}": {"url": f"http://127.0.0.1:{between.port}/ok", **short}
            for toxic, between in betweens.items()
        }
        servers |= {
            "good": {"url": server.url("ok")},
            "expires_once": {"url": once.url("expires_once")},
            "unknown": {"url": "http://nothing.invalid/mcp"},
            "no_tls": {"url": f"https://127.0.0.1:{server.port}/ok"},
            "readable": {"url": "http://192.0.2.1/mcp", "headers": HEADERS},
        }
        config = write_config(tmp_path_factory.mktemp("bad"), {"dev": servers})
        wire = stack.enter_context(lasting(shared_loop, serving(config)))
        yield Bad(wire, server, once, betweens)


@pytest.fixture
def bad(running: Bad, shared_loop: asyncio.Runner) -> Iterator[Bad]:
    with lasting(shared_loop, unharmed(running.wire)):
        yield running


# -- E1: it wants other credentials


@pytest.mark.row("E1")
@pytest.mark.parametrize(("status", "scheme"), [(401, "Basic"), (403, "")])
async def test_e1_a_refusal_for_credentials_is_told_with_its_status_alone_and_never_rests(
    bad: Bad, status: int, scheme: str
):
    for number in range(1, 8):
        code, text = await failed(bad.wire, f"all_status{status}")
        assert code["code"] == "server_unauthorized"
        assert f"HTTP {status}" in text
        assert scheme in text
        assert "headers" in text
        assert len(bad.asked(f"all_status{status}")) == number  # once for each call, and no rest after many


# -- E2: its session is gone


@pytest.mark.row("E2")
async def test_e2_a_call_whose_session_is_gone_is_made_once_more_in_a_new_one(bad: Bad):
    result = await bad.wire.use("dev", "expires_once", "echo", {"n": 1})
    assert not result.get("isError"), result
    assert len(bad.once.got("tools/call")) == 2


@pytest.mark.row("E2")
async def test_e2_a_second_refusal_is_told_and_the_call_is_not_made_a_third_time(bad: Bad):
    code, text = await failed(bad.wire, "expires_always")
    assert code["code"] == "server_unavailable"
    assert "session" in text
    assert len(bad.asked("expires_always", "tools/call")) == 2


# -- E3: it is too busy, or broken


@pytest.mark.row("E3")
async def test_e3_too_many_requests_are_told_with_the_time_to_wait_and_do_not_count(bad: Bad):
    for _ in range(8):
        code, text = await failed(bad.wire, "status429")
        assert (code["code"], code["retry_after"]) == ("server_unavailable", 7)
        assert "429" in text


@pytest.mark.row("E3")
@pytest.mark.parametrize(("status", "wait"), [(500, None), (503, 3600)])
async def test_e3_errors_of_the_server_are_told_and_count(bad: Bad, status: int, wait: int | None):
    mode = f"status{status}"
    for _ in range(5):
        code, text = await failed(bad.wire, mode)
        assert (code["code"], code.get("retry_after")) == ("server_unavailable", wait)
        assert str(status) in text
    before = len(bad.asked(mode))
    code, text = await failed(bad.wire, mode)
    assert code["code"] == "server_resting"
    assert 0 < code["retry_after"] <= 30
    assert str(status) in text
    assert len(bad.asked(mode)) == before


# -- E4: it can't be reached, or is something else


@pytest.mark.row("E4")
@pytest.mark.parametrize("mode", BROKEN)
async def test_e4_a_broken_answer_fails_its_call_and_no_other(bad: Bad, mode: str):
    code, text = await failed(bad.wire, mode)
    assert code["code"] in {"server_unavailable", "protocol_violation"}
    assert BROKEN[mode] in text


@pytest.mark.row("E4")
@pytest.mark.parametrize("mode", NO_SERVERS)
async def test_e4_what_is_no_server_at_its_opening_is_told(bad: Bad, mode: str):
    code, _ = await failed(bad.wire, mode)
    assert code["code"] in {"server_unavailable", "negotiation_failed"}


@pytest.mark.row("E4")
async def test_e4_a_server_that_is_not_there_is_told_and_found_when_it_is(tmp_path: Path):
    port = free_port()
    async with rogue() as good, bench(tmp_path, {"url": f"http://127.0.0.1:{port}/ok"}, good) as wire:
        code, text = await failed(wire)
        assert code["code"] == "server_unavailable"
        assert "refused" in text
        late = Rogue()
        listener = await asyncio.start_server(late.serve, "127.0.0.1", port)
        async with listener:
            result = await wire.use("dev", "bad", "echo", {"n": 1})
            assert not result.get("isError"), result


@pytest.mark.row("E4")
async def test_e4_a_name_that_nobody_knows_is_told(bad: Bad):
    code, text = await failed(bad.wire, "unknown")
    assert code["code"] == "server_unavailable"
    assert "looked up" in text


@pytest.mark.row("E4")
async def test_e4_a_machine_that_takes_no_connection_is_given_up_in_time(tmp_path: Path):
    """A listener whose queue is full: the kernel drops what comes."""
    with socket.socket() as listener, contextlib.ExitStack() as stack:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(2):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)  # noqa: FBT003 -- the method's signature
            filler.connect_ex(listener.getsockname())
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        async with rogue() as good, bench(tmp_path, {"url": url, "startupTimeout": 1}, good) as wire:
            code, _ = await failed(wire)
            assert code["code"] in {"startup_timeout", "server_unavailable"}


@pytest.mark.row("E4")
@pytest.mark.parametrize("toxic", sorted(TOXICS))
async def test_e4_a_bad_network_fails_calls_or_slows_them_and_they_work_when_it_is_good(bad: Bad, toxic: str):
    server, between = f"behind_{toxic}", bad.betweens[toxic]
    between.toxic = toxic
    result = await bad.wire.use("dev", server, "echo", {"n": 1})
    if toxic in {"latency", "slow_close", "slicer"}:
        assert not result.get("isError"), result
    else:
        assert told(result)["code"] in {"server_unavailable", "startup_timeout"}
    between.toxic = ""
    again = await bad.wire.use("dev", server, "echo", {"n": 2})
    assert not again.get("isError"), again


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that signs itself, for a name."""
    key, made = folder / "key.pem", folder / "certificate.pem"
    made_for = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    kind = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    written = ["-keyout", str(key), "-out", str(made)]
    subprocess.run(["openssl", "req", *kind, *made_for, *written], check=True, capture_output=True)
    return key, made


def folder_of(certificate: Path) -> Path:
    """A folder of certificates, in which they are found by their hash."""
    folder = certificate.parent / "authorities"
    folder.mkdir()
    found = subprocess.run(
        ["openssl", "x509", "-hash", "-noout", "-in", str(certificate)], check=True, capture_output=True
    )
    (folder / f"{found.stdout.decode().strip()}.0").write_bytes(certificate.read_bytes())
    return folder


@pytest.mark.row("E4")
@pytest.mark.parametrize(
    ("name", "trusted", "works"),
    [
        ("localhost", "SSL_CERT_FILE", True),
        ("localhost", "SSL_CERT_DIR", True),
        ("localhost", "REQUESTS_CA_BUNDLE", False),
        ("other.test", "SSL_CERT_FILE", False),
    ],
)
async def test_e4_a_certificate_is_checked_against_the_name_and_who_signed_it(
    tmp_path: Path,
    name: str,
    trusted: str,
    works: bool,  # noqa: FBT001 -- a parameter of the test
):
    key, made = certificate(tmp_path, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made, key)
    secure = Rogue()
    listener = await asyncio.start_server(secure.serve, "127.0.0.1", 0, ssl=context)
    port = listener.sockets[0].getsockname()[1]
    env = {"SSL_CERT_FILE": "", trusted: str(folder_of(made) if trusted == "SSL_CERT_DIR" else made)}
    async with rogue() as good, listener:
        far = {"url": f"https://localhost:{port}/ok", "headers": HEADERS}
        async with bench(tmp_path, far, good, env=env) as wire:
            if works:
                result = await wire.use("dev", "bad", "echo", {"n": 1})
                assert not result.get("isError"), result
            else:
                code, text = await failed(wire)
                assert code["code"] == "server_unavailable"
                assert "certificate" in text
                assert not secure.requests


@pytest.mark.row("E4")
async def test_e4_a_server_without_tls_is_told_for_what_it_is(bad: Bad):
    code, text = await failed(bad.wire, "no_tls")
    assert code["code"] == "server_unavailable"
    assert "TLS connection" in text


# -- E5: it never ends


@pytest.mark.row("E5")
@pytest.mark.parametrize("mode", ENDLESS)
async def test_e5_an_answer_that_does_not_end_ends_at_the_deadline_of_its_call(bad: Bad, mode: str):
    began = time.monotonic()
    code, _ = await failed(bad.wire, mode)
    assert code["code"] == "call_timeout"
    assert 0.9 < time.monotonic() - began < 3
    (called,) = bad.asked(mode, "tools/call")
    await wait_until(lambda: called.closed, 1, what="the end of its connection")


# -- E6: it floods


@needs_proc
@pytest.mark.row("E6")
@pytest.mark.parametrize("mode", ["big_json", "big_event", "big_comment", "many_lines", "bomb", "bomb_twice"])
async def test_e6_a_flood_costs_a_bound_of_memory_and_one_call(tmp_path: Path, mode: str):
    async with rogue() as server, bench(tmp_path, {"url": server.url(mode)}, server) as wire:
        before = peak_memory(wire.process.pid)
        code, text = await failed(wire)
        assert code["code"] == "message_too_large"
        assert "maxMessageSize" in text
        assert peak_memory(wire.process.pid) - before < 64 * MIB


# -- E7: it leads elsewhere


@pytest.mark.row("E7")
async def test_e7_nothing_is_sent_where_a_server_redirects(bad: Bad):
    async with rogue() as honeypot:
        bad.server.elsewhere = honeypot.url("ok")
        code, text = await failed(bad.wire, "all_moved_away")
        assert code["code"] == "server_unavailable"
        assert "redirects" in text
        assert bad.asked("all_moved_away")
        assert not honeypot.connections


HONEYPOT = "ip link set lo up && ip addr add 169.254.169.254/32 dev lo && exec {} -m tests.peers.honeypot"


@pytest.mark.row("E7")
def test_e7_a_metadata_service_is_reached_by_no_redirect_and_no_name():
    """In a network of its own, where that address is a honeypot that anybody can reach."""
    if subprocess.run(["unshare", "-rn", "ip", "link", "set", "lo", "up"], check=False, capture_output=True).returncode:
        pytest.skip("platform: no network of its own can be made")
    command = ["unshare", "-rn", "sh", "-c", HONEYPOT.format(sys.executable)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        ["by_redirect", "redirect", 0],
        ["by_name", "refused blocked", 0],
        ["by_address", "reached", 1],
    ]


# -- E15: its credentials could be read on the way


@pytest.mark.row("E15")
async def test_e15_credentials_over_http_are_refused_before_any_connection(bad: Bad):
    began = time.monotonic()
    for _ in range(6):
        code, text = await failed(bad.wire, "readable")
        assert code["code"] == "insecure_transport"
        assert "allowInsecure" in text
    assert time.monotonic() - began < 2
