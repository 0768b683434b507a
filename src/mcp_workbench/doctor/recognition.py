"""Recognizes what a server is for, from what is known without starting it.

Guarantees: the answer is a row of the table in `services.py`, the summary of the server's package, or none; of an
entry, only the names of servers are repeated. It is a guess by words, and a person can change the result (`move`,
`describe`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from mcp_workbench.config.keys import URL_KEYS
from mcp_workbench.config.model import Launch, ServerConfig
from mcp_workbench.doctor.installed_packages import Manifest, manifest_of
from mcp_workbench.doctor.packages import fetched_packages
from mcp_workbench.doctor.services import OTHER, SERVICES, Service

_SCRIPT: Final = r"\.(?:py|[cm]?[jt]s)$"
_TOOL_WORDS: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
_TOOLS_NEEDED: Final = 2
"""Tools that must share a subject before they tell what their server is for, unless it has only one."""
_SHARE_NEEDED: Final = 3
"""One tool of this many must have that subject."""
_NAMES_LISTED: Final = 8


class Traits(NamedTuple):
    """What is known about a server."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    tools: tuple[str, ...] = ()
    """The names of its tools, if it was ever listed."""
    manifest: Manifest = Manifest()

    @classmethod
    def of_entry(cls, name: str, entry: Mapping[str, Any], tools: Iterable[str] = ()) -> Traits:
        """The traits of an entry as written in a file; a value of the wrong type reads as missing."""
        args: Any = entry.get("args")
        words = cast("list[Any]", args) if isinstance(args, list) else []
        url = next((_text(entry[key]) for key in URL_KEYS if key in entry), "")
        return cls(name, _text(entry.get("command")), tuple(map(_text, words)), url, tuple(tools))

    @classmethod
    def of_server(cls, server: ServerConfig, tools: Iterable[str] = ()) -> Traits:
        target = server.target
        if isinstance(target, Launch):
            return cls(server.name, target.command, tuple(target.args), tools=tuple(tools))
        return cls(server.name, url=target.url, tools=tuple(tools))

    def on_this_machine(self, environ: Mapping[str, str]) -> Traits:
        """The same, with the manifest of its package if that is installed here."""
        return self._replace(manifest=manifest_of(self.command, self.args, environ))


def recognize(traits: Traits) -> Service | None:
    """What a server is for. Facts outrank names that a person chose, and both outrank the names of its tools.

    If no row of the table fits, it is what its package says about itself.
    """
    for text in _evidence(traits):
        if (service := _best(_words(text))) is not None:
            return service
    return _by_tools(traits.tools) or _by_summary(traits)


def summary(servers: Iterable[tuple[str, Service | None]]) -> str:
    """A description of a toolbox: what one can do with its servers, each with its name and what it is for.

    Servers that were not recognized are named, since nothing else is known about them.
    """
    pairs = list(servers)
    does = list(dict.fromkeys(service.does for _, service in pairs if service is not None))
    names = [name for name, service in pairs if service is None]
    listed = ", ".join(names[:_NAMES_LISTED]) + (
        f" and {len(names) - _NAMES_LISTED} more" * (len(names) > _NAMES_LISTED)
    )
    if names:
        does.append(f"use the tools of {listed}")
    text = "; ".join(does)
    return text[:1].upper() + text[1:]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _evidence(traits: Traits) -> Iterator[str]:
    """Texts that may tell what a server is for, the most reliable first."""
    yield from (package.spec for package in fetched_packages(traits.command, traits.args) if traits.command)
    for word in (traits.url, *traits.args):
        if re.match(r"https?://", word):
            yield from _address(word)
    yield traits.manifest.package
    yield traits.name
    yield PurePosixPath(traits.command).name
    for before, word in zip(("", *traits.args), traits.args, strict=False):
        if before == "-m" or re.search(_SCRIPT, word):
            yield " ".join(PurePosixPath(word).parts[-2:])


def _address(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # no address; the configuration's reader reports it
        return
    yield host.rpartition(".")[0]
    yield parts.path


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _best(words: Sequence[str]) -> Service | None:
    """The service with the longest of its words in a text."""
    found = [(len(word), service) for service in SERVICES for word in service.words if _has(words, word)]
    return max(found, key=lambda one: one[0])[1] if found else None


def _has(words: Sequence[str], word: str) -> bool:
    parts = word.split()
    joined = word.replace(" ", "")
    if joined in words:
        return True
    return any(list(words[start : start + len(parts)]) == parts for start in range(len(words) - len(parts) + 1))


def _by_tools(tools: Sequence[str]) -> Service | None:
    """The service to which most tools belong, by the words in their names."""
    votes: dict[Service, int] = {}
    for tool in tools:
        if (service := _best([word.lower() for word in re.findall(_TOOL_WORDS, tool)])) is not None:
            votes[service] = votes.get(service, 0) + 1
    if not votes:
        return None
    service, number = max(votes.items(), key=lambda one: one[1])
    is_enough = number >= min(_TOOLS_NEEDED, len(tools)) and number * _SHARE_NEEDED >= len(tools)
    return service if is_enough else None


def _by_summary(traits: Traits) -> Service | None:
    summary = traits.manifest.summary
    return Service(OTHER, f"use {traits.name} ({summary})", ()) if summary else None
