"""`mcp-workbench add`: a server is added to the configuration. It starts nothing."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from typing import Any

from mcp_workbench.cli.answering import answered, print_json
from mcp_workbench.cli.display import write
from mcp_workbench.cli.options import Given
from mcp_workbench.cli.target import Target, to_change
from mcp_workbench.config.load import DEFAULT_TOOLBOX
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts.secrets import Variables, without_secrets
from mcp_workbench.shown import shown, slashed

HELP = """Add a server to a toolbox: a program after --, or a remote server with --url.

The toolbox is made where there is none, and needs a --description then. Comments, order and layout of
the file stay as they are. What 'mcp-workbench check' would refuse is not written. Nothing is started.

\b
  mcp-workbench add dev git --description 'The history of my projects' -- uvx mcp-server-git==2026.10.19
  mcp-workbench add dev docs --url https://docs.example.com/mcp --header 'Authorization=Bearer ${TOKEN}'"""


def run(options: Given) -> int:
    """The exit status."""
    return answered(options, lambda: _run(options))


def _run(options: Given) -> int:
    toolbox, server = options["toolbox"], options["server"]
    target = to_change(options)
    entry = _entry(options)
    is_there = server in target.servers().get(toolbox, {})
    if is_there and "replace" not in options:
        problem = f"Server '{shown(server)}' is in toolbox '{shown(toolbox)}' already"
        raise ConfigError(problem, file=target.path, hint="Pass --replace to change it.")
    changed = target.with_server(toolbox, server, entry, _description(target, toolbox, options))
    changed.write()
    _tell(options, changed, replaced=is_there)
    if without_secrets(entry, server, Variables()) != entry:
        sys.stderr.write("warning: this looks like a secret in the file; write '${NAME}' and set the variable\n")
    return 0


def _entry(options: Given) -> dict[str, Any]:
    url = options.get("url")
    if url and options.words:
        raise ConfigError("a server has either a command or a --url, not both")
    if not url and not options.words:
        raise ConfigError("which server is to be added?", hint="Write its command after --, or pass --url URL.")
    if url:
        headers = _pairs("--header", options.all("header"), "=:")
        remote: dict[str, Any] = {"url": url, "transport": options.get("transport"), "headers": headers}
        _refuse(options, "env", "cwd")
        return {key: value for key, value in remote.items() if value}
    _refuse(options, "header", "transport")
    env = _pairs("--env", options.all("env"))
    local = {"command": options.words[0], "args": list(options.words[1:]), "env": env, "cwd": options.get("cwd")}
    return {key: value for key, value in local.items() if value}


def _refuse(options: Given, *keys: str) -> None:
    for key in keys:
        if key in options or options.all(key):
            kind = "a command" if key in ("env", "cwd") else "a --url"
            raise ConfigError(f"--{key} is only for a server with {kind}")


def _pairs(option: str, given: Iterable[str], separators: str = "=") -> dict[str, str]:
    """Names and values. No message repeats what was given: it may hold a secret, also where a name should be."""
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
            hint = f"The file has mcpServers alone, which is the toolbox '{DEFAULT_TOOLBOX}'."
            raise ConfigError(f"there can be no toolbox '{shown(toolbox)}'", file=target.path, hint=hint)
    elif toolbox not in target.servers() and not description:
        hint = "Pass --description 'what the toolbox is for': agents choose by it."
        raise ConfigError(f"there is no toolbox '{shown(toolbox)}' yet", file=target.path, hint=hint)
    return description


def _tell(options: Given, target: Target, *, replaced: bool) -> None:
    toolbox, server = options["toolbox"], options["server"]
    if "json" in options:
        file = str(target.path)
        print_json({"ok": True, "file": file, "toolbox": toolbox, "server": server, "replaced": replaced})
        return
    what = "replaced" if replaced else "added"
    write(f"{what} {slashed(toolbox, server)} in {target.path}")
    write(f"try it: mcp-workbench doctor {shlex.quote(shown(toolbox))}")
