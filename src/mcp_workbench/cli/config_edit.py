"""Edits the configuration file: finds it, changes its text, validates the result and replaces the file.

Guarantees: it never writes a text that `check` would refuse, and never overwrites a file that changed meanwhile.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

from mcp_workbench.cli.config_selection import config_source
from mcp_workbench.cli.display import Tone, Words
from mcp_workbench.cli.terminal import note
from mcp_workbench.command_errors import TrustFailed
from mcp_workbench.config.fields import ValuePosition
from mcp_workbench.config.jsonc.edit import remove_member, set_member
from mcp_workbench.config.jsonc.parser import parse, plain, tokens
from mcp_workbench.config.jsonc.source import BOM, SourceText, read_source
from mcp_workbench.config.jsonc.transfer import move_member
from mcp_workbench.config.keys import SERVER, Key, is_comment
from mcp_workbench.config.load import DEFAULT_DESCRIPTION, DEFAULT_TOOLBOX, config_of
from mcp_workbench.config.locate import FILE_NAME, VARIABLE, has_project_file, user_config
from mcp_workbench.config.model import Config
from mcp_workbench.config.raw_entries import strings_in_comments
from mcp_workbench.config.secret_patterns import SCHEME_ALONE
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts import files
from mcp_workbench.hosts.secrets import Variables, holds_secret, without_secrets
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.storage import trusted_configs
from mcp_workbench.text.redact import Redactor
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known

_EMPTY = '{\n  "toolboxes": {}\n}\n'


class Target(NamedTuple):
    """A configuration file with its current or new text."""

    path: Path
    text: str
    known: bytes | None
    """The bytes of the file; None if it does not exist."""
    is_projects: bool = False
    """Whether it belongs to the current folder, where others may read it."""

    @property
    def tree(self) -> dict[str, Any]:
        tree = plain(parse(SourceText(self.text, str(self.path))))
        return cast("dict[str, Any]", tree) if isinstance(tree, dict) else {}

    @property
    def is_bare(self) -> bool:
        """Whether it has only `mcpServers`, as in the files of hosts."""
        return "mcpServers" in self.tree and "toolboxes" not in self.tree

    def servers(self) -> dict[str, dict[str, Any]]:
        """The entries by toolbox and name, as written but without comments."""
        toolboxes = {DEFAULT_TOOLBOX: self.tree} if self.is_bare else self.tree["toolboxes"]
        return {name: _entries(toolbox["mcpServers"]) for name, toolbox in toolboxes.items()}

    def descriptions(self) -> dict[str, str]:
        if self.is_bare:
            return {DEFAULT_TOOLBOX: DEFAULT_DESCRIPTION}
        return {name: toolbox["description"] for name, toolbox in self.tree["toolboxes"].items()}

    def place(self, toolbox: str, server: str) -> tuple[str, ...]:
        """The path of a server's entry."""
        return ("mcpServers", server) if self.is_bare else ("toolboxes", toolbox, "mcpServers", server)

    def with_member(self, path: Sequence[str], value: object) -> Target:
        return self._replace(text=set_member(self.text, path, value, str(self.path)))

    def without_member(self, path: Sequence[str]) -> Target:
        return self._replace(text=remove_member(self.text, path, str(self.path)))

    def with_server(self, toolbox: str, server: str, entry: Mapping[str, Any], description: str) -> Target:
        """Add or replace a server. A missing toolbox is created with `description`."""
        if self.is_bare or toolbox in self.tree["toolboxes"]:
            return self.with_member(self.place(toolbox, server), entry)
        return self.with_member(("toolboxes", toolbox), {"description": description, "mcpServers": {server: entry}})

    def moved(self, server: str, source: str, to: str, description: str) -> Target:
        """Move a server to another toolbox. Creates a missing toolbox, and removes one that becomes empty."""
        target = self
        if to not in self.tree["toolboxes"]:
            target = self.with_member(("toolboxes", to), {"description": description, "mcpServers": {}})
        text = move_member(target.text, target.place(source, server), ("toolboxes", to, "mcpServers"), str(self.path))
        target = target._replace(text=text)
        return target if target.servers()[source] else target.without_member(("toolboxes", source))

    def checked(self) -> Config:
        """Parse and validate the text. Raises `ConfigError`."""
        return config_of(SourceText(self.text, str(self.path)), strict=False)

    def write(self) -> None:
        """Write the text to the file, which the caller has locked. Raises `ConfigError` or `HostFileError`."""
        self.checked()
        files.replace(self.path, self.text.encode(), self.known)
        self._stay_trusted()

    def _stay_trusted(self) -> None:
        """Renew the trust of a trusted file: its user requested this change."""
        if self.path.name != FILE_NAME or self.known is None:
            return
        try:
            trusted_configs.renew(os.environ, str(self.path), self.known, self.text.encode())
        except TrustFailed as error:
            note(f"warning: the file is written, but its trust could not be kept: {error}")


