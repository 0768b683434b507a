"""Credentials inside longer values: the token of a header, the password of an address, the key in a query.

Guarantees: in a value that is secret as a whole, such as a header, every credential is found, also in base64. In
arguments and addresses, only parts whose name or form marks them as secrets count, so that common words stay readable.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mcp_workbench.config.model import Endpoint, ServerConfig

# Repetitions that may fail after a long way are bounded: somebody else may have written the file.
KNOWN: Final = re.compile(
    r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}"  # GitHub
    r"|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}"  # GitLab
    r"|\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, and many that do as they do
    r"|\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}"  # Stripe
    r"|\bxox[a-z]-[A-Za-z0-9-]{10,}|\bxapp-[A-Za-z0-9-]{10,}"  # Slack
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"  # AWS
    r"|\bAIza[A-Za-z0-9_-]{30,}"  # Google
    r"|\bya29\.[A-Za-z0-9_-]{20,}"
    r"|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{30,}|\bhf_[A-Za-z0-9]{20,}"
    r"|\bdop_v1_[a-f0-9]{30,}|\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{30,}|\bSG\.[A-Za-z0-9_.-]{30,}"
    r"|\b(?:ntn|secret)_[A-Za-z0-9]{30,}|\blin_api_[A-Za-z0-9]{20,}|\btvly-[A-Za-z0-9-]{16,}|\bfigd_[A-Za-z0-9_-]{20,}"
    r"|\bATATT[A-Za-z0-9_=.-]{20,}|\bsntrys_[A-Za-z0-9_=+/-]{20,}|\b(?:nvapi|pplx)-[A-Za-z0-9_-]{20,}"
    r"|\b(?:ph[cx]|gsk|r8|rnd|sbp|vercel|whsec)_[A-Za-z0-9]{20,}|\bdckr_pat_[A-Za-z0-9_-]{20,}|\bBSA[A-Za-z0-9_-]{24,}"
    r"|\b(?:fc|key)-[a-f0-9]{24,}|\bpat-[a-z]{2}[0-9]-[a-f0-9-]{30,}"  # Firecrawl, Mailgun, HubSpot
    r"|\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]*"  # a JSON web token
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_TELLING_WORD: Final = re.compile(
    r"auth|authorization|cookie|credentials?|key|passphrase|passwd|pat|pwd"
    r"|.*(?:apikey|password|secret|token)"
)
_HARMLESS_WORD: Final = re.compile(
    r"public|file|path|dir|folder|url|uri|host|name|id|type|mode|prefix|length|size|version"
)
_SUSPICIOUS_WORD: Final = re.compile(
    r"o?auth|authorization|authentication|bearer|cookies?|creds?|dsn|pat|pwd|pin|session|sig|signature"
    r"|.*(?:keys?|pass(?:word|wd|phrase)?s?|secrets?|tokens?|credentials?)"
)


def names_secret(name: str) -> bool:
    """Whether a value of this name is a secret."""
    words = _words(name)
    is_one = any(_TELLING_WORD.fullmatch(word) for word in words)
    return is_one and not any(_HARMLESS_WORD.fullmatch(word) for word in words)


def may_name_secret(name: str) -> bool:
    """Whether a value of this name may be one."""
    return any(_SUSPICIOUS_WORD.fullmatch(word) for word in _words(name))


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


WRITTEN_SECRET_LENGTH = 8
"""Characters of a value that is taken for a secret because of its name; shorter ones are words and numbers."""
RANDOM_SECRET_LENGTH = 32
"""Characters of a value that is taken for a secret because it looks like chance: 128 bits as hex digits."""
RANDOM_SECRET_BITS = 3.4
"""What each of its characters tells at least, on average: chance in hex has 3.7 or more, words and paths less."""

_SCHEME: Final = r"(?i:bearer|basic|token|digest|api-?key)"
_CREDENTIALS: Final = re.compile(rf"\s*{_SCHEME}\s+(\S+)")
_USERINFO: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://([^/?#\s:@]{0,300})(?::([^/?#\s@]{1,300}))?@")
_QUERY: Final = re.compile(r"[?&]([^=?&#\s]{1,100})=([^&#\s]+)")
_PAIR: Final = re.compile(r"(-{0,2}[A-Za-z][A-Za-z0-9_.-]*)\s*[=:]\s*(\S.*)")
_MEMBER: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9_.-]{0,100})\\*[\"']?\s{0,9}[=:]\s{0,9}\\*[\"']?"
    rf"(?:{_SCHEME}\s{{1,9}})?([^\s\"'\\;&,#]+)"
)
"""A name and its value in a query, a connection string, a header line or JSON, which may be inside JSON."""
_PLACEHOLDER: Final = re.compile(
    r"(?i)<.*>|\[.*\]|\{.*\}|(.)\1*|[x*.]+|.*(?:your|example|placeholder|changeme|dummy|insert|replace).*"
)
_PLAIN: Final = re.compile(r"(?i)[\d.,:+-]+|true|false|none|null|https?://[^\s?@]*|(?:~|\.{0,2})/.*|[A-Za-z]:\\.*")
"""What is no secret whatever it is called: a number, a word of JSON, an address or a path."""
_CHANCE: Final = re.compile(r"[A-Za-z0-9+/_=-]+")
_SEGMENT: Final = re.compile(r"[^/?#&=\s]+")


def credentials_of(server: ServerConfig) -> Iterator[str]:
    """The credentials in the values, the arguments and the address of a server."""
    for value in server.secrets:
        yield from _inside(value)
    if isinstance(server.target, Endpoint):
        yield from _in_address(server.target.url)
    else:
        yield from _in_arguments(server.target.args)


def secret_parts(name: str, literal: str, *, is_address: bool = False) -> tuple[str, ...]:
    """The secret parts of a value, if any. `name` is the name of the value."""
    parts = [match[0] for match in KNOWN.finditer(literal)]
    passwords = (match[2] for match in _USERINFO.finditer(literal) if match[2])
    parts += [password for password in passwords if not _PLACEHOLDER.fullmatch(password)]
    parts += [match[2] for match in _QUERY.finditer(literal) if _is_secret(match[1], match[2])]
    if not is_address:
        pair = _PAIR.fullmatch(literal)
        parts += _of_value(pair[1], pair[2]) if pair else []
        parts += _of_value(name, literal) if not parts else []
    return tuple(dict.fromkeys(parts))


def _inside(value: str) -> Iterator[str]:
    """Credentials in a value that is secret as a whole."""
    if scheme := _CREDENTIALS.match(value):
        yield scheme[1]
        yield from _in_base64(scheme[1])
    for user, password in _USERINFO.findall(value):
        yield from _decoded(password or user)
    for name, member in _MEMBER.findall(value):
        if names_secret(name):
            yield from _decoded(member)
            yield from _in_base64(member)


def _in_address(url: str) -> Iterator[str]:
    """Keys in the query, and random words in the path."""
    for part in (*secret_parts("", url, is_address=True), *filter(_looks_random, _SEGMENT.findall(url))):
        yield from _decoded(part)


def _in_arguments(args: Sequence[str]) -> Iterator[str]:
    """Secrets in arguments, and in the words of those that a shell runs."""
    words = [word for arg in args for word in ((arg, *_unquoted(arg)) if " " in arg else (arg,))]
    for flag, word in zip(("", *words), words, strict=False):
        name = flag if flag.startswith("-") and "=" not in flag and not word.startswith("-") else ""
        for part in secret_parts(name, word):
            if not part.islower() or not part.isalpha():  # a word such as `required`
                yield from _decoded(part)


def _unquoted(line: str) -> list[str]:
    return line.replace("'", "").replace('"', "").split()


def _decoded(part: str) -> Iterator[str]:
    """A part of an address as it stands there, and without its escapes."""
    yield part
    if "%" in part:
        from urllib.parse import unquote  # noqa: PLC0415 -- few addresses need it

        yield unquote(part)


def _in_base64(token: str) -> Iterator[str]:
    """The `user:password` of basic authentication, and the password."""
    from binascii import Error, a2b_base64  # noqa: PLC0415 -- only where there are credentials

    try:
        text = a2b_base64(token + "=" * (-len(token) % 4), strict_mode=True).decode()
    except (Error, ValueError):
        return
    user, colon, password = text.partition(":")
    if colon and text.isprintable():
        yield from (text, password or user)


def _of_value(name: str, value: str) -> list[str]:
    """A secret value; or, in an authorization value, the part after the scheme."""
    credentials = _CREDENTIALS.match(value)
    if credentials and _is_secret("token", credentials[1]):
        return [credentials[1]]
    return [value] if _is_secret(name, value) else []


def _is_secret(name: str, value: str) -> bool:
    """Whether it is one by its name, or by its looks."""
    if _PLAIN.fullmatch(value) or _PLACEHOLDER.fullmatch(value) or any(map(str.isspace, value)):
        return False
    named = len(value) >= WRITTEN_SECRET_LENGTH and names_secret(name)
    return named or _looks_random(value)


def _looks_random(value: str) -> bool:
    """Names and words have separators after a few letters; random strings have hardly any."""
    longest = max(re.split(r"[^A-Za-z0-9]+", value), key=len)
    is_mixed = any(map(str.isdigit, longest)) and any(map(str.isalpha, longest))
    is_long = len(value) >= RANDOM_SECRET_LENGTH and 2 * len(longest) >= RANDOM_SECRET_LENGTH
    return is_long and is_mixed and bool(_CHANCE.fullmatch(value)) and _bits(value) >= RANDOM_SECRET_BITS


def _bits(value: str) -> float:
    """The entropy of one character, in bits, on average."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
