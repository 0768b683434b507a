"""Finds the servers in the files of all hosts. It only reads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_workbench.command_errors import HostFileError
from mcp_workbench.config.keys import URL_KEYS
from mcp_workbench.hosts import files
from mcp_workbench.hosts.conversion import ConvertedEntry, NotConvertible, convert, flattened, is_workbench
from mcp_workbench.hosts.documents import HostDocument
from mcp_workbench.hosts.registry import (
    FOLDER_VARIABLES,
    HOSTS,
    File,
    Host,
    HostEnvironment,
    HostFile,
    Syntax,
    all_host_files,
    object_of,
)
from mcp_workbench.hosts.restrictions import Restrictions, Rule, Subject
from mcp_workbench.hosts.restrictions.rules import with_filters
from mcp_workbench.hosts.variables import VariableScope

PROJECTS = "projects"

_ANY = Host("import", "Imported", (), "editor", folders=FOLDER_VARIABLES)
"""The host of a file that the user named, if its content does not identify the host."""
_BARE = File("", servers=())
_WITH_FOLDER = "it comes with this folder, perhaps from somebody else: check what it starts"


class HostServer(NamedTuple):
    """A server in the file of a host."""

    name: str
    path: tuple[str, ...]
    """Its path in the file."""
    converted: ConvertedEntry | None
    """Its entry in our form; None if it can't be converted."""
    reason: str = ""
    """Why it can't be converted."""
    rules: tuple[Rule, ...] = ()
    """The restrictions of the host, inside or outside of the entry."""

    def restricted(self, rules: tuple[Rule, ...]) -> HostServer:
        """The server with filters that replace these rules."""
        if self.converted is None:
            return self
        filters = [item for rule in rules for item in rule.filters]
        entry = with_filters(self.converted.entry, filters, disabled=any(rule.disables for rule in rules))
        return self._replace(converted=self.converted._replace(entry=entry), rules=rules)

    def noted(self, note: str) -> HostServer:
        """The server with one more note."""
        return (
            self._replace(converted=self.converted._replace(notes=(*self.converted.notes, note)))
            if self.converted
            else self
        )

    @property
    def obstacles(self) -> tuple[Rule, ...]:
        """The rules that would be lost if the server moved."""
        return tuple(rule for rule in self.rules if rule.obstacle)


class HostSource(NamedTuple):
    """A file of a host and its servers."""

    host_file: HostFile
    servers: tuple[HostServer, ...] = ()
    error: HostFileError | None = None


class ServerSection(NamedTuple):
    """An object of a file that holds servers."""

    path: tuple[str, ...]
    project: Path | None


def find_sources(environment: HostEnvironment) -> Iterator[HostSource]:
    """Every file that exists and holds servers, or can't be read."""
    for host_file in all_host_files(environment):
        source = _read(host_file, environment)
        if source is not None and (source.servers or source.error):
            yield source


def _read(host_file: HostFile, environment: HostEnvironment) -> HostSource | None:
    """Read a file; None if it does not exist or matters to nobody."""
    data: bytes | None = None
    try:
        data = files.read(host_file.path)
        if data is None:
            return None
        document = HostDocument.decoded(data, host_file.file.syntax, str(host_file.path))
    except HostFileError as error:
        # A broken settings file does not matter if the host keeps its servers elsewhere.
        is_elsewhere = host_file.file.old and host_file.file.servers[-1].encode() not in (data or b"")
        return None if is_elsewhere else HostSource(host_file, error=error)
    return HostSource(host_file, _other_servers(document, host_file, environment))


def read_one(path: Path, environment: HostEnvironment) -> HostSource:
    """Read a file that the user named. Its content identifies the host. Raises `HostFileError`."""
    data = files.read(path)
    if data is None:
        raise HostFileError("there is no such file", path)
    syntax: Syntax = "toml" if path.suffix == ".toml" else "json"
    document = HostDocument.decoded(data, syntax, str(path))
    host_file = _identify_host(document, path, environment)
    return HostSource(host_file, _other_servers(document, host_file, environment))


