"""A list without the secrets of its server's configuration, from which the list can be made again.

A server may repeat in a description what it was configured with: a project's name, or a token. On disk a mark
stands for it, which only the same configuration can turn back, and by which nobody without the key of the store
can try guesses. A list that holds a secret in any other form can't be kept.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec import Raw

from mcp_workbench.text.redact import SECRET_LENGTH, Redactor

MARK_BYTES = 8
"""Bytes of the mark that stands for a secret in a remembered list: a server has a few, so none has another's."""

_BEGIN, _END, _BETWEEN = b"\x01", b"\x02", b"\x03"
"""No JSON text has these bytes in it."""


class Veil:
    """Hides and shows the secrets of one server."""

    def __init__(self, key: bytes, secrets: Collection[str]) -> None:
        self._key = key
        self._secrets = [secret for secret in secrets if len(secret) >= SECRET_LENGTH]

    def drawn(self, items: Sequence[Raw]) -> tuple[Raw, ...] | None:
        """The list as it may be written to disk; None where a secret would be left in it."""
        text = _BETWEEN.join(bytes(item) for item in items)
        if text.count(_BETWEEN) != max(0, len(items) - 1) or _BEGIN in text or _END in text:
            return None
        for mark, secret in self._marks():
            text = text.replace(secret, mark)
        redactor = Redactor()
        redactor.hide(self._secrets)
        return None if redactor.finds(text) else _split(text, items)

    def lifted(self, items: Sequence[Raw]) -> tuple[Raw, ...] | None:
        """The list as it was; None where it holds a secret that is not there any more."""
        text = _BETWEEN.join(items)
        if _BEGIN not in text:
            return tuple(items)
        for mark, secret in self._marks():
            text = text.replace(mark, secret)
        return None if _BEGIN in text else _split(text, items)

    def _marks(self) -> Iterator[tuple[bytes, bytes]]:
        """Each secret as JSON writes it, and what stands for it; the longest first: one may be part of another."""
        for secret in sorted(self._secrets, key=lambda one: (-len(one), one)):
            try:
                written = msgspec.json.encode(secret)[1:-1]
            except UnicodeEncodeError:  # bytes of the environment that are no text are in no JSON either
                continue
            digest = hmac.digest(self._key, written, "sha256")[:MARK_BYTES]
            yield _BEGIN + digest.hex().encode() + _END, written


def _split(text: bytes, items: Sequence[Raw]) -> tuple[Raw, ...]:
    return tuple(Raw(part) for part in text.split(_BETWEEN)) if items else ()
