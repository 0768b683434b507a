"""Variables in the files of hosts: translates references to our `${NAME}`, and finds the values of variables.

To find a value, it compares an entry of our configuration with the same entry in the host's file: where ours has
`${NAME}`, the other has the value. It leaves out ambiguous values. Nothing here prints a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_workbench.config.environment import MalformedReferenceError, expand
from mcp_workbench.hosts.registry import CLAUDE_FOLDER, FOLDER_VARIABLES, Entry, References

_BRACES = re.compile(r"\$\{([^}]*)\}")
_BARE = re.compile(r"\$([A-Za-z_]\w*)")
_SHELL = re.compile(f"{_BRACES.pattern}|{_BARE.pattern}")
_OURS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?::-.*)?", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PREFIXED = re.compile(r"(?:env|ENV):([A-Za-z_][A-Za-z0-9_]*)(?::(.*))?", re.DOTALL)
_CLAUDE_FOLDER = re.compile(rf"{CLAUDE_FOLDER}(?::-.*)?", re.DOTALL)
_OPEN = ("workspaceFolder", "workspaceRoot", "cwd")
_PASSED_ON = re.compile(r"\$(?:[A-Za-z_]\w*|\{(?:(?:env|ENV):)?[A-Za-z_]\w*\})")


class NotReplacedError(Exception):
    """The host does not expand a reference that other hosts do, so its meaning is unknown."""


class VariableScope(NamedTuple):
    """How references in one file are expanded."""

    style: References
    home: Path
    project: Path | None = None
    """The folder of the project that the file belongs to, if any."""
    own: frozenset[str] = frozenset()
    """Variables of the entry's own `env`, whose references the server itself may expand."""
    folders: Mapping[str, str] = {}
    """The folder references that the host expands, and our variables for them."""
    timeout_unit: float = 0
    """The unit of a `timeout` in seconds; 0 if it is unknown."""


def translate(text: str, scope: VariableScope) -> str:
    """`text` with our references in place of the host's. Text that the host does not expand is escaped."""
    if scope.style == "none":
        return text.replace("${", "$${")
    is_shell = scope.style == "shell"
    end = text.rfind("}") + 1  # a later ${ is no reference; skipping it keeps this linear
    closed = (_SHELL if is_shell else _BRACES).sub(lambda match: _reference(match, scope), text[:end])
    rest = text[end:].replace("${", "$${")
    return closed + (_BARE.sub(lambda match: _reference(match, scope), rest) if is_shell else rest)


def own_variables(env: Mapping[str, Any]) -> frozenset[str]:
    """The variables that an entry really sets, without those that it only passes on."""
    return frozenset(
        name for name, value in env.items() if value not in (f"${name}", f"${{{name}}}", f"${{env:{name}}}")
    )


def looks_up(style: References, text: str) -> bool:
    """Whether a host expands a part of this text."""
    pattern = _SHELL if style == "shell" else _BRACES
    return style != "none" and pattern.search(text) is not None


def is_passed_on(text: str) -> bool:
    """Whether a text consists of one reference to a variable of the environment."""
    return _PASSED_ON.fullmatch(text) is not None and text[2:-1] not in FOLDER_VARIABLES


def variable_name(words: str) -> str:
    """A variable name made from any words: `GITHUB_TOKEN` from `github-token`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper()
    return name if name and not name[0].isdigit() else f"VALUE_{name}".rstrip("_")


def variables_in(value: Any, *, with_defaults: bool = False) -> Iterator[str]:
    """The variables that the strings of a value refer to. `with_defaults` includes those with a default."""
    if isinstance(value, str):
        try:
            expansion = expand(value, _EverythingIsSet() if with_defaults else {})
        except MalformedReferenceError:
            return
        yield from (*expansion.missing, *expansion.used)
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from variables_in(item, with_defaults=with_defaults)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from variables_in(item, with_defaults=with_defaults)


def inherited_in(entry: Mapping[str, Any]) -> list[str]:
    """The variables that an entry or a file inherits by name, without patterns."""
    names = entry.get("inheritEnv")
    return [str(name) for name in cast("list[Any]", names) if _NAME.fullmatch(str(name))] if names else []


class _EverythingIsSet(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, key: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        del key, default
        return ""


def _reference(match: re.Match[str], scope: VariableScope) -> str:
    body = match[match.lastindex or 0]
    if body in scope.own:
        return match[0].replace("${", "$${")
    folder = _constant_folder(body, scope)
    if folder is not None:
        return folder.replace("${", "$${")
    if body in scope.folders:
        return _folder_variable(body, scope)
    prefixed = _PREFIXED.fullmatch(body)
    if prefixed:
        return f"${{{prefixed[1]}}}" if prefixed[2] is None else f"${{{prefixed[1]}:-{prefixed[2]}}}"
    return f"${{{body}}}" if _OURS.fullmatch(body) else f"${{{variable_name(body.removeprefix('input:'))}}}"


def _folder_variable(body: str, scope: VariableScope) -> str:
    """The variable for a folder that differs between windows. The host gives it to the workbench."""
    if not scope.folders[body]:
        raise NotReplacedError(f"refers to ${{{body}}}, which the host does not expand: write the folder instead")
    return f"${{{scope.folders[body]}}}"


def _constant_folder(body: str, scope: VariableScope) -> str | None:
    """The constant text that a host expands a reference to; None if it is not constant."""
    if scope.style == "braces" and scope.project is not None and _CLAUDE_FOLDER.fullmatch(body):
        return str(scope.project)
    if scope.style != "editor":
        return None
    if body in ("/", "pathSeparator"):
        return "/"
    if body == "userHome":
        return str(scope.home)
    if scope.project is None:
        return None
    return scope.project.name if body == "workspaceFolderBasename" else str(scope.project) if body in _OPEN else None


_REFERENCE = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_INPUT = re.compile(r"\$\{input:([^}]*)\}")
_ESCAPED, _OPENING = "$${", "${"
_LOOKED_UP = re.compile(r"(?<!\$)\$\{")


def values_of(configured: Entry, entry: Entry) -> dict[str, str]:
    """The plain-text values in `found` for the variables of `written`."""
    values = _unambiguous(_pairs(configured, entry))
    plain = {name: value for name, value in values.items() if not _LOOKED_UP.search(value)}
    return {name: value.replace(_ESCAPED, _OPENING) for name, value in plain.items()}  # the host expands the others


def texts_of(configured: Entry, raw: Any) -> dict[str, str]:
    """The values as the host's file writes them, for a host that keeps expanding the references in them."""
    values = _unambiguous(_pairs(configured, raw))
    return {name: value for name, value in values.items() if not is_passed_on(value)}


