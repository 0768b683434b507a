"""Reads a configuration file into a `Config`.

Guarantees: for any bytes at the path, `load_config` returns a complete and checked `Config` or raises a `ConfigError`
with the position, the problem and a hint. The error repeats no value of the file or of the environment. Harmless
problems become warnings. It starts nothing and contacts nothing.
"""

from __future__ import annotations

import os
import re
import unicodedata
from typing import TYPE_CHECKING, cast

from mcp_workbench.config.environment import default_credentials
from mcp_workbench.config.fields import (
    ValuePosition,
    check_value,
    read_boolean,
    read_bounds,
    read_members,
    read_objects,
    read_string,
    read_text,
    unknown_key,
)
from mcp_workbench.config.jsonc.parser import parse
from mcp_workbench.config.jsonc.source import SourceText, read_source
from mcp_workbench.config.keys import BOUNDS, CATALOG, ELSEWHERE, ROOT, TOOLBOX
from mcp_workbench.config.model import NO_STORE, CatalogConfig, Config, ConfigWarning, ServerConfig, ToolboxConfig
from mcp_workbench.config.servers import ReadContext, odd_times, read_inherited, read_server
from mcp_workbench.identity import EVERY_TOOLBOX, NAME_LENGTH
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mcp_workbench.config.model import OpenDetail, Recording, Refresh, ToolMode

DEFAULT_TOOLBOX = "default"
DEFAULT_DESCRIPTION = "All configured servers"

_PORTABLE_NAME = r"[A-Za-z0-9_-]+"


def load_config(
    path: Path | str, *, environ: Mapping[str, str] | None = None, strict: bool | None = None, limits: Limits = DEFAULTS
) -> Config:
    """The configuration in the file at `path`.

    `strict` makes a missing variable an error. None: the file decides.
    """
    return config_of(read_source(os.fspath(path), limits), environ=environ, strict=strict, limits=limits)


def config_of(
    source: SourceText,
    *,
    environ: Mapping[str, str] | None = None,
    strict: bool | None = None,
    limits: Limits = DEFAULTS,
) -> Config:
    """The configuration in a text that was read already, so that a caller can check exactly what is used."""
    root = ValuePosition(source, parse(source, limits), "", 0)
    members = _read_root(root)
    absolute = os.path.abspath(source.file or "")  # noqa: PTH100 -- realpath would follow a link into another folder
    environ = os.environ if environ is None else environ
    warnings = [*_file_warnings(source), *odd_times(members, limits.bounded(read_bounds(members, BOUNDS)))]
    context = ReadContext(
        folder=os.path.dirname(absolute),  # noqa: PTH120
        environ=environ,
        strict=_flag(members, "strict") if strict is None else strict,
        limits=limits,
        bounds=read_bounds(members, BOUNDS),
        inherit_env=read_inherited(members.get("inheritEnv"), warnings),
        credentials=default_credentials(environ),
        warnings=warnings,
    )
    toolboxes = (
        _read_toolboxes(members["toolboxes"], context) if "toolboxes" in members else _bare_toolbox(members, context)
    )
    return Config(
        file=absolute,
        toolboxes=toolboxes,
        tool_mode=cast("ToolMode", _choice(members, "toolMode", "proxy")),
        open_detail=cast("OpenDetail", _choice(members, "openDetail", "auto")),
        strict=context.strict,
        bounds=_bounds_of_workbench(members),
        catalog=_read_catalog(members, context),
        record=cast("Recording", _choice(members, "record", "calls")),
        warnings=tuple(context.warnings),
    )


def _bounds_of_workbench(members: Mapping[str, ValuePosition]) -> dict[str, float]:
    """The limits that belong to no server."""
    bounds = read_bounds(members, (key for key in ROOT if key not in BOUNDS))
    settings = members["catalog"].members() if "catalog" in members else {}
    return bounds | read_bounds(settings, CATALOG)


def _read_catalog(members: Mapping[str, ValuePosition], context: ReadContext) -> CatalogConfig:
    settings = members["catalog"].members() if "catalog" in members else {}
    path = _store_path(settings["path"], context) if "path" in settings else None
    if "semantic" in settings:
        context.warnings.append(settings["semantic"].warning("'semantic' has no effect: search compares words only"))
    return CatalogConfig(refresh=cast("Refresh", _choice(settings, "refresh", "background")), path=path)


def _store_path(position: ValuePosition, context: ReadContext) -> str:
    path = read_text(position)
    if "${" in path:
        raise position.error("variables are not replaced here", "Write the path, or set $WORKBENCH_CATALOG.")
    return path if path == NO_STORE else os.path.join(context.folder, os.path.expanduser(path))  # noqa: PTH111, PTH118


def _choice(members: Mapping[str, ValuePosition], name: str, default: str) -> str:
    return read_string(members[name]) if name in members else default


