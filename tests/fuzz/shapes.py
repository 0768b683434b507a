"""JSON of any shape, also what no honest encoder writes, and good texts with something wrong in them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from tests.fuzz.puppets import ID

Path: TypeAlias = "tuple[str | int, ...]"


class Text(str):
    """JSON as it is to be written, well-formed or not."""

    __slots__ = ()


class Pairs(list[tuple[str, Any]]):
    """An object whose keys may repeat."""


def deep(levels: int, opener: str = "[", closer: str = "]") -> Text:
    return Text(opener * levels + closer * levels)


def dump(value: Any) -> str:
    """As JSON, in one line."""
    if isinstance(value, Text):
        return value
    if isinstance(value, Pairs | dict):
        pairs = value if isinstance(value, Pairs) else value.items()
        return "{" + ",".join(f"{json.dumps(key)}:{dump(one)}" for key, one in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(dump, value)) + "]"
    return json.dumps(value)


ODD_TEXTS = (
    "", " ", "\x00", "\u2028", "\u202e", "\x1b[31m", "a\nb", "\r\n", "\ud800", "\udfff\ud800", "\ufeff", "😀",
    "é" * 300, "x" * 20_000, "__proto__", "a__b", "../../x", "%s%n{0}", "2.0", "null", str(ID), "*", "[", "!",
    "@readOnly", "${HOME}",
)  # fmt: skip
ODD_NUMBERS: tuple[Any, ...] = (
    0, -0.0, -1, 1, 1.5, 1e300, 2**31, 2**53, 2**63, 2**64, -(2**63) - 1, ID, ID + 1, Text("1e999"), Text("-1E+400"),
    Text("1" + "0" * 400), Text("9" * 5000), Text("0." + "3" * 5000), Text(f"{ID}.0"), Text(f"{ID}e0"),
)  # fmt: skip
ODD_SHAPES: tuple[Any, ...] = (
    None, True, False, [], {}, [[]], [None], {"": None}, {"id": ID}, {"jsonrpc": "2.0"}, Pairs([("a", 1), ("a", 2)]),
    deep(70), deep(1100), deep(120_000), deep(70, '{"a":', "}"), Text('{"a":' * 70 + "1" + "}" * 70),
    Text('{"a":' * 1100 + "1" + "}" * 1100), Text("[" * 100_000), {"$ref": "#"}, {"$ref": "http://127.0.0.1:9/x"},
)  # fmt: skip
BROKEN = tuple(
    Text(text)
    for text in (
        "NaN", "Infinity", "-", "01", "+1", ".5", "1.", "1e", "tru", "'a'", '"', "{", "}", "", "{,}", "[1,]", '"\t"',
        '"\\x"', '"\\u12"', "undefined", "//", "\x00",
    )
)  # fmt: skip

ODD_BYTES = (b"\n", b"\r\n", b"\r", b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\\", b'"', b"\xef\xbb\xbf")

leaves = (
    st.sampled_from(ODD_TEXTS)
    | st.sampled_from(ODD_NUMBERS)
    | st.sampled_from(ODD_SHAPES)
    | st.text(max_size=6)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
anything = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6) | st.sampled_from(ODD_TEXTS), inner, max_size=3)
        | st.lists(st.tuples(st.sampled_from(["a", "name", "id"]), inner), max_size=3).map(Pairs)
    ),
    max_leaves=5,
)


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Where something stands in a value, itself included."""
    yield path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from paths(one, (*path, key))
    elif isinstance(value, list):
        for index, one in enumerate(value):
            yield from paths(one, (*path, index))


def changed(value: Any, path: Path, change: str, new: Any) -> Any:
    """`value` with something else at `path`: put there, left out, doubled, wrapped, or under another name."""
    if not path:
        return new if change != "wrap" else [value]
    step, rest = path[0], path[1:]
    if not isinstance(value, dict | list):
        return new
    if rest or change in ("put", "wrap"):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        inner = {key: changed(one, rest, change, new) if key == step else one for key, one in pairs}
        return inner if isinstance(value, dict) else list(inner.values())
    return _item_changed(value, step, change) if isinstance(value, list) else _member_changed(value, step, change, new)


def _member_changed(value: dict[str, Any], step: str | int, change: str, new: Any) -> Any:
    if change == "drop":
        return {key: one for key, one in value.items() if key != step}
    if change == "rename":
        return {(new if isinstance(new, str) else "x") if key == step else key: one for key, one in value.items()}
    return Pairs([*value.items(), (str(step), new)])


def _item_changed(value: list[Any], step: str | int, change: str) -> list[Any]:
    if change == "drop":
        return [one for index, one in enumerate(value) if index != step]
    return [*value, value[int(step)]]


@st.composite
def spoiled(draw: st.DrawFn, good: Any, least: int = 1, most: int = 3) -> Any:
    """A good value, changed in some places."""
    value = good
    for _ in range(draw(st.integers(least, most))):
        path = draw(st.sampled_from(list(paths(value))))
        change = draw(st.sampled_from(["put", "put", "put", "drop", "double", "rename", "wrap"]))
        value = changed(value, path, change, draw(anything))
    return value


@st.composite
def scratched(draw: st.DrawFn, good: bytes) -> bytes:
    """Good bytes with some of them changed, cut out, doubled or put in."""
    line = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(len(line) - 1, 0)))
        match draw(st.sampled_from(["set", "cut", "double", "end", "insert"])):
            case "set" if line:
                line[at] = draw(st.integers(0, 255))
            case "cut":
                del line[at : at + draw(st.integers(1, 12))]
            case "double":
                line[at:at] = line[at : at + draw(st.integers(1, 30))]
            case "end":
                del line[at:]
            case _:
                line[at:at] = draw(st.sampled_from(ODD_BYTES) | st.binary(max_size=4))
    return bytes(line)


def lines_of(messages: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """A line like one of these messages, more or less; with its line break, if it has one."""
    good = [dump(message).encode() for message in messages]
    line = (
        st.sampled_from(good)
        | st.sampled_from(good).flatmap(scratched)
        | st.sampled_from(list(messages)).flatmap(spoiled).map(encoded)
        | st.sampled_from(list(messages)).flatmap(broken).map(encoded)
        | anything.map(encoded)
        | st.binary(max_size=40)
    )
    return st.tuples(line, st.sampled_from([b"\n", b"\n", b"\n", b"\n", b"\r\n", b"", b"\n\n", b" \n"])).map(b"".join)


@st.composite
def broken(draw: st.DrawFn, good: Any) -> Any:
    """A good value with a piece that is no JSON."""
    path = draw(st.sampled_from(list(paths(good))))
    return changed(good, path, "put", draw(st.sampled_from(BROKEN)))


def encoded(value: Any) -> bytes:
    return dump(value).encode()


cuts = st.lists(st.integers(0, 5000), max_size=5)
