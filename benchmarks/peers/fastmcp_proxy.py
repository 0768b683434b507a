"""FastMCP's mounted proxy in front of one stdio server, over stdio or HTTP.

fastmcp_proxy.py [--http PORT] COMMAND [ARGUMENT...]
"""

from __future__ import annotations

import sys

from fastmcp import FastMCP
from fastmcp.client.transports import StdioTransport
from fastmcp.server import create_proxy


def main() -> None:
    given = sys.argv[1:]
    port = int(given[1]) if given[0] == "--http" else None
    command, *args = given if port is None else given[2:]
    front = FastMCP("bench")
    # The server stays up between calls. A configuration, a client or another `mode` is no faster.
    front.mount(create_proxy(StdioTransport(command, args), name="raw"), namespace="raw")
    if port is None:
        front.run(transport="stdio", show_banner=False)
    else:
        front.run(transport="http", host="127.0.0.1", port=port, log_level="warning", show_banner=False)


if __name__ == "__main__":
    main()
