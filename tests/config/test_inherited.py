"""The variables that servers inherit: the defaults, `inheritEnv` at both levels, and credentials among them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config.diff import changes
from mcp_workbench.config.environment import (
    INHERITED,
    OWN_PREFIXES,
    default_credentials,
    environment_of,
    inherited,
    is_default,
    is_own,
)
from mcp_workbench.config.model import Config, Launch, ServerConfig
from mcp_workbench.errors import ConfigError
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.redact import Redactor
from tests.docs.markdown import ROOT, code_words, rows, sections

Load = Callable[..., Config]
PATTERNS = [pattern for patterns in INHERITED.values() for pattern in patterns]
NAMES = st.sampled_from([*(pattern.replace("*", "ANY") for pattern in PATTERNS), "WORKBENCH_TOKEN"]) | st.text(
    "ABPROXYDG_*", min_size=1
)


# -- the table


@given(NAMES)
def test_a_variable_is_a_default_exactly_if_a_pattern_of_the_table_matches_it(name: str):
    assert is_default(name) == (any(fnmatchcase(name, pattern) for pattern in PATTERNS) and not is_own(name))


def test_the_documents_list_the_table():
    [section] = [
        one.text
        for one in sections((ROOT / "docs" / "configuration.md").read_text(encoding="utf-8"))
        if one.headings[-1:] == ("The environment of a server",)
    ]
    assert {row[0]: tuple(code_words(row[1])) for row in rows(section)} == INHERITED
    assert all(f"`{prefix}*`" in section for prefix in OWN_PREFIXES)
    promises = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    [promise] = re.findall(r"(?ms)^3\. .*?(?=^4\. )", promises)
    assert [pattern for pattern in [*PATTERNS, *OWN_PREFIXES] if pattern not in promise] == []


# -- at the top of the file, and in an entry


def file_of(top: list[str] | None, **servers: list[str] | None) -> str:
    entries = {name: {"command": "x", **({"inheritEnv": own} if own else {})} for name, own in servers.items()}
    box = {"description": "d", "mcpServers": {**entries, "remote": {"url": "https://a.example"}}}
    return json.dumps({"toolboxes": {"dev": box}} | ({"inheritEnv": top} if top is not None else {}))


def servers_of(config: Config) -> dict[str, ServerConfig]:
    return {server.name: server for server in config.servers()}


def launch_of(server: ServerConfig) -> Launch:
    assert isinstance(server.target, Launch)
    return server.target


def test_an_entry_adds_to_what_every_server_inherits(load: Load):
    environ = {"SSH_AUTH_SOCK": "/sock", "AWS_PROFILE": "sandbox-account", "OTHER": "not-inherited"}
    found = servers_of(load(file_of(["SSH_*"], a=["AWS_*", "SSH_*"], b=None), environ=environ))
    assert launch_of(found["a"]).inherit_env == ("SSH_*", "AWS_*")
    assert environment_of(launch_of(found["a"]), environ) == {
        "SSH_AUTH_SOCK": "/sock",
        "AWS_PROFILE": "sandbox-account",
    }
    assert environment_of(launch_of(found["b"]), environ) == {"SSH_AUTH_SOCK": "/sock"}
    assert found["a"].secrets == {"/sock", "sandbox-account"}
    assert (found["b"].secrets, found["remote"].secrets) == ({"/sock"}, frozenset())


def test_it_works_in_a_file_of_a_host_too(load: Load):
    config = load('{"inheritEnv": ["A"], "mcpServers": {"x": {"command": "x"}}}', environ={})
    assert launch_of(servers_of(config)["x"]).inherit_env == ("A",)


@pytest.mark.parametrize("top", [["A=b"], [""], "A", [1]])
def test_a_mistake_at_the_top_is_told_as_in_an_entry(failure: Callable[[object], ConfigError], top: object):
    assert failure({"inheritEnv": top, "toolboxes": {}}).path.startswith("inheritEnv")


@pytest.mark.parametrize("pattern", ["WORKBENCH_TOKEN", "WORKBENCH_*", "MCP_WORKBENCH_RUN"])
def test_naming_a_variable_of_the_workbench_itself_is_warned_of(load: Load, pattern: str):
    config = load(file_of([pattern], a=[pattern]), environ={"WORKBENCH_TOKEN": "never"})
    assert [warning.path for warning in config.warnings] == [
        "inheritEnv[0]",
        "toolboxes.dev.mcpServers.a.inheritEnv[0]",
    ]
    assert all("not passed on" in warning.message for warning in config.warnings)
    assert config.secrets == set()


# -- a file that changes


@pytest.mark.parametrize(
    ("before", "after", "changed"),
    [
        ([], ["TOP"], "ab"),
        (["TOP"], [], "ab"),
        (["TOP"], ["T*"], ""),
        ([], ["NOT_SET"], ""),
        ([], ["OWN_A"], "b"),
        ([], ["WORKBENCH_TOKEN"], ""),
        ([], ["HOME", "LC_*"], ""),
    ],
)
def test_a_change_at_the_top_changes_the_servers_whose_environment_it_changes(
    load: Load, before: list[str], after: list[str], changed: str
):
    names = ("TOP", "OWN_A", "WORKBENCH_TOKEN", "HOME", "LC_ALL")
    environ = {name: f"the value of {name}" for name in names}
    old, new = (load(file_of(top, a=["OWN_*"], b=None), environ=environ) for top in (before, after))
    found = changes(old, new, environ)
    assert found.changed == tuple(ServerIdentifier("dev", name) for name in changed)
    assert found.toolboxes == (("dev",) if changed else ())
    assert found.settings == ()


def test_a_variable_that_an_entry_sets_itself_is_not_inherited_by_it(load: Load):
    environ = {"KEY": "the value outside"}
    entry = {"command": "x", "env": {"KEY": "its own value"}}
    texts = [json.dumps({"mcpServers": {"x": entry}, "inheritEnv": top}) for top in ([], ["KEY"])]
    old, new = (load(text, environ=environ) for text in texts)
    assert changes(old, new, environ).changed == ()
    assert new.secrets == {"its own value"}


# -- credentials


@pytest.mark.parametrize(
    ("name", "value", "hidden"),
    [
        ("HTTPS_PROXY", "http://me:hunter22@proxy:8080", ["http://me:hunter22@proxy:8080", "me:hunter22", "hunter22"]),
        ("https_proxy", "http://me:p%40ss-word@proxy", ["p%40ss-word", "p@ss-word"]),
        ("ALL_PROXY", "socks5h://me:with/slash@proxy:1080", ["with/slash"]),
        ("ALL_PROXY", "me:hunter22@proxy:1080", ["hunter22"]),
        ("HTTP_PROXY", "http://token-alone@proxy", ["token-alone"]),
        ("DOCKER_HOST", "ssh://deployer@host", []),
        ("HTTP_PROXY", "http://proxy:8080", []),
        ("NO_PROXY", "localhost,.example.com", []),
        ("LC_ALL", "de_DE.UTF-8@euro", []),
        ("XDG_CONFIG_DIRS", "/etc/xdg:/home/me@corp/xdg", []),
        ("OTHER", "http://me:hunter22@proxy:8080", []),
    ],
)
def test_credentials_in_a_default_variable_are_secrets(load: Load, name: str, value: str, hidden: list[str]):
    assert set(hidden) <= default_credentials({name: value})
    assert bool(hidden) == bool(default_credentials({name: value}))
    config = load(file_of(None, a=None), environ={name: value})
    assert config.secrets == default_credentials({name: value})
    redactor = Redactor()
    redactor.hide(config.secrets)
    for part in hidden:
        assert part not in redactor(f"cannot connect: {part}!")


@given(st.lists(st.text("ABW*?[]_", min_size=1)), st.dictionaries(NAMES, st.text()))
def test_nothing_of_the_workbench_itself_is_ever_inherited(patterns: list[str], environ: dict[str, str]):
    assert not [name for name in inherited(patterns, environ) if name.startswith("WORKBENCH_")]
