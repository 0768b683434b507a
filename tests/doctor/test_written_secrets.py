"""What is taken for a secret in a file, and what is not; and that it is left out of what is shown."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.raw_entries import RawServer, raw_servers
from mcp_workbench.config.secret_patterns import secret_parts
from mcp_workbench.doctor.config_checks import hidden, written_secrets

GITHUB = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"
RANDOM = "9f86d081884c7d659a2feaa0c55ad015"


def entry(**fields: Any) -> RawServer:
    text = msgspec.json.encode({"mcpServers": {"one": fields}}).decode()
    [server] = raw_servers(SourceText(text))
    return server


def found(**fields: Any) -> list[tuple[str, tuple[str, ...]]]:
    secrets = written_secrets(entry(command="x", **fields))
    return [(text.path.removeprefix("mcpServers.one."), parts) for text, parts in secrets]


@pytest.mark.parametrize(
    ("fields", "where", "secret"),
    [
        ({"env": {"A": GITHUB}}, "env.A", GITHUB),
        ({"env": {"A": "sk-ant-a1b2c3d4e5f6a7b8"}}, "env.A", "sk-ant-a1b2c3d4e5f6a7b8"),
        ({"env": {"A": "xoxb-1234567890-abcdefgh"}}, "env.A", "xoxb-1234567890-abcdefgh"),
        ({"env": {"A": "AKIAIOSFODNN7EXAMPLE"}}, "env.A", "AKIAIOSFODNN7EXAMPLE"),
        (
            {"env": {"A": JWT}},
            "env.A",
            JWT,
        ),
        ({"env": {"DB_PASSWORD": "correct-horse"}}, "env.DB_PASSWORD", "correct-horse"),
        ({"env": {"apiKey": "tops3cret"}}, "env.apiKey", "tops3cret"),
        ({"env": {"ACCESSTOKEN": "tops3cret"}}, "env.ACCESSTOKEN", "tops3cret"),
        ({"env": {"ANYTHING": RANDOM}}, "env.ANYTHING", RANDOM),
        ({"env": {"DATABASE": "postgres://me:hunter22@db/x"}}, "env.DATABASE", "hunter22"),
        ({"env": {"A_TOKEN": "${A_TOKEN:-tops3cret}"}}, "env.A_TOKEN", "tops3cret"),
        ({"args": ["${API_KEY:-tops3cret}"]}, "args[0]", "tops3cret"),
        ({"args": ["--x=${A:-b}${API_KEY:-tops3cret}"]}, "args[0]", "tops3cret"),
        ({"headers": {"Authorization": "Bearer tops3cret"}}, "headers.Authorization", "tops3cret"),
        ({"headers": {"X-Api-Key": "tops3cret"}}, "headers.X-Api-Key", "tops3cret"),
        ({"args": ["--api-key", "tops3cret"]}, "args[1]", "tops3cret"),
        ({"args": ["--api-key=tops3cret"]}, "args[0]", "tops3cret"),
        ({"args": ["-e", "API_KEY=tops3cret"]}, "args[1]", "tops3cret"),
        ({"args": ["--header", "Authorization: Bearer tops3cret"]}, "args[1]", "tops3cret"),
        ({"args": ["https://example.net/mcp?apiKey=tops3cret&x=1"]}, "args[0]", "tops3cret"),
        ({"url": "https://example.net/mcp?api_key=tops3cret"}, "url", "tops3cret"),
        ({"oauth": {"clientId": "some-client", "clientSecret": "tops3cret"}}, "oauth.clientSecret", "tops3cret"),
    ],
)
def test_a_secret_is_found_where_it_stands(fields: dict[str, Any], where: str, secret: str):
    assert found(**fields) == [(where, (secret,))]


@pytest.mark.parametrize(
    "fields",
    [
        {"env": {"TOKEN": "${TOKEN}", "KEY": "${A}${B}"}},
        {
            "env": {
                "TOKEN": "<your token here>",
                "API_KEY": "YOUR_API_KEY",
                "SECRET": "xxxxxxxxxxxx",
                "KEY": "changeme1",
            }
        },
        {"env": {"MAX_TOKENS": "1000000000", "TOKEN": "123456789", "AUTH": "true", "SECRET": "short"}},
        {
            "env": {
                "SSH_KEY_PATH": "keys-of-mine",
                "KEY": "/home/me/.ssh/id_ed25519",
                "TOKEN_URL": "https://a.example/token",
            }
        },
        {
            "env": {
                "PUBLIC_KEY": "tops3cret-not",
                "KEYBOARD_LAYOUT": "de-latin1-nodeadkeys",
                "MONKEY": "business-as-usual",
            }
        },
        {"env": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
        {"env": {"TEXT": "a-long-name-of-a-thing-with-words-and-1-number"}},
        {"headers": {"Authorization": "Bearer ${TOKEN}"}},
        {"args": ["-y", "@modelcontextprotocol/server-filesystem@2026.1.14", "/home/me/projects"]},
        {"args": ["run", "-i", "--rm", "ghcr.io/a/b@sha256:" + RANDOM * 2]},
        {"args": ["--from", "git+https://github.com/a/b@" + RANDOM]},
        {"args": ["--token", "${TOKEN}"]},
        {"url": "https://example.net/mcp?api_key=${KEY}&page=one"},
        {"toolFilters": ["token_*", "get_secret_value_of_something"]},
    ],
)
def test_what_is_no_secret_is_left_alone(fields: dict[str, Any]):
    assert found(**fields) == []


def test_of_an_address_only_the_secret_is_hidden():
    url = "https://example.net/mcp?api_key=tops3cret&page=one"
    assert hidden(url, secret_parts("", url, is_address=True)) == "https://example.net/mcp?api_key=***&page=one"


def test_only_what_can_be_nothing_but_a_secret_is_hidden():
    """Who decides by what is shown must see every program in it."""
    assert hidden("--key=abc.DEF+/=_~-9 x", ("abc.DEF+/=_~-9",)) == "--key=*** x"
    assert hidden("--key=a;sh", ("a;sh",)) == "--key=a;sh"
    assert hidden("a$${b", ("a${b",)) == "a$${b"


@pytest.mark.parametrize(
    "around", ["{}", "x://u:{}@h", "https://h/?key={}", "https://h/?key={}&b={}", "--token={}", "Bearer {}"]
)
def test_every_word_that_was_found_is_hidden_wherever_it_stands(around: str):
    text = around.replace("{}", "a1B2c3D4e5")
    assert hidden(text, secret_parts("token", text)) == around.replace("{}", "***")


PIECES = ["a", "a.", "?", "?a", "&a=", "a://", "a://b:", "eyJaaaaaaaa-", "eyJaaaaaaaa.", "${a:-", "$${", "a=", "-"]


@pytest.mark.parametrize("piece", PIECES)
def test_a_hostile_file_takes_no_long_time(piece: str):
    """Each string is read in a time that grows with its length, and not with the square of it."""
    server = entry(command="x", disabled=True, args=[piece * (300_000 // len(piece))])
    began = time.process_time()
    list(written_secrets(server))
    server.variables()
    assert time.process_time() - began < 3
