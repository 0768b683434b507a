"""How the variables that a server needs are found: with few tries, and named only if they were seen to work."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench import logger
from mcp_workbench.config.jsonc.source import SourceText
from mcp_workbench.config.model import Endpoint, Launch, ServerConfig
from mcp_workbench.config.raw_entries import RawServer, raw_servers
from mcp_workbench.doctor.environment_trial import (
    TRIAL_NAMES_SHOWN,
    by_likelihood,
    finding_of,
    smallest_set,
    try_environment,
    with_variables,
    withheld_variables,
)
from mcp_workbench.doctor.findings import Trial
from mcp_workbench.limits import Limits

NEEDY = Path(__file__).parents[1] / "peers" / "needy_server.py"
NAMES = st.lists(st.integers(0, 99).map("V{:02}".format), unique=True, min_size=1)


class Server:
    """Works with some sets of variables; counts how often it is asked."""

    def __init__(self, works: Callable[[frozenset[str]], bool]) -> None:
        self.tries: list[frozenset[str]] = []
        self._works = works

    async def works(self, names: Sequence[str]) -> bool:
        self.tries.append(frozenset(names))
        return self._works(self.tries[-1])


# -- the search


@given(NAMES, st.data())
def test_exactly_the_variables_that_are_needed_are_found_with_few_tries(names: list[str], data: st.DataObject):
    needed = set(data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1, max_size=4)))
    cuts = sorted(data.draw(st.tuples(st.integers(0, len(names)), st.integers(0, len(names)))))
    groups = [names[: cuts[0]], names[cuts[0] : cuts[1]], names[cuts[1] :]]
    server = Server(needed.issubset)
    assert set(asyncio.run(smallest_set(server.works, groups))) == needed
    assert len(server.tries) <= 1 + len(needed) * (math.ceil(math.log2(len(names))) + 1 + len(groups))


@given(NAMES, st.randoms(use_true_random=False))
def test_what_is_named_was_seen_to_work_whatever_the_server_does(names: list[str], chance: Random):
    """A variable may also do harm, and a server may answer at random."""
    seen: dict[frozenset[str], bool] = {}

    def works(some: frozenset[str]) -> bool:
        seen[some] = chance.random() < 0.5
        return seen[some]

    found = asyncio.run(smallest_set(Server(works).works, [names]))
    assert not found or seen[frozenset(found)]
    assert set(found) <= set(names)


def test_one_of_a_hundred_takes_about_ten_tries():
    names = [f"V{number:02}" for number in range(100)]
    most = 0
    for name in names:
        server = Server({name}.issubset)
        assert asyncio.run(smallest_set(server.works, [names])) == [name]
        most = max(most, len(server.tries))
    assert most <= 9  # and one with the whole environment


def test_likely_variables_come_first():
    said = "KeyError: 'NOTES_HOME' (NOTES_HOMES is something else)"
    names = ["ZED", "NOTES_HOME", "NOTES_HOMES_2", "GITHUB_TOKEN", "HOMES", "A"]
    groups = by_likelihood(names, said, ["my-github", "npx", "@scope/server"])
    assert groups == [["NOTES_HOME"], ["GITHUB_TOKEN"], ["A", "HOMES", "NOTES_HOMES_2", "ZED"]]


# -- what a server is given


def test_a_trial_gives_a_server_everything_but_the_variables_of_the_workbench_itself():
    launch = Launch(command="x", env={"OWN": "its own"}, inherit_env=("NAMED",))
    server = ServerConfig(name="s", toolbox="t", target=launch, secrets=frozenset({"its own"}))
    environ = {"HOME": "/h", "NAMED": "n", "OWN": "ours", "KEY": "secret-1", "EMPTY": "", "WORKBENCH_TOKEN": "t"}
    assert withheld_variables(server, environ) == ["KEY", "EMPTY"]
    tried = with_variables(server, ["KEY", "EMPTY"], environ)
    assert isinstance(tried.target, Launch)
    assert tried.target.env == {"OWN": "its own", "KEY": "secret-1", "EMPTY": ""}
    assert tried.secrets == {"its own", "secret-1"}
    remote = ServerConfig(name="s", toolbox="t", target=Endpoint(url="https://a.example"))
    assert withheld_variables(remote, environ) == []


# -- with a real server


@pytest.fixture
def needy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerConfig:
    """It needs V03 and V07; how it fails does not tell."""
    monkeypatch.setattr(logger, "log", logger.Log())
    (tmp_path / "needs").write_text("V03 V07")
    launch = Launch(command=sys.executable, args=("-I", "-S", str(NEEDY), "start", str(tmp_path)))
    return ServerConfig(name="s", toolbox="t", target=launch)


ENVIRON = {f"V{number:02}": f"secret-{number}" for number in range(12)}


async def test_a_search_that_takes_too_many_tries_names_what_worked_last(needy: ServerConfig):
    trial = await try_environment(needy, ENVIRON, "", limits=Limits(trial_tries=4))
    assert (trial.outcome, trial.tries) == ("narrowed", 4)
    assert {"V03", "V07"} < set(trial.variables) < set(ENVIRON)


async def test_a_search_that_takes_too_long_ends(needy: ServerConfig):
    trial = await try_environment(needy, ENVIRON, "", limits=Limits(trial_seconds=0.0))
    assert trial == Trial(outcome="narrowed", tries=1, variables=tuple(ENVIRON))


async def test_a_server_that_fails_by_chance_is_told_from_one_that_lacks_a_variable(
    needy: ServerConfig, tmp_path: Path
):
    (tmp_path / "needs").write_text("")
    trial = await try_environment(needy, ENVIRON, "")
    assert trial == Trial(outcome="unsteady", tries=2)


# -- what is said


def written(entry: str = '{"command": "x", "inheritEnv": ["GIT_*"]}', name: str = "s") -> RawServer:
    text = f'{{"toolboxes": {{"a b": {{"description": "d", "mcpServers": {{\n"{name}": {entry}}}}}}}}}'
    [server] = raw_servers(SourceText(text, "c.json"))
    return server


def test_the_advice_is_a_command_and_a_line_for_the_file():
    finding = finding_of(Trial(outcome="found", tries=1, variables=("A", "B[0]")), written(), "/c d.json")
    assert finding.message == "it works with A, B[0], which it does not get now (1 try)"
    assert finding.advice == (
        "Run: mcp-workbench add 'a b' s --inherit A --inherit 'B[[]0]' --config '/c d.json' "
        '(or write "inheritEnv": ["GIT_*", "A", "B[[]0]"] in its entry)'
    )
    found = finding_of(Trial(outcome="found", tries=1, variables=("A",)), written(), "")
    assert found.advice.startswith("Run: mcp-workbench add 'a b' s --inherit A (or write")
    assert (finding.path, finding.line) == ('toolboxes["a b"].mcpServers.s', 2)


def test_a_name_that_begins_as_options_do_stands_behind_two_dashes():
    finding = finding_of(Trial(outcome="found", tries=1, variables=("A",)), written(name="-s"), "/c.json")
    assert "mcp-workbench add --inherit A --config /c.json -- 'a b' -s" in finding.advice


def test_too_many_variables_are_counted_and_no_command_would_add_them_all():
    many = tuple(f"V{number:02}" for number in range(TRIAL_NAMES_SHOWN + 3))
    finding = finding_of(Trial(outcome="narrowed", tries=30, variables=many), written(), "/c.json")
    assert "V11 and 3 more variables; the search stopped" in finding.message
    assert "(30 tries)" in finding.message
    assert "--inherit" not in finding.advice
