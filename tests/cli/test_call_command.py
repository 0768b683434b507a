"""`mcp-workbench call`: one call, by a person or a script."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.support.catalogs import configured, desk, listed
from tests.support.configs import read_log, received, rogue, starts
from tests.support.screens import at_terminal, piped, seen, wait_for

# -- arguments


def test_arguments_are_typed_by_the_schema_of_a_real_server(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"desk": desk()}})
    done = piped(
        "call", "dev", "desk", "typed", "path=5", "limit=5", "ratio=0.5", "deep=true", "tags=a", "tags=b c",
        'where={"k": 1}', "color=light green", "until=null",
        env=env,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {
        "path": "5",
        "limit": 5,
        "ratio": 0.5,
        "deep": True,
        "tags": ["a", "b c"],
        "where": {"k": 1},
        "color": "light green",
        "until": None,
    }


@pytest.mark.parametrize("words", [["-"], ['{"path": "é", "limit": 2}'], ["--json", '{"path": "é", "limit": 2}']])
def test_arguments_can_be_json_on_the_line_or_on_stdin(tmp_path: Path, words: list[str]):
    env = configured(tmp_path, {"dev": {"desk": desk()}})
    done = piped("call", "dev", "desk", "typed", *words, env=env, stdin='{"path": "é", "limit": 2}')
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    text = answer["content"][0]["text"] if "--json" in words else done.stdout
    assert json.loads(text) == {"path": "é", "limit": 2}


def test_what_is_wrong_is_told_with_what_would_be_right(tmp_path: Path):
    env = listed(tmp_path, {"dev": {"desk": desk()}})
    for words, problem, hint in (
        (["pth=x"], "there is no parameter 'pth'", "Did you mean 'path'?"),
        (["limit=5"], "'path' is missing", "Its parameters: (path: string"),
        (["path=x", "limit=many"], "'limit' must be an integer, not 'many'", "Its parameters: (path: string"),
        (
            ["path=x", "color=rde"],
            "'color' must be 'red' or 'light green' or 'blue:ish', not 'rde'",
            "Did you mean 'red'?",
        ),
    ):
        done = piped("call", "dev", "desk", "typed", *words, env=env)
        assert (done.returncode, done.stdout) == (2, "")
        error, told = done.stderr.splitlines()
        assert error == f"error: Invalid parameters: {problem}"
        assert told.startswith(f"hint: {hint}")


def test_nothing_is_started_for_a_wrong_argument_of_a_tool_that_is_remembered(tmp_path: Path):
    log = tmp_path / "log"
    env = listed(tmp_path, {"dev": {"one": rogue(log=log)}})
    before = len(starts(log))
    done = piped("call", "dev", "one", "echo", "nonse=1", env=env)
    assert done.returncode == 2
    assert len(starts(log)) == before
    hint = done.stderr.splitlines()[1]
    assert re.fullmatch(
        r"hint: Did you mean 'nonce'\? \(The schema was listed .*; to update it: mcp-workbench refresh dev\)", hint
    )


def test_a_wrong_argument_of_a_server_that_never_listed_is_not_sent_either(tmp_path: Path):
    log = tmp_path / "log"
    env = configured(tmp_path, {"dev": {"one": rogue(log=log)}})
    done = piped("call", "dev", "one", "echo", "nonse=1", env=env)
    assert done.returncode == 2
    assert "Did you mean 'nonce'?" in done.stderr
    assert len(starts(log)) == 1
    assert received(log, "tools/call") == []


def test_a_tool_that_is_not_there_is_told_with_the_nearest(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"one": rogue()}})
    done = piped("call", "dev", "one", "ecko", env=env)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "error: Tool 'ecko' not found in server 'one' (toolbox 'dev')",
        "hint: Did you mean 'echo'?",
    ]


# -- results


def test_a_result_is_text_with_a_line_for_what_is_none(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"desk": desk()}})
    done = piped("call", "dev", "desk", "media", env=env)
    assert done.stdout.splitlines() == [
        "before",
        "[image: image/png, 1.5 KB]",
        "[link: more desk://more text/csv, 2.5 MB]",
        "a note",
    ]


def test_with_json_the_result_is_that_of_the_server(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"one": rogue("unknown_fields")}})
    result = json.loads(piped("call", "dev", "one", "rich", "--json", env=env).stdout)
    assert result["x-unknown"] == {"kept": True}
    assert result["content"][1]["type"] == "video"


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_tool_that_fails_exits_with_1_and_says_why(tmp_path: Path, arguments: list[str]):
    env = configured(tmp_path, {"dev": {"desk": desk()}})
    done = piped("call", "dev", "desk", "fail", *arguments, env=env)
    assert done.returncode == 1
    if arguments:
        assert json.loads(done.stdout)["isError"] is True
        assert done.stderr == ""
    else:
        assert (done.stdout, done.stderr) == ("", "it went wrong\n")


@pytest.mark.parametrize(("mode", "tool"), [("exit_at_start", "echo"), ("crash", "crash"), ("rpc_error", "echo")])
def test_a_server_that_fails_is_an_error_and_exits_with_1(tmp_path: Path, mode: str, tool: str):
    env = configured(tmp_path, {"dev": {"one": rogue(mode)}})
    done = piped("call", "dev", "one", tool, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
    answer = piped("call", "dev", "one", tool, "--json", env=env)
    assert answer.returncode == 1
    assert json.loads(answer.stdout)["ok"] is False


def test_a_server_is_ended_with_the_call(tmp_path: Path):
    log = tmp_path / "log"
    env = configured(tmp_path, {"dev": {"one": rogue(log=log)}})
    assert piped("call", "dev", "one", "echo", env=env).returncode == 0
    assert [one["event"] for one in read_log(log) if one["event"] in ("start", "exit")] == ["start", "exit"]


def test_text_is_escaped_at_a_terminal_and_exact_in_a_pipe(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"desk": desk()}})
    words = ["call", "dev", "desk", "say", "text=a\x07b\tc"]
    assert piped(*words, env=env).stdout == "a\x07b\tc\n"
    with at_terminal(*words, env=env) as screen:
        assert screen.finish() == 0
    assert seen(screen.text)[-1] == "a\\x07b     c"
    with at_terminal("call", "dev", "desk", "say", "text=a\x9bb\u202ec", "--json", env=env) as screen:
        assert screen.finish() == 0
    assert not [one for one in "\x9b\u202e" if one in screen.text]
    result = seen(screen.text)[-1]
    assert json.loads(result[result.index("{") :])["content"][0]["text"] == "a\x9bb\u202ec"


# -- at a terminal


def test_progress_is_shown_at_a_terminal_and_gone_at_the_end(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"one": rogue("progress", 4)}})
    with at_terminal("call", "dev", "one", "echo", "{}", env=env, columns=60) as screen:
        assert screen.finish() == 0
    assert "25% step 1" in screen.text
    assert "100% step 4" in screen.text
    assert screen.text.rindex("\x1b[2K") < screen.text.index('{"name": "echo"')
    done = piped("call", "dev", "one", "echo", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "step" not in done.stdout


def test_a_handshake_server_can_ask_too(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"one": rogue("asks_sampling")}})
    with at_terminal("call", "dev", "one", "echo", '{"method": "elicitation/create"}', env=env) as screen:
        screen.wait_for("The server asks: Why?")
        screen.wait_for("Send this answer? [Y/n] ")
        screen.type("\n")
        assert screen.finish() == 0
    assert json.loads(seen(screen.text)[-1])["result"] == {"action": "accept", "content": {}}


def test_keys_that_were_pressed_during_a_call_are_no_answer_to_its_server(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"one": rogue("asks_sampling"), "desk": desk()}})
    line = ["call", "dev", "one", "echo", '{"method": "elicitation/create"}']
    with at_terminal(*line, env=env, typed="\ny\n") as screen:
        screen.wait_for("Send this answer? [Y/n] ")
        screen.type("n\n")
        assert screen.finish() == 0
    assert json.loads(seen(screen.text)[-1])["result"] == {"action": "decline"}
    with at_terminal("call", "dev", "desk", "form", env=env) as screen:
        screen.wait_for("name (string) Yours: ")
        screen.type("Zoë\n42\n\n\ny\n")
        screen.wait_for("Send this answer? [Y/n] ")
        screen.type("n\n")
        assert screen.finish() == 0
    assert json.loads(seen(screen.text)[-1]) == {"action": "decline"}


def test_a_servers_form_is_filled_in_at_the_terminal(tmp_path: Path):
    """A wrong value is asked for again, a default is taken, an optional field is left out."""
    env = configured(tmp_path, {"dev": {"desk": desk()}})
    with at_terminal("call", "dev", "desk", "form", env=env) as screen:
        screen.wait_for("The server asks: Who are you?")
        screen.wait_for("name (string) Yours: ")
        screen.type("Zoë\n")
        screen.wait_for("age (integer): ")
        screen.type("old\n")
        screen.wait_for("'age' must be an integer, not 'old'")
        screen.wait_for(lambda text: text.count("age (integer): ") == 2, what="the question again")
        screen.type("42\n")
        screen.wait_for("color (red or green, optional): ")
        screen.type("\n")
        screen.wait_for("news (true or false, optional, default false): ")
        screen.type("\n")
        screen.wait_for("Send this answer? [Y/n] ")
        screen.type("y\n")
        assert screen.finish() == 0
    answer = json.loads(seen(screen.text)[-1])
    assert answer == {"action": "accept", "content": {"name": "Zoë", "age": 42, "news": False}}


@pytest.mark.parametrize(("keys", "action"), [(["x\n", "1\n", "\n", "\n", "n\n"], "decline"), (["\x04"], "cancel")])
def test_a_person_can_decline(tmp_path: Path, keys: list[str], action: str):
    env = configured(tmp_path, {"dev": {"desk": desk()}})
    prompts = ["name (", "age (", "color (", "news (", "Send this"]
    with at_terminal("call", "dev", "desk", "form", env=env) as screen:
        for prompt, typed in zip(prompts, keys, strict=False):
            screen.wait_for(prompt)
            screen.type(typed)
        assert screen.finish() == 0
    assert json.loads(seen(screen.text)[-1]) == {"action": action}


def test_where_nobody_is_there_a_question_is_declined_and_told(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"desk": desk(), "one": rogue("asks_sampling")}})
    done = piped("call", "dev", "desk", "form", env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["action"] == "decline"
    assert done.stderr == "declined, since this is not a terminal; the server asked: Who are you?\n"
    done = piped("call", "dev", "one", "echo", '{"method": "elicitation/create"}', env=env)
    assert json.loads(done.stdout)["result"] == {"action": "decline"}
    assert json.loads(piped("call", "dev", "one", "echo", env=env).stdout)["error"]["code"] == -32601


@pytest.mark.parametrize("key", ["\x03", "signal"])
def test_ctrl_c_cancels_the_call_at_the_server_and_exits_with_130(tmp_path: Path, key: str):
    log = tmp_path / "log"
    env = configured(tmp_path, {"dev": {"one": rogue("never", log=log)}})
    with at_terminal("call", "dev", "one", "hang", env=env) as screen:
        wait_for(lambda: received(log, "tools/call"))
        screen.type(key) if key != "signal" else screen.process.send_signal(signal.SIGINT)
        assert screen.finish() == 130
    assert "Traceback" not in screen.text
    assert [message["params"]["requestId"] for message in received(log, "notifications/cancelled")] == [
        message["id"] for message in received(log, "tools/call")
    ]
    assert read_log(log)[-1]["event"] == "exit"


def test_ctrl_c_while_a_person_is_asked_ends_it_too(tmp_path: Path):
    env = configured(tmp_path, {"dev": {"desk": desk()}})
    with at_terminal("call", "dev", "desk", "form", env=env) as screen:
        screen.wait_for("name (string) Yours: ")
        screen.type("\x03")
        assert screen.finish() == 130
    assert "Traceback" not in screen.text
