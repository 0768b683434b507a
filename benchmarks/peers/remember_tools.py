"""Fill the catalog store of a configuration without starting its servers: `remember_tools.py CONFIG TOOLS`.

TOOLS is a JSON file: toolbox, server, definitions. `serve` then answers as it does after every server has listed its
tools once. It runs in the Python of the workbench that is measured, and uses that one's own store.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.cache.server_cache import ServerCache
from mcp_workbench.config.load import load_config
from mcp_workbench.limits import DEFAULTS


def main() -> None:
    config = load_config(Path(sys.argv[1]))
    tools: dict[str, dict[str, list[Any]]] = json.loads(Path(sys.argv[2]).read_text())
    memory = ServerCache(config, DEFAULTS)
    servers = list(config.servers())
    for server, record in zip(servers, memory.of(servers, Raw(b"{}"), modern=False), strict=True):
        items = [Raw(msgspec.json.encode(one)) for one in tools[server.toolbox][server.name]]
        record.put("tools", record.draft(items, modern=False, offers={"tools"}))
    memory.close()


if __name__ == "__main__":
    main()
