"""Reads a signature back, written from its notation alone: what it tells, as facts by the name of a parameter.

A fact is `(name, keyword, value)`, the value as JSON text. The name is that of the nearest property around, or "" for
the root, the members that have no name of their own, and what stands after `where`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Fact = tuple[str, str, str]

NUMBER = r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
NUMBERS = re.compile(NUMBER)
STRING = re.compile(r"'((?:[^'\\]|\\.)*)'")
WORD = re.compile(r"[^\W\d]\w*")
VALUE = re.compile(r"'|-?\d|(?:true|false|null)(?!\w)")
QUOTES = {"\\'": "'", '"': '\\"'}
OPERATORS = ("not", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems", "contentSchema")
COUNTS = {"": "{}imum", "length ": "{}Length", "items ": "{}Items", "keys ": "{}Properties", "contained ": "{}Contains"}
WORDS = ("pattern", "format", "contentEncoding", "contentMediaType", "$ref")
SIGNS = {">=": "min", "<=": "max", ">": "exclusiveMin", "<": "exclusiveMax"}
LABELS = {"multiple of ": "multipleOf", **{f"{word} ": word for word in WORDS}}
FLAGS = {"unique": "uniqueItems", "readOnly": "readOnly", "writeOnly": "writeOnly", "deprecated": "deprecated"}
RANGE = re.compile(rf"({'|'.join(COUNTS)})({NUMBER})\.\.({NUMBER})(?=; | \*/)")
BOUND = re.compile(rf"({'|'.join(COUNTS)})(>=|<=|>|<) ({NUMBER})(?=; | \*/)")
FLAG = re.compile(rf"(?:{'|'.join(FLAGS)}|see full schema)(?=; | \*/)")
LABEL = re.compile("|".join(re.escape(label) for label in LABELS))
FORMAT = re.compile(r"[a-z][a-z0-9-]*(?=; | \*/)")


def value_of(value: object) -> str:
    """A value in one form, for comparison."""
    return json.dumps(value, sort_keys=True)


class Reader:
    """Takes a signature apart from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.facts: set[Fact] = set()

    def read(self) -> set[Fact]:
        self.expect("(")
        self.members(")", "")
        self.told("")
        if self.take(" where "):
            while True:
                assert self.match(WORD)
                self.expect(" = ")
                self.typed("")
                if not self.take("; "):
                    break
        assert self.at == len(self.text), self.rest()
        return self.facts

    # -- text

    def rest(self) -> str:
        return self.text[self.at :]

    def sees(self, token: str) -> bool:
        return self.text.startswith(token, self.at)

    def take(self, token: str) -> bool:
        found = self.sees(token)
        self.at += len(token) if found else 0
        return found

    def expect(self, token: str) -> None:
        assert self.take(token), f"{token!r} expected at {self.rest()[:60]!r}"

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found

    def note(self, name: str, keyword: str, value: Any) -> None:
        self.facts.add((name, keyword, value_of(value)))

    # -- structure

    def members(self, end: str, owner: str) -> None:
        while not self.take(end):
            self.member(owner)
            assert self.take(", ") or self.sees(end), self.rest()[:60]

    def member(self, owner: str) -> None:
        if self.take("..."):
            self.others(owner)
        elif self.take("["):
            self.note(owner, "patternProperties", self.literal())
            self.expect("]")
            self.typed(owner) if self.take(": ") else self.told(owner)
        else:
            name = self.literal() if self.sees("'") else self.word()
            self.note(name, "optional", value=self.take("?"))
            self.typed(name) if self.take(": ") else self.told(name)

    def others(self, owner: str) -> None:
        """Members of any other name; or, without a colon, another type that the whole has."""
        if self.take(": "):
            self.note(owner, "additionalProperties", value=not self.sees("never"))
            self.typed(owner)
        elif self.text[self.at] in ",})] ":
            self.note(owner, "additionalProperties", value=True)
            self.told(owner)
        else:
            self.kind(owner)

    def typed(self, owner: str) -> None:
        self.kind(owner)
        self.told(owner)

    def kind(self, owner: str) -> None:
        self.atom(owner)
        joint = next((joint for joint in ("|", " & ") if self.sees(joint)), "")
        while joint and self.take(joint):
            self.atom(owner)
        assert not self.sees("|"), "a mixture needs brackets"
        assert not self.sees(" & "), "a mixture needs brackets"

    def atom(self, owner: str) -> None:
        if self.take("("):
            self.condition(owner) if self.take("if ") else self.typed(owner)
            self.expect(")")
        elif self.take("{"):
            self.members("}", owner)
        elif self.take("["):
            self.elements(owner)
        elif VALUE.match(self.text, self.at) or self.take("const "):
            self.note(owner, "value", self.literal())
        else:
            self.named(self.word(), owner)
        while self.take("[]"):
            pass

    def named(self, word: str, owner: str) -> None:
        if word in OPERATORS and self.take(" "):
            self.atom(owner)
        else:
            self.note(owner, "type", word)

    def condition(self, owner: str) -> None:
        self.kind(owner)
        for word in (" then ", " else "):
            if self.take(word):
                self.kind(owner)

    def elements(self, owner: str) -> None:
        while not self.take("]"):
            self.others(owner) if self.take("...") else self.kind(owner)
            assert self.take(", ") or self.sees("]")

    # -- values

    def word(self) -> str:
        found = self.match(WORD)
        assert found, f"a word expected at {self.rest()[:60]!r}"
        return found[0]

    def literal(self) -> Any:
        if found := self.match(STRING):
            return json.loads('"' + re.sub(r"\\'|\\.|\"", lambda one: QUOTES.get(one[0], one[0]), found[1]) + '"')
        if self.take("["):
            return self.sequence("]", self.literal)
        if self.take("{"):
            return dict(self.sequence("}", self.pair))
        if found := self.match(NUMBERS):
            return json.loads(found[0])
        return {"true": True, "false": False, "null": None}[self.word()]

    def pair(self) -> tuple[str, Any]:
        name = self.literal()
        self.expect(":")
        return name, self.literal()

    def sequence(self, end: str, read: Callable[[], Any]) -> list[Any]:
        values: list[Any] = []
        while not self.take(end):
            values.append(read())
            assert self.take(",") or self.sees(end)
        return values

    # -- defaults and comments

    def told(self, owner: str) -> None:
        if self.take(" = "):
            self.note(owner, "default", self.literal())
        if self.take(" /* "):
            while self.is_note(owner):
                if self.take(" */"):
                    return
                self.expect("; ")
            self.description(owner)

    def is_note(self, owner: str) -> bool:
        if found := self.match(RANGE):
            self.note(owner, COUNTS[found[1]].format("min"), json.loads(found[2]))
            self.note(owner, COUNTS[found[1]].format("max"), json.loads(found[3]))
        elif found := self.match(BOUND):
            form = COUNTS[found[1]] if "exclusive" not in SIGNS[found[2]] else "{}imum"
            self.note(owner, form.format(SIGNS[found[2]]), json.loads(found[3]))
        elif found := self.match(FLAG):
            self.note(owner, FLAGS.get(found[0], found[0]), value=True)
        elif found := self.match(LABEL):
            word = self.match(FORMAT) if found[0] == "format " else None
            self.note(owner, LABELS[found[0]], word[0] if word else self.literal())
        elif self.take("e.g. "):
            self.note(owner, "examples", self.examples())
        else:
            return False
        return True

    def examples(self) -> list[Any]:
        values = [self.literal()]
        while self.take(","):
            values.append(self.literal())
        return values

    def description(self, owner: str) -> None:
        self.take("- ")
        end = self.text.index(" */", self.at)
        self.note(owner, "description", self.text[self.at : end].replace("*\\/", "*/"))
        self.at = end + len(" */")
