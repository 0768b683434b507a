"""What a change of a configuration looks like, line by line, without its secrets."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from mcp_workbench.cli.config_edit import Target
from mcp_workbench.cli.display import Tone, Words
from mcp_workbench.config.fields import Place
from mcp_workbench.config.jsonc.edit import parse
from mcp_workbench.config.jsonc.parser import tokens
from mcp_workbench.config.jsonc.source import Source
from mcp_workbench.config.raw_entries import commented
from mcp_workbench.hosts.secrets import Variables, holds_secret, without_secrets
from mcp_workbench.text.redact import Redactor

_TONES: dict[str, Tone] = {"+": "good", "-": "bad", "@": "quiet"}
_SCHEMES = frozenset({"bearer", "basic", "token"})
"""What is left of a header whose variable is not set."""


def differences(before: Target, after: Target) -> Iterator[Words]:
    """The lines that go and come, and a few around them. No secret of either is in it."""
    redactor = Redactor()
    redactor.hide(_secrets(before))
    redactor.hide(_secrets(after))
    old = before.text.splitlines() if before.known is not None else []
    file = str(after.path)
    for line in difflib.unified_diff(old, after.text.splitlines(), file, file, lineterm=""):
        yield Words(redactor(line), _TONES.get(line[:1], ""))


def _secrets(target: Target) -> set[str]:
    """The secrets of the configuration, values that look like secrets, and comments of both kinds that contain one."""
    variables = Variables()
    for servers in target.servers().values():
        for name, entry in servers.items():
            without_secrets(entry, name, variables)
    known = {secret for secret in target.checked().secrets if secret.strip().lower() not in _SCHEMES}
    source = Source(target.text)
    comments = [token.text.strip("/* ") for token in tokens(source) if token.kind == "comment"]
    comments += [text.written for text in commented(Place(source, parse(source), "", 0))]
    return {*known, *variables.secrets, *(text for text in comments if holds_secret(text))}
