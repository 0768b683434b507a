"""The options of every command, declared once, as data: parser, help texts and shell completion all read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_workbench.logger import LEVELS


class Argument(NamedTuple):
    """What stands after a command without a name."""

    key: str
    metavar: str
    required: bool = False
    known: str = ""
    """What a shell completes it with: the name of a completer in `cli/completion.py`."""


class Option(NamedTuple):
    """One option: a flag if it has no `metavar`."""

    name: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    otherwise: str = ""
    """What it means without a value, where that may be left out."""
    repeated: bool = False
    """Whether it may be given several times: `Given.all` has the values."""
    known: str = ""
    """What a shell completes it with, as for an `Argument`."""

    @property
    def key(self) -> str:
        """Its name as a Python identifier."""
        return self.name.lstrip("-").replace("-", "_")


class Given(dict[str, str]):
    """What a command was given: options and arguments by key. A flag that was given has the value `true`."""

    def __init__(
        self,
        single: Mapping[str, str] | None = None,
        *,
        words: Sequence[str] = (),
        repeated: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(single or {})
        self.words = tuple(words)
        """The rest of the command line, where a command takes it."""
        self._repeated = {key: tuple(values) for key, values in (repeated or {}).items()}

    def all(self, key: str) -> tuple[str, ...]:
        """Every value of an option that may be given several times, in order."""
        return self._repeated.get(key, ())


HELP = Option("--help", "Show this help.")
VERSION = Option("--version", "Show the version.")
DEBUG = Option("--debug", "Show where in the program an error came from.")
GENERAL = (VERSION, DEBUG)
"""Options before the command."""
CONFIG = Option(
    "--config",
    "The configuration file. Default: $WORKBENCH_CONFIG, else ./workbench-config.json if you trust it, else "
    "workbench-config.json in the user's configuration folder.",
    "FILE",
)
CONFIG_AT_TERMINAL = CONFIG._replace(
    help="The configuration file. Default: $WORKBENCH_CONFIG, else ./workbench-config.json if you trust it or say yes, "
    "else workbench-config.json in the user's configuration folder."
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

TOOLBOX_NAME = Argument("toolbox", "[TOOLBOX]", known="toolbox")
A_TOOLBOX = Argument("toolbox", "TOOLBOX", required=True, known="toolbox")
A_SERVER = Argument("server", "SERVER", required=True, known="server")
A_TOOL = Argument("tool", "TOOL", required=True, known="tool")
SERVER_NAME = Argument("server", "[SERVER]", known="server")
A_SHELL = Argument("shell", "bash|zsh|fish", required=True, known="shell")

NO_BROWSER = Option("--no-browser", "Print the address to log in at, instead of opening it.")
LOGOUT = Option("--logout", "Forget the login, and have it revoked where that is possible.")

SERVE = (CONFIG, TOOLBOX, SERVER, HTTP, TOKEN_FILE, LOG_LEVEL, STRICT)
AT_TERMINAL = (CONFIG_AT_TERMINAL, JSON)
SEARCH = (*AT_TERMINAL, Option("--toolbox", "Search in this toolbox alone.", "NAME", known="toolbox"))
CALL = (
    CONFIG_AT_TERMINAL,
    Option("--output", "Write the result to this file, into this folder (FOLDER/), or as bytes to stdout (-).", "FILE"),
    Option("--force", "With --output: overwrite the file."),
    JSON._replace(help="Print the result as the server sent it, in JSON."),
)

DOCTOR = (
    *AT_TERMINAL,
    Option("--timeout", "How long each server may take to start. Default: its startupTimeout.", "SECONDS"),
    Option("--strict", "Exit with 1 also if there is only a warning."),
    Option(
        "--try-environment",
        "Start each failing server once more, with your whole environment; if it works, find the variables it needs.",
    ),
)
A_FILE = Argument("file", "[FILE]")
TRUST = (
    Option("--yes", "Do not ask: for programs."),
    Option("--list", "List what is trusted, and whether it is still as it was."),
    Option("--remove", "Trust the file no more."),
    JSON,
)

DOCS = (
    Option("--search", "Search all pages for these words instead."),
    Option("--path", "Print the path of the page's file, or without a page the folder of all pages."),
    Option("--no-pager", "Print the page, however long it is."),
    JSON,
)

A_HOST = Argument("host", "[HOST]", known="host")
A_NEW_SERVER = Argument("server", "SERVER", required=True)
IN_PROJECT = Option("--project", "The host's file in this folder, instead of your own.")
WITHOUT_RULES = Option(
    "--without-rules", "Also take servers with a host rule that can't be carried over: the rule is lost."
)
IMPORT = (
    Option("--from", "Take the servers of this file alone.", "FILE"),
    Option(
        "--toolbox",
        "Put all servers into this toolbox. Default: group them by what they do.",
        "NAME",
        known="toolbox",
    ),
    Option("--by-host", "Make a toolbox for each host instead."),
    CONFIG._replace(
        help="The configuration to write. Default: $WORKBENCH_CONFIG, else the one in your configuration folder."
    ),
    Option("--force", "Add to a configuration that exists, without asking."),
    WITHOUT_RULES,
    Option("--dry-run", "Show what would change, without secrets, and write nothing."),
    JSON,
)
INSTALL = (
    Option("--all", "Every host that is found on this machine."),
    IN_PROJECT,
    Option("--remove-imported", "Take out the servers that the workbench has, as import brought them there."),
    WITHOUT_RULES,
    CONFIG._replace(
        help="The configuration that the host's workbench uses. Default: $WORKBENCH_CONFIG, else it finds yours."
    ),
    Option("--command", "What the host starts. Default: the absolute path of this mcp-workbench.", "PROGRAM"),
    Option("--name", "What the workbench is called there. Default: workbench.", "NAME"),
    Option("--env", "Write your value of this variable into the entry. May be repeated.", "NAME", repeated=True),
    JSON,
)
UNINSTALL = (Option("--all", "Every host that has the workbench."), IN_PROJECT, JSON)
ADD = (
    CONFIG_AT_TERMINAL,
    Option("--url", "A remote server, instead of a command.", "URL"),
    Option("--header", "A header for it. May be repeated.", "NAME=VALUE", repeated=True),
    Option("--transport", "How it is reached. Default: http.", "http|sse", ("http", "sse")),
    Option("--env", "An environment variable of the command. May be repeated.", "NAME=VALUE", repeated=True),
    Option(
        "--inherit",
        "A variable of your environment to pass on to it, by name or glob. May be repeated.",
        "NAME",
        repeated=True,
        known="variable",
    ),
    Option("--cwd", "Where the command runs.", "FOLDER"),
    Option("--description", "What a new toolbox is for: agents choose by it.", "TEXT"),
    Option("--replace", "Change a server that is there already."),
    Option("--allow-secret", "Allow a value that looks like a secret in the configuration of this folder."),
    JSON,
)

MOVE = (
    CONFIG_AT_TERMINAL,
    Option("--to", "The toolbox to move it to. It is created if it does not exist.", "TOOLBOX", known="toolbox"),
    Option("--from", "The toolbox that has it now, if several have one of this name.", "TOOLBOX", known="toolbox"),
    Option("--description", "What a new toolbox is for: agents choose by it. Default: what the server does.", "TEXT"),
    JSON,
)
ANY_SERVER = Argument("server", "SERVER", required=True, known="any_server")
A_DESCRIPTION = Argument("text", "TEXT", required=True)

EVERY_RUN = Option("--all", "Also of workbenches that ended.")
STATUS = (Option("--watch", "Show it again and again, until you press q."), EVERY_RUN, JSON)
LOGS = (
    Option("--calls", "Show calls of tools instead of lines: with arguments and results, if those are recorded."),
    Option("--follow", "Go on with what is logged from now on, until Ctrl-C."),
    Option("--lines", "How many of the last lines, or calls. Default: 50.", "NUMBER"),
    Option(
        "--server",
        "Only lines about this server, or about any server of a toolbox. Write a / in a name as \\/.",
        "TOOLBOX[/SERVER]",
    ),
    Option("--level", "Only lines of this level and above. Calls that failed are errors.", "LEVEL", LEVELS[:-1]),
    EVERY_RUN,
    JSON._replace(help="Print JSON, for programs: a document for each line."),
)
