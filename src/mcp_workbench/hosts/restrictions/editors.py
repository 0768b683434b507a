"""Codex, Zed and Cursor: what they keep outside the entries of their servers, in files that can be read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from mcp_workbench.hosts.places import Surroundings, config_home
from mcp_workbench.hosts.restrictions.entry import rules_of_entry
from mcp_workbench.hosts.restrictions.patterns import EVERYTHING, matches
from mcp_workbench.hosts.restrictions.rule import (
    ARGUMENTS,
    ASKS,
    Rule,
    Settings,
    Subject,
    excluded,
    not_carried,
    read,
    scoped,
    turned_off,
)

Rules = Callable[[Subject], Iterator[Rule]]

_MCP_TOKEN = re.compile(r"Mcp\((.*?)(?::(.*))?\)", re.DOTALL)


def load_codex(around: Surroundings, given: Settings) -> Rules:
    """Codex merges several files; an administrator may also list the only servers that it starts."""
    named = around.environ.get("CODEX_HOME", "")
    home = Path(named) if named.startswith("/") else around.home / ".codex"
    layers: dict[Path, Path | None] = {
        around.system / "etc/codex/managed_config.toml": None,
        home / "managed_config.toml": None,
        home / "config.toml": None,
        around.project / ".codex/config.toml": around.project,
    }
    settings = [one for path, project in layers.items() if path != given.path for one in read(path, project, "toml")]
    required = list(read(around.system / "etc/codex/requirements.toml", syntax="toml"))

    def rules(subject: Subject) -> Iterator[Rule]:
        for one in settings:
            yield from scoped(_of_layer(one, subject), one.project, subject)
        for one in required:
            if one.at("mcp_servers") is not None and subject.name not in one.table("mcp_servers"):
                yield turned_off(f"mcp_servers without {subject.name}", one.path)

    return rules


def _of_layer(settings: Settings, subject: Subject) -> Iterator[Rule]:
    """What another file adds to the entry of a server; a complete entry there is a different server."""
    entry = settings.at("mcp_servers", subject.name)
    if not isinstance(entry, Mapping) or {"command", "url"} & set(cast("Mapping[str, Any]", entry)):
        return
    held, text = Settings(settings.path, cast("Mapping[str, Any]", entry)), f"mcp_servers.{subject.name}"
    if held.at("enabled") is False:
        yield turned_off(f"{text}.enabled = false", settings.path)
    for tool in held.names("disabled_tools"):
        yield excluded(f"{text}.disabled_tools {tool}", settings.path, [f"!{tool}"])
    if held.at("enabled_tools") is not None:
        yield not_carried(f"{text}.enabled_tools", settings.path, "it is not in the same file as the server")
    yield from rules_of_entry(subject._replace(entry=held.tree), settings.path)


def load_zed(around: Surroundings, given: Settings) -> Rules:
    """Zed has permissions by tool, and profiles that turn tools off."""
    user = around.home / ".config" if around.is_mac else config_home(around)
    places = {user / "zed/settings.json": None, around.project / ".zed/settings.json": around.project}
    settings = [given, *(one for path, in_ in places.items() if path != given.path for one in read(path, in_))]

    def rules(subject: Subject) -> Iterator[Rule]:
        for one in settings:
            yield from scoped(_zed_permissions(one, subject.name), one.project, subject)
            yield from scoped(_zed_profiles(one, subject.name), one.project, subject)

    return rules


def _zed_permissions(settings: Settings, server: str) -> Iterator[Rule]:
    prefix = f"mcp:{server}:"
    for key, permission in settings.table("agent", "tool_permissions", "tools").items():
        if not key.startswith(prefix) or not isinstance(permission, Mapping):
            continue
        held, text = cast("Mapping[str, Any]", permission), f"agent.tool_permissions.tools {key}"
        if held.get("always_deny"):
            yield not_carried(text, settings.path, ARGUMENTS)
        if held.get("always_confirm") or held.get("default") == "confirm":
            yield not_carried(text, settings.path, ASKS)
        if held.get("default") == "deny":
            yield excluded(text, settings.path, [f"!{key[len(prefix) :]}"])


def _zed_profiles(settings: Settings, server: str) -> Iterator[Rule]:
    """Tools that a profile turns off. A profile that does not enable all servers keeps the workbench out as well."""
    for name, profile in settings.table("agent", "profiles").items():
        held = Settings(settings.path, cast("Mapping[str, Any]", profile) if isinstance(profile, Mapping) else {})
        tools = held.table("context_servers", server, "tools")
        if held.at("enable_all_context_servers") is not False:
            off = [tool for tool, enabled in tools.items() if enabled is False]
            yield from (excluded(f"agent.profiles.{name} {tool}", settings.path, [f"!{tool}"]) for tool in off)


def load_cursor(around: Surroundings) -> Rules:
    """The permissions of Cursor's command line. What its settings page turns off is in a database of its own."""
    places = {around.home / ".cursor/cli-config.json": None, around.project / ".cursor/cli.json": around.project}
    settings = [one for path, project in places.items() for one in read(path, project)]

    def rules(subject: Subject) -> Iterator[Rule]:
        for one in settings:
            for token in one.names("permissions", "deny"):
                yield from scoped(_cursor_denied(token, subject.name, one.path), one.project, subject)

    return rules


def _cursor_denied(token: str, server: str, path: Path) -> Iterator[Rule]:
    found = _MCP_TOKEN.fullmatch(token)
    if found is None or not matches(found[1], server):
        return
    tool, text = found[2] or EVERYTHING, f"permissions.deny {token}"
    yield turned_off(text, path) if tool == EVERYTHING else excluded(text, path, [f"!{tool}"])
