"""The restrictions of Claude Code: permissions, hooks and lists of servers in all of its settings files.

It names a tool `mcp__SERVER__TOOL` and replaces every character outside `A-Za-z0-9_-` by an underscore. Checked against
version 2.1.197.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_workbench.hosts.registry import HostEnvironment, list_of
from mcp_workbench.hosts.restrictions.rules import (
    ARGUMENTS,
    ASKS,
    EVERYTHING,
    Rule,
    Settings,
    Subject,
    excluded,
    exclusions,
    matches,
    name_and_content,
    not_carried,
    read,
    read_folder,
    remainders,
    scoped,
    turned_off,
)

_START = "mcp__"
_HOOKS = ("PreToolUse", "PermissionRequest")


class _Lists(NamedTuple):
    """The lists of servers in `.claude.json` for one project."""

    settings: Settings
    folder: str

    def names(self, key: str) -> list[str]:
        return self.settings.names("projects", self.folder, key)


def load(environment: HostEnvironment) -> Callable[[Subject], Iterator[Rule]]:
    """Read every file once, and return the rules for a server. Raises `HostFileError`."""
    main = next(read(_folder(environment, "~") / ".claude.json"), None)
    projects = list(main.table("projects")) if main else []
    lists = [_Lists(main, folder) for folder in projects] if main else []
    settings = list(_settings(environment, [Path(item) for item in projects]))

    def rules(subject: Subject) -> Iterator[Rule]:
        for item in settings:
            rules_of_file = (*_permissions(item, subject.name), *_hooks(item, subject.name), *_servers(item, subject))
            yield from scoped(rules_of_file, item.project, subject)
        for item in lists:
            yield from scoped(_toggled(item, subject), Path(item.folder), subject)

    return rules


def _folder(environment: HostEnvironment, usual: str) -> Path:
    named = environment.environ.get("CLAUDE_CONFIG_DIR", "")
    return Path(named) if named.startswith("/") else environment.home / usual.removeprefix("~").removeprefix("/")


def _settings(environment: HostEnvironment, projects: list[Path]) -> Iterator[Settings]:
    seen: set[Path] = set()
    own = _folder(environment, "~/.claude")
    system = "Library/Application Support/ClaudeCode" if environment.is_mac else "etc/claude-code"
    managed = environment.system / system
    yield from read(managed / "managed-settings.json")
    yield from read_folder(managed / "managed-settings.d", ".json")
    for folder, project in [
        (own, None),
        *((project_folder / ".claude", project_folder) for project_folder in (environment.project, *projects)),
    ]:
        for name in ("settings.json", "settings.local.json"):
            path = folder / name
            if path not in seen:
                seen.add(path)
                yield from read(path, project)


def _permissions(settings: Settings, server: str) -> Iterator[Rule]:
    for rule in settings.names("permissions", "deny"):
        yield from denied(f"permissions.deny {rule}", rule, server, settings.path)
    for rule in settings.names("permissions", "ask"):
        for denied_rule in denied(f"permissions.ask {rule}", rule, server, settings.path):
            yield not_carried(denied_rule.text, denied_rule.file, ASKS)


def denied(text: str, rule: str, server: str, path: Path) -> Iterator[Rule]:
    """The rule, if it concerns this server."""
    name, argument = name_and_content(rule)
    whole = f"{_START}{normal(server)}"
    prefix = f"{whole}__"
    tools = [EVERYTHING] if name == whole or _is_first_part(name, prefix) else remainders(name, prefix)
    if not tools:
        return
    if argument not in ("", EVERYTHING):
        yield not_carried(text, path, ARGUMENTS)
    elif EVERYTHING in tools:
        yield turned_off(text, path)
    else:
        filters = [pattern for tool in tools for pattern in exclusions(tool)]
        if filters:
            yield excluded(text, path, filters)


def _is_first_part(name: str, prefix: str) -> bool:
    """Whether Claude Code applies a rule for `mcp__a` to the server `a__b` as well."""
    is_first = "__" not in prefix[len(_START) : len(name) + 1]
    return len(name) > len(_START) and is_first and prefix.startswith(f"{name}__")


def normal(name: str) -> str:
    """A name as Claude Code writes it in the names of tools."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)


def _hooks(settings: Settings, server: str) -> Iterator[Rule]:
    """Hooks that run only before the tools of this server. They may deny a call."""
    named = re.compile(rf"mcp__{re.escape(normal(server))}(?:__|(?![A-Za-z0-9_-]))")
    for event in _HOOKS:
        for group in list_of(settings.at("hooks", event)):
            matcher = cast("Mapping[str, Any]", group).get("matcher") if isinstance(group, Mapping) else None
            if isinstance(matcher, str) and named.search(matcher):
                yield not_carried(
                    f"hooks.{event} {matcher}", settings.path, "hooks can't see tools behind the workbench"
                )


def _servers(settings: Settings, subject: Subject) -> Iterator[Rule]:
    rejected = [normal(item) for item in settings.names("disabledMcpjsonServers")]
    if subject.is_shared and normal(subject.name) in rejected:
        yield turned_off(f"disabledMcpjsonServers {subject.name}", settings.path)
    if any(_fits(item, subject) for item in settings.tables("deniedMcpServers")):
        yield turned_off(f"deniedMcpServers {subject.name}", settings.path)
    allowed = settings.tables("allowedMcpServers")
    if settings.at("allowedMcpServers") is not None and not any(_fits(item, subject) for item in allowed):
        yield turned_off(f"allowedMcpServers without {subject.name}", settings.path)


def _fits(choice: Mapping[str, Any], subject: Subject) -> bool:
    entry = subject.entry
    command = [entry.get("command"), *list_of(entry.get("args"))]
    url, pattern = entry.get("url"), choice.get("serverUrl")
    return (
        choice.get("serverName") == subject.name
        or choice.get("serverCommand") == command
        or (isinstance(url, str) and isinstance(pattern, str) and matches(pattern, url))
    )


def _toggled(lists: _Lists, subject: Subject) -> Iterator[Rule]:
    """Servers that `/mcp` turned off in a project, and those of `.mcp.json` that an older version rejected."""
    if subject.name in lists.names("disabledMcpServers"):
        yield turned_off(f"disabledMcpServers {subject.name}", lists.settings.path)
    rejected = [normal(item) for item in lists.names("disabledMcpjsonServers")]
    if subject.is_shared and normal(subject.name) in rejected:
        yield turned_off(f"disabledMcpjsonServers {subject.name}", lists.settings.path)