def inputs_in(raw: Any) -> dict[str, str]:
    """The prompts of an editor by our variables: `${input:token}` for `TOKEN`."""
    return {variable_name(match[1]): match[0] for text in _strings(raw) for match in _INPUT.finditer(text)}


def absent_from(tree: Any, values: Mapping[str, Any]) -> list[str]:
    """The variables whose values no text of a file contains. Variables that the host passes on don't count."""
    texts = list(_strings(tree))
    plain = {
        name: text_of_value
        for name, text_of_value in values.items()
        if isinstance(text_of_value, str) and text_of_value and not is_passed_on(text_of_value)
    }
    return [name for name, text_of_value in plain.items() if not any(text_of_value in text for text in texts)]


def _unambiguous(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The value of each variable that has the same value everywhere."""
    values: dict[str, set[str]] = {}
    for ours, theirs in pairs:
        for name, value in _values(ours, theirs):
            values.setdefault(name, set()).add(value)
    return {name: next(iter(candidates)) for name, candidates in values.items() if len(candidates) == 1}


def _pairs(ours: Any, theirs: Any) -> Iterator[tuple[str, str]]:
    """Pairs of strings at the same positions."""
    if isinstance(ours, str) and isinstance(theirs, str):
        yield ours, theirs
    elif isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        other = cast("Entry", theirs)
        for key, item in cast("Entry", ours).items():
            yield from _pairs(item, other.get(key))
    elif isinstance(ours, list) and isinstance(theirs, list):
        for item, counterpart in zip(cast("list[Any]", ours), cast("list[Any]", theirs), strict=False):
            yield from _pairs(item, counterpart)


def _strings(value: Any) -> Iterator[str]:
    return (text for text, _ in _pairs(value, value))


def _values(ours: str, theirs: str) -> Iterable[tuple[str, str]]:
    first, *between = _REFERENCE.split(ours)
    names, texts = between[::2], between[1::2]
    if not names or not theirs.startswith(first) or not theirs.endswith(texts[-1]):
        return ()
    end = len(theirs) - len(texts[-1])
    starts = _from_left(theirs, len(first), end, texts[:-1])
    if starts is None or starts != _from_right(theirs, len(first), end, texts[:-1]):
        return ()  # the boundary between adjacent variables is ambiguous
    ends = [start - len(text) for start, text in zip(starts[1:], texts, strict=False)]
    return zip(names, (theirs[start:stop] for start, stop in zip(starts, [*ends, end], strict=True)), strict=True)


def _from_left(text: str, start: int, end: int, between: list[str]) -> list[int] | None:
    """The starts of the values if each is as short as possible; None if the texts between them do not match."""
    starts = [start]
    for separator in between:
        at = text.find(separator, starts[-1] + 1, end)
        if at < 0:
            return None
        starts.append(at + len(separator))
    return starts if starts[-1] < end else None


def _from_right(text: str, start: int, end: int, between: list[str]) -> list[int] | None:
    """The starts of the values if each is as long as possible, from the right."""
    starts: list[int] = []
    for separator in reversed(between):
        at = text.rfind(separator, start, end - 1)
        if at < 0:
            return None
        starts.append(at + len(separator))
        end = at
    return [start, *reversed(starts)] if start < end else None
