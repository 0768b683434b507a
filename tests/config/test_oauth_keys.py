"""`oauth` of a remote server: what it may hold, and that its secret is one."""

from __future__ import annotations

import pytest

from mcp_workbench.config.model import Endpoint, OAuthClient

URL = "https://a.example/mcp"


def test_a_client_is_read_with_its_variables_replaced_and_its_secret_hidden(server, secret):
    oauth = {"clientId": "${NAME}-id", "clientSecret": "${TOKEN}", "scopes": ["a:b", "c"], "callbackPort": 7777}
    read = server({"url": URL, "oauth": oauth})
    client = OAuthClient(client_id="value-id", client_secret=secret, scopes=("a:b", "c"), callback_port=7777)
    assert read.target == Endpoint(url=URL, oauth=client)
    assert secret in read.secrets
    assert secret not in repr(client) + repr(read) + repr(read.target)
    assert "plain-secret" in server({"url": URL, "oauth": {"clientId": "a", "clientSecret": "plain-secret"}}).secrets


def test_nothing_need_be_there(server):
    assert server({"url": URL}).target == server({"url": URL, "oauth": {}}).target == Endpoint(url=URL)


def test_keys_of_other_hosts_are_accepted_and_told(load):
    oauth = {"enabled": True, "authorizationUrl": "https://b.example", "tokenUrl": "https://b.example", "scope": "x"}
    config = load({"mcpServers": {"s": {"url": URL, "oauth": oauth}}})
    told = {warning.path: warning.message for warning in config.warnings}
    assert {path.rpartition(".")[2] for path in told} == set(oauth)
    assert all("the server says where to log in" in message for message in told.values())


MACHINE = {"grantType": "client_credentials", "clientId": "robot", "issuer": "https://b.example"}


def test_client_credentials_are_read_and_their_secrets_hidden(server, secret):
    read = server({"url": URL, "oauth": {**MACHINE, "clientSecret": "${TOKEN}", "scopes": ["a"]}})
    client = OAuthClient(client_id="robot", client_secret=secret, scopes=("a",), issuer="https://b.example")
    assert read.target == Endpoint(url=URL, oauth=client)
    assert client.logs_in_itself
    assert secret in read.secrets
    signing = {**MACHINE, "privateKey": "-----BEGIN ${TOKEN}", "signingAlgorithm": "ES256"}
    read = server({"url": URL, "oauth": signing})
    key = f"-----BEGIN {secret}"
    assert (read.target.oauth.private_key, read.target.oauth.signing_algorithm) == (key, "ES256")
    assert key in read.secrets
    assert not OAuthClient(client_id="robot", client_secret=secret).logs_in_itself


@pytest.mark.parametrize(
    ("oauth", "headers", "told"),
    [
        ({**MACHINE, "clientSecret": "s", "callbackPort": 7777}, {}, "'callbackPort' has no effect"),
        ({**MACHINE, "clientSecret": "s"}, {"authorization": "x"}, "the Authorization of the headers is sent"),
        ({"clientId": "a", "privateKey": "k"}, {}, "'privateKey' needs the grantType client_credentials"),
        ({"clientId": "a", "issuer": "https://b.example"}, {}, "the server says where to log in"),
    ],
)
def test_what_has_no_effect_beside_client_credentials_is_told(load, oauth, headers, told):
    [warning] = load({"mcpServers": {"s": {"url": URL, "oauth": oauth, "headers": headers}}}).warnings
    assert told in warning.message


def test_it_means_nothing_to_a_program(load):
    [warning] = load({"mcpServers": {"s": {"command": "x", "oauth": {"clientId": "a"}}}}).warnings
    assert "'oauth' has no effect for a server with a command" in warning.message


@pytest.mark.parametrize(
    ("oauth", "path", "problem"),
    [
        ([], "oauth", "must be an object"),
        ({"clientID": "a"}, "oauth.clientID", "unknown key 'clientID'"),
        ({"clientSecret": "hunter2-correct-horse"}, "oauth.clientSecret", "'clientSecret' needs 'clientId'"),
        ({"clientId": ""}, "oauth.clientId", "cannot be empty"),
        ({"grantType": "password"}, "oauth.grantType", "must be one of 'authorization_code', 'client_credentials'"),
        ({**MACHINE, "clientId": "${EMPTY}", "clientSecret": "s"}, "oauth.clientId", "is empty once"),
        ({"grantType": "client_credentials"}, "oauth", "client_credentials needs 'clientId'"),
        ({**MACHINE, "issuer": "auth", "clientSecret": "s"}, "oauth.issuer", "must be an address that starts with"),
        (MACHINE, "oauth", "client_credentials needs 'clientSecret' or 'privateKey'"),
        ({**MACHINE, "clientSecret": "s", "privateKey": "k"}, "oauth", "needs 'clientSecret' or 'privateKey'"),
        ({**MACHINE, "signingAlgorithm": "none"}, "oauth.signingAlgorithm", "must be one of 'RS256'"),
        ({"clientId": "${EMPTY}"}, "oauth.clientId", "is empty once its variables are replaced"),
        ({"scopes": "a b"}, "oauth.scopes", "must be a list"),
        ({"scopes": []}, "oauth.scopes", "cannot be empty"),
        ({"scopes": ["a b"]}, "oauth.scopes[0]", "is not a valid scope"),
        ({"scopes": ['a"']}, "oauth.scopes[0]", "is not a valid scope"),
        ({"callbackPort": 80}, "oauth.callbackPort", "must be at least 1024"),
        ({"callbackPort": 70000}, "oauth.callbackPort", "must be at most 65535"),
    ],
)
def test_a_mistake_is_told_with_its_place(failure, secret, oauth, path, problem):
    error = failure({"mcpServers": {"s": {"url": URL, "oauth": oauth}}})
    assert error.path == f"mcpServers.s.{path}"
    assert problem in error.problem
    assert secret not in str(error)
