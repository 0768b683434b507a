"""The values that the file of a host has for the variables of our configuration.

A value is found by laying an entry as it is written here beside the same entry as the host has it: where the one has
`${NAME}`, the other has the value. What can't be told for certain is left out. Nothing here prints a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from mcp_workbench.hosts.entries import Entry
from mcp_workbench.hosts.references import is_passed_on, variable_name

_REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT = re.compile(r"\$\{input:([^}]*)\}")
_ESCAPED, _OPENING = "$${", "${"
_LOOKED_UP = re.compile(r"(?<!\$)\$\{")


def values_of(written: Entry, found: Entry) -> dict[str, str]:
    """The value of each variable of `written`, as plain text, where `found` has one."""
    values = _agreed(_pairs(written, found))
    plain = {name: value for name, value in values.items() if not _LOOKED_UP.search(value)}
    return {name: value.replace(_ESCAPED, _OPENING) for name, value in plain.items()}  # the others a host looks up


def texts_of(written: Entry, raw: Any) -> dict[str, str]:
    """The same in the words of the host's file, for a host that looks up what stands in them: it goes on to."""
    values = _agreed(_pairs(written, raw))
    return {name: value for name, value in values.items() if not is_passed_on(value)}


def inputs_in(raw: Any) -> dict[str, str]:
    """How an editor asks for a value, by the variable that stands for it here: `${input:token}` for `TOKEN`."""
    return {variable_name(match[1]): match[0] for text in _texts(raw) for match in _INPUT.finditer(text)}


def absent_from(tree: Any, values: Mapping[str, Any]) -> list[str]:
    """The variables whose values are in no text of a file; those that a host is told to pass on have none."""
    texts = list(_texts(tree))
    plain = {name: one for name, one in values.items() if isinstance(one, str) and one and not is_passed_on(one)}
    return [name for name, one in plain.items() if not any(one in text for text in texts)]


def _agreed(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What each variable stands for, where that is the same everywhere."""
    values: dict[str, set[str]] = {}
    for ours, theirs in pairs:
        for name, value in _values(ours, theirs):
            values.setdefault(name, set()).add(value)
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


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


def _values(ours: str, theirs: str) -> Iterable[tuple[str, str]]:
    first, *between = _REFERENCE.split(ours)
    names, texts = between[::2], between[1::2]
    if not names or not theirs.startswith(first) or not theirs.endswith(texts[-1]):
        return ()
    end = len(theirs) - len(texts[-1])
    starts = _from_left(theirs, len(first), end, texts[:-1])
    if starts is None or starts != _from_right(theirs, len(first), end, texts[:-1]):
        return ()  # of two variables side by side nobody can tell where the one ends
    ends = [start - len(text) for start, text in zip(starts[1:], texts, strict=False)]
    return zip(names, (theirs[one:other] for one, other in zip(starts, [*ends, end], strict=True)), strict=True)


def _from_left(text: str, start: int, end: int, between: list[str]) -> list[int] | None:
    """Where values begin that are as short as can be, with these texts between them; None where they can't be."""
    starts = [start]
    for one in between:
        at = text.find(one, starts[-1] + 1, end)
        if at < 0:
            return None
        starts.append(at + len(one))
    return starts if starts[-1] < end else None


def _from_right(text: str, start: int, end: int, between: list[str]) -> list[int] | None:
    """The same from the other end."""
    starts: list[int] = []
    for one in reversed(between):
        at = text.rfind(one, start, end - 1)
        if at < 0:
            return None
        starts.append(at + len(one))
        end = at
    return [start, *reversed(starts)] if start < end else None
