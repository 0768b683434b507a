"""The restrictions of Codex, Zed, Cursor and VS Code outside the entries of their servers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts.registry import NAME, HostEnvironment, config_home
from mcp_workbench.hosts.restrictions.rules import (
    ARGUMENTS,
    ASKS,
    EVERYTHING,
    Rule,
    Settings,
    Subject,
    excluded,
    matches,
    not_carried,
    read,
    rules_of_entry,
    scoped,
    turned_off,
)

Rules = Callable[[Subject], Iterator[Rule]]

_MCP_TOKEN = re.compile(r"Mcp\((.*?)(?::(.*))?\)", re.DOTALL)


def load_codex(environment: HostEnvironment, given: Settings) -> Rules:
    """Codex merges several files. An administrator may also list the only servers that it starts."""
    named = environment.environ.get("CODEX_HOME", "")
    home = Path(named) if named.startswith("/") else environment.home / ".codex"
    layers: dict[Path, Path | None] = {
        environment.system / "etc/codex/managed_config.toml": None,
        home / "managed_config.toml": None,
        home / "config.toml": None,
        environment.project / ".codex/config.toml": environment.project,
    }
    settings = [
        layer for path, project in layers.items() if path != given.path for layer in read(path, project, "toml")
    ]
    required = list(read(environment.system / "etc/codex/requirements.toml", syntax="toml"))

    def rules(subject: Subject) -> Iterator[Rule]:
        for layer in settings:
            yield from scoped(_of_layer(layer, subject), layer.project, subject)
        for layer in required:
            if layer.at("mcp_servers") is not None and subject.name not in layer.table("mcp_servers"):
                yield turned_off(f"mcp_servers without {subject.name}", layer.path)

    return rules


def _of_layer(settings: Settings, subject: Subject) -> Iterator[Rule]:
    """The rules that another file adds to the entry of a server. A complete entry there is a different server."""
    entry = settings.at("mcp_servers", subject.name)
    if not isinstance(entry, Mapping) or {"command", "url"} & set(cast("Mapping[str, Any]", entry)):
        return
    layer_entry, text = Settings(settings.path, cast("Mapping[str, Any]", entry)), f"mcp_servers.{subject.name}"
    if layer_entry.at("enabled") is False:
        yield turned_off(f"{text}.enabled = false", settings.path)
    for tool in layer_entry.names("disabled_tools"):
        yield excluded(f"{text}.disabled_tools {tool}", settings.path, [f"!{tool}"])
    if layer_entry.at("enabled_tools") is not None:
        yield not_carried(f"{text}.enabled_tools", settings.path, "it is not in the same file as the server")
    yield from rules_of_entry(subject._replace(entry=layer_entry.tree), settings.path)


def load_zed(environment: HostEnvironment, given: Settings) -> Rules:
    """Zed has permissions by tool, and profiles that turn tools off."""
    user = environment.home / ".config" if environment.is_mac else config_home(environment)
    paths = {user / "zed/settings.json": None, environment.project / ".zed/settings.json": environment.project}
    settings = [given, *(file for path, project in paths.items() if path != given.path for file in read(path, project))]

    def rules(subject: Subject) -> Iterator[Rule]:
        for file in settings:
            yield from scoped(_zed_permissions(file, subject.name), file.project, subject)
            yield from scoped(_zed_profiles(file, subject.name), file.project, subject)

    return rules


def _zed_permissions(settings: Settings, server: str) -> Iterator[Rule]:
    prefix = f"mcp:{server}:"
    for key, permission in settings.table("agent", "tool_permissions", "tools").items():
        if not key.startswith(prefix) or not isinstance(permission, Mapping):
            continue
        members, text = cast("Mapping[str, Any]", permission), f"agent.tool_permissions.tools {key}"
        if members.get("always_deny"):
            yield not_carried(text, settings.path, ARGUMENTS)
        if members.get("always_confirm") or members.get("default") == "confirm":
            yield not_carried(text, settings.path, ASKS)
        if members.get("default") == "deny":
            yield excluded(text, settings.path, [f"!{key[len(prefix) :]}"])


def _zed_profiles(settings: Settings, server: str) -> Iterator[Rule]:
    """Tools that a profile turns off. A profile that does not enable all servers keeps the workbench out as well."""
    for name, profile in settings.table("agent", "profiles").items():
        profile_settings = Settings(
            settings.path, cast("Mapping[str, Any]", profile) if isinstance(profile, Mapping) else {}
        )
        tools = profile_settings.table("context_servers", server, "tools")
        if profile_settings.at("enable_all_context_servers") is not False:
            disabled = [tool for tool, enabled in tools.items() if enabled is False]
            yield from (excluded(f"agent.profiles.{name} {tool}", settings.path, [f"!{tool}"]) for tool in disabled)


def load_cursor(environment: HostEnvironment) -> Rules:
    """The permissions of Cursor's command line. The choices of its settings page are in a database, not read here."""
    paths = {
        environment.home / ".cursor/cli-config.json": None,
        environment.project / ".cursor/cli.json": environment.project,
    }
    settings = [file for path, project in paths.items() for file in read(path, project)]

    def rules(subject: Subject) -> Iterator[Rule]:
        for file in settings:
            for token in file.names("permissions", "deny"):
                yield from scoped(_cursor_denied(token, subject.name, file.path), file.project, subject)

    return rules


