"""Replaces the secrets in an entry by references to variables.

A value counts as a secret because of its name (`GITHUB_TOKEN`, `--api-key`, `Authorization`) or its form: the prefix of
a known service, a password in an address, a long random word. `config/secret_patterns.py` decides. The values stay in
memory, to compare them; nothing here prints or stores one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

from mcp_workbench.config.secret_patterns import (
    ODD_WORD,
    PLAIN_WORD,
    PRIVATE_KEY,
    QUERY,
    SCHEME,
    USERINFO,
    looks_secret,
    names_secret,
    secret_parts,
)
from mcp_workbench.hosts.registry import Entry
from mcp_workbench.hosts.variables import variable_name

_NAMED = re.compile(r"(?s)(-{0,2}[A-Za-z][A-Za-z0-9_.\-]*)(=|:\s*)(.+)")
_MEMBER = re.compile(r'((?<!\\)\\*"([\w.\-]+)\\*"\s*:\s*\\*")((?:[^"\\]|\\[^"])+)')
"""A name and a string in JSON, which may itself be a string in JSON."""
_SHELL_FLAG = re.compile(r"-[a-z]*c")
"""The option of a shell before a command line."""
_QUOTED = r"""('[^']*'|"[^"]*"|[^\s;&|'"]+)"""
_ASSIGNED = re.compile(rf"(?<![^\s;&|(])(-{{0,2}}[A-Za-z][\w.\-]*)(=){_QUOTED}")
_FLAGGED = re.compile(rf"(?<![^\s;&|(])(--?[A-Za-z][\w.\-]*)(\s+)(?!-){_QUOTED}")
_REFERENCE = re.compile(r"\$?\$\{[^}]*\}")
"""A reference of ours, or an escaped one, which the server itself expands."""
_DEFAULT = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*):-([^}]*)\}")


class Variables:
    """Assigns variables to secrets, one value to each variable."""

    def __init__(self, taken: Iterable[str] = (), environ: Mapping[str, str] | None = None) -> None:
        """`taken` are names already in use. Their values are those in `environ`, if any."""
        self._environ = environ or {}
        self._values: dict[str, str | None] = {name: self._environ.get(name) for name in taken}

    def __repr__(self) -> str:
        return f"Variables({sorted(self._values)})"

    @property
    def secrets(self) -> set[str]:
        """The values of the variables, for redaction."""
        return {value for value in self._values.values() if value}

    def reference(self, value: str, preferred: str, server: str) -> str:
        """`${NAME}` for a value. A name that is taken by another value gets a prefix or a number."""
        name = variable_name(preferred)
        if not self._may_stand_for(name, value):
            name = variable_name(f"{server} {preferred}")
        number = 2
        base = name
        while not self._may_stand_for(name, value):
            name, number = f"{base}_{number}", number + 1
        self._values[name] = value
        return f"${{{name}}}"

    def _may_stand_for(self, name: str, value: str) -> bool:
        """Whether the variable has this value or no value."""
        return self._values.get(name, self._environ.get(name, value)) == value


def without_secrets(entry: Entry, server: str, variables: Variables) -> Entry:
    """The entry with `${NAME}` in place of every secret."""
    return _Replacer(server, variables).entry(entry)


def holds_secret(text: str) -> bool:
    """Whether any text, such as a comment, contains something that looks like a secret."""
    variables = Variables()
    without_secrets({"args": ["-c", text]}, "", variables)
    return bool(variables.secrets)


