"""Arithmetic, statistics, units and prime numbers. Speaks both protocol eras.

Expressions are untrusted. Guarantees: they may contain only numbers, + - * / // % **, brackets, and a few constants and
functions; other names and attributes are refused. The depth of the expression and the size of every operand and power
are limited, and the result is finite.

`count_primes` takes long enough to report progress and to be cancelled.
"""

from __future__ import annotations

import ast
import math
import operator
import statistics as stats
from collections.abc import Callable

from mcp_workbench.demo.server import JsonObject, Report, Schema, Server, ToolError

Number = int | float

# Deeper than anyone nests, but far from exhausting the interpreter's stack.
_MAX_DEPTH = 50
# Bits of an integer: enough for 300 digits, few enough for instant operations.
_MAX_BITS = 1024
# A call can be cancelled whenever it reports.
_SIEVE_STEP = 250_000
_PROGRESS_REPORTS = 10

# Each quantity's units, as multiples of its first one.
UNITS: dict[str, dict[str, float]] = {
    "length": {"m": 1, "km": 1000, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048, "yd": 0.9144, "mi": 1609.344},
    "mass": {"kg": 1, "g": 0.001, "t": 1000, "oz": 0.028349523125, "lb": 0.45359237},
    "time": {"s": 1, "min": 60, "h": 3600, "d": 86_400, "week": 604_800},
    "data": {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
}

_NUMBER: Schema = {"type": "number"}
_INTEGER: Schema = {"type": "integer"}
_EXAMPLE = "(3 + 4) * sqrt(2)"
_EXPRESSION: Schema = {"type": "string", "description": f"For example {_EXAMPLE}", "minLength": 1, "maxLength": 500}
_NUMBERS: Schema = {"type": "array", "items": _NUMBER, "minItems": 1, "maxItems": 10_000}
_STATISTICS = ("sum", "mean", "median", "minimum", "maximum", "standard_deviation")
_UNIT: Schema = {"type": "string", "enum": [unit for units in UNITS.values() for unit in units]}
_SOURCE: Schema = {**_UNIT, "description": "The unit of the value"}
_TARGET: Schema = {**_UNIT, "description": "The unit to convert to, of the same quantity"}
# The largest takes about half a second.
_LIMIT: Schema = {"type": "integer", "description": "Up to here", "minimum": 2, "maximum": 50_000_000}

SERVER = Server(
    "calculator", "Calculator", "Calculates without a network; expressions are arithmetic only.", modern=True
)


# -- expressions


def _power(base: Number, exponent: Number) -> Number:
    # A lower bound of the result's bits, which are at most about twice as many.
    if isinstance(base, int) and isinstance(exponent, int) and (base.bit_length() - 1) * exponent > _MAX_BITS:
        raise OverflowError
    result: object = base**exponent
    if isinstance(result, int | float):
        return result
    raise ToolError("A negative number has no real root of that kind")


_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_OF_MATH = ("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "floor", "ceil")
_FUNCTIONS: dict[str, Callable[[Number], Number]] = {"abs": abs, **{name: getattr(math, name) for name in _OF_MATH}}
_FUNCTIONS["round"] = round
_VOCABULARY = f"numbers, + - * / // % ** ( ), {', '.join(_CONSTANTS)}, and {', '.join(_FUNCTIONS)} of one number"


@SERVER.tool("Evaluate an expression", {"expression": _EXPRESSION}, {"value": _NUMBER})
def evaluate(expression: str) -> JsonObject:
    """Calculate an arithmetic expression exactly where possible: + - * / // % ** and brackets, pi, e, tau, and abs,
    sqrt, exp, log, log2, log10, sin, cos, tan, floor, ceil, round of one number.
    """  # noqa: D205 -- it is the description of the tool
    try:
        return {"value": _value(ast.parse(expression.strip(), mode="eval").body, _MAX_DEPTH)}
    except ZeroDivisionError:
        raise ToolError("Division by zero") from None
    except OverflowError:
        raise ToolError("The result is too large") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise ToolError(f"This is not an arithmetic expression. Example: {_EXAMPLE}") from None
    except ValueError:
        raise ToolError("A function is not defined there, for example the root of a negative number") from None


def _value(node: ast.expr, depth: int) -> Number:
    if depth == 0:
        raise ToolError("The expression is nested too deeply")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, depth - 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left, depth - 1), _value(right, depth - 1)))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](_value(argument, depth - 1)))
        case _:
            raise ToolError(f"Not understood: {ast.unparse(node)[:40]!r}. Allowed: {_VOCABULARY}")


