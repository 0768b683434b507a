"""FastMCP's mounted proxy in front of one stdio server: `fastmcp_proxy.py COMMAND [ARGUMENT...]`."""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


def main() -> None:
    command, *args = sys.argv[1:]
    front = FastMCP("bench")
    # The server stays up between calls. A configuration, a client or another `mode` is no faster.
    front.mount(create_proxy(StdioTransport(command, args), name="raw"), namespace="raw")
    front.run(transport="stdio", show_banner=False)


if __name__ == "__main__":
    main()
