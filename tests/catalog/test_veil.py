"""A list without the secrets of its server, from which the same configuration, and no other, makes the list again."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.cache.server_cache import SecretMask

KEY = b"k" * 32
SECRET = "sk-4711-Ahoy"  # noqa: S105 -- a test's
LONGER = "another-secret-that-is-longer"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SECRETS = st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=20), max_size=4)

Items = tuple[Raw, ...]


def items_of(*items: object) -> Items:
    return tuple(Raw(msgspec.json.encode(item)) for item in items)


def tool(description: str) -> dict[str, str]:
    return {"name": "t", "description": description}


def drawn(items: Items, *secrets: str, key: bytes = KEY) -> Items | None:
    return SecretMask(key, secrets).mask(items)


def lifted(items: Items | None, *secrets: str, key: bytes = KEY) -> Items | None:
    assert items is not None
    return SecretMask(key, secrets).restore(items)


def written(items: Sequence[Raw] | None) -> bytes:
    assert items is not None
    return b"\n".join(bytes(item) for item in items)


def test_a_secret_is_not_written_and_comes_back():
    items = items_of(tool(f"uses {SECRET}, {SECRET}"), tool("none"), {"name": SECRET, SECRET: [SECRET]})
    hidden = drawn(items, SECRET)
    assert SECRET.encode() not in written(hidden)
    assert hidden is not None
    assert len(hidden) == 3
    assert lifted(hidden, SECRET) == items


def test_a_list_without_secrets_is_written_as_it_is():
    items = items_of(tool("nothing"), {"name": "u"})
    assert drawn(items, SECRET) == lifted(items, SECRET) == items


@pytest.mark.parametrize("items", [(), items_of({}), (Raw(b""),), (Raw(b""), Raw(b"{}"))])
def test_lists_of_nothing_stay_what_they_are(items: Items):
    assert drawn(items, SECRET) == lifted(items, SECRET) == items


def test_a_secret_within_another_is_hidden_where_it_stands_alone_and_inside():
    long, short = f"{SECRET}-xyzzy", SECRET
    items = items_of(tool(f"{long} {short} {short}-and"))
    for order in ([long, short], [short, long]):
        hidden = drawn(items, *order)
        assert SECRET.encode() not in written(hidden)
        assert b"xyzzy" not in written(hidden)
        assert lifted(hidden, *order[::-1]) == items


def test_what_is_too_short_to_be_a_secret_is_left_alone():
    items = items_of(tool("true and 1"))
    assert drawn(items, "true", "1", "and") == items


@pytest.mark.parametrize("secret", ['a"b"c"d"', "back\\slash\\es", "line\nbreak", "ümläut-日本", "tab\tand\x1besc"])
def test_a_secret_that_json_writes_in_another_way_is_found_as_json_writes_it(secret: str):
    items = items_of(tool(f"uses {secret}."))
    hidden = drawn(items, secret)
    assert json.dumps(secret, ensure_ascii=False)[1:-1].encode() not in written(hidden)
    assert lifted(hidden, secret) == items


@pytest.mark.parametrize(
    "form",
    [
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"user:{SECRET}".encode()).decode(),
        quote(SECRET.replace("-", "/"), safe="").replace("%2F", "%2D"),
        SECRET.replace("s", "\\u0073"),
    ],
    ids=["base64", "base64 within", "percent", "escaped"],
)
def test_a_secret_in_another_form_makes_a_list_that_cannot_be_kept(form: str):
    assert drawn(items_of(tool(f"uses {form}")), SECRET) is None


def test_a_secret_that_is_escaped_as_some_servers_do_makes_a_list_that_cannot_be_kept():
    secret = "größte-日本"  # noqa: S105 -- a test's
    item = Raw(json.dumps(tool(secret)).encode())
    assert b"\\u" in bytes(item)
    assert drawn((item,), secret) is None


@pytest.mark.parametrize("mark", [b"\x01", b"\x02", b"\x03"])
def test_a_list_that_could_be_taken_for_a_veiled_one_is_not_kept(mark: bytes):
    """No server sends such bytes in JSON; whoever does may not choose what stands for them later."""
    assert drawn((Raw(b'{"a":"' + mark + b'0"}'),), SECRET) is None


def test_a_secret_that_is_no_text_prevents_nothing():
    """A variable of the environment need not be UTF-8."""
    secret = "k\udce4\udcff\udcc3-abcdefgh"  # noqa: S105 -- a test's
    items = items_of(tool(f"plain, and {SECRET}"))
    hidden = drawn(items, secret, SECRET)
    assert SECRET.encode() not in written(hidden)
    assert lifted(hidden, secret, SECRET) == items


@pytest.mark.parametrize(
    ("before", "after"),
    [([SECRET], [SECRET, LONGER]), ([SECRET, LONGER], [SECRET])],
    ids=["more", "fewer"],
)
def test_other_secrets_of_the_same_entry_change_nothing(before: list[str], after: list[str]):
    """`${TOKEN}` in the place of the same text is one more secret, and the same server."""
    items = items_of(tool(f"uses {SECRET}"))
    assert lifted(drawn(items, *before), *after) == items


@pytest.mark.parametrize("after", [[], [LONGER], ["sk-0815-Ahoy"]])
def test_a_list_whose_secret_is_not_there_any_more_is_not_shown(after: list[str]):
    assert lifted(drawn(items_of(tool("a"), tool(f"uses {SECRET}")), SECRET), *after) is None


def test_without_the_key_of_the_store_a_mark_says_nothing():
    items = items_of(tool(f"uses {SECRET}"))
    assert written(drawn(items, SECRET)) != written(drawn(items, SECRET, key=b"x" * 32))
    assert lifted(drawn(items, SECRET), SECRET, key=b"x" * 32) is None


@given(st.lists(st.dictionaries(TEXT, TEXT, max_size=3), max_size=4), SECRETS)
def test_whatever_is_listed_comes_back_or_is_not_kept(listed: list[dict[str, str]], secrets: set[str]):
    items = items_of(*listed)
    hidden = drawn(items, *secrets)
    if hidden is not None:
        assert lifted(hidden, *secrets) == items


@given(SECRETS.filter(bool), st.data())
def test_no_secret_of_the_configuration_is_written(secrets: set[str], data: st.DataObject):
    chosen = data.draw(st.lists(st.sampled_from(sorted(secrets)) | TEXT, max_size=5))
    items = items_of(tool("".join(chosen)))
    hidden = drawn(items, *secrets)
    if hidden is not None:
        text = re.sub(rb"\x01[0-9a-f]+\x02", b"\x00", written(hidden))
        assert not [secret for secret in secrets if msgspec.json.encode(secret)[1:-1] in text]
        assert lifted(hidden, *secrets) == items