class _Replacer:
    def __init__(self, server: str, variables: Variables) -> None:
        self._server = server
        self._variables = variables

    def entry(self, entry: Entry) -> Entry:
        result = dict(entry)
        if isinstance(entry.get("command"), str):
            result["command"] = self._line(entry["command"])
        if isinstance(entry.get("args"), list):
            result["args"] = self._args(cast("list[Any]", entry["args"]))
        if isinstance(entry.get("env"), dict):
            result["env"] = {name: self._named(name, value, name) for name, value in entry["env"].items()}
        if isinstance(entry.get("headers"), dict):
            headers = cast("Entry", entry["headers"])
            result["headers"] = {name: self._named(name, value, self._of(name)) for name, value in headers.items()}
        if isinstance(entry.get("url"), str):
            result["url"] = self._loose(entry["url"], self._of("key"))
        for key, what in (("clientSecret", "client secret"), ("privateKey", "private key")):
            if isinstance(entry.get("oauth"), dict) and isinstance(entry["oauth"].get(key), str):
                secret = self._named(key, entry["oauth"][key], self._of(what))
                result["oauth"] = {**result.get("oauth", entry["oauth"]), key: secret}
        return result

    def _of(self, name: str) -> str:
        """The name of a variable that belongs to this server only."""
        return f"{self._server} {name}"

    def _args(self, args: list[Any]) -> list[Any]:
        return [self._arg(arg, before) for before, arg in zip(["", *args], args, strict=False)]

    def _arg(self, arg: Any, before: Any) -> Any:
        if not isinstance(arg, str):
            return arg
        flag = before if isinstance(before, str) and before.startswith("-") and "=" not in before else ""
        if _SHELL_FLAG.fullmatch(flag):
            return self._line(arg)
        if names_secret(flag, possibly=True) and not arg.startswith("-"):
            return self._whole(arg, self._of(flag))
        return self._assignment(arg)

    def _line(self, line: str) -> str:
        """Replace the secrets in assignments and options of a shell line."""
        for pattern in (_ASSIGNED, _FLAGGED):
            line = pattern.sub(self._part, line)
        return self._loose(line, self._of("key"))

    def _part(self, match: re.Match[str]) -> str:
        name, between, value = match.groups()
        if not names_secret(name, possibly=True) or value.startswith("$"):
            return match[0]
        quote = value[0] if value[0] in "'\"" else ""
        whole = self._whole(value.strip(quote) if quote else value, name if name.isupper() else self._of(name))
        return f"{name}{between}{quote}{whole}{quote}"

    def _assignment(self, arg: str) -> str:
        """Replace the secret of `--api-key=…`, `TOKEN=…` or `Authorization: …` in one argument."""
        match = _NAMED.fullmatch(arg)
        if match and names_secret(match[1], possibly=True) and not match[3].startswith("//"):
            variable = match[1] if match[1].isupper() else self._of(match[1])
            return match[1] + match[2] + self._whole(match[3], variable)
        if match and match[2] == "=":
            return match[1] + match[2] + self._assignment(match[3])
        return self._loose(arg, self._of("key"))

    def _named(self, name: str, value: Any, variable: str) -> Any:
        if not isinstance(value, str):
            return value
        return self._whole(value, variable) if names_secret(name, possibly=True) else self._loose(value, variable)

    def _whole(self, value: str, variable: str) -> str:
        """Replace a value whose name marks it as a secret, except the scheme of a header."""
        value = _DEFAULT.sub(lambda match: match[0] if PLAIN_WORD.fullmatch(match[2]) else f"${{{match[1]}}}", value)
        if "://" in value and not looks_secret(value):
            return self._loose(value, variable)
        scheme = SCHEME.match(value)
        start = scheme.end() if scheme else 0
        rest = value[start:]
        if PLAIN_WORD.fullmatch(rest) or _is_path(rest) or not _without_references(rest).strip():
            return value
        if rest.isdecimal() and "tokens" in variable.lower():  # a number of tokens
            return value
        return value[:start] + self._variables.reference(rest, variable, self._server)

    def _loose(self, text: str, variable: str) -> str:
        """Replace everything in a text that looks like a secret."""
        if PRIVATE_KEY in text:
            return self._variables.reference(text, variable, self._server)
        text = _MEMBER.sub(self._member, text)
        text = _DEFAULT.sub(lambda match: match[0] if _is_open(match[2]) else f"${{{match[1]}}}", text)
        text = USERINFO.sub(lambda match: self._password(match, variable), text)
        text = QUERY.sub(self._parameter, text)
        pieces = _pieces(text)
        return "".join(piece if piece.startswith("${") else self._words(piece, variable) for piece in pieces)

    def _member(self, match: re.Match[str]) -> str:
        if not names_secret(match[2], possibly=True):
            return match[0]
        return match[1] + self._whole(match[3], self._of(match[2]))

    def _password(self, match: re.Match[str], variable: str) -> str:
        user, password = match[1], match[2]
        if password is None:
            return f"{self._whole(user, variable)}@" if user and not user.isalpha() else match[0]
        return f"{user}:{self._whole(password, f'{variable} password')}@"

    def _parameter(self, match: re.Match[str]) -> str:
        if not names_secret(match[2], possibly=True):
            return match[0]
        return f"{match[1]}{match[2]}={self._whole(match[3], self._of(match[2]))}"

    def _words(self, piece: str, variable: str) -> str:
        for part in secret_parts("", piece):  # so that doctor finds no secret afterwards
            piece = piece.replace(part, self._variables.reference(part, variable, self._server))
        parts = _pieces(piece)
        return "".join(part if part.startswith("${") else ODD_WORD.sub(self._word(variable), part) for part in parts)

    def _word(self, variable: str) -> Any:
        def hidden(match: re.Match[str]) -> str:
            word = match[0]
            return (
                self._variables.reference(word, variable, self._server) if looks_secret(word, possibly=True) else word
            )

        return hidden


def _pieces(text: str) -> list[str]:
    """The references of a text and the text between them. After the last brace there can be none."""
    end = text.rfind("}") + 1
    return [*re.split(r"(\$\{[^}]*\})", text[:end]), text[end:]]


def _without_references(text: str) -> str:
    end = text.rfind("}") + 1
    return _REFERENCE.sub("", text[:end]) + text[end:]


def _is_open(text: str) -> bool:
    """Whether a text contains no secret."""
    return not (secret_parts("", text) or any(looks_secret(word, possibly=True) for word in ODD_WORD.findall(text)))


def _is_path(value: str) -> bool:
    return value.startswith(("~/", "./", "../")) or (value.startswith("/") and os.path.exists(value))  # noqa: PTH110
