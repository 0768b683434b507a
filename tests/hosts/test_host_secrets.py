"""Secrets of an entry become variables."""

# ruff: noqa: UP031, S105 -- texts with braces of their own; and it is looked for where it must not be

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config.secret_patterns import names_secret
from mcp_workbench.hosts.secrets import Variables, without_secrets
from mcp_workbench.hosts.variables import VariableScope, translate, variables_in

SECRET = "q7Wz-hunter2-Xy9"


def hidden(entry: dict[str, Any]) -> dict[str, Any]:
    return without_secrets(entry, "my server", Variables())


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"env": {"GITHUB_TOKEN": SECRET}}, {"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}}),
        ({"env": {"API_KEY": "${API_KEY:-%s}" % SECRET}}, {"env": {"API_KEY": "${API_KEY}"}}),
        ({"env": {"A": "${A:-ghp_0123456789abcdefghij}"}}, {"env": {"A": "${A}"}}),
        ({"env": {"A": "postgres://u:%s@h/d" % SECRET}}, {"env": {"A": "postgres://u:${A_PASSWORD}@h/d"}}),
        ({"env": {"ANY": "sk-0123456789abcdef"}}, {"env": {"ANY": "${ANY}"}}),
        (
            {"headers": {"authorization": f"Bearer {SECRET}"}},
            {"headers": {"authorization": "Bearer ${MY_SERVER_AUTHORIZATION}"}},
        ),
        ({"headers": {"X-Api-Key": SECRET}}, {"headers": {"X-Api-Key": "${MY_SERVER_X_API_KEY}"}}),
        ({"args": ["--api-key", SECRET, "x"]}, {"args": ["--api-key", "${MY_SERVER_API_KEY}", "x"]}),
        ({"args": [f"--token={SECRET}"]}, {"args": ["--token=${MY_SERVER_TOKEN}"]}),
        ({"args": ["-e", f"DB_PASSWORD={SECRET}"]}, {"args": ["-e", "DB_PASSWORD=${DB_PASSWORD}"]}),
        (
            {"args": ["--header", f"Authorization: Bearer {SECRET}"]},
            {"args": ["--header", "Authorization: Bearer ${MY_SERVER_AUTHORIZATION}"]},
        ),
        (
            {"args": [f"--header=Authorization: Bearer {SECRET}"]},
            {"args": ["--header=Authorization: Bearer ${MY_SERVER_AUTHORIZATION}"]},
        ),
        ({"args": [f"--opts=token={SECRET}"]}, {"args": ["--opts=token=${MY_SERVER_TOKEN}"]}),
        (
            {"args": ["--config", '{"apiKey":"%s","mode":"fast"}' % SECRET]},
            {"args": ["--config", '{"apiKey":"${MY_SERVER_APIKEY}","mode":"fast"}']},
        ),
        (
            {"args": ['"{\\"apiKey\\": \\"%s\\"}"' % SECRET]},
            {"args": ['"{\\"apiKey\\": \\"${MY_SERVER_APIKEY}\\"}"']},
        ),
        (
            {"env": {"ACCOUNT": '{"private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE\\n-----END PRIVATE KEY-----"}'}},
            {"env": {"ACCOUNT": "${ACCOUNT}"}},
        ),
        (
            {"env": {"ACCOUNT": '{"password": "a\\\\nb"}'}},
            {"env": {"ACCOUNT": '{"password": "${MY_SERVER_PASSWORD}"}'}},
        ),
        (
            {"args": ["-c", f"API_TOKEN={SECRET} exec server --password {SECRET} --level=info"]},
            {"args": ["-c", "API_TOKEN=${API_TOKEN} exec server --password ${MY_SERVER_PASSWORD} --level=info"]},
        ),
        (
            {"args": ["-c", f"export DB_PASSWORD='{SECRET}'; run --api-key={SECRET}x"]},
            {"args": ["-c", "export DB_PASSWORD='${DB_PASSWORD}'; run --api-key=${MY_SERVER_API_KEY}"]},
        ),
        ({"command": f"run --api-key {SECRET}"}, {"command": "run --api-key ${MY_SERVER_API_KEY}"}),
        (
            {"url": f"https://a/mcp#access_token={SECRET}"},
            {"url": "https://a/mcp#access_token=${MY_SERVER_ACCESS_TOKEN}"},
        ),
        ({"args": ["xoxb-0123456789-abc"]}, {"args": ["${MY_SERVER_KEY}"]}),
        ({"url": f"https://a/mcp?api_key={SECRET}&x=1"}, {"url": "https://a/mcp?api_key=${MY_SERVER_API_KEY}&x=1"}),
        ({"url": "https://a/s/aB3dE6gH9jK2mN5pQ8sT/mcp"}, {"url": "https://a/s/${MY_SERVER_KEY}/mcp"}),
        (
            {"oauth": {"clientId": "me", "clientSecret": SECRET}},
            {"oauth": {"clientId": "me", "clientSecret": "${MY_SERVER_CLIENT_SECRET}"}},
        ),
        (
            {"oauth": {"clientId": "me", "privateKey": SECRET}},
            {"oauth": {"clientId": "me", "privateKey": "${MY_SERVER_PRIVATE_KEY}"}},
        ),
    ],
)
def test_a_secret_becomes_a_variable(entry: dict[str, Any], expected: dict[str, Any]):
    assert hidden(entry) == expected


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-sequential-thinking", "/home/me/Projects2024"]},
        {"args": ["--from", "git+https://github.com/x/y@0123456789abcdef0123456789abcdef01234567", "y"]},
        {"args": ["run", "ghcr.io/x/y@sha256:" + "0a" * 32]},
        {"env": {"DEBUG_AUTH": "false", "MAX_TOKENS": "4096", "KEY_FILE": "~/keys/x.json", "NODE_ENV": "production"}},
        {"env": {"TOKEN": "${TOKEN}", "API_KEY": "${API_KEY:-}"}},
        {"headers": {"Authorization": "Bearer ${TOKEN}", "Accept-Language": "de"}},
        {"url": "https://mcp.example.com/v1/mcp?project=main", "headers": {"X-Team": "core"}},
        {"args": ["--header", "Authorization:$${AUTH_HEADER}", "--token", "$${TOKEN}"]},
        {"args": ["--token", "--verbose"]},
        {"args": ["-y", "@x/key-management-service-server", "pat-management-and-more", "fc-list-of-everything-here"]},
        {"args": ["-c", "exec server --token --verbose --max-tokens 4096 --token $TOKEN --key-file /tmp"]},
        {"args": ["--instructions", "Ask for the password and a token: then go on"]},
        {"command": "/Applications/My Key App/run"},
    ],
)
def test_what_is_no_secret_stays(entry: dict[str, Any]):
    assert hidden(entry) == entry


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("GITHUB_TOKEN", True),
        ("apiKey", True),
        ("--api-key", True),
        ("OPENAIAPIKEY", True),
        ("DB_PASSWORD2", True),
        ("PGPASS", True),
        ("X-Auth", True),
        ("GITHUB_PAT", True),
        ("clientSecret", True),
        ("GIT_AUTHOR_NAME", False),
        ("--keyboard", False),
        ("PATH", False),
        ("PATTERN", False),
        ("NODE_ENV", False),
    ],
)
def test_a_name_tells_by_its_words(name: str, *, is_one: bool):
    assert names_secret(name, possibly=True) is is_one


