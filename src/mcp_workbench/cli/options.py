"""The options of every command, declared once, as data: parser, help texts and shell completion all read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from mcp_workbench.logger import LEVELS


class Argument(NamedTuple):
    """A positional argument."""

    key: str
    metavar: str
    required: bool = False
    completer: str = ""
    """The name of its completer in `completion.py`."""


class Option(NamedTuple):
    """One option: a flag if it has no `metavar`."""

    name: str
    help: str
    metavar: str = ""
    choices: tuple[str, ...] = ()
    default: str = ""
    """The value of the option without a value, if that is allowed."""
    repeated: bool = False
    """Whether it may be repeated: `Given.all` returns the values."""
    completer: str = ""
    """The completer of its value, as for an `Argument`."""

    @property
    def key(self) -> str:
        """Its name as a Python identifier."""
        return self.name.lstrip("-").replace("-", "_")


class Given(dict[str, str]):
    """The input of a command: options and arguments by key. The value of a flag is `true`."""

    def __init__(
        self,
        single: Mapping[str, str] | None = None,
        *,
        words: Sequence[str] = (),
        repeated: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        super().__init__(single or {})
        self.words = tuple(words)
        """The remaining words, if the command takes any."""
        self._repeated = {key: tuple(values) for key, values in (repeated or {}).items()}

    def all(self, key: str) -> tuple[str, ...]:
        """The values of a repeatable option, in order."""
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
    help="The configuration file. Default: $WORKBENCH_CONFIG, else ./workbench-config.json if you trust it or agree "
    "when asked, else workbench-config.json in the user's configuration folder."
)
LOG_LEVEL = Option("--log-level", "The lowest level to log. Default: $WORKBENCH_LOG, else info.", "LEVEL", LEVELS)
STRICT = Option("--strict", "Refuse to start if a ${VAR} in the configuration is not set.")
TOOLBOX = Option(
    "--toolbox", "Serve the tools of this toolbox under their own names, instead of the two meta-tools.", "NAME"
)
SERVER = Option("--server", "With --toolbox: serve only this server, as if the host had started it directly.", "NAME")
HTTP = Option(
    "--http",
    "Serve over HTTP instead, at this address. Default: 127.0.0.1:8300.",
    "[HOST:PORT]",
    default="127.0.0.1:8300",
)
TOKEN_FILE = Option(
    "--token-file",
    "With --http: a file with the tokens of clients, one per line. Default: $WORKBENCH_TOKEN, else a new token.",
    "FILE",
)
JSON = Option("--json", "Print JSON, for programs.")

TOOLBOX_NAME = Argument("toolbox", "[TOOLBOX]", completer="toolbox")
A_TOOLBOX = Argument("toolbox", "TOOLBOX", required=True, completer="toolbox")
A_SERVER = Argument("server", "SERVER", required=True, completer="server")
A_TOOL = Argument("tool", "TOOL", required=True, completer="tool")
SERVER_NAME = Argument("server", "[SERVER]", completer="server")
A_SHELL = Argument("shell", "bash|zsh|fish", required=True, completer="shell")

NO_BROWSER = Option("--no-browser", "Print the login address instead of opening it.")
LOGOUT = Option("--logout", "Delete the login, and revoke it if possible.")

SERVE = (CONFIG, TOOLBOX, SERVER, HTTP, TOKEN_FILE, LOG_LEVEL, STRICT)
AT_TERMINAL = (CONFIG_AT_TERMINAL, JSON)
SEARCH = (*AT_TERMINAL, Option("--toolbox", "Search only in this toolbox.", "NAME", completer="toolbox"))
CALL = (
    CONFIG_AT_TERMINAL,
    Option("--output", "Write the result to this file, into this folder (FOLDER/), or as bytes to stdout (-).", "FILE"),
    Option("--force", "With --output: overwrite the file."),
    JSON._replace(help="Print the result as the server sent it, in JSON."),
)

DOCTOR = (
    *AT_TERMINAL,
    Option("--timeout", "The time that each server may take to start. Default: its startupTimeout.", "SECONDS"),
    Option("--strict", "Exit with 1 even if there are only warnings."),
    Option(
        "--try-environment",
        "Start each failing server again with your whole environment. If it works, find the variables it needs.",
    ),
)
A_FILE = Argument("file", "[FILE]")
TRUST = (
    Option("--yes", "Trust the file without asking, for scripts."),
    Option("--list", "List the trusted files, and whether they changed."),
    Option("--remove", "Stop trusting the file."),
    JSON,
)

DOCS = (
    Option("--search", "Search all pages for these words instead."),
    Option("--path", "Print the path of the page's file. Without a page, print the folder of all pages."),
    Option("--no-pager", "Print long pages without a pager."),
    JSON,
)

A_HOST = Argument("host", "[HOST]", completer="host")
A_NEW_SERVER = Argument("server", "SERVER", required=True)
IN_PROJECT = Option("--project", "Use the host's file in this folder, instead of your own.")
WITHOUT_RULES = Option(
    "--without-rules", "Include servers with a host rule that can't be carried over. The rule is lost."
)
IMPORT = (
    Option("--from", "Import only the servers of this file.", "FILE"),
    Option(
        "--toolbox",
        "Put all servers into this toolbox. Default: group them by purpose.",
        "NAME",
        completer="toolbox",
    ),
    Option("--by-host", "Create a toolbox for each host instead."),
    CONFIG._replace(
        help="The configuration to write. Default: $WORKBENCH_CONFIG, else the one in your configuration folder."
    ),
    Option("--force", "Add to an existing configuration without asking."),
    WITHOUT_RULES,
    Option("--dry-run", "Show the changes, without secrets, and write nothing."),
    JSON,
)
INSTALL = (
    Option("--all", "Use every host that is found on this machine."),
    IN_PROJECT,
    Option("--remove-imported", "Remove from the host the servers that import put into the workbench."),
    WITHOUT_RULES,
    CONFIG._replace(
        help="The configuration that the host's workbench uses. Default: $WORKBENCH_CONFIG, else your own."
    ),
    Option("--command", "The program that the host starts. Default: this mcp-workbench, by absolute path.", "PROGRAM"),
    Option("--name", "The name of the workbench in the host. Default: workbench.", "NAME"),
    Option("--env", "Write the value of this variable into the entry. May be repeated.", "NAME", repeated=True),
    JSON,
)
UNINSTALL = (Option("--all", "Use every host that has the workbench."), IN_PROJECT, JSON)
ADD = (
    CONFIG_AT_TERMINAL,
    Option("--url", "The address of a remote server, instead of a command.", "URL"),
    Option("--header", "An HTTP header for the remote server. May be repeated.", "NAME=VALUE", repeated=True),
    Option("--transport", "The transport of the remote server. Default: http.", "http|sse", ("http", "sse")),
    Option("--env", "An environment variable of the command. May be repeated.", "NAME=VALUE", repeated=True),
    Option(
        "--inherit",
        "A variable of your environment that the command inherits, by name or glob. May be repeated.",
        "NAME",
        repeated=True,
        completer="variable",
    ),
    Option("--cwd", "The folder to run the command in.", "FOLDER"),
    Option("--description", "The purpose of a new toolbox: agents choose by it.", "TEXT"),
    Option("--replace", "Replace the server if it exists."),
    Option("--allow-secret", "Allow a value that looks like a secret in the configuration of this folder."),
    JSON,
)

MOVE = (
    CONFIG_AT_TERMINAL,
    Option("--to", "The toolbox to move the server to, created if it does not exist.", "TOOLBOX", completer="toolbox"),
    Option("--from", "The toolbox to move it from, if several have the server.", "TOOLBOX", completer="toolbox"),
    Option(
        "--description",
        "The purpose of a new toolbox: agents choose by it. Default: a description of what the server does.",
        "TEXT",
    ),
    JSON,
)
ANY_SERVER = Argument("server", "SERVER", required=True, completer="any_server")
A_DESCRIPTION = Argument("text", "TEXT", required=True)

EVERY_RUN = Option("--all", "Include workbenches that ended.")
STATUS = (Option("--watch", "Fill the terminal and update until you press q."), EVERY_RUN, JSON)
LOGS = (
    Option("--calls", "Show tool calls instead of lines, with arguments and results if those are recorded."),
    Option("--follow", "Keep printing new lines until Ctrl-C."),
    Option("--lines", "The number of last lines or calls. Default: 50.", "NUMBER"),
    Option(
        "--server",
        "Only lines about this server, or about any server of this toolbox. Write a / in a name as \\/.",
        "TOOLBOX[/SERVER]",
    ),
    Option("--level", "Only lines of this level and above. Failed calls are errors.", "LEVEL", LEVELS[:-1]),
    EVERY_RUN,
    JSON._replace(help="Print JSON, for programs: one document per line."),
)
