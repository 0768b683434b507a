"""`mcp-workbench check`: what is wrong with a configuration, or what is in it. It starts nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from mcp_workbench.cli.chosen import refuse
from mcp_workbench.cli.terminal import USAGE, say
from mcp_workbench.config.load import load_config
from mcp_workbench.config.locate import find_config
from mcp_workbench.config.model import Config, Endpoint, ServerConfig
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.shown import shown

HELP = """Check a configuration: say what is wrong with it, or list what is in it.

Nothing is started. The exit status is 0 if the configuration can be used, 2 if it can't or if a
variable that it needs is not set."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    try:
        path = find_config(options.get("config"), os.environ, terminal=True)
        config = load_config(path, strict=False)  # every missing variable is listed, not the first alone
    except ConfigError as error:
        return refuse(error, options)
    missing = any(server.missing for server in config.servers())
    if "json" in options:
        say(json.dumps(_as_json(config), ensure_ascii=False))
    else:
        for line in _as_text(config):
            say(line)
    return USAGE if missing else 0


def _as_text(config: Config) -> Iterator[str]:
    servers = list(config.servers())
    yield f"{config.file}: {_count(config.toolboxes, 'toolbox', 'toolboxes')}, {_count(servers, 'server')}"
    yield f"mode: {config.tool_mode}"
    for toolbox in config.toolboxes.values():
        yield ""
        yield f"{shown(toolbox.name)}: {shown(' '.join(toolbox.description.split()))}"
        for server in toolbox.servers.values():
            yield f"  {shown(server.name)}: {_target(server)}"
            if server.tool_filters:
                yield f"    tools: {', '.join(shown(pattern) for pattern in server.tool_filters)}"
            for missing in server.missing:
                yield f"    error: ${{{missing.variable}}} is not set ({missing.path}, line {missing.line})"
    if config.warnings:
        yield ""
    for warning in config.warnings:
        yield f"warning: {config.file}:{warning.line}:{warning.column}: {warning.path}: {warning.message}"


def _as_json(config: Config) -> dict[str, Any]:
    return {
        "ok": not any(server.missing for server in config.servers()),
        "file": config.file,
        "toolMode": config.tool_mode,
        "toolboxes": {
            toolbox.name: {
                "description": toolbox.description,
                "servers": {name: _server_json(server) for name, server in toolbox.servers.items()},
            }
            for toolbox in config.toolboxes.values()
        },
        "warnings": [
            {"path": warning.path, "line": warning.line, "column": warning.column, "message": warning.message}
            for warning in config.warnings
        ],
    }


def _server_json(server: ServerConfig) -> dict[str, Any]:
    return {
        "transport": _transport(server),
        "toolFilters": list(server.tool_filters),
        "missing": [{"variable": missing.variable, "path": missing.path} for missing in server.missing],
    }


def _target(server: ServerConfig) -> str:
    """How it is reached, without anything that a variable brought in."""
    if isinstance(server.target, Endpoint):
        return f"reached over {_transport(server)}"
    hidden = (value for value in server.secrets if len(value) >= DEFAULTS.secret_length)
    secret = any(value in server.target.command for value in hidden)
    command = "***" if secret else os.path.basename(server.target.command)  # noqa: PTH119 -- no path is meant
    return f"starts {shown(command)} with {_count(server.target.args, 'argument')}"


def _transport(server: ServerConfig) -> str:
    return server.target.transport if isinstance(server.target, Endpoint) else "stdio"


def _count(things: Any, one: str, many: str = "") -> str:
    return f"{len(things)} {one if len(things) == 1 else many or one + 's'}"
