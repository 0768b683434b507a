"""Where the tokens come from that clients must show: the environment, a file, or chance."""

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
"""Random bytes in a token that is generated: nobody guesses it."""
TOKEN_LENGTH = 16
"""Characters that a token must have at least: a shorter one can be guessed."""
TOKEN_FILE_BYTES = 64 * 1024
"""A file of tokens: a thousand of them."""

VARIABLE: Final = "WORKBENCH_TOKEN"
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_HOW = f"Set {VARIABLE}, or write a token into a file that only you can read and pass --token-file FILE."
_LINES = "Write one token a line, or 'name: token'."


class Tokens(NamedTuple):
    """The tokens, by the name of who has each."""

    by_name: Mapping[str, str]
    generated: str = ""
    """The one that was made up just now; its user must be told."""


def find_tokens(address: Address, environment: Mapping[str, str], file: str = "") -> Tokens:
    """The tokens to ask for. Raises `ConfigError`."""
    if environment.get(VARIABLE):
        return Tokens({"token": _checked(environment[VARIABLE].strip(), VARIABLE)})
    if file:
        return Tokens(_read(Path(file)))
    if not address.is_local:
        raise ConfigError(f"--http {address.shown} can be reached from other machines, and needs a token", hint=_HOW)
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
        raise ConfigError("there is no token in it", file=file, hint=_LINES)
    if len(set(tokens.values())) < len(tokens):
        raise ConfigError("the same token has two names", file=file, hint="Give each client a token of its own.")
    return tokens


def _lines(file: Path) -> list[str]:
    try:
        with file.open("rb") as opened:
            if stat.S_IMODE(os.fstat(opened.fileno()).st_mode) & _OTHERS:
                raise ConfigError(
                    "others can read or change the file of tokens", file=file, hint=f"Run: chmod 600 {file}"
                )
            content = opened.read(TOKEN_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"the file of tokens can't be read ({error.strerror})", file=file) from None
    if len(content) > TOKEN_FILE_BYTES:
        raise ConfigError(f"it has over {TOKEN_FILE_BYTES} bytes and is no file of tokens", file=file)
    try:
        return [line.strip() for line in content.decode("ascii").splitlines()]
    except UnicodeDecodeError:
        raise ConfigError("tokens are plain ASCII", file=file) from None


def _checked(token: str, place: str) -> str:
    """A token that can stand in a header and not be guessed. The token itself is never told."""
    if not all("!" <= letter <= "~" for letter in token):
        raise ConfigError(f"{place}: a token is visible ASCII without spaces", hint=_HOW)
    if len(token) < TOKEN_LENGTH:
        hint = f'Make one: python3 -c "import secrets; print(secrets.token_urlsafe({TOKEN_BYTES}))"'
        raise ConfigError(f"{place}: a token has at least {TOKEN_LENGTH} characters", hint=hint)
    return token
