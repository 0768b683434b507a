"""`mcp-workbench install`: adds the workbench to the configuration of one host or of all hosts on this machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mcp_workbench.cli.config_edit import Target, opened
from mcp_workbench.cli.config_selection import say_used
from mcp_workbench.cli.display import Words, write
from mcp_workbench.cli.host_report import Installed, as_json, as_text
from mcp_workbench.cli.host_selection import Done, finish, work_on_hosts
from mcp_workbench.cli.options import Given
from mcp_workbench.config.locate import VARIABLE, user_config
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts import files
from mcp_workbench.hosts.documents import HostDocument
from mcp_workbench.hosts.installation import current_entry, prepare
from mcp_workbench.hosts.registry import HOSTS, NAME, Host, HostEnvironment, HostFile, here, is_on_machine
from mcp_workbench.hosts.variables import inherited_in, looks_up
from mcp_workbench.hosts.workbench_entry import CONFIG, SERVE, Movable, WorkbenchEntry
from mcp_workbench.text.sanitize import escape

HELP = """Put the workbench into the configuration of a host, so that the host starts it.

HOST is claude-code, claude-desktop, cursor, vscode, windsurf, codex, gemini or zed. --all means every host on
this machine whose file, folder or program exists.

--remove-imported removes from the host the servers that the workbench now has. The values of their variables
stay in the host's file, in the entry of the workbench. A server stays in the host as long as the workbench
lacks one of the host's restrictions on it.

The file keeps its comments and layout, and a backup is kept next to it. 'mcp-workbench uninstall HOST'
restores everything."""

_PROGRAMS = ("mcp-workbench", "workbench-mcp")
_TEMPORARY = ("/archive-v", "/pipx/.cache/", "/.cache/pipx/")
"""Path fragments of the environments that `uvx` and `pipx run` create and later delete."""


class Setup(NamedTuple):
    """The inputs of an installation that are the same for every host."""

    options: Given
    around: HostEnvironment
    config: Path | None
    """The configuration to name in the host's entry; None if the workbench is to find its own."""
    name: str
    target: Target
    program: Mapping[str, object]
    values: Mapping[str, str]
    """The values from `--env` for the entry."""

    def __repr__(self) -> str:
        return f"Setup({self.file!r})"

    @property
    def file(self) -> str:
        """The configuration that the host's workbench will use."""
        return str(self.config or user_config(os.environ))

    def install(self, place: HostFile) -> Done:
        """Add the workbench to one host. Raises `HostFileError` or `ConfigError`."""
        _check_values(self.values, place.host)
        inherited, without_rules = inherited_in(self.target.tree), "without_rules" in self.options
        ours = WorkbenchEntry(
            place, self.around, self.program, self.target.servers(), self.values, inherited, without_rules
        )
        was_found = is_on_machine(place.host, self.around)
        with files.locked(place.path):
            both = _imported(ours, self.name)
            imported, twice = (both, []) if "remove_imported" in self.options else ([], both)
            planned = prepare(place, self.name, ours.entry, [one.server.path for one in imported if not one.stays])
            planned.write(files.SHARED if place.file.level == "project" else files.PRIVATE)
        done = Installed(ours, planned, imported, [one for one in twice if one.configured is not None], was_found)
        return Done(list(as_text(done)), as_json(done, self.file))

    def skip(self, place: HostFile) -> str:
        return "" if is_on_machine(place.host, self.around) else "not found on this machine"


def run(options: Given) -> int:
    setup = _setup(options)
    if setup.target.known is not None and "json" not in options:
        say_used(str(setup.target.path), options)
    outcomes = work_on_hosts(options, setup.around, setup.install, setup.skip)
    if not outcomes.hosts:
        hint = f"Name one: mcp-workbench install HOST ({', '.join(host.key for host in HOSTS)})"
        raise ConfigError("no MCP host was found on this machine", hint=hint)
    status = finish(outcomes, options)
    if "json" not in options and not Path(setup.file).exists():
        write(Words("There is no configuration yet: mcp-workbench import creates one from your hosts.", "doubtful"))
    return status


