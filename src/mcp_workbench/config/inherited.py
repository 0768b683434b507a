"""Which variables of our environment a server gets: a table of defaults, and what `inheritEnv` names.

Guarantees: no variable of the workbench itself is passed on, whichever pattern matches it. Credentials in the values of
default variables, such as the password of a proxy, are known as secrets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mcp_workbench.config.model import Launch

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
"""Variables that every server gets, by what they are for. A `*` stands at the beginning or at the end of a name."""

OWN_PREFIXES: Final = ("WORKBENCH_", "MCP_WORKBENCH_")
"""Variables of the workbench itself, the token of `serve --http` among them: no server inherits one."""

HOST_FOLDERS: Final = frozenset((
    "WORKSPACE_FOLDER",
    "WORKSPACE_FOLDER_BASENAME",
    "WORKSPACE_CWD",
    "CLAUDE_PROJECT_DIR",
))  # fmt: skip
"""Variables that a host fills in with the folder that is open in it: no value that a person could set fits."""

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
    """What `inheritEnv` lets through. Most servers have none, and pay nothing for it."""
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
    """The secrets in default variables: addresses that hold credentials, and those credentials."""
    return frozenset(
        secret for name, value in environ.items() if "@" in value and is_default(name) for secret in _credentials(value)
    )


def _credentials(value: str) -> Iterator[str]:
    """Proxy variables may hold an address without a scheme, and a user name alone may be a token."""
    scheme, mark, authority = value.partition("://")
    userinfo, at, _ = (authority if mark else value).rpartition("@")
    user, _, password = userinfo.partition(":")
    if not at or value.startswith("/") or not (password or (mark and scheme != "ssh")):
        return
    from urllib.parse import unquote  # noqa: PLC0415 -- few people have one

    yield from filter(None, (value, userinfo, password or user, unquote(password or user)))
