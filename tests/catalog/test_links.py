"""Resources that results name: who named them, within bounds, whatever a server sends."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.linked_resources import Links
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits

A, B = ServerIdentifier("dev", "a"), ServerIdentifier("dev", "b")


def linking(*uris: str) -> Raw:
    """A tool's result that links to these."""
    return Raw(json.dumps({"content": [{"type": "resource_link", "uri": uri, "name": "n"} for uri in uris]}).encode())


def remembered(result: Any, **limits: Any) -> Links:
    links = Links(Limits(**limits))
    links.remember(A, result if isinstance(result, Raw) else Raw(json.dumps(result).encode()))
    return links


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "resource_link", "uri": "x:y"}]},
        {"content": [{"type": "text", "text": "t"}, {"type": "resource", "resource": {"uri": "x:y", "text": ""}}]},
        {"messages": [{"role": "user", "content": {"type": "resource", "resource": {"uri": "x:y"}}}]},
        {"messages": [{"role": "user", "content": [{"type": "resource_link", "uri": "x:y"}]}]},
    ],
)
def test_what_a_result_names_is_known_with_its_server(result: Any):
    assert remembered(result).find("x:y") == {A}
    assert remembered(result).find("x:z") == frozenset()


@pytest.mark.parametrize(
    "result",
    [
        {"content": "x:y", "uri": "x:y"},
        {"content": [{"uri": 5}, {"uri": "x:y"}]},
        {"structuredContent": {"uri": "x:y"}},
        {"contents": [{"uri": "x:y", "text": ""}]},  # of a read: whoever read it knew where
        {"content": [{"type": "text", "text": '{"uri":"x:y"}'}]},
        [{"uri": "x:y"}],
    ],
)
def test_a_result_in_another_form_names_nothing(result: Any):
    assert remembered(result).find("x:y") == frozenset()


def test_who_names_what_another_named_does_not_take_its_place():
    links = remembered(linking("x:y"))
    links.remember(B, linking("x:y"))
    assert links.find("x:y") == {A, B}


def test_what_was_named_longest_ago_is_forgotten_first():
    links = remembered(linking("x:1", "x:2", "x:3"), known_uris=3)
    links.remember(A, linking("x:1"))
    links.remember(A, linking("x:4"))
    assert [bool(links.find(f"x:{number}")) for number in range(1, 5)] == [True, False, True, True]


def test_an_uri_that_is_too_long_or_empty_is_not_remembered():
    links = remembered(linking("x:12345", "", "x:1"), uri_length=5)
    assert [bool(links.find(uri)) for uri in ("x:12345", "", "x:1")] == [False, False, True]


def test_a_result_of_too_many_objects_is_not_read():
    assert remembered(linking(*map(str, range(9))), link_objects=10).find("8") == {A}
    assert remembered(linking(*map(str, range(10))), link_objects=10).find("8") == frozenset()


def test_a_result_that_is_nested_too_deep_names_nothing():
    assert remembered(Raw(b'{"uri":' + b"[" * 100_000 + b"]" * 100_000 + b"}")).find("") == frozenset()


def test_very_many_links_in_one_result_take_linear_time():
    result = linking(*(f"x:{number}" for number in range(150_000)))
    since = time.process_time()
    links = remembered(result, link_objects=1_000_000, known_uris=10)
    assert time.process_time() - since < 3  # 0.2 s; looking for the oldest one each time it was 10
    assert links.find("x:149999") == {A}
    assert sum(bool(links.find(f"x:{number}")) for number in range(150_000)) == 10
