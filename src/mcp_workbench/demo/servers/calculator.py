"""Arithmetic, statistics, units and prime numbers. Speaks both protocol eras.

`count_primes` takes long enough to report progress and to be cancelled.
"""

from __future__ import annotations

import math
import statistics as stats
from typing import TYPE_CHECKING

from mcp_workbench.demo.arguments import object_schema
from mcp_workbench.demo.arithmetic import MAX_EXPRESSION_LENGTH
from mcp_workbench.demo.arithmetic import evaluate as value_of
from mcp_workbench.demo.server import Server
from mcp_workbench.demo.stdio import serve
from mcp_workbench.demo.tool import Tool, ToolError

if TYPE_CHECKING:
    from mcp_workbench.demo.arguments import Schema
    from mcp_workbench.demo.tool import Call, JsonObject

# About half a second of work; a call can be cancelled whenever it reports.
MAX_PRIME_LIMIT = 50_000_000
_SIEVE_STEP = 250_000
_PROGRESS_REPORTS = 10

# Each quantity's units, as multiples of its first one.
UNITS: dict[str, dict[str, float]] = {
    "length": {"m": 1, "km": 1000, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344},
    "mass": {"kg": 1, "g": 0.001, "t": 1000, "oz": 0.028349523125, "lb": 0.45359237},
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86_400, "week": 604_800},
    "data": {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
}
_UNIT_NAMES = [unit for units in UNITS.values() for unit in units]

_NUMBER: Schema = {"type": "number"}
_UNIT: Schema = {"type": "string", "enum": _UNIT_NAMES}


def evaluate(expression: str) -> JsonObject:
    """The value of an arithmetic expression."""
    return {"value": value_of(expression)}


def statistics(numbers: list[float]) -> JsonObject:
    """What is usually asked about a list of numbers."""
    try:
        return _finite(_described(numbers))
    except OverflowError:
        raise ToolError("The numbers are too large to be added") from None


def _described(numbers: list[float]) -> JsonObject:
    return {
        "count": len(numbers),
        "sum": math.fsum(numbers),
        "mean": stats.fmean(numbers),
        "median": stats.median(numbers),
        "minimum": min(numbers),
        "maximum": max(numbers),
        "standard_deviation": stats.stdev(numbers) if len(numbers) > 1 else 0.0,
    }


def convert_units(value: float, source: str, target: str) -> JsonObject:
    """The value in another unit of the same quantity."""
    units = next(units for units in UNITS.values() if source in units)
    if target not in units:
        raise ToolError(f"'{source}' cannot be converted to '{target}'. It can be: {', '.join(units)}")
    try:
        return {**_finite({"value": value * units[source] / units[target]}), "unit": target}
    except OverflowError:
        raise ToolError("The result is too large") from None


def _finite(numbers: dict[str, float]) -> dict[str, float]:
    if not all(map(math.isfinite, numbers.values())):
        raise OverflowError
    return numbers


def count_primes(call: Call, limit: int) -> JsonObject:
    """How many primes there are up to `limit`, and the largest: a sieve, one step at a time."""
    small = _primes_up_to(math.isqrt(limit))
    count, largest = 0, 0
    reported_every = max(_SIEVE_STEP, limit // _PROGRESS_REPORTS)
    for low in range(2, limit + 1, _SIEVE_STEP):
        high = min(low + _SIEVE_STEP, limit + 1)
        marks = _sieve(low, high, small)
        count += marks.count(1)
        largest = max(largest, low + marks.rfind(1))
        if high - 1 == limit or (low // reported_every) != (high // reported_every):
            call.report(high - 1, limit, f"{count} primes up to {high - 1}")
    return {"count": count, "largest": largest}


def _primes_up_to(limit: int) -> list[int]:
    marks = bytearray(b"\0\0") + bytearray(b"\1") * max(0, limit - 1)
    for number in range(2, math.isqrt(limit) + 1):
        if marks[number]:
            marks[number * number :: number] = bytes(len(range(number * number, len(marks), number)))
    return [number for number in range(2, limit + 1) if marks[number]]


def _sieve(low: int, high: int, small: list[int]) -> bytearray:
    marks = bytearray(b"\1") * (high - low)
    for prime in small:
        first = max(prime * prime, -(-low // prime) * prime) - low
        if first < len(marks):
            marks[first::prime] = bytes(len(range(first, len(marks), prime)))
    return marks


TOOLS = (
    Tool(
        name="evaluate",
        title="Evaluate an expression",
        description=(
            "Calculate an arithmetic expression exactly where possible: + - * / // % ** and brackets, pi, e, tau, "
            "and abs, sqrt, exp, log, log2, log10, sin, cos, tan, floor, ceil, round of one number."
        ),
        run=evaluate,
        input=object_schema(
            {
                "expression": {
                    "type": "string",
                    "description": "For example (3 + 4) * sqrt(2)",
                    "minLength": 1,
                    "maxLength": MAX_EXPRESSION_LENGTH,
                }
            }
        ),
        output=object_schema({"value": _NUMBER}),
    ),
    Tool(
        name="statistics",
        title="Describe numbers",
        description="Count, sum, mean, median, minimum, maximum and (sample) standard deviation of a list of numbers.",
        run=statistics,
        input=object_schema({"numbers": {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": 10_000}}),
        output=object_schema(
            {
                "count": {"type": "integer"},
                "sum": _NUMBER,
                "mean": _NUMBER,
                "median": _NUMBER,
                "minimum": _NUMBER,
                "maximum": _NUMBER,
                "standard_deviation": _NUMBER,
            }
        ),
    ),
    Tool(
        name="convert_units",
        title="Convert units",
        description="Convert a value between units of length, mass, time or data size.",
        run=convert_units,
        input=object_schema(
            {
                "value": _NUMBER,
                "source": {**_UNIT, "description": "The unit that the value has"},
                "target": {**_UNIT, "description": "The unit to convert to, of the same quantity"},
            }
        ),
        output=object_schema({"value": _NUMBER, "unit": {"type": "string"}}),
    ),
    Tool(
        name="count_primes",
        title="Count prime numbers",
        description="How many prime numbers there are up to a limit, and the largest of them. Reports progress.",
        run=count_primes,
        input=object_schema(
            {"limit": {"type": "integer", "description": "Up to here", "minimum": 2, "maximum": MAX_PRIME_LIMIT}}
        ),
        output=object_schema({"count": {"type": "integer"}, "largest": {"type": "integer"}}),
        reports_progress=True,
    ),
)

SERVER = Server(
    name="calculator",
    title="Calculator",
    instructions="Calculates without a network; expressions are arithmetic only.",
    tools=TOOLS,
    modern=True,
)

if __name__ == "__main__":
    serve(SERVER)
