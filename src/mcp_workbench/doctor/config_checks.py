"""Checks a configuration without starting anything: the file, and each server in it.

`written_secrets` finds the secrets that stand in the file, and `hidden` redacts them. After `inspect`, the secrets of
the file appear in no log and no error.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from mcp_workbench import logger
from mcp_workbench.config.environment import HOST_FOLDERS, environment_of
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.keys import URL_KEYS
from mcp_workbench.config.load import config_of
from mcp_workbench.config.model import Config, ConfigWarning, Endpoint, ServerConfig
from mcp_workbench.config.raw_entries import RawServer, RawText, raw_servers, strings
from mcp_workbench.config.secret_patterns import secret_parts
from mcp_workbench.config.servers import OPEN_WIRE
from mcp_workbench.doctor.findings import Finding
from mcp_workbench.doctor.installed_packages import installed_version
from mcp_workbench.doctor.packages import Package, fetched_packages
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.text.sanitize import escape, slashed

_DEFAULT: Final = r"\$\{([A-Za-z_][A-Za-z0-9_]{0,200}):-([^}$]{1,2000})\}"
HIDDEN: Final = "***"
_INERT: Final = r"[A-Za-z0-9+/_=.~-]+"
"""Characters without a meaning in shells, interpreters and addresses."""


def written_secrets(server: RawServer) -> Iterator[tuple[RawText, tuple[str, ...]]]:
    """The strings of a server's entry that hold a secret, each with its secret parts."""
    previous = ""
    for text in strings(server.position):
        name = previous if text.name == "args" and previous.startswith("-") else text.name
        parts = secret_parts(name, text.literal, is_address=text.name in URL_KEYS)
        for variable, default in re.findall(_DEFAULT, text.raw):
            parts += tuple(part for part in secret_parts(variable, default) if part not in parts)
        if parts:
            yield text, parts
        previous = text.raw if text.name == "args" and "=" not in text.raw else ""


def hidden(text: str, parts: Iterable[str]) -> str:
    """A text without these secrets. A part that might be more than a secret, such as a program, stays visible."""
    for part in parts:
        text = text.replace(part, HIDDEN) if re.fullmatch(_INERT, part) else text
    return text


Secrets: TypeAlias = Mapping[str, list[tuple[RawText, tuple[str, ...]]]]
"""The strings with secrets of each server and their secret parts, by the path of the server."""

UNPINNED: Final = "unpinned_package"
CONFIG_WARNING: Final = "config_warning"
_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"


class ConfigChecks(NamedTuple):
    """The findings about a file and about each server in it, before any is started."""

    config: Config
    file_findings: tuple[Finding, ...]
    server_findings: Mapping[ServerIdentifier, tuple[Finding, ...]]
    entries: Mapping[ServerIdentifier, RawServer]

    def findings_of(self, server: ServerIdentifier) -> tuple[Finding, ...]:
        return self.server_findings.get(server, ())

    def warnings(self) -> list[Finding]:
        """The warnings in the order of the file, for `check`, `add` and `doctor`."""
        findings = (*self.file_findings, *(finding for group in self.server_findings.values() for finding in group))
        return sorted(
            (finding for finding in findings if finding.severity == "warning"),
            key=lambda finding: (finding.line, finding.column),
        )


def inspect(source: SourceText) -> ConfigChecks:
    """Check a file that was read. Raises `ConfigError` if it is invalid.

    From now on, no log and no error shows the secrets in it.
    """
    config = config_of(source, strict=False)
    entries = raw_servers(source)
    secrets = {server.path: list(written_secrets(server)) for server in entries}
    logger.log.redact.hide(part for texts in secrets.values() for _, parts in texts for part in parts)
    logger.log.redact.hide(config.secrets)
    by_identifier = {entry.identifier: entry for entry in entries}
    findings: dict[ServerIdentifier, tuple[Finding, ...]] = {}
    for server in config.servers():
        entry = by_identifier[server.identifier]
        warnings = (warning for warning in config.warnings if _is_within(warning, entry.path))
        findings[server.identifier] = (
            *(_secret_finding(text) for text, _ in secrets[entry.path]),
            *_server_findings(server, entry),
            *map(_warning_finding, warnings),
        )
    file_findings = _file_findings(config, entries, secrets, is_open=source.readable_by_others)
    return ConfigChecks(config, tuple(file_findings), _with_duplicates(config, findings, by_identifier), by_identifier)


# -- the file


def _file_findings(config: Config, entries: list[RawServer], secrets: Secrets, *, is_open: bool) -> Iterator[Finding]:
    enabled = {server.identifier for server in config.servers()}
    paths = [entry.path for entry in entries if entry.identifier in enabled]
    for entry in entries:
        if entry.identifier not in enabled:
            yield from (_secret_finding(text) for text, _ in secrets[entry.path])
    for warning in config.warnings:
        if not any(_is_within(warning, path) for path in paths):
            yield _warning_finding(warning)
    if is_open and any(secrets.values()):
        yield Finding(
            code="file_readable",
            message="other users of this machine can read the file, and it contains secrets",
            advice=f"Make it private: chmod 600 {shlex.quote(escape(config.file, len(config.file)))}",
        )
    if not enabled:
        advice = "Import those of your hosts: mcp-workbench import; or add one: mcp-workbench add"
        yield Finding(code="no_servers", message="no server is configured", advice=advice)


