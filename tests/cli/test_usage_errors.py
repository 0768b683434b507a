"""Errors at a terminal are two lines, what is wrong and what to do: of every command, however it is got wrong."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_workbench import __main__, logger
from mcp_workbench.cli import terminal
from mcp_workbench.cli.commands import COMMANDS, Command
from mcp_workbench.cli.options import Option
from mcp_workbench.errors import ConfigError, ServerExited, WorkbenchError
from tests.support.catalogs import configured, listed
from tests.support.configs import rogue
from tests.support.screens import PROGRAM, at_terminal, piped, seen


class Terminal(io.StringIO):
    """A stream at which somebody looks."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(params=["pipe", "terminal"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[str, str]]:
    """Run a command line that can't be used; the two lines on stderr, and nothing anywhere else."""
    make = Terminal if request.param == "terminal" else io.StringIO

    def run(*line: str, is_usage: bool = True) -> tuple[str, str]:
        out, err = make(), make()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        status = __main__.run(list(line))
        monkeypatch.undo()
        assert (status, out.getvalue()) == (2 if is_usage else 1, ""), f"{line}: {err.getvalue()}"
        return two_lines(err.getvalue())

    return run


def two_lines(text: str) -> tuple[str, str]:
    assert text.endswith("\n")
    assert text.replace("\n", "").isprintable()
    error, hint = [line for line in text.splitlines() if not line.startswith("using ")]
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert len(hint) > len("hint: ")
    return error.removeprefix("error: "), hint.removeprefix("hint: ")


def wrong_lines(command: Command) -> Iterator[tuple[list[str], str]]:
    """Ways to get a command wrong, with what has to be told."""
    name, words = command.name, ["x" for argument in command.arguments if argument.required]
    yield [name, *words, "--no-such-option"], "There is no option '--no-such-option'"
    yield [name, *words, "-z"], "There is no option '-z'"
    yield from (([name, *words[:count]], "Missing argument '") for count in range(len(words)))
    if command.arguments:
        yield [name, "", *words[1:]], "an option or argument is empty"
    if not command.words:
        yield [name, *("x" for _ in command.arguments), "more"], "Got unexpected extra argument (more)"
    for option in command.options:
        yield from (([name, *words, *wrong], problem) for wrong, problem in wrong_options(option))


def wrong_options(option: Option) -> Iterator[tuple[list[str], str]]:
    if not option.metavar:
        yield [f"{option.name}=1"], f"Option '{option.name}' does not take a value"
    elif not option.default:
        yield [option.name], f"Option '{option.name}' requires an argument"
    if option.choices:
        yield [option.name, "x"], f"Invalid value for '{option.name}': 'x' is not one of "
    elif option.metavar:
        yield [f"{option.name}="], "an option or argument is empty"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_line_that_can_not_be_read_is_two_lines(command: Command, told: Callable[..., tuple[str, str]]):
    for line, problem in wrong_lines(command):
        error, hint = told(*line)
        assert error.startswith(problem), line
        assert f"mcp-workbench {command.name}" in hint or hint.startswith("Did you mean '--"), line


@pytest.mark.parametrize(
    ("line", "error", "hint"),
    [
        (["lsit"], "There is no command 'lsit'", "Did you mean 'list'?"),
        (["xyzzy"], "There is no command 'xyzzy'", "mcp-workbench --help lists the commands."),
        (["LIST"], "There is no command 'LIST'", "Did you mean 'list'?"),
        (["a\x1b[31m\nb"], "There is no command 'a\\x1b[31m | b'", "mcp-workbench --help lists the commands."),
        (["list", "--confg", "x"], "There is no option '--confg'", "Did you mean '--config'?"),
        (["list", "--jsn=1"], "There is no option '--jsn'", "Did you mean '--json'?"),
        (["status", "--nope"], "There is no option '--nope'",
         "Usage: mcp-workbench status [OPTIONS] (more: mcp-workbench status --help)"),
        (["list", "-box"], "There is no option '-b'",
         ("Usage: mcp-workbench list [OPTIONS] [TOOLBOX] [SERVER] (more: mcp-workbench list --help). "
          "Before a name that begins with '-', write '--'.")),
        (["status", "-z"], "There is no option '-z'",
         "Usage: mcp-workbench status [OPTIONS] (more: mcp-workbench status --help)"),
        (["list", "--debug"], "There is no option '--debug'",
         "It stands before the command: mcp-workbench --debug list"),
        (["--debug", "lsit"], "There is no command 'lsit'", "Did you mean 'list'?"),
        (["--debug=1", "-h"], "Option '--debug' does not take a value",
         "Usage: mcp-workbench [OPTIONS] [COMMAND] [ARGS]... (more: mcp-workbench --help)"),
        (["list", "a", "b", "c", "d"], "Got unexpected extra arguments (c d)",
         "Usage: mcp-workbench list [OPTIONS] [TOOLBOX] [SERVER] (more: mcp-workbench list --help)"),
    ],
)  # fmt: skip
def test_what_was_probably_meant_is_told(line: list[str], error: str, hint: str, told: Callable[..., tuple[str, str]]):
    assert told(*line) == (error, hint)


