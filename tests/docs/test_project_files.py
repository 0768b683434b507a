"""What people who join find: CI runs what the repository has, on every Python that the package supports."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.docs.markdown import ROOT

GITHUB = ROOT / ".github"
WORKFLOW = (GITHUB / "workflows" / "ci.yml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_ci_runs_everything_on_each_supported_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", "\n".join(project["classifiers"]))
    matrix = re.search(r"python: \[(.*)\]", WORKFLOW)
    assert matrix
    assert re.findall(r'"([^"]+)"', matrix[1]) == versions
    assert project["requires-python"] == f">={versions[0]}"


def test_the_commands_of_ci_exist():
    commands = re.findall(r"- run: (.+)", WORKFLOW)
    assert commands == [".ci/run", "make unit"]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert re.search(r"^unit:", MAKEFILE, re.MULTILINE)


def test_the_tests_that_the_unit_tests_leave_out_exist():
    left_out = re.search(r"^SYSTEM_TESTS := (.+)", MAKEFILE, re.MULTILINE)
    assert left_out
    assert [name for name in left_out[1].split() if not (ROOT / "tests" / name).exists()] == []


@pytest.mark.parametrize("form", sorted(path.name for path in (GITHUB / "ISSUE_TEMPLATE").iterdir()))
def test_a_form_asks_for_something(form: str):
    text = (GITHUB / "ISSUE_TEMPLATE" / form).read_text(encoding="utf-8")
    assert re.search(r"^name: .+\ndescription: .+$", text, re.MULTILINE)
    ids = re.findall(r"^ +id: (\w+)$", text, re.MULTILINE)
    assert len(ids) == len(set(ids)) == len(re.findall(r"- type: (?:textarea|input)$", text, re.MULTILINE)) > 0
