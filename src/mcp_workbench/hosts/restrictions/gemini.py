"""The restrictions of Gemini CLI: lists of servers and tools in its settings, disabled servers, and policies.

It names a tool `mcp_SERVER_TOOL` and replaces every character outside `A-Za-z0-9_.:-` by an underscore. Checked against
version 0.61.0.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from mcp_workbench.command_errors import HostFileError
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
_CONTENT = re.compile(r"(.*?)\((.*)\)", re.DOTALL)
_CONDITIONS = ("argsPattern", "commandPrefix", "commandRegex", "toolAnnotations", "subagent", "modes", "interactive")


def load(around: HostEnvironment, given: Settings) -> Callable[[Subject], Iterator[Rule]]:
    """Read every file once, and return the rules for a server. `given` is the file with the servers.

    Raises `HostFileError`.
    """
    settings = list(_settings(around, given))
    folder = _folder(around)
    enablement = list(read(folder / "mcp-server-enablement.json"))
    places = (folder / "policies", _system(around) / "policies")
    policies = [one for place in places for one in read_folder(place, ".toml", "toml")]

    def rules(subject: Subject) -> Iterator[Rule]:
        for one in settings:
            yield from scoped(_servers(one, subject.name), one.project, subject)
            yield from scoped(_tools(one, subject.name), one.project, subject)
        for one in enablement:
            yield from _switched(one, subject.name)
        yield from _policies(policies, subject.name)

    return rules


def _folder(around: HostEnvironment) -> Path:
    named = around.environ.get("GEMINI_CLI_HOME", "")
    return (Path(named) if named.startswith("/") else around.home) / ".gemini"


def _system(around: HostEnvironment) -> Path:
    return around.system / ("Library/Application Support/GeminiCli" if around.is_mac else "etc/gemini-cli")


def _settings(around: HostEnvironment, given: Settings) -> Iterator[Settings]:
    system = _system(around)
    places = {
        Path(around.environ.get("GEMINI_CLI_SYSTEM_SETTINGS_PATH") or system / "settings.json"): None,
        Path(around.environ.get("GEMINI_CLI_SYSTEM_DEFAULTS_PATH") or system / "system-defaults.json"): None,
        around.project / ".gemini/settings.json": around.project,
        _folder(around) / "settings.json": None,
    }
    yield given
    for path, project in places.items():
        if path != given.path:
            yield from read(path, project)


def _servers(settings: Settings, server: str) -> Iterator[Rule]:
    for keys in (("mcp", "excluded"), ("excludeMCPServers",)):
        if _same(server) in map(_same, settings.names(*keys)):
            yield turned_off(f"{'.'.join(keys)} {server}", settings.path)
    for keys in (("mcp", "allowed"), ("allowMCPServers",)):
        allowed = settings.names(*keys)
        if allowed and _same(server) not in map(_same, allowed):
            yield turned_off(f"{'.'.join(keys)} without {server}", settings.path)


def _same(name: str) -> str:
    return name.lower().strip()


def _tools(settings: Settings, server: str) -> Iterator[Rule]:
    for keys in (("tools", "exclude"), ("excludeTools",)):
        for rule in settings.names(*keys):
            yield from _denied(f"{'.'.join(keys)} {rule}", rule, server, settings.path)
    for rule in settings.names("tools", "confirmationRequired"):
        for found in _denied(f"tools.confirmationRequired {rule}", rule, server, settings.path):
            yield not_carried(found.text, found.file, ASKS)


def _denied(text: str, rule: str, server: str, path: Path) -> Iterator[Rule]:
    """The rule, if it concerns this server. A name without prefix concerns that tool of every server."""
    if _BUILT_IN.fullmatch(rule):
        return
    content = _CONTENT.fullmatch(rule)
    name, argument = (content[1], content[2]) if content else (rule, "")
    found = _found(name, server) if name.startswith((_START, EVERYTHING)) else [name]
    if found and argument not in ("", EVERYTHING):
        yield not_carried(text, path, ARGUMENTS)
    elif found:
        yield _rule(text, found, path)


def _found(name: str, server: str) -> list[str]:
    """The tools of a server that a qualified name or pattern matches. Long names have `...` in the middle."""
    plain = re.sub(r"[^a-zA-Z0-9_\-.:]", "_", server)
    prefix = plain if plain.startswith(_START) else f"{_START}{plain}"
    return remainders(name.replace("...", EVERYTHING), f"{prefix}_")


def _rule(text: str, tools: list[str], path: Path) -> Rule:
    if EVERYTHING in tools:
        return turned_off(text, path)
    return excluded(text, path, [one for tool in tools for one in (*exclusions(tool), f"!{tool}")])


def _switched(settings: Settings, server: str) -> Iterator[Rule]:
    """Servers that `gemini mcp disable` turned off."""
    state = settings.at(_same(server))
    if isinstance(state, Mapping) and cast("Mapping[str, Any]", state).get("enabled") is False:
        yield turned_off(f"gemini mcp disable {server}", settings.path)


def _policies(files: list[Settings], server: str) -> Iterator[Rule]:
    """Rules of the policy engine. If an `allow` may override a `deny`, the rule counts as not carried over."""
    matching = [(file, rule, tools) for file in files for rule in _entries(file) if (tools := _matched(rule, server))]
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


def _entries(file: Settings) -> list[Mapping[str, Any]]:
    rules = file.at("rule")
    items = cast("list[Any]", rules) if isinstance(rules, list) else [] if rules is None else [None]
    if not all(isinstance(one, Mapping) for one in items):
        raise HostFileError("'rule' is not a list of tables", file.path)
    return cast("list[Mapping[str, Any]]", items)


def _matched(rule: Mapping[str, Any], server: str) -> list[str]:
    """The tools of the server that a policy concerns; empty if it concerns other servers."""
    of, named = rule.get("mcpName"), rule.get("toolName")
    names = cast("list[Any]", named) if isinstance(named, list) else [named]
    if of is not None:
        if of not in (EVERYTHING, server):
            return []
        return [EVERYTHING if name is None else str(name) for name in names]
    qualified = [str(name) for name in names if isinstance(name, str) and name.startswith((_START, EVERYTHING))]
    return [tool for name in qualified for tool in _found(name, server)]