COMBINATIONS = (
    ["serve", "--server", "x"],
    ["serve", "--token-file", "x"],
    ["serve", "--http", "--toolbox", "dev"],
    ["serve", "--http", "no address"],
    ["serve", "--toolbox", "x"],
    ["add", "dev", "x"],
    ["add", "dev", "x", "--url", "https://example.com", "--", "command"],
    ["add", "dev", "x", "--url", "https://example.com", "--cwd", "/"],
    ["add", "dev", "x", "--env", "A", "--", "command"],
    ["remove", "x"],
    ["move", "one"],
    ["move", "one", "--to", "dev"],
    ["describe", "x", "text"],
    ["install", "no-host"],
    ["install"],
    ["install", "--all", "cursor"],
    ["uninstall"],
    ["uninstall", "no-host"],
    ["list", "x"],
    ["show", "dev", "one", "x", "--config", "/no/such/file"],
    ["search"],
    ["call", "dev", "x", "y"],
    ["doctor", "--timeout", "soon"],
    ["doctor", "x"],
    ["logs", "--lines", "many"],
    ["refresh", "x"],
    ["tokens", "x"],
    ["auth", "dev", "x"],
    ["completion", "tcsh"],
    ["trust", "--list", "--remove"],
    ["check", "--config", "/no/such/file"],
    ["docs", "no-such-page"],
    ["docs", "errors#no_such_code"],
    ["docs", "several", "words", "here"],
    ["docs", "--search"],
)


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return configured(tmp_path_factory.mktemp("usage"), {"dev": {"one": rogue()}})


FAILURES = (["import", "--from", "/no/such/file"], ["status"], ["logs"])


def test_what_does_not_fit_together_or_is_not_there_is_two_lines_too(
    env: dict[str, str], told: Callable[..., tuple[str, str]], tmp_path: Path
):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for name, value in (env | {"WORKBENCH_RECORD": "none"}).items():
            patch.setenv(name, value)
        for line in COMBINATIONS:
            told(*line)
        for line in FAILURES:
            told(*line, is_usage=False)
    every = {command.name for command in COMMANDS} - {"schema", "demo"}
    assert {line[0] for line in (*COMBINATIONS, *FAILURES)} == every


# -- what goes wrong in a command


def outcome(
    run: Callable[[], int], capsys: pytest.CaptureFixture[str], *, is_debugging: bool = False
) -> tuple[int, str]:
    status = terminal.run_reporting_errors(run, is_debugging=is_debugging)
    captured = capsys.readouterr()
    assert captured.out == ""
    return status, captured.err


def failing(error: BaseException) -> Callable[[], int]:
    def run() -> int:
        raise error

    return run


def test_an_error_of_several_lines_is_one_and_nothing_in_it_moves_the_cursor(capsys: pytest.CaptureFixture[str]):
    error = ServerExited("it exited; its last words:\none\x1b[2J\n\ttwo", hint="Do this.\nThen that.")
    status, text = outcome(failing(error), capsys)
    assert status == 1
    *first, more = text.splitlines(keepends=True)
    assert two_lines("".join(first)) == (
        "it exited; its last words: | one\\x1b[2J |         two",
        "Do this. | Then that.",
    )
    assert more == "more: mcp-workbench docs errors#server_exited\n"


@pytest.mark.parametrize("kind", [ConfigError, WorkbenchError])
def test_an_error_without_a_hint_says_where_it_is_explained(
    kind: type[WorkbenchError], capsys: pytest.CaptureFixture[str]
):
    status, text = outcome(failing(kind("it is wrong")), capsys)
    assert status == (2 if kind is ConfigError else 1)
    assert two_lines(text) == ("it is wrong", f"Run: mcp-workbench docs errors#{kind.code}")


def test_a_defect_is_two_lines_and_with_debug_also_where_without_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logger, "redacted", lambda text: text.replace("hunter2", "***"))
    error = ZeroDivisionError("at\nhunter2")
    status, text = outcome(failing(error), capsys)
    told = two_lines(text)
    assert (status, told[0]) == (1, "ZeroDivisionError: at | ***")
    assert "mcp-workbench --debug ..." in told[1]
    assert "report" in told[1]
    status, text = outcome(failing(error), capsys, is_debugging=True)
    assert status == 1
    assert text.startswith("Traceback (most recent call last):\n")
    assert "in failing" not in text
    assert "raise error" in text
    assert "hunter2" not in text
    assert two_lines("".join(text.splitlines(keepends=True)[-2:])) == told


