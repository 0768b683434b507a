"""Recognizes secrets, by name, by form and inside longer values. The only module that has patterns for them.

Three questions, one function each: `names_secret` (is a value of this name a secret?), `looks_secret` (does this value
look like one?) and `secret_parts` (which parts of this value are secret?).

Guarantees: `credentials_of` finds every credential in a value that is secret as a whole, such as a header, also in
base64. In arguments and addresses, only parts whose name or form marks them as secrets count, so that common words
stay readable. With `possibly`, doubtful names and forms count too: for callers that put a variable in place of a
value, where a false positive costs nothing but a name.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mcp_workbench.config.model import Endpoint, ServerConfig

PRIVATE_KEY: Final = "PRIVATE KEY-----"
"""A text with this line is secret as a whole."""

# Repetitions that may fail late are bounded, since the file may come from an attacker.
_KNOWN: Final = re.compile(
    r"\b(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9]{20,}"  # GitHub
    r"|\bgithub_pat_[A-Za-z0-9_]{20,}"
    r"|\bglpat-[A-Za-z0-9_-]{16,}"  # GitLab
    r"|\bsk-[A-Za-z0-9_-]{16,}"  # OpenAI, Anthropic, and many that imitate them
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
    rf"|-----BEGIN [A-Z ]*{PRIVATE_KEY}"
)
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORD: Final = re.compile(
    r"auth|authorization|cookie|credentials?|key|passphrase|passwd|pat|pwd"
    r"|.*(?:apikey|password|secret|token)"
)
_DOUBTFUL_WORD: Final = re.compile(
    r"oauth|authentication|bearer|cookies|creds?|dsn|pin|session|sig|signature"
    r"|.*(?:keys?|pass(?:word|wd|phrase)?s?|secrets|tokens|credentials?)"
)
_HARMLESS_WORD: Final = re.compile(
    r"public|file|path|dir|folder|url|uri|host|name|id|type|mode|prefix|length|size|version"
)


def names_secret(name: str, *, possibly: bool = False) -> bool:
    """Whether a value of this name is a secret. With `possibly`, whether it may be one."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if possibly:
        return any(_SECRET_WORD.fullmatch(word) or _DOUBTFUL_WORD.fullmatch(word) for word in words)
    has_secret_word = any(_SECRET_WORD.fullmatch(word) for word in words)
    return has_secret_word and not any(_HARMLESS_WORD.fullmatch(word) for word in words)


WRITTEN_SECRET_LENGTH = 8
"""A value counts as secret because of its name from this length on; shorter ones are words and numbers."""
RANDOM_SECRET_LENGTH = 32
"""A value counts as secret because it looks random from this length on: 128 bits as hex digits."""
RANDOM_SECRET_BITS = 3.4
"""The smallest entropy of a character of a random value: random hex has 3.7 or more, words and paths less."""
ODD_WORD_LENGTH = 20
"""From this length on, a word of digits and letters of both cases may be a secret."""

_SCHEME: Final = r"(?i:bearer|basic|token|digest|api-?key)"
SCHEME: Final = re.compile(rf"\s*{_SCHEME}\s+")
"""What stands before the credentials in a header."""
_CREDENTIALS: Final = re.compile(rf"{SCHEME.pattern}(\S+)")
SCHEME_ALONE: Final = re.compile(rf"\s*{_SCHEME}?\s*")
"""A header whose variable is not set."""
USERINFO: Final = re.compile(r"(?<=://)([^/?#\s:@]*)(?::([^/?#\s@]+))?@")
"""The user and the password of an address."""
QUERY: Final = re.compile(r"([?&;#])([^=?&;#\s]{1,100})=([^&;#\s]+)")
"""A separator, a name and its value in the query or the fragment of an address."""
ODD_WORD: Final = re.compile(rf"(?<![A-Za-z0-9:@$])[A-Za-z0-9_\-]{{{ODD_WORD_LENGTH},}}")
"""A word that `looks_secret` may find to be random."""
PLAIN_WORD: Final = re.compile(r"(?i:true|false|on|off|yes|no|none|null)?")
_PAIR: Final = re.compile(r"(-{0,2}[A-Za-z][A-Za-z0-9_.-]*)\s*[=:]\s*(\S.*)")
_MEMBER: Final = re.compile(
    r"([A-Za-z][A-Za-z0-9_.-]{0,100})\\*[\"']?\s{0,9}[=:]\s{0,9}\\*[\"']?"
    rf"(?:{_SCHEME}\s{{1,9}})?([^\s\"'\\;&,#]+)"
)
"""A name and its value in a query, a connection string, a header line or JSON, also in JSON inside JSON."""
_PLACEHOLDER: Final = re.compile(
    r"(?i)<.*>|\[.*\]|\{.*\}|(.)\1*|[x*.]+|.*(?:your|example|placeholder|changeme|dummy|insert|replace).*"
)
_PLAIN: Final = re.compile(rf"(?i)[\d.,:+-]+|{PLAIN_WORD.pattern}|https?://[^\s?@]*|(?:~|\.{{0,2}})/.*|[A-Za-z]:\\.*")
"""Numbers, words of JSON and YAML, addresses and paths: no secrets under any name."""
_RANDOM: Final = re.compile(r"[A-Za-z0-9+/_=-]+")
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
    parts = [match[0] for match in _KNOWN.finditer(literal)]
    passwords = (match[2] for match in USERINFO.finditer(literal) if match[2])
    parts += [password for password in passwords if not _PLACEHOLDER.fullmatch(password)]
    parts += [match[3] for match in QUERY.finditer(literal) if _is_secret(match[2], match[3])]
    if not is_address:
        pair = _PAIR.fullmatch(literal)
        parts += _of_value(pair[1], pair[2]) if pair else []
        parts += _of_value(name, literal) if not parts else []
    return tuple(dict.fromkeys(parts))


