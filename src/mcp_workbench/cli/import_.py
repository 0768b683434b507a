"""`mcp-workbench import`: the servers that hosts have become toolboxes of the workbench. Hosts are not changed."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from mcp_workbench.cli.answering import answered, print_json
from mcp_workbench.cli.consent import is_agreed
from mcp_workbench.cli.differences import differences
from mcp_workbench.cli.display import is_terminal, write
from mcp_workbench.cli.import_plan import Import, prepare_import
from mcp_workbench.cli.import_report import as_json, counted, outcome, report
from mcp_workbench.cli.target import Target, to_import
from mcp_workbench.errors import ConfigError

HELP = """Import the servers of your MCP hosts into the configuration of the workbench.

Reads the files of Claude Code, Claude Desktop, Cursor, VS Code, Windsurf, Codex, Gemini CLI and Zed, your
own and those in this folder. A server that several hosts have is imported once. Servers are grouped by
purpose into toolboxes such as 'code' or 'databases'; use --by-host for a toolbox for each host, or
--toolbox to put all into one. Secrets are not copied: they become ${NAME}, and the output names the
variables to set. Tools that a host excludes are excluded here too; a server with a rule that can't be
carried over is not imported. Your hosts' files are not changed; 'mcp-workbench install' does that."""


def run(options: Mapping[str, str]) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Mapping[str, str]) -> int:
    with to_import(options) as before:
        return _import(options, before)


def _import(options: Mapping[str, str], before: Target) -> int:
    done = prepare_import(options, before)
    is_dry = "dry_run" in options
    if "json" not in options:
        write(*report(done))
        if is_dry:
            write("", *differences(done.before, done.after))
    is_written = bool(done.new or done.lacking) and not is_dry and _may_write(done, options)
    if is_written:
        done.after.write()
    if "json" in options:
        print_json(as_json(done, written=is_written))
    else:
        write("", *outcome(done, written=is_written, is_dry=is_dry))
    return 0


def _may_write(done: Import, options: Mapping[str, str]) -> bool:
    """Whether the file is new, or somebody agrees to its change. Raises `ConfigError` where nobody can be asked."""
    if done.before.known is None or "force" in options:
        return True
    if "json" in options or not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        hint = "Pass --force to add to it, or --dry-run to see what would change."
        raise ConfigError("the file exists already", file=done.before.path, hint=hint)
    return is_agreed(f"Add {counted(done)} to {done.before.path}?")
