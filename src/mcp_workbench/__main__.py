"""The command `mcp-workbench`. It routes what needs no explanation past the command line toolkit.

`serve` is started by hosts again and again, and the others by people and shells that wait.
"""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line; exits."""
    gc.disable()  # until the command is imported: looking for garbage meanwhile finds none, and takes long
    try:
        sys.exit(run(sys.argv[1:]))
    except KeyboardInterrupt:  # before anything else is there to be told about it
        sys.exit(130)
    finally:
        gc.freeze()  # to look for circles in what goes now anyway would take longer than many a command


def run(arguments: list[str]) -> int:
    """Run a command; the exit status."""
    from mcp_workbench.cli import fast_parser, terminal  # noqa: PLC0415 -- Ctrl-C may come during this import
    from mcp_workbench.cli.options import DEBUG  # noqa: PLC0415

    is_debugging = arguments[:1] == [DEBUG.name]
    if is_debugging:
        words = arguments[1:]
    else:
        serving = serve_arguments(arguments)
        words = arguments if serving is None else ["serve", *serving]
    call = fast_parser.read_line(words)
    if call is not None and call.command.name == "serve":
        return call.run()  # what nobody foresaw stands in its log, without secrets (`logger.guard`)
    if call is not None:
        return terminal.reported(call.run, is_debugging=is_debugging)
    from mcp_workbench.cli import app  # noqa: PLC0415 -- large

    return terminal.reported(lambda: app.run(words), is_debugging=is_debugging)


def serve_arguments(arguments: list[str]) -> list[str] | None:
    """The options of `serve`, if that is what is meant: by name, or by a host without a name."""
    if arguments[:1] == ["serve"]:
        return arguments[1:]
    named = any(not argument.startswith("-") for argument in arguments[:1])
    asks = any(argument in ("-h", "--help", "--version") for argument in arguments)
    if named or asks or _is_terminal():
        return None
    return arguments


def _is_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


if __name__ == "__main__":
    main()
