"""The restrictions of Gemini CLI: lists of servers and tools in its settings, disabled servers, and policies.

It names a tool `mcp_SERVER_TOOL` and replaces every character outside `A-Za-z0-9_.:-` by an underscore. Checked against
version 0.61.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from mcp_workbench.hosts.registry import HostEnvironment
from mcp_workbench.hosts.restrictions.rules import (
    ARGUMENTS,
    ASKS,
    EVERYTHING,
    Rule,
    Settings,
    Subject,
    excluded,
    exclusions,
    name_and_content,
    not_carried,
    read,
    read_folder,
    remainders,
    scoped,
    turned_off,
)

_START = "mcp_"
_BUILT_IN = re.compile(r"(?:run_shell_command|[A-Z]\w*Tool)(?:\(.*\))?", re.DOTALL)
"""The tool for shell commands and class names of built-in tools. None of them is an MCP tool."""
_CONDITIONS = ("argsPattern", "commandPrefix", "commandRegex", "toolAnnotations", "subagent", "modes", "interactive")


def load(environment: HostEnvironment, given: Settings) -> Callable[[Subject], Iterator[Rule]]:
    """Read every file once, and return the rules for a server. `given` is the file with the servers.

    Raises `HostFileError`.
    """
    settings = list(_settings(environment, given))
    folder = _folder(environment)
    enablement = list(read(folder / "mcp-server-enablement.json"))
    folders = (folder / "policies", _system(environment) / "policies")
    policies = [item for host_file in folders for item in read_folder(host_file, ".toml", "toml")]

    def rules(subject: Subject) -> Iterator[Rule]:
        for item in settings:
            yield from scoped(_servers(item, subject.name), item.project, subject)
            yield from scoped(_tools(item, subject.name), item.project, subject)
        for item in enablement:
            yield from _switched(item, subject.name)
        yield from _policies(policies, subject.name)

    return rules


def _folder(environment: HostEnvironment) -> Path:
    named = environment.environ.get("GEMINI_CLI_HOME", "")
    return (Path(named) if named.startswith("/") else environment.home) / ".gemini"


def _system(environment: HostEnvironment) -> Path:
    return environment.system / ("Library/Application Support/GeminiCli" if environment.is_mac else "etc/gemini-cli")


def _settings(environment: HostEnvironment, given: Settings) -> Iterator[Settings]:
    system = _system(environment)
    paths = {
        Path(environment.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or system / "settings.json"): None,
        Path(environment.environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH") or system / "system-defaults.json"): None,
        environment.project / ".gemini/settings.json": environment.project,
        _folder(environment) / "settings.json": None,
    }
    yield given
    for path, project in paths.items():
        if path != given.path:
            yield from read(path, project)


def _servers(settings: Settings, server: str) -> Iterator[Rule]:
    for keys in (("mcp", "excluded"), ("excludeMCPServers",)):
        if _normalized(server) in map(_normalized, settings.names(*keys)):
            yield turned_off(f"{'.'.join(keys)} {server}", settings.path)
    for keys in (("mcp", "allowed"), ("allowMCPServers",)):
        allowed = settings.names(*keys)
        if allowed and _normalized(server) not in map(_normalized, allowed):
            yield turned_off(f"{'.'.join(keys)} without {server}", settings.path)


def _normalized(name: str) -> str:
    return name.lower().strip()


def _tools(settings: Settings, server: str) -> Iterator[Rule]:
    for keys in (("tools", "exclude"), ("excludeTools",)):
        for rule in settings.names(*keys):
            yield from _denied(f"{'.'.join(keys)} {rule}", rule, server, settings.path)
    for rule in settings.names("tools", "confirmationRequired"):
        for denied_rule in _denied(f"tools.confirmationRequired {rule}", rule, server, settings.path):
            yield not_carried(denied_rule.text, denied_rule.file, ASKS)


def _denied(text: str, rule: str, server: str, path: Path) -> Iterator[Rule]:
    """The rule, if it concerns this server. A name without prefix concerns that tool of every server."""
    if _BUILT_IN.fullmatch(rule):
        return
    name, argument = name_and_content(rule)
    tools = _matched_tools(name, server) if name.startswith((_START, EVERYTHING)) else [name]
    if tools and argument not in ("", EVERYTHING):
        yield not_carried(text, path, ARGUMENTS)
    elif tools:
        yield _rule(text, tools, path)


def _matched_tools(name: str, server: str) -> list[str]:
    """The tools of a server that a qualified name or pattern matches. Long names have `...` in the middle."""
    plain = re.sub(r"[^a-zA-Z0-9_\-.:]", "_", server)
    prefix = plain if plain.startswith(_START) else f"{_START}{plain}"
    return remainders(name.replace("...", EVERYTHING), f"{prefix}_")


def _rule(text: str, tools: list[str], path: Path) -> Rule:
    if EVERYTHING in tools:
        return turned_off(text, path)
    return excluded(text, path, [pattern for tool in tools for pattern in (*exclusions(tool), f"!{tool}")])


def _switched(settings: Settings, server: str) -> Iterator[Rule]:
    """Servers that `gemini mcp disable` turned off."""
    state = settings.at(_normalized(server))
    if isinstance(state, Mapping) and cast("Mapping[str, Any]", state).get("enabled") is False:
        yield turned_off(f"gemini mcp disable {server}", settings.path)


def _policies(files: list[Settings], server: str) -> Iterator[Rule]:
    """Rules of the policy engine. If an `allow` may override a `deny`, the rule counts as not carried over."""
    matching = [
        (file, rule, tools) for file in files for rule in file.tables("rule") if (tools := _matched(rule, server))
    ]
    exceptions = any(rule.get("decision") == "allow" for _, rule, _ in matching)
    for file, rule, tools in matching:
        text = f"policy {rule.get('decision')} {rule.get('mcpName') or ''} {rule.get('toolName') or ''}".strip()
        text = " ".join(text.split())
        if rule.get("decision") == "ask_user":
            yield not_carried(text, file.path, ASKS)
        elif rule.get("decision") == "deny" and exceptions:
            yield not_carried(text, file.path, "another policy allows some of its tools; priorities decide")
        elif rule.get("decision") == "deny" and any(key in rule for key in _CONDITIONS):
            yield not_carried(text, file.path, "it has conditions")
        elif rule.get("decision") == "deny":
            yield _rule(text, tools, file.path)


def _matched(rule: Mapping[str, Any], server: str) -> list[str]:
    """The tools of the server that a policy concerns; empty if it concerns other servers."""
    server_name, tool_names = rule.get("mcpName"), rule.get("toolName")
    names = cast("list[Any]", tool_names) if isinstance(tool_names, list) else [tool_names]
    if server_name is not None:
        if server_name not in (EVERYTHING, server):
            return []
        return [EVERYTHING if name is None else str(name) for name in names]
    qualified = [str(name) for name in names if isinstance(name, str) and name.startswith((_START, EVERYTHING))]
    return [tool for name in qualified for tool in _matched_tools(name, server)]
