"""INVARIANT: whatever bytes a configuration file has, loading it gives a `Config`, or a `ConfigError` that helps.

The error is one line, points into the file, repeats no value of the file or the environment, and comes at once.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from mcp_workbench import logger
from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import Limits
from mcp_workbench.workbench import Workbench
from tests.fuzz.corpus import pack

CANARY = re.compile(r"canary[0-9]+")
"""What values hold that must not be shown."""
_KEY = re.compile(r'"(?:[^"\\]|\\.)*"(?=(?:\s|//[^\n\r]*|/\*.*?\*/)*:)', re.DOTALL)
CPU_SECONDS = 2.0


def check(case: dict[str, Any]) -> dict[str, Any]:
    """`file` are the bytes of the file, `environ` the variables, `strict` as the command line has it.

    Whether it loads, or where the error is.
    """
    data, environ = pack(case["file"]), case.get("environ", {})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.json"
        path.write_bytes(data)
        began = time.process_time()
        try:
            config: Config | ConfigError = load_config(path, environ=environ, strict=case.get("strict"))
        except ConfigError as error:
            config = error
        assert time.process_time() - began < CPU_SECONDS
    secrets = _secrets(data, environ)
    if isinstance(config, ConfigError):
        _check_error(config, data, secrets)
        return {"line": config.line, "column": config.column}
    _check_config(config, secrets)
    return {"loads": True}


def _check_error(error: ConfigError, data: bytes, secrets: set[str]) -> None:
    shown = f"{error} {error.hint} {error!r} {error.problem} {error.path}"
    assert str(error).isprintable(), error
    assert error.hint.isprintable()
    assert len(shown) < 16_384
    assert not secrets & set(CANARY.findall(shown)), shown
    if error.line is None or error.column is None:
        assert error.line is error.column
        return
    lines = list(_lines(data))
    assert 1 <= error.line <= len(lines), error
    assert 1 <= error.column <= len(lines[error.line - 1]) + 1, error


def _check_config(config: Config, secrets: set[str]) -> None:
    """What loads can be used: its numbers are limits, and nothing that describes it shows a value."""
    shown = [repr(server) for server in config.servers()]
    shown += [f"{warning.path} {warning.message}" for warning in config.warnings]
    assert not secrets & set(CANARY.findall(" ".join(shown))), shown
    for warning in config.warnings:
        assert warning.message.isprintable()
        assert warning.line >= 1
        assert warning.column >= 1
    with mock.patch.object(logger.log, "redact", logger.Redactor()):
        limits = Workbench(config).limits
    assert all(value > 0 for name, value in _numbers(limits) if name.startswith(("startup", "call_", "in_flight")))


def _numbers(limits: Limits) -> Iterator[tuple[str, float]]:
    for name in limits.__struct_fields__:
        yield name, getattr(limits, name)


def _secrets(data: bytes, environ: dict[str, str]) -> set[str]:
    """What stands in values; what stands in keys as well may be shown, since a path has to."""
    text = data.decode("utf-8", "replace")
    in_keys = {canary for key in _KEY.findall(text) for canary in CANARY.findall(key)}
    return {*CANARY.findall(text), *(one for value in environ.values() for one in CANARY.findall(value))} - in_keys


def _lines(data: bytes) -> Iterator[str]:
    """As an editor counts them; what is no text at all counts as one character each."""
    text = data.decode("utf-8-sig", "replace")
    start = 0
    for match in re.finditer(r"\r\n|\r|\n", text):
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]
