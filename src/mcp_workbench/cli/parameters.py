"""The parameters of a tool, from its schema: their names, and how to convert typed text into their values.

Numbers keep their digits. Only names, types, enumerated values and alternatives are checked; the rest is up to the
server.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import schemas
from mcp_workbench.catalog.rendering.notes import Schema
from mcp_workbench.catalog.rendering.references import References
from mcp_workbench.catalog.rendering.schemas import UNIONS
from mcp_workbench.cli.results import decoded
from mcp_workbench.errors import InvalidParameters
from mcp_workbench.limits import DEFAULTS
from mcp_workbench.text.sanitize import escape
from mcp_workbench.text.suggest import known_names, nearest
from mcp_workbench.wire import jsonrpc

UNKNOWN: Final = "$ref"
"""Remains in a resolved schema only if its target is missing or nested too deeply."""
NOTHING: Final[Schema] = {}
_MADE_OF: Final = frozenset((UNKNOWN, "allOf"))


class Resolution:
    """Resolves references and `allOf` within one schema."""

    def __init__(self, root: Schema) -> None:
        self._references = References(root)  # keeps all schemas alive, so that their ids stay unique
        self._resolved: dict[int, Schema] = {}

    def resolved(self, schema: object, depth: int = 0) -> Schema:
        """Merge a schema with its reference and `allOf`. Anything but a schema becomes an empty one."""
        if not schemas.is_object(schema):
            return NOTHING
        if _MADE_OF.isdisjoint(schema):
            return schema
        if id(schema) not in self._resolved:
            self._resolved[id(schema)] = {}  # the result for a cycle
            self._resolved[id(schema)] = self._joined(schema, depth)
        return self._resolved[id(schema)]

    def branches(self, schema: Schema) -> Iterator[Schema]:
        """All nested alternatives of a resolved schema; the schema itself if it has none."""
        rest, seen = [schema], set[int]()
        while rest:
            one = rest.pop(0)
            parts = [part for word in UNIONS for part in _listed(one, word)]
            if not parts:
                yield one
            shared = {keyword: value for keyword, value in one.items() if keyword not in UNIONS}
            for part in parts:
                resolved = self.resolved(part)
                if id(resolved) not in seen:
                    seen.add(id(resolved))
                    rest.append({**shared, **resolved})

    def _joined(self, schema: Schema, depth: int) -> Schema:
        own = {keyword: value for keyword, value in schema.items() if keyword not in _MADE_OF}
        if depth >= DEFAULTS.schema_depth:
            return {**own, UNKNOWN: None}
        target = self._references.target(schema.get(UNKNOWN))
        whole: Schema = {UNKNOWN: None} if UNKNOWN in schema and target is None else NOTHING
        for part in (target, *_listed(schema, "allOf")):
            whole = _both(whole, self.resolved(part, depth + 1))
        return _both(whole, own)


def _both(one: Schema, other: Schema) -> Schema:
    """Merge two schemas of the same value."""
    properties = {**schemas.children(one, "properties"), **schemas.children(other, "properties")}
    required = [*schemas.required(one), *schemas.required(other)]
    gathered = {"properties": properties} if properties else {}
    return {**one, **other, **gathered, **({"required": required} if required else {})}


def _listed(schema: Schema, word: str) -> list[Any]:
    found = schema.get(word)
    return cast("list[Any]", found) if isinstance(found, list) else []


_INTEGER: Final = r"-?(?:0|[1-9][0-9]*)"
_NUMBER: Final = rf"{_INTEGER}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_MORE_NAMES: Final = frozenset(
    (UNKNOWN, *schemas.UNIONS, "patternProperties", "if", "dependentSchemas", "dependencies")
)
_ARTICLES: Final = {
    "integer": "an integer",
    "array": "an array",
    "object": "an object",
    "null": "null",
    "boolean": "true or false",
}


class Parameters:
    """The parameters of one tool."""

    def __init__(self, schema: object) -> None:
        root = schema if schemas.is_object(schema) else NOTHING
        self._resolution = Resolution(root)
        self._root = self._resolution.resolved(root)
        self._properties = schemas.children(self._root, "properties")
        self._is_whole = _MORE_NAMES.isdisjoint(self._root)
        """Whether `properties` has all names: no other keyword can add any."""
        self._schema = schema

    @classmethod
    def of(cls, definition: Definition) -> Parameters:
        """Those of a tool; one whose schema can't be read may have any."""
        return cls(decoded(jsonrpc.fields(definition.raw).get("inputSchema", jsonrpc.EMPTY_OBJECT)))

    @property
    def signature(self) -> str:
        """All of them in one line: how the tool is called."""
        from mcp_workbench.catalog.rendering.signature import signature  # noqa: PLC0415 -- only errors need it

        return signature(self._schema)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._properties)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(schemas.required(self._root))

    def schema(self, name: str) -> Schema:
        """The schema of one parameter, else that of additional ones, else an empty one."""
        return self._resolution.resolved(self._properties.get(name, self._root.get("additionalProperties")))

    def about(self, name: str) -> str:
        """What a parameter is for, as far as its schema says."""
        said = self.schema(name).get("description")
        return said if isinstance(said, str) else ""

    def choices(self, name: str) -> list[str]:
        """The allowed values of a parameter, or of its elements, as typed; empty: any."""
        branches = list(self._branches(name))
        return list(
            dict.fromkeys(_typed_form(value) for one in [*branches, *self._inner(branches)] for value in _values(one))
        )

    def titles(self, name: str) -> dict[str, str]:
        """The titles of allowed values, by the typed value."""
        branches = list(self._branches(name))
        found = [pair for one in [*branches, *self._inner(branches)] for pair in _titled(one)]
        times = Counter(title for _, title in found)
        times[str(self.schema(name).get("title"))] += 1  # the title of the parameter itself names no value
        return {value: title for value, title in found if times[title] == 1 and title.casefold() != value.casefold()}

    def typed(self, name: str, text: str, *, is_element: bool = False) -> Raw:
        """Convert typed text to JSON. With `is_element`, it is one element of a repeated list parameter.

        Raises `InvalidParameters`.
        """
        branches = list(self._branches(name))
        arrays = [one for one in branches if "array" in schemas.types(one)] if is_element else []
        if (raw := self._chosen(text, arrays or branches)) is not None:
            return raw
        wanted = [kind for one in branches for kind in _described(one)]
        raise InvalidParameters(
            f"'{escape(name)}' must be {' or '.join(dict.fromkeys(wanted))}, not '{escape(text)}'",
            hint=self._hint(name, text, branches),
        )

    def is_list(self, name: str) -> bool:
        """Whether it may be repeated, once per element."""
        return any("array" in schemas.types(one) for one in self._branches(name))

    def is_text(self, name: str) -> bool:
        """Whether its value, or an element of it, may be any text."""
        branches = list(self._branches(name))
        return any("string" in schemas.types(one) for one in [*branches, *self._inner(branches)])

    def check(self, given: Iterable[str], *, is_typed: bool) -> None:
        """Raise `InvalidParameters` for unknown and missing names.

        With `is_typed`, an open schema does not allow unknown names: they are typing errors.
        """
        names = list(given)
        extra = self._root.get("additionalProperties")
        is_closed = extra is False or (extra is None and is_typed and bool(self._properties))
        unknown = [name for name in names if name not in self._properties] if is_closed and self._is_whole else []
        if unknown:
            near = nearest(unknown[0], self.names)
            hint = f"Did you mean '{escape(near)}'?" if near else known_names(self.names, "parameters")
            raise InvalidParameters(f"there is no parameter '{escape(unknown[0])}'", hint=hint)
        if missing := [name for name in self.required if name not in names]:
            listed = ", ".join(f"'{escape(name)}'" for name in missing)
            verb = "is" if len(missing) == 1 else "are"
            raise InvalidParameters(f"{listed} {verb} missing", hint=f"Its parameters: {self.signature}")

    def _hint(self, name: str, text: str, branches: Sequence[Schema]) -> str:
        if (choices := self.choices(name)) and (near := nearest(text, choices)):
            return f"Did you mean '{escape(near)}'?"
        kinds = {kind for one in branches for kind in schemas.types(one)}
        if "array" in kinds:
            return f"Write {escape(name)}=... {escape(name)}=..., or as JSON: {escape(name)}='[...]'"
        if "object" in kinds:
            return f"""Write it as JSON: {escape(name)}='{{"key": ...}}'"""
        return f"Its parameters: {self.signature}"

    # -- one value

    def _chosen(self, text: str, branches: Sequence[Schema]) -> Raw | None:
        """The first conversion that some branch allows; text is the last resort."""
        for one in branches:
            if (listed := schemas.values(one)) is not None:
                found = [value for value in listed if _typed_form(value) == text]
                if found:
                    return as_json(found[0])
        open_ones = [one for one in branches if schemas.values(one) is None]
        kinds = dict.fromkeys(kind for one in open_ones for kind in schemas.types(one))
        for kind, read in _READERS.items():
            if kind in kinds and (raw := read(text)) is not None:
                return raw
        is_text = "string" in kinds or any(not schemas.types(one) for one in open_ones)
        arrays = [one for one in open_ones if "array" in schemas.types(one)]
        return self._array(text, arrays, is_whole=is_text) or (as_json(text) if is_text else None)

    def _array(self, text: str, arrays: Sequence[Schema], *, is_whole: bool) -> Raw | None:
        """Convert to an array; unless it must be whole, also from the text of one element."""
        inner = [list(self._elements(one)) for one in arrays]
        raw = json_of(text, "[") if arrays else None
        of_arrays = all(schemas.types(one) == ["array"] for branches in inner for one in branches)
        if raw is not None and (is_whole or not of_arrays or bytes(raw).startswith((b"[[", b"[]"))):
            return raw
        found = (self._chosen(text, branches) for branches in inner if not is_whole)
        return next((Raw(b"[" + bytes(element) + b"]") for element in found if element is not None), None)

    # -- schemas

    def _branches(self, name: str) -> Iterator[Schema]:
        return self._resolution.branches(self.schema(name))

    def _inner(self, branches: Sequence[Schema]) -> Iterator[Schema]:
        return (inner for one in branches for inner in self._elements(one))

    def _elements(self, array: Schema) -> Iterator[Schema]:
        """The schemas of an array's elements; none if it is not an array."""
        if "array" in schemas.types(array):
            yield from self._resolution.branches(self._resolution.resolved(schemas.elements(array)[1]))


