"""Writes a configuration, loads it, and looks at what comes out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from mcp_workbench.config.load import load_config
from mcp_workbench.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_workbench.config.model import Config, ServerConfig

SECRET = "hunter2-correct-horse"  # noqa: S105 -- it is looked for where it must not be
ENVIRON = {"TOKEN": SECRET, "NAME": "value", "EMPTY": "", "ADDRESS": "https://a.example/mcp"}


@pytest.fixture
def secret() -> str:
    """The value of TOKEN, which must never be shown."""
    return SECRET


@pytest.fixture
def toolbox() -> Callable[[str], str]:
    """A file with one server in one toolbox, whose entry starts at line 2, column 1."""
    return lambda entry: '{"toolboxes": {"dev": {"description": "d", "mcpServers": {"fs":\n' + entry + "}}}}"


@pytest.fixture
def load(tmp_path):
    """Writes a file (text, bytes or values) and loads it."""

    def write_and_load(content, **options) -> Config:
        path = tmp_path / "c.json"
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o600)
        return load_config(path, **{"environ": ENVIRON, **options})

    return write_and_load


@pytest.fixture
def failure(load, tmp_path):
    """The error of loading such a file, which starts with its place."""

    def load_and_fail(content, **options) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            load(content, **options)
        assert str(caught.value).startswith(str(tmp_path / "c.json"))
        assert "\n" not in str(caught.value)
        return caught.value

    return load_and_fail


@pytest.fixture
def server(load):
    """Loads one server entry of a bare file."""

    def load_one(entry, **options) -> ServerConfig:
        return load({"mcpServers": {"s": entry}}, **options).toolboxes["default"].servers["s"]

    return load_one
