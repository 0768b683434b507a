"""Every command, as data. Help texts and parsers are built from it without importing any of them."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any, NamedTuple

from mcp_workbench.cli import options
from mcp_workbench.cli.options import A_SERVER, A_TOOLBOX, AT_TERMINAL, TOOLBOX_NAME, Argument, Given, Option


class Command(NamedTuple):
    """One command. Its module has `HELP`, what people read of it, and `run`, which gives the exit status."""

    name: str
    summary: str
    options: tuple[Option, ...] = ()
    arguments: tuple[Argument, ...] = ()
    words: str = ""
    """How the rest of the command line is called in help texts, where a command takes it."""
    module: str = ""
    """Where it is not that of its name."""
    known: str = ""
    """What a shell completes the rest of the command line with, as for an `Argument`."""

    @property
    def path(self) -> str:
        """The name of its module."""
        return f"mcp_workbench.cli.{self.module or self.name}"

    def load(self) -> Any:
        """Its module."""
        return import_module(self.path)

    def run(self, given: Given) -> int:
        """Do it; the exit status."""
        module = self.load()
        gc.enable()  # `__main__` turns it off: nothing of what is imported is garbage
        return module.run(given)


COMMANDS = (
    Command("serve", "Serve the toolboxes to an MCP host, on stdin and stdout or over HTTP.", options.SERVE),
    Command("import", "Take the servers of your MCP hosts into the configuration.", options.IMPORT, module="import_"),
    Command("install", "Put the workbench into a host's configuration.", options.INSTALL, (options.A_HOST,)),
    Command("uninstall", "Take the workbench out of a host's configuration.", options.UNINSTALL, (options.A_HOST,)),
    Command(
        "add",
        "Add a server to a toolbox.",
        options.ADD,
        (A_TOOLBOX, options.A_NEW_SERVER),
        words="[-- COMMAND [ARGUMENT]...]",
    ),
    Command(
        "remove",
        "Take a server or a toolbox out of the configuration.",
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
    Command("check", "Check a configuration: what is wrong with it, or what is in it.", AT_TERMINAL),
    Command(
        "list",
        "List toolboxes, servers and how they are, and tools.",
        AT_TERMINAL,
        (TOOLBOX_NAME, options.SERVER_NAME),
        module="listing",
    ),
    Command("show", "Show all that is known of a tool.", AT_TERMINAL, (A_TOOLBOX, A_SERVER, options.A_TOOL)),
    Command("search", "Find tools by what they do.", options.SEARCH, words="QUERY..."),
    Command(
        "call",
        "Call a tool.",
        options.CALL,
        (A_TOOLBOX, A_SERVER, options.A_TOOL),
        words="[KEY=VALUE... | JSON | -]",
        known="argument",
    ),
    Command("doctor", "Examine every server: what is wrong, and what to do.", options.DOCTOR, (TOOLBOX_NAME,)),
    Command("status", "Show what running workbenches are doing.", options.STATUS),
    Command("logs", "Show what running workbenches log.", options.LOGS),
    Command("refresh", "Ask servers for their tools now, and remember them.", AT_TERMINAL, (TOOLBOX_NAME,)),
    Command("tokens", "Count what an agent reads, with the workbench and without.", AT_TERMINAL, (TOOLBOX_NAME,)),
    Command(
        "auth",
        "Log in to a remote server, or out of it.",
        (options.CONFIG_AT_TERMINAL, options.NO_BROWSER, options.LOGOUT),
        (A_TOOLBOX, A_SERVER),
    ),
    Command("docs", "Read the documentation.", options.DOCS, words="[PAGE [SECTION] | WORDS...]", known="page"),
    Command(
        "completion",
        "Print what teaches your shell to complete our command lines.",
        arguments=(options.A_SHELL,),
        words="[WORD...]",
        module="shells",
    ),
    Command("trust", "Trust the configuration of a project.", options.TRUST, (options.A_FILE,)),
    Command("schema", "Print the JSON Schema of the configuration file."),
    Command("demo", "See what the workbench does, on servers that come with it."),
)