def _other_servers(document: HostDocument, host_file: HostFile, environment: HostEnvironment) -> tuple[HostServer, ...]:
    """The servers of a file without the workbench, also if it was installed with a different program."""
    own: tuple[str, ...] = ()
    with contextlib.suppress(HostFileError):  # without its record it counts as another server
        record = files.load(host_file.path)
        path = (*host_file.file.servers, record.name) if record else ()
        own = path if record and record.matches(document.at(path)) else ()
    return tuple(server for server in servers_in(document, host_file, environment) if server.path != own)


def servers_in(document: HostDocument, host_file: HostFile, environment: HostEnvironment) -> Iterator[HostServer]:
    """The servers of a file, without the workbench."""
    entries = [
        (section, name, raw)
        for section in sections(document, host_file, environment)
        for name, raw in object_of(document.at(section.path)).items()
        if not is_workbench(raw)
    ]
    host, restrictions = (
        host_file.host,
        Restrictions(document, host_file, environment, [name for _, name, _ in entries]),
    )
    limit = document.at((host.timeout_default,)) if host.timeout_default else None
    for section, name, raw in entries:
        scope = VariableScope(
            host.references, environment.home, section.project, folders=host.folders, timeout_unit=host.timeout_unit
        )
        server = _read_server(name, (*section.path, name), _with_default_timeout(raw, limit), scope)
        if server.converted is not None:
            if host_file.file.level == "project":
                server = server.noted(_WITH_FOLDER)
            subject = Subject(name, flattened(raw), section.project, is_shared=host_file.file.level == "project")
            server = server.restricted(restrictions.of(subject))
        yield server


def _with_default_timeout(raw: Any, limit: Any) -> Any:
    """An entry with the host's default timeout, if it has none of its own."""
    return raw if limit is None or not isinstance(raw, dict) else {"timeout": limit, **cast("dict[str, Any]", raw)}


def sections(document: HostDocument, host_file: HostFile, environment: HostEnvironment) -> Iterator[ServerSection]:
    """The objects of a file that hold servers."""
    yield ServerSection(host_file.file.servers, environment.project if host_file.file.level == "project" else None)
    projects = document.at((PROJECTS,)) if host_file.file.in_projects else None
    for folder in object_of(projects):
        yield ServerSection((PROJECTS, folder, *host_file.file.servers), Path(folder))


def _read_server(name: str, path: tuple[str, ...], raw: Any, scope: VariableScope) -> HostServer:
    if scope.project is not None and not scope.project.is_dir():
        return HostServer(name, path, None, "the folder of its project is gone")
    try:
        name.encode()
        return HostServer(name, path, convert(raw, scope))
    except UnicodeEncodeError:
        return HostServer(name, path, None, "its name is not valid text")
    except NotConvertible as reason:
        return HostServer(name, path, None, str(reason))


def _identify_host(document: HostDocument, path: Path, environment: HostEnvironment) -> HostFile:
    """The host that a file belongs to, by its path or else by its structure."""
    for host_file in all_host_files(environment):
        if host_file.path == path.absolute() and not _is_bare(document):
            return host_file
    kinds = [(host, file) for host in HOSTS for file in host.files if _holds(document, file)]
    if not kinds and _is_bare(document):
        return HostFile(_ANY, _BARE, path)
    if not kinds:
        raise HostFileError("holds no MCP servers", path, hint="A file of a host has mcpServers, servers or the like.")
    host, file = next(((host, file) for host, file in kinds if file.level == "user"), kinds[0])
    is_shared = len({host.key for host, _ in kinds}) > 1
    return HostFile(_ANY if is_shared else host, file._replace(in_projects=PROJECTS in document.tree), path)


def _is_bare(document: HostDocument) -> bool:
    """Whether it contains only servers, as in plugins of Claude Code."""
    entries = list(document.tree.values())
    keys = [set(cast("dict[str, Any]", entry)) for entry in entries if isinstance(entry, dict)]
    return bool(entries) and len(keys) == len(entries) and all({"command", *URL_KEYS} & entry for entry in keys)


def _holds(document: HostDocument, file: File) -> bool:
    return file.syntax == document.syntax and isinstance(document.at(file.servers), dict)
