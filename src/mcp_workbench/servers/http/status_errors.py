"""Turns HTTP error statuses and connection errors into faults.

No message contains a body, header or address of the server, except the scheme of an authentication challenge.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2

from mcp_workbench.errors import Fault, NegotiationFailed, ServerRefused, ServerUnauthorized, ServerUnavailable
from mcp_workbench.wire import jsonrpc
from mcp_workbench.wire.jsonrpc import Id, Message

RETRY_AFTER_MOST_SECONDS = 3600.0
"""The longest `Retry-After` that is passed on: nobody plans further ahead, and a clock may be wrong."""

UNAUTHORIZED: Final = (401, 403)
TOO_MANY: Final = 429
BUSY: Final = (TOO_MANY, 503)
GONE: Final = 404
NO_SESSION: Final = (400, GONE)
SERVER_ERROR: Final = 500
OPENINGS: Final = ("initialize", "server/discover")
_SESSION_CODES: Final = (-32000, -32001, jsonrpc.INVALID_REQUEST)
"""JSON-RPC error codes that servers use for an unknown session."""
_CONNECTION_REFUSED: Final = "nothing answers at its address: the connection was refused"
_URL_HINT: Final = 'Check its url; for a server with the old transport set "transport": "sse".'


class ServerUnreachable(ServerUnavailable):
    """There was no connection, so the server never got the request."""


def expired() -> ServerUnavailable:
    """The fault for a session that the server no longer knows."""
    return ServerUnavailable(
        "its session has expired",
        kind="session_expired",
        status=GONE,
        counts=False,
        hint="The next call opens a new one.",
    )


def is_expired(fault: Fault) -> bool:
    return isinstance(fault, ServerUnavailable) and fault.kind == "session_expired"


def fault_for_status(response: httpx2.Response, method: str) -> Fault:
    """The fault for an error status whose body holds no JSON-RPC error."""
    status = response.status_code
    if status in UNAUTHORIZED:
        return ServerUnauthorized(status, challenge(response))
    if status in BUSY:
        return _busy(status, response.headers.get("retry-after"))
    if status >= SERVER_ERROR:
        return ServerUnavailable(
            f"it failed with HTTP {status}",
            kind="status",
            status=status,
            hint="Try again later. If it persists, the log of that server has the reason.",
        )
    if response.has_redirect_location:
        return ServerUnavailable(
            f"it redirects (HTTP {status}) to another address, which the workbench does not follow",
            kind="redirect",
            status=status,
            hint="If that is the right server, write its address in the url.",
        )
    if method in OPENINGS:
        return NegotiationFailed(f"the server at its address refuses MCP (HTTP {status})", hint=_URL_HINT)
    return ServerUnavailable(
        f"it refused the request with HTTP {status}", kind="status", status=status, counts=False, hint=_URL_HINT
    )


def _busy(status: int, said: str | None) -> ServerUnavailable:
    seconds = retry_after(said)
    when = f"; it asks for a pause of {seconds:.0f} s" if seconds is not None else ""
    what = "it gets too many requests" if status == TOO_MANY else "it can't answer just now"
    return ServerUnavailable(
        f"{what} (HTTP {status}){when}",
        kind="rate_limited" if status == TOO_MANY else "status",
        status=status,
        retry_after=seconds,
        counts=status != TOO_MANY,
        hint="Try again later, with fewer calls at once.",
    )


def retry_after(said: str | None) -> float | None:
    """The seconds in `Retry-After`, given as a number or a date; None if it is missing or invalid."""
    if said is None:
        return None
    if re.fullmatch(r"\s*\d{1,9}\s*", said):
        return min(float(said), RETRY_AFTER_MOST_SECONDS)
    try:
        moment = parsedate_to_datetime(said)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max(0.0, (moment - datetime.now(UTC)).total_seconds()), RETRY_AFTER_MOST_SECONDS)


def challenge(response: httpx2.Response) -> str:
    """The scheme of `WWW-Authenticate`; empty if there is none."""
    found = re.match(r"\s*([A-Za-z][A-Za-z0-9-]{0,31})(?:\s|,|$)", response.headers.get("www-authenticate", ""))
    return found[1] if found else ""


def error_in(body: bytes) -> Message | None:
    """The JSON-RPC error in a body, if there is one."""
    try:
        message = jsonrpc.read(body)
    except jsonrpc.Unreadable:
        return None
    return message if message.method is None and jsonrpc.is_present(message.error) else None


def fault_for_rpc_error(message: Message) -> ServerRefused:
    """The fault for a JSON-RPC error. Its id does not matter: the response to a POST is about that POST."""
    body = jsonrpc.error_body(message.error)
    return ServerRefused(body.message, rpc_code=body.code, data=bytes(body.data))


def says_no_session(message: Message | None, status: int, asked: Id | None) -> bool:
    """Whether the refusal of a request that named a session means that the session does not exist.

    The protocol wants a 404. Some servers send 400, and each server words the error differently.
    """
    if status not in NO_SESSION:
        return False
    if message is None:
        return status == GONE
    body = jsonrpc.error_body(message.error)
    if status == GONE:
        return message.id != asked or body.code in _SESSION_CODES
    return body.code in _SESSION_CODES and "session" in body.message.lower()


def fault_for_error(error: httpx2.HTTPError) -> Fault:
    """The fault for a connection error: `ServerUnreachable` if the server never got the request."""
    match error:
        case httpx2.ConnectTimeout() | httpx2.PoolTimeout():
            fault = _unreached("it did not accept a connection in time", "timeout")
        case httpx2.ConnectError():
            why = next((one for one in _causes(error) if isinstance(one, ssl.SSLError)), None)
            fault = _tls(why) if why else _unreached(_CONNECTION_REFUSED, "refused")
        case httpx2.TimeoutException():
            fault = _broken("the connection timed out", "timeout")
        case httpx2.RemoteProtocolError() if "complete" in str(error):
            fault = _broken("the connection ended in the middle of an answer", "truncated")
        case httpx2.RemoteProtocolError() if "disconnected" not in str(error):
            fault = _broken("the program at its address does not speak HTTP", "not_http")
        case httpx2.DecodingError():
            fault = _broken("its answer is not compressed as it says", "not_http")
        case _:
            fault = _broken("the connection broke off before the answer", "reset")
    return fault


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__


def _unreached(what: str, kind: str) -> Fault:
    hint = "Check that the server runs, and its url."
    return ServerUnreachable(what, kind=kind, hint=hint)


def _tls(why: ssl.SSLError) -> Fault:
    reason = why.verify_message if isinstance(why, ssl.SSLCertVerificationError) else (why.reason or "it ended")
    return ServerUnreachable(
        f"a TLS connection to it failed ({reason.replace('_', ' ').lower()})",
        kind="tls",
        hint="Check its certificate and its url; for an authority of your own set SSL_CERT_FILE.",
    )


def _broken(what: str, kind: str) -> Fault:
    return ServerUnavailable(what, kind=kind, hint="The server may have acted on the call: check before you repeat it.")


def not_mcp(kind: str) -> ServerUnavailable:
    """The fault for a successful response that is not MCP."""
    what = "a web page, perhaps a login" if kind == "text/html" else "something other than MCP"
    return ServerUnavailable(
        f"it answered with {what}", kind="not_mcp", hint="Check its url, and whether it wants credentials in headers."
    )
