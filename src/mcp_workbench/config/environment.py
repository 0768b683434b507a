"""Environment variables: `${VAR}` in values, and the variables that a server gets.

Guarantees: `expand` makes one pass from left to right and never expands the value of a variable again. A variable that
is set but empty counts as set; one that is set to a reference to itself does not. `$${` stands for `${`. No message
repeats text of the value, except the names of variables.

A server gets the variables of `INHERITED`, those that `inheritEnv` names, and its own `env`; never a variable of the
workbench itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_workbench.config.model import Launch


_START = re.compile(r"\$\$\{|\$\{")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PREFIXED = r"(?:env|ENV|secret|secrets):([A-Za-z_][A-Za-z0-9_]*)"
_LITERAL_HINT = "$${ stands for the characters ${."


class MalformedReferenceError(ValueError):
    """A `${` that starts no valid reference. The caller adds the position."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = f"{hint} {_LITERAL_HINT}".lstrip()


class Expansion(NamedTuple):
    """The expanded text, the variables that it used, and those that are missing."""

    text: str
    used: Mapping[str, str]
    missing: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Expansion(used={sorted(self.used)}, missing={self.missing})"


def expand(value: str, environ: Mapping[str, str]) -> Expansion:
    """`value` with its references replaced. A missing variable becomes the empty string."""
    pieces: list[str] = []
    used: dict[str, str] = {}
    missing: list[str] = []
    offset = 0
    while (match := _START.search(value, offset)) is not None:
        pieces.append(value[offset : match.start()])
        if match.group() == "$${":
            pieces.append("${")
            offset = match.end()
            continue
        name, default, offset = _reference(value, match.end())
        replacement = environ.get(name)
        if replacement in (f"${name}", f"${{{name}}}"):  # a host without a value for it passes on the reference itself
            replacement = None
        if replacement is not None:
            used[name] = replacement
        elif default is None:
            missing.append(name)
        pieces.append(replacement if replacement is not None else default or "")
    pieces.append(value[offset:])
    return Expansion("".join(pieces), used, tuple(missing))


def _reference(value: str, start: int) -> tuple[str, str | None, int]:
    """Name, default and end of the reference whose `${` ends at `start`."""
    end = value.find("}", start)
    if end < 0:
        raise MalformedReferenceError("a ${ is not closed by }", "Write ${NAME}.")
    body = value[start:end]
    name = re.match(_NAME, body)
    rest = body[name.end() :] if name else body
    if name is None or (rest and not rest.startswith(":-")):
        raise _malformed(body)
    default = rest[2:] if rest else None
    if default is not None and "${" in default.replace("$${", ""):
        raise MalformedReferenceError("a default cannot hold another ${", "Write the default as plain text.")
    return name.group(), None if default is None else default.replace("$${", "${"), end + 1


def _malformed(body: str) -> MalformedReferenceError:
    if not body:
        return MalformedReferenceError("${} names no variable", "Write ${NAME}.")
    prefixed = re.fullmatch(_PREFIXED, body)
    if prefixed:
        name = prefixed.group(1)
        return MalformedReferenceError(f"the form ${{…:{name}}} is not supported", f"Write ${{{name}}}.")
    if body.startswith("input:"):
        return MalformedReferenceError(
            "${input:…} is not supported: the workbench does not prompt for values",
            "Set an environment variable and write ${NAME}.",
        )
    return MalformedReferenceError(
        "this ${…} names no variable", "Write ${NAME} or ${NAME:-default}; a name has letters, digits and _ only."
    )


INHERITED: Final[Mapping[str, tuple[str, ...]]] = {
    "the user and the shell": ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR"),
    "certificate authorities": (
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
    ),
    "proxies": ("*_PROXY", "*_proxy"),
    "the screen and the session": ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS", "XDG_*"),
    "containers": ("DOCKER_HOST",),
    "locale and time zone": ("LC_*", "TZ"),
}
"""The variables that every server gets, by purpose. A `*` can begin or end a name."""

OWN_PREFIXES: Final = ("WORKBENCH_", "MCP_WORKBENCH_")
"""Variables of the workbench itself, such as the token of `serve --http`. No server inherits one."""

HOST_FOLDERS: Final = frozenset((
    "WORKSPACE_FOLDER",
    "WORKSPACE_FOLDER_BASENAME",
    "WORKSPACE_CWD",
    "CLAUDE_PROJECT_DIR",
))  # fmt: skip
"""Variables that a host sets to the folder that is open in it, so a person can set no fixed value."""

_PATTERNS: Final = tuple(pattern for patterns in INHERITED.values() for pattern in patterns)
_NAMES: Final = frozenset(pattern for pattern in _PATTERNS if "*" not in pattern)
_PREFIXES: Final = tuple(pattern[:-1] for pattern in _PATTERNS if pattern.endswith("*"))
_SUFFIXES: Final = tuple(pattern[1:] for pattern in _PATTERNS if pattern.startswith("*"))


def is_own(name: str) -> bool:
    """Whether a variable, or every variable that a pattern matches, belongs to the workbench itself."""
    return name.startswith(OWN_PREFIXES)


def is_default(name: str) -> bool:
    """Whether every server gets this variable."""
    return (name in _NAMES or name.startswith(_PREFIXES) or name.endswith(_SUFFIXES)) and not is_own(name)


def inherited(patterns: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that match the patterns of `inheritEnv`."""
    if not patterns:
        return {}
    from fnmatch import fnmatchcase  # noqa: PLC0415 -- few servers need it

    return {
        name: value
        for name, value in environ.items()
        if not is_own(name) and any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def environment_of(launch: Launch, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server: the defaults, what `inheritEnv` names, and its own `env`, which wins."""
    defaults = {name: value for name, value in environ.items() if is_default(name)}
    return {**defaults, **inherited(launch.inherit_env, environ), **launch.env}


def default_credentials(environ: Mapping[str, str]) -> frozenset[str]:
    """The secrets in default variables: addresses with credentials, and the credentials themselves."""
    return frozenset(
        secret for name, value in environ.items() if "@" in value and is_default(name) for secret in _credentials(value)
    )


def _credentials(value: str) -> Iterator[str]:
    """The credentials in an address. A proxy variable may have no scheme, and a user name alone may be a token."""
    scheme, mark, authority = value.partition("://")
    userinfo, at, _ = (authority if mark else value).rpartition("@")
    user, _, password = userinfo.partition(":")
    if not at or value.startswith("/") or not (password or (mark and scheme != "ssh")):
        return
    from urllib.parse import unquote  # noqa: PLC0415 -- few people have such a proxy

    yield from filter(None, (value, userinfo, password or user, unquote(password or user)))
