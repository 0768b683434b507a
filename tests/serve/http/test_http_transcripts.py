"""Recorded exchanges of both eras are answered as they were."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.serve.http.transcripts import FILE, HANDSHAKE, MODERN, play, serving

RECORDED = json.loads(FILE.read_text())


@pytest.mark.parametrize("name", RECORDED)
async def test_recorded_requests_get_the_recorded_responses(tmp_path: Path, name: str):
    requests = [one["request"] for one in RECORDED[name]]
    async with serving(tmp_path) as running:
        responses = await play(running, requests)
    different = [
        (
            was["request"]["method"],
            was["request"]["headers"],
            (was["request"]["body"] or "")[:200],
            was["response"],
            now,
        )
        for was, now in zip(RECORDED[name], responses, strict=True)
        if was["response"] != now
    ]
    assert different == []


def test_the_recording_has_every_request_of_the_table():
    assert [one["request"] for one in RECORDED["handshake"]] == HANDSHAKE
    assert [one["request"] for one in RECORDED["modern"]] == MODERN
