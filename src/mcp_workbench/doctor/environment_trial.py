"""Finds the variables of our environment that a server needs, by starting it with subsets of them.

Guarantees: a server gets only subsets of the offered variables, and never one of the workbench itself. Nothing is
inferred: the server has worked with the variables that are reported. The number of tries and their total time are
bounded. The caller must ask the user first.
"""

from __future__ import annotations

import glob
import json
import re
import shlex
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec

from mcp_workbench.config.environment import environment_of, is_own
from mcp_workbench.config.model import NO_STORE, CatalogConfig, Config, Launch, ServerConfig, ToolboxConfig
from mcp_workbench.config.raw_entries import RawServer
from mcp_workbench.doctor.examination import limited
from mcp_workbench.doctor.findings import Finding, Trial
from mcp_workbench.doctor.probe import probe_server
from mcp_workbench.limits import DEFAULTS, Limits
from mcp_workbench.text.sanitize import count, escape
from mcp_workbench.workbench import Workbench

TRIAL_START_SECONDS = 5.0
"""The shortest time limit of a try. A server that hangs without a variable uses it up each time."""
TRIAL_START_RATIO = 3.0
"""The time limit of a try as a multiple of the time that the first one took, which worked."""
TRIAL_NAMES_SHOWN = 12
"""Variables that the text output lists; `--json` lists all."""

Works = Callable[[Sequence[str]], Awaitable[bool]]
"""Tells whether a server works with these variables."""

_WORD = r"[A-Za-z]{3,}|[0-9]{3,}"


def withheld_variables(server: ServerConfig, environ: Mapping[str, str]) -> list[str]:
    """The variables that a local server does not get and that a trial may offer."""
    if not isinstance(server.target, Launch):
        return []
    given = environment_of(server.target, environ)
    return [name for name in environ if name not in given and not is_own(name)]


async def try_environment(
    server: ServerConfig,
    environ: Mapping[str, str],
    failure: str,
    on_try: Callable[[int], None] = lambda _: None,
    limits: Limits = DEFAULTS,
) -> Trial:
    """Start a server with our whole environment. If it works, search for the variables that it needs.

    `failure` is the text of its error: variables that it mentions are tried first.
    """
    groups = by_likelihood(withheld_variables(server, environ), failure, _clues(server))
    names = [name for group in groups for name in group]
    tries = _Tries(server, environ, on_try, limits)
    if not await tries.works(names):
        return Trial(outcome="no_help", tries=tries.count)
    try:
        needed = await smallest_set(tries.works, groups)
    except _OutOfTriesError:
        return Trial(outcome="narrowed", tries=tries.count, variables=tuple(sorted(tries.worked)))
    return Trial(outcome="found" if needed else "unsteady", tries=tries.count, variables=tuple(sorted(needed)))


def by_likelihood(names: Iterable[str], failure: str, clues: Iterable[str]) -> list[list[str]]:
    """Variables in three groups: mentioned in the error, sharing a word with the server, and the others."""
    words = {word.lower() for clue in clues for word in re.findall(_WORD, clue)}
    groups: list[list[str]] = [[], [], []]
    for name in sorted(names):
        is_named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", failure) is not None
        is_related = any(word.lower() in words for word in re.findall(_WORD, name))
        groups[0 if is_named else 1 if is_related else 2].append(name)
    return groups


