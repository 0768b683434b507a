"""URL elicitation of a handshake server, for a modern client.

A handshake server refuses a request with -32042 until a person has visited certain pages. The modern era has no such
error: the client is asked to open the pages with `input_required`, and the request is sent again. The server may notify
us that a visit is complete. The modern era has no such notification, so it is not passed on; it only triggers a retry.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw

from mcp_workbench.errors import InputUnavailable, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.servers.questions import Questions
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.caller import ELICIT, is_page
from mcp_workbench.wire.deadlines import call_too_long
from mcp_workbench.wire.exchange import Exchange


class Page(NamedTuple):
    """A page that a person has to visit."""

    id: str
    """The `elicitationId`."""
    url: str
    params: Mapping[str, Raw]
    """The raw params of the question."""


class _Refusal(msgspec.Struct):
    elicitations: list[Raw]


def pages_in(refusal: ServerRefused, limits: Limits) -> tuple[Page, ...]:
    """The pages that a refusal names; empty for any other refusal, or if it violates the protocol."""
    if refusal.rpc_code != jsonrpc.URL_ELICITATION_REQUIRED:
        return ()
    try:
        elicitations = msgspec.json.decode(refusal.data, type=_Refusal).elicitations
    except (msgspec.DecodeError, RecursionError):
        return ()
    pages = [_page(jsonrpc.members(raw)) for raw in elicitations[: limits.questions + 1]]
    return tuple(page for page in pages if page) if all(pages) and len(pages) <= limits.questions else ()


def _page(params: dict[str, Raw]) -> Page | None:
    url = jsonrpc.text_or_none(params.get("url"))
    if url is None or not is_page(ELICIT, params):
        return None
    return Page(jsonrpc.text_or_none(params.get("elicitationId")) or "", url, params)


class Pages:
    """The pages that modern clients of one connection are asked to open."""

    def __init__(self, questions: Questions, limits: Limits) -> None:
        self._questions = questions
        self._limits = limits
        self._visits: set[_Visit] = set()

    def completed(self, params: Mapping[str, Raw]) -> None:
        """Handle the server's notification that a visit is complete."""
        if (id_ := jsonrpc.text_or_none(params.get("elicitationId"))) is not None:
            for visit in self._visits:
                visit.completed(id_)

    def pages_to_open(self, refusal: ServerRefused, exchange: Exchange) -> tuple[Page, ...]:
        """The pages to ask the client of a refused call to open; empty if it can't be asked."""
        if not (exchange.caller.modern and exchange.may_ask):
            return ()
        pages = pages_in(refusal, self._limits)
        return pages if all(exchange.caller.allows(ELICIT, page.params) for page in pages) else ()

    async def visit(
        self, pages: tuple[Page, ...], exchange: Exchange, send: Callable[[], Awaitable[Raw]], *, began: float
    ) -> Raw:
        """Have the client open the pages and return the result; `send` repeats the request.

        The call's hard timeout counts from `began`. Raises `InputUnavailable` or `CallTimeout`.
        """
        try:
            async with asyncio.timeout_at(began + self._limits.call_hard_timeout_seconds):
                for _ in range(self._limits.question_rounds):
                    outcome = await self._round(pages, exchange, send)
                    if isinstance(outcome, Raw):
                        return outcome
                    pages = outcome
        except TimeoutError:
            raise call_too_long(self._limits.call_hard_timeout_seconds) from None
        raise InputUnavailable(
            f"it asked {self._limits.question_rounds} times to open a page and still refuses the call",
            hint="Complete the steps on the page, then call again.",
        )

    async def _round(
        self, pages: tuple[Page, ...], exchange: Exchange, send: Callable[[], Awaitable[Raw]]
    ) -> Raw | tuple[Page, ...]:
        """Ask once and retry: the result, or the pages to ask about next.

        A client accepts when the person agrees to open the page, long before they finish there. So if the server still
        wants the same pages, wait for its notification and retry once more.
        """
        visit = _Visit(pages)
        self._visits.add(visit)
        try:
            await self._ask_client(pages, exchange)
            outcome = await self._retry(exchange, send)
            if isinstance(outcome, Raw) or not visit.is_for(outcome):
                return outcome
            await self._questions.wait(exchange, visit.wait(self._limits.visit_seconds))
            return await self._retry(exchange, send)
        finally:
            self._visits.discard(visit)

    async def _ask_client(self, pages: Collection[Page], exchange: Exchange) -> None:
        """Ask the client to open the pages. Raises `InputUnavailable` if it declines."""
        answers = asyncio.gather(*(exchange.pose(ELICIT, page.params) for page in pages))
        for answer in await self._questions.wait(exchange, answers):
            if jsonrpc.text_or_none(jsonrpc.members(answer).get("action")) != "accept":
                raise InputUnavailable("its client did not open the page that the server requires")

    async def _retry(self, exchange: Exchange, send: Callable[[], Awaitable[Raw]]) -> Raw | tuple[Page, ...]:
        """The result, or the pages that the server requires first. Raises any other `Fault`."""
        try:
            return await send()
        except ServerRefused as refusal:
            if not (pages := self.pages_to_open(refusal, exchange)):
                raise
            return pages


class _Visit:
    """A client's visit to pages that it was asked to open."""

    def __init__(self, pages: Collection[Page]) -> None:
        self._urls = {page.url for page in pages}
        self._open = {page.url: {page.id} for page in pages}
        """The pages that are not complete yet, by URL, with their ids."""
        self._complete = asyncio.Event()

    def is_for(self, pages: Collection[Page]) -> bool:
        """Whether these are the same pages. Some servers give them a new id each time."""
        for page in pages:
            self._open.get(page.url, set()).add(page.id)
        return {page.url for page in pages} <= self._urls

    def completed(self, id_: str) -> None:
        self._open = {url: ids for url, ids in self._open.items() if id_ not in ids}
        if not self._open:
            self._complete.set()

    async def wait(self, seconds: float) -> None:
        """Wait until the server has reported all pages as complete, but at most for `seconds`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._complete.wait(), seconds)
