"""`mcp-workbench auth`: log in to a remote server, or out of it."""

from __future__ import annotations

from collections.abc import Mapping

HELP = """Log in to a remote server with OAuth, in your browser. 'mcp-workbench serve' then uses the login.

The command waits on a local port for the browser to return. If your browser is on another machine, use
--no-browser and paste the address that it ends at. The exit status is 1 if the login failed."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    from mcp_workbench.cli import login  # noqa: PLC0415 -- no other command at a terminal needs HTTP

    return login.run(options)
