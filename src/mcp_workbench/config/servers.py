"""Reads one entry of `mcpServers` into a `ServerConfig`.

Guarantees: the server has exactly one target, absolute paths, expanded values that the operating system or a header
accepts, and the set of its values that must never be shown. A missing variable fails only this server, except in
strict mode. It starts nothing and does not search PATH.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import msgspec

from mcp_workbench.config.environment import MalformedReferenceError, expand, inherited, is_default, is_own
from mcp_workbench.config.fields import (
    ValuePosition,
    read_boolean,
    read_bounds,
    read_members,
    read_names,
    read_number,
    read_string,
    read_whole,
)
from mcp_workbench.config.keys import (
    ANNOTATIONS,
    BOUNDS,
    CLIENT_CREDENTIALS,
    HOST_KEYS,
    OAUTH_OF_HOSTS,
    ROOT_ONLY,
    SERVER,
    TRANSPORT_KEYS,
    TRANSPORTS,
    URL_KEYS,
    did_you_mean,
)
from mcp_workbench.config.model import ConfigWarning, Endpoint, Launch, MissingVariable, OAuthClient, ServerConfig
from mcp_workbench.limits import Limits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Literal

TIMEOUT_USUAL_SECONDS = 3600.0
"""Above this, `check` warns that the value may be in milliseconds."""


# Patterns are strings, compiled at their first use: most files need none of them.
_URL = r"(?i)https?://[^\s/?#\x00-\x1f\x7f]+[^\s\x00-\x1f\x7f]*"
_HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_HEADER_UNFIT = r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]"
_SCOPE = r"[!#-\[\]-~]+"
_LAUNCH_KEYS = ("args", "env", "cwd", "inheritEnv")
_SERVER_DECIDES = "has no effect here: the server says where to log in"
_ENDPOINT_KEYS = ("headers", "allowInsecure", "oauth")
_USERINFO = r"(?i)https?://[^/?#]*@"
OPEN_WIRE = r"(?i)http://(?!(?:[^/?#:]*\.)?localhost\.?(?:[:/?#]|$)|127\.[\d.]+(?:[:/?#]|$)|\[::1\])"
"""An unencrypted address that is not obviously on this machine. The connection checks more closely."""
_OWN_HEADERS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "last-event-id"}
    | {"mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding"}
)
"""Headers that the workbench sets itself."""


class ReadContext(msgspec.Struct):
    """The context in which a file is read, and the warnings so far."""

    folder: str
    environ: Mapping[str, str]
    strict: bool
    limits: Limits
    bounds: Mapping[str, float]
    """Limits that the file sets for every server."""
    warnings: list[ConfigWarning]
    inherit_env: tuple[str, ...] = ()
    """The variables that the file lets every server inherit."""
    credentials: frozenset[str] = frozenset()
    """The secrets in the variables that every server gets."""

    def __repr__(self) -> str:
        return f"Reading({self.folder!r})"


def read_server(position: ValuePosition, toolbox: str, name: str, context: ReadContext) -> ServerConfig | None:
    """The server at `position`; None if it is disabled."""
    for key in (key for key in ROOT_ONLY if key in position.members()):
        raise position.members()[key].key_error(f"'{key}' is not a key of a server", "Move it to the top of the file.")
    members = read_members(position, SERVER, HOST_KEYS)
    bounds = {**context.bounds, **read_bounds(members, BOUNDS)}
    context.warnings += odd_times(members, context.limits.bounded(bounds))
    if is_disabled(members):
        return None
    context.warnings += [members[key].warning(f"'{key}' {HOST_KEYS[key]}") for key in members if key in HOST_KEYS]
    filters = _filters(members.get("toolFilters"))
    url_key = _target_key(position, members)
    transport = _transport(members, remote=url_key is not None)
    values = _Values(context)
    target = _endpoint(members, members[url_key], transport, values) if url_key else _launch(members, values)
    return ServerConfig(
        name=name,
        toolbox=toolbox,
        target=target,
        tool_filters=filters,
        bounds=bounds,
        missing=tuple(values.missing),
        secrets=frozenset(values.secrets),
    )


def odd_times(members: Mapping[str, ValuePosition], limits: Limits) -> list[ConfigWarning]:
    """Warnings for times that look like milliseconds, and for a call timeout that can never be reached."""
    times = [members[key.name] for key in BOUNDS if key.unit == "seconds" and key.name in members]
    warnings = [
        time.warning(f"this is {seconds / 3600:.1f} hours; it is a number of seconds")
        for time in times
        if (seconds := read_number(time)) > TIMEOUT_USUAL_SECONDS
    ]
    longest = limits.call_hard_timeout_seconds
    if "callTimeout" in members and read_number(members["callTimeout"]) > longest:
        warnings.append(members["callTimeout"].warning(f"maxCallTime, {longest:g} s, ends every call before this"))
    return warnings


def is_disabled(members: Mapping[str, ValuePosition]) -> bool:
    disabled = "disabled" in members and read_boolean(members["disabled"])
    enabled = "enabled" not in members or read_boolean(members["enabled"])
    return disabled or not enabled


def _target_key(position: ValuePosition, members: Mapping[str, ValuePosition]) -> str | None:
    """The key of the address; None for a local server."""
    urls = [key for key in URL_KEYS if key in members]
    if len(urls) > 1:
        raise members[urls[1]].key_error(f"'{urls[0]}' and '{urls[1]}' mean the same", "Keep one of the two.")
    if urls and "command" in members:
        raise members[urls[0]].key_error(
            f"a server has either 'command' or '{urls[0]}', not both", "Keep the one that the server needs."
        )
    if not urls and "command" not in members:
        raise position.error(
            "a server needs 'command' or 'url'", 'Add "command" for a local program, or "url" for a remote server.'
        )
    return urls[0] if urls else None


def _transport(members: Mapping[str, ValuePosition], *, remote: bool) -> Literal["http", "sse"]:
    """The transport of a remote server. For a local one it is only checked."""
    declared = [(members[key], TRANSPORTS[read_string(members[key])]) for key in TRANSPORT_KEYS if key in members]
    for position, meaning in declared:
        if meaning != declared[0][1]:
            raise position.error(f"contradicts {declared[0][0].path}", "Keep one of the two.")
        if remote and meaning == "stdio":
            raise position.error(
                "a server with a url cannot be reached by stdio", "Write 'http' or 'sse', or leave it out."
            )
        if not remote and meaning != "stdio":
            raise position.error("a server with a command is reached by stdio", "Write 'stdio', or leave it out.")
    return "sse" if declared and declared[0][1] == "sse" else "http"


def _filters(position: ValuePosition | None) -> tuple[str, ...]:
    if position is None:
        return ()
    for item in position.items():
        pattern = read_string(item).removeprefix("!")
        if not pattern:
            raise item.error("has no tool after '!'", 'Write the tool to exclude, as in "!delete_*".')
        if pattern.startswith("@") and pattern not in ANNOTATIONS:
            known = f"Known annotations: {', '.join(ANNOTATIONS)}."
            raise item.error("is not a known annotation", did_you_mean(pattern, ANNOTATIONS, known))
    return read_names(position)


def _launch(members: Mapping[str, ValuePosition], values: _Values) -> Launch:
    values.warn_unused(members, _ENDPOINT_KEYS, "has no effect for a server with a command")
    for name, member in members["env"].members().items() if "env" in members else ():
        if not name or "=" in name or "\x00" in name:
            raise member.key_error("this is not a valid name for an environment variable", "Use letters, digits and _.")
    cwd = members.get("cwd")
    command, args = values.program(members["command"]), values.args(members.get("args"))
    env = values.map(members.get("env"))
    return Launch(
        command=command,
        args=args,
        env=env,
        cwd=values.folder(cwd) if cwd else None,
        inherit_env=values.inherit(members.get("inheritEnv"), env),
    )


def read_inherited(position: ValuePosition | None, warnings: list[ConfigWarning]) -> tuple[str, ...]:
    """The variables that `inheritEnv` names. Adds a warning for each that servers never get."""
    if position is None:
        return ()
    for item in position.items():
        if "=" in read_string(item):
            raise item.error("must be the name of a variable, without '='", "To set a variable, write it in env.")
        if is_own(read_string(item)):
            message = "variables of the workbench itself are not passed on to servers: set one in env if it needs it"
            warnings.append(item.warning(message))
    return read_names(position)


def _endpoint(
    members: Mapping[str, ValuePosition], url: ValuePosition, transport: Literal["http", "sse"], values: _Values
) -> Endpoint:
    values.warn_unused(members, _LAUNCH_KEYS, "has no effect for a server with a url")
    headers = members.get("headers")
    for name, member in headers.members().items() if headers else ():
        if not re.fullmatch(_HEADER_NAME, name):
            raise member.key_error("this is not a valid name for a header", "Use letters, digits and -.")
        if name.lower() in _OWN_HEADERS:
            raise member.key_error("this header is set by the workbench itself", "Remove it.")
    allow_insecure = "allowInsecure" in members and read_boolean(members["allowInsecure"])
    address = values.url(url)
    if headers and headers.members() and not allow_insecure and re.match(OPEN_WIRE, address):
        values.warn(headers, "these would be sent over http, so the server is refused: use https, or set allowInsecure")
    oauth = values.oauth(members.get("oauth"))
    if oauth.logs_in_itself and headers and any(name.lower() == "authorization" for name in headers.members()):
        values.warn(members["oauth"], "'oauth' has no effect: the Authorization of the headers is sent")
    return Endpoint(
        url=address, headers=values.headers(headers), transport=transport, oauth=oauth, allow_insecure=allow_insecure
    )


def _check_passable(position: ValuePosition, text: str) -> None:
    """Raise `ConfigError` unless `text` can be passed to a process."""
    if "\x00" in text:
        raise position.error("cannot hold a NUL character")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise position.error("holds a character that cannot be passed on") from None


class _Values:
    """Expands the values of one server. Collects their secrets and the missing variables."""

    def __init__(self, context: ReadContext) -> None:
        self._context = context
        self._has_variable = False
        self.secrets: set[str] = set(context.credentials)
        self.missing: list[MissingVariable] = []

    def text(self, position: ValuePosition, *, is_argument: bool = False) -> str:
        try:
            expansion = expand(read_string(position), self._context.environ)
        except MalformedReferenceError as error:
            raise position.error(str(error), error.hint) from None
        for variable in expansion.missing:
            self._add_missing(position, variable)
        _check_passable(position, expansion.text)
        self.secrets.update(value for value in expansion.used.values() if value)
        self._has_variable = bool(expansion.used)
        if is_argument:
            self._warn_visible(position, expansion.used)
        return expansion.text

    def non_empty(self, position: ValuePosition) -> str:
        text = self.text(position)
        if not text.strip() and not self.missing:
            raise position.error("is empty once its variables are replaced", "Give the variable a value.")
        return text

    def program(self, position: ValuePosition) -> str:
        """The program, as an absolute path. A bare name stays: it is searched on PATH when the server starts."""
        command = os.path.expanduser(self.non_empty(position))  # noqa: PTH111 -- Path raises for an unknown user
        if "/" in command and not command.startswith("/"):
            command = str(self._in_folder(command))
        return self._mark_secret(command)

    def folder(self, position: ValuePosition) -> Path:
        folder = self._in_folder(os.path.expanduser(self.non_empty(position)))  # noqa: PTH111 -- same
        self._mark_secret(str(folder))
        return folder

    def _mark_secret(self, path: str) -> str:
        """Hide a path that contains an expanded variable: it is as secret as the variable."""
        if self._has_variable:
            self.secrets.add(path)
        return path

    def _in_folder(self, name: str) -> Path:
        from pathlib import Path  # noqa: PLC0415 -- few servers need it, and importing it delays every start

        return Path(self._context.folder, name)

    def args(self, position: ValuePosition | None) -> tuple[str, ...]:
        return tuple(self.text(item, is_argument=True) for item in position.items()) if position else ()

    def map(self, position: ValuePosition | None) -> dict[str, str]:
        """A map whose values are all secrets."""
        values = {name: self.text(member) for name, member in position.members().items()} if position else {}
        self.secrets.update(value for value in values.values() if value)
        return values

    def headers(self, position: ValuePosition | None) -> dict[str, str]:
        values = self.map(position)
        for name, member in position.members().items() if position else ():
            if re.search(_HEADER_UNFIT, values[name]):
                raise member.error("holds a character that no header can carry", "Remove line breaks from the value.")
        return values

    def url(self, position: ValuePosition) -> str:
        url = self.non_empty(position)
        if not self.missing and not re.fullmatch(_URL, url):
            raise position.error("must be an address that starts with http:// or https://")
        if re.match(_USERINFO, url):
            raise position.error("cannot hold a name and a password", "Send them in headers, as Authorization.")
        return url

    def oauth(self, position: ValuePosition | None) -> OAuthClient:
        members = position.members() if position else {}
        self.warn_unused(members, OAUTH_OF_HOSTS, _SERVER_DECIDES)
        client_id, secret, key = (
            self.non_empty(members[name]) if name in members else ""
            for name in ("clientId", "clientSecret", "privateKey")
        )
        self.secrets.update({secret, key} - {""})
        if secret and "clientId" not in members:
            raise members["clientSecret"].key_error("'clientSecret' needs 'clientId'", "Add the clientId.")
        has_credentials = "grantType" in members and read_string(members["grantType"]) == CLIENT_CREDENTIALS
        if position is not None and has_credentials:
            self._check_client_credentials(position, members)
        else:
            self.warn_unused(members, ("issuer",), _SERVER_DECIDES)
            self.warn_unused(members, ("privateKey", "signingAlgorithm"), f"needs the grantType {CLIENT_CREDENTIALS}")
        for item in members["scopes"].items() if "scopes" in members else ():
            if not re.fullmatch(_SCOPE, read_string(item)):
                raise item.error("is not a valid scope", "Write each scope as a string of its own, without spaces.")
        return OAuthClient(
            client_id=client_id,
            client_secret=secret,
            scopes=read_names(members["scopes"]) if "scopes" in members else (),
            callback_port=read_whole(members["callbackPort"]) if "callbackPort" in members else 0,
            issuer=self.url(members["issuer"]) if has_credentials else "",
            private_key=key if has_credentials else "",
            signing_algorithm=read_string(members["signingAlgorithm"]) if "signingAlgorithm" in members else "RS256",
        )

    def _check_client_credentials(self, position: ValuePosition, members: Mapping[str, ValuePosition]) -> None:
        """Raise `ConfigError` if a key is missing that client credentials need."""
        for name, why in (
            ("clientId", "Add the id under which the client is registered at the authorization server."),
            ("issuer", "Add the address of the authorization server: only this server gets the secret."),
        ):
            if name not in members:
                raise position.error(f"{CLIENT_CREDENTIALS} needs '{name}'", why)
        if ("clientSecret" in members) == ("privateKey" in members):
            raise position.error(f"{CLIENT_CREDENTIALS} needs 'clientSecret' or 'privateKey'", "Add one of the two.")
        self.warn_unused(members, ("callbackPort",), f"has no effect for {CLIENT_CREDENTIALS}")

    def warn(self, position: ValuePosition, message: str) -> None:
        self._context.warnings.append(position.warning(message))

    def warn_unused(self, members: Mapping[str, ValuePosition], keys: tuple[str, ...], why: str) -> None:
        self._context.warnings += [members[key].warning(f"'{key}' {why}") for key in keys if key in members]

    def inherit(self, position: ValuePosition | None, env: Mapping[str, str]) -> tuple[str, ...]:
        """The patterns of `inheritEnv`. The values that they add are as secret as `env`."""
        own_patterns = read_inherited(position, self._context.warnings)
        patterns = tuple(dict.fromkeys((*self._context.inherit_env, *own_patterns)))
        added = inherited(patterns, self._context.environ).items()
        self.secrets.update(value for name, value in added if value and name not in env and not is_default(name))
        return patterns

    def _add_missing(self, position: ValuePosition, variable: str) -> None:
        if self._context.strict:
            hint = f"Set it, or give a default: ${{{variable}:-default}}."
            raise position.error(f"the environment variable {variable} is not set", hint)
        line, column = position.source.position(position.node.start)
        self.missing.append(MissingVariable(variable, position.path, line, column))

    def _warn_visible(self, position: ValuePosition, used: Mapping[str, str]) -> None:
        from mcp_workbench.config.secret_patterns import names_secret  # noqa: PLC0415 -- few servers need it

        for variable in used:
            if names_secret(variable, possibly=True):
                message = f"${{{variable}}}: a secret in args is visible to other programs of this user (ps); use env"
                self._context.warnings.append(position.warning(message))
