"""`mcp-workbench schema`: prints the JSON Schema of the configuration file, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from mcp_workbench.cli.terminal import say
from mcp_workbench.config.schema import json_schema

HELP = """Print the JSON Schema of the configuration file.

With the schema, an editor completes and checks the configuration while you write. Save it to a file, and put
the path of that file into the configuration as "$schema"."""


def run(options: Mapping[str, str]) -> int:
    del options
    say(json.dumps(json_schema(), indent=2))
    return 0
