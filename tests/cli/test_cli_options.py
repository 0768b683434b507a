"""Options declared once: the plain reader of `serve` and the toolkit agree."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.cli import options
from mcp_workbench.cli.app import app
from mcp_workbench.cli.commands import COMMANDS
from mcp_workbench.cli.options import AT_TERMINAL, SERVE, NotPlain, Option, read_plain


@pytest.mark.parametrize(
    ("arguments", "given_"),
    [
        ([], {}),
        (["--config", "x.json"], {"config": "x.json"}),
        (["--config=x.json", "--strict"], {"config": "x.json", "strict": "true"}),
        (["--config=a=b"], {"config": "a=b"}),
        (["--log-level", "debug"], {"log_level": "debug"}),
        (["--toolbox", "dev", "--server=fs"], {"toolbox": "dev", "server": "fs"}),
        (["--config", "a", "--config", "b"], {"config": "b"}),
        (["--config", "a b\n🙂"], {"config": "a b\n🙂"}),
        (["--http"], {"http": "127.0.0.1:8300"}),
        (["--http", "--strict"], {"http": "127.0.0.1:8300", "strict": "true"}),
        (["--http", ":9000", "--strict"], {"http": ":9000", "strict": "true"}),
        (["--http=:9000", "--token-file", "t"], {"http": ":9000", "token_file": "t"}),
    ],
)
def test_plain_options_are_read_without_the_toolkit(arguments: list[str], given_: dict[str, str]):
    assert read_plain(arguments, SERVE) == given_


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["-h"],
        ["--version"],
        ["--config"],
        ["--config="],
        ["--config", ""],
        ["--toolbox"],
        ["--toolbox="],
        ["--http="],
        ["--http", ""],
        ["--http", "a", "b"],
        ["--token-file"],
        ["--strict=yes"],
        ["--strict", "x"],
        ["--log-level", "loud"],
        ["--unknown"],
        ["x.json"],
        ["--"],
        ["-c", "x"],
        ["--conf", "x"],
        [""],
    ],
)
def test_whatever_needs_an_explanation_is_left_to_the_toolkit(arguments: list[str]):
    with pytest.raises(NotPlain):
        read_plain(arguments, SERVE)


WORD = st.sampled_from(
    [
        "--config",
        "--config=x",
        "--config=",
        "--strict",
        "--strict=1",
        "--log-level",
        "--log-level=debug",
        "--toolbox",
        "--server=y",
        "--http",
        "--http=h",
        "--token-file=t",
        "info",
        "x",
        "--",
        "-h",
        "",
    ]
)


@given(st.lists(WORD, max_size=5))
def test_whatever_is_read_plainly_means_the_same_to_the_toolkit(arguments: list[str]):
    try:
        plain = read_plain(arguments, SERVE)
    except NotPlain:
        return
    serve = app.get_command(click.Context(app), "serve")
    assert serve is not None
    parameters = {parameter.name: parameter for parameter in serve.params}
    context = serve.make_context("serve", list(arguments))
    chosen = {key: "true" if value is True else value for key, value in context.params.items() if value}
    assert set(parameters) == {option.key for option in SERVE}
    assert chosen == plain


@pytest.mark.parametrize(("name", "declared"), [("serve", SERVE), ("check", AT_TERMINAL)])
def test_every_declared_option_is_in_the_help_with_its_text(name: str, declared: tuple[Option, ...]):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    for option in declared:
        assert option.name in words
        assert option.help[:30] in words


def test_an_option_that_is_not_there_is_a_usage_error():
    result = CliRunner().invoke(app, ["serve", "--confg", "x"])
    assert result.exit_code == 2
    assert "--config" in result.output


def test_the_synopsis_names_every_option_of_every_command():
    document = (Path(__file__).parents[2] / "docs" / "command.md").read_text(encoding="utf-8")
    lines = document.partition("```text\n")[2].partition("```")[0].splitlines()
    for command in COMMANDS:
        shown = " ".join(line for line in lines if line.startswith(f"mcp-workbench {command.name}"))
        assert set(re.findall(r"--[a-z-]+", shown)) == {option.name for option in command.options}, command.name
        assert all(argument.metavar.strip("[]") in shown for argument in command.arguments), command.name


def test_keys_are_python_names():
    assert [option.key for option in SERVE] == [
        "config",
        "toolbox",
        "server",
        "http",
        "token_file",
        "log_level",
        "strict",
    ]
    assert all(option.key.isidentifier() for option in (*SERVE, *AT_TERMINAL))
    assert isinstance(app, click.Group)
    assert options.LOG_LEVEL.choices
