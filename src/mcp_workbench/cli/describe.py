"""`mcp-workbench describe`: changes the description of a toolbox. It starts nothing."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_workbench.cli.config_edit import to_edit, unknown
from mcp_workbench.cli.display import write
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.terminal import note
from mcp_workbench.doctor.descriptions import weakness
from mcp_workbench.text.sanitize import escape

HELP = """Change the description of a toolbox.

Agents choose a toolbox by its description: say what an agent can do with it. The file keeps its comments,
order and layout.

\b
  mcp-workbench describe code 'Read and write the files of my projects; work with their Git history'"""


def run(options: Mapping[str, str]) -> int:
    toolbox, text = options["toolbox"], options["text"]
    with to_edit(options) as target:
        before = target.descriptions()
        if toolbox not in before:
            raise unknown("toolbox", toolbox, list(before), target)
        changed = target.with_member(("toolboxes", toolbox, "description"), text)
        changed.write()
    problem = weakness(changed.checked().toolboxes[toolbox])
    if "json" in options:
        told = {"ok": True, "file": str(target.path), "toolbox": toolbox, "description": text}
        print_json({**told, "before": before[toolbox], "note": problem or None})
        return 0
    write(f"described {escape(toolbox)} in {target.path}")
    if problem:
        note(f"note: {problem}")
    return 0
