"""`mcp-workbench add`: adds a server to the configuration. It starts nothing."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from mcp_workbench.cli.check import warning_lines, warnings_json
from mcp_workbench.cli.config_edit import Target, to_change
from mcp_workbench.cli.display import is_terminal, write
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.options import Given
from mcp_workbench.cli.terminal import is_agreed
from mcp_workbench.config.environment import is_own
from mcp_workbench.config.jsonc.source import read_source
from mcp_workbench.config.load import DEFAULT_TOOLBOX
from mcp_workbench.doctor.config_checks import ConfigChecks, inspect
from mcp_workbench.doctor.findings import Finding
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts.secrets import Variables, without_secrets
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import escape, slashed

HELP = """Add a server to a toolbox: a program after --, or a remote server with --url.

If the toolbox does not exist it is created, and needs a --description. The file keeps its comments, order
and layout, and nothing is written that 'mcp-workbench check' would refuse. Nothing is started.

If the toolbox already has the server, pass only --inherit to let it inherit more variables.

\b
  mcp-workbench add dev git --description 'The history of my projects' -- uvx mcp-server-git==2026.10.19
  mcp-workbench add dev docs --url https://docs.example.com/mcp --header 'Authorization=Bearer ${TOKEN}'
  mcp-workbench add dev git --inherit SSH_AUTH_SOCK"""

_WITH_INHERIT = ("config", "json", "toolbox", "server")
_A_COMMAND = "a command"


def run(options: Given) -> int:
    with to_change(options) as target:
        return _add(options, target)


def _add(options: Given, target: Target) -> int:
    toolbox, server = options["toolbox"], options["server"]
    is_there = server in target.servers().get(toolbox, {})
    _check_inherited(options)
    if is_there and _is_inherit_alone(options):
        return _inherit_more(options, target)
    entry = _entry(options)
    if is_there and "replace" not in options:
        problem = f"Server '{escape(server)}' is in toolbox '{escape(toolbox)}' already"
        raise ConfigError(problem, file=target.path, hint="Pass --replace to change it.")
    changed = target.with_server(toolbox, server, entry, _description(target, toolbox, options))
    open_entry = without_secrets(entry, server, Variables())
    if open_entry != entry and target.is_projects and "allow_secret" not in options:
        changed.checked()
        _agree_to_secret(options, target, _secret_paths(entry, open_entry))
    before = _inspect(target).warnings() if target.known == target.text.encode() else []
    changed.write()
    warnings = _new_warnings(ServerIdentifier(toolbox, server), before, _inspect(changed))
    _report(options, changed, "replaced" if is_there else "added", warnings)
    return 0


def _inspect(target: Target) -> ConfigChecks:
    return inspect(read_source(str(target.path), DEFAULTS))


def _new_warnings(server: ServerIdentifier, before: Iterable[Finding], after: ConfigChecks) -> list[Finding]:
    """The warnings about this server, and those that the change caused."""
    known = {(one.code, one.path, one.message) for one in before}
    own = after.findings_of(server)
    return [one for one in after.warnings() if one in own or (one.code, one.path, one.message) not in known]


def _entry(options: Given) -> dict[str, Any]:
    url = options.get("url")
    if url and options.words:
        raise ConfigError("a server has either a command or a --url, not both")
    if not url and not options.words:
        raise ConfigError("no server to add", hint="Write its command after --, or pass --url URL.")
    if url:
        headers = _pairs("--header", options.all("header"), "=:")
        remote: dict[str, Any] = {"url": url, "transport": options.get("transport"), "headers": headers}
        _refuse(options, "env", "inherit", "cwd")
        return {key: value for key, value in remote.items() if value}
    _refuse(options, "header", "transport")
    env = _pairs("--env", options.all("env"))
    local = {
        "command": options.words[0],
        "args": list(options.words[1:]),
        "env": env,
        "inheritEnv": list(dict.fromkeys(options.all("inherit"))),
        "cwd": options.get("cwd"),
    }
    return {key: value for key, value in local.items() if value}


def _check_inherited(options: Given) -> None:
    for name in filter(is_own, options.all("inherit")):
        hint = "To set one for a server that needs it, pass --env NAME=VALUE."
        raise ConfigError(
            f"--inherit {escape(name)}: servers never inherit variables of the workbench itself", hint=hint
        )


def _is_inherit_alone(options: Given) -> bool:
    others = [key for key in options if key not in _WITH_INHERIT]
    return bool(options.all("inherit")) and not (options.words or options.all("env") or options.all("header") or others)


def _inherit_more(options: Given, target: Target) -> int:
    """Add to the variables that a server inherits; leave the rest of its entry."""
    toolbox, server = options["toolbox"], options["server"]
    entry = target.servers()[toolbox][server]
    if "command" not in entry:
        raise ConfigError(f"--inherit is only for a server with {_A_COMMAND}", file=target.path)
    names = list(dict.fromkeys([*entry.get("inheritEnv", []), *options.all("inherit")]))
    changed = target.with_member((*target.place(toolbox, server), "inheritEnv"), names)
    changed.write()
    _report(options, changed, "changed")
    return 0


def _secret_paths(entry: Mapping[str, Any], open_entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The paths in an entry that hold a secret, each with the variables to write instead."""
    for key, value in open_entry.items():
        if isinstance(value, dict):
            inside = _secret_paths(entry[key], cast("dict[str, Any]", value))
            yield from ((f"{key}.{place}", variables) for place, variables in inside)
        elif value != entry[key]:
            texts = cast("list[Any]", value) if isinstance(value, list) else [value]
            yield key, " ".join(dict.fromkeys(name for text in texts for name in re.findall(r"\$\{\w+\}", str(text))))