def _is_within(warning: ConfigWarning, path: str) -> bool:
    return warning.path == path or warning.path.startswith((f"{path}.", f"{path}["))


def _warning_finding(warning: ConfigWarning) -> Finding:
    return Finding(
        code=CONFIG_WARNING,
        message=warning.message,
        advice=f"Look at line {warning.line} of the file; mcp-workbench docs configuration describes every key.",
        path=warning.path,
        line=warning.line,
        column=warning.column,
    )


# -- one server


def _how_to_set(variable: str) -> str:
    here = f"To try it here: export {variable}=value."
    if variable in HOST_FOLDERS:
        return f"{here} The host that the server came from sets it to the folder that is open there."
    entry = f"in its entry for the workbench: mcp-workbench install HOST --env {variable}"
    return f"{here} A host needs it in its own environment, or {entry}"


def _server_findings(server: ServerConfig, entry: RawServer) -> Iterator[Finding]:
    for missing in server.missing:
        yield Finding(
            code="variable_missing",
            severity="error",
            message=f"the environment variable {missing.variable} is not set",
            advice=_how_to_set(missing.variable),
            path=missing.path,
            line=missing.line,
            column=missing.column,
        )
    if isinstance(server.target, Endpoint):
        yield from _endpoint_findings(server.target, entry)
    else:
        yield from unpinned(server, entry)


def _endpoint_findings(endpoint: Endpoint, entry: RawServer) -> Iterator[Finding]:
    if re.match(OPEN_WIRE, endpoint.url):
        yield Finding(
            code="no_tls",
            message="it is reached over http, so anybody on the network path can read and change the messages",
            advice="Write https:// in its url, or use a tunnel that ends on this machine.",
            **_position_of(entry),
        )


def _position_of(entry: RawServer) -> dict[str, Any]:
    line, column = entry.position.source.position(entry.position.node.start)
    return {"path": entry.path, "line": line, "column": column}


def unpinned(server: ServerConfig, entry: RawServer, reported: str = "") -> Iterator[Finding]:
    """Findings for packages that a command fetches without a version. `reported` is the version in the serverInfo."""
    if isinstance(server.target, Endpoint):
        return
    environ = environment_of(server.target, os.environ)
    arguments = [text.raw for text in entry.texts("args")]
    for package in fetched_packages(entry.text("command"), arguments):
        if package.is_pinned or secret_parts("", package.spec):
            continue
        text = next((text for text in entry.texts("args") if package.spec in text.raw), None)
        yield Finding(
            code=UNPINNED,
            message="a package is fetched without a fixed version, so each start may run different code",
            item=escape(package.spec),
            advice=_pin_advice(package, environ, reported),
            path=f"{entry.path}.args",
            line=text.line if text is not None else 0,
            column=text.column if text is not None else 0,
        )


def _pin_advice(package: Package, environ: Mapping[str, str], reported: str) -> str:
    if version := installed_version(package, environ, reported):
        return f"Pin the version that is installed: {escape(package.with_version(version))}"
    says = f" (the server reports version {escape(reported)})" if reported else ""
    return f"Pin the version that you tested: {escape(package.example)}{says}"


def _secret_finding(text: RawText) -> Finding:
    variable = text.name.upper() if re.fullmatch(_NAME, text.name) and text.name not in ("args", "url") else "NAME"
    return Finding(
        code="secret_in_file",
        message="the file contains a secret",
        advice=f"Put it into an environment variable and write ${{{variable}}} here. "
        "Replace the secret if others had access to the file.",
        path=text.path,
        line=text.line,
        column=text.column,
    )


# -- several servers


def _with_duplicates(
    config: Config,
    findings: Mapping[ServerIdentifier, tuple[Finding, ...]],
    entries: Mapping[ServerIdentifier, RawServer],
) -> dict[ServerIdentifier, tuple[Finding, ...]]:
    first: dict[tuple[object, ...], ServerConfig] = {}
    result = dict(findings)
    for server in config.servers():
        other = first.setdefault(_identity(server), server)
        is_meant = server.name == other.name and server.toolbox != other.toolbox
        if other is not server and not is_meant and not server.missing:
            result[server.identifier] += (_duplicate_finding(other, entries[server.identifier]),)
    return result


def _identity(server: ServerConfig) -> tuple[object, ...]:
    target = server.target
    if isinstance(target, Endpoint):
        return (target.url, tuple(sorted(target.headers.items())))
    return (target.command, target.args, tuple(sorted(target.env.items())), str(target.cwd))


def _duplicate_finding(other: ServerConfig, entry: RawServer) -> Finding:
    name = slashed(other.toolbox, other.name)
    return Finding(
        code="duplicate_server",
        message=f"it is the same server as {name}, so it runs twice and agents see its tools twice",
        advice="Remove one of the two; toolFilters can choose the tools of the other.",
        **_position_of(entry),
    )
