"""Every mistake in a file is one line that says where and what, with a hint, and shows no value."""
# ruff: noqa: E501, PLR0917 -- a table of mistakes reads best with one in a line

from __future__ import annotations

import pytest


@pytest.mark.row("C1")
@pytest.mark.parametrize(
    ("entry", "column", "path", "problem", "hint"),
    [
        ('{"command": "x", "arg": []}', 18, ".arg", "unknown key 'arg'", "Did you mean 'args'?"),
        ('{"comand": "x"}', 2, ".comand", "unknown key 'comand'", "Did you mean 'command'?"),
        ('{"command": "x", "toolfilters": ["a"]}', 18, ".toolfilters", "unknown key", "Did you mean 'toolFilters'?"),
        ('{"command": "x", "openTimeout": 5}', 18, ".openTimeout", "'openTimeout' is not a key of a server", "top of the file"),
        ('{"command": "x", "qqqq": 1}', 18, ".qqqq", "unknown key 'qqqq'", "Known keys: command, args, env"),
        ("{}", 1, "", "a server needs 'command' or 'url'", 'Add "command"'),
        ('{"command": "x", "url": "http://a"}', 18, ".url", "either 'command' or 'url', not both", "Keep the one"),
        ('{"url": "http://a", "httpUrl": "http://a"}', 21, ".httpUrl", "'url' and 'httpUrl' mean the same", "Keep one"),
        ('"x"', 1, "", "must be an object, not a string", ""),
        ('{"command": 1}', 13, ".command", "must be a string, not a number", "double quotes"),
        ('{"command": null}', 13, ".command", "must be a string, not null", ""),
        ('{"command": " "}', 13, ".command", "cannot be empty", ""),
        ('{"command": "${EMPTY}"}', 13, ".command", "is empty once its variables are replaced", "Give the variable"),
        ('{"command": "x\\u0000"}', 13, ".command", "cannot hold a NUL character", ""),
        ('{"command": "x", "args": "a b"}', 26, ".args", "must be a list, not a string", "square brackets"),
        ('{"command": "x", "args": ["a", 1]}', 32, ".args[1]", "must be a string, not a number", "double quotes"),
        ('{"command": "x", "args": ["a\\u0000"]}', 27, ".args[0]", "cannot hold a NUL character", ""),
        ('{"command": "x", "env": ["A=1"]}', 25, ".env", "must be an object, not a list", ""),
        ('{"command": "x", "env": {"PORT": 80}}', 34, ".env.PORT", "must be a string, not a number", "double quotes"),
        ('{"command": "x", "env": {"ON": true}}', 32, ".env.ON", "must be a string, not true or false", "double quotes"),
        ('{"command": "x", "env": {"A=B": "c"}}', 26, ".env.A=B", "not a valid name for an environment variable", "letters"),
        ('{"command": "x", "env": {"": "c"}}', 26, '.env[""]', "not a valid name for an environment variable", "letters"),
        ('{"command": "x", "cwd": ""}', 25, ".cwd", "cannot be empty", ""),
        ('{"command": "x", "inheritEnv": ["A=b"]}', 33, ".inheritEnv[0]", "must be the name of a variable, without '='", "env"),
        ('{"command": "x", "inheritEnv": [""]}', 33, ".inheritEnv[0]", "cannot be empty", ""),
        ('{"command": "x", "toolFilters": []}', 33, ".toolFilters", "cannot be empty", "Leave it out for all"),
        ('{"command": "x", "toolFilters": ["a", ""]}', 39, ".toolFilters[1]", "cannot be empty", ""),
        ('{"command": "x", "toolFilters": ["!"]}', 34, ".toolFilters[0]", "has no tool after '!'", "exclude"),
        ('{"command": "x", "toolFilters": ["@readonly"]}', 34, ".toolFilters[0]", "not a known annotation", "Did you mean '@readOnly'?"),
        ('{"command": "x", "toolFilters": ["!@x"]}', 34, ".toolFilters[0]", "not a known annotation", "Known annotations: @readOnly"),
        ('{"command": "x", "disabled": "yes"}', 30, ".disabled", "must be true or false, not a string", "without quotes"),
        ('{"command": "x", "disabled": 1}', 30, ".disabled", "must be true or false, not a number", ""),
        ('{"command": "x", "type": "ws"}', 26, ".type", "must be one of 'stdio'", ""),
        ('{"command": "x", "type": "stdoi"}', 26, ".type", "must be one of", "Did you mean 'stdio'?"),
        ('{"command": "x", "type": "http"}', 26, ".type", "a server with a command is reached by stdio", "leave it out"),
        ('{"url": "http://a", "type": "stdio"}', 29, ".type", "cannot be reached by stdio", "'http' or 'sse'"),
        ('{"url": "http://a", "type": "sse", "transport": "http"}', 29, ".type", "contradicts", "Keep one"),
        ('{"url": "ftp://a"}', 9, ".url", "must be an address that starts with http:// or https://", ""),
        ('{"url": "https://"}', 9, ".url", "must be an address", ""),
        ('{"url": "https://a b"}', 9, ".url", "must be an address", ""),
        ('{"url": "http://a", "headers": {"X": 1}}', 38, ".headers.X", "must be a string, not a number", "double quotes"),
        ('{"url": "http://a", "headers": {"X:": "a"}}', 33, ".headers.X:", "this is not a valid name for a header", "letters"),
        ('{"url": "http://a", "headers": {"X": "a\\nb"}}', 38, ".headers.X", "no header can carry", "line breaks"),
        ('{"command": "x", "args": ["${env:TOKEN}"]}', 27, ".args[0]", "is not supported", "Write ${TOKEN}. $${ stands"),
        ('{"command": "x", "args": ["${"]}', 27, ".args[0]", "a ${ is not closed by }", "$${ stands for"),
        ('{"command": "x", "env": {"A": "${1x}"}}', 31, ".env.A", "names no variable", "${NAME:-default}"),
    ],
)  # fmt: skip
def test_c1_a_mistake_in_a_server_tells_its_place_and_the_nearest_key(
    failure, entry, column, path, problem, hint, toolbox
):
    error = failure(toolbox(entry))
    assert (error.line, error.column) == (2, column)
    assert error.path == f"toolboxes.dev.mcpServers.fs{path}"
    assert problem in error.problem
    assert hint in error.hint


