"""The bearer tokens that clients must send: from the environment or a file, else generated."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from mcp_workbench.errors import ConfigError
from mcp_workbench.serve.http.address import Address
from mcp_workbench.text.sanitize import escape

TOKEN_BYTES = 32
"""Random bytes in a generated token."""
TOKEN_LENGTH = 16
"""The fewest characters of a token; a shorter one can be guessed."""
TOKEN_FILE_BYTES = 64 * 1024
"""The largest token file: about a thousand tokens."""

VARIABLE: Final = "WORKBENCH_TOKEN"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_HOW = f"Set {VARIABLE}, or pass --token-file FILE with a file that only you can read."
_LINES = "Write one token per line, or 'name: token'."


class Tokens(NamedTuple):
    """The tokens by the names of their clients."""

    by_name: Mapping[str, str]
    generated: str = ""
    """The token that was just generated, to be shown to the user."""


def find_tokens(address: Address, environment: Mapping[str, str], file: str = "") -> Tokens:
    """Read or generate the tokens. Raises `ConfigError`."""
    if environment.get(VARIABLE):
        return Tokens({"token": _checked(environment[VARIABLE].strip(), VARIABLE)})
    if file:
        return Tokens(_read(Path(file)))
    if not address.is_local:
        raise ConfigError(f"Other machines can reach --http {address.shown}, so it needs a token", hint=_HOW)
    generated = secrets.token_urlsafe(TOKEN_BYTES)
    return Tokens({"token": generated}, generated)


def _read(file: Path) -> dict[str, str]:
    tokens: dict[str, str] = {}
    for number, line in enumerate(_lines(file), 1):
        if not line or line.startswith("#"):
            continue
        name, separator, token = line.partition(": ")
        if not separator:
            name, token = f"line {number}", line
        if not name:
            raise ConfigError("a token has an empty name", file=file, line=number, column=1, hint=_LINES)
        if name in tokens:
            raise ConfigError(f"two tokens have the name '{escape(name)}'", file=file, line=number, column=1)
        tokens[name] = _checked(token.strip(), f"{file}:{number}")
    if not tokens:
        raise ConfigError("there is no token in this file", file=file, hint=_LINES)
    if len(set(tokens.values())) < len(tokens):
        raise ConfigError("the same token has two names", file=file, hint="Give each client its own token.")
    return tokens


def _lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & _OTHERS:
                raise ConfigError(
                    "other users can read or change the token file", file=file, hint=f"Run: chmod 600 {file}"
                )
            content = opened.read(TOKEN_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"the token file can't be read ({error.strerror})", file=file) from None
    if len(content) > TOKEN_FILE_BYTES:
        raise ConfigError(f"a token file may have at most {TOKEN_FILE_BYTES} bytes", file=file)
    try:
        return [line.strip() for line in content.decode("ascii").splitlines()]
    except UnicodeDecodeError:
        raise ConfigError("tokens must be plain ASCII", file=file) from None


def _checked(token: str, place: str) -> str:
    """Check that a token fits into a header and can't be guessed. Errors never contain the token."""
    if not all("!" <= letter <= "~" for letter in token):
        raise ConfigError(f"{place}: a token must be printable ASCII without spaces", hint=_HOW)
    if len(token) < TOKEN_LENGTH:
        hint = f'Generate one: python3 -c "import secrets; print(secrets.token_urlsafe({TOKEN_BYTES}))"'
        raise ConfigError(f"{place}: a token needs at least {TOKEN_LENGTH} characters", hint=hint)
    return token
