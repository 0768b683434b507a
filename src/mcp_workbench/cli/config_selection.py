"""Chooses the configuration file of a command, and reads it once.

Guarantees: the file of the current folder is used only if the user trusted exactly these bytes, or has just seen at a
terminal what they start and said yes. A command uses the bytes that it compared or showed. Without a terminal, an
untrusted file is not even read. `serve` has the same rule, without the question.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from mcp_workbench import logger
from mcp_workbench.cli.display import is_terminal, write
from mcp_workbench.cli.json_output import print_failure
from mcp_workbench.cli.terminal import is_agreed, note, report
from mcp_workbench.config.jsonc.source import SourceText, read_source
from mcp_workbench.config.load import config_of
from mcp_workbench.config.locate import FILE_NAME, VARIABLE, find_config, has_project_file, user_config
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ConfigError, WorkbenchError
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known


def config_source(options: Mapping[str, str], *, may_ask: bool = True) -> SourceText:
    """Read the file for a command that starts servers or writes. Raises `ConfigError` or `TrustFailed`."""
    flag = options.get("config")
    if has_project_file(flag, os.environ):
        return _project_source(may_ask=may_ask and "json" not in options)
    return read_source(find_config(flag, os.environ), DEFAULTS)


def source_to_look_at(options: Mapping[str, str]) -> tuple[SourceText, bool]:
    """Read the file for a command that only parses it; also return whether other commands use it without asking.

    Raises `ConfigError` or `TrustFailed`.
    """
    flag = options.get("config")
    if not has_project_file(flag, os.environ):
        return read_source(find_config(flag, os.environ), DEFAULTS), True
    place, sha256 = _project()
    source = read_source(place, DEFAULTS)
    return source, sha256 == _digest(source)


def say_used(file: str, options: Mapping[str, str]) -> None:
    """Print on stderr which file is used, except for a script that named the file itself."""
    if (options.get("config") or os.environ.get(VARIABLE)) and not is_terminal(sys.stderr):
        return
    home = os.path.expanduser("~").rstrip("/")  # noqa: PTH111 -- pathlib is not loaded
    short = f"~{file.removeprefix(home)}" if home and file.startswith(f"{home}/") else file
    note(f"using {short}")


def _project_source(*, may_ask: bool) -> SourceText:
    """Read the file of the current folder, if the user trusts it or agrees to it."""
    place, sha256 = _project()
    is_there = may_ask and _is_person_there()
    if sha256 is None and not is_there:
        raise _not_trusted(place, is_changed=False)
    source = read_source(place, DEFAULTS)
    if _digest(source) != sha256 and not (is_there and _is_agreed(place, source, is_changed=sha256 is not None)):
        raise _not_trusted(place, is_changed=sha256 is not None)
    return source


def _project() -> tuple[str, str | None]:
    """The path of the current folder's file, and the digest that the user trusts."""
    from mcp_workbench.storage.trusted_configs import Trust, place_of  # noqa: PLC0415 -- most folders have no such file

    try:
        place = place_of(FILE_NAME)
    except OSError as error:
        raise ConfigError(f"this folder can't be used: {error.strerror}", file=FILE_NAME) from None
    known = Trust(os.environ).find(place)
    return place, known.sha256 if known is not None else None


def _digest(source: SourceText) -> str:
    from mcp_workbench.storage.trusted_configs import digest  # noqa: PLC0415 -- as above

    return digest(source)


def _not_trusted(place: str, *, is_changed: bool) -> ConfigError:
    from mcp_workbench.command_errors import ConfigNotTrusted  # noqa: PLC0415 -- as above

    own = user_config(os.environ)
    yours = f", or for your own: --config {escape(own, len(own))}" if os.path.lexists(own) else ""
    how = f"Look at it, then run 'mcp-workbench trust', or pass --config ./{FILE_NAME} to use it this once{yours}."
    return ConfigNotTrusted(place, is_changed=is_changed, hint=how)


def _is_person_there() -> bool:
    """Whether somebody can answer a question. It goes to stderr, since stdout may be a file."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def _is_agreed(place: str, source: SourceText, *, is_changed: bool) -> bool:
    """Show what the file starts, and ask whether to use it this once."""
    from mcp_workbench.cli.trust import show_contents  # noqa: PLC0415 -- most folders have no such file

    why = "has changed since you trusted it" if is_changed else "came with this folder, and you have not trusted it"
    show_contents(f"{place} {why}. It can start and reach:", source, to=sys.stderr)
    if not is_agreed("Use it this once?", to=sys.stderr):
        return False
    write("To stop being asked: mcp-workbench trust", to=sys.stderr)
    return True


def chosen(options: Mapping[str, str]) -> tuple[Config, tuple[str, ...]]:
    """Read the configuration; return it with the named toolbox, or with all. Raises `ConfigError`."""
    logger.log.set_level(log_level(options, default="error"))
    config = config_of(config_source(options))
    logger.guard(lambda: config.secrets)
    logger.log.redact.hide(config.secrets)
    if "json" not in options:  # the JSON document names the file
        say_used(config.file, options)
    toolbox = options.get("toolbox", "")
    if toolbox and toolbox not in config.toolboxes:
        problem = f"Toolbox '{escape(toolbox)}' not found"
        raise ConfigError(problem, file=config.file, hint=nearest_or_known(toolbox, config.toolboxes, "toolboxes"))
    return config, (toolbox,) if toolbox else tuple(config.toolboxes)


def log_level(options: Mapping[str, str], *, default: str) -> str:
    """The log level from `--log-level`, $WORKBENCH_LOG or the default. Raises `ConfigError`."""
    level = options.get("log_level") or os.environ.get("WORKBENCH_LOG") or default
    if level not in logger.LEVELS:
        raise ConfigError(f"WORKBENCH_LOG is '{escape(level)}'", hint=f"Set it to one of {', '.join(logger.LEVELS)}.")
    return level


def refuse(error: WorkbenchError, options: Mapping[str, str]) -> int:
    """Report an error as text or JSON; return the exit status."""
    return print_failure(error) if "json" in options else report(error)


def read_config(options: Mapping[str, str], *, always_say_file: bool = False) -> Config:
    """Read the configuration. A missing variable is not an error: it only affects its server. Raises `ConfigError`.

    Prints on stderr which file it is. With `--json` only if `always_say_file`: most documents name the file.
    """
    logger.log.set_level(log_level(options, default="error"))
    config = config_of(config_source(options), strict=False)
    logger.log.redact.hide(config.secrets)
    if always_say_file or "json" not in options:
        say_used(config.file, options)
    return config
