"""One member of a text is changed, and nothing else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.config.jsonc.edit import find, remove_member, remove_members, set_member
from mcp_workbench.config.jsonc.parser import Object, parse, plain, tokens
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.jsonc.transfer import move_member, restore_members
from mcp_workbench.errors import ConfigError

NEW = "a new one"
LINE_ENDS = ("\n", "\r\n", "\r")


@st.composite
def fillings(draw: st.DrawFn, line_end: str) -> str:
    """White space and comments, as people put them between any two tokens."""
    piece = st.sampled_from(
        ["", " ", "\t", line_end, line_end * 2, f"{line_end}  ", "/* c */", f"/* a{line_end} b */", f"// c{line_end}"]
    )
    return "".join(draw(st.lists(piece, max_size=4)))


@st.composite
def values(draw: st.DrawFn, line_end: str, depth: int = 2) -> str:
    gap = lambda: draw(fillings(line_end))  # noqa: E731 -- said ten times below
    kind = draw(st.sampled_from(["scalar", "object", "object", "list"])) if depth else "scalar"
    if kind == "scalar":
        return draw(st.sampled_from(['"text // no comment"', "1", "true", "null", '"\u00e4\u2028"', '"{"', "-1.5e3"]))
    comma = "," if draw(st.booleans()) else ""
    if kind == "list":
        items = draw(st.lists(values(line_end, 0), max_size=2))
        return "[" + ",".join(gap() + item + gap() for item in items) + (comma + gap() if items else gap()) + "]"
    names = draw(st.lists(st.sampled_from(["a", "b", "c d", "\u00e9"]), unique=True, max_size=3))
    members = [
        f'{gap()}"{name}"{gap()}:{gap()}{draw(values(line_end, depth - 1))}{gap()}'
        for name in names
    ]  # fmt: skip
    return "{" + ",".join(members) + (comma + gap() if members else gap()) + "}"


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A file whose root is an object."""
    line_end = draw(st.sampled_from(LINE_ENDS))
    body = draw(values(line_end).filter(lambda text: text.startswith("{")))
    return draw(st.sampled_from(["", "\ufeff"])) + draw(fillings(line_end)) + body + draw(fillings(line_end))


def tree(text: str) -> Any:
    return plain(parse(SourceText(text)))


def comments(text: str) -> list[str]:
    return [token.text for token in tokens(SourceText(text)) if token.kind == "comment"]