@pytest.mark.row("C1")
@pytest.mark.parametrize(
    ("text", "column", "path", "problem", "hint"),
    [
        ("[]", 1, "", "must be an object, not a list", ""),
        ("{}", 1, "", "'toolboxes' is missing", '"mcpServers"'),
        ('{"toolMode": "proxy"}', 1, "", "'toolboxes' is missing", '"mcpServers"'),
        ('{"mcpServer": {}}', 2, "mcpServer", "unknown key 'mcpServer'", "Did you mean 'mcpServers'?"),
        ('{"servers": {"a": {}}}', 2, "servers", "unknown key 'servers'", "Rename it to 'mcpServers'."),
        ('{"toolboxes": []}', 15, "toolboxes", "must be an object, not a list", ""),
        ('{"mcpServers": {"a": 1}}', 22, "mcpServers.a", "must be an object, not a number", ""),
        ('{"mcpServers": {"a": {"comand": "x"}}}', 23, "mcpServers.a.comand", "unknown key", "Did you mean 'command'?"),
        ('{"mcpServers": {"a": {"command": "x"}}, "toolmode": "proxy"}', 41, "toolmode", "unknown key", "'toolMode'"),
        ('{"mcpServers": {"a": {"command": "x"}}, "toolbox": 1}', 41, "toolbox", "unknown key", "'toolboxes'"),
        ('{"toolboxes": {"a": {}}, "mcpServers": {}}', 26, "mcpServers", "either 'toolboxes' or 'mcpServers'", "Move"),
        ('{"toolboxes": {"a": {"mcpServers": {"s": {"command": "x"}}}}}', 21, "toolboxes.a", "'description' is missing", 'Add "description"'),
        ('{"toolboxes": {"a": {"description": ""}}}', 37, "toolboxes.a.description", "cannot be empty", ""),
        ('{"toolboxes": {"a": {"description": "d"}}}', 21, "toolboxes.a", "'mcpServers' is missing", 'Add "mcpServers"'),
        ('{"toolboxes": {"a": {"description": "d", "mcpServers": {}}}}', 56, "toolboxes.a.mcpServers", "cannot be empty", "Add"),
        ('{"toolboxes": {"a": {"description": "d", "servers": {}}}}', 42, "toolboxes.a.servers", "unknown key", "'mcpServers'"),
        ('{"toolboxes": {"a": "x"}}', 21, "toolboxes.a", "must be an object, not a string", ""),
        ('{"toolboxes": {"a": {"description": "d", "mcpServers": {"s": {"command": "x"}}}}, "stricct": true}', 83, "stricct", "unknown key", "'strict'"),
        ('{"toolMode": "native", "toolboxes": {"a": {}}}', 14, "toolMode", "must be one of 'proxy', 'dynamic'", ""),
        ('{"toolMode": "dinamic", "toolboxes": {"a": {}}}', 14, "toolMode", "must be one of", "Did you mean 'dynamic'?"),
        ('{"strict": "yes", "toolboxes": {"a": {}}}', 12, "strict", "must be true or false, not a string", "without quotes"),
        ('{"openTimeout": 0, "toolboxes": {"a": {}}}', 17, "openTimeout", "must be more than 0", ""),
        ('{"openTimeout": 601, "toolboxes": {"a": {}}}', 17, "openTimeout", "must be at most 600", ""),
        ('{"openTimeout": "5", "toolboxes": {"a": {}}}', 17, "openTimeout", "must be a number, not a string", "without quotes"),
        ('{"openTimeout": true, "toolboxes": {"a": {}}}', 17, "openTimeout", "must be a number, not true or false", ""),
        ('{"toolboxes": {"*": {}}}', 16, "toolboxes.*", "'*' cannot be the name of a toolbox", "every toolbox"),
        ('{"toolboxes": {"": {}}}', 16, 'toolboxes[""]', "the name of a toolbox cannot be empty", "letters"),
        ('{"mcpServers": {"a\\u0001b": {}}}', 17, 'mcpServers["a\\x01b"]', "the name of a server cannot hold control characters", "letters"),
        ('{"mcpServers": {"a\\u0085b": {}}}', 17, 'mcpServers["a\\x85b"]', "the name of a server cannot hold control characters", "letters"),
        ('{"mcpServers": {"' + "n" * 129 + '": {}}}', 17, "mcpServers." + "n" * 129, "can have at most 128 characters", "letters"),
    ],
)  # fmt: skip
def test_c1_a_mistake_in_the_shape_tells_its_place_and_what_to_do(failure, text, column, path, problem, hint):
    error = failure(text)
    assert (error.line, error.column, error.path) == (1, column, path)
    assert problem in error.problem
    assert hint in error.hint


