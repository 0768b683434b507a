"""The values that the file of a host has for the variables of our configuration.

A value is found by laying an entry as it is written here beside the same entry as the host has it: where the one has
`${NAME}`, the other has the value. What can't be told for certain is left out. Nothing here prints a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from mcp_workbench.hosts.entries import Entry
from mcp_workbench.hosts.references import variable_name

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT = re.compile(r"\$\{input:([^}]*)\}")
_ESCAPED, _OPENING = "$${", "${"


def values_of(written: Entry, found: Entry) -> dict[str, str]:
    """The value of each variable of `written`, as plain text, where `found` has one."""
    values: dict[str, str] = {}
    doubtful: set[str] = set()
    for ours, theirs in _pairs(written, found):
        for name, value in _values(ours, theirs):
            if values.setdefault(name, value) != value:
                doubtful.add(name)
    return {name: value for name, value in values.items() if name not in doubtful}


def inputs_in(raw: Any) -> dict[str, str]:
    """How an editor asks for a value, by the variable that stands for it here: `${input:token}` for `TOKEN`."""
    return {variable_name(match[1]): match[0] for text in _texts(raw) for match in _INPUT.finditer(text)}


def _pairs(ours: Any, theirs: Any) -> Iterator[tuple[str, str]]:
    """The strings that stand at the same places."""
    if isinstance(ours, str) and isinstance(theirs, str):
        yield ours, theirs
    elif isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        other = cast("Entry", theirs)
        for key, one in cast("Entry", ours).items():
            yield from _pairs(one, other.get(key))
    elif isinstance(ours, list) and isinstance(theirs, list):
        for one, another in zip(cast("list[Any]", ours), cast("list[Any]", theirs), strict=False):
            yield from _pairs(one, another)


def _texts(value: Any) -> Iterator[str]:
    return (text for text, _ in _pairs(value, value))


def _values(ours: str, theirs: str) -> Iterator[tuple[str, str]]:
    shortest, longest = (re.fullmatch(_pattern(ours, most), theirs, re.DOTALL) for most in (".+?", ".+"))
    if shortest is None or longest is None or shortest.groups() != longest.groups():
        return  # of two variables side by side nobody can tell where the one ends
    for name, value in shortest.groupdict().items():
        if _OPENING not in value.replace(_ESCAPED, ""):  # else the host itself looks it up
            yield name, value.replace(_ESCAPED, _OPENING)


def _pattern(ours: str, value: str) -> str:
    """What a text looks like that has values in the place of variables."""
    names: set[str] = set()
    pattern, end = "", 0
    for match in _REFERENCE.finditer(ours):
        name: str | None = match[1]
        pattern += re.escape(ours[end : match.start()])
        pattern += re.escape(_ESCAPED) if name is None else f"(?P={name})" if name in names else f"(?P<{name}>{value})"
        names |= {name} if name else set()
        end = match.end()
    return pattern + re.escape(ours[end:])
