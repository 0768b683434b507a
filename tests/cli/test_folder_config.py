"""A `workbench-config.json` that came with a folder: no command uses it before its user trusts it or says yes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from mcp_workbench.cli.commands import COMMANDS, Command
from tests.support import programs
from tests.support.configs import Server, rogue, write_config
from tests.support.screens import Screen, at_terminal
from tests.support.wire import environment

QUESTION = "Use it this once? [y/N] "
SECRET = "s3cret0815canary"  # noqa: S105 -- planted

READ_NO_CONFIG = {"uninstall", "status", "logs", "trust", "completion", "schema", "demo", "docs"}
READ_ANOTHER = {"serve", "import", "install"}
"""They use a file that was named, that is trusted, or the user's own."""
ONLY_PARSE = {"check"}
VALUES = {"toolbox": "theirs", "server": "canary", "tool": "touch", "host": "claude-code", "shell": "bash", "text": "x"}
WORDS = {
    "search": ["touch"],
    "add": ["--", "true"],
    "move": ["--to", "web"],
    "install": ["claude-code"],
    "uninstall": ["claude-code"],
    "auth": ["--no-browser"],
    "trust": ["--list"],
}
"""What a command line needs, other than the arguments that must be there."""


class Clone(NamedTuple):
    """A repository that somebody cloned, with a hostile configuration, and the home of that person."""

    folder: Path
    home: Path
    listener: socket.socket

    @property
    def config(self) -> Path:
        return self.folder / "workbench-config.json"

    @property
    def own(self) -> Path:
        return self.home / "XDG_CONFIG_HOME" / "mcp-workbench" / "workbench-config.json"

    @property
    def env(self) -> dict[str, str]:
        return environment(self.home) | {"HOME": str(self.home), "CLAUDE_CONFIG_DIR": "", "NO_COLOR": "1"}

    def run(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return programs.run([*programs.PROGRAM, *arguments], cwd=cwd or self.folder, env=self.env)

    def has_run(self, name: str = "canary") -> bool:
        return (self.home / name).exists()

    def was_contacted(self) -> bool:
        try:
            self.listener.accept()
        except BlockingIOError:
            return False
        return True

    def files(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def canary(self, name: str = "canary") -> Server:
        """A server that leaves a file behind when it runs."""
        return {"command": "sh", "args": ["-c", f"touch '{self.home / name}'"]}


@pytest.fixture
def clone(tmp_path: Path) -> Iterator[Clone]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)  # noqa: FBT003
        made = Clone(tmp_path / "clone", tmp_path / "home", listener)
        made.folder.mkdir()
        made.own.parent.mkdir(parents=True)
        write_config(made.own.parent, {"mine": {"one": rogue()}})
        remote: Server = {"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}
        toolboxes = {"theirs": {"canary": made.canary()}, "web": {"remote": remote}}
        write_config(made.folder, toolboxes, catalog={"path": "made.sqlite"})
        yield made


def line_of(command: Command) -> list[str]:
    """The shortest command line that would make a command do its work."""
    arguments = [VALUES[argument.key] for argument in command.arguments if argument.required]
    return [command.name, *arguments, *WORDS.get(command.name, [])]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_no_command_starts_contacts_or_changes_anything_of_a_cloned_repository(command: Command, clone: Clone):
    before = clone.files()
    lines = [line_of(command)]
    if command.name == "auth":
        lines.append(["auth", "web", "remote", "--no-browser"])
    elif any(option.name == "--json" for option in command.options):
        lines.append([*line_of(command)[:1], "--json", *line_of(command)[1:]])
    for line in lines:
        done = clone.run(*line)
        assert not clone.has_run(), line
        assert not clone.was_contacted(), line
        assert clone.files() == before, line
        if command.name in READ_NO_CONFIG | READ_ANOTHER | ONLY_PARSE:
            assert "config_untrusted" not in done.stdout
            continue
        assert done.returncode == 2, line
        told = done.stdout if "--json" in line else done.stderr
        assert str(clone.config) in told
        assert "mcp-workbench trust" in told
        assert "--config ./workbench-config.json" in told
        assert "--json" not in line or json.loads(told)["code"] == "config_untrusted"


def test_check_reads_it_and_says_that_it_is_not_trusted(clone: Clone):
    assert "you have not trusted this version of the file" in clone.run("check").stdout
    clone.run("trust", "--yes")
    assert "trusted" not in clone.run("check").stdout


def test_a_tab_offers_no_names_of_a_file_that_is_not_trusted(clone: Clone):
    before = clone.files()
    assert clone.run("completion", "zsh", "--", "list", "").stdout == ""
    assert clone.run("completion", "zsh", "--", "call", "theirs", "canary", "").stdout == ""
    assert clone.files() == before
    clone.run("trust", "--yes")
    assert clone.run("completion", "zsh", "--", "list", "").stdout.startswith("theirs")


def test_a_file_that_changes_after_it_was_trusted_is_not_used(clone: Clone):
    write_config(clone.folder, {"theirs": {"one": rogue()}})
    clone.run("trust", "--yes")
    assert clone.run("doctor").returncode == 0
    write_config(clone.folder, {"theirs": {"canary": clone.canary()}})  # as a `git pull` may do
    for line in (["doctor"], ["refresh"], ["list"], ["call", "theirs", "canary", "x"], ["remove", "theirs"]):
        done = clone.run(*line)
        assert done.returncode == 2
        assert "it changed since you trusted it" in done.stderr
    assert not clone.has_run()


def test_a_record_of_trust_that_can_not_be_used_trusts_nothing(clone: Clone):
    clone.run("trust", "--yes")
    (record,) = clone.home.rglob("trusted.json")
    record.write_text("damaged")
    for line in (["refresh"], ["call", "theirs", "canary", "x"], ["tokens", "--json"]):
        done = clone.run(*line)
        assert done.returncode == 1
        assert "it is damaged" in done.stdout + done.stderr
    assert not clone.has_run()


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_a_file_that_was_named_is_the_users_own_choice(clone: Clone, by: str):
    arguments = ["--config", "./workbench-config.json"] if by == "flag" else []
    env = clone.env | ({} if by == "flag" else {"WORKBENCH_CONFIG": "workbench-config.json"})
    done = programs.run([*programs.PROGRAM, "refresh", *arguments, "theirs"], cwd=clone.folder, env=env)
    assert "theirs/canary: failed" in done.stdout
    assert clone.has_run()


# -- the question


def asked(clone: Clone, *arguments: str, answer: str) -> tuple[int, str]:
    """The exit status and what stands on the terminal, where the question comes and is answered."""
    with at_terminal(*arguments, env=clone.env, cwd=clone.folder, columns=200) as screen:
        screen.wait_for(QUESTION)
        assert not clone.has_run()
        screen.type(answer)
        return screen.finish(), screen.text


def test_at_a_terminal_a_person_sees_what_it_starts_and_a_yes_is_for_once(clone: Clone):
    for _ in range(2):
        status, text = asked(clone, "list", answer="y\n")
        assert status == 0
        assert f"{clone.config} came with this folder, and you have not trusted it." in text
        assert f"starts  sh -c 'touch '\"'\"'{clone.home}/canary" in text
        assert "mcp-workbench trust" in text
        assert f"using {clone.config}" in text
        assert "theirs: The toolbox theirs" in text


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"])
@pytest.mark.parametrize("line", [["doctor"], ["call", "theirs", "canary", "x"], ["add", "theirs", "two", "--", "x"]])
def test_anything_but_a_yes_ends_the_command_before_it_does_anything(clone: Clone, line: list[str], answer: str):
    before = clone.files()
    status, text = asked(clone, *line, answer=answer)
    assert status == 2
    assert f"--config {clone.own}" in text
    assert clone.files() == before
    assert not clone.has_run()


def test_what_was_typed_before_the_question_is_no_answer(clone: Clone):
    with at_terminal("doctor", env=clone.env, cwd=clone.folder, typed="y\ny\n") as screen:
        screen.wait_for(QUESTION)
        screen.type("\n")
        assert screen.finish() == 2
    assert not clone.has_run()


def test_the_question_is_about_the_terminal_and_not_about_where_the_output_goes(clone: Clone):
    line = ["sh", "-c", '"$@" > out.txt', "sh", *programs.PROGRAM, "list"]
    with at_terminal(env=clone.env, cwd=clone.folder, columns=200, command=line) as screen:
        screen.wait_for(QUESTION)
        screen.type("y\n")
        assert screen.finish() == 0
    assert (clone.folder / "out.txt").read_text().startswith("theirs: The toolbox theirs\n")


def test_nothing_in_the_file_can_paint_over_the_question(clone: Clone):
    write_config(
        clone.folder, {"theirs": {"x": {"command": "sh", "args": ["\x1b[2J\x1b[H\u202edoctor\r\nall is well"]}}}
    )
    _, text = asked(clone, "list", answer="n\n")
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J" in text


def swapped(clone: Clone, *arguments: str, then: str = "") -> tuple[int, Screen]:
    """Run a command whose file is replaced while the question stands there; `then` is its next question."""
    with at_terminal(*arguments, env=clone.env, cwd=clone.folder, columns=200) as screen:
        screen.wait_for(QUESTION)
        clone.config.rename(clone.folder / "old.json")
        write_config(clone.folder, {"theirs": {"other": clone.canary("other")}})
        screen.type("y\n")
        if then:
            screen.wait_for(then)
            screen.type("n\n")
        return screen.finish(), screen


def test_the_file_that_was_shown_is_the_one_that_is_used(clone: Clone):
    status, screen = swapped(clone, "doctor", "theirs", then="with your whole environment")
    assert status == 1, screen.text
    assert "theirs/canary: failed" in screen.text
    assert clone.has_run()
    assert not clone.has_run("other")


def test_a_file_that_was_not_shown_is_not_written(clone: Clone):
    status, screen = swapped(clone, "add", "theirs", "two", "--", "x")
    assert status != 0
    assert "changed" in screen.text
    assert json.loads(clone.config.read_text())["toolboxes"]["theirs"]["mcpServers"].keys() == {"other"}


# -- which file


def test_every_command_says_which_file_it_used(clone: Clone):
    using = "using ~/XDG_CONFIG_HOME/mcp-workbench/workbench-config.json\n"
    elsewhere = clone.home
    for line in (["refresh"], ["doctor"], ["list"], ["tokens"], ["search", "echo"], ["install", "claude-code"]):
        done = clone.run(*line, cwd=elsewhere)
        assert (done.returncode, done.stderr) == (0, using), line
    for line in (["show", "mine", "one", "echo"], ["call", "mine", "one", "echo", "nonce=1"]):
        for more in ([], ["--json"]):
            assert clone.run(*line, *more, cwd=elsewhere).stderr == using, line
    for line in (["check"], ["add", "mine", "two", "--", "x"], ["remove", "mine", "two"], ["import"]):
        assert str(clone.own) in clone.run(*line, cwd=elsewhere).stdout, line
    for name in ("refresh", "doctor", "list", "tokens", "check"):
        done = clone.run(name, "--json", cwd=elsewhere)
        assert (json.loads(done.stdout)["file"], done.stderr) == (str(clone.own), ""), name
    assert json.loads(clone.run("install", "claude-code", "--json", cwd=elsewhere).stdout)["config"] == str(clone.own)
    assert f"file={clone.own}" in clone.run("serve", cwd=elsewhere).stderr


def test_a_script_that_names_the_file_gets_no_line_and_a_person_does(clone: Clone):
    assert clone.run("list", "--config", str(clone.own)).stderr == ""
    with at_terminal("list", "--config", str(clone.own), env=clone.env, cwd=clone.folder) as screen:
        assert screen.finish() == 0
        assert "using ~/XDG_CONFIG_HOME" in screen.text


def test_the_users_own_folder_is_no_cloned_repository(clone: Clone):
    done = clone.run("list", cwd=clone.own.parent)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "mine: The toolbox mine")


# -- secrets


def test_a_secret_is_not_written_into_a_folders_file_unless_somebody_says_so(clone: Clone):
    clone.run("trust", "--yes")
    before = clone.files()
    for line in (
        ["--env", f"API_TOKEN={SECRET}", "--", "x"],
        ["--", "x", "--api-key", SECRET],
        ["--url", "https://mcp.example.com", "--header", f"Authorization=Bearer {SECRET}"],
        ["--url", "https://mcp.example.com", "--header", f"Authorization=Bearer {SECRET}", "--json"],
    ):
        done = clone.run("add", "theirs", "two", *line)
        assert done.returncode == 2
        told = done.stdout + done.stderr
        assert "would write a secret into the configuration of this folder" in told
        assert "--allow-secret" in told
        assert "${" in told
        assert SECRET not in told
    assert clone.files() == before
    assert clone.run("add", "theirs", "two", "--env", "API_TOKEN=${API_TOKEN}", "--", "x").returncode == 0
    done = clone.run("add", "theirs", "three", "--env", f"API_TOKEN={SECRET}", "--allow-secret", "--", "x")
    assert (done.returncode, "the file contains a secret" in done.stderr) == (0, True)
    assert SECRET in clone.config.read_text()


@pytest.mark.parametrize(("answer", "status"), [("y\n", 0), ("n\n", 2)])
def test_at_a_terminal_a_person_is_asked_about_a_secret(clone: Clone, answer: str, status: int):
    clone.run("trust", "--yes")
    line = ["add", "theirs", "two", "--env", f"API_TOKEN={SECRET}", "--", "x"]
    with at_terminal(*line, env=clone.env, cwd=clone.folder, columns=200) as screen:
        screen.wait_for("Write the secret anyway? [y/N] ")
        assert f"{clone.config} would hold a secret." in screen.text
        assert "env.API_TOKEN: write ${API_TOKEN}" in screen.text
        screen.type(answer)
        assert screen.finish() == status
        assert SECRET not in screen.text
    assert (SECRET in clone.config.read_text()) is (status == 0)


def test_in_the_users_own_file_a_secret_is_warned_about(clone: Clone):
    done = clone.run("add", "mine", "two", "--env", f"API_TOKEN={SECRET}", "--", "x", cwd=clone.home)
    assert (done.returncode, "the file contains a secret" in done.stderr) == (0, True)
    assert os.fsencode(SECRET) in clone.own.read_bytes()
