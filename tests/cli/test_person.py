"""The person as a client: what is never asked, and how progress reads."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.cli import terminal_client
from mcp_workbench.cli.terminal_client import Person
from mcp_workbench.errors import ServerRefused
from tests.support.procs import wait_until
from tests.wire.pair import settle


def raw(**members: Any) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in members.items()}


@pytest.fixture(autouse=True)
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a person looked at stderr and typed on stdin."""
    monkeypatch.setattr(terminal_client.display, "is_terminal", lambda _: True)


@pytest.fixture
def keyboard() -> Iterator[socket.socket]:
    """What is sent is typed: each datagram is one line."""
    keys, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    kept = os.dup(0)
    os.dup2(ours.fileno(), 0)
    with keys, ours:
        yield keys
    os.dup2(kept, 0)
    os.close(kept)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was shown of the call's progress."""
    texts: list[str] = []
    monkeypatch.setattr(terminal_client.display.Live, "show", lambda _, words: texts.append(words.text))
    return texts


async def test_a_question_that_leads_elsewhere_is_declined_and_told(capsys: pytest.CaptureFixture[str]):
    someone = Person()
    answer = await someone.answer("elicitation/create", raw(mode="url", message="Log in\x1b[2J", url="https://x"))
    assert json.loads(bytes(answer)) == {"action": "decline"}
    assert capsys.readouterr().err == "declined, since it opens a web page; the server asked: Log in\\x1b[2J\n"


async def test_progress_is_not_written_over_a_question(keyboard: socket.socket, shown: list[str]):
    someone = Person()
    answering = asyncio.ensure_future(someone.answer("elicitation/create", raw(message="Sure?")))
    await settle()
    someone.progressed(raw(progress=1, message="first"))
    keyboard.send(b"y\n")
    assert json.loads(bytes(await answering))["action"] == "accept"
    someone.progressed(raw(progress=2, message="second"))
    assert shown == ["second"]


async def test_it_is_shown_who_is_waited_for_until_the_server_says_how_far_it_is(
    shown: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(terminal_client, "REFRESH_SECONDS", 0.01)
    someone = Person()
    watching = asyncio.ensure_future(someone.watch("na\x1bme"))
    await wait_until(lambda: shown, 10, what="the server that is waited for")
    someone.progressed(raw(progress=1, message="step"))
    await asyncio.wait_for(watching, 10)
    assert (shown[0], shown[-1]) == ("waiting for 'na\\x1bme' (0 s)", "step")


@pytest.mark.parametrize("method", ["sampling/createMessage", "roots/list"])
async def test_nobody_answers_what_was_not_declared(method: str):
    with pytest.raises(ServerRefused) as caught:
        await Person().answer(method, {})
    assert caught.value.rpc_code == -32601


@pytest.mark.parametrize(
    ("params", "text"),
    [
        (raw(progress=1, total=4, message="step 1"), "25% step 1"),
        (raw(progress=3, message="a\nb"), "a\\nb"),
        (raw(progress=3), "working (7 s)"),
        (raw(progress=1, total=0), "working (7 s)"),
        (raw(progress=10**400, total=2), "working (7 s)"),
        (raw(progress="x", total=[], message=5), "working (7 s)"),
        ({"progress": 0.001, "message": "starting fs (5 s)"}, "starting fs (5 s)"),
    ],
)
def test_progress_reads_well_whatever_it_is(
    params: dict[str, Any], text: str, monkeypatch: pytest.MonkeyPatch, shown: list[str]
):
    monkeypatch.setattr(terminal_client, "time", SimpleNamespace(monotonic=iter((0.0, 7.2)).__next__))
    someone = Person()
    someone.progressed(params)
    assert shown == [text]


async def test_a_field_that_is_required_is_asked_for_until_it_is_there(
    keyboard: socket.socket, capsys: pytest.CaptureFixture[str]
):
    someone = Person()
    for line in ("", "yes", "true", ""):
        keyboard.send(line.encode() + b"\n")
    form = {"properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    answer = await someone.answer("elicitation/create", raw(message="?", requestedSchema=form))
    assert json.loads(bytes(answer)) == {"action": "accept", "content": {"sure": True}}
    told = capsys.readouterr().err
    assert told.index("'sure' is required") < told.index("'sure' must be true or false, not 'yes'")


async def test_an_empty_line_is_no_answer_to_a_required_text(keyboard: socket.socket):
    someone = Person()
    for line in ("", "Zoë", ""):
        keyboard.send(line.encode() + b"\n")
    form = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = await someone.answer("elicitation/create", raw(message="?", requestedSchema=form))
    assert json.loads(bytes(answer))["content"] == {"name": "Zoë"}
