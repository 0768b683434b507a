"""What every test gets: `async def` tests run in a loop of their own, and under CI a skip is a failure."""

from __future__ import annotations

import asyncio
import inspect
import os

import pytest

IN_CI = os.environ.get("CI") == "true"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "requirement(number, ...): the requirements of tests/requirements.py that it holds"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test to its end; there is no plugin for it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


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