def objects(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all objects."""
    if not isinstance(value, dict):
        return []
    return [path, *(one for name, inner in value.items() for one in objects(inner, (*path, name)))]


def inside(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value[name]
    return value


ADDED = st.sampled_from([1, "x", {}, {"command": "c", "args": ["a", "b"], "env": {"K": "v"}}, [], {"deep": {"er": {}}}])


@given(text=texts(), added=ADDED, data=st.data())
def test_a_new_member_is_there_with_all_that_was(text: str, added: Any, data: st.DataObject):
    before = tree(text)
    path = data.draw(st.sampled_from(objects(before)))
    expected = copy.deepcopy(before)
    inside(expected, path)[NEW] = added
    after = set_member(text, (*path, NEW), added)
    assert tree(after) == expected
    assert list(inside(tree(after), path)) == [*inside(before, path), NEW]
    assert comments(after) == comments(text)


@given(text=texts(), added=ADDED, data=st.data())
def test_a_new_member_that_is_removed_leaves_the_same_text(text: str, added: Any, data: st.DataObject):
    path = (*data.draw(st.sampled_from(objects(tree(text)))), NEW)
    assert remove_member(set_member(text, path, added), path) == text


@given(text=texts(), data=st.data())
def test_objects_that_were_made_on_the_way_are_removed_as_one(text: str, data: st.DataObject):
    path = (*data.draw(st.sampled_from(objects(tree(text)))), NEW)
    after = set_member(text, (*path, "inner", "innermost"), 1)
    assert inside(tree(after), path) == {"inner": {"innermost": 1}}
    assert remove_member(after, path) == text


@given(text=texts(), added=ADDED, data=st.data())
def test_a_value_is_replaced_where_it_stands(text: str, added: Any, data: st.DataObject):
    expected = tree(text)
    path = data.draw(st.sampled_from(objects(expected)))
    names = list(inside(expected, path))
    if not names:
        return
    inside(expected, path)[names[0]] = added
    after = set_member(text, (*path, names[0]), added)
    assert tree(after) == expected
    node = find(parse(SourceText(text)), (*path, names[0]))
    assert node is not None
    assert after.startswith(text[: node.start])
    assert after.endswith(text[node.end :])


@given(text=texts(), data=st.data())
def test_a_removed_member_takes_nothing_with_it_but_comments_around_it(text: str, data: st.DataObject):
    expected = tree(text)
    path = data.draw(st.sampled_from(objects(expected)))
    names = list(inside(expected, path))
    if not names:
        return
    name = data.draw(st.sampled_from(names))
    del inside(expected, path)[name]
    after = remove_member(text, (*path, name))
    assert tree(after) == expected
    assert list(inside(tree(after), path)) == [one for one in names if one != name]
    assert _is_subsequence(comments(after), comments(text))


@given(text=texts(), data=st.data())
def test_members_that_were_removed_come_back_to_their_places_with_their_comments(text: str, data: st.DataObject):
    path = data.draw(st.sampled_from(objects(tree(text))))
    names = list(inside(tree(text), path))
    gone = [name for name in names if data.draw(st.booleans())]
    after = restore_members(remove_members(text, path, gone), path, gone, text)
    assert tree(after) == tree(text)
    assert list(inside(tree(after), path)) == names
    assert sorted(comments(after)) == sorted(comments(text))


@given(text=texts(), data=st.data())
def test_a_member_moves_into_any_other_object_with_its_comments(text: str, data: st.DataObject):
    expected = tree(text)
    places = [path for path in objects(expected) if inside(expected, path)]
    if not places:
        return
    path = data.draw(st.sampled_from(places))
    name = data.draw(st.sampled_from(list(inside(expected, path))))
    free = [
        one for one in objects(expected) if name not in inside(expected, one) and one[: len(path) + 1] != (*path, name)
    ]
    to = data.draw(st.sampled_from([*free, (NEW,), (NEW, "inner")]))
    after = move_member(text, (*path, name), to)
    moved = inside(expected, path).pop(name)
    for step in range(len(to)):
        inside(expected, to[:step]).setdefault(to[step], {})
    inside(expected, to)[name] = moved
    assert tree(after) == expected
    assert list(inside(tree(after), to))[-1] == name
    assert sorted(map(str.split, comments(after))) == sorted(map(str.split, comments(text)))


MOVED = """{
  "a": {
    // reads files
    "files": {
      "command": "npx", // fetches it
      "args": ["x"]
    },
    "git": { "command": "uvx" } // and this
  },
  "deep": { "b": {} },
  "one": { "line": 1 }
}
"""


@pytest.mark.parametrize(
    ("name", "to", "expected"),
    [
        ("git", ("deep", "b"), """  "deep": { "b": {
    // and this
    "git": { "command": "uvx" }
  } },"""),
        ("files", ("one",), """  "one": { "line": 1,
    // reads files
    "files": {
      "command": "npx", // fetches it
      "args": ["x"]
    } }"""),
        ("files", (), """  "one": { "line": 1 },
  // reads files
  "files": {
    "command": "npx", // fetches it
    "args": ["x"]
  }
}"""),
        ("files", ("deep", "new"), """  "deep": { "b": {}, "new": {
    // reads files
    "files": {
      "command": "npx", // fetches it
      "args": ["x"]
    }
  } },"""),
    ],
)  # fmt: skip
def test_a_member_moves_as_people_wrote_it(name: str, to: tuple[str, ...], expected: str):
    assert expected in move_member(MOVED, ("a", name), to)


def test_what_is_not_there_can_not_be_moved():
    with pytest.raises(KeyError):
        move_member("{}", ["a"], ["b"])


OTHERS = [
    "{}",
    "// c\n{\n}",
    '{"z": 1}',
    '{ // c\n "z": 1, }',
    '{"y": 1, /* c */ "z": 2 // c\n}',
    '{\r\n\t"z": {}\r\n}',
]


@given(text=texts(), other=st.sampled_from(OTHERS))
def test_a_member_comes_into_any_other_text(text: str, other: str):
    for name, value in tree(text).items():
        after = restore_members(other, (), [name], text)
        assert tree(after) == {**tree(other), name: value}
        assert not set(comments(other)) - set(comments(after))


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ('{\n  // of a\n  "a": 1,\n  "b": 2\n}', "a", None),
        ('{\n  "a": 1,\n  // of b\n  "b": 2,\n  "c": 3\n}', "b", None),
        ('{\n  "a": 1,\n  "b": 2, // beside b\n}', "b", '{\n  "a": 1,\n  // beside b\n  "b": 2,\n}'),
        ('{\n  "a": 1\n}', "a", None),
        ('{"a": 1, "b": 2, "c": 3}', "a", None),
        ('{"a": 1, "b": 2, "c": 3}', "b", None),
        ('{"a": 1, "b": 2, "c": 3}', "c", None),
        ('{ "a": 1, "b": 2 }', "a", None),
        ('{"a":1,"b":2}', "b", None),
        ('{"a" /* x */ : 1, "b": 2}', "a", None),
    ],
)
def test_a_member_comes_back_as_people_wrote_it(text: str, name: str, expected: str | None):
    assert restore_members(remove_member(text, [name]), [], [name], text) == (expected or text)


def test_a_member_that_another_text_has_not_can_not_come_back():
    with pytest.raises(KeyError):
        restore_members("{}", [], ["a"], "{}")


def _is_subsequence(few: list[str], many: list[str]) -> bool:
    rest = iter(many)
    return all(one in rest for one in few)


PEOPLE = """{
  // about a
  "a": 1,

  // a heading

  // about b, first
  // about b, second
  "b": {"k": 1}, // beside b
  "c": 3 // beside c
  // at the end
}
"""


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("a", {"// about a"}),
        ("b", {"// about b, first", "// about b, second", "// beside b"}),
        ("c", {"// beside c"}),
    ],
)
def test_a_member_goes_with_its_own_comments_and_leaves_the_others(name: str, gone: set[str]):
    assert set(comments(PEOPLE)) - set(comments(remove_member(PEOPLE, [name]))) == gone


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{// c\n"a": 1 \n}', "{// c\n}"),
        ('{"x": 1, // c\n"a": 2}', '{"x": 1 // c\n}'),
        ('{"x": 1, // c\n"a": 2 }', '{"x": 1 // c\n}'),
        ('{"a": 1, /* of b */ "b": 2}', '{/* of b */ "b": 2}'),
        ('{\n  "x": 1,\n  "a": 2, "b": 3\n}', '{\n  "x": 1,\n  "b": 3\n}'),
    ],
)
def test_no_comment_swallows_what_stood_behind_the_member(text: str, expected: str):
    assert remove_member(text, ["a"]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", '{\n  "n": {\n    "x": [1, 2]\n  }\n}'),
        ('{\n\t"a": 1\n}', '{\n\t"a": 1,\n\t"n": {\n\t\t"x": [1, 2]\n\t}\n}'),
        ('{\r\n    "a": 1,\r\n}', '{\r\n    "a": 1,\r\n    "n": {\r\n        "x": [1, 2]\r\n    },\r\n}'),
        ('{"a":1}', '{"a":1,"n":{"x":[1,2]}}'),
        ('{"a": 1}', '{"a": 1, "n": {"x": [1, 2]}}'),
        ('\ufeff{\n "a": 1 // c\n}', '\ufeff{\n "a": 1, // c\n "n": {\n  "x": [1, 2]\n }\n}'),
    ],
)
def test_a_new_member_is_written_as_the_file_is(text: str, expected: str):
    assert set_member(text, ["n"], {"x": [1, 2]}) == expected


def test_what_is_no_object_can_not_be_entered_and_its_value_is_not_repeated():
    with pytest.raises(ConfigError, match="must be an object, not a string") as caught:
        set_member('{"a": {"b": "hunter2"}}', ["a", "b", "c"], 1, "f.json")
    assert "f.json:1:13: a.b" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_what_is_not_there_can_not_be_removed():
    with pytest.raises(KeyError):
        remove_member('{"a": {}}', ["a", "b"])
    with pytest.raises(KeyError):
        remove_member('{"a": {}}', ["b", "c"])


def test_several_members_go_at_once_or_none():
    assert remove_members('{"a": {"b": 1, "c": 2, "d": 3}}', ["a"], ["b", "d"]) == '{"a": {"c": 2}}'
    with pytest.raises(KeyError):
        remove_members('{"a": {"b": 1}}', ["a"], ["b", "c"])


def test_a_text_that_is_no_json_is_refused():
    with pytest.raises(ConfigError):
        set_member('{"a": ', ["b"], 1)


def test_the_node_of_a_path_is_found():
    root = parse(SourceText('{"a": {"b": 1}}'))
    assert isinstance(find(root, ["a"]), Object)
    assert find(root, ["a", "c"]) is None
    assert find(root, ["a", "b", "c"]) is None
