"""`mcp-workbench demo`: see it work, on servers that come with it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

HELP = """Show what the workbench does, with small MCP servers that come with it.

It starts the workbench as a host would, opens toolboxes, calls tools and ends by itself. It needs no
network and changes nothing."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    del options
    from mcp_workbench.demo.story import run as tell  # noqa: PLC0415 -- the official client is a large import

    return asyncio.run(tell())
