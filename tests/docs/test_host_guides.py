"""The guides for hosts are alike, and what they show is what `install` does."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench.hosts.registry import HOSTS, Host
from tests.docs.markdown import ROOT, blocks, code_words, links, rows
from tests.support.users import made_user

PAGES = ROOT / "docs" / "hosts"
EACH = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.key)
PROGRAM = "/home/me/.local/bin/mcp-workbench"
STEPS = ["Import your servers", "Set the variables", "Check that they work", "Install the workbench"]


def guide(host: Host) -> str:
    return (PAGES / f"{host.key}.md").read_text(encoding="utf-8")


def read(text: str) -> Any:
    return tomllib.loads(text) if text.startswith("[") else json.loads(text)


def entry_shown(host: Host) -> Any:
    return read(next(block.text for block in blocks(guide(host)) if PROGRAM in block.text))


def test_every_host_has_a_guide():
    assert {path.stem for path in PAGES.iterdir()} == {host.key for host in HOSTS}


@EACH
def test_a_guide_has_the_four_lines_and_the_steps(host: Host):
    text = guide(host)
    assert text.startswith(f"# {host.title}\n\nFrom zero to the first call")
    [lines] = [block.text.splitlines() for block in blocks(text) if block.language == "sh"]
    assert [line.split()[:2] for line in lines[1:3]] == [["mcp-workbench", "import"], ["mcp-workbench", "doctor"]]
    assert lines[3] == f"mcp-workbench install {host.key} --remove-imported"
    steps = re.findall(r"^(\d)\. \*\*(.+?)\*\*", text, re.MULTILINE)
    assert [int(number) for number, _ in steps] == [1, 2, 3, 4, 5, 6]
    assert [title.rstrip(".") for _, title in steps[:4]] == STEPS
    assert f"`mcp-workbench uninstall {host.key}`" in text
    assert {"../commands/status.md", "../troubleshooting.md"} <= set(links(text))


def test_the_guides_show_a_call_into_the_toolbox_that_import_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    user = made_user(tmp_path, monkeypatch, capsys)
    entry = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-github"]}
    (user.home / ".claude.json").write_text(json.dumps({"mcpServers": {"github": entry}}), encoding="utf-8")
    [toolbox] = user.run("import_", json="true").document["toolboxes"]
    for host in HOSTS:
        [call] = [json.loads(block.text) for block in blocks(guide(host)) if "use_tool" in block.text]
        tool = call["arguments"]["tool"]
        assert (tool["toolbox"], tool["server"]) == (toolbox, "github")


@EACH
def test_a_guide_shows_the_entry_that_install_writes(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    user = made_user(tmp_path, monkeypatch, capsys)
    shown = entry_shown(host)
    [servers] = shown.values()
    needed = list(servers["workbench"].get(host.variables_key, ()))
    assert bool(needed) == bool(host.variables_key)
    user.config.parent.mkdir(parents=True)
    needing = {"command": "x", "env": {name: f"${{{name}}}" for name in needed}}
    user.config.write_text(json.dumps({"mcpServers": {"one": needing}}), encoding="utf-8")
    done = user.run("install", host=host.key, command=PROGRAM, json="true").document
    assert read(Path(done["file"]).read_text(encoding="utf-8")) == shown


@EACH
def test_a_guide_names_the_files_that_are_read_and_written(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    words = {word for row in rows(guide(host)) for word in code_words(" ".join(row))}
    user = made_user(tmp_path, monkeypatch, capsys)
    written = user.run("install", host=host.key, command=PROGRAM, json="true").document["file"]
    assert f"~/{Path(written).relative_to(user.home)}" in words
    named = {file.macos for file in host.files if file.macos and not file.old}
    assert named <= words | {"~/.config/zed/settings.json"}
    assert {file.linux for file in host.files if file.level == "project"} <= words
