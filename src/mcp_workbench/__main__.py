"""The command `mcp-workbench`. It imports little before it knows the command: hosts, shells and people wait for it."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; exit with its status."""
    gc.disable()  # `Command.run` enables it: collections during imports take long and find nothing
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:  # during an import
        sys.exit(130)
    finally:
        gc.freeze()  # a last collection would take longer than many commands


def run(arguments: list[str]) -> int:
    """Run a command line; return the exit status."""
    from mcp_workbench.cli import parser, terminal  # noqa: PLC0415 -- Ctrl-C may come during this import
    from mcp_workbench.errors import RequestError  # noqa: PLC0415

    is_debugging = arguments[:1] == ["--debug"]
    serves_host = not is_debugging and is_from_host(arguments)
    try:
        call = parser.parse(["serve", *arguments] if serves_host else arguments)
    except RequestError as error:
        return terminal.report(error)
    if call.command.name == "serve" and not is_debugging:
        return call.run()  # its log records unexpected errors, without secrets (`logger.guard`)
    return terminal.run_reporting_errors(call.run, is_debugging=is_debugging)


def is_from_host(arguments: list[str]) -> bool:
    """Whether a host started the program without a command, to be served."""
    has_command = any(not argument.startswith("-") for argument in arguments[:1])
    needs_help = any(argument in ("-h", "--help", "--version") for argument in arguments)
    return not (has_command or needs_help or _is_terminal())


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


if __name__ == "__main__":
    main()
