"""How `import` shows the variables that servers need: those that a person sets, and folders that hosts fill in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from mcp_workbench.cli.display import Block, Words
from mcp_workbench.config.inherited import HOST_FOLDERS
from mcp_workbench.hosts.plan import Planned
from mcp_workbench.text.sanitize import slashed

_SET = (
    "Set these variables to try the servers here: their values were not copied.",
    "In a host, 'install HOST --remove-imported' keeps the values that its file has.",
)
_FILLED_IN = ("Hosts fill these in, once 'install HOST --remove-imported' has moved the servers.",)


def variable_lines(variables: Mapping[str, Sequence[Planned]]) -> Iterator[Block]:
    """The variables, each with the servers that need it."""
    folders = {name: servers for name, servers in variables.items() if name in HOST_FOLDERS}
    others = {name: servers for name, servers in variables.items() if name not in folders}
    for heading, needed in ((_SET, others), (_FILLED_IN, folders)):
        if needed:
            yield ""
            yield from (Words(line, "doubtful") for line in heading)
        for name, servers in needed.items():
            is_set = " (is set here)" if name in os.environ else ""
            yield f"  {name}{is_set}  for {', '.join(slashed(one.toolbox, one.name) for one in servers)}"
