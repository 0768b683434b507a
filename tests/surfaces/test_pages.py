"""Pages of our own lists: together they are the list, and there is no other way to one than its cursor."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.surfaces.base import ListedItem, page
from mcp_workbench.wire.fairness import Renderer
from mcp_workbench.wire.jsonrpc import RpcError

ITEMS = st.lists(st.text(max_size=40), max_size=30)


def one(items: list[str], limits: Limits = DEFAULTS, **params: Any) -> dict[str, Any]:
    listed = [ListedItem(Raw(json.dumps(item).encode())) for item in items]
    return paged(listed, limits, **params)


def paged(listed: list[ListedItem], limits: Limits = DEFAULTS, **params: Any) -> dict[str, Any]:
    given_params = {key: Raw(json.dumps(value).encode()) for key, value in params.items()}
    return json.loads(bytes(asyncio.run(page("things", listed, given_params, limits, Renderer()))))


def cursors(items: list[str], limits: Limits) -> list[str]:
    """Every cursor that is given out."""
    found: list[str] = []
    following = one(items, limits).get("nextCursor")
    while following is not None:
        found.append(following)
        following = one(items, limits, cursor=following).get("nextCursor")
    return found


@given(ITEMS, st.integers(1, 100))
def test_the_pages_put_together_are_the_list(items: list[str], most: int):
    limits = Limits(page_bytes=most)
    pages = [one(items, limits)["things"]]
    pages += [one(items, limits, cursor=cursor)["things"] for cursor in cursors(items, limits)]
    assert [item for some in pages for item in some] == items
    assert all(pages) or pages == [[]]


@given(ITEMS, st.integers(1, 100), st.text(max_size=4) | st.integers(-3, 40).map(str))
def test_any_other_cursor_is_refused(items: list[str], most: int, cursor: str):
    limits = Limits(page_bytes=most)
    if cursor in {"0", *cursors(items, limits)}:
        one(items, limits, cursor=cursor)
        return
    with pytest.raises(RpcError) as caught:
        one(items, limits, cursor=cursor)
    assert caught.value.code == -32602


@pytest.mark.parametrize("cursor", [5, 0, [], {}, True, "", "00", "+0", " 0"])
def test_a_cursor_that_is_no_string_or_written_otherwise_is_refused(cursor: Any):
    with pytest.raises(RpcError) as caught:
        one(["a", "b"], cursor=cursor)
    assert caught.value.code == -32602


@pytest.mark.parametrize("most", [1, 1000])
def test_after_the_last_item_there_is_no_page(most: int):
    with pytest.raises(RpcError):
        one(["a", "b"], Limits(page_bytes=most), cursor="2")


def test_a_list_of_usual_size_is_one_page_and_a_null_cursor_is_none():
    items = [f"item {number}" for number in range(1000)]
    assert one(items) == one(items, cursor=None) == {"things": items}


def test_no_page_is_much_larger_than_it_may_be_and_one_that_is_has_one_item_more():
    items = ["x" * 8] * 10  # ten bytes each
    limits = Limits(page_bytes=25)
    assert [len(one(items, limits, cursor=cursor)["things"]) for cursor in ("0", *cursors(items, limits))] == [
        3,
        3,
        3,
        1,
    ]


def test_an_item_that_is_larger_than_a_page_has_one_to_itself():
    items = ["x" * 100, "y" * 100]
    assert one(items, Limits(page_bytes=10)) == {"things": items[:1], "nextCursor": "1"}


def test_only_the_items_of_the_page_are_rendered():
    rendered: list[str] = []

    def render(name: str) -> Raw:
        rendered.append(name)
        return Raw(json.dumps(name.upper()).encode())

    listed = [ListedItem(Raw(json.dumps(name).encode()), partial(render, name)) for name in "abc"]
    assert paged(listed, Limits(page_bytes=1), cursor="1") == {"things": ["B"], "nextCursor": "2"}
    assert rendered == ["b"]
