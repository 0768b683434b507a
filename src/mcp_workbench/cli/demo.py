"""`mcp-workbench demo`: shows the workbench with bundled servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

HELP = """Show what the workbench does, with small bundled MCP servers.

The demo starts the workbench as a host would, opens toolboxes, calls tools and exits. It needs no network
and changes nothing."""


def run(options: Mapping[str, str]) -> int:
    del options
    from mcp_workbench.demo.tour import run as tell  # noqa: PLC0415 -- only this command needs it

    return asyncio.run(tell())