async def smallest_set(works: Works, groups: Sequence[Sequence[str]]) -> list[str]:
    """The variables that it needs; empty if it works without any, or fails even with those found.

    It must work with all of them. Each round finds by bisection the last needed variable in their order: one of 100
    variables takes about 9 tries.
    """
    rest = [name for group in groups for name in group]
    sizes = [sum(map(len, groups[: end + 1])) for end in range(len(groups))]
    needed: list[str] = []
    while not await works(needed):
        if not rest:
            return []
        fails, succeeds = 0, len(rest)
        while succeeds - fails > 1:
            middle = next((size for size in sizes if fails < size < succeeds), (fails + succeeds) // 2)
            if await works([*needed, *rest[:middle]]):
                succeeds = middle
            else:
                fails = middle
        needed.append(rest[succeeds - 1])
        del rest[succeeds - 1 :]
    return needed


class _OutOfTriesError(Exception):
    """The limit of tries or of their time was reached."""


class _Tries:
    """Starts one server repeatedly, each time with different variables."""

    def __init__(
        self, server: ServerConfig, environ: Mapping[str, str], on_try: Callable[[int], None], limits: Limits
    ) -> None:
        self._server = server
        self._environ = environ
        self._on_try = on_try
        self._limits = limits
        self._deadline: float | None = None
        self.count = 0
        self.worked: list[str] = []
        """The variables of the last try that worked."""

    async def works(self, names: Sequence[str]) -> bool:
        """Raises `_OutOfTriesError`."""
        began = time.monotonic()
        if self.count >= self._limits.trial_tries or (self._deadline is not None and began > self._deadline):
            raise _OutOfTriesError
        self.count += 1
        self._on_try(self.count)
        is_working = await _works(with_variables(self._server, names, self._environ))
        if self._deadline is None:
            self._bound(time.monotonic() - began)
        if is_working:
            self.worked = list(names)
        return is_working

    def _bound(self, first_seconds: float) -> None:
        """Limit the next tries to a multiple of the first one, which had the server's own start-up time."""
        limits = self._limits
        self._deadline = time.monotonic() + limits.trial_seconds
        usual = limits.bounded(self._server.bounds).startup_timeout_seconds
        seconds = max(TRIAL_START_SECONDS, TRIAL_START_RATIO * first_seconds)
        self._server = limited(self._server, min(usual, seconds), self._limits)


def with_variables(server: ServerConfig, names: Sequence[str], environ: Mapping[str, str]) -> ServerConfig:
    """The server with these variables added. Their values count as secrets."""
    assert isinstance(server.target, Launch)  # noqa: S101 -- `withheld` names variables of local servers only
    added = {name: environ[name] for name in names}
    target = msgspec.structs.replace(server.target, env={**added, **server.target.env})
    return msgspec.structs.replace(server, target=target, secrets=server.secrets | set(filter(None, added.values())))


async def _works(server: ServerConfig) -> bool:
    """Whether a server starts and lists its tools. Nothing is cached or recorded."""
    toolbox = ToolboxConfig(name=server.toolbox, description="", servers={server.name: server})
    no_cache = CatalogConfig(path=NO_STORE)
    config = Config(file="", toolboxes={server.toolbox: toolbox}, catalog=no_cache, record="off")
    async with Workbench(config) as workbench:
        return (await probe_server(workbench, server)).state == "ok"


def _clues(server: ServerConfig) -> list[str]:
    """Words that hint at the variables a server needs: its name and its command line."""
    launch = server.target
    return [server.name, launch.command, *launch.args] if isinstance(launch, Launch) else []


# -- the finding


def finding_of(trial: Trial, entry: RawServer, file: str) -> Finding:
    """The outcome and the advice, with the names of variables and never their values.

    `file` is the configuration, if the advised command must name it.
    """
    if trial.outcome == "no_help":
        return Finding(
            code="environment_no_help",
            severity="note",
            message="it also fails with your whole environment",
            advice="The cause is something else, or a variable that is not set here: see the error above.",
        )
    if trial.outcome == "unsteady":
        return Finding(
            code="fails_sometimes",
            message=f"it sometimes works and sometimes fails with the same variables ({_count(trial)})",
            advice="Run doctor again. The cause may be the network, a port, a lock or a slow start.",
        )
    line, _ = entry.position.source.position(entry.position.node.start)
    shortcoming = ", which it does not get now"
    if trial.outcome == "narrowed":
        shortcoming = "; the search stopped before it knew which of them it needs"
    return Finding(
        code="variables_needed",
        severity="error",
        message=f"it works with {_listed_names(trial.variables)}{shortcoming} ({_count(trial)})",
        advice=_advice(trial, entry, file),
        path=entry.path,
        line=line,
    )


def _advice(trial: Trial, entry: RawServer, file: str) -> str:
    if len(trial.variables) > TRIAL_NAMES_SHOWN:
        return "Run doctor --try-environment again when the machine is less busy, or look up which variables it needs."
    patterns = [glob.escape(name) for name in trial.variables]
    names = [entry.toolbox, entry.name]
    options = [word for pattern in patterns for word in ("--inherit", pattern)]
    options += ["--config", file] if file else []
    is_plain = not any(name.startswith("-") for name in names)
    command = shlex.join(["mcp-workbench", "add", *([*names, *options] if is_plain else [*options, "--", *names])])
    own_patterns = [text.raw for text in entry.texts("inheritEnv")]
    member = json.dumps([*own_patterns, *patterns], ensure_ascii=False)
    return f'Run: {escape(command, len(command))} (or write "inheritEnv": {escape(member, len(member))} in its entry)'


def _listed_names(variables: Sequence[str]) -> str:
    first, rest = variables[:TRIAL_NAMES_SHOWN], len(variables) - TRIAL_NAMES_SHOWN
    return ", ".join(map(escape, first)) + (f" and {count(rest, 'more variable')}" if rest > 0 else "")


def _count(trial: Trial) -> str:
    return count(trial.tries, "try", "tries")
