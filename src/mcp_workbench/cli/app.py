"""The commands as the toolkit sees them: built from data (`commands.py`), each imported when it is run or explained.

The toolkit reads and explains command lines; what they call is run outside of it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from mcp_workbench import __version__
from mcp_workbench.cli import terminal
from mcp_workbench.cli.commands import COMMANDS, Command
from mcp_workbench.cli.fast_parser import END_OF_OPTIONS, Call, find
from mcp_workbench.cli.options import DEBUG, Argument, Given, Option
from mcp_workbench.text.suggest import nearest

_WORDS = "words"
_PROGRAM = "mcp-workbench"
_GENERAL = (DEBUG.name, "--version")
"""Options that stand before a command."""


class NoSuchCommand(click.UsageError):
    """A command that is not there."""


class Fitting(click.HelpFormatter):
    """A help text that is no wider than the terminal, which the toolkit's is where that is narrow."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        super().__init__(indent_increment, width, max_width)
        self.width = min(self.width, shutil.get_terminal_size().columns)


class FittingContext(click.Context):
    formatter_class = Fitting


class Placed(click.Command):
    """What can't be read knows of which command it is."""

    context_class = FittingContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise


class Commands(Placed, click.Group):
    """All commands, in the order in which people meet them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        command = find(cmd_name)
        return None if command is None else ToolkitCommand(command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if find(args[0]) is None:
            raise NoSuchCommand(args[0], ctx)
        return super().resolve_command(ctx, args)

    def main(self, args: Sequence[str] | None = None, *_more: Any, **_extra: Any) -> NoReturn:
        """Run a command line to its end; exits."""
        arguments = list(sys.argv[1:] if args is None else args)
        is_debugging = arguments[:1] == [DEBUG.name]
        sys.exit(terminal.reported(lambda: run(arguments), is_debugging=is_debugging))

    def read(self, arguments: list[str]) -> Call | int:
        """What a command line calls, or the exit status where it only asked for help. Raises what the toolkit does."""
        return super().main(arguments, _PROGRAM, standalone_mode=False) or 0


class ToolkitCommand(Placed):
    """A command whose module is imported when it is explained."""

    def __init__(self, command: Command) -> None:
        parameters: list[click.Parameter] = [_option(option) for option in command.options]
        parameters += [_argument(argument) for argument in command.arguments]
        if command.words:
            parameters.append(click.Argument([_WORDS], nargs=-1, metavar=command.words, type=click.UNPROCESSED))
        super().__init__(
            command.name,
            callback=self._called,
            params=parameters,
            short_help=command.summary,
            epilog=f"More: {_PROGRAM} docs commands/{command.name}",
        )
        self._command = command

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.help = self._command.load().HELP
        super().format_help_text(ctx, formatter)

    def _called(self, **values: Any) -> Call:
        return Call(self._command, _given(self._command, values))


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="New here? See it: mcp-workbench demo. Move in: mcp-workbench import, then doctor, then install --all "
    "--remove-imported. Read: mcp-workbench docs.",
)
@click.version_option(__version__, prog_name=_PROGRAM, message="%(prog)s %(version)s")
@click.option(DEBUG.name, is_flag=True, help=DEBUG.help)
@click.pass_context
def app(context: click.Context, *, debug: bool) -> None:
    """One MCP server in front of many: servers grouped into toolboxes, started when they are needed."""
    del debug
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: list[str]) -> int:
    """Run a command, or explain it; the exit status."""
    try:
        called = app.read(arguments)
    except click.UsageError as error:
        terminal.tell(*_explained(error))
        return terminal.USAGE
    except click.Abort:
        raise KeyboardInterrupt from None
    except SystemExit:  # so the toolkit ends where who read its help has seen enough
        return 0
    return called.run() if isinstance(called, Call) else called


def _explained(error: click.UsageError) -> tuple[str, str]:
    """What is wrong with a command line, and what to do."""
    context = error.ctx or click.Context(app, info_name=_PROGRAM)
    if isinstance(error, NoSuchCommand):
        near = nearest(error.message, app.list_commands(context))
        hint = f"Did you mean '{near}'?" if near else f"{_PROGRAM} --help lists the commands."
        return f"There is no command '{error.message}'", hint
    usage = " ".join((context.command_path, *context.command.collect_usage_pieces(context)))
    hint = f"Usage: {usage} (more: {context.command_path} --help)"
    if not isinstance(error, click.NoSuchOption):
        return error.format_message().rstrip("."), hint
    if error.option_name in _GENERAL:
        hint = f"It stands before the command: {_PROGRAM} {error.option_name} {context.info_name}"
    elif near := nearest(error.option_name, _option_names(context)):
        hint = f"Did you mean '{near}'?"
    elif any(isinstance(parameter, click.Argument) for parameter in context.command.params):
        hint += f". Before a name that begins with '-', write '{END_OF_OPTIONS}'."
    return f"There is no option '{error.option_name}'", hint


def _option_names(context: click.Context) -> list[str]:
    return [name for parameter in context.command.get_params(context) for name in parameter.opts if name[:2] == "--"]


def _given(command: Command, values: dict[str, Any]) -> Given:
    words: Sequence[str] = values.pop(_WORDS, ())
    repeated = {option.key: values.pop(option.key) for option in command.options if option.repeated}
    if "" in values.values() or any("" in several for several in repeated.values()):
        raise click.UsageError("an option or argument is empty")
    single = {key: "true" if value is True else value for key, value in values.items() if value}
    return Given(single, words=words, repeated=repeated)


def _option(option: Option) -> click.Option:
    if not option.metavar:
        return click.Option([option.name], is_flag=True, help=option.help)
    if option.choices:
        return click.Option([option.name], type=click.Choice(option.choices), help=option.help)
    if option.otherwise:
        return click.Option(
            [option.name], metavar=option.metavar, is_flag=False, flag_value=option.otherwise, help=option.help
        )
    return click.Option([option.name], metavar=option.metavar, help=option.help, multiple=option.repeated)


def _argument(argument: Argument) -> click.Argument:
    return click.Argument([argument.key], required=argument.required, metavar=argument.metavar)
