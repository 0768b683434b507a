"""`mcp-workbench remove`: removes a server or a toolbox from the configuration. It stops nothing."""

from __future__ import annotations

from collections.abc import Mapping

from mcp_workbench.cli.config_edit import Target, to_change, unknown
from mcp_workbench.cli.display import write
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.config.load import DEFAULT_TOOLBOX
from mcp_workbench.errors import ConfigError
from mcp_workbench.text.sanitize import escape, slashed

HELP = """Remove a server from a toolbox, or a whole toolbox from the configuration.

Its comments are removed too. Everything else in the file stays unchanged."""


def run(options: Mapping[str, str]) -> int:
    toolbox, server = options["toolbox"], options.get("server", "")
    with to_change(options) as target:
        if target.known is None:
            raise ConfigError("there is no configuration yet", file=target.path, hint="Add a server first.")
        if toolbox not in (servers := target.servers()):
            raise unknown("toolbox", toolbox, list(servers), target)
        changed = _without_server(target, toolbox, server) if server else _without_toolbox(target, toolbox)
        changed.write()
    what = slashed(toolbox, server) if server else f"toolbox {escape(toolbox)}"
    if "json" in options:
        print_json({"ok": True, "file": str(target.path), "toolbox": toolbox, "server": server or None})
    else:
        write(f"removed {what} from {target.path}")
    return 0


def _without_server(target: Target, toolbox: str, server: str) -> Target:
    servers = target.servers()[toolbox]
    if server not in servers:
        raise unknown("server", server, list(servers), target)
    if len(servers) == 1 and not target.is_bare:
        problem = f"'{escape(server)}' is the only server of toolbox '{escape(toolbox)}'"
        raise ConfigError(problem, file=target.path, hint=f"Remove both: mcp-workbench remove {escape(toolbox)}")
    return target.without_member(target.place(toolbox, server))


def _without_toolbox(target: Target, toolbox: str) -> Target:
    if target.is_bare:
        hint = f"The file has only mcpServers, which make up the toolbox '{DEFAULT_TOOLBOX}'. Remove its servers."
        raise ConfigError("the only toolbox can't be removed", file=target.path, hint=hint)
    return target.without_member(("toolboxes", toolbox))
