"""Renders literals, names, constraints and descriptions for signatures, each on one line.

Literals are JSON with strings in single quotes, as in TypeScript: double quotes would be escaped, since a signature is
inside a JSON string. A comment is a list of notes in fixed forms, then the description. A description that looks
like a note gets a dash in front, so that it is not taken for a constraint.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, TypeAlias, cast

Schema: TypeAlias = Mapping[str, Any]

SEE_SCHEMA = "see full schema"
"""The note that a signature is incomplete."""

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
_RANGES = (
    ("", "minimum", "maximum"),
    ("length ", "minLength", "maxLength"),
    ("items ", "minItems", "maxItems"),
    ("keys ", "minProperties", "maxProperties"),
    ("contained ", "minContains", "maxContains"),
)
_EXCLUSIVE = (("exclusiveMinimum", "minimum", ">"), ("exclusiveMaximum", "maximum", "<"))
_VALUES = {"multipleOf": "multiple of"} | {
    word: word for word in ("pattern", "format", "contentEncoding", "contentMediaType")
}
_FLAGS = {"uniqueItems": "unique", "readOnly": "readOnly", "writeOnly": "writeOnly", "deprecated": "deprecated"}
CONSTRAINTS = (*(word for _, *pair in _RANGES for word in pair), *(word for word, *_ in _EXCLUSIVE), *_VALUES, *_FLAGS)
_CONSTRAINED = frozenset((*CONSTRAINTS, "example", "examples"))
_LEADS = (*(label.strip() for label, *_ in _RANGES if label), *_VALUES.values(), *_FLAGS.values(), *CONSTRAINTS)
_LIKE_A_NOTE = re.compile(
    rf"[<>]=? |-(?: |$)|-?[\dIN][^ ]*\.\.|e\.g\. |\$ref |(?:{'|'.join(_LEADS)}|{SEE_SCHEMA})(?!\w)"
)
_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
_NO_END = "*\\/"
_LONGEST_TEXT: Final = 65_536
"""Characters of a description that are read: a signature with a longer one is cut in any case."""
_MOST_ITEMS: Final = 6000
"""Items of a literal: more do not fit into a signature."""
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_WORD = re.compile(r"[a-z][a-z0-9-]*")
_PUNCTUATION = re.compile(r"[\W_]+")


def escaped(text: str) -> str:
    """The text, with invisible characters as JSON escapes."""
    if text.isprintable():
        return text
    hidden = (character for character in set(text) if unicodedata.category(character) in _HIDDEN)
    return text.translate({ord(character): _escape(ord(character)) for character in hidden})


def _escape(code: int) -> str:
    pairs = chr(code).encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))


def literal(value: object) -> str | None:
    """A value as a literal; None if it is too deep or too large."""
    if isinstance(value, dict | list) and len(cast("list[Any]", value)) > _MOST_ITEMS:
        return None
    try:
        text = encode_basestring(value) if isinstance(value, str) else _dumps(value)
    except (ValueError, RecursionError):
        return None
    if "'" in text or '\\"' in text:
        return escaped(_STRING.sub(_requoted, text))
    return escaped(text.replace('"', "'"))


def _requoted(string: re.Match[str]) -> str:
    content = string[1].replace('\\"', '"').replace("'", "\\'")
    return f"'{content}'"


def name(text: str) -> str:
    """A parameter's name, quoted unless it is an identifier."""
    return text if text.isidentifier() else literal(text) or ""


def comment(notes: Sequence[str], description: str) -> str:
    """The comment after a value; empty without notes and description."""
    if description and _LIKE_A_NOTE.match(description):
        description = f"- {description}"
    said = "; ".join([*notes, description] if description else notes)
    return f" /* {said.replace('*/', _NO_END)} */" if said else ""


def description(schema: Schema, owner: str | None) -> str:
    """A schema's description, unescaped; otherwise its title, unless that only repeats its owner's name."""
    if (said := _line(schema.get("description"))) or owner is None:
        return said
    title = _line(schema.get("title"))
    return "" if _letters(title) == _letters(owner) else title


def _line(text: object) -> str:
    return " ".join(text[:_LONGEST_TEXT].split()) if isinstance(text, str) else ""


def _letters(text: str) -> str:
    return _PUNCTUATION.sub("", text).lower()


def constraints(schema: Schema) -> Iterator[str]:
    """Every constraint that the type does not show. Values of the wrong type are rendered unchanged."""
    if _CONSTRAINED.isdisjoint(schema):  # the common case
        return
    schema = _modern(schema)
    for label, least, most in _RANGES:
        yield from _range(label, least, most, schema)
    for keyword, _, sign in _EXCLUSIVE:
        yield from _bound(sign, keyword, schema)
    for keyword, label in _VALUES.items():
        if (value := schema.get(keyword)) is not None:
            yield _told(label, value)
    for keyword, label in _FLAGS.items():
        if (value := schema.get(keyword)) is True:
            yield label
        elif value is not None and value is not False:
            yield _told(keyword, value)
    yield from _examples(schema)


def _modern(schema: Schema) -> Schema:
    """Convert draft 4, where an exclusive bound is a flag next to the plain one."""
    for keyword, plain, _ in _EXCLUSIVE:
        if schema.get(keyword) is True and _is_number(schema.get(plain)):
            schema = {**schema, keyword: schema[plain], plain: None}
        elif schema.get(keyword) is False:
            schema = {**schema, keyword: None}
    return schema


def _range(label: str, least: str, most: str, schema: Schema) -> Iterator[str]:
    low, high = schema.get(least), schema.get(most)
    if _is_number(low) and _is_number(high):
        told = (literal(low), literal(high))
        yield f"{label}{told[0]}..{told[1]}" if None not in told else SEE_SCHEMA
        return
    yield from _bound(f"{label}>=", least, schema)
    yield from _bound(f"{label}<=", most, schema)


def _bound(sign: str, keyword: str, schema: Schema) -> Iterator[str]:
    if (value := schema.get(keyword)) is not None:
        yield _told(sign if _is_number(value) else keyword, value)


def _examples(schema: Schema) -> Iterator[str]:
    given = schema.get("examples")
    listed = cast("list[Any]", given) if isinstance(given, list) else [] if given is None else [given]
    if "example" in schema:
        listed = [*listed, schema["example"]]
    if listed:
        said = literal(listed)
        yield f"e.g. {said[1:-1]}" if said is not None else SEE_SCHEMA


def _told(label: str, value: object) -> str:
    """A note: formats as plain words, other values as literals."""
    if label == "format" and isinstance(value, str) and _WORD.fullmatch(value):
        return f"format {value}"
    said = literal(value)
    return f"{label} {said}" if said is not None else SEE_SCHEMA


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
