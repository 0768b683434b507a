"""Whatever stands at the path, and whatever the bytes: a Config or a ConfigError, at once."""
# ruff: noqa: PT017 -- a property says what holds for the error, where there is one

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_workbench.config.keys import ROOT, SERVER, TOOLBOX
from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Launch
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import Limits

same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.row("C3")
def test_c3_a_byte_order_mark_is_accepted(load, toolbox):
    assert load(b"\xef\xbb\xbf" + toolbox('{"command": "x"}').encode())


@pytest.mark.row("C3")
@pytest.mark.parametrize(
    ("content", "line", "column", "problem"),
    [
        (b"", 1, 1, "the file is empty"),
        (b" \n\t\n", 3, 1, "the file is empty"),
        (b"\xef\xbb\xbf", 1, 1, "the file is empty"),
        ('{"a": 1}'.encode("utf-16"), None, None, "UTF-16"),
        ('{"a": 1}'.encode("utf-16-le"), None, None, "UTF-16"),
        ('{"a": 1}'.encode("utf-16-be"), None, None, "UTF-16"),
        ('{"a": 1}'.encode("utf-32"), None, None, "UTF-16"),
        ('{\n"é": "'.encode() + b'\xe9"}', 2, 7, "a byte here is not valid UTF-8"),
        (b'{"a": NaN}', 1, 7, "NaN is not allowed"),
        (b"[" * 100_000, 1, 65, "nested deeper than 64 levels"),
        (b'{"toolboxes": ' * 100_000, 1, 897, "nested deeper than 64 levels"),
        (b'{"a": "\xed\xa0\x80"}', 1, 8, "a byte here is not valid UTF-8"),
        (b'{"a": "\\ud800"}', 1, 7, "half of a surrogate pair"),
        (b"\x7fELF\x02\x01\x01", 1, 1, "unexpected character '\\x7f'"),
    ],
)
def test_c3_unusable_content_is_one_line_that_says_why(failure, content, line, column, problem):
    error = failure(content)
    assert (error.line, error.column) == (line, column)
    assert problem in error.problem


def path_error(path) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(path, environ={})
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.row("C3")
def test_c3_a_large_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(100 * 1024 * 1024)
    assert "larger than 4194304 bytes" in path_error(path).problem


@pytest.mark.row("C3")
def test_c3_a_file_without_a_size_is_read_up_to_the_cap():
    with pytest.raises(ConfigError, match="larger than 3 bytes"):
        load_config(
            "/proc/self/status" if Path("/proc/self/status").exists() else __file__, limits=Limits(config_bytes=3)
        )


@pytest.mark.row("C3")
def test_c3_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    assert "directory" in path_error(tmp_path).problem
    assert "not a regular file" in path_error(tmp_path / "fifo").problem
    assert "not a regular file" in path_error("/dev/zero").problem
    assert "symbolic links" in path_error(tmp_path / "loop").problem
    assert "no such file" in path_error(tmp_path / "none").problem
    assert "--config" in path_error(tmp_path / "none").hint
    assert "not a file name" in path_error("a\x00b").problem
    assert path_error("x" * 5000).problem.startswith("cannot be read: ")
    assert path_error("").problem


@pytest.mark.row("C3")
def test_c3_an_unreadable_file_says_so(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root, as which tests may run, can read everything
    error = path_error(tmp_path / "c.json")
    assert error.problem == "cannot be read: permission denied"
    assert "chmod u+r" in error.hint


@pytest.mark.row("C3")
def test_c3_a_file_that_fails_while_it_is_read_says_so(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(5, "Input/output error")

    path = tmp_path / "c.json"
    path.write_text("{}")
    monkeypatch.setattr(os, "read", fail)
    assert path_error(path).problem == "cannot be read: input/output error"


def test_a_variable_that_no_program_could_be_given_is_an_error(failure, toolbox):
    error = failure(toolbox('{"command": "${NAME}/x"}'), environ={"NAME": "~\ud800"})
    assert error.path == "toolboxes.dev.mcpServers.fs.command"
    assert error.problem == "holds a character that cannot be passed on"


fragments = st.sampled_from(
    [
        '"toolboxes"', '"mcpServers"', '"description"', '"command"', '"args"', '"env"', '"url"', '"toolFilters"',
        '"disabled"',
        '"x"', '"${NAME}"', '"${"', '""', '"\\u0000"', '"~"', '"~x/"', '"http://a"', '"@readOnly"', '"type"', '"stdio"',
        "{", "}", "[", "]", ":", ",", "1", "true", "null", "//", "\n", "/*", "*/", "\x00", "\ufeff", "\\",
    ]
)  # fmt: skip


@pytest.mark.row("C3")
@same_folder
@given(st.binary(max_size=200) | st.lists(fragments, max_size=40).map(lambda parts: "".join(parts).encode()))
def test_c3_whatever_the_bytes_only_a_config_error_escapes(load, content):
    try:
        load(content)
    except ConfigError as error:
        assert "\n" not in str(error)


names = st.sampled_from(["a", "", "*", "A", "\n", "é", "x" * 129, "a.b"]) | st.text(max_size=5)
known_keys = st.sampled_from([*(key.name for key in (*ROOT, *TOOLBOX, *SERVER)), "timeout"])
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["${NAME}", "${MISSING}", "~", "~root/x", "http://a", "stdio", "sse", "a/b", "!@readOnly"])
)
shapes = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(known_keys | names, inner, max_size=4),
    max_leaves=12,
)
entries = st.dictionaries(
    known_keys, leaves | st.lists(leaves, max_size=3) | st.dictionaries(names, leaves, max_size=3)
)


@pytest.mark.row("C3")
@same_folder
@given(
    shapes
    | st.fixed_dictionaries({"mcpServers": st.dictionaries(names, entries, max_size=3)})
    | st.fixed_dictionaries(
        {
            "toolboxes": st.dictionaries(
                names,
                st.fixed_dictionaries(
                    {"description": leaves, "mcpServers": st.dictionaries(names, entries, max_size=3)}
                ),
                max_size=2,
            )
        }
    ),
    st.dictionaries(st.just("NAME"), st.text(alphabet=st.characters(blacklist_characters="\x00"), max_size=8)),
)
def test_c3_whatever_the_shape_only_a_config_error_escapes_and_what_loads_is_complete(load, value, environ):
    try:
        config = load(value, environ=environ)
    except ConfigError as error:
        assert "\n" not in str(error)
        return
    for server in config.servers():
        assert server.name
        assert server.toolbox
        if isinstance(server.target, Launch):
            assert server.missing or server.target.command
            assert server.target.cwd is None or server.target.cwd.is_absolute()
            assert set(server.target.env.values()) - {""} <= server.secrets
        else:
            assert server.missing or server.target.url.lower().startswith(("http://", "https://"))