def _flag(members: Mapping[str, ValuePosition], name: str) -> bool:
    return name in members and read_boolean(members[name])


def _file_warnings(source: SourceText) -> list[ConfigWarning]:
    if not source.writable_by_others:
        return []
    message = "other users can write this file, and so decide which programs start: chmod go-w"
    return [ConfigWarning(path="", message=message, line=1, column=1)]


def _read_root(root: ValuePosition) -> dict[str, ValuePosition]:
    """The members of the file, in either of its two forms."""
    members = root.keyed()
    if "toolboxes" in members and "mcpServers" in members:
        raise members["mcpServers"].key_error(
            "a file has either 'toolboxes' or 'mcpServers', not both", "Move the servers into a toolbox."
        )
    if "mcpServers" in members:
        return _check_bare_root(members)
    for name, member in members.items():
        if name in ELSEWHERE and "toolboxes" not in members:
            raise member.key_error(f"unknown key '{name}'", f"Rename it to '{ELSEWHERE[name]}'.")
    read_members(root, ROOT)
    if "toolboxes" not in members:
        raise root.error("'toolboxes' is missing", 'Add "toolboxes", or "mcpServers" as in the file of an MCP host.')
    return members


def _check_bare_root(members: dict[str, ValuePosition]) -> dict[str, ValuePosition]:
    """Check a file of a host. It may hold other settings, so only a misspelling of our keys is an error."""
    keys = {key.name: key for key in ROOT}
    for name, member in members.items():
        if name in keys:
            check_value(member, keys[name])
        elif nearest(name, keys, certain=True):
            raise unknown_key(member, name, keys, keys)
    return members


def _bare_toolbox(members: Mapping[str, ValuePosition], context: ReadContext) -> dict[str, ToolboxConfig]:
    keys = {key.name for key in ROOT}
    for name, member in members.items():
        if name not in keys or name == "inputs":
            context.warnings.append(member.warning(f"'{escape(name)}' has no effect here"))
    if not members["mcpServers"].members():
        return {}
    servers, disabled = _read_servers(members["mcpServers"], DEFAULT_TOOLBOX, context)
    toolbox = ToolboxConfig(name=DEFAULT_TOOLBOX, description=DEFAULT_DESCRIPTION, servers=servers, disabled=disabled)
    return {DEFAULT_TOOLBOX: toolbox}


def _read_toolboxes(position: ValuePosition, context: ReadContext) -> dict[str, ToolboxConfig]:
    entries = read_objects(position)
    for name, entry in entries.items():
        if name == EVERY_TOOLBOX:
            raise entry.key_error("'*' cannot be the name of a toolbox", "It stands for every toolbox.")
    _check_names(entries, "toolbox", context)
    return {name: _read_toolbox(entry, name, context) for name, entry in entries.items()}


def _read_toolbox(position: ValuePosition, name: str, context: ReadContext) -> ToolboxConfig:
    members = read_members(position, TOOLBOX)
    servers, disabled = _read_servers(members["mcpServers"], name, context)
    description = read_string(members["description"])
    return ToolboxConfig(name=name, description=description, servers=servers, disabled=disabled)


def _read_servers(
    position: ValuePosition, toolbox: str, context: ReadContext
) -> tuple[dict[str, ServerConfig], tuple[str, ...]]:
    """The enabled servers, and the names of the disabled ones."""
    entries = read_objects(position)
    _check_names(entries, "server", context)
    servers = {name: read_server(entry, toolbox, name, context) for name, entry in entries.items()}
    enabled = {name: server for name, server in servers.items() if server is not None}
    if not enabled:
        context.warnings.append(position.warning("every server of this toolbox is disabled"))
    return enabled, tuple(name for name, server in servers.items() if server is None)


def _check_names(entries: Mapping[str, ValuePosition], what: str, context: ReadContext) -> None:
    by_case: dict[str, str] = {}
    for name, entry in entries.items():
        problem = _name_problem(name, NAME_LENGTH)
        if problem:
            raise entry.key_error(f"the name of a {what} {problem}", "Use letters, digits, _ and -.")
        context.warnings += _name_warnings(name, entry, by_case)
        by_case.setdefault(name.casefold(), name)


def _name_problem(name: str, length: int) -> str:
    if not name:
        return "cannot be empty"
    if len(name) > length:
        return f"can have at most {length} characters"
    if any(unicodedata.category(character) == "Cc" for character in name):
        return "cannot hold control characters"
    return ""


def _name_warnings(name: str, entry: ValuePosition, by_case: Mapping[str, str]) -> Iterable[ConfigWarning]:
    if not re.fullmatch(_PORTABLE_NAME, name):
        yield entry.warning("a name of letters, digits, _ and - alone works with every client")
    sibling = by_case.get(name.casefold())
    if sibling is not None:
        yield entry.warning(f"'{escape(name)}' and '{escape(sibling)}' differ in case only")
