"""Runs `install` and `uninstall` for the named host, or with --all for each host that applies.

Guarantees: with --all, a failing host does not stop the others. Every host is reported as done, failed or skipped, with
the reason. The exit status is 1 if one failed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mcp_workbench.cli.display import Block, Words, write
from mcp_workbench.cli.json_output import failure, print_json
from mcp_workbench.cli.terminal import FAILURE, hint_of
from mcp_workbench.command_errors import HostFileError
from mcp_workbench.errors import ConfigError
from mcp_workbench.hosts.registry import HOSTS, Host, HostEnvironment, HostFile, host_file_of, host_named
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import nearest_or_known

NOT_BY_PROJECT = "has no project files"


class Done(NamedTuple):
    """The report about one host, as text and as JSON."""

    blocks: Sequence[Block]
    document: dict[str, Any]

    @property
    def is_ok(self) -> bool:
        return self.document["ok"]


class Outcomes(NamedTuple):
    """The reports of all hosts."""

    hosts: list[Done]
    skipped: list[tuple[Host, str]]
    """Each with the reason."""


Work = Callable[[HostFile], Done]
"""Changes one host. Raises `HostFileError` or `ConfigError`."""
Skip = Callable[[HostFile], str]
"""Returns why to skip a host, or an empty text. Raises `HostFileError`."""


def work_on_hosts(options: Mapping[str, str], around: HostEnvironment, work: Work, skip: Skip) -> Outcomes:
    """Run `work` for the chosen hosts and report each. Errors of a named host propagate."""
    if "all" not in options:
        done = work(_named_host_file(options, around))
        _report(done, options)
        return Outcomes([done], [])
    if "host" in options:
        raise ConfigError("--all excludes the name of a host", hint="Leave out one of them.")
    outcomes = Outcomes([], [])
    for host in HOSTS:
        _work_on(host, options, around, (work, skip), outcomes)
    return outcomes


def finish(outcomes: Outcomes, options: Mapping[str, str]) -> int:
    """Report the skipped hosts, and with --json all hosts; return the exit status."""
    if "json" in options:
        _print_documents(outcomes, options)
    else:
        write(*_skipped_lines(outcomes))
    return 0 if all(one.is_ok for one in outcomes.hosts) else FAILURE


def _print_documents(outcomes: Outcomes, options: Mapping[str, str]) -> None:
    if "all" not in options:
        print_json(outcomes.hosts[0].document)
        return
    documents = [one.document for one in outcomes.hosts]
    skipped = [{"host": host.key, "reason": reason} for host, reason in outcomes.skipped]
    print_json({"ok": all(one.is_ok for one in outcomes.hosts), "hosts": documents, "skipped": skipped})


def _work_on(
    host: Host, options: Mapping[str, str], around: HostEnvironment, how: tuple[Work, Skip], outcomes: Outcomes
) -> None:
    work, skip = how
    place = _host_file(host, options, around)
    try:
        reason = skip(place) if place is not None else NOT_BY_PROJECT
        if place is None or reason:
            outcomes.skipped.append((host, reason))
            return
        done = work(place)
    except (HostFileError, ConfigError) as error:
        blocks = [Words(f"{host.title}: failed: {error}", "bad"), f"  hint: {hint_of(error)}"]
        done = Done(blocks, {"host": host.key, **failure(error)})
    outcomes.hosts.append(done)
    _report(done, options)


def _report(done: Done, options: Mapping[str, str]) -> None:
    if "json" not in options:
        write(*done.blocks)


def _skipped_lines(outcomes: Outcomes) -> list[Block]:
    reasons: dict[str, list[str]] = {}
    for host, reason in outcomes.skipped:
        reasons.setdefault(reason, []).append(host.title)
    return [Words(f"skipped: {', '.join(titles)}: {reason}", "quiet") for reason, titles in reasons.items()]


def _named_host_file(options: Mapping[str, str], around: HostEnvironment) -> HostFile:
    """The file of the named host. Raises `ConfigError`."""
    if "host" not in options:
        names = ", ".join(host.key for host in HOSTS)
        raise ConfigError("which host?", hint=f"Name one ({names}), or pass --all.")
    host = _host(options["host"])
    place = _host_file(host, options, around)
    if place is None:
        raise ConfigError(f"{host.title} {NOT_BY_PROJECT}", hint="Leave out --project.")
    return place


def _host_file(host: Host, options: Mapping[str, str], around: HostEnvironment) -> HostFile | None:
    return host_file_of(host, "project" if "project" in options else "user", around)


def _host(name: str) -> Host:
    host = host_named(name)
    if host is None:
        hint = nearest_or_known(name, [one.key for one in HOSTS], "hosts")
        raise ConfigError(f"there is no host '{escape(name)}'", hint=hint)
    return host