def _bounded(number: Number) -> Number:
    if number.bit_length() > _MAX_BITS if isinstance(number, int) else not math.isfinite(number):
        raise OverflowError
    return number


# -- numbers and units


@SERVER.tool("Describe numbers", {"numbers": _NUMBERS}, {"count": _INTEGER, **dict.fromkeys(_STATISTICS, _NUMBER)})
def statistics(numbers: list[float]) -> JsonObject:
    """Count, sum, mean, median, minimum, maximum and (sample) standard deviation of a list of numbers."""
    try:
        deviation = stats.stdev(numbers) if len(numbers) > 1 else 0.0
        mean, median = stats.fmean(numbers), stats.median(numbers)
        values = (math.fsum(numbers), mean, median, min(numbers), max(numbers), deviation)
        return {"count": len(numbers), **dict(zip(_STATISTICS, map(_bounded, values), strict=True))}
    except OverflowError:
        raise ToolError("The numbers are too large to be added") from None


@SERVER.tool(
    "Convert units",
    {"value": _NUMBER, "source": _SOURCE, "target": _TARGET},
    {"value": _NUMBER, "unit": {"type": "string"}},
)
def convert_units(value: float, source: str, target: str) -> JsonObject:
    """Convert a value between units of length, mass, time or data size."""
    units = next(units for units in UNITS.values() if source in units)
    if target not in units:
        raise ToolError(f"'{source}' cannot be converted to '{target}'. It can be: {', '.join(units)}")
    try:
        return {"value": _bounded(value * units[source] / units[target]), "unit": target}
    except OverflowError:
        raise ToolError("The result is too large") from None


# -- primes


@SERVER.tool("Count prime numbers", {"limit": _LIMIT}, {"count": _INTEGER, "largest": _INTEGER}, reports=True)
def count_primes(report: Report, limit: int) -> JsonObject:
    """How many prime numbers there are up to a limit, and the largest of them. Reports progress."""
    small = _primes_up_to(math.isqrt(limit))
    count, largest = 0, 0
    reported_every = max(_SIEVE_STEP, limit // _PROGRESS_REPORTS)
    for low in range(2, limit + 1, _SIEVE_STEP):
        high = min(low + _SIEVE_STEP, limit + 1)
        marks = _sieve(low, high, small)
        count += marks.count(1)
        largest = max(largest, low + marks.rfind(1))
        if high - 1 == limit or (low // reported_every) != (high // reported_every):
            report(high - 1, limit, f"{count} primes up to {high - 1}")
    return {"count": count, "largest": largest}


def _primes_up_to(limit: int) -> list[int]:
    if limit <= 1:
        return []
    marks = _sieve(2, limit + 1, _primes_up_to(math.isqrt(limit)))
    return [number for number, is_prime in enumerate(marks, 2) if is_prime]


def _sieve(low: int, high: int, small: list[int]) -> bytearray:
    """A byte for each number from `low` until before `high`: 1 for a prime. `small` are the primes up to its root."""
    marks = bytearray(b"\1") * (high - low)
    for prime in small:
        first = max(prime * prime, -(-low // prime) * prime) - low
        if first < len(marks):
            marks[first::prime] = bytes(len(range(first, len(marks), prime)))
    return marks


if __name__ == "__main__":
    SERVER.run()
