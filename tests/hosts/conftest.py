"""A user with a home folder and a project."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.users import User, made_user


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> User:
    return made_user(tmp_path, monkeypatch, capsys)
