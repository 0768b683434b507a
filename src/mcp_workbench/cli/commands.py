"""Declares every command as data, so that parser, help and completion import only the command that runs."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any, NamedTuple

from mcp_workbench.cli import options
from mcp_workbench.cli.options import A_SERVER, A_TOOLBOX, AT_TERMINAL, TOOLBOX_NAME, Argument, Given, Option


class Command(NamedTuple):
    """One command. Its module has the text `HELP`, and `run`, which returns the exit status."""

    name: str
    summary: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    words: str = ""
    """The name of the remaining words in the usage line, if the command takes any."""
    module: str = ""
    """The module, if its name is not that of the command."""
    completer: str = ""
    """The completer of the remaining words, as for an `Argument`."""

    @property
    def line(self) -> str:
        """The start of its command lines: `mcp-workbench list`."""
        return f"mcp-workbench {self.name}".rstrip()

    @property
    def usage(self) -> str:
        parts = (self.line, "[OPTIONS]", *(argument.metavar for argument in self.arguments), self.words)
        return " ".join(filter(None, parts))

    def load(self) -> Any:
        return import_module(f"mcp_workbench.cli.{self.module or self.name}")

    def run(self, given: Given) -> int:
        """Run the command; return the exit status. With `--json`, a failure is a JSON document too."""
        module = self.load()
        gc.enable()  # `__main__` disables it during imports
        if "json" not in given:
            return module.run(given)
        from mcp_workbench.cli.json_output import answered  # noqa: PLC0415 -- `serve` starts without it

        return answered(given, lambda: module.run(given))


COMMANDS = (
    Command("serve", "Serve the toolboxes to an MCP host, on stdin and stdout or over HTTP.", options.SERVE),
    Command("import", "Import the servers of your MCP hosts.", options.IMPORT, module="import_"),
    Command("install", "Add the workbench to a host.", options.INSTALL, (options.A_HOST,)),
    Command("uninstall", "Remove the workbench from a host.", options.UNINSTALL, (options.A_HOST,)),
    Command(
        "add",
        "Add a server to a toolbox.",
        options.ADD,
        (A_TOOLBOX, options.A_NEW_SERVER),
        words="[-- COMMAND [ARGUMENT]...]",
    ),
    Command(
        "remove",
        "Remove a server or a toolbox.",
        AT_TERMINAL,
        (A_TOOLBOX, options.SERVER_NAME),
    ),
    Command("move", "Move a server to another toolbox.", options.MOVE, (options.ANY_SERVER,)),
    Command(
        "describe",
        "Change the description of a toolbox.",
        AT_TERMINAL,
        (A_TOOLBOX, options.A_DESCRIPTION),
    ),
    Command("check", "Check the configuration without starting anything.", AT_TERMINAL),
    Command(
        "list",
        "List toolboxes, servers and tools.",
        AT_TERMINAL,
        (TOOLBOX_NAME, options.SERVER_NAME),
        module="listing",
    ),
    Command("show", "Show one tool with its schema.", AT_TERMINAL, (A_TOOLBOX, A_SERVER, options.A_TOOL)),
    Command("search", "Find tools by what they do.", options.SEARCH, words="QUERY..."),
    Command(
        "call",
        "Call a tool.",
        options.CALL,
        (A_TOOLBOX, A_SERVER, options.A_TOOL),
        words="[KEY=VALUE... | JSON | -]",
        completer="argument",
    ),
    Command("doctor", "Start every server once, and report problems with advice.", options.DOCTOR, (TOOLBOX_NAME,)),
    Command("status", "Show what running workbenches are doing.", options.STATUS),
    Command("logs", "Show the logs of running workbenches.", options.LOGS),
    Command("refresh", "Update the cached tool lists of servers.", AT_TERMINAL, (TOOLBOX_NAME,)),
    Command("tokens", "Count the tokens that an agent reads.", AT_TERMINAL, (TOOLBOX_NAME,)),
    Command(
        "auth",
        "Log in to a remote server, or log out.",
        (options.CONFIG_AT_TERMINAL, options.NO_BROWSER, options.LOGOUT),
        (A_TOOLBOX, A_SERVER),
    ),
    Command("docs", "Read the documentation.", options.DOCS, words="[PAGE [SECTION] | WORDS...]", completer="page"),
    Command(
        "completion",
        "Print the shell completion script.",
        arguments=(options.A_SHELL,),
        words="[WORD...]",
        module="shells",
    ),
    Command("trust", "Trust the configuration of a project.", options.TRUST, (options.A_FILE,)),
    Command("schema", "Print the JSON Schema of the configuration file."),
    Command("demo", "Take a tour with the bundled demo servers."),
)

PROGRAM = Command("", "", options.GENERAL, words="[COMMAND] [ARGS]...", module="help_text")
"""`mcp-workbench` without a command: it shows help, or the version."""


def find(name: str) -> Command | None:
    return next((command for command in COMMANDS if command.name == name), None)
