"""Warnings about a configuration file, in one form for `check` and `add`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mcp_workbench.cli.display import Words
from mcp_workbench.doctor.entries import CONFIG_WARNING
from mcp_workbench.doctor.findings import Finding
from mcp_workbench.text.sanitize import escape


def warning_lines(file: str, warnings: Iterable[Finding]) -> Iterator[Words]:
    """Warnings for people: the position first, as editors and terminals recognise it."""
    for warning in warnings:
        where = f"{escape(file, len(file))}:"
        if warning.path:
            where += f"{warning.line}:{warning.column}: {warning.path}:" if warning.line else f" {warning.path}:"
        yield Words(f"warning: {where} {warning.text}", "doubtful")
        if warning.code != CONFIG_WARNING:  # those say themselves what to do
            yield Words(f"do: {warning.advice}", indent=2)


def warnings_json(warnings: Iterable[Finding]) -> list[dict[str, Any]]:
    """Warnings for programs."""
    members = ("code", "path", "line", "column", "advice")
    return [
        {member: getattr(warning, member) for member in members} | {"message": warning.text} for warning in warnings
    ]
