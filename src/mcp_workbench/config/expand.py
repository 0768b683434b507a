"""`${VAR}` and `${VAR:-default}` in one string.

Guarantees: one pass from left to right, so text that a variable brought in is never looked at
again; a variable that is set but empty counts as set, one that is set to a reference to itself does not; `$${` stands
for `${`. No message repeats
any text of the value but a variable's name. It does not know which fields are expanded.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_START = re.compile(r"\$\$\{|\$\{")
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_PREFIXED = r"(?:env|ENV|secret|secrets):([A-Za-z_][A-Za-z0-9_]*)"
_LITERAL_HINT = "$${ stands for the characters ${."


class MalformedReferenceError(ValueError):
    """A `${` that starts no reference. The caller knows the place."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = f"{hint} {_LITERAL_HINT}".lstrip()


class Expansion(NamedTuple):
    """The text, what the environment brought into it, and what it lacked."""

    text: str
    used: Mapping[str, str]
    missing: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Expansion(used={sorted(self.used)}, missing={self.missing})"


def expand(value: str, environ: Mapping[str, str]) -> Expansion:
    """`value` with its references replaced; a missing variable leaves nothing in its place."""
    pieces: list[str] = []
    used: dict[str, str] = {}
    missing: list[str] = []
    offset = 0
    while (match := _START.search(value, offset)) is not None:
        pieces.append(value[offset : match.start()])
        if match.group() == "$${":
            pieces.append("${")
            offset = match.end()
            continue
        name, default, offset = _reference(value, match.end())
        found = environ.get(name)
        if found in (f"${name}", f"${{{name}}}"):  # a host that had no value for it passed on what its file says
            found = None
        if found is not None:
            used[name] = found
        elif default is None:
            missing.append(name)
        pieces.append(found if found is not None else default or "")
    pieces.append(value[offset:])
    return Expansion("".join(pieces), used, tuple(missing))


def _reference(value: str, start: int) -> tuple[str, str | None, int]:
    """Name, default and end of the reference whose `${` ends at `start`."""
    end = value.find("}", start)
    if end < 0:
        raise MalformedReferenceError("a ${ is not closed by }", "Write ${NAME}.")
    body = value[start:end]
    name = re.match(_NAME, body)
    rest = body[name.end() :] if name else body
    if name is None or (rest and not rest.startswith(":-")):
        raise _malformed(body)
    default = rest[2:] if rest else None
    if default is not None and "${" in default.replace("$${", ""):
        raise MalformedReferenceError("a default cannot hold another ${", "Write the default as plain text.")
    return name.group(), None if default is None else default.replace("$${", "${"), end + 1


def _malformed(body: str) -> MalformedReferenceError:
    if not body:
        return MalformedReferenceError("${} names no variable", "Write ${NAME}.")
    prefixed = re.fullmatch(_PREFIXED, body)
    if prefixed:
        name = prefixed.group(1)
        return MalformedReferenceError(f"the form ${{…:{name}}} is not supported", f"Write ${{{name}}}.")
    if body.startswith("input:"):
        return MalformedReferenceError(
            "${input:…} cannot be asked for here", "Set an environment variable and write ${NAME}."
        )
    return MalformedReferenceError(
        "this ${…} names no variable", "Write ${NAME} or ${NAME:-default}; a name has letters, digits and _ only."
    )
