"""Converts an entry of a host's file to an entry of our configuration.

Guarantees: the result has only keys that the configuration knows, and a note names every key that is left out. An
entry that can't be used here raises `NotMovable`. No note repeats a value.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from pathlib import Path, PurePath
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from mcp_workbench.config.fields import ValuePosition
from mcp_workbench.config.jsonc.parser import parse
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.keys import HOST_KEYS, SERVER, TIMEOUT_MOST_SECONDS, TRANSPORT_KEYS, TRANSPORTS, URL_KEYS
from mcp_workbench.config.servers import ReadContext, read_server
from mcp_workbench.doctor.packages import fetched_packages
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts.registry import Entry, list_of
from mcp_workbench.hosts.restrictions.rules import CHOSEN_KEYS, EXCLUDED_KEYS, NOTHING, chosen_name
from mcp_workbench.hosts.variables import NotReplacedError, VariableScope, own_variables, translate
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import escape

_ORDER = tuple(key.name for key in SERVER)
_HOST_ONLY = frozenset(
    {"$schema", "alwaysAllow", "alwaysLoad", "autoApprove", "default_tools_approval_mode", "description", "dev"}
    | {"experimental_environment", "gallery", "icon", "name", "remoteConfigured", "required", "source", "tools"}
    | {"supports_parallel_tool_calls", "trust", "version", "watchPaths"}
)
"""Keys that concern only the host. They need no note."""
_RENAMED = {"http_headers": "headers", "startup_timeout_sec": "startupTimeout", "tool_timeout_sec": "callTimeout"}
_OAUTH_RENAMED = {"client_id": "clientId", "client_secret": "clientSecret", "callback_port": "callbackPort"}
_EMPTY_VALUES: tuple[Any, ...] = ({}, [], None)
_LOGIN = re.compile(r"(?i)(https?://)([^/?#@]*)@")
_SSE = re.compile(r"/sse/?(?:[?#].*)?$")
"""The usual end of an address for the older HTTP+SSE transport."""
_OWN_WORDS = ("mcp-workbench", "workbench-mcp", "mcp_workbench")


class NotConvertible(Exception):
    """The entry can't be used here. The text says why."""


class ConvertedEntry(NamedTuple):
    """An entry in our form, and notes on what was left out."""

    entry: Entry
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Moved({sorted(self.entry)})"


def convert(raw: Any, scope: VariableScope) -> ConvertedEntry:
    """Convert the entry of a host. Raises `NotMovable`."""
    if not isinstance(raw, dict):
        raise NotConvertible("is not an object")
    entry = flattened(dict(cast("Entry", raw)))
    if "command" not in entry and not any(key in entry for key in URL_KEYS):
        raise NotConvertible("has neither a command nor an address: it belongs to an extension of the host")
    try:
        conversion = _Conversion(entry, scope)
    except NotReplacedError as reason:
        raise NotConvertible(str(reason)) from None
    result = {key: conversion.result[key] for key in _ORDER if key in conversion.result}
    _check_accepted(result)
    return ConvertedEntry(result, tuple(conversion.notes))


def is_workbench(raw: Any) -> bool:
    """Whether an entry starts the workbench itself."""
    if not isinstance(raw, dict):
        return False
    entry = flattened(dict(cast("Entry", raw)))
    args = list_of(entry.get("args"))
    parts = [part for part in (entry.get("command"), *args) if isinstance(part, str)]
    words = [word for part in parts for word in part.split()]
    if not words:
        return False
    program, *rest = [*parts[0].split(), *parts[1:]]  # some write the whole line as the command
    packages = fetched_packages(program, rest)
    if _is_own(words[0]) or any(_is_own(package.spec) for package in packages):
        return True
    # A path of that name may be an argument of another server.
    return any(_is_own(word) and (words[at - 1] == "-m" or "serve" in words[at + 1 :]) for at, word in enumerate(words))


def _is_own(word: str) -> bool:
    return re.split(r"[@:\[=]", PurePath(word).name)[0].removesuffix(".exe") in _OWN_WORDS


