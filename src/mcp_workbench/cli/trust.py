"""`mcp-workbench trust`: trusts the current version of a project's configuration."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from shlex import join, quote
from typing import NamedTuple, TextIO

from mcp_workbench import logger
from mcp_workbench.cli.display import Block, Column, Table, Tone, Words, is_terminal, write
from mcp_workbench.cli.json_output import print_json
from mcp_workbench.cli.terminal import FAILURE, is_agreed
from mcp_workbench.command_errors import TrustFailed
from mcp_workbench.config.jsonc.source import BOM, SourceText, read_source
from mcp_workbench.config.load import config_of
from mcp_workbench.config.locate import FILE_NAME
from mcp_workbench.config.raw_entries import RawServer, RawText, raw_servers
from mcp_workbench.config.secret_patterns import secret_parts
from mcp_workbench.doctor.config_checks import HIDDEN, hidden, written_secrets
from mcp_workbench.errors import ConfigError
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.storage.trusted_configs import Standing, Trust, TrustedFile, digest, place_of, standing
from mcp_workbench.text.sanitize import escape, slashed

HELP = """Trust the workbench-config.json of a project: the one in this folder, or FILE.

'mcp-workbench serve' and all other commands then use the file when they run in that folder. Without trust,
serve ignores it and other commands ask first. Before you decide, you see which programs it starts and which
addresses it reaches.

Trust applies to the exact content of the file in this folder: if a byte changes, you have to trust it again.
Trust does not cover the programs themselves, which may change."""

_TONES: dict[Standing, Tone] = {"trusted": "good", "changed": "doubtful", "gone": "quiet"}
_PLAIN = r"[^\s,']*"


def run(options: Mapping[str, str]) -> int:
    logger.log.set_level("error")
    if "list" in options and ("remove" in options or "file" in options):
        raise ConfigError("--list excludes a file and --remove", hint="It lists all trusted files.")
    trust = Trust(os.environ)
    if "list" in options:
        return _list(trust, options)
    place = _find_file(options.get("file", FILE_NAME))
    return _remove(trust, place, options) if "remove" in options else _add(trust, place, options)


def _find_file(file: str) -> str:
    """The path of the file; a folder stands for the file in it. Raises `ConfigError`."""
    named = os.path.expanduser(file)  # noqa: PTH111 -- any text from the command line
    is_gone = not os.path.lexists(named) and not named.endswith(".json")
    if is_gone or os.path.isdir(named):  # noqa: PTH112 -- same
        named = os.path.join(named, FILE_NAME)  # noqa: PTH118 -- same
    if os.path.basename(named) != FILE_NAME:  # noqa: PTH119 -- same
        hint = "Serve another file with --config FILE: it is used without trust."
        raise ConfigError(f"only {FILE_NAME} is used automatically", hint=hint)
    try:
        return place_of(named)
    except OSError as error:
        raise ConfigError(f"this folder can't be used: {error.strerror}", file=file) from None


# -- trusted files


class _ListedConfig(NamedTuple):
    file: TrustedFile
    state: Standing

    def as_json(self) -> dict[str, str]:
        file = self.file
        return {"path": file.path, "state": self.state, "sha256": file.sha256, "since": file.since}


def _list(trust: Trust, options: Mapping[str, str]) -> int:
    files = [_ListedConfig(file, standing(file)) for file in trust.files()]
    if "json" in options:
        print_json({"ok": True, "files": [listed.as_json() for listed in files]})
    elif files:
        rows = [(Words(listed.state, _TONES[listed.state]), listed.file.since, listed.file.path) for listed in files]
        write(Table((Column(is_whole=True), Column(tone="quiet", is_whole=True), Column()), rows))
    else:
        write("No file is trusted.")
    return 0


def _remove(trust: Trust, place: str, options: Mapping[str, str]) -> int:
    was = trust.remove(place)
    if "json" in options:
        print_json({"ok": True, "path": place, "removed": was})
    else:
        write(f"{place} {'is no longer trusted' if was else 'was not trusted'}.")
    return 0


# -- a new file


def _add(trust: Trust, place: str, options: Mapping[str, str]) -> int:
    if not os.path.lexists(place):
        hint = "Run it in the folder of a project that has one, or name that folder."
        raise ConfigError("cannot be read: no such file or directory", file=place, hint=hint)
    source = read_source(place, DEFAULTS)
    config_of(source, strict=False)  # reports an invalid file before anything is trusted
    sha256 = digest(source)
    known = trust.find(place)
    if known is None or known.sha256 != sha256:
        if "yes" not in options and not _is_agreed(place, source, is_changed=known is not None):
            write("The file is not trusted.")
            return FAILURE
        trust.add(place, sha256)
    if "json" in options:
        print_json({"ok": True, "path": place, "sha256": sha256})
    else:
        write(f"{place} is trusted. 'mcp-workbench serve' and other commands use it in that folder.")
    return 0


def _is_agreed(place: str, source: SourceText, *, is_changed: bool) -> bool:
    """Show what the file starts, and ask. Raises `TrustFailed` without a terminal."""
    if not is_terminal(sys.stdin) or not is_terminal(sys.stdout):
        hint = "Look at the file, then run this at a terminal or with --yes."
        raise TrustFailed("there is no terminal, so you can't be asked", hint=hint)
    changed = " has changed since you trusted it. It" if is_changed else ""
    show_contents(f"{place}{changed} can start and reach:", source)
    return is_agreed("Trust this version of the file?")


def show_contents(title: str, source: SourceText, *, to: TextIO | None = None) -> None:
    """Show what a file starts and reaches. Raises `ConfigError` if it is invalid."""
    servers: list[RawServer] = []
    if source.text.removeprefix(BOM).strip():
        config_of(source, strict=False)
        servers = [server for server in raw_servers(source) if not server.is_disabled]
    write(title, *([] if servers else ["", "nothing"]), to=to)
    for server in servers:
        write("", *described(server), to=to)
    write("", to=to)
    if any(True for server in servers for _ in written_secrets(server)):
        write(f"{HIDDEN} replaces values of the file that look like secrets.", to=to)
    write(Words("These programs run with your permissions.", "doubtful"), to=to)


def described(server: RawServer) -> Iterator[Block]:
    """What an entry starts or reaches, as written, with secrets hidden."""
    rows = [(key, escape(value, len(value))) for key, value in _lines(server) if value]
    yield Words(slashed(server.toolbox, server.name), "strong")
    yield Table((Column(tone="quiet", is_whole=True), Column()), rows, indent=2)


def _lines(server: RawServer) -> Iterator[tuple[str, str]]:
    secret = {text.path: parts for text, parts in written_secrets(server)}
    arguments = [hidden(text.raw, secret.get(text.path, ())) for text in server.texts("args")]
    yield "starts", _command_line(server.text("command"), arguments)
    yield "in", server.text("cwd")
    yield "sets", ", ".join(_setting(text, secret.get(text.path, ())) for text in server.texts("env"))
    yield "reaches", hidden(server.url, secret_parts("", server.url, is_address=True))
    yield "sends", ", ".join(server.map("headers"))
    yield "is given", ", ".join([*server.variables(), *server.inherits()])


def _command_line(command: str, arguments: list[str]) -> str:
    """Quote a command for a shell, so that it is clear where each argument ends."""
    return join([command, *arguments]) if command else ""


def _setting(text: RawText, secret: tuple[str, ...]) -> str:
    """A variable with its value, quoted if needed."""
    value = hidden(text.raw, secret)
    return f"{text.name}={value if re.fullmatch(_PLAIN, value) else quote(value)}"
