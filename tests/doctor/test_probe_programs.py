"""Whether a server's command is there, in the server's own environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_workbench.config.model import Launch
from mcp_workbench.doctor.probe import find_program


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "server"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_a_command_is_found_on_the_path(program: Path):
    assert find_program(Launch(command="server"), {"PATH": str(program.parent)}).path == str(program)


def test_a_path_is_taken_as_it_is(program: Path):
    assert find_program(Launch(command=str(program)), {}).path == str(program)


def test_the_path_of_the_entry_counts_and_not_ours(program: Path):
    launch = Launch(command="server", env={"PATH": "/nowhere"})
    missing = find_program(launch, {"PATH": str(program.parent)})
    assert missing.path == ""
    assert str(program) in missing.advice
    assert find_program(Launch(command="server", env={"PATH": str(program.parent)}), {}).path == str(program)


@pytest.mark.parametrize("by_path", [True, False])
def test_a_file_that_is_not_executable_is_told_as_such(program: Path, *, by_path: bool):
    program.chmod(0o644)
    command = str(program) if by_path else "server"
    missing = find_program(Launch(command=command), {"PATH": str(program.parent)})
    assert (missing.path, "chmod +x" in missing.advice) == ("", True)


def test_a_folder_is_no_program(program: Path):
    missing = find_program(Launch(command=str(program.parent)), {})
    assert (missing.path, "folder" in missing.advice) == ("", True)


def test_a_path_that_leads_nowhere_is_to_be_corrected(program: Path):
    assert "Correct the path" in find_program(Launch(command=f"{program}x"), {}).advice


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("npx", "Node.js"),
        ("uvx", "uv"),
        ("docker", "Docker"),
        ("pnpm", "pnpm.io"),
        ("bun", "bun.sh"),
        ("python", "python3"),
    ],
)
def test_for_what_many_servers_need_it_is_said_where_it_comes_from(command: str, told: str):
    assert told in find_program(Launch(command=command), {"PATH": "/nowhere"}).advice


def test_a_command_line_in_one_word_is_to_be_split():
    """A mistake that is easily made: the arguments belong into args."""
    assert "args" in find_program(Launch(command="npx -y pkg"), {"PATH": "/nowhere"}).advice
    assert "args" in find_program(Launch(command="/bin/sh -c x"), {"PATH": "/nowhere"}).advice
