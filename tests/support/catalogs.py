"""Configurations for commands at a terminal, and a store that knows their servers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.support.configs import Server, Toolboxes, write_config
from tests.support.screens import piped
from tests.support.warm import warm_server
from tests.support.wire import environment


def desk(**fields: Any) -> Server:
    """A server on the official SDK, with typed parameters, a form and media."""
    return warm_server("desk_server") | fields


def home(folder: Path) -> dict[str, str]:
    """The environment of a person whose files are all below a folder, and whose store is there."""
    variables = environment(folder / "home")
    variables.pop("WORKBENCH_CATALOG", None)
    return {**os.environ, **variables, "WORKBENCH_CATALOG": str(folder / "catalog.sqlite")}


def listed(folder: Path, toolboxes: Toolboxes, **settings: Any) -> dict[str, str]:
    """The environment of a person with these toolboxes, whose servers listed their tools before."""
    env = configured(folder, toolboxes, **settings)
    done = piped("refresh", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return env


def configured(folder: Path, toolboxes: Toolboxes, **settings: Any) -> dict[str, str]:
    """The same for servers of which nothing is known yet."""
    return {**home(folder), "WORKBENCH_CONFIG": str(write_config(folder, toolboxes, **settings))}
