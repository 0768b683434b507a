"""Every requirement has a test that carries its number, and every number that a test carries is a requirement."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.faults.rows import functions
from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parent


@cache
def carried() -> list[tuple[str, str]]:
    """Each number that a test function carries in `@pytest.mark.requirement(...)`, with its place."""
    return [
        (number, f"{path.name}:{node.lineno}")
        for path, node in functions(TESTS)
        for decorator in node.decorator_list
        for number in numbers(decorator)
    ]


def numbers(decorator: ast.expr) -> list[str]:
    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.requirement":
        return [ast.literal_eval(argument) for argument in decorator.args]
    return []


def test_every_requirement_has_a_test():
    missing = set(REQUIREMENTS) - {number for number, _ in carried()}
    assert not missing, f"no test carries {sorted(missing)}"


def test_every_number_that_a_test_carries_is_a_requirement():
    unknown = [(number, place) for number, place in carried() if number not in REQUIREMENTS]
    assert not unknown


def test_every_requirement_is_one_statement():
    assert all(requirement.held.endswith(".") for requirement in REQUIREMENTS.values())