def test_two_values_never_share_a_variable_and_one_value_needs_one():
    variables = Variables()
    first = without_secrets({"env": {"TOKEN": "one-secret"}}, "a", variables)
    same = without_secrets({"env": {"TOKEN": "one-secret"}}, "b", variables)
    other = without_secrets({"env": {"TOKEN": "two-secret"}}, "b", variables)
    third = without_secrets({"env": {"TOKEN": "three-secret"}}, "b", variables)
    assert [one["env"]["TOKEN"] for one in (first, same, other, third)] == [
        "${TOKEN}",
        "${TOKEN}",
        "${B_TOKEN}",
        "${B_TOKEN_2}",
    ]
    assert "secret" not in repr(variables)


PLACES = st.sampled_from(
    [
        lambda secret: {"env": {"MY_TOKEN": secret}},
        lambda secret: {"env": {"DB_PASSWORD": secret}},
        lambda secret: {"headers": {"Authorization": f"Bearer {secret}"}},
        lambda secret: {"headers": {"Authorization": secret}},
        lambda secret: {"args": ["--api-key", secret]},
        lambda secret: {"args": [f"--secret={secret}"]},
        lambda secret: {"args": ["--header", f"Authorization: {secret}"]},
        lambda secret: {"args": [f"--header=Authorization: {secret}"]},
        lambda secret: {"args": [json.dumps({"apiKey": secret})]},
        lambda secret: {"env": {"SETTINGS": json.dumps({"x": {"password": secret}})}},
        lambda secret: {"oauth": {"clientSecret": secret}},
    ]
)
WORDS = st.text("abcXYZ019+/=_.", min_size=8, max_size=30).filter(lambda word: not word.startswith((".", "/")))


@given(secret=WORDS, place=PLACES)
def test_of_a_value_with_a_telling_name_nothing_is_left(secret: str, place: Any):
    entry = hidden(place(secret))
    assert secret not in str(entry)
    assert list(variables_in(entry))


@pytest.mark.parametrize("text", ["${" * 40_000, "\\" * 80_000, "}" + "$X${" * 20_000, '\\"' * 40_000])
def test_a_text_that_nobody_would_write_takes_no_time(text: str):
    began = time.process_time()
    for style in ("none", "braces", "editor", "shell"):
        hidden({"url": translate(text, VariableScope(style, Path("/"))), "env": {"A_TOKEN": text}})
    assert time.process_time() - began < 4
