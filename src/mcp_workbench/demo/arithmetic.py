"""Evaluates arithmetic that a stranger wrote, in bounded time and memory.

Guarantees: only numbers, + - * / // % **, brackets, a few constants and functions are understood;
no name is looked up anywhere else and no attribute exists. The text's length, the depth of its
tree, every operand and every power are bounded, and the result is a finite number.
"""

from __future__ import annotations

import ast
import math
import operator
from typing import TYPE_CHECKING

from mcp_workbench.demo.tool import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

Number = int | float

MAX_EXPRESSION_LENGTH = 500
# Deeper nesting than anyone writes, far less than what exhausts the interpreter's stack.
_MAX_DEPTH = 50
# Bits of a whole number: enough for 300 digits, little enough for every operation to be instant.
_MAX_BITS = 1024


def _check_bits(bits: int) -> None:
    if bits > _MAX_BITS:
        raise OverflowError


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        _check_bits((base.bit_length() - 1) * exponent)  # it has at least so many, and at most about twice
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
CONSTANTS: dict[str, float] = {"pi": math.pi, "e": math.e, "tau": math.tau}
FUNCTIONS: dict[str, Callable[[Number], Number]] = {
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}


def evaluate(expression: str) -> Number:
    """The value of `expression`, or a ToolError that says what is wrong with it."""
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return _value(tree.body, _MAX_DEPTH)
    except ZeroDivisionError:
        raise ToolError("Division by zero") from None
    except OverflowError:
        raise ToolError("The result is too large") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise ToolError("This is not an arithmetic expression. Example: (3 + 4) * sqrt(2)") from None
    except ValueError:
        raise ToolError("A function is not defined there, for example the root of a negative number") from None


def _value(node: ast.expr, depth: int) -> Number:
    if depth == 0:
        raise ToolError("The expression is nested too deeply")
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in CONSTANTS:
            return CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, depth - 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left, depth - 1), _value(right, depth - 1)))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in FUNCTIONS:
            return _bounded(FUNCTIONS[name](_value(argument, depth - 1)))
        case _:
            raise ToolError(f"Not understood: {ast.unparse(node)[:40]!r}. {_vocabulary()}")


def _vocabulary() -> str:
    return f"Allowed: numbers, + - * / // % ** ( ), {', '.join(CONSTANTS)}, and {', '.join(FUNCTIONS)} of one number"


def _bounded(number: Number) -> Number:
    if isinstance(number, int):
        _check_bits(number.bit_length())
    elif not math.isfinite(number):
        raise OverflowError
    return number
