"""`mcp-workbench serve --http`: what it needs before it listens, and what it tells its user."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from mcp_workbench.cli.terminal import report
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConfigError, ListenFailed
from mcp_workbench.serve.http.address import Address, read_address
from mcp_workbench.serve.http.tokens import VARIABLE, Tokens, find_tokens


def run_http(config: Config, options: Mapping[str, str]) -> int:
    """The exit status."""
    try:
        address = read_address(options["http"])
        tokens = find_tokens(address, os.environ, options.get("token_file", ""))
    except ConfigError as error:
        return report(error)
    from mcp_workbench.serve.http.listener import listen, serve  # noqa: PLC0415 -- what is wrong is told without it

    try:
        opened, address = listen(address)
    except ListenFailed as error:
        return report(error)
    return serve(config, opened, address, tokens, ready=lambda: _tell(address, tokens))


def _tell(address: Address, tokens: Tokens) -> None:
    """Where it listens; and once, a token that was made up, with what a host needs to be told."""
    url = f"http://{address.reachable.shown}/mcp"
    sys.stderr.write(f"MCP Workbench listens on {url}\n")
    if tokens.generated:
        host = {"mcpServers": {"workbench": {"url": url, "headers": {"Authorization": f"Bearer {tokens.generated}"}}}}
        sys.stderr.write(
            f"Its token, until it ends (set {VARIABLE} or --token-file for one that stays): {tokens.generated}\n"
            f"For a host's configuration:\n{json.dumps(host, indent=2)}\n"
        )
    sys.stderr.flush()
