"""Whether what somebody wrote into a file is a secret, as far as its name and its looks tell."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from mcp_workbench.checkup.looks import KNOWN, names_secret
from mcp_workbench.config.keys import URL_KEYS
from mcp_workbench.config.written import Text, WrittenServer, strings
from mcp_workbench.limits import DEFAULTS

_CREDENTIALS: Final = r"(?i)^\s*(?:bearer|basic|token|apikey)\s+(\S+)"
_USERINFO: Final = r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^/?#\s:@]{0,300}:([^/?#\s@]{1,300})@"
_QUERY: Final = r"[?&]([^=?&#\s]{1,100})=([^&#\s]+)"
_PAIR: Final = r"(-{0,2}[A-Za-z][A-Za-z0-9_.-]*)\s*[=:]\s*(\S.*)"
_DEFAULT: Final = r"\$\{([A-Za-z_][A-Za-z0-9_]{0,200}):-([^}$]{1,2000})\}"
_PLACEHOLDER: Final = (
    r"(?i)<.*>|\[.*\]|\{.*\}|(.)\1*|[x*.]+|.*(?:your|example|placeholder|changeme|dummy|insert|replace).*"
)
_PLAIN: Final = r"(?i)[\d.,:+-]+|true|false|none|null|https?://[^\s?@]*|(?:~|\.{0,2})/.*|[A-Za-z]:\\.*"
"""What is no secret whatever it is called: a number, a word of JSON, an address or a path."""
HIDDEN: Final = "***"
_INERT: Final = r"[A-Za-z0-9+/_=.~-]+"
"""What no shell, interpreter or address takes for anything but a word."""
_CHANCE: Final = r"[A-Za-z0-9+/_=-]+"


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


def secret_parts(name: str, literal: str, *, is_address: bool = False) -> tuple[str, ...]:
    """What of a value is a secret; nothing where it is none. `name` is what it is called."""
    parts = [match[0] for match in re.finditer(KNOWN, literal)]
    parts += [match[1] for match in re.finditer(_USERINFO, literal) if not re.fullmatch(_PLACEHOLDER, match[1])]
    parts += [match[2] for match in re.finditer(_QUERY, literal) if _is_secret(match[1], match[2])]
    if not is_address:
        pair = re.fullmatch(_PAIR, literal)
        parts += _of_value(pair[1], pair[2]) if pair else []
        parts += _of_value(name, literal) if not parts else []
    return tuple(dict.fromkeys(parts))


def _of_value(name: str, value: str) -> list[str]:
    """A value that is a secret, or what follows the scheme in one that is sent to prove who sends it."""
    credentials = re.match(_CREDENTIALS, value)
    if credentials and _is_secret("token", credentials[1]):
        return [credentials[1]]
    return [value] if _is_secret(name, value) else []


def _is_secret(name: str, value: str) -> bool:
    """Whether it is one by its name, or by its looks."""
    if re.fullmatch(_PLAIN, value) or re.fullmatch(_PLACEHOLDER, value) or any(map(str.isspace, value)):
        return False
    named = len(value) >= DEFAULTS.written_secret_length and names_secret(name)
    return named or _looks_random(value)


def _looks_random(value: str) -> bool:
    """Names and words have separators after a few letters; what is made by chance has hardly any."""
    longest = max(re.split(r"[^A-Za-z0-9]+", value), key=len)
    is_mixed = any(map(str.isdigit, longest)) and any(map(str.isalpha, longest))
    is_long = len(value) >= DEFAULTS.random_secret_length and 2 * len(longest) >= DEFAULTS.random_secret_length
    return is_long and is_mixed and bool(re.fullmatch(_CHANCE, value)) and _bits(value) >= DEFAULTS.random_secret_bits


def _bits(value: str) -> float:
    """What one character of it tells, on average."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