@pytest.mark.row("C2")
def test_c2_duplicate_keys_name_both_places(failure, toolbox):
    error = failure(toolbox('{"command": "x",\n "args": [],\n  "args": []}'))
    assert (error.line, error.column, error.path) == (4, 3, "toolboxes.dev.mcpServers.fs.args")
    assert "line 3, column 2" in error.problem


LEAKS = [
    '{"command": "%s", "url": "%s"}',
    '{"command": "x", "args": "%s"}',
    '{"command": "x", "args": [{"a": "%s"}]}',
    '{"command": "x", "env": "%s"}',
    '{"command": "x", "env": {"A": "%s", "A": "%s"}}',
    '{"command": "x", "env": {"A": ["%s"]}}',
    '{"command": "x", "env": {"%s"}}',
    '{"command": "x", "env": {"A": %s}}',
    '{"command": "x", "env": {"A": "%s" "B": "%s"}}',
    '{"command": "x", "env": {"A": "%s}}',
    '{"command": "x", "env": {"A": "%s\\x"}}',
    '{"command": "x", "env": {"A": \'%s\'}}',
    '{"command": "x", "env": {"A": "${%s!}"}}',
    '{"command": "x", "env": {"A": "${A:-${%s}}"}}',
    '{"command": "x", "env": {"A": "${TOKEN}\\u0000"}}',
    '{"command": "x", "args": ["${TOKEN}${"]}',
    '{"command": "x", "toolFilters": ["@%s"]}',
    '{"command": "x", "type": "%s"}',
    '{"command": "x", "disabled": "%s"}',
    '{"url": "%s"}',
    '{"url": "${TOKEN}"}',
    '{"url": "http://a", "headers": {"A": "%s\\n"}}',
    '{"url": "http://a", "headers": {"A": "${LINES}"}}',
    '{"command": "x", "args": ["${TOKEN}", "%s", "${MISSING}"]}',
]


@pytest.mark.parametrize("entry", LEAKS)
def test_no_value_ever_appears_in_an_error(failure, entry, toolbox, secret):
    environ = {"TOKEN": secret, "LINES": f"{secret}\nx"}
    error = failure(toolbox(entry.replace("%s", secret)), environ=environ, strict=True)
    text = f"{error} {error!r} {error.hint} {error.problem} {error.path} {error.__cause__!r}"
    assert secret not in text
    assert error.__cause__ is None


def test_no_value_appears_in_the_repr_of_a_config_or_its_warnings(load, secret):
    config = load(
        {
            "mcpServers": {
                "a": {"command": secret, "args": [secret, "${TOKEN}"], "env": {"A": secret}, "envFile": secret},
                "b": {"url": f"http://{secret}", "headers": {"A": secret}},
            },
            "theme": secret,
        }
    )
    assert secret not in repr(config)
    assert all(secret not in warning.message for warning in config.warnings)