def as_json(value: object) -> Raw:
    """Encode a value from JSON, or a text. Unlike msgspec, `json` takes huge numbers and lone surrogates."""
    return Raw(json.dumps(value).encode())


def json_of(text: str, bracket: str) -> Raw | None:
    """The text as JSON, if it begins with the bracket and is valid."""
    if not text.startswith(bracket):
        return None
    try:
        return Raw(msgspec.json.format(text.encode(), indent=-1))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def _values(schema: Schema) -> list[Any]:
    listed = schemas.values(schema)
    if listed is None:
        return [True, False] if schemas.types(schema) == ["boolean"] else []
    return listed


def _titled(schema: Schema) -> Iterator[tuple[str, str]]:
    """Values with their titles: `title` of a `const`, or `enumNames` parallel to `enum`."""
    listed = schemas.values(schema) or []
    titles = [schema.get("title")] if "const" in schema else schema.get("enumNames")
    if isinstance(titles, list):
        pairs = zip(listed, cast("list[Any]", titles), strict=False)
        yield from ((_typed_form(value), title) for value, title in pairs if isinstance(title, str))


def _described(schema: Schema) -> Iterator[str]:
    if (listed := schemas.values(schema)) is not None:
        yield from (f"'{escape(_typed_form(value))}'" for value in listed)
        return
    for kind in schemas.types(schema):
        yield _ARTICLES.get(kind, f"a {kind}")


def _typed_form(value: object) -> str:
    """How a user types a value: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _matching(pattern: str) -> Callable[[str], Raw | None]:
    """A reader for text that is valid JSON if it matches the pattern."""
    return lambda text: Raw(text.encode()) if re.fullmatch(pattern, text) else None


_READERS: Final[Mapping[str, Callable[[str], Raw | None]]] = {
    "null": _matching("null"),
    "boolean": _matching("true|false"),
    "integer": _matching(_INTEGER),
    "number": _matching(_NUMBER),
    "object": lambda text: json_of(text, "{"),
}
"""Readers to try before text, in this order."""
