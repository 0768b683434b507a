"""Credentials inside longer values are secrets too; common words are not."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import load_config
from mcp_workbench.text.redact import Redactor
from tests.support.configs import write_config

TOKEN = "q7Zk1tVw93"  # noqa: S105 -- of no service
RANDOM = "f3a9c1d27b8e4056a1b2c3d4e5f60718"


def said(folder: Path, server: dict[str, Any], text: str) -> str:
    """A text without the secrets of a configuration that has this server."""
    config = load_config(write_config(folder, {"dev": {"s": server}}))
    redact = Redactor()
    redact.hide_later(lambda: config.secrets)
    return redact(text)


def basic(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def remote(url: str = "https://example.net/mcp", **headers: str) -> dict[str, Any]:
    return {"url": url, "headers": headers}


def local(*args: str, **env: str) -> dict[str, Any]:
    return {"command": "run-it", "args": list(args), "env": env}


HOLDERS: dict[str, dict[str, Any]] = {
    "a bearer header": remote(Authorization=f"Bearer {TOKEN}"),
    "a header with another scheme": remote(Authorization=f"token {TOKEN}"),
    "the password of a basic header": remote(Authorization=f"Basic {basic(f'ada:{TOKEN}')}"),
    "the name of a basic header": remote(Authorization=f"Basic {basic(f'{TOKEN}:')}"),
    "a cookie": remote(Cookie=f"theme=dark; session_token={TOKEN}"),
    "a query": remote(f"https://example.net/mcp?page=one&api_key={TOKEN}"),
    "a query with escapes": remote("https://example.net/mcp?key=%71" + TOKEN[1:]),
    "an address in env": local(DATABASE_URL=f"postgres://ada:{TOKEN}@db.example.net/main"),
    "a connection string in env": local(CONNECTION=f"Server=db;User=sa;Password={TOKEN};Encrypt=yes"),
    "JSON in env": local(OPENAPI_MCP_HEADERS=f'{{"Authorization": "Bearer {TOKEN}", "Version": "2022-06-28"}}'),
    "an option": local("--api-key", TOKEN),
    "an option with its value": local(f"--api-key={TOKEN}"),
    "an assignment": local("-e", f"API_KEY={TOKEN}"),
    "a header line": local("--header", f"Authorization: Bearer {TOKEN}"),
    "an address in args": local(f"postgresql://ada:{TOKEN}@localhost/db"),
    "a query in args": local("mcp-remote", f"https://example.net/sse?token={TOKEN}"),
    "a line for a shell": local("-c", f"API_KEY='{TOKEN}' exec server --port 8080"),
}


@pytest.mark.row("C5")
@pytest.mark.parametrize("holder", HOLDERS)
def test_the_bare_credential_in_a_longer_value_is_redacted(tmp_path: Path, holder: str):
    told = said(tmp_path, HOLDERS[holder], f"401: {TOKEN} is not valid ({basic(f'ada:{TOKEN}')})")
    assert "***" in told
    assert TOKEN not in told


@pytest.mark.row("C5")
def test_a_word_made_by_chance_in_the_path_of_an_address_is_redacted(tmp_path: Path):
    assert said(tmp_path, remote(f"https://example.net/s/{RANDOM}/mcp"), f"no key {RANDOM}") == "no key ***"


COMMON = (
    "the server at https://example.net/mcp/modelcontextprotocol says required: ada at localhost:8080, production"
    " mode with page=one, @modelcontextprotocol/server-filesystem@2025.8.21, read-only, Bearer or Basic, enabled"
)


@pytest.mark.row("C5")
@pytest.mark.parametrize(
    "server",
    [
        remote("https://example.net/mcp/modelcontextprotocol?mode=production&page=one", Authorization="Bearer x"),
        local("-y", "@modelcontextprotocol/server-filesystem@2025.8.21", "--auth", "required", "--mode=production"),
        local(
            "--token", "true", "--key-file=./enabled", "--auth-mode", "read-only", "postgresql://ada@localhost:8080/db"
        ),
        local("-c", "exec server --auth=required --session production localhost:8080"),
    ],
    ids=["address", "package", "options", "line"],
)
def test_common_words_in_arguments_and_addresses_stay_readable(tmp_path: Path, server: dict[str, Any]):
    assert said(tmp_path, server, COMMON) == COMMON


def test_secrets_are_asked_for_when_there_is_a_text_to_redact():
    asked: list[str] = []
    redact = Redactor()
    redact.hide_later(lambda: asked.append("asked") or [TOKEN])
    assert not asked
    assert redact.longest > len(TOKEN)
    assert [redact(f"a {TOKEN}"), redact("b"), redact.finds(TOKEN.encode())] == ["a ***", "b", True]
    assert asked == ["asked"]
