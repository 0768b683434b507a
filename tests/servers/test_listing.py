"""All tools of a server, page by page, and never without end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.errors import (
    CallTimeout,
    Fault,
    ListTimeout,
    ListTooLarge,
    ProtocolViolation,
    ServerExited,
    ServerRefused,
)
from mcp_workbench.limits import Limits
from mcp_workbench.servers.listing import list_items
from mcp_workbench.wire.caller import Caller

LIMITS = Limits(list_pages=10, list_tools=50, list_bytes=100_000)


class Pages:
    """A server that answers `tools/list` by a function of the cursor."""

    def __init__(self, page: Callable[[str | None], Any]) -> None:
        self._page = page
        self.cursors: list[str | None] = []
        self.seconds: list[float] = []

    async def request(
        self,
        method: str,
        params: Any,
        *,
        caller: Caller | None = None,
        hard_seconds: float = 0,
        lenient: bool = False,
    ) -> Raw:
        assert (method, caller, lenient) == ("tools/list", None, True)
        cursor = params.get("cursor")
        self.cursors.append(cursor)
        self.seconds.append(hard_seconds)
        answer = self._page(cursor)
        if isinstance(answer, Exception):
            raise answer
        return Raw(answer if isinstance(answer, bytes) else json.dumps(answer).encode())


def tool(name: object) -> dict[str, Any]:
    return {"name": str(name)}


async def names_of(server: Pages, limits: Limits = LIMITS) -> list[str]:
    return [json.loads(bytes(raw))["name"] for raw in (await list_items(server, "tools/list", "tools", limits)).items]


async def fault_of(server: Pages, limits: Limits = LIMITS) -> Fault:
    with pytest.raises(Fault) as caught:
        await asyncio.wait_for(list_items(server, "tools/list", "tools", limits), 5)
    return caught.value


async def test_all_pages_are_listed_in_order():
    def page(cursor: str | None) -> Any:
        first = int(cursor or 0)
        more = {"nextCursor": str(first + 5)} if first < 40 else {}
        return {"tools": [tool(number) for number in range(first, first + 5)], **more}

    server = Pages(page)
    assert await names_of(server) == [str(number) for number in range(45)]
    assert server.cursors == [None, *(str(number) for number in range(5, 45, 5))]


async def test_definitions_are_the_bytes_that_were_sent():
    server = Pages(lambda _: b'{"tools":[{"name": "a", "n":1.00}],"x":1e400,"nextCursor":null}')
    assert [bytes(raw) for raw in (await list_items(server, "tools/list", "tools", LIMITS)).items] == [
        b'{"name": "a", "n":1.00}'
    ]


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [
        ([b"1500"], 1.5),
        ([b"60000", b"1000", b"5000"], 1.0),
        ([None, b"2000"], 2.0),
        ([None], None),
        ([b"0", b"1000"], 0.0),
        ([b"-5"], 0.0),
        ([b"2.5"], 0.0025),
        ([b"null"], None),
        ([b'"60000"'], None),
        ([b"true"], None),
        ([b"{}", b"3000"], 3.0),
    ],
)
async def test_the_shortest_time_to_live_of_the_pages_counts(stated: list[bytes | None], seconds: float | None):
    def page(cursor: str | None) -> bytes:
        number = int(cursor or 0)
        more = b',"nextCursor":"%d"' % (number + 1) if number + 1 < len(stated) else b""
        ttl = stated[number]
        return b'{"tools":[]%b%b}' % (more, b"" if ttl is None else b',"ttlMs":%b' % ttl)

    assert (await list_items(Pages(page), "tools/list", "tools", LIMITS)).ttl_seconds == seconds


async def test_the_empty_string_is_a_cursor_like_any_other():
    server = Pages(lambda cursor: {"tools": [tool(2)]} if cursor == "" else {"tools": [tool(1)], "nextCursor": ""})
    assert await names_of(server) == ["1", "2"]
    assert server.cursors == [None, ""]


@pytest.mark.parametrize(
    ("next_cursor", "requests"),
    [
        (lambda _: "again", 2),
        (lambda cursor: "tock" if cursor == "tick" else "tick", 3),
        (lambda _: "", 2),
        (lambda cursor: (cursor or "") + "x", LIMITS.list_pages),
    ],
    ids=["same", "alternating", "empty", "new"],
)
async def test_an_endless_list_is_an_error_as_soon_as_it_repeats_itself_or_at_the_cap(
    next_cursor: Callable[[str | None], str], requests: int
):
    server = Pages(lambda cursor: {"tools": [tool(cursor)], "nextCursor": next_cursor(cursor)})
    assert isinstance(await fault_of(server), ListTooLarge)
    assert len(server.cursors) == requests


async def test_exactly_as_many_pages_as_allowed_are_no_error():
    server = Pages(lambda cursor: {"tools": [], **({"nextCursor": str(n)} if (n := int(cursor or 0) + 1) < 10 else {})})
    assert await names_of(server) == []
    assert len(server.cursors) == 10


async def test_too_many_tools_are_an_error_and_as_many_as_allowed_are_not():
    assert len(await names_of(Pages(lambda _: {"tools": [tool(number) for number in range(50)]}))) == 50
    assert isinstance(await fault_of(Pages(lambda _: {"tools": [tool(number) for number in range(51)]})), ListTooLarge)


async def test_too_many_bytes_are_an_error():
    server = Pages(lambda cursor: {"tools": [{"name": "x" * 20_000}], "nextCursor": (cursor or "") + "x"})
    assert isinstance(await fault_of(server), ListTooLarge)
    assert len(server.cursors) == 5


@pytest.mark.parametrize(
    "page",
    [
        [],
        None,
        "x",
        5,
        {},
        {"tools": None},
        {"tools": {}},
        {"tools": "x"},
        {"tools": [], "nextCursor": 5},
        b'{"tools":' + b"[" * 9000,
    ],
)
async def test_what_is_no_list_is_a_violation(page: Any):
    assert isinstance(await fault_of(Pages(lambda _: page)), ProtocolViolation)


async def test_a_server_without_the_method_has_no_tools():
    assert await names_of(Pages(lambda _: ServerRefused("Method not found", rpc_code=-32601))) == []


async def test_another_refusal_is_a_fault_and_the_end_of_the_connection_too():
    assert isinstance(await fault_of(Pages(lambda _: ServerRefused("no", rpc_code=-32000))), ServerRefused)
    assert isinstance(await fault_of(Pages(lambda _: ServerExited("gone"))), ServerExited)


async def test_a_page_has_its_time_and_all_pages_theirs():
    limits = Limits(list_page_timeout_seconds=15, list_total_timeout_seconds=60)
    server = Pages(lambda _: CallTimeout("no answer"))
    assert isinstance(await fault_of(server, limits), ListTimeout)
    assert server.seconds == [15]
    server = Pages(lambda cursor: {"tools": [], "nextCursor": (cursor or "") + "x"})
    spent = Limits(list_total_timeout_seconds=0)
    assert isinstance(await fault_of(server, spent), ListTimeout)
    assert server.cursors == []


async def test_the_last_page_gets_no_more_than_what_is_left_of_the_total():
    limits = Limits(list_page_timeout_seconds=15, list_total_timeout_seconds=10)
    server = Pages(lambda _: {"tools": []})
    await names_of(server, limits)
    assert server.seconds == [pytest.approx(10, abs=1)]
