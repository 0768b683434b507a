"""What a file says of each server, word for word."""

from __future__ import annotations

import pytest

from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.raw_entries import RawText, raw_servers

TOOLBOXES = """{
  // a comment
  "toolboxes": {
    "dev": {"description": "d", "mcpServers": {
      "fs": {
        "command": "${BIN:-npx}",
        "args": ["-y",
                 "$${LITERAL}"],
        "env": {"TOKEN": "${TOKEN}", "BOTH": "${A}${B:-b}"}
      },
      "off": {"command": "x", "disabled": true},
      "not on": {"url": "https://example.net/${PATH_OF_IT}", "enabled": false}
    }},
    "ops": {"description": "d", "mcpServers": {"fs": {"httpUrl": "https://example.net"}}}
  }
}"""


def test_every_server_is_there_with_its_place():
    servers = raw_servers(SourceText(TOOLBOXES))
    assert [(server.toolbox, server.name, server.path, server.is_disabled) for server in servers] == [
        ("dev", "fs", "toolboxes.dev.mcpServers.fs", False),
        ("dev", "off", "toolboxes.dev.mcpServers.off", True),
        ("dev", "not on", 'toolboxes.dev.mcpServers["not on"]', True),
        ("ops", "fs", "toolboxes.ops.mcpServers.fs", False),
    ]


def test_texts_are_as_they_are_written_with_their_lines():
    fs, _, _, ops = raw_servers(SourceText(TOOLBOXES))
    assert fs.text("command") == "${BIN:-npx}"
    assert fs.texts("args")[1] == RawText("toolboxes.dev.mcpServers.fs.args[1]", 8, 18, "args", "$${LITERAL}")
    assert fs.map("env") == {"TOKEN": "${TOKEN}", "BOTH": "${A}${B:-b}"}
    assert (fs.url, ops.url) == ("", "https://example.net")
    assert (ops.text("command"), ops.texts("args"), ops.map("env")) == ("", (), {})


def test_the_variables_that_a_server_refers_to_are_told_once_each():
    fs, off, remote, _ = raw_servers(SourceText(TOOLBOXES))
    assert fs.variables() == ["BIN", "TOKEN", "A", "B"]
    assert (off.variables(), remote.variables()) == ([], ["PATH_OF_IT"])


@pytest.mark.parametrize(
    ("written", "literal"),
    [
        ("plain", "plain"),
        ("${A}", ""),
        ("a${A}b", "ab"),
        ("${A:-default}", "default"),
        ("${A:-}", ""),
        ("${A:-$5}", "$5"),
        ("$${A}", "${A}"),
        ("Bearer ${A:-x}${B}", "Bearer x"),
    ],
)
def test_the_literal_part_of_a_text_is_what_stands_in_the_file(written: str, literal: str):
    assert RawText("", 1, 1, "", written).literal == literal


def test_a_file_of_a_host_is_one_toolbox():
    [server] = raw_servers(SourceText('{"mcpServers": {"fs": {"command": "x"}}, "theme": "dark"}'))
    assert (server.toolbox, server.name, server.path) == ("default", "fs", "mcpServers.fs")


@pytest.mark.parametrize("text", ['{"toolboxes": {}}', '{"mcpServers": {}}'])
def test_a_file_without_servers_has_none(text: str):
    assert raw_servers(SourceText(text)) == []


def test_comments_refer_to_no_variable():
    text = """{"mcpServers": {"s": {
      "_why": "${A}", "url": "${B}", "toolFilters": ["${C}"], "oauth": {"_why": "${D}", "clientId": "${E}"}}}}"""
    [server] = raw_servers(SourceText(text))
    assert server.variables() == ["B", "E"]
