"""`mcp-workbench check`: reports errors in a configuration, or lists its contents. It starts nothing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp_workbench.cli.config_selection import source_to_look_at
from mcp_workbench.cli.display import Block, Words, write
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.server_states import Found, known_tools, server_count, state_of
from mcp_workbench.cli.terminal import USAGE
from mcp_workbench.config.model import Endpoint, ServerConfig, ToolboxConfig
from mcp_workbench.doctor.config_checks import CONFIG_WARNING, ConfigChecks, inspect
from mcp_workbench.doctor.descriptions import description_findings
from mcp_workbench.doctor.findings import Finding
from mcp_workbench.text.redact import SECRET_LENGTH
from mcp_workbench.text.sanitize import count, escape

HELP = """Check a configuration: report its errors, or list its contents.

Nothing is started. The tool counts come from the last lists of the servers, if you trust the file. The exit
status is 0 if the configuration is valid, and 2 if it is not or if a variable that it needs is not set."""

_NOT_TRUSTED = "note: you have not trusted this version of the file, so other commands ask before they use it"


def run(options: Mapping[str, str]) -> int:
    source, is_trusted = source_to_look_at(options)
    entries = inspect(source)
    config = entries.config
    known = known_tools(config, config.servers()) if is_trusted else {}  # an untrusted file may name any catalog
    missing = any(server.missing for server in config.servers())
    if "json" in options:
        print_json(_as_json(entries, known))
    else:
        write(*_as_text(entries, known))
        if not is_trusted:
            write("", _NOT_TRUSTED)
    return USAGE if missing else 0


def _as_text(entries: ConfigChecks, known: Found) -> Iterator[Block]:
    config = entries.config
    yield f"{config.file}: {count(len(config.toolboxes), 'toolbox', 'toolboxes')}, {server_count(config)}"
    yield f"mode: {config.tool_mode}"
    for toolbox in config.toolboxes.values():
        yield ""
        yield Words(f"{escape(toolbox.name)}: {escape(' '.join(toolbox.description.split()))}", "strong")
        for server in toolbox.servers.values():
            yield from _server_lines(server, known)
        for name in toolbox.disabled:
            yield Words(f"{escape(name)}: disabled", "quiet", 2)
    if warnings := entries.warnings():
        yield ""
        yield from warning_lines(config.file, warnings)
    for finding in description_findings(config.toolboxes.values()):
        yield ""
        yield f"note: {finding.message}"
        yield f"  do: {finding.advice}"


def _server_lines(server: ServerConfig, known: Found) -> Iterator[Block]:
    yield Words(f"{escape(server.name)}: {_target(server)}", indent=2)
    if server.tool_filters:
        yield Words(f"tools: {', '.join(escape(pattern) for pattern in server.tool_filters)}", indent=4)
    if (listed := known.get(server.identifier)) is not None and not server.missing:
        yield Words(state_of(server, listed).text, "quiet", 4)
    for missing in server.missing:
        yield Words(f"error: ${{{missing.variable}}} is not set ({missing.path}, line {missing.line})", "bad", 4)


def _as_json(entries: ConfigChecks, known: Found) -> dict[str, Any]:
    config = entries.config
    return {
        "ok": not any(server.missing for server in config.servers()),
        "file": config.file,
        "toolMode": config.tool_mode,
        "toolboxes": {toolbox.name: _toolbox_json(toolbox, known) for toolbox in config.toolboxes.values()},
        "warnings": warnings_json(entries.warnings()),
        "notes": [
            {"code": finding.code, "message": finding.message, "advice": finding.advice}
            for finding in description_findings(config.toolboxes.values())
        ],
    }


def _toolbox_json(toolbox: ToolboxConfig, known: Found) -> dict[str, Any]:
    return {
        "description": toolbox.description,
        "servers": {name: _server_json(server, known) for name, server in toolbox.servers.items()},
        "disabled": list(toolbox.disabled),
    }


def _server_json(server: ServerConfig, known: Found) -> dict[str, Any]:
    listed = known.get(server.identifier)
    return {
        "transport": _transport(server),
        "toolFilters": list(server.tool_filters),
        "missing": [{"variable": missing.variable, "path": missing.path} for missing in server.missing],
        "toolCount": None if listed is None else listed.listing.count.offered,
        "withheldCount": None if listed is None else listed.listing.count.withheld,
    }


def _target(server: ServerConfig) -> str:
    """How the server is reached, without the values of variables."""
    if isinstance(server.target, Endpoint):
        return f"reached over {_transport(server)}"
    hidden = (value for value in server.secrets if len(value) >= SECRET_LENGTH)
    secret = any(value in server.target.command for value in hidden)
    command = "***" if secret else os.path.basename(server.target.command)  # noqa: PTH119 -- any text
    return f"starts {escape(command)} with {count(len(server.target.args), 'argument')}"


def _transport(server: ServerConfig) -> str:
    return server.target.transport if isinstance(server.target, Endpoint) else "stdio"


def warning_lines(file: str, warnings: Iterable[Finding]) -> Iterator[Words]:
    """Warnings as text. The position comes first, in the form that editors recognize."""
    for warning in warnings:
        where = f"{escape(file, len(file))}:"
        if warning.path:
            where += f"{warning.line}:{warning.column}: {warning.path}:" if warning.line else f" {warning.path}:"
        yield Words(f"warning: {where} {warning.text}", "doubtful")
        if warning.code != CONFIG_WARNING:  # their text contains the advice
            yield Words(f"do: {warning.advice}", indent=2)


def warnings_json(warnings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Warnings as JSON."""
    members = ("code", "path", "line", "column", "advice")
    return [
        {member: getattr(warning, member) for member in members} | {"message": warning.text} for warning in warnings
    ]