def _inside(value: str) -> Iterator[str]:
    """The credentials in a value that is secret as a whole."""
    if credentials := _CREDENTIALS.match(value):
        yield credentials[1]
        yield from _in_base64(credentials[1])
    for user, password in USERINFO.findall(value):
        yield from _decoded(password or user)
    for name, member in _MEMBER.findall(value):
        if names_secret(name):
            yield from _decoded(member)
            yield from _in_base64(member)


def _in_address(url: str) -> Iterator[str]:
    """The keys in the query, and random words in the path."""
    for part in (*secret_parts("", url, is_address=True), *filter(looks_secret, _SEGMENT.findall(url))):
        yield from _decoded(part)


def _in_arguments(args: Sequence[str]) -> Iterator[str]:
    """The secrets in arguments, also in the words of a shell line."""
    words = [word for arg in args for word in ((arg, *_unquoted(arg)) if " " in arg else (arg,))]
    for flag, word in zip(("", *words), words, strict=False):
        name = flag if flag.startswith("-") and "=" not in flag and not word.startswith("-") else ""
        for part in secret_parts(name, word):
            if not part.islower() or not part.isalpha():  # a word such as `required`
                yield from _decoded(part)


def _unquoted(line: str) -> list[str]:
    return line.replace("'", "").replace('"', "").split()


def _decoded(part: str) -> Iterator[str]:
    """A part of an address as written, and with its percent escapes decoded."""
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
    """Whether a value is a secret, by its name or by its form."""
    if _PLAIN.fullmatch(value) or _PLACEHOLDER.fullmatch(value) or any(map(str.isspace, value)):
        return False
    return (len(value) >= WRITTEN_SECRET_LENGTH and names_secret(name)) or looks_secret(value)


def looks_secret(value: str, *, possibly: bool = False) -> bool:
    """Whether a value holds a token of a known service or looks random; with `possibly`, also if it is shorter."""
    return bool(_KNOWN.search(value)) or _looks_random(value) or (possibly and _looks_odd(value))


def _looks_random(value: str) -> bool:
    """Names and words have separators after a few letters; random strings have hardly any."""
    longest = _longest_part(value)
    is_mixed = any(map(str.isdigit, longest)) and any(map(str.isalpha, longest))
    is_long = len(value) >= RANDOM_SECRET_LENGTH and 2 * len(longest) >= RANDOM_SECRET_LENGTH
    return is_long and is_mixed and bool(_RANDOM.fullmatch(value)) and _bits(value) >= RANDOM_SECRET_BITS


def _looks_odd(word: str) -> bool:
    """Whether nobody would write such a word: digits among letters of both cases, or a long number in hexadecimal."""
    if re.fullmatch(r"[0-9a-fA-F]{32,}", word):
        return True
    longest = _longest_part(word)
    is_mixed = re.search(r"[a-z]", longest) and re.search(r"[A-Z]", longest) and len(re.findall(r"\d", longest)) > 1
    return bool(is_mixed) and len(longest) >= ODD_WORD_LENGTH


def _longest_part(value: str) -> str:
    return max(re.split(r"[^A-Za-z0-9]+", value), key=len)


def _bits(value: str) -> float:
    """The average entropy of a character in bits."""
    return -sum(count / len(value) * math.log2(count / len(value)) for count in Counter(value).values())
