"""`mcp-workbench serve`: the workbench on stdin and stdout, for a host to start; or over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module

from mcp_workbench import observe
from mcp_workbench.cli.chosen import log_level
from mcp_workbench.cli.terminal import report
from mcp_workbench.config.load import load_config
from mcp_workbench.config.locate import find_config
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConfigError
from mcp_workbench.nearest import nearest_or_known
from mcp_workbench.shown import shown

HELP = """Serve the toolboxes of a configuration to an MCP host on stdin and stdout.

This is what a host starts; it is also what 'mcp-workbench' without a command does when its input is
not a terminal. Nothing else is started before the host needs it.

With --http it serves any number of hosts over HTTP, each with a token."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    try:
        observe.log.set_level(log_level(options, otherwise="info"))
        path = find_config(options.get("config"), os.environ, terminal=False)
        config = load_config(path, strict=True if "strict" in options else None)
        chosen = _chosen(config, options.get("toolbox", ""), options.get("server", ""))
        _check_http(options)
    except ConfigError as error:
        return report(error)
    observe.guard(lambda: config.secrets)
    for server in config.servers():
        for missing in server.missing:
            observe.warning("a variable is not set", variable=missing.variable, path=missing.path)
    if "http" in options:
        from mcp_workbench.cli.serve_http import run_http  # noqa: PLC0415 -- large

        return run_http(config, options)
    from mcp_workbench.serve.greeting import greet  # noqa: PLC0415 -- a wrong configuration is told without it
    from mcp_workbench.serve.streams import claim_standard_streams  # noqa: PLC0415
    from mcp_workbench.surfaces.hello import View  # noqa: PLC0415

    source, sink = claim_standard_streams()
    view = View(*chosen)
    greeting = greet(config, source, sink, view=view)
    _load_event_loop()
    from mcp_workbench.serve.stdio import serve  # noqa: PLC0415 -- large, so after the first answer

    return serve(config, source, sink, greeting, view=view)


def _load_event_loop() -> None:
    """Load asyncio without TLS, which it takes along where it can: megabytes for nothing, on stdin and stdout.

    `ssl` itself can be imported as ever afterwards; what speaks HTTP does not use asyncio's TLS.
    """
    if "ssl" in sys.modules or "asyncio" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # the import system's own word for "not there"
    try:
        import_module("asyncio")
    finally:
        del sys.modules["ssl"]


def _check_http(options: Mapping[str, str]) -> None:
    """Options that do not fit together. Raises `ConfigError`."""
    if "http" not in options:
        if "token_file" in options:
            raise ConfigError(
                "--token-file needs --http", hint="On stdin and stdout there is one client, and no token."
            )
    elif "toolbox" in options:
        hint = "Give clients the URL of what they should see: /mcp/TOOLBOX or /mcp/TOOLBOX/SERVER."
        raise ConfigError("--toolbox and --server are for stdin and stdout", hint=hint)


def _chosen(config: Config, toolbox: str, server: str) -> tuple[str, str]:
    """The toolbox and server to be served, if they exist. Raises `ConfigError`."""
    if server and not toolbox:
        raise ConfigError("--server needs --toolbox", hint="Say in which toolbox the server is: --toolbox NAME")
    if not toolbox:
        return "", ""
    if (chosen := config.toolboxes.get(toolbox)) is None:
        problem = f"Toolbox '{shown(toolbox)}' not found"
        raise ConfigError(problem, file=config.file, hint=nearest_or_known(toolbox, config.toolboxes, "toolboxes"))
    if server and server not in chosen.servers:
        problem = f"Server '{shown(server)}' not found in toolbox '{shown(toolbox)}'"
        raise ConfigError(problem, file=config.file, hint=nearest_or_known(server, chosen.servers, "servers"))
    return toolbox, server
