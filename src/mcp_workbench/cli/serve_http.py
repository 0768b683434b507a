"""`mcp-workbench serve --http`: prepares the process, listens, and prints the address and a generated token."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Mapping

from msgspec.structs import replace

from mcp_workbench.cli.terminal import FAILURE, report
from mcp_workbench.command_errors import ListenFailed
from mcp_workbench.config.locate import Origin
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.serve.http.address import Address, read_address
from mcp_workbench.serve.http.tokens import VARIABLE, Tokens, find_tokens

HTTP_FILES = 4096
"""The limit on open files that we request. A quarter of the limit is for connections, a quarter for
connections being refused, and half for servers."""


class TokenNotShown(Exception):
    """A generated token could not be shown, so no client could connect."""


def run_http(config: Config, origin: Origin, options: Mapping[str, str]) -> int:
    _open_standard_streams()
    try:
        address = read_address(options["http"])
        tokens = find_tokens(address, os.environ, options.get("token_file", ""))
    except ConfigError as error:
        return report(error)
    from mcp_workbench.serve.http.listener import listen, serve  # noqa: PLC0415 -- not needed to report an error

    try:
        opened, address = listen(address)
        return serve(
            config,
            opened,
            address,
            tokens,
            limits=_limits(),
            ready=lambda: _announce(address, tokens),
            origin=origin,
        )
    except ListenFailed as error:
        return report(error)
    except TokenNotShown:
        return FAILURE


def _open_standard_streams() -> None:
    """Replace closed standard streams with /dev/null: otherwise a connection would get their number."""
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest free number, which is this one


def _limits() -> Limits:
    """Limit connections so that enough files remain for servers."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _count(files) < (wanted := min(_count(most), HTTP_FILES)):
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they report
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            files = wanted
    return replace(DEFAULTS, http_connections=min(DEFAULTS.http_connections, _count(files) // 4))


def _count(files: int) -> int:
    return sys.maxsize if files == resource.RLIM_INFINITY else files


def _announce(address: Address, tokens: Tokens) -> None:
    """Print the address, and a generated token with an entry for a host's configuration."""
    url = f"http://{address.reachable.shown}/mcp"
    text = f"MCP Workbench listens on {url}\n"
    if tokens.generated:
        host = {"mcpServers": {"workbench": {"url": url, "headers": {"Authorization": f"Bearer {tokens.generated}"}}}}
        text += (
            f"Token, valid until it stops (use {VARIABLE} or --token-file for a permanent one): {tokens.generated}\n"
            f"For a host's configuration:\n{json.dumps(host, indent=2)}\n"
        )
    if not _write_stderr(text) and tokens.generated:
        raise TokenNotShown


def _write_stderr(text: str) -> bool:
    """Write to stderr; return whether that worked. Serving goes on without a log."""
    if sys.stderr is None:  # it was closed when Python started
        return False
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        with contextlib.suppress(OSError):
            sys.stderr.close()  # otherwise Python would flush it at exit, and fail
        return False
    return True