def flattened(entry: Entry) -> Entry:
    """The entry with its command at the top: an older form has an object as the command."""
    command = entry.get("command")
    if not isinstance(command, dict):
        return entry
    inner = cast("Entry", command)
    return {**entry, **{key: inner[key] for key in ("args", "env") if key in inner}, "command": inner.get("path")}


def _check_accepted(entry: Entry) -> None:
    """Raise `NotMovable` unless the configuration accepts the entry."""
    source = SourceText(json.dumps(entry))
    context = ReadContext(folder="/", environ={}, strict=False, limits=DEFAULTS, bounds={}, warnings=[])
    try:
        read_server(ValuePosition(source, parse(source), "", 0), "toolbox", "server", context)
    except ConfigError as error:
        raise NotConvertible(": ".join(part for part in (error.path, error.problem) if part)) from None


class _Conversion:
    """Converts an entry by removing its keys one after the other."""

    def __init__(self, entry: Entry, scope: VariableScope) -> None:
        self.result: Entry = {}
        self.notes: list[str] = []
        self._remaining = entry
        self._scope = scope
        self._headers: dict[str, str] = {}
        """Headers that the host writes under other keys."""
        self._target()
        self._filters()
        self._timeouts()
        self._codex_keys()
        self._oauth()
        self._known_keys()
        if scope.project is not None and "command" in self.result:
            self._make_absolute(scope.project)
        left_out = (key for key, value in self._remaining.items() if value not in _EMPTY_VALUES)
        self.notes += [self._note(key) for key in left_out if key not in _HOST_ONLY]

    def _target(self) -> None:
        kinds = [self._remaining.pop(key) for key in TRANSPORT_KEYS if key in self._remaining]
        urls = [self._remaining.pop(key) for key in ("httpUrl", "serverUrl", "url") if key in self._remaining]
        if "command" in self._remaining:
            return
        url = _text(urls[0], self._scope)
        self.result["url"] = self._without_userinfo(url) if isinstance(url, str) else url
        declared = TRANSPORTS.get(kinds[0]) if kinds and isinstance(kinds[0], str) else None
        if (declared or ("sse" if _SSE.search(str(url)) else "http")) == "sse":
            self.result["transport"] = "sse"

    def _without_userinfo(self, url: str) -> str:
        """Turn a user and a password in an address into a header, as hosts do."""
        login = _LOGIN.match(url)
        if login is None or "${" in login[2]:
            return url
        self._headers["Authorization"] = f"Basic {b64encode(unquote(login[2]).encode()).decode()}"
        return login[1] + url[login.end() :]

    def _filters(self) -> None:
        lists = [names for key in CHOSEN_KEYS if (names := self._names(key)) is not None]
        chosen = [chosen_name(name) for names in lists for name in names]
        excluded = [f"!{name}" for key in EXCLUDED_KEYS for name in self._names(key) or ()]
        nothing = [NOTHING] if lists and not chosen else []
        if chosen or excluded or nothing:
            self.result["toolFilters"] = [*chosen, *nothing, *excluded]

    def _names(self, key: str) -> list[str] | None:
        """A list of tools; None if the key is missing."""
        value = self._remaining.pop(key, None)
        if value is None:
            return None
        names = cast("list[Any]", value) if isinstance(value, list) else [None]
        if not all(isinstance(name, str) for name in names):
            raise NotConvertible(f"{key}: is not a list of tool names, so what it excludes is unknown")
        return cast("list[str]", names)

    def _timeouts(self) -> None:
        """Convert `timeout`, the limit for calls, from the unit of the host."""
        timeout: Any = self._remaining.get("timeout")
        unit = self._scope.timeout_unit
        # Claude Code ignores less than a second: such a value was meant as seconds.
        if unit and type(timeout) in (int, float) and timeout * unit >= 1:
            del self._remaining["timeout"]
            self.result["callTimeout"] = _number(min(float(timeout) * unit, TIMEOUT_MOST_SECONDS))

    def _codex_keys(self) -> None:
        milliseconds = self._remaining.pop("startup_timeout_ms", None)
        if type(milliseconds) in (int, float) and "startup_timeout_sec" not in self._remaining:
            self._remaining["startup_timeout_sec"] = milliseconds / 1000
        for old, new in _RENAMED.items():
            if old in self._remaining:
                value = self._remaining.pop(old)
                is_long = type(value) in (int, float) and value > TIMEOUT_MOST_SECONDS
                self._remaining[new] = TIMEOUT_MOST_SECONDS if is_long else value
        if isinstance(self._remaining.get("env_http_headers"), dict):
            for name, variable in self._remaining.pop("env_http_headers").items():
                self._headers[name] = f"${{{variable}}}"
        bearer = self._remaining.pop("bearer_token_env_var", None)
        if isinstance(bearer, str):
            self._headers["Authorization"] = f"Bearer ${{{bearer}}}"
        if isinstance(self._remaining.get("env_vars"), list):
            names = [variable_of(value) for value in self._remaining.pop("env_vars")]
            self.result |= {"inheritEnv": names} if names else {}

    def _oauth(self) -> None:
        """Convert `oauth`: some hosts spell its keys differently, or write the scopes next to it."""
        oauth = self._remaining.get("oauth")
        scopes = self._remaining.pop("scopes", None)
        if "url" in self.result and isinstance(oauth, dict | None):
            renamed = {_OAUTH_RENAMED.get(key, key): value for key, value in cast("Entry", oauth or {}).items()}
            self._remaining["oauth"] = {**renamed, **({"scopes": scopes} if scopes else {})}

    def _known_keys(self) -> None:
        if self._remaining.pop("disabled", False) is True or self._remaining.pop("enabled", True) is False:
            self.result["disabled"] = True
        scope_of_args = self._scope
        if isinstance(self._remaining.get("env"), dict):
            env = self._remaining["env"] = _environment(self._remaining["env"])
            # Programs such as mcp-remote expand ${NAME} in their arguments themselves.
            scope_of_args = scope_of_args._replace(own=own_variables(env))
        for key in [key for key in self._remaining if key in _ORDER]:
            value = self._remaining.pop(key)
            if value not in _EMPTY_VALUES:
                self.result[key] = _text(value, scope_of_args if key == "args" else self._scope)
        if self._headers:
            self.result["headers"] = {**self._headers, **(self.result.get("headers") or {})}

    def _make_absolute(self, project: Path) -> None:
        """Make paths absolute: hosts run the servers of a project in its folder."""
        command = self.result["command"]
        if isinstance(command, str) and "/" in command and not command.startswith(("/", "~", "$")):
            self.result["command"] = str(project / command)
        cwd = self.result.get("cwd", "")
        if isinstance(cwd, str) and not cwd.startswith(("/", "~", "$")):
            self.result["cwd"] = str(project / cwd)

    def _note(self, key: str) -> str:
        return f"'{escape(key)}' {HOST_KEYS.get(key, 'has no meaning here')}"


def _number(seconds: float) -> float:
    """The number without a fraction if it is whole, as people write it."""
    return int(seconds) if seconds == int(seconds) else seconds


def _environment(env: Entry) -> Entry:
    """Environment variables as strings: VS Code also accepts numbers, and null for an unset variable."""
    values = {name: str(value) if type(value) in (int, float) else value for name, value in env.items()}
    return {name: value for name, value in values.items() if value is not None}


def _text(value: Any, scope: VariableScope) -> Any:
    """A value with our references in all of its strings."""
    if isinstance(value, str):
        return translate(value, scope)
    if isinstance(value, list):
        return [_text(item, scope) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _text(item, scope) for key, item in cast("Entry", value).items()}
    return value


def variable_of(item: Any) -> str:
    """The name of a variable: Codex writes a string, or an object with a name."""
    return str(cast("Entry", item).get("name", "")) if isinstance(item, dict) else str(item)
