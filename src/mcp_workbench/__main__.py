"""The command `mcp-workbench`. It routes `serve`, which hosts start, past the command line toolkit."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line; exits."""
    arguments = sys.argv[1:]
    if (serving := _serve_arguments(arguments)) is not None:
        from mcp_workbench.cli import options, serve  # noqa: PLC0415 -- each way pays only for itself

        try:
            given = options.read_plain(serving, options.SERVE)
        except options.NotPlain:
            arguments = ["serve", *serving]
        else:
            sys.exit(serve.run(given))
    from mcp_workbench.cli.app import app  # noqa: PLC0415

    app(arguments, prog_name="mcp-workbench")


def _serve_arguments(arguments: list[str]) -> list[str] | None:
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
