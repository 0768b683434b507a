"""Completion: what is offered, without starting anything, and how real shells insert it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_workbench.cli import commands
from mcp_workbench.cli.completion import FILES, complete
from mcp_workbench.cli.shells import quoted, split_line
from tests.support.catalogs import desk, listed
from tests.support.configs import rogue, starts, write_config
from tests.support.nursery import PROGRAM, lent
from tests.support.screens import SEQUENCE, Screen, at_terminal, piped

BREAKS = " \t\n\"'@><=;|&(:"
"""What breaks words in a bash that nobody changed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("completion")


@pytest.fixture(scope="module")
def env(folder: Path) -> dict[str, str]:
    """A person with servers that listed, some with odd names, whose shell finds the program."""
    program = folder / "bin" / "mcp-workbench"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(lent(PROGRAM))} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    boxes = {
        "dev": {"desk": desk(), "names": rogue("names"), "my server": rogue("ok", "one", log=folder / "log")},
        "it's: $HOME": {"a:b": rogue("ok", "two")},
    }
    (folder / "some file.json").write_text("{}", encoding="utf-8")
    made = listed(folder, boxes)
    return made | {"PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(folder)}


@pytest.fixture
def here(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, in this process."""
    for name in ("WORKBENCH_CONFIG", "WORKBENCH_CATALOG"):
        monkeypatch.setenv(name, env[name])


def offered(*words: str) -> list[str]:
    *before, last = words
    return [name for name, _ in complete(before, last)]


# -- what is offered


def test_commands_come_first():
    assert offered("") == [command.name for command in commands.COMMANDS]
    assert offered("se") == ["serve", "search"]
    assert offered("--v") == ["--version"]
    assert offered("nonsense", "") == []


@pytest.mark.usefixtures("here")
def test_names_come_from_the_configuration_and_the_catalog():
    assert offered("list", "") == ["dev", "it's: $HOME"]
    assert offered("show", "dev", "") == ["desk", "names", "my server"]
    assert offered("show", "dev", "desk", "") == ["typed", "form", "media", "fail", "say"]
    assert offered("call", "dev", "my server", "o") == ["one"]
    assert offered("search", "--toolbox", "d") == ["dev"]
    assert offered("search", "--toolbox=d") == ["--toolbox=dev"]
    assert complete(["move"], "a") == [("a:b", "in it's: $HOME")]
    assert offered("move", "desk", "--to", "d") == ["dev"]
    assert offered("describe", "") == ["dev", "it's: $HOME"]
    assert offered("list", "dev", "desk", "") == []
    assert offered("list", "nope", "") == []


@pytest.mark.usefixtures("here")
def test_parameters_of_a_tool_are_offered_with_their_values():
    typed = ("call", "dev", "desk", "typed")
    assert offered(*typed, "") == [f"{one}=" for one in
                                   ("path", "limit", "ratio", "deep", "tags", "where", "color", "until")]  # fmt: skip
    assert offered(*typed, "path=x", "tags=a", "deep:=true", "t") == ["tags="]
    assert "path=" not in offered(*typed, "path=x", "")
    assert offered(*typed, "deep=") == ["deep=true", "deep=false"]
    assert offered(*typed, "color=l") == ["color=light green"]


def test_options_are_offered_once_and_choices_are_known():
    assert offered("list", "--") == ["--config", "--json", "--help"]
    assert offered("list", "--json", "--") == ["--config", "--help"]
    assert offered("serve", "--log-level", "w") == ["warning"]
    assert offered("completion", "") == ["bash", "zsh", "fish"]
    assert offered("install", "claude-code", "--na", "") == []


def test_variables_that_servers_do_not_get_anyway_are_offered(monkeypatch: pytest.MonkeyPatch):
    for name in ("MY_KEY", "MY_PROXY", "WORKBENCH_TOKEN"):
        monkeypatch.setenv(name, "x")
    assert offered("add", "dev", "one", "--inherit", "MY_") == ["MY_KEY"]
    assert offered("add", "dev", "one", "--inherit=WORKBENCH_") == []


@pytest.mark.usefixtures("here")
def test_where_a_file_is_meant_the_shell_is_to_offer_its_own():
    for words in (("list", "--config", "x"), ("list", "--config=x"), ("import", "--from", ""), ("trust", "x")):
        assert complete(list(words[:-1]), words[-1]) == [FILES], words
    typed = ("call", "dev", "desk", "typed")
    assert complete([*typed], "path=x") == [FILES]
    assert complete([*typed], "path=") == [FILES]
    assert complete([*typed], "limit=") == []
    assert complete([*typed], "nothing=") == []
    assert complete(["search", "--toolbox"], "x") == []


def test_a_name_that_begins_as_options_do_is_offered_behind_two_dashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    boxes = {"-box": {"-one": rogue(), "--json": rogue(), "two": rogue()}, "dev": {"one": rogue()}}
    monkeypatch.setenv("WORKBENCH_CONFIG", str(write_config(tmp_path, boxes)))
    assert offered("list", "") == ["dev", "--"]
    assert offered("list", "--json", "--", "") == ["-box", "dev"]
    assert offered("show", "--", "-box", "") == ["-one", "--json", "two"]
    assert offered("show", "--", "-box", "-") == ["-one", "--json"]
    assert offered("search", "--toolbox", "") == ["-box", "dev"]


@pytest.mark.usefixtures("here")
def test_names_that_a_line_cannot_hold_are_not_offered():
    names = offered("call", "dev", "names", "")
    assert "a b" in names
    assert "naïve-日本語-🙂" in names
    assert not [name for name in names if not name.isprintable()]


def test_pages_and_their_sections_are_offered():
    assert offered("docs", "conf") == ["configuration", "conformance"]
    assert offered("docs", "hosts/c") == ["hosts/claude-code", "hosts/claude-desktop", "hosts/codex", "hosts/cursor"]
    assert offered("docs", "curs") == ["cursor"]
    assert offered("docs", "errors#server_r") == ["errors#server_resting", "errors#server_refused"]
    assert "call#exit-statuses" in offered("docs", "call#")
    assert "exit-statuses" in offered("docs", "errors", "")
    assert offered("docs", "no-such-page#") == []
    assert offered("docs", "--search", "err") == []


def test_what_can_not_be_read_offers_nothing(tmp_path: Path):
    wrong = tmp_path / "wrong.json"
    wrong.write_text("{", encoding="utf-8")
    assert offered("list", "--config", str(wrong), "") == []
    assert offered("list", "--config", str(tmp_path / "none.json"), "") == []


def test_nothing_is_started_and_a_configuration_can_be_named(folder: Path, env: dict[str, str], tmp_path: Path):
    before = len(starts(folder / "log"))
    other = write_config(tmp_path, {"other": {"one": rogue()}})
    done = piped("completion", "zsh", "--", "list", "--config", str(other), "", env=env)
    assert done.stdout == "other\tother  The toolbox other\n"
    assert piped("completion", "fish", "--", "call", "dev", "my server", "", env=env).stdout == "one\tThe tool one.\n"
    both = piped("completion", "zsh", "--", "call", "dev", "desk", "typed", "", env=env).stdout.splitlines()
    assert both[:2] == ["path=\tpath=   Which file.", "limit=\tlimit="]
    assert len(starts(folder / "log")) == before


def test_what_names_mean_stands_in_one_column_also_beside_wide_names(tmp_path: Path):
    config = write_config(tmp_path, {"日本": {"one": rogue()}, "dev": {"one": rogue()}})
    done = piped("completion", "zsh", "--", "list", "--config", str(config), "")
    assert done.stdout.splitlines() == ["日本\t日本  The toolbox 日本", "dev\tdev   The toolbox dev"]


def test_a_shell_that_is_not_known_is_told(env: dict[str, str]):
    done = piped("completion", "tcsh", env=env)
    assert done.returncode == 2
    assert "'bash', 'zsh', 'fish'" in done.stderr


# -- how bash is answered

TEXT = st.text(st.sampled_from("ab \\'\"$`:=;|&(){}[]*?#~!<>é🙂-/."), max_size=12)


@settings(max_examples=25, deadline=None)
@given(st.lists(TEXT, min_size=10, max_size=30), st.sampled_from(["", "'", '"']))
def test_what_is_quoted_is_read_back_by_bash(texts: list[str], quote: str):
    words = " ".join(f"x{quote}{quoted(text, quote)}{quote}" for text in texts)
    read = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {words}"], capture_output=True, text=True, check=True, timeout=20
    )
    assert read.stdout.split("\0")[:-1] == [f"x{text}" for text in texts]


@given(st.lists(TEXT.map(shlex.quote), min_size=1, max_size=4))
def test_a_line_is_split_as_a_shell_does(words: list[str]):
    before, typed = split_line(" ".join(words), BREAKS)
    assert [*before, typed.value] == shlex.split(" ".join(words))


@pytest.mark.parametrize(
    ("line", "value", "stays"),
    [
        ("x a:b", "a:b", "b"),
        ("x key=va", "key=va", "va"),
        ("x key=", "key=", ""),
        ("x a\\:b", "a:b", "a\\:b"),
        ("x 'a:b", "a:b", "a:b"),
        ('x k="a b', "k=a b", "a b"),
        ("x 'it'\\''s", "it's", "s"),
        ("x 'it'\\'", "it'", "'it'\\'"),
        ("x ", "", ""),
    ],
)
def test_what_bash_replaces_is_known(line: str, value: str, stays: str):
    _, typed = split_line(line, BREAKS)
    assert (typed.value, typed.written[typed.kept :]) == (value, stays)


# -- real shells

STARTS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='ready> '; bind 'set enable-bracketed-paste off'"),
    "zsh": (["zsh", "-f", "-i"], "PS1='ready> '; unsetopt zle_bracketed_paste 2>/dev/null"),
    "fish": (["fish", "--no-config", "-i"], "function fish_prompt; echo -n 'ready> '; end"),
}
LOAD = {
    "bash": 'eval "$(mcp-workbench completion bash)"',
    "zsh": 'eval "$(mcp-workbench completion zsh)"',
    "fish": "mcp-workbench completion fish | source",
}
CASES = [
    ("mcp-workbench lis\t", ["list"]),
    ("mcp-workbench docs trou\t", ["docs", "troubleshooting"]),
    ("mcp-workbench docs errors#server_ref\t", ["docs", "errors#server_refused"]),
    ("mcp-workbench search --tool\t", ["search", "--toolbox"]),
    ("mcp-workbench list de\t", ["list", "dev"]),
    ("mcp-workbench show dev de\t", ["show", "dev", "desk"]),
    ("mcp-workbench show dev desk ty\t", ["show", "dev", "desk", "typed"]),
    ("mcp-workbench show dev my\t", ["show", "dev", "my server"]),
    ("mcp-workbench show dev my\\ s\t", ["show", "dev", "my server"]),
    ("mcp-workbench list it\t", ["list", "it's: $HOME"]),
    ('mcp-workbench list "it\'s: \\$HOME" a:\t', ["list", "it's: $HOME", "a:b"]),
    ("mcp-workbench show dev names sla\t", ["show", "dev", "names", "sla/sh:colon"]),
    ("mcp-workbench show dev names sla/sh:c\t", ["show", "dev", "names", "sla/sh:colon"]),
    ("mcp-workbench call dev desk typed li\t5", ["call", "dev", "desk", "typed", "limit=5"]),
    ("mcp-workbench call dev desk typed color=li\t", ["call", "dev", "desk", "typed", "color=light green"]),
    ("mcp-workbench call dev desk typed color=bl\t", ["call", "dev", "desk", "typed", "color=blue:ish"]),
    ("mcp-workbench call dev desk typed path=some\t", ["call", "dev", "desk", "typed", "path=some file.json"]),
    ("mcp-workbench list --config some\t", ["list", "--config", "some file.json"]),
    ("mcp-workbench list --config=some\t", ["list", "--config=some file.json"]),
    ("~/bin/mcp-workbench show dev de\t", ["show", "dev", "desk"]),
]
QUOTED = [
    ("mcp-workbench show dev 'my\t", ["show", "dev", "my server"]),
    ('mcp-workbench show dev "my\t', ["show", "dev", "my server"]),
]


@contextmanager
def shell(name: str, env: dict[str, str], folder: Path) -> Iterator[Screen]:
    if shutil.which(name) is None:
        pytest.skip(f"platform: {name} is not installed")
    spy = folder / "spy"
    spy.mkdir(exist_ok=True)
    command, setting = STARTS[name]
    with at_terminal(command=command, env=env | {"SPY": str(spy / name)}, columns=200, cwd=folder) as screen:
        screen.type(f"{setting}\n{LOAD[name]}\necho lo''aded\n")
        screen.wait_for("loaded")
        yield screen


def typed_in(screen: Screen, line: str, count: int) -> list[str]:
    """What a program is given when a person types this, in a shell that completes."""
    body, tab, rest = line.rpartition("\t")
    before = SEQUENCE.sub("", screen.text)
    screen.type(body)
    screen.wait_for(lambda text: _new(before, text))
    screen.type(tab)
    screen.type(rest)
    mark = f"end{count}"
    screen.type(f" {mark}\x01spy \x05\n")
    screen.wait_for(lambda text: f'{mark}"]' in text, what=f"the words of {line!r}")
    found = next(one for one in reversed(screen.text.splitlines()) if f'{mark}"]' in one)
    words: list[str] = json.loads(found[found.index("[") :])
    assert words.pop() == mark
    return words[1:]


def _new(before: str, text: str) -> bool:
    return len(SEQUENCE.sub("", text)) > len(before)


@pytest.fixture(scope="module")
def spying(env: dict[str, str]) -> dict[str, str]:
    """A program beside ours that says what it was given."""
    program = Path(env["PATH"].partition(":")[0]) / "spy"
    source = "import json, sys; print(json.dumps(sys.argv[1:]))"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{source}' \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    return env


@pytest.mark.parametrize("name", STARTS)
def test_a_real_shell_inserts_what_is_meant(name: str, spying: dict[str, str], folder: Path):
    cases = CASES + QUOTED
    with shell(name, spying, folder) as screen:
        for count, (line, words) in enumerate(cases):
            assert typed_in(screen, line, count) == words, (name, line)


def test_bash_without_the_script_completes_nothing(spying: dict[str, str], folder: Path):
    """The test above sees what our script does, and nothing that a shell does anyway."""
    with at_terminal(command=STARTS["bash"][0], env=spying, columns=200, cwd=folder) as screen:
        screen.type("PS1='ready> '; bind 'set enable-bracketed-paste off'\necho lo''aded\n")
        screen.wait_for("loaded")
        assert typed_in(screen, "mcp-workbench show dev de\t", 0) == ["show", "dev", "de"]


def test_scripts_are_accepted_by_their_shells(env: dict[str, str]):
    for name in STARTS:
        if shutil.which(name):
            script = piped("completion", name, env=env).stdout
            checked = subprocess.run(
                [name, "-n"], input=script, text=True, capture_output=True, check=False, timeout=20
            )
            assert (checked.returncode, checked.stderr) == (0, ""), name
