"""`mcp-workbench serve`: serves an MCP host on stdin and stdout, or hosts over HTTP."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib import import_module

from mcp_workbench import logger
from mcp_workbench.cli.config_selection import log_level
from mcp_workbench.cli.terminal import report
from mcp_workbench.config.load import config_of, load_config
from mcp_workbench.config.locate import FILE_NAME, VARIABLE, Origin, find_config, has_project_file, origin_of
from mcp_workbench.config.model import Config, find_server, find_toolbox
from mcp_workbench.errors import ConfigError, RequestError

HELP = """Serve the toolboxes of a configuration to an MCP host on stdin and stdout.

Hosts start this command. 'mcp-workbench' without a command does the same if its input is not a terminal. A
server starts only when the host needs it.

With --http it serves any number of hosts over HTTP, each with a token."""

_FOR_A_PERSON = "Waiting for an MCP host. Hosts start this command: mcp-workbench install HOST. Ctrl-D stops it."


def run(options: Mapping[str, str]) -> int:
    try:
        logger.log.set_level(log_level(options, default="info"))
        config, origin = _load(options)
        selected = _chosen(config, options)
        _check_http(options)
    except ConfigError as error:
        return report(error)
    logger.guard(lambda: config.secrets)  # the log learns later secrets when a configuration is reloaded
    for server in config.servers():
        for missing in server.missing:
            logger.warning("a variable is not set", variable=missing.variable, path=missing.path)
    if "http" in options:
        from mcp_workbench.cli.serve_http import run_http  # noqa: PLC0415 -- large

        return run_http(config, origin, options)
    from mcp_workbench.serve.early_initialize import (  # noqa: PLC0415 -- not needed to report an invalid configuration
        claim_standard_streams,
        greet,
    )
    from mcp_workbench.surfaces.server_info import View  # noqa: PLC0415

    if os.isatty(0) and sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] -- it may be closed
        sys.stderr.write(f"{_FOR_A_PERSON}\n")
    source, sink = claim_standard_streams()
    view = View(*selected)
    greeting = greet(config, source, sink, view=view)
    _load_event_loop()
    from mcp_workbench.serve.stdio import serve  # noqa: PLC0415 -- large, so it loads after the first answer

    return serve(config, source, sink, greeting, view=view, origin=_following(origin, options))


def _load(options: Mapping[str, str]) -> tuple[Config, Origin]:
    """Load the named configuration, else that of this folder if it is trusted, else the user's own."""
    flag, strict = options.get("config"), True if "strict" in options else None
    if has_project_file(flag, os.environ):
        from mcp_workbench.storage import trusted_configs  # noqa: PLC0415 -- few folders have a configuration

        files = (os.path.abspath(FILE_NAME), trusted_configs.store_path(os.environ))  # noqa: PTH100 -- pathlib is not loaded
        origin = origin_of(files, lambda: config_of(trusted_configs.trusted_again(os.environ), strict=strict))
        if (source := trusted_configs.trusted_source(os.environ)) is not None:
            return config_of(source, strict=strict), origin
    file = find_config(flag, os.environ)
    origin = origin_of((os.path.abspath(file),), lambda: load_config(file, strict=strict))  # noqa: PTH100
    config = origin.read()
    if not flag and not os.environ.get(VARIABLE):
        logger.info("the configuration was read", file=config.file)
    return config, origin


def _following(origin: Origin, options: Mapping[str, str]) -> Origin:
    """Make reloads fail if the new configuration lacks the served toolbox or server."""

    def read() -> Config:
        config = origin.read()
        _chosen(config, options)
        return config

    return origin._replace(read=read)


def _load_event_loop() -> None:
    """Load asyncio without `ssl`, which it imports if it can: megabytes that stdin and stdout do not need.

    `ssl` can be imported as usual afterwards. HTTP clients here do not use asyncio's TLS.
    """
    if "ssl" in sys.modules or "asyncio" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]  # makes the import system raise ImportError
    try:
        import_module("asyncio")
    finally:
        del sys.modules["ssl"]


def _check_http(options: Mapping[str, str]) -> None:
    """Raise `ConfigError` for options that exclude each other."""
    if "http" not in options:
        if "token_file" in options:
            raise ConfigError("--token-file needs --http", hint="A client on stdin and stdout needs no token.")
    elif "toolbox" in options:
        hint = "Clients choose by URL: /mcp/TOOLBOX or /mcp/TOOLBOX/SERVER."
        raise ConfigError("--toolbox and --server do not work with --http", hint=hint)


def _chosen(config: Config, options: Mapping[str, str]) -> tuple[str, str]:
    """The toolbox and server to serve. Raises `ConfigError` if they do not exist."""
    toolbox, server = options.get("toolbox", ""), options.get("server", "")
    if server and not toolbox:
        raise ConfigError("--server needs --toolbox", hint="Name the toolbox of the server: --toolbox NAME")
    if not toolbox:
        return "", ""
    try:
        find_server(config, toolbox, server) if server else find_toolbox(config, toolbox)
    except RequestError as error:
        raise ConfigError(str(error), file=config.file, hint=error.hint) from None
    return toolbox, server
