"""Descriptions that tell an agent nothing are told from those that do."""

from __future__ import annotations

import pytest

from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.load import DEFAULT_DESCRIPTION, config_of
from mcp_workbench.config.model import ToolboxConfig
from mcp_workbench.doctor.descriptions import description_findings, weakness
from mcp_workbench.identity import ServerIdentifier

TOOLS = {
    ServerIdentifier("dev", "github"): ("search_code", "fetch"),
    ServerIdentifier("dev", "my-notes"): ("add_note",),
}


def toolbox(description: str) -> ToolboxConfig:
    servers = '{"github": {"command": "x"}, "my-notes": {"command": "y"}, "linear": {"command": "z", "disabled": true}}'
    text = f'{{"toolboxes": {{"dev": {{"description": "{description}", "mcpServers": {servers}}}}}}}'
    return config_of(SourceText(text)).toolboxes["dev"]


@pytest.mark.parametrize(
    ("description", "fault"),
    [
        ("github, my-notes", "only lists names"),
        ("GitHub and linear (from Claude Code, Cursor)", "only lists names"),
        ("The toolbox dev", "only lists names"),
        ("Tools of github", "only lists names"),
        ("search_code, fetch, add_note", "only lists names"),
        ("Use the tools of github, my-notes", "only lists names"),
        ("Servers of Cursor", "says next to nothing"),
        ("d", "says next to nothing"),
        ("My MCP servers.", "says next to nothing"),
    ],
)
def test_a_description_of_names_or_empty_words_is_weak(description: str, fault: str):
    problem = weakness(toolbox(description), TOOLS)
    assert problem.startswith(f"the description of toolbox 'dev' {fault}, ")


@pytest.mark.parametrize(
    "description",
    [
        "Search code",
        "Remember facts",
        "Issues of GitHub",
        "Manage repositories, issues and pull requests on GitHub; use the tools of my-notes",
        "Fetch what was written",
        "\u6587\u4ef6",
    ],
)
def test_a_description_of_what_one_can_do_is_not(description: str):
    assert weakness(toolbox(description), TOOLS) == ""


def test_the_description_of_a_file_without_toolboxes_is_nobodys_concern():
    assert weakness(toolbox(DEFAULT_DESCRIPTION))
    assert list(description_findings([toolbox(DEFAULT_DESCRIPTION)])) == []
