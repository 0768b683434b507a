"""`input_required` results of a modern server: it answers a request with questions, and expects a retry with answers.

A modern client gets the result unchanged. A handshake client gets the questions as requests, and the workbench repeats
the call with the answers, for a bounded number of rounds. In the handshake era URL elicitation has an `elicitationId`
and a notification when the visit is complete: this module adds both.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from typing import Any

import msgspec
from msgspec import Raw

from mcp_workbench import logger
from mcp_workbench.errors import InputUnavailable, ProtocolViolation, ServerRefused
from mcp_workbench.limits import Limits
from mcp_workbench.wire import eras, jsonrpc
from mcp_workbench.wire.caller import is_page
from mcp_workbench.wire.deadlines import call_too_long
from mcp_workbench.wire.exchange import Exchange
from mcp_workbench.wire.jsonrpc import EMPTY_OBJECT, NOTHING, Params

ELICITATION_ID_BYTES = 24
"""The random bytes of an `elicitationId`, which must be unguessable."""


class _Question(msgspec.Struct):
    method: str
    params: Raw = EMPTY_OBJECT


class _InputRequired(msgspec.Struct, rename="camel"):
    """A result that asks for input first."""

    input_requests: dict[str, _Question] = {}
    request_state: Raw = NOTHING


def is_question(result: Raw) -> bool:
    """Whether a modern server's result asks for input."""
    return jsonrpc.text_or_none(jsonrpc.members(result).get("resultType")) == eras.INPUT_REQUIRED


async def answer_questions(
    result: Raw,
    params: Params,
    exchange: Exchange,
    send: Callable[[Params], Awaitable[Raw]],
    limits: Limits,
    *,
    began: float,
) -> Raw:
    """The result for the client: the question itself for a modern one, else the result after its client answered.

    `send` repeats the request. The call's hard timeout counts from `began`.
    """
    try:
        async with asyncio.timeout_at(began + limits.call_hard_timeout_seconds):
            return await _rounds(result, params, exchange, send, limits)
    except TimeoutError:
        raise call_too_long(limits.call_hard_timeout_seconds) from None


async def _rounds(
    result: Raw, params: Params, exchange: Exchange, send: Callable[[Params], Awaitable[Raw]], limits: Limits
) -> Raw:
    pages = _Pages(exchange)
    for _ in range(limits.question_rounds):
        asked = _read(result, exchange, limits)
        if exchange.caller.modern:
            return result
        questions = asked.input_requests
        pages.complete(but={_url(question) for question in questions.values()})
        answers = {key: await _ask_client(exchange, question, limits, pages) for key, question in questions.items()}
        retry: dict[str, Any] = {**params, "inputResponses": answers}
        retry.pop("requestState", None)
        if jsonrpc.is_present(asked.request_state):
            retry["requestState"] = asked.request_state
        result = await send(retry)
        if not is_question(result):
            pages.complete()
            return result
    raise InputUnavailable(
        f"it asked {limits.question_rounds} times and still wants to know more",
        hint="The server never stops asking: calling it again does not help.",
    )


def _read(result: Raw, exchange: Exchange, limits: Limits) -> _InputRequired:
    """Decode the questions. Raises `InputUnavailable` if the client did not declare support for one of them."""
    if not exchange.may_ask:
        raise ProtocolViolation("it asks for input where the protocol has no questions")
    try:
        asked = msgspec.json.decode(result, type=_InputRequired)
    except (msgspec.DecodeError, RecursionError):
        raise ProtocolViolation("it asks for input in a form that can't be read") from None
    if len(asked.input_requests) > limits.questions:
        raise ProtocolViolation(f"it asks more than {limits.questions} questions at once")
    for question in asked.input_requests.values():
        params = jsonrpc.members(question.params)
        if not exchange.caller.allows(question.method, params):
            what = logger.foreign(question.method) + (" in URL mode" if is_page(question.method, params) else "")
            raise InputUnavailable(f"it asks {what}, which its client did not declare")
    return asked


async def _ask_client(exchange: Exchange, question: _Question, limits: Limits, pages: _Pages) -> Raw:
    """Ask a handshake client."""
    params = pages.named(question)
    try:
        async with asyncio.timeout(limits.question_seconds):
            answer = await exchange.ask(question.method, params)
    except TimeoutError:
        raise InputUnavailable(f"its client did not answer {question.method} in time") from None
    except ServerRefused as refusal:
        reason = f"{logger.foreign(str(refusal))} (code {refusal.rpc_code})"
        raise InputUnavailable(f"its client refused {question.method}: {reason}") from None
    pages.answered(question, answer)
    return answer


class _Pages:
    """The pages that a handshake client was asked to open in one call, by URL, with their `elicitationId`."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._ids: dict[str, str] = {}

    def named(self, question: _Question) -> dict[str, Any]:
        """The params of a question. A page gets an `elicitationId`, the same one if the server asks again."""
        params: dict[str, Any] = jsonrpc.members(question.params)
        if (url := _url(question)) is not None:
            own = jsonrpc.text_or_none(params.get("elicitationId"))
            id_ = self._ids.setdefault(url, own or os.urandom(ELICITATION_ID_BYTES).hex())
            params["elicitationId"] = id_
        return params

    def answered(self, question: _Question, answer: Raw) -> None:
        """Forget a page that the client did not accept."""
        action = jsonrpc.text_or_none(jsonrpc.members(answer).get("action"))
        if (url := _url(question)) is not None and action != "accept":
            self._ids.pop(url, None)

    def complete(self, but: Collection[str | None] = ()) -> None:
        """Notify that visits are complete, since the server continued; not for pages that it asks about again."""
        for url in self._ids.keys() - but:
            self._exchange.notify(eras.ELICITED, {"elicitationId": self._ids.pop(url)})


def _url(question: _Question) -> str | None:
    """The URL of the page that a question asks to open."""
    params = jsonrpc.members(question.params)
    return jsonrpc.text_or_none(params.get("url")) if is_page(question.method, params) else None
