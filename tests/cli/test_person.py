"""The person as a client: what is never asked, and how progress reads."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.cli import terminal_client
from mcp_workbench.cli.terminal_client import Person
from mcp_workbench.errors import ServerRefused
from tests.support.procs import wait_until


def raw(**members: Any) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in members.items()}


async def test_a_question_that_leads_elsewhere_is_declined_and_told(capsys: pytest.CaptureFixture[str]):
    someone = Person()
    someone._is_there = True
    answer = await someone.answer("elicitation/create", raw(mode="url", message="Log in\x1b[2J", url="https://x"))
    assert json.loads(bytes(answer)) == {"action": "decline"}
    assert capsys.readouterr().err == "declined, since it leads elsewhere; the server asks: Log in\\x1b[2J\n"


async def test_progress_is_not_written_over_a_question(monkeypatch: pytest.MonkeyPatch):
    someone = Person()
    someone._is_there = True
    seen: list[Any] = []

    async def typed(_: str) -> str:
        someone.progressed(raw(progress=1))
        return "y"

    monkeypatch.setattr(someone._live, "show", seen.append)
    monkeypatch.setattr(someone, "_line", typed)
    answer = await someone.answer("elicitation/create", raw(message="Sure?"))
    assert (json.loads(bytes(answer))["action"], seen) == ("accept", [])
    someone.progressed(raw(progress=2))
    assert len(seen) == 1


async def test_it_is_shown_who_is_waited_for_until_the_server_says_how_far_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(terminal_client, "SHOWN_EVERY_SECONDS", 0.01)
    someone = Person()
    seen: list[str] = []
    monkeypatch.setattr(someone._live, "show", lambda words: seen.append(words.text))
    watching = asyncio.ensure_future(someone.watch("na\x1bme"))
    await wait_until(lambda: seen, 10, what="the server that is waited for")
    someone.progressed(raw(progress=1, message="step"))
    await asyncio.wait_for(watching, 10)
    assert (seen[0], seen[-1]) == ("waiting for 'na\\x1bme' (0 s)", "step")


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
def test_progress_reads_well_whatever_it_is(params: dict[str, Any], text: str):
    assert terminal_client._progress(params, 7.2) == text


async def test_a_field_that_is_required_is_asked_for_until_it_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    someone = Person()
    someone._is_there = True
    lines = iter(["\n", "yes\n", "true\n", "\n"])

    async def typed(_: str) -> str:
        return next(lines)

    monkeypatch.setattr(someone, "_line", typed)
    form = {"properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    answer = await someone.answer("elicitation/create", raw(message="?", requestedSchema=form))
    assert json.loads(bytes(answer)) == {"action": "accept", "content": {"sure": True}}
    assert capsys.readouterr().err.splitlines()[2:] == ["'sure' is required", "'sure' must be true or false, not 'yes'"]


async def test_an_empty_line_is_no_answer_to_a_required_text(monkeypatch: pytest.MonkeyPatch):
    someone = Person()
    someone._is_there = True
    lines = iter(["\n", "Zoë\n", "\n"])

    async def typed(_: str) -> str:
        return next(lines)

    monkeypatch.setattr(someone, "_line", typed)
    form = {"properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = await someone.answer("elicitation/create", raw(message="?", requestedSchema=form))
    assert json.loads(bytes(answer))["content"] == {"name": "Zoë"}
