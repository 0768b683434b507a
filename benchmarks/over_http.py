"""Measure MCP gateways over HTTP in one run, over the same raw server and with the same raw client.

    over_http.py [--quick] [--only LABEL,...] [--delay-ms MS] [--json FILE]

The same as gateway.py, for clients that come over HTTP, of both eras. It isn't called `http.py`, because a script's
folder comes before the standard library, in which others look for `http`.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import gateway
import programs
import report
from arguments import read_arguments
from gateway import ANSWER_SECONDS, LEVELS, QUICK, STOP_SECONDS, SURVIVAL_SECONDS, Plan
from processes import end_survivors, memory_mb, tree
from programs import ARGUMENTS, Place, Program, Unavailable
from raw_client import Request, RequestFailed
from raw_http import Era, HttpClient

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from report import Sample

ERAS: tuple[Era, ...] = ("handshake", "modern")
START_SECONDS = 30.0
POLL_SECONDS = 0.01
DEFAULT_RESULTS = programs.HERE / "results" / "over_http.json"


@dataclass(frozen=True)
class Endpoint(Program):
    """A program that listens on `port`."""

    port: int
    path: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])


def workbench(place: Place) -> Endpoint:
    """The transparent endpoint of one server."""
    return _workbench(place, "/mcp/bench/raw", Request.tool("echo", ARGUMENTS))


def use_tool(place: Place) -> Endpoint:
    """The two meta-tools in front of the same server."""
    identifier = {"toolbox": "bench", "server": "raw", "tool": "echo"}
    return _workbench(place, "/mcp", Request.tool("use_tool", {"tool": identifier, "arguments": ARGUMENTS}))


def base(place: Place) -> Endpoint:
    """`workbench` of another worktree."""
    endpoint = workbench(place)
    return replace(endpoint, label="base", command=(programs.base_python(), *endpoint.command[1:]))


def _workbench(place: Place, path: str, call: Request) -> Endpoint:
    started, port, token = programs.workbench(place), free_port(), secrets.token_urlsafe()
    return Endpoint(
        "workbench",
        started.version,
        (*started.command, "--http", f"127.0.0.1:{port}"),
        programs.LIST_TOOLS,
        call,
        port,
        path,
        {"Authorization": f"Bearer {token}"},
        {"WORKBENCH_TOKEN": token},
    )


def bare(place: Place) -> Endpoint:
    """A bare application on the same HTTP server: the floor."""
    del place
    port = free_port()
    command = (sys.executable, str(programs.HERE / "bare_http.py"), str(port))
    call = Request.tool("echo", ARGUMENTS)
    return Endpoint("bare", "", command, programs.LIST_TOOLS, call, port, "/mcp")


def fastmcp(place: Place) -> Endpoint:
    """Without a token: it has less to check."""
    started, port = programs.fastmcp(place), free_port()
    python, script, *downstream = started.command
    command = (python, script, "--http", str(port), *downstream)
    return Endpoint("fastmcp", started.version, command, started.open, started.call, port, "/mcp")


def mcp_proxy_npm(place: Place) -> Endpoint:
    """npm's `mcp-proxy`, in front of one server. Without a token."""
    script, port = programs.install_npm("mcp-proxy-npm", "mcp-proxy"), free_port()
    command = ("node", script, "--host", "127.0.0.1", "--port", str(port), "--server", "stream", "--")
    call = Request.tool("echo", ARGUMENTS)
    return Endpoint("mcp-proxy (npm)", "", (*command, *place.downstream()), programs.LIST_TOOLS, call, port, "/mcp")


def mcp_proxy_pypi(place: Place) -> Endpoint:
    """PyPI's `mcp-proxy`, in front of one server. Without a token."""
    python, port = programs.install("mcp-proxy-pypi", "mcp-proxy>=0.13,<0.14"), free_port()
    command = (python, "-m", "mcp_proxy", "--host", "127.0.0.1", "--port", str(port), "--")
    call, version = Request.tool("echo", ARGUMENTS), programs.version_of(python, "mcp-proxy")
    return Endpoint(
        "mcp-proxy (PyPI)", version, (*command, *place.downstream()), programs.LIST_TOOLS, call, port, "/mcp/"
    )


def contextforge(place: Place) -> Endpoint:
    """ContextForge's own bridge from one stdio server to streamable HTTP. Without a token."""
    python, port = programs.install("contextforge", "mcp-contextforge-gateway>=0.8"), free_port()
    exposed = ("--expose-streamable-http", "--host", "127.0.0.1", "--port", str(port))
    command = (python, "-m", "mcpgateway.translate", "--stdio", shlex.join(place.downstream()), *exposed)
    call, version = Request.tool("echo", ARGUMENTS), programs.version_of(python, "mcp-contextforge-gateway")
    return Endpoint("contextforge", version, command, programs.LIST_TOOLS, call, port, "/mcp")


PROGRAMS: Mapping[str, Callable[[Place], Endpoint]] = {
    "bare": bare,
    "workbench": workbench,
    "use_tool": use_tool,
    "fastmcp": fastmcp,
    "mcp-proxy-npm": mcp_proxy_npm,
    "mcp-proxy-pypi": mcp_proxy_pypi,
    "contextforge": contextforge,
    **({"base": base} if os.environ.get(programs.BASE_VARIABLE) else {}),
}


def metrics() -> list[report.Metric]:
    found = [report.Metric("first_response_s", "first response, s", 3)]
    for era in ERAS:
        found += [report.Metric(f"{era}_per_s_{level}", f"{era} calls/s at {level}", 0) for level in LEVELS]
        found += [report.Metric(f"{era}_p50_ms_{level}", f"{era} p50 at {level}, ms", 2) for level in LEVELS]
    return [*found, report.Metric("own_mb", "own memory after load, MB", 1), report.Metric("stop_s", "stop, s", 3)]