def _agree_to_secret(options: Given, target: Target, places: Iterable[tuple[str, str]]) -> None:
    """Ask whether to write a secret into a folder's file. Raises `ConfigError` unless the user agrees."""
    where = ", ".join(f"{escape(place)}: write {variables}" for place, variables in places)
    problem = "this would write a secret into the configuration of this folder"
    hint = f"Name a variable instead, and set it ({where}), or pass --allow-secret."
    if "json" in options or not (is_terminal(sys.stdin) and is_terminal(sys.stderr)):
        raise ConfigError(problem, file=target.path, hint=hint)
    write(f"{target.path} would hold a secret. Everyone who gets this folder could read it.", to=sys.stderr)
    write(f"It is better to name a variable instead, and set it ({where}).", to=sys.stderr)
    if not is_agreed("Write the secret anyway?", to=sys.stderr):
        raise ConfigError(problem, file=target.path, hint=hint)


def _refuse(options: Given, *keys: str) -> None:
    for key in keys:
        if key in options or options.all(key):
            kind = _A_COMMAND if key in ("env", "inherit", "cwd") else "a --url"
            raise ConfigError(f"--{key} is only for a server with {kind}")


def _pairs(option: str, given: Iterable[str], separators: str = "=") -> dict[str, str]:
    """Split options into names and values. Errors never repeat the text: any part of it may be a secret."""
    pairs: dict[str, str] = {}
    for one in given:
        pair = re.fullmatch(rf"(?s)\s*([^\s{separators}]+)\s*[{separators}]\s*(.*)", one)
        if pair is None:
            raise ConfigError(f"{option} needs a name and a value", hint=f"Write {option} NAME=VALUE.")
        if pair[1] in pairs:
            raise ConfigError(f"{option} has the same name twice", hint="Leave out one of them.")
        pairs[pair[1]] = pair[2]
    return pairs


def _description(target: Target, toolbox: str, options: Given) -> str:
    description = options.get("description", "")
    if target.is_bare:
        if toolbox != DEFAULT_TOOLBOX:
            hint = f"The file has only mcpServers, which make up the toolbox '{DEFAULT_TOOLBOX}'."
            raise ConfigError(f"there can be no toolbox '{escape(toolbox)}'", file=target.path, hint=hint)
    elif toolbox not in target.servers() and not description:
        hint = "Pass --description 'what the toolbox is for': agents choose by it."
        raise ConfigError(f"there is no toolbox '{escape(toolbox)}' yet", file=target.path, hint=hint)
    return description


def _report(options: Given, target: Target, what: str, warnings: Iterable[Finding] = ()) -> None:
    toolbox, server = options["toolbox"], options["server"]
    if "json" in options:
        told = {"ok": True, "file": str(target.path), "toolbox": toolbox, "server": server}
        print_json({**told, "replaced": what != "added", "warnings": warnings_json(warnings)})
        return
    write(*warning_lines(str(target.path), warnings), to=sys.stderr)
    write(f"{what} {slashed(toolbox, server)} in {target.path}")
    named = ["--config", options["config"]] if "config" in options else []
    write(f"try it: mcp-workbench doctor {shlex.join(escape(word, len(word)) for word in (toolbox, *named))}")