def _setup(options: Given) -> Setup:
    """Read the options. Raises `ConfigError`."""
    name, config = options.get("name", NAME), _config(options)
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        raise ConfigError(
            f"'{escape(name)}' is not a name that every host accepts", hint="Use letters, digits, - and _ only."
        )
    target = opened(config or Path(user_config(os.environ)))
    if "remove_imported" in options and target.known is None:
        raise ConfigError("there is no configuration yet", file=target.path, hint="Run mcp-workbench import first.")
    values = _values(options.all("env"))
    return Setup(options, here(os.environ), config, name, target, _command(options, config), values)


def _config(options: Mapping[str, str]) -> Path | None:
    """The configuration to name in the host's entry; None if the workbench is to find its own."""
    named = options.get("config") or os.environ.get(VARIABLE)
    return Path(named).expanduser().absolute() if named else None


def _command(options: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    command, *args = [_program(options["command"])] if "command" in options else installed_command()
    args += [SERVE, *([CONFIG, str(config)] if config else [])]
    for one in (command, *args):
        if not _is_text(one):
            raise ConfigError(
                f"this path is not UTF-8: {escape(one)}", hint="The files of hosts can't hold it. Choose another path."
            )
    return {"command": command, "args": args}


def _program(named: str) -> str:
    """A program by absolute path, unless it is a name that the host looks up on its own PATH."""
    return str(Path(named).expanduser().absolute()) if os.sep in named else named


def _values(names: Sequence[str]) -> dict[str, str]:
    """The current values of these variables. Errors never repeat a value: it may be a secret."""
    if any("=" in name for name in names):
        raise ConfigError("--env takes only the name of a variable", hint="Set it first: export NAME=value")
    unset = [escape(name) for name in names if name not in os.environ]
    if unset:
        raise ConfigError(f"not set in the environment: {', '.join(unset)}", hint="Set it first: export NAME=value")
    values = {name: os.environ[name] for name in names}
    for name, value in values.items():
        if not _is_text(value):
            raise ConfigError(f"the value of {escape(name)} is not UTF-8", hint="The files of hosts can't hold it.")
    return values


def _check_values(values: Mapping[str, str], host: Host) -> None:
    """Raise `ConfigError` if the host would expand a part of a value."""
    for name, value in values.items():
        if looks_up(host.references, value):
            problem = f"{host.title} would expand a part of the value of {escape(name)} as a variable"
            raise ConfigError(problem, hint=f"Leave out --env {escape(name)}; set it where {host.title} starts.")


def _is_text(text: str) -> bool:
    """Whether a text is valid UTF-8. Other bytes become lone surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def installed_command() -> list[str]:
    """The absolute command that starts this program: hosts and terminals have different PATHs.

    Raises `ConfigError` if only a temporary copy exists: the host would soon find nothing there.
    """
    own = [Path(sys.executable).with_name(name) for name in _PROGRAMS]
    on_path = [Path(folder, name) for name in _PROGRAMS for folder in os.get_exec_path()]
    for path in (Path(sys.argv[0]).absolute(), *own, *on_path):
        if path.name in _PROGRAMS and path.is_file() and os.access(path, os.X_OK) and not _is_temporary(path):
            return [str(path)]
    if _is_temporary(Path(sys.prefix)):
        raise ConfigError(
            "this copy of mcp-workbench is temporary: uvx and pipx run delete it, and the host would not find it",
            hint="Install it first, from a clone: pipx install . (or: uv tool install .). Or pass --command PROGRAM.",
        )
    return [sys.executable, "-m", "mcp_workbench"]


def _is_temporary(path: Path) -> bool:
    return any(fragment in path.as_posix() for fragment in _TEMPORARY)


def _imported(ours: WorkbenchEntry, name: str) -> list[Movable]:
    """The servers in the host's file that the workbench has too."""
    place = ours.host_file
    document = HostDocument.decoded(files.read(place.path) or b"", place.file.syntax, str(place.path))
    return ours.movable(document, current_entry(place, name))
