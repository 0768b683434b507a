"""`mcp-workbench serve --http`: what it needs before it listens, and what it tells its user."""

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
"""Files that the process may have open then, if the system lets it. A fourth of what it lets is for connections,
as many again for those that are being refused, and half for servers."""


class Untold(Exception):
    """A token was made up, and nobody can be told: there is no use in serving."""


def run_http(config: Config, origin: Origin, options: Mapping[str, str]) -> int:
    """The exit status."""
    _open_standard_streams()
    try:
        address = read_address(options["http"])
        tokens = find_tokens(address, os.environ, options.get("token_file", ""))
    except ConfigError as error:
        return report(error)
    from mcp_workbench.serve.http.listener import listen, serve  # noqa: PLC0415 -- what is wrong is told without it

    try:
        opened, address = listen(address)
        return serve(
            config, opened, address, tokens, limits=_limits(), ready=lambda: _tell(address, tokens), origin=origin
        )
    except ListenFailed as error:
        return report(error)
    except Untold:
        return FAILURE


def _open_standard_streams() -> None:
    """One that is closed is as good as /dev/null; else the first connection would get its number."""
    for standard in range(3):
        try:
            os.fstat(standard)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one


def _limits() -> Limits:
    """Connections must leave enough files for servers, on systems too where a process may have few open."""
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _count(files) < (wanted := min(_count(most), HTTP_FILES)):
        with contextlib.suppress(OSError, ValueError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
            files = wanted
    return replace(DEFAULTS, http_connections=min(DEFAULTS.http_connections, _count(files) // 4))


def _count(files: int) -> int:
    return sys.maxsize if files == resource.RLIM_INFINITY else files


def _tell(address: Address, tokens: Tokens) -> None:
    """Where it listens; and once, a token that was made up, with what a host needs to be told."""
    url = f"http://{address.reachable.shown}/mcp"
    text = f"MCP Workbench listens on {url}\n"
    if tokens.generated:
        host = {"mcpServers": {"workbench": {"url": url, "headers": {"Authorization": f"Bearer {tokens.generated}"}}}}
        text += (
            f"Its token, until it ends (set {VARIABLE} or --token-file for one that stays): {tokens.generated}\n"
            f"For a host's configuration:\n{json.dumps(host, indent=2)}\n"
        )
    if not _said(text) and tokens.generated:
        raise Untold


def _said(text: str) -> bool:
    """Whether it could be written; that nobody reads what is logged is no reason to end."""
    if sys.stderr is None:  # it was closed when Python started
        return False
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        with contextlib.suppress(OSError):
            sys.stderr.close()  # what is left in it would be tried again, and fail, at the very end
        return False
    return True
