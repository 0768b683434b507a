"""What every test gets: `async def` tests run in a loop of their own, and under CI a skip is a failure.

`make test` runs tests in several processes at once (pytest-xdist). A test knows nothing of the others: its files are
in its `tmp_path`, and its processes are found by a marker.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import re
import signal
import sys
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

    from tests.support.oauth import OAuthPeer

IN_CI = os.environ.get("CI") == "true"

# The tests start more than a thousand programs: without cached bytecode each would compile the package anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Collecting makes hundreds of thousands of objects that stay: see `pytest_collection_finish`.
gc.disable()

# Nothing is remembered from one test to another; a program that a test starts has a store of its own (`environment`).
os.environ["WORKBENCH_CATALOG"] = "none"
os.environ["WORKBENCH_RECORD"] = "none"

# A shell that runs us in the background has us ignore interrupts, and so would every program that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes tells how busy the machine is; tests that are about time measure processor time.
settings.register_profile(
    "busy", settings.default, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requirement(number, ...): the requirements of tests/requirements.py that it holds"
    )
    config.addinivalue_line("markers", "downloads: needs what tests/e2e/install.py downloads")
    config.addinivalue_line("markers", "row(number, ...): the rows of tests/faults/rows.py that it holds")


def pytest_xdist_auto_num_workers() -> int:
    """Three times as many as there are processors: tests also wait."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8) * 3


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """With `--dist load`, which is what `-n` means."""
    return OneByOne(config, log) if config.getoption("dist") == "load" else None


class OneByOne(LoadScopeScheduling):
    """Hands out one test at a time; but as a whole, and first, those that share something that takes long to make."""

    MODULES = (
        "test_inspector.py",
        "test_typescript_clients.py",
        "test_secrets.py",
        "test_real_servers.py",
        "test_search_real_servers.py",
        "test_http_hosts.py",
        "test_http_front.py",
        "test_sdk_servers.py",
        "test_http_real.py",
        "test_everything_server.py",
        "test_auth.py",
        "test_auth_hostile.py",
        "faults/test_http_servers.py",
        "servers/test_login.py",
        "e2e/test_meta_tools.py",
        "e2e/test_feature_002.py",
        "e2e/test_feature_007.py",
        "demo/test_demo_stdio.py",
    )
    TOGETHER: ClassVar = {
        "tokens": ("cli/test_tokens.py", "surfaces/test_answers.py", "e2e/test_few_tokens.py"),
        "syntax trees": ("faults/test_rows.py", "tests/test_requirements.py"),
    }
    """Modules that share what each process makes once."""
    CASE = re.compile(r"test_protocol\.py::.*\b(\w+-\w+-(?:default|toolbox|server))\]")

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget what is done: after every test all that a node still knows of is counted."""
        super().mark_test_complete(node, item_index, duration)
        known = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(known[scope].values()):
            del known[scope]

    def _split_scope(self, nodeid: str) -> str:
        module, _, _ = nodeid.partition("::")
        if case := self.CASE.search(nodeid):
            return case[1]
        if module.endswith(self.MODULES):
            return module
        return next((name for name, modules in self.TOGETHER.items() if module.endswith(modules)), nodeid)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: collections of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test to its end; there is no plugin for it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    shared = pyfuncitem.funcargs.get("shared_loop")
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    if shared:
        shared.run(test)
    else:
        asyncio.run(closing_sockets(test))
    return True


async def closing_sockets(test: Awaitable[None]) -> None:
    """Where a test fails, close what it left open: pytest would blame a later test for it."""
    try:
        await test
    except BaseException:
        loop: Any = asyncio.get_running_loop()
        for transport in list(loop._transports.values()):
            transport.abort()
        await asyncio.sleep(0)
        raise


@pytest.fixture(scope="module")
def shared_loop() -> Iterator[asyncio.Runner]:
    """One loop for the tests of a module that share what runs in it."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def oauth_running() -> Iterator[OAuthPeer]:
    """An authorization server and a server that it protects, for the tests of a module."""
    from tests.support.oauth import oauth_peer  # noqa: PLC0415 -- few modules need it

    with oauth_peer() as peer:
        yield peer


@pytest.fixture
def peer(oauth_running: OAuthPeer) -> OAuthPeer:
    """The same, as if it had just been started."""
    oauth_running.reset()
    return oauth_running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Under CI everything that the tests need is installed, so a skip hides a fault, unless the platform lacks it."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if "platform:" not in reason:
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped under CI: {reason}"
    return report
