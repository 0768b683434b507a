"""`mcp-workbench auth`: logs in to a remote server, or logs out."""

from __future__ import annotations

from collections.abc import Mapping

HELP = """Log in to a remote server with OAuth, in your browser. 'mcp-workbench serve' then uses the login.

The command waits on a local port for the browser to return. If your browser is on another machine, use
--no-browser and paste the address that it ends at. The exit status is 1 if the login failed."""


def run(options: Mapping[str, str]) -> int:
    from mcp_workbench.cli import login  # noqa: PLC0415 -- large: HTTP

    return login.run(options)
