"""Checks whether handshake clients can compile an output schema.

The TypeScript SDK 1.x compiles every output schema of a list with Ajv, for JSON Schema draft 7, and rejects the whole
list if one does not compile. `_Schema` types the keywords as Ajv does; references, patterns and anchors are checked
after that. The check errs on the safe side: a few odd schemas that Ajv would compile are rejected. The schemas come
from servers, so the check takes linear time, and limits the total length of patterns, and the number of objects and
lists in a schema with references, patterns or anchors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

PATTERN_LENGTH = 8192
"""Total length of the distinct regular expressions in an output schema. Checking that many takes 50 ms."""
OUTPUT_SCHEMA_NODES = 2_000
"""For handshake clients, the workbench checks output schemas that have references or patterns, up to this many
objects and lists (4 ms). If a tool's output schema is larger, they get the tool without it. The largest seen in use
have a few hundred."""

_Type: TypeAlias = Literal["string", "number", "integer", "boolean", "null", "object", "array"]
_Number: TypeAlias = float | UnsetType
_SubSchema: TypeAlias = "_Schema | bool | UnsetType"
_SubSchemas: TypeAlias = "list[_Schema | bool] | UnsetType"
_NamedSchemas: TypeAlias = "dict[str, _Schema | bool] | UnsetType"


class _Schema(Struct, rename="camel", kw_only=True):
    type: _Type | list[_Type] | UnsetType = UNSET
    properties: _NamedSchemas = UNSET
    required: list[str] | UnsetType = UNSET
    additional_properties: _SubSchema = UNSET
    pattern_properties: _NamedSchemas = UNSET
    property_names: _SubSchema = UNSET
    dependencies: dict[str, _Schema | bool | list[str]] | UnsetType = UNSET
    items: _Schema | bool | list[_Schema | bool] | UnsetType = UNSET
    additional_items: _SubSchema = UNSET
    contains: _SubSchema = UNSET
    all_of: _SubSchemas = UNSET
    any_of: _SubSchemas = UNSET
    one_of: _SubSchemas = UNSET
    negated: _SubSchema = field(default=UNSET, name="not")
    condition: _SubSchema = field(default=UNSET, name="if")
    then: _SubSchema = UNSET
    otherwise: _SubSchema = field(default=UNSET, name="else")
    enum: Annotated[list[Any], Meta(min_length=1)] | UnsetType = UNSET
    pattern: str | UnsetType = UNSET
    format: str | UnsetType = UNSET
    minimum: _Number = UNSET
    maximum: _Number = UNSET
    exclusive_minimum: _Number = UNSET
    exclusive_maximum: _Number = UNSET
    multiple_of: _Number = UNSET
    min_length: _Number = UNSET
    max_length: _Number = UNSET
    min_items: _Number = UNSET
    max_items: _Number = UNSET
    min_properties: _Number = UNSET
    max_properties: _Number = UNSET
    unique_items: bool | UnsetType = UNSET
    nullable: bool | UnsetType = UNSET
    reference: str | UnsetType = field(default=UNSET, name="$ref")
    own_id: str | UnsetType = field(default=UNSET, name="$id")
    defs: _NamedSchemas = field(default=UNSET, name="$defs")
    definitions: _NamedSchemas = UNSET
    draft_4_id: Annotated[str, Meta(pattern="(?!)")] | UnsetType = field(default=UNSET, name="id")
    """Ajv refuses this keyword with any value."""


_decoder = msgspec.json.Decoder(_Schema)


_MARKS: Final = re.compile(rb"\$ref|pattern|nullable|\$id|nchor|\\u")
_BAD_ANCHOR: Final = re.compile(rb'"\$(?:a|dynamicA)nchor":(?!"[A-Za-z_][A-Za-z0-9._-]*")')
_ANCHOR: Final = re.compile(rb'"\$(?:a|dynamicA)nchor":("[^"]*")')
_IN_ONE: Final = frozenset(
    {"additionalProperties", "propertyNames", "additionalItems", "contains", "not", "if", "then", "else", "items"}
)
_IN_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "items"})
_IN_MAPS: Final = frozenset({"properties", "patternProperties", "dependencies", "definitions", "$defs"})


def is_compilable(schema: Raw) -> bool:
    """Whether handshake clients can compile an output schema."""
    given = bytes(schema)
    is_plain = _MARKS.search(given) is None  # like most schemas: then the types decide
    if not is_plain and given.count(b"{") + given.count(b"[") > OUTPUT_SCHEMA_NODES:
        return False
    try:
        _decoder.decode(schema)
        if is_plain:
            return True
        root = msgspec.json.decode(schema)
    except msgspec.DecodeError:
        return False
    text = msgspec.json.encode(root)
    if _BAD_ANCHOR.search(text) or (b'"$id"' in text and b'"$ref"' in text):
        return False
    anchors = _ANCHOR.findall(text)
    if len(set(anchors)) < len(anchors):
        return False
    every = list(_subschemas(root))
    known = {id(one) for one in every}
    passed: set[int] = set()
    return (
        not any("$id" in one for one in every[1:])  # Ajv also refuses an id that another schema of the client has
        and _are_patterns({pattern for one in every for pattern in _patterns(one)})
        and all("nullable" not in one or bool(one.get("type")) for one in every)
        and all(_leads_somewhere(one, root, known, passed) for one in every if "$ref" in one)
    )


def _subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all of its subschemas."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, dict):
            continue
        members = cast("dict[str, Any]", one)
        yield members
        for name, value in members.items():
            if name in _IN_MAPS:
                waiting += _named(value).values()
            elif name in _IN_LISTS and isinstance(value, list):
                waiting += _listed(value)
            elif name in _IN_ONE:
                waiting.append(value)


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    yield from _named(schema.get("patternProperties"))
    if "pattern" in schema:
        yield schema["pattern"]


def _are_patterns(patterns: set[str]) -> bool:
    return sum(map(len, patterns)) <= PATTERN_LENGTH and all(map(is_pattern, patterns))


def _leads_somewhere(schema: dict[str, Any], root: dict[str, Any], known: set[int], passed: set[int]) -> bool:
    """Whether a schema's reference, if it has one, resolves to a schema in the same document.

    `passed` has the schemas whose references were followed before: they resolved.
    """
    way: set[int] = set()
    place: Any = schema
    while "$ref" in _named(place) and id(place) not in passed:
        if id(place) in way or id(place) not in known:
            return False
        way.add(id(place))
        place = _target(_named(place)["$ref"], root)
    passed |= way
    return isinstance(place, bool) or id(place) in known


def _target(reference: str, root: Any) -> Any:
    """The target of a JSON pointer; None if it does not exist or is outside of the document."""
    if not (reference == "#" or reference.startswith("#/")) or "%" in reference:
        return None
    place = root
    for part in reference.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        place = _at(listed, name) if (listed := _listed(place)) else _named(place).get(name)
    return place


def _at(listed: list[Any], index: str) -> Any:
    is_index = index.isdecimal() and index.isascii() and len(index) <= len(str(len(listed)))
    return listed[int(index)] if is_index and int(index) < len(listed) else None


def _listed(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _named(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


# -- patterns

_ESCAPES: Final = (
    r"\\(?:[dDsSwW]|[pP]\{[A-Za-z_=]+\})",
    r"\\(?:[fnrtv0^$\\.*+?()\[\]{}|/]|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,5}\})",
    r"\\[bB](?![*+?{])",
)
"""Escapes for a character class, for one character, and for an assertion such as a word boundary."""
_SIGNS: Final = ("\x01", "\x02", "\x03")
_CLASS: Final = r"\[\^?(?:[^\[\]\\]|\\-)*\]"
_GROUP: Final = r"\(\?(?::|=|!|<=|<!|<[A-Za-z_]\w*>)"
_QUANTIFIER: Final = r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??"
_BAD: Final = (
    r"\[[^\[\]]*(?:\x01-[^\]]|[^\[^\\]-\x01)",  # a range from or to a character class
    r"\[[^\[\]]*(?:&&|~~|--|\|\|)",  # set operators, which some languages have
    r"\(\?(?!:|=|!|<=|<!|<[A-Za-z_])",  # a kind of group that JavaScript does not have
)
_LOOKAROUND: Final = r"\(\?<?[=!]"
_QUANTIFIED_GROUP: Final = r"\)[*+?{]"


def is_pattern(pattern: str) -> bool:
    """Whether a pattern is a valid regular expression in JavaScript with the `u` flag."""
    if any(sign in pattern for sign in _SIGNS):
        return False
    text = pattern
    for escapes, sign in zip(_ESCAPES, _SIGNS, strict=True):
        text = re.sub(escapes, sign, text)
    if any(re.search(bad, text) for bad in _BAD):
        return False
    if (look := re.search(_LOOKAROUND, text)) and re.search(_QUANTIFIED_GROUP, text[look.end() :]):
        return False  # possibly a quantified lookaround
    plain = re.sub(_QUANTIFIER, "*", re.sub(_GROUP, "(", re.sub(_CLASS, "x", text)))
    if re.search(r"[\\\[\]{}]|\*\*", plain):
        return False
    try:
        re.compile(re.sub(r"\(\?<([A-Za-z_]\w*)>", r"(?P<\1>", text))
    except (re.error, OverflowError, RecursionError):
        return False
    return True
