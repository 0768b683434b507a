"""Files of hosts are read and changed, whichever syntax they have."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.hosts.documents import HostDocument
from tests.hosts import samples

CODEX = HostDocument(samples.CODEX.text, "toml", "config.toml")
WORKBENCH = ("mcp_servers", "workbench")
ENTRY = {"command": "/opt/öl/mcp-workbench", "args": ["serve", '"quoted" \\ text']}


def test_a_table_is_added_behind_the_others_and_taken_out_again():
    changed = CODEX.with_member(WORKBENCH, ENTRY)
    assert changed.text.startswith(CODEX.text)
    assert tomllib.loads(changed.text)["mcp_servers"]["workbench"] == ENTRY
    assert changed.without_member(WORKBENCH).text == CODEX.text


@pytest.mark.parametrize("text", ["", "model = 1", "model = 1\n", "model = 1\r\n", "[a]\nb = 1\n\n"])
def test_any_file_takes_a_table(text: str):
    document = HostDocument(text, "toml", "f").with_member(WORKBENCH, ENTRY)
    assert document.at(WORKBENCH) == ENTRY
    assert document.text.startswith(text)
    if "\r\n" in text:
        assert "\n" not in document.text.replace("\r\n", "")


def test_a_table_goes_with_its_own_comments_and_leaves_those_of_others():
    changed = CODEX.without_member(("mcp_servers", "files"))
    assert "# files" not in changed.text
    assert "# design" in changed.text
    assert "# how I like it" in changed.text


def test_a_comment_behind_a_table_is_nobodys_and_stays():
    for text in ("[mcp_servers.x]\na = 1\n# mine\n", "[mcp_servers.x]\na = 1\n\n# mine\n\n[b]\n"):
        assert "# mine" in HostDocument(text, "toml", "f").without_member(("mcp_servers", "x")).text


def test_a_table_comes_back_as_it_was_written():
    gone = CODEX.without_member(("mcp_servers", "files"))
    back = gone.with_members_of([("mcp_servers", "files")], CODEX)
    assert back.tree == CODEX.tree
    assert '# files\n[mcp_servers.files]\ncommand = "npx"' in back.text


@pytest.mark.parametrize("name", ["files", "figma"])
def test_a_table_comes_back_to_its_place(name: str):
    path = ("mcp_servers", name)
    assert CODEX.without_member(path).with_members_of([path], CODEX).text == CODEX.text


def test_tables_come_back_around_what_somebody_added():
    paths = [("mcp_servers", "files"), ("mcp_servers", "figma")]
    changed = CODEX.without_members(paths).with_member(WORKBENCH, ENTRY).with_member(("mine",), {"a": 1})
    back = changed.with_members_of(paths, CODEX)
    assert back.without_member(WORKBENCH).without_member(("mine",)).text == CODEX.text


def test_tables_in_one_line_are_changed_too():
    document = HostDocument(samples.CODEX_PROJECT.text, "toml", "f")
    changed = document.with_member(WORKBENCH, ENTRY).without_member(("mcp_servers", "time"))
    assert changed.at(("mcp_servers",)) == {"workbench": ENTRY}
    assert changed.with_members_of([("mcp_servers", "time")], document).at(("mcp_servers", "time")) == {
        "command": "uvx",
        "args": ["mcp-server-time"],
    }


@pytest.mark.parametrize(
    "text",
    [
        '[mcp_servers]\nx = {command = "y", env = {A = "b"}, env_vars = [{name = "C"}]}\nz = {url = "https://a"}\n',
        '[mcp_servers]\nx.command = "y"\nx.env.A = "b"\nz.url = "https://a"\n',
        'mcp_servers.x.command = "y"\nmcp_servers.x.env.A = "b"\nmcp_servers.z.url = "https://a"\n[tui]\nt = 1\n',
    ],
)
def test_a_table_without_a_header_comes_back_with_the_tables_in_it(text: str):
    document = HostDocument(text, "toml", "f")
    paths = [("mcp_servers", "x"), ("mcp_servers", "z")]
    assert document.without_members(paths).with_members_of(paths, document).tree == document.tree


@pytest.mark.parametrize("value", ['"""\n[mcp_servers.x]\n"""', '[\n["mcp_servers.x"]\n]'])
def test_a_line_in_the_middle_of_a_value_is_no_header(value: str):
    text = f'a = {value}\n\n[mcp_servers.x]\ncommand = "y"\n'
    assert HostDocument(text, "toml", "f").without_member(("mcp_servers", "x")).text == f"a = {value}\n"


def test_a_change_that_would_harm_the_rest_is_not_made(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "mcp_workbench.hosts.toml_edit.without_table", lambda text, _path: text.replace("model", "modell")
    )
    with pytest.raises(HostFileError, match="without damage"):
        CODEX.without_member(("mcp_servers", "files"))
    monkeypatch.setattr("mcp_workbench.hosts.toml_edit.without_table", lambda text, _path: text + "[")
    with pytest.raises(HostFileError, match="without damage"):
        CODEX.without_member(("mcp_servers", "files"))


def test_an_entry_of_json_comes_back_with_the_comments_in_it():
    cursor = HostDocument(samples.CURSOR.text, "json", "mcp.json")
    path = ("mcpServers", "github")
    back = cursor.without_member(path).with_members_of([path], cursor)
    assert "// from the settings of GitHub" in back.text
    assert back.tree == cursor.tree


@pytest.mark.parametrize("text", ["", " \n", "\ufeff"])
def test_an_empty_file_is_an_empty_object(text: str):
    document = HostDocument(text, "json", "f").with_member(("a", "b"), {"c": 1})
    assert document.tree == {"a": {"b": {"c": 1}}}
    assert document.text.startswith(text)


@pytest.mark.parametrize(
    ("text", "syntax", "message"),
    [
        ('{"a": hunter2}', "json", "f: is not valid JSON: line 1, column 7"),
        ("[]", "json", "f: must hold an object"),
        ("a = hunter2", "toml", "f: is not valid TOML: line 1, column 5"),
    ],
)
def test_a_broken_file_is_told_with_its_place_and_without_its_text(text: str, syntax: str, message: str):
    with pytest.raises(HostFileError) as caught:
        HostDocument(text, syntax, "f")  # pyright: ignore[reportArgumentType] -- one of the two
    assert str(caught.value).startswith(message)
    assert "hunter2" not in str(caught.value) + caught.value.hint


def test_bytes_that_are_no_text_are_told():
    with pytest.raises(HostFileError, match="not UTF-8"):
        HostDocument.decoded(b"\xff\xff", "json", "f")


def test_a_path_through_something_else_is_refused():
    with pytest.raises(HostFileError, match="must be an object"):
        HostDocument('{"a": 1}', "json", "f").with_member(("a", "b"), {})


NAMES = st.sampled_from(["a", "b", '"c d"', "mcp_servers.x", 'mcp_servers."y.z"', "mcp_servers.x.env"])
LINES = st.sampled_from(["k = 1\n", 'm = """\n[no.header]\n"""\n', "# a comment\n", "\n", "n = [\n  1,\n]\n"])


@st.composite
def toml_texts(draw: st.DrawFn) -> str:
    pieces = [*dict.fromkeys(draw(st.lists(LINES, max_size=3)))]
    for name in draw(st.lists(NAMES, unique=True, max_size=5)):
        pieces += [f"[{name}]\n", *dict.fromkeys(draw(st.lists(LINES, max_size=3)))]
    return "".join(pieces)


def is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@given(text=toml_texts().filter(is_toml))
def test_a_table_that_is_added_and_removed_leaves_the_same_text(text: str):
    document = HostDocument(text, "toml", "f")
    assert document.with_member(WORKBENCH, ENTRY).without_member(WORKBENCH).text == text


@given(text=toml_texts().filter(is_toml))
def test_a_removed_table_takes_no_value_of_another_with_it(text: str):
    document = HostDocument(text, "toml", "f")
    for name in document.at(("mcp_servers",)) or ():
        assert document.without_member(("mcp_servers", name)).at(("mcp_servers", name)) is None


@given(text=toml_texts().filter(is_toml))
def test_a_removed_table_comes_back_with_all_values_and_comments(text: str):
    document = HostDocument(text, "toml", "f")
    for name in document.at(("mcp_servers",)) or ():
        gone = document.without_member(("mcp_servers", name))
        back = gone.with_members_of([("mcp_servers", name)], document)
        assert back.tree == document.tree
        assert sorted(re.findall("#.*", back.text)) == sorted(re.findall("#.*", text))


def test_what_few_need_is_not_imported_by_all():
    code = (
        "import sys; from mcp_workbench.cli import add, import_, install, remove, uninstall\n"
        "print({'tomlkit', 'rich', 'click'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "set()\n"
