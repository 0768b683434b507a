"""`mcp-workbench schema`: the JSON Schema of the configuration file, for editors."""

from __future__ import annotations

import json
from collections.abc import Mapping

from mcp_workbench.cli.terminal import say
from mcp_workbench.config.schema import json_schema

HELP = """Print the JSON Schema of the configuration file.

Editors that know it complete and check the file while it is written: put its place into the file as
"$schema"."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    del options
    say(json.dumps(json_schema(), indent=2))
    return 0
