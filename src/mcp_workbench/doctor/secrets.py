"""Secrets that somebody wrote into a file, and that file without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from mcp_workbench.config.keys import URL_KEYS
from mcp_workbench.config.raw_entries import Text, WrittenServer, strings
from mcp_workbench.config.secret_patterns import secret_parts

_DEFAULT: Final = r"\$\{([A-Za-z_][A-Za-z0-9_]{0,200}):-([^}$]{1,2000})\}"
HIDDEN: Final = "***"
_INERT: Final = r"[A-Za-z0-9+/_=.~-]+"
"""What no shell, interpreter or address takes for anything but a word."""


def written_secrets(server: WrittenServer) -> Iterator[tuple[Text, tuple[str, ...]]]:
    """The strings of a server's entry that hold a secret, and what of each is secret."""
    previous = ""
    for text in strings(server.place):
        name = previous if text.name == "args" and previous.startswith("-") else text.name
        found = secret_parts(name, text.literal, is_address=text.name in URL_KEYS)
        for variable, default in re.findall(_DEFAULT, text.written):
            found += tuple(part for part in secret_parts(variable, default) if part not in found)
        if found:
            yield text, found
        previous = text.written if text.name == "args" and "=" not in text.written else ""


def hidden(text: str, parts: Iterable[str]) -> str:
    """A text without these parts of it; one that could be more than a secret, such as a program, is left there."""
    for part in parts:
        text = text.replace(part, HIDDEN) if re.fullmatch(_INERT, part) else text
    return text
