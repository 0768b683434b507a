"""Renders the types of any JSON Schema in the notation of signatures.

Objects are `{a: T, b?: T}`, with `['pattern']: T` for names that match and `...: T` for all others; arrays are `T[]`,
tuples `[A, B, ...: T]`. A value stands for itself, an object or array after `const`. `|` is anyOf, oneOf or a list of
types; `&` is allOf or another keyword that narrows a type, under its own name: `not T`, `contains T`. A name without a
type may be anything. A default and a comment apply to everything on their left, up to a comma or an open bracket.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from mcp_workbench.catalog.rendering import notes, schemas
from mcp_workbench.catalog.rendering.notes import SEE_SCHEMA, Schema
from mcp_workbench.catalog.rendering.references import KEYWORDS, Names, References

_LEAST_TEXT = 3
"""Length of the shortest text with its separator."""
_ATOM, _BOTH, _EITHER = range(3)
"""Precedence of a type: atomic, joined by `&`, joined by `|`."""


class TooLong(Exception):
    """The rendered text exceeds its limit."""


class Part(NamedTuple):
    """A rendered type with its default and comment."""

    text: str = ""
    """Empty if any value is allowed."""
    hold: int = _ATOM
    default: str | None = None
    notes: tuple[str, ...] = ()
    description: str = ""

    def is_bare(self) -> bool:
        return self.default is None and not self.notes and not self.description

    def whole(self) -> str:
        """The type, its default and its comment, without parentheses."""
        default = f" = {self.default}" if self.default is not None else ""
        return f"{self.text}{default}{notes.comment(self.notes, self.description)}"

    def within(self, hold: int) -> str:
        """Like `whole`, but in parentheses if the operator `hold` around it needs them."""
        text = self.whole() if self.text else f"any{self.whole()}"
        return text if self.is_bare() and self.hold in (_ATOM, hold) else f"({text})"

    def of(self, inner: Part) -> Part:
        """Apply this default and comment to another part, which keeps its own."""
        if (inner.description and self.description) or (inner.default is not None and self.default is not None):
            return self._replace(text=inner.within(_ATOM), hold=_ATOM)
        default = self.default if self.default is not None else inner.default
        told = tuple(dict.fromkeys((*inner.notes, *self.notes)))
        return Part(inner.text, inner.hold, default, told, self.description or inner.description)


ANY = Part()
NEVER = Part("never")
NULL = Part("null")
UNTOLD = Part("object", notes=(SEE_SCHEMA,))
_EMPTY: Schema = {}
_NOTHING: Schema = {"not": {}}


class Work:
    """The number of parts that may still be rendered, over all attempts."""

    def __init__(self, parts: int) -> None:
        self.left = parts

    def spend(self) -> None:
        """Count one part. Raises `TooLong`."""
        if not self.left:
            raise TooLong
        self.left -= 1


class Shapes:
    """Renders the types of one schema, down to a depth and up to a length."""

    def __init__(self, references: References, work: Work, *, depth: int, inline_depth: int, length: int) -> None:
        self._references = references
        self.names = Names()
        self._work = work
        self._depth = depth
        self._inline_depth = inline_depth
        self._room = length
        self._open: set[int] = set()

    def arguments(self, root: object) -> str:
        """A tool's parameters: the members of its schema, then everything else after `...`."""
        schema = self._followed(root)
        if not schemas.is_object(schema):
            return f"(...{self.part(schema, 0).within(_BOTH)})"
        schema, rest = schemas.merged(schema)
        has_members = schemas.types(schema) in ([], ["object"])
        members = [*self._members(schema, 0)] if has_members else []
        parts = [*self._others(schema, rest, 0)] if has_members else [*self._parts(schema, rest, 0)]
        text = ", ".join([*members, *(f"...{part.within(_BOTH)}" for part in parts if part != ANY)])
        return self._told(schema, None).of(Part(f"({text})")).whole()

    def definition(self, schema: Schema, name: str) -> str:
        """The definition of a name."""
        part = self._composed(schema, 1, None)
        return f"{name} = {part.whole() if part.text and part.default is None else part.within(_EITHER)}"

    def _followed(self, root: object) -> object:
        """Follow references from a schema that only holds one."""
        seen: set[int] = set()
        while schemas.is_object(root) and schemas.is_reference(root) and id(root) not in seen:
            seen.add(id(root))
            target = self._references.target(root["$ref"])
            if not schemas.is_object(target) or not self._references.is_used_once(target):
                break
            root = target
        return root

    def part(self, schema: object, depth: int, owner: str | None = None) -> Part:
        """Render any schema. One that can't be rendered, or is too deep, becomes an object with a note."""
        if schema is True or schema == _EMPTY:
            return ANY
        if schema is False or schema == _NOTHING:
            return NEVER
        if not schemas.is_object(schema):
            return UNTOLD
        if reference := self._references.reference_to(schema):
            self._take(name := self.names.of(schema, reference))
            return Part(name)
        return self._composed(schema, depth, owner)

    def _composed(self, schema: Schema, depth: int, owner: str | None) -> Part:
        self._work.spend()
        if schemas.is_leaf(schema):
            return self._leaf(schema, owner)
        schema, rest = schemas.merged(schema)
        told = self._told(schema, owner)
        if depth > self._depth and (rest or schemas.is_nested(schema)):
            return told.of(Part(schemas.word(schema), notes=(SEE_SCHEMA,)))
        inner = _both(self._parts(schema, rest, depth))
        if inner == ANY and schemas.is_odd(schema):
            inner = UNTOLD
        return told.of(_either([inner, NULL]) if schema.get("nullable") is True else inner)

    def _leaf(self, schema: Schema, owner: str | None) -> Part:
        self._take(word := schema["type"], words := notes.description(schema, owner))
        return Part(word, description=notes.escaped(words))

    def _told(self, schema: Schema, owner: str | None) -> Part:
        """The default and the comment of a value, without its type."""
        told = [*notes.constraints(schema)]
        default = notes.literal(schema["default"]) if "default" in schema else None
        if schemas.is_odd(schema) or (default is None and "default" in schema):
            told.append(SEE_SCHEMA)
        self._take(default or "", words := notes.description(schema, owner), *told)
        return Part("", _ATOM, default, tuple(told), notes.escaped(words))

    def _expect(self, count: int) -> None:
        """Fail early if `count` texts can't fit."""
        if count * _LEAST_TEXT > self._room:
            raise TooLong

    def _take(self, *texts: str) -> None:
        """Reserve room for texts and their separators."""
        self._room -= sum(map(len, texts)) + 2 * len(texts)
        if self._room < 0:
            raise TooLong

    def _parts(self, schema: Schema, rest: Iterable[Any], depth: int) -> Iterator[Part]:
        kinds = [self._kind(word, schema, depth) for word in schemas.types(schema)]
        literals = self._literals(schema)
        if kinds and not (literals and schemas.is_implied(schema)):
            yield _either(kinds)
        if literals:
            yield _either(literals)
        yield from self._others(schema, rest, depth)

    def _kind(self, word: str, schema: Schema, depth: int) -> Part:
        self._take(word)
        if word == "object":
            members = ", ".join(self._members(schema, depth))
            return Part(f"{{{members}}}" if members else word)
        return Part(self._array(schema, depth) if word == "array" else word)

    def _literals(self, schema: Schema) -> list[Part]:
        """The allowed values."""
        if (values := schemas.values(schema)) is None:
            return []
        self._expect(len(values))
        parts: list[Part] = []
        for value in values:
            text = notes.literal(value)
            self._take(text or SEE_SCHEMA)
            kind = "const " if isinstance(value, dict | list) else ""
            parts.append(UNTOLD if text is None else Part(f"{kind}{text}"))
        return parts or [NEVER]

    def _members(self, schema: Schema, depth: int) -> Iterator[str]:
        properties = schemas.children(schema, "properties")
        self._expect(max(len(properties), schemas.required_count(schema)))
        required = schemas.required(schema)
        for name, child in properties.items():
            is_required = name in required or (schemas.is_object(child) and child.get("required") is True)
            yield self._member(notes.name(name) + ("" if is_required else "?"), child, depth, name)
        for name in required:
            if name not in properties:
                yield self._member(notes.name(name), True, depth, name)  # noqa: FBT003
        for pattern, child in schemas.children(schema, "patternProperties").items():
            yield self._member(f"[{notes.literal(pattern)}]", child, depth)
        if (others := schema.get("additionalProperties")) is not None:
            yield self._member("...", others, depth)

    def _member(self, label: str, schema: object, depth: int, name: str = "") -> str:
        self._take(label, " ")
        part = self.part(schema, depth + 1, name)
        return f"{label}: {part.whole()}" if part.text else f"{label}{part.whole()}"

    def _array(self, schema: Schema, depth: int) -> str:
        first, others = schemas.elements(schema)
        if first:
            items = [self.part(one, depth + 1).within(_EITHER) for one in first]
            return f"[{', '.join(items if others is None else [*items, self._member('...', others, depth)])}]"
        item = ANY if others is None else self.part(others, depth + 1)
        return "array" if item == ANY else f"{item.within(_ATOM)}[]"

    def _others(self, schema: Schema, rest: Iterable[Any], depth: int) -> Iterator[Part]:
        """Everything that narrows a type except its members and values."""
        if not rest and schemas.is_simple(schema):
            return
        for keyword in KEYWORDS:
            if keyword in schema:
                yield self._referred(schema[keyword], depth)
        for keyword in schemas.UNIONS:
            if isinstance(schema.get(keyword), list):
                yield _either([self.part(one, depth + 1, schemas.owner(one)) for one in schema[keyword]])
        for one in rest:
            yield self.part(one, depth + 1)
        for keyword in schemas.NARROWING:
            if schema.get(keyword) is not None:
                yield Part(f"{keyword} {self.part(schema[keyword], depth + 1).within(_ATOM)}", _BOTH)
        for condition, outcomes in schemas.conditions(schema):
            words = [f"if {self.part(condition, depth + 1).within(_EITHER)}"]
            words += [f"{word} {self.part(one, depth + 1).within(_EITHER)}" for word, one in outcomes]
            yield Part(f"({' '.join(words)})")

    def _referred(self, reference: object, depth: int) -> Part:
        target = self._references.target(reference)
        if isinstance(target, bool):
            return self.part(target, depth)
        if target is None:
            self._take(said := f"$ref {notes.literal(reference)}")
            return Part("object", notes=(said, SEE_SCHEMA))
        is_open = id(target) in self._open or depth > self._inline_depth
        if is_open or not self._references.is_used_once(target):
            self._take(name := self.names.of(target, str(reference)))
            return Part(name)
        self._open.add(id(target))
        part = self.part(target, depth + 1)
        self._open.discard(id(target))
        return part


def _both(parts: Iterable[Part]) -> Part:
    """The conjunction of the parts."""
    telling = [*dict.fromkeys(part for part in parts if part != ANY)]
    if len(telling) <= 1:
        return telling[0] if telling else ANY
    return Part(" & ".join(part.within(_BOTH) for part in telling), _BOTH)


def _either(parts: Iterable[Part]) -> Part:
    """The union of the parts. With null, the comment of the only other part applies to both."""
    kinds = [*dict.fromkeys(part for part in parts if part != NEVER)]
    others = [part for part in kinds if part != NULL]
    if len(kinds) == 1:
        return kinds[0]
    if len(others) == 1:
        text = Part(others[0].text, others[0].hold).within(_EITHER)
        return others[0]._replace(text=f"{text}|null", hold=_EITHER)
    return Part("|".join(part.within(_EITHER) for part in kinds), _EITHER) if kinds else NEVER