def _cursor_denied(token: str, server: str, path: Path) -> Iterator[Rule]:
    match = _MCP_TOKEN.fullmatch(token)
    if match is None or not matches(match[1], server):
        return
    tool, text = match[2] or EVERYTHING, f"permissions.deny {token}"
    yield turned_off(text, path) if tool == EVERYTHING else excluded(text, path, [f"!{tool}"])


_START = "mcp_"
"""The prefix of the entries of MCP tools."""
_LABEL_LENGTH = 13
"""The length to which an entry cuts the label of a server."""
_ENTRY_LENGTH = 64
_QUERY = "SELECT value FROM ItemTable WHERE key = 'chat/selectedTools'"


class _Selection(NamedTuple):
    """The tools that are turned on or off, and the tool sets of servers that are turned off."""

    on: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    sets_off: frozenset[str] = frozenset()


def load_vscode(environment: HostEnvironment, servers: list[str]) -> Callable[[Subject], Iterator[Rule]]:
    """Read the database; `servers` are the names of all servers. Raises `HostFileError`."""
    folder = environment.home / "Library/Application Support" if environment.is_mac else config_home(environment)
    path = folder / "Code/User/globalStorage/state.vscdb"
    selection = _selection(path)
    off = sorted(tool for tool in selection.off if tool.startswith(_START) and not _tools(tool, NAME))
    unknown = [tool for tool in off if not any(_tools(tool, server) for server in servers)]

    def rules(subject: Subject) -> Iterator[Rule]:
        if any(tool_set.endswith(f".{subject.name}") for tool_set in selection.sets_off) and not any(
            _tools(tool, subject.name) for tool in selection.on
        ):
            yield turned_off(f"turned off: {subject.name}", path)
        for tool in off:
            names = _tools(tool, subject.name)
            if names:
                yield excluded(f"turned off: {tool}", path, [f"!{name}" for name in names])
        for tool in unknown:
            yield not_carried(f"turned off: {tool}", path, "it is not clear which server it belongs to")

    return rules


def _tools(entry: str, server: str) -> list[str]:
    """The possible names of the tool of an entry in the tool picker, if it belongs to this server.

    An entry begins with the label of the server, or with a longer title that the server reports. Both are cut.
    """
    label = re.sub(r"[^a-z0-9_.-]+", "_", server.lower())[:_LABEL_LENGTH]
    rest = entry[len(_START) :]
    if not entry.startswith(_START) or not rest.startswith(label):
        return []
    ends = [at for at in range(len(label), min(_LABEL_LENGTH, len(rest) - 2) + 1) if rest[at] == "_"]
    cut = EVERYTHING if len(entry) >= _ENTRY_LENGTH else ""
    names = [f"{rest[at + 1 :]}{cut}" for at in ends]
    # A dot in a name is an underscore in the entry.
    return list(dict.fromkeys(form for name in names for form in (name, name.replace("_", "[._]"))))


def _selection(path: Path) -> _Selection:
    if not path.exists():
        return _Selection()
    import sqlite3  # noqa: PLC0415 -- only one host has a database

    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=2)) as database:
            row = database.execute(_QUERY).fetchone()
        return _read(json.loads(row[0])) if row else _Selection()
    except (sqlite3.Error, ValueError, TypeError, AttributeError) as error:
        problem = "can't be read for the tools that are turned off"
        raise HostFileError(problem, path, hint="Close VS Code, and try again.") from error


def _read(state: Any) -> _Selection:
    """Read the state, also from versions of VS Code without tool sets."""
    tools = {str(name): bool(is_on) for name, is_on in state.get("toolEntries", [])}
    sets = {str(name): bool(is_on) for name, is_on in state.get("toolSetEntries", [])}
    return _Selection(
        frozenset(name for name, is_on in tools.items() if is_on),
        frozenset((*(name for name, is_on in tools.items() if not is_on), *map(str, state.get("disabledTools", [])))),
        frozenset(name for name, is_on in sets.items() if not is_on),
    )
