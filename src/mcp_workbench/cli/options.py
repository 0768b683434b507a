"""The options of every command, declared once, as data.

`serve` is started by programs, thousands of times, and must not pay for a command line toolkit: it
reads its options with `read_plain`. The other commands, and every help text, are built from the same
data by the toolkit (`cli/app.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mcp_workbench.observe import LEVELS


class Argument(NamedTuple):
    """What stands after a command without a name."""

    key: str
    metavar: str
    required: bool = False


class Option(NamedTuple):
    """One option: a flag if it has no `metavar`."""

    name: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    otherwise: str = ""
    """What it means without a value, where that may be left out."""

    @property
    def key(self) -> str:
        """Its name as a Python identifier."""
        return self.name.lstrip("-").replace("-", "_")


CONFIG = Option(
    "--config",
    "The configuration file. Default: $WORKBENCH_CONFIG, else workbench-config.json in the user's "
    "configuration folder.",
    "FILE",
)
CONFIG_AT_TERMINAL = CONFIG._replace(
    help="The configuration file. Default: $WORKBENCH_CONFIG, else ./workbench-config.json, else "
    "workbench-config.json in the user's configuration folder."
)
LOG_LEVEL = Option("--log-level", "How much is logged to stderr. Default: $WORKBENCH_LOG, else info.", "LEVEL", LEVELS)
STRICT = Option("--strict", "Refuse to start when a ${VAR} of the configuration is not set.")
TOOLBOX = Option("--toolbox", "Serve the tools of this toolbox as they are, instead of the two meta-tools.", "NAME")
SERVER = Option("--server", "With --toolbox: serve this one server of it, as if it was started directly.", "NAME")
HTTP = Option(
    "--http",
    "Serve over HTTP instead, at this address. Without one: 127.0.0.1:8300.",
    "[HOST:PORT]",
    otherwise="127.0.0.1:8300",
)
TOKEN_FILE = Option(
    "--token-file",
    "With --http: a file of tokens for clients, one a line. Default: $WORKBENCH_TOKEN, else a new token.",
    "FILE",
)
JSON = Option("--json", "Print JSON, for programs.")

TOOLBOX_NAME = Argument("toolbox", "[TOOLBOX]")
REMOTE_SERVER = (Argument("toolbox", "TOOLBOX", required=True), Argument("server", "SERVER", required=True))

NO_BROWSER = Option("--no-browser", "Print the address to log in at, instead of opening it.")
LOGOUT = Option("--logout", "Forget the login, and have it revoked where that is possible.")

SERVE = (CONFIG, TOOLBOX, SERVER, HTTP, TOKEN_FILE, LOG_LEVEL, STRICT)
CHECK = (CONFIG_AT_TERMINAL, JSON)
REFRESH = (CONFIG_AT_TERMINAL, JSON)
TOKENS = (CONFIG_AT_TERMINAL, JSON)
AUTH = (CONFIG_AT_TERMINAL, NO_BROWSER, LOGOUT)


class NotPlain(Exception):
    """The arguments need the toolkit: a help text, or an error to explain."""


def read_plain(arguments: Sequence[str], options: Sequence[Option]) -> dict[str, str]:
    """The options that were given, by key; a flag has the value `true`. Raises `NotPlain`."""
    known = {option.name: option for option in options}
    given: dict[str, str] = {}
    rest = list(reversed(arguments))
    while rest:
        argument = rest.pop()
        name, equals, value = argument.partition("=")
        option = known.get(name)
        if option is None or bool(equals) > bool(option.metavar):
            raise NotPlain(argument)
        if option.metavar and not equals:
            follows = bool(rest) and not (option.otherwise and rest[-1].startswith("-"))
            value = rest.pop() if follows else option.otherwise
        if option.metavar and (not value or (option.choices and value not in option.choices)):
            raise NotPlain(argument)
        given[option.key] = value if option.metavar else "true"
    return given
