"""The commands as the toolkit sees them: built from the options that are declared as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from mcp_workbench import __version__
from mcp_workbench.cli import auth, check, demo, options, refresh, schema, serve, tokens

Run = Callable[[Mapping[str, str]], int]


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with: mcp-workbench demo. Documentation: README.md and docs/.",
)
@click.version_option(__version__, prog_name="mcp-workbench", message="%(prog)s %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """One MCP server in front of many: servers grouped into toolboxes, started when they are needed."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _command(
    name: str,
    text: str,
    run: Run,
    declared: Sequence[options.Option] = (),
    arguments: Sequence[options.Argument] = (),
) -> None:
    def callback(**given: Any) -> None:
        if "" in given.values():
            raise click.UsageError("an option or argument is empty")
        chosen = {key: "true" if value is True else value for key, value in given.items() if value}
        raise SystemExit(run(chosen))

    parameters: list[click.Parameter] = [_parameter(option) for option in declared]
    parameters += [click.Argument([one.key], required=one.required, metavar=one.metavar) for one in arguments]
    app.add_command(click.Command(name, callback=callback, params=parameters, help=text))


def _parameter(option: options.Option) -> click.Option:
    if not option.metavar:
        return click.Option([option.name], is_flag=True, help=option.help)
    if option.choices:
        return click.Option([option.name], type=click.Choice(option.choices), help=option.help)
    if option.otherwise:
        return click.Option(
            [option.name], metavar=option.metavar, is_flag=False, flag_value=option.otherwise, help=option.help
        )
    return click.Option([option.name], metavar=option.metavar, help=option.help)


_command("serve", serve.HELP, serve.run, options.SERVE)
_command("check", check.HELP, check.run, options.CHECK)
_command("refresh", refresh.HELP, refresh.run, options.REFRESH, (options.TOOLBOX_NAME,))
_command("tokens", tokens.HELP, tokens.run, options.TOKENS, (options.TOOLBOX_NAME,))
_command("auth", auth.HELP, auth.run, options.AUTH, options.REMOTE_SERVER)
_command("schema", schema.HELP, schema.run)
_command("demo", demo.HELP, demo.run)
