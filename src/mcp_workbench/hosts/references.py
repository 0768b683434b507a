"""How hosts write the value of a variable into their files, turned into the `${NAME}` of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_workbench.config.expand import MalformedReferenceError, expand
from mcp_workbench.hosts.known import CLAUDE_FOLDER, FOLDER_VARIABLES, References

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
    """The host does not replace a reference that others do, so nothing tells what was meant."""


class Scope(NamedTuple):
    """What the references of one file lead to."""

    style: References
    home: Path
    project: Path | None = None
    """The folder that the file is about, where it is about one."""
    own: frozenset[str] = frozenset()
    """Variables that the entry gives to its server, which may look for their references itself."""
    folders: Mapping[str, str] = {}
    """The names for folders that the host replaces, and the variables that stand for them here."""
    timeout_unit: float = 0
    """The unit of a `timeout` in seconds; 0 where that is unknown."""


def translated(text: str, scope: Scope) -> str:
    """`text` with the references of a host as our own; what is none there is none here either."""
    if scope.style == "none":
        return text.replace("${", "$${")
    is_shell = scope.style == "shell"
    end = text.rfind("}") + 1  # a ${ behind it is none, and is not looked for again and again
    closed = (_SHELL if is_shell else _BRACES).sub(lambda match: _reference(match, scope), text[:end])
    rest = text[end:].replace("${", "$${")
    return closed + (_BARE.sub(lambda match: _reference(match, scope), rest) if is_shell else rest)


def own_variables(env: Mapping[str, Any]) -> frozenset[str]:
    """The variables that an entry gives another value than the one that they have already."""
    return frozenset(name for name, one in env.items() if one not in (f"${name}", f"${{{name}}}", f"${{env:{name}}}"))


def looks_up(style: References, text: str) -> bool:
    """Whether a host puts something else in the place of a part of this text."""
    pattern = _SHELL if style == "shell" else _BRACES
    return style != "none" and pattern.search(text) is not None


def is_passed_on(text: str) -> bool:
    """Whether a text of a host is a variable of its environment and nothing else."""
    return _PASSED_ON.fullmatch(text) is not None and text[2:-1] not in FOLDER_VARIABLES


def variable_name(words: str) -> str:
    """The name of a variable made of any words: `github-token` is `GITHUB_TOKEN`."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", words).strip("_").upper()
    return name if name and not name[0].isdigit() else f"VALUE_{name}".rstrip("_")


def variables_in(value: Any, *, with_defaults: bool = False) -> Iterator[str]:
    """The variables that a value refers to, in all of its strings; those with a default only if asked for."""
    if isinstance(value, str):
        try:
            expansion = expand(value, _EverythingSet() if with_defaults else {})
        except MalformedReferenceError:
            return
        yield from (*expansion.missing, *expansion.used)
    elif isinstance(value, Mapping):
        for one in cast("Mapping[str, Any]", value).values():
            yield from variables_in(one, with_defaults=with_defaults)
    elif isinstance(value, list):
        for one in cast("list[Any]", value):
            yield from variables_in(one, with_defaults=with_defaults)


def inherited_in(entry: Mapping[str, Any]) -> list[str]:
    """The variables that a server, or a file for all of its servers, inherits by name; patterns are left out."""
    names = entry.get("inheritEnv")
    return [str(name) for name in cast("list[Any]", names) if _NAME.fullmatch(str(name))] if names else []


class _EverythingSet(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, key: str, default: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        del key, default
        return ""


def _reference(match: re.Match[str], scope: Scope) -> str:
    body = match[match.lastindex or 0]
    if body in scope.own:
        return match[0].replace("${", "$${")
    folder = _folder(body, scope)
    if folder is not None:
        return folder.replace("${", "$${")
    if body in scope.folders:
        return _folder_variable(body, scope)
    prefixed = _PREFIXED.fullmatch(body)
    if prefixed:
        return f"${{{prefixed[1]}}}" if prefixed[2] is None else f"${{{prefixed[1]}:-{prefixed[2]}}}"
    return f"${{{body}}}" if _OURS.fullmatch(body) else f"${{{variable_name(body.removeprefix('input:'))}}}"


def _folder_variable(body: str, scope: Scope) -> str:
    """A folder that differs from window to window: the host gives it to the workbench as a variable."""
    if not scope.folders[body]:
        raise NotReplacedError(f"refers to ${{{body}}}, which the host does not replace: write the folder instead")
    return f"${{{scope.folders[body]}}}"


def _folder(body: str, scope: Scope) -> str | None:
    """What a host puts in the place of its own names, where that is the same each time."""
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
