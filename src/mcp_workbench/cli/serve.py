"""`mcp-workbench serve`: the workbench on stdin and stdout, for a host to start; or over HTTP."""

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

_FOR_A_PERSON = "Waiting for an MCP host, which starts this by itself: mcp-workbench install HOST. Ctrl-D ends it."


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    try:
        logger.log.set_level(log_level(options, otherwise="info"))
        config, origin = _load(options)
        chosen = _chosen(config, options)
        _check_http(options)
    except ConfigError as error:
        return report(error)
    logger.guard(lambda: config.secrets)  # those of a later configuration are known to the log by then
    for server in config.servers():
        for missing in server.missing:
            logger.warning("a variable is not set", variable=missing.variable, path=missing.path)
    if "http" in options:
        from mcp_workbench.cli.serve_http import run_http  # noqa: PLC0415 -- large

        return run_http(config, origin, options)
    from mcp_workbench.serve.early_initialize import (  # noqa: PLC0415 -- a wrong configuration is reported without it
        claim_standard_streams,
        greet,
    )
    from mcp_workbench.surfaces.server_info import View  # noqa: PLC0415

    if os.isatty(0) and sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] -- it may be closed
        sys.stderr.write(f"{_FOR_A_PERSON}\n")
    source, sink = claim_standard_streams()
    view = View(*chosen)
    greeting = greet(config, source, sink, view=view)
    _load_event_loop()
    from mcp_workbench.serve.stdio import serve  # noqa: PLC0415 -- large, so after the first answer

    return serve(config, source, sink, greeting, view=view, origin=_following(origin, options))


def _load(options: Mapping[str, str]) -> tuple[Config, Origin]:
    """The configuration that was named, else that of this folder if it is trusted as it is, else the user's own."""
    flag, strict = options.get("config"), True if "strict" in options else None
    if has_project_file(flag, os.environ):
        from mcp_workbench.storage import trusted_configs  # noqa: PLC0415 -- most starts are in no such folder

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
    """The same, for a configuration that has what is served."""

    def read() -> Config:
        config = origin.read()
        _chosen(config, options)
        return config

    return origin._replace(read=read)


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


def _chosen(config: Config, options: Mapping[str, str]) -> tuple[str, str]:
    """The toolbox and server to be served, if they exist. Raises `ConfigError`."""
    toolbox, server = options.get("toolbox", ""), options.get("server", "")
    if server and not toolbox:
        raise ConfigError("--server needs --toolbox", hint="Say in which toolbox the server is: --toolbox NAME")
    if not toolbox:
        return "", ""
    try:
        find_server(config, toolbox, server) if server else find_toolbox(config, toolbox)
    except RequestError as error:
        raise ConfigError(str(error), file=config.file, hint=error.hint) from None
    return toolbox, server
