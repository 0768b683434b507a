"""Prompts, resources and templates as they are kept: what they are, under what names them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.definition import take_items
from mcp_workbench.catalog.skills import take_skills
from mcp_workbench.limits import DEFAULTS, Limits

JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3))


def raw(value: Any) -> Raw:
    return Raw(json.dumps(value).encode())


def names(*listed: Any, member: str = "name", limits: Limits = DEFAULTS) -> list[str]:
    return [item.name for item in take_items([raw(one) for one in listed], member, limits).items]


def test_an_item_is_kept_whole_and_compact_with_its_own_digits():
    listed = Raw(b'{ "uri" : "a:b", "name": "b", "z": 1.50,\n "x": "\\u00e9 b" }')
    (item,) = take_items([listed], "uri", DEFAULTS).items
    assert (item.name, bytes(item.raw)) == ("a:b", b'{"uri":"a:b","name":"b","z":1.50,"x":"\\u00e9 b"}')


@pytest.mark.parametrize("member", ["name", "uri", "uriTemplate"])
def test_an_item_is_known_by_the_member_that_names_its_kind(member: str):
    listed = {"name": "n", "uri": "u", "uriTemplate": "t"}
    assert names(listed, member=member) == [listed[member]]


def test_the_first_one_of_a_name_is_the_one_that_has_it():
    taken = take_items([raw({"name": "a", "n": 1}), raw({"name": "b"}), raw({"name": "a", "n": 2})], "name", DEFAULTS)
    assert [json.loads(bytes(item.raw)) for item in taken.items] == [{"name": "a", "n": 1}, {"name": "b"}]


@pytest.mark.parametrize("broken", [{}, {"name": ""}, {"name": 5}, {"name": None}, {"uri": "x"}, [], "a", None, 5])
def test_what_has_no_name_is_left_out_and_the_rest_is_kept(broken: Any):
    assert names({"name": "a"}, broken, {"name": "b"}) == ["a", "b"]


def test_what_is_too_large_or_too_deep_is_left_out_and_the_rest_is_kept():
    deep: Any = []
    for _ in range(10):
        deep = [deep]
    limits = Limits(schema_bytes=100, schema_depth=5)
    assert names({"name": "a"}, {"name": "b", "x": "x" * 100}, {"name": "c", "x": deep}, limits=limits) == ["a"]


@given(st.lists(st.dictionaries(st.sampled_from(["name", "x"]), JSON, max_size=2) | JSON, max_size=6))
def test_whatever_is_listed_no_name_is_there_twice_and_each_is_one_that_was_listed(listed: list[Any]):
    found = names(*listed)
    expected = [one["name"] for one in listed if isinstance(one, dict) and isinstance(one.get("name"), str)]
    assert found == list(dict.fromkeys(name for name in expected if name))


def test_a_skill_knows_its_uris_and_files_that_have_none_are_passed_over():
    files = [{"uri": "skill://a/one.md"}, {"uri": 5}, None]
    skill = Raw(json.dumps({"uri": "skill://a/SKILL.md", "resources": files}).encode())
    (item,) = take_skills([skill], DEFAULTS)
    assert item.uris == ("skill://a/SKILL.md", "skill://a/one.md")