def test_debug_keeps_the_status_and_the_two_lines(capsys: pytest.CaptureFixture[str]):
    status, text = outcome(failing(ConfigError("it is wrong", hint="Mend it.")), capsys, is_debugging=True)
    assert status == 2
    assert text.startswith("Traceback")
    assert text.endswith("error: it is wrong\nhint: Mend it.\n")


def test_ctrl_c_says_nothing_in_a_pipe_and_ends_the_line_at_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert outcome(failing(KeyboardInterrupt()), capsys) == (130, "")
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    assert terminal.run_reporting_errors(failing(KeyboardInterrupt()), is_debugging=False) == 130
    assert screen.getvalue() == "\n"


def test_ctrl_c_while_the_program_loads_shows_no_traceback():
    code = (
        "import sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mcp_workbench.cli.parser': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from mcp_workbench.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# -- streams


@pytest.fixture(scope="module")
def remembered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A person with a server whose tools have names in several scripts."""
    return listed(tmp_path_factory.mktemp("streams"), {"dev": {"wörld": rogue(), "names": rogue("names")}})


@pytest.mark.parametrize(("line", "unbuffered"), [(["list"], ""), (["--help"], "1")])
def test_a_full_disk_is_told(line: list[str], unbuffered: str, remembered: dict[str, str]):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [*PROGRAM, *line], env=remembered | {"PYTHONUNBUFFERED": unbuffered}, stdin=subprocess.DEVNULL,
            stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=30,
        )  # fmt: skip
    assert done.returncode == 1
    assert two_lines(done.stderr) == (
        f"the output can't be written: {os.strerror(errno.ENOSPC)}",
        "Free some space, or write the output elsewhere.",
    )


@pytest.mark.parametrize(("line", "unbuffered"), [(["list"], ""), (["list", "dev"], "1"), (["--help"], "")])
def test_a_reader_who_has_seen_enough_is_no_error(line: list[str], unbuffered: str, remembered: dict[str, str]):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*PROGRAM, *line], env=remembered | {"PYTHONUNBUFFERED": unbuffered}, stdout=writer,
            stderr=subprocess.PIPE, text=True, check=False, timeout=30,
        )  # fmt: skip
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_error_that_is_no_failure_of_the_output_is_a_defect(capsys: pytest.CaptureFixture[str]):
    error = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "x")
    assert "FileNotFoundError: " in outcome(failing(error), capsys)[1]
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "x")
    assert "OSError: " in outcome(failing(error), capsys)[1]


def test_an_output_that_can_not_encode_gets_escapes_which_json_has_too(remembered: dict[str, str]):
    env = remembered | {"PYTHONIOENCODING": "ascii"}
    done = piped("list", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  w\\u00f6rld  2 tools" in done.stdout
    whole, escaped = (piped("list", "dev", "--json", env=one) for one in (remembered, env))
    assert escaped.stdout.isascii()
    assert not whole.stdout.isascii()
    assert json.loads(escaped.stdout) == json.loads(whole.stdout)


def test_what_is_beyond_the_first_plane_is_escaped_as_json_has_it(monkeypatch: pytest.MonkeyPatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    assert terminal.run_reporting_errors(lambda: out.write('"é 🙂 \udc80"') and 0, is_debugging=False) == 0
    assert out.buffer.getvalue() == b'"\xe9 \\ud83d\\ude42 \\udc80"'


@pytest.mark.parametrize(("closed", "status"), [(">&-", 0), ("x 2>&-", 2), ("x 2>/dev/full", 2)])
def test_a_stream_that_is_closed_or_full_is_no_traceback(closed: str, status: int, remembered: dict[str, str]):
    command = f'"$0" -m mcp_workbench list {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], env=remembered, capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.returncode, done.stderr) == (status, "")


def test_streams_that_were_closed_are_there_for_a_command(monkeypatch: pytest.MonkeyPatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)

    def asks() -> int:
        sys.stderr.write("x")
        return int(sys.stdin.isatty() or sys.stdout.write("x") != 1 or sys.stdin.read() != "")

    assert terminal.run_reporting_errors(asks, is_debugging=False) == 0
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        stream.close()


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}])
def test_an_error_at_a_terminal_has_no_colour_and_no_control_sequence(env: dict[str, str]):
    with at_terminal("list", "--jsn", env=env) as screen:
        assert screen.finish() == 2
    assert "\x1b" not in screen.text
    assert seen(screen.text) == ["error: There is no option '--jsn'", "hint: Did you mean '--json'?"]


def test_debug_is_understood_where_no_terminal_is(remembered: dict[str, str]):
    """A host that starts us without a command is served; this is none."""
    done = piped("--debug", "list", "x", env=remembered)
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("error: Toolbox 'x' not found\nhint: Available toolboxes: 'dev'\n")
