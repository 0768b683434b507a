"""docs/troubleshooting.md: the commands exist, what it quotes is what the program says, and its examples run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_workbench.cli.commands import COMMANDS
from tests.docs.markdown import ROOT, blocks, code_words, links, rows, sections
from tests.support.configs import rogue, write_config
from tests.support.wire import environment

TEXT = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
SOURCE = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "mcp_workbench").rglob("*.py"))
QUOTING = ("The host says that the workbench does not start", "A server does not start", "Some tools are missing")
QUOTING += ("A call hangs, or ends with a timeout", "A change has no effect", "The port is in use")


def test_every_command_that_is_named_exists():
    known = {command.name for command in COMMANDS} | {"--version", "--debug"}
    named = set(re.findall(r"mcp-workbench (--?\w[\w-]*|[a-z]+)", TEXT))
    assert {"doctor", "refresh", "auth", "trust", "check"} <= named
    assert named <= known


def test_every_symptom_is_in_the_list_at_the_top():
    listed = {link.removeprefix("#") for link in links(TEXT) if link.startswith("#")}
    symptoms = [section.headings[-1] for section in sections(TEXT) if len(section.headings) == 2]
    assert len(symptoms) > 15
    assert {re.sub(r"[^\w\- ]", "", symptom.lower()).replace(" ", "-") for symptom in symptoms} <= listed


def quotations() -> list[str]:
    """What it says that the program says."""
    return [
        word
        for section in sections(TEXT)
        if section.headings[-1:] and section.headings[-1] in QUOTING
        for row in rows(section.text)
        for word in code_words(row[0])
        if word != "command not found"  # the shell says that
    ]


@pytest.mark.parametrize("quotation", quotations())
def test_what_is_quoted_is_what_the_program_says(quotation: str):
    pieces = [piece.strip(" '") for piece in re.split(r"…|\d+(?: s,)?|'|FILE|\(E[A-Z]+\)|: |^it |ping$", quotation)]
    spoken = [piece for piece in pieces if re.search(r"[a-z]{3}", piece)]
    for piece in spoken:
        assert piece in SOURCE, piece


def test_the_look_at_what_a_host_is_told_works(tmp_path: Path):
    [block] = [block for block in blocks(TEXT) if "tools/list" in block.text and block.language == "sh"]
    config = write_config(tmp_path, {"dev": {"one": rogue()}})
    env = environment(tmp_path) | {"WORKBENCH_CONFIG": str(config)}
    env["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{env['PATH']}"
    done = subprocess.run(["sh", "-c", block.text], capture_output=True, text=True, check=True, timeout=30, env=env)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["open_toolbox", "use_tool"]