SHEET = report.Sheet(
    metrics(),
    (
        report.against("fastmcp", "handshake_per_s_16", "handshake calls/s at 16", ">=", 3.0),
        report.against("bare", "handshake_per_s_16", "handshake calls/s at 16", ">=", 0.7),
        report.against("bare", "modern_per_s_16", "modern calls/s at 16", ">=", 0.6),
        report.against("base", "handshake_per_s_16", "handshake calls/s at 16", ">=", 0.95),
        report.against("base", "modern_per_s_16", "modern calls/s at 16", ">=", 0.95),
    ),
)


class Subject(gateway.Subject):
    """One program that listens, and what was measured of it so far."""

    program: Endpoint

    @contextmanager
    def listening(self, sample: Sample) -> Generator[int]:
        """The program's process, from when it listens."""
        with tempfile.TemporaryDirectory(prefix="bench-") as home, (Path(home) / "stderr").open("w+b") as stderr:
            env = {**gateway.environment(home), **self.program.env}
            started = time.perf_counter()
            process = subprocess.Popen(
                self.program.command, stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr, env=env, cwd=home
            )
            try:
                wait_until_it_listens(process, self.program.port)
                with self.client("handshake"):
                    sample["first_response_s"] = time.perf_counter() - started
                yield process.pid
            except (OSError, RequestFailed) as error:
                raise RequestFailed(f"{error} {gateway.last_line(stderr.name)}".rstrip()) from error
            finally:
                sample["stop_s"] = self._end(process)

    @contextmanager
    def client(self, era: Era) -> Generator[HttpClient]:
        program = self.program
        client = HttpClient(
            program.port, program.path, era=era, headers=program.headers, timeout_seconds=ANSWER_SECONDS
        )
        try:
            client.begin()
            yield client
        finally:
            client.close()

    def try_era(self, era: Era, measure: Callable[[], None]) -> None:
        """An era in which a program gives no answers has no figures; it is no failure of the other."""
        try:
            measure()
        except RequestFailed as error:
            self.problems.append(f"{era} clients: {error}")

    def row(self) -> report.Row:
        """Figures that are missing in one round are left out."""
        everywhere = set.intersection(*(set(sample) for sample in self.samples)) if self.samples else set[str]()
        self.samples = [{key: value for key, value in sample.items() if key in everywhere} for sample in self.samples]
        self.problems = list(dict.fromkeys(self.problems))
        return super().row()

    def _end(self, process: subprocess.Popen[bytes]) -> float:
        family, started = tree(process.pid)[1:], time.perf_counter()
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            self._complain(f"had to be killed {STOP_SECONDS:g} s after it was told to end")
        seconds = time.perf_counter() - started
        if left := end_survivors(family, SURVIVAL_SECONDS):
            self._complain(f"left {left} of its processes running")
        return seconds


def measure_round(subject: Subject, plan: Plan) -> Sample:
    sample: Sample = {}
    with subject.listening(sample) as pid:
        for era in ERAS:
            subject.try_era(era, partial(measure_era, subject, era, plan, sample))
        sample["own_mb"] = memory_mb(tree(pid)[:1])
    return sample


def measure_era(subject: Subject, era: Era, plan: Plan, sample: Sample) -> None:
    call = subject.program.call
    with subject.client(era) as client:
        client.request(subject.program.open)
        client.request(call)
        client.load(call, in_flight=LEVELS[-1], seconds=plan.warm_up_seconds)
        for level in LEVELS:
            load = client.load(call, in_flight=level, seconds=plan.load_seconds)
            subject.failures += load.failures
            sample[f"{era}_per_s_{level}"] = load.per_second
            sample[f"{era}_p50_ms_{level}"] = load.percentile(0.5) * 1000


def wait_until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(POLL_SECONDS)
        else:
            return
    raise RequestFailed("it did not listen")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def prepare(labels: list[str], place: Place) -> tuple[dict[str, Subject], dict[str, str]]:
    """The programs that can be measured, after one unmeasured start each, and why the others can't."""
    subjects: dict[str, Subject] = {}
    unavailable: dict[str, str] = {}
    for label in labels:
        try:
            subject = Subject(PROGRAMS[label](place))
            with subject.listening({}), subject.client("handshake") as client:
                client.request(subject.program.call)
        except (OSError, RequestFailed, Unavailable) as error:
            unavailable[label] = str(error)
        else:
            subjects[label] = subject
    return subjects, unavailable


def measure(labels: list[str], plan: Plan, call_delay_ms: float) -> report.Results:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        subjects, unavailable = prepare(labels, Place(Path(folder), call_delay_ms))
        measurable = list(subjects)
        for number in range(plan.rounds):
            start = number % max(1, len(measurable))
            for label in measurable[start:] + measurable[:start]:
                gateway.announce(number, label)
                subjects[label].try_round(partial(measure_round, subjects[label], plan))
    rows = {label: subject.row() for label, subject in subjects.items()}
    return report.Results(labels=labels, rows=rows, unavailable=unavailable)


def main() -> None:
    arguments = read_arguments(
        "Measure MCP gateways over HTTP, over the same downstream server.", PROGRAMS, DEFAULT_RESULTS
    )
    plan = QUICK if arguments.quick else Plan()
    results = measure(arguments.labels, plan, arguments.delay_ms)
    print(report.text(results, SHEET))
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    settings = {**asdict(plan), "call_delay_ms": arguments.delay_ms}
    arguments.json.write_text(json.dumps(report.document(results, settings, SHEET), indent=2) + "\n")
    print(f"\nwritten to {arguments.json}")


if __name__ == "__main__":
    main()
