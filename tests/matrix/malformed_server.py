"""A server on stdio some of whose definitions official clients refuse: `malformed_server.py ERA`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import whole_server

SOUND: dict[str, Any] = {"description": "A sound tool", "inputSchema": {"type": "object"}}
DEFINITIONS: dict[str, dict[str, Any]] = {
    "sound": SOUND,
    "no_schema": {"description": "Without a schema"},
    "empty_schema": SOUND | {"inputSchema": {}},
    "null_schema": SOUND | {"inputSchema": None},
    "number_as_title": SOUND | {"annotations": {"title": 5}},
    "text_as_schema": SOUND | {"inputSchema": "object"},
    "list_as_description": SOUND | {"description": ["several"]},
    "sound_too": SOUND,
}


def says_its_name(_: whole_server.Server, call: whole_server.Call) -> dict[str, Any]:
    return whole_server.says(call.params["name"])


def main() -> None:
    whole_server.TOOLS.clear()
    for name, definition in DEFINITIONS.items():
        whole_server.TOOLS[name] = (says_its_name, whole_server.BOTH, {"name": name, **definition})
    whole_server.Server(sys.argv[1], "malformed").run()


if __name__ == "__main__":
    main()