def _entries(servers: Mapping[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: _without_comments(entry, SERVER) for name, entry in servers.items()}


def _without_comments(entry: Mapping[str, Any], keys: Iterable[Key]) -> dict[str, Any]:
    sections = {key.name: key.inside for key in keys if key.inside}
    return {
        name: _without_comments(value, sections[name]) if name in sections else value
        for name, value in entry.items()
        if not is_comment(name)
    }


@contextmanager
def to_change(options: Mapping[str, str]) -> Generator[Target]:
    """Lock the configuration that commands use. If there is none, a change creates the user's own.

    Raises `ConfigError`, `TrustFailed` or `FileBusy`.
    """
    if not has_project_file(options.get("config"), os.environ):
        with to_import(options) as target:
            yield target
        return
    with files.locked(Path(FILE_NAME)):
        yield _target_of(config_source(options))._replace(is_projects=True)


@contextmanager
def to_edit(options: Mapping[str, str]) -> Generator[Target]:
    """Like `to_change`, but the file must exist and have toolboxes."""
    with to_change(options) as target:
        if target.known is None:
            raise ConfigError("there is no configuration yet", file=target.path, hint="Run: mcp-workbench import")
        if target.is_bare:
            hint = "Put its servers into toolboxes; mcp-workbench docs configuration shows how."
            raise ConfigError("the file has only mcpServers, and no toolboxes", file=target.path, hint=hint)
        yield target


@contextmanager
def to_import(options: Mapping[str, str]) -> Generator[Target]:
    """Lock the configuration that `serve` uses."""
    named = options.get("config") or os.environ.get(VARIABLE)
    path = Path(named).expanduser() if named else _own()
    with files.locked(path, makes_folder=True):
        yield opened(path)


def opened(path: Path) -> Target:
    """Read the file, or start with an empty configuration. Raises `ConfigError`."""
    path = path.absolute()
    if not os.path.lexists(path):
        return Target(path, _EMPTY, None)
    return _target_of(read_source(str(path), DEFAULTS))


def _target_of(source: SourceText) -> Target:
    path, known = Path(str(source.file)), source.text.encode()
    if not source.text.removeprefix(BOM).strip():
        return Target(path, _EMPTY, known)
    config_of(source, strict=False)
    return Target(path, source.text, known)


def unknown(kind: str, name: str, known: Sequence[str], target: Target) -> ConfigError:
    problem = f"{kind.capitalize()} '{escape(name)}' not found"
    hint = nearest_or_known(name, known, "toolboxes" if kind == "toolbox" else "servers")
    return ConfigError(problem, file=target.path, hint=hint)


def _own() -> Path:
    return Path(user_config(os.environ))


_TONES: dict[str, Tone] = {"+": "good", "-": "bad", "@": "quiet"}
_SCHEMES = frozenset({"bearer", "basic", "token"})
"""Words that remain of a header whose variable is not set. They are no secrets."""


def differences(before: Target, after: Target) -> Iterator[Words]:
    """Unified diff of two texts, with the secrets of both redacted."""
    redactor = Redactor()
    redactor.hide(_secrets(before))
    redactor.hide(_secrets(after))
    old = before.text.splitlines() if before.known is not None else []
    file = str(after.path)
    for line in difflib.unified_diff(old, after.text.splitlines(), file, file, lineterm=""):
        yield Words(redactor(line), _TONES.get(line[:1], ""))


def _secrets(target: Target) -> set[str]:
    """Known secrets, values that look like secrets, and comments that contain one."""
    variables = Variables()
    for servers in target.servers().values():
        for name, entry in servers.items():
            without_secrets(entry, name, variables)
    known = {secret for secret in target.checked().secrets if not SCHEME_ALONE.fullmatch(secret)}
    source = SourceText(target.text)
    comments = [token.text.strip("/* ") for token in tokens(source) if token.kind == "comment"]
    comments += [text.raw for text in strings_in_comments(ValuePosition(source, parse(source), "", 0))]
    return {*known, *variables.secrets, *(text for text in comments if holds_secret(text))}
