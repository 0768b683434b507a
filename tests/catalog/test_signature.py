"""Signatures: what they say of each kind of schema, that all of it can be read back, and that they are bounded."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.rendering import signature as module
from mcp_workbench.catalog.rendering.render import BRIEF_LENGTH
from mcp_workbench.catalog.rendering.schemas import SIGNATURE_MERGED_PARTS
from mcp_workbench.catalog.rendering.signature import SIGNATURE_LENGTH, brief, entry, signature
from mcp_workbench.identity import ToolIdentifier
from mcp_workbench.limits import DEFAULTS
from tests.catalog.signature_reader import Fact, Reader, value_of

TOOL = ToolIdentifier("dev", "fs", "read_file")


def whole_signature(schema: Any) -> str:
    """The signature of a schema, however long it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SIGNATURE_PARTS", 10_000)
        patch.setattr(module, "SIGNATURE_LENGTH", 1_000_000)
        return signature(schema)


def objects(properties: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **keywords}


def one(schema: Any) -> str:
    """How the type of a single required parameter is shown."""
    return signature(objects({"x": schema}, required=["x"])).removeprefix("(x: ").removesuffix(")")


# -- each kind of schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "()"),
        ({"type": "object"}, "()"),
        (True, "(...any)"),
        (False, "(...never)"),
        (objects({}, additionalProperties=True), "(...)"),
        (objects({}, additionalProperties=False), "(...: never)"),
        (objects({"a": {"type": "string"}, "b": {}}, required=["a"]), "(a: string, b?)"),
        (objects({}, required=["a"]), "(a)"),
        (objects({"a": {}}, description="What\n it takes."), "(a?) /* What it takes. */"),
        (objects({"a": {}}, title="readArguments"), "(a?)"),
        ({"type": "string"}, "(...string)"),
        ({"type": ["object", "null"], "properties": {"a": {}}}, "(...({a?}|null))"),
        ({"anyOf": [objects({"a": {}}), objects({"b": {}})]}, "(...({a?}|{b?}))"),
        (objects({"a": {}}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]), "(a?, ...({a}|{b}))"),
        ({"allOf": [objects({"a": {}}, required=["a"]), objects({"b": {}})]}, "(a, b?)"),
        ({"$ref": "#/$defs/A", "$defs": {"A": objects({"a": {}})}}, "(a?)"),
        ({"$ref": "#/$defs/v1/A", "$defs": {"v1": {"A": objects({"a": {}})}}}, "(a?)"),
        ({"$ref": "#"}, "(...Input) where Input = Input"),
    ],
)
def test_the_parameters_are_the_members_of_the_schema(schema: Any, expected: str):
    assert signature(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "enum": ["a", "b"]}, "'a'|'b'"),
        ({"enum": ["a", 1, True, None, {"k": [1]}, [2]]}, "'a'|1|true|null|const {'k':[1]}|const [2]"),
        ({"type": "string", "enum": ["a", None]}, "string & ('a'|null)"),
        ({"type": ["string", "null"], "enum": ["a", None]}, "'a'|null"),
        ({"enum": []}, "never"),
        ({"const": 'it\'s "so"'}, "'it\\'s \"so\"'"),
        ({"type": "integer", "const": True}, "integer & true"),
    ],
)
def test_values_stand_for_themselves_and_their_type_only_where_they_differ(schema: Any, expected: str):
    assert one(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array"}, "array"),
        ({"type": "array", "items": True}, "array"),
        ({"items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"enum": [1, 2]}}, "(1|2)[]"),
        ({"type": "array", "items": {"type": "string", "minLength": 1}}, "(string /* length >= 1 */)[]"),
        ({"type": "array", "items": {"type": "array", "items": {"type": "null"}}}, "null[][]"),
        ({"type": "array", "prefixItems": [{"type": "string"}, {}]}, "[string, any]"),
        ({"type": "array", "prefixItems": [{}], "items": False}, "[any, ...: never]"),
        ({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "null"}}, "[string, ...: null]"),
        (
            {"type": "array", "contains": {"type": "null"}, "minContains": 2},
            "array & contains null /* contained >= 2 */",
        ),
    ],
)
def test_arrays_and_tuples(schema: Any, expected: str):
    assert one(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": True}, "{...}"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "{...: string}"),
        ({"patternProperties": {"^x-": {"type": "null"}}}, "{['^x-']: null}"),
        ({"type": "object", "propertyNames": {"maxLength": 3}}, "object & propertyNames (any /* length <= 3 */)"),
        ({"dependentRequired": {"a": ["b"]}}, "(if {a} then {b})"),
        ({"dependentSchemas": {"a": {"minProperties": 2}}}, "(if {a} then (any /* keys >= 2 */))"),
        ({"dependencies": {"a": ["b"], "c": False}}, "(if {a} then {b}) & (if {c} then never)"),
        (objects({"a": {"type": "string", "required": True}}), "{a: string}"),
        (objects({"a b": {}, "c-d": {}, "名": {}, "class": {}, "": {}}), "{'a b'?, 'c-d'?, 名?, class?, ''?}"),
    ],
)
def test_objects(schema: Any, expected: str):
    assert one(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "integer"]}, "string|integer"),
        ({"type": "string", "nullable": True}, "string|null"),
        (
            {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
            "integer|null = null /* >= 1 */",
        ),
        (
            {"oneOf": [{"type": "string", "format": "email"}, {"type": "integer", "default": 3}], "description": "d"},
            "(string /* format email */)|(integer = 3) /* d */",
        ),
        ({"oneOf": [{"const": "a", "title": "Apple"}, {"const": "b", "title": "B"}]}, "('a' /* Apple */)|'b'"),
        ({"anyOf": [{"type": "string"}], "oneOf": [{"enum": [1, 2]}]}, "string & (1|2)"),
        ({"allOf": [{"type": "string"}, {"maxLength": 3, "description": "d"}]}, "string /* length <= 3; d */"),
        ({"allOf": [objects({"a": {}}, additionalProperties=False), objects({"b": {}})]}, "{b?} & {a?, ...: never}"),
        (objects({"a": {}}, additionalProperties=False, allOf=[objects({"b": {}})]), "{a?, ...: never} & {b?}"),
        ({"allOf": [objects({"a": {"type": "null"}}), objects({"a": False})]}, "{a?: null} & {a?: never}"),
        ({"allOf": [{"minimum": 1}, {"minimum": 2}], "type": "integer"}, "integer & (any /* >= 2 */) /* >= 1 */"),
        ({"type": "string", "not": {"enum": ["a"]}}, "string & not 'a'"),
        ({"not": {}}, "never"),
        ({"anyOf": [{"type": "string"}, False, {"not": {}}]}, "string"),
        (
            {"if": {"type": "string"}, "then": {"maxLength": 2}, "else": False},
            "(if string then (any /* length <= 2 */) else never)",
        ),
        (
            {"anyOf": [{"allOf": [{"not": {"type": "null"}}, {"not": {"type": "string"}}]}, {"type": "null"}]},
            "(not null & not string)|null",
        ),
    ],
)
def test_unions_intersections_and_conditions(schema: Any, expected: str):
    assert one(schema) == expected


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"minimum": 1, "maximum": 2.5}, "1..2.5"),
        ({"minimum": -1, "exclusiveMaximum": 5}, ">= -1; < 5"),
        ({"minimum": 1, "exclusiveMinimum": True, "maximum": 9, "exclusiveMaximum": False}, "<= 9; > 1"),
        ({"minLength": 1, "maxLength": 1, "pattern": "^\\d'*/$"}, "length 1..1; pattern '^\\\\d\\'*\\/$'"),
        ({"minItems": 1, "maxItems": 2, "uniqueItems": True}, "items 1..2; unique"),
        (
            {"minProperties": 1, "multipleOf": 0.5, "format": "date-time"},
            "keys >= 1; multiple of 0.5; format date-time",
        ),
        ({"format": "An odd one"}, "format 'An odd one'"),
        ({"contentEncoding": "base64", "contentMediaType": "a/b"}, "contentEncoding 'base64'; contentMediaType 'a/b'"),
        ({"readOnly": True, "writeOnly": False, "deprecated": True}, "readOnly; deprecated"),
        ({"examples": ["a", 1], "example": None}, "e.g. 'a',1,null"),
        ({"minimum": "5", "maxLength": [], "uniqueItems": "yes"}, "minimum '5'; maxLength []; uniqueItems 'yes'"),
    ],
)
def test_every_constraint_is_a_note(schema: Any, expected: str):
    assert one({"type": "string", **schema}) == f"string /* {expected} */"


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"description": " a\n\tb  c "}, "a b c"),
        ({"description": "glob **/*.js"}, "glob **\\/*.js"),
        ({"description": "a\x07\u200b\u2028\U000e0041\ud800"}, "a\\u0007\\u200b \\udb40\\udc41\\ud800"),
        ({"description": "1..5 of them"}, "- 1..5 of them"),
        ({"description": "format of it"}, "- format of it"),
        ({"description": "- a; b"}, "- - a; b"),
        ({"description": "-"}, "- -"),
        ({"description": "formatted"}, "formatted"),
        ({"title": "Another word"}, "Another word"),
        ({"title": "Another word", "description": "d"}, "d"),
    ],
)
def test_a_description_is_kept_whole_on_one_line_and_is_not_taken_for_a_constraint(schema: Any, expected: str):
    assert one({"type": "string", **schema}) == f"string /* {expected} */"


def test_a_title_that_repeats_the_name_is_not_shown():
    assert signature(objects({"user_id": {"type": "string", "title": "User Id"}})) == "(user_id?: string)"


# -- references


def defined(definitions: dict[str, Any], **properties: Any) -> str:
    return signature(objects(properties, **{"$defs": definitions}))


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def test_a_definition_that_is_used_once_stands_in_its_place():
    assert defined({"A": objects({"b": {}})}, a=ref("A")) == "(a?: {b?})"


def test_one_that_is_used_twice_or_leads_to_itself_has_a_name():
    assert (
        defined({"Colour": {"enum": [1, 2]}}, a=ref("Colour"), b=ref("Colour"))
        == "(a?: Colour, b?: Colour) where Colour = 1|2"
    )
    node = objects({"next": ref("node")}, description="A node")
    assert defined({"node": node}, a=ref("node")) == "(a?: Node) where Node = {next?: Node} /* A node */"


def test_names_are_identifiers_and_never_shared():
    definitions = {"a b/c": {"type": "null"}, "a_b_c": {"type": "string"}, "1": {"type": "integer"}}
    uses = [{"$ref": "#/$defs/a%20b~1c"}, ref("a_b_c"), ref("1")]
    shown = defined(definitions, x={"prefixItems": uses}, y={"prefixItems": uses})
    assert (
        shown
        == "(x?: [A_b_c, A_b_c_2, T1], y?: [A_b_c, A_b_c_2, T1]) where A_b_c = null; A_b_c_2 = string; T1 = integer"
    )


def test_what_is_told_beside_a_reference_is_told_too():
    told = {"$ref": "#/$defs/A", "default": 1, "description": "outer"}
    assert defined({"A": {"enum": [1, 2], "description": "inner"}}, a=told) == "(a?: (1|2 /* inner */) = 1 /* outer */)"
    assert defined({"A": {"enum": [1, 2]}}, a={"allOf": [ref("A")], "default": 1}, b=ref("A")) == (
        "(a?: A = 1, b?: A) where A = 1|2"
    )


def test_a_default_beside_a_reference_does_not_hide_that_of_the_definition():
    assert defined({"A": {"type": "integer", "default": 2}}, a={**ref("A"), "default": 1}) == "(a?: (integer = 2) = 1)"


@pytest.mark.parametrize(
    "reference", ["#", "#/properties/a", "#/properties/a/items", "#here", "http://schema/a", "http://schema/a#"]
)
def test_references_to_any_place_are_found(reference: str):
    inner = {"type": "array", "$anchor": "here", "items": {"type": "string"}}
    shown = signature({"$id": "http://schema/a", **objects({"a": inner, "b": {"$ref": reference}})})
    assert "where" in shown
    assert "see full schema" not in shown
    Reader(shown).read()


def test_a_reference_to_a_schema_whose_address_begins_like_ours_leads_out():
    shown = signature(
        {"$id": "http://schema", **objects({"a": {"type": "null"}, "b": {"$ref": "http://schema/properties/a"}})}
    )
    assert "b?: object /* $ref 'http://schema/properties/a'; see full schema */" in shown


@pytest.mark.parametrize(
    "reference", ["http://example.com/a.json", "#/$defs/none", "#/$defs/A/9", "other", "", 5, "#/$defs/A/type"]
)
def test_a_reference_that_leads_out_of_the_schema_is_an_object_with_a_note(reference: Any):
    shown = defined({"A": {"type": "string"}}, a={"$ref": reference})
    assert shown.startswith("(a?: object /* $ref ")
    assert shown.endswith("; see full schema */)")


def test_what_is_referred_to_in_its_own_place_is_told_once():
    tree = objects({"leaf": {"type": "string"}, "all": {"items": {"$ref": "#/properties/tree"}}})
    assert signature(objects({"tree": tree, "leaf": {"$ref": "#/properties/tree/properties/leaf"}})) == (
        "(tree?: Tree, leaf?: Leaf) where Tree = {leaf?: Leaf, all?: Tree[]}; Leaf = string"
    )


def test_in_a_bundle_only_whole_schemas_are_found():
    bundle = {"A": {"$id": "a", "type": "string", "$defs": {"B": {}}}, "B": {"type": "null"}}
    assert (
        defined(bundle, x={"$ref": "a"}, y=ref("B"))
        == "(x?: string, y?: object /* $ref '#/$defs/B'; see full schema */)"
    )


# -- everything can be read back

SPICE = (
    "*/",
    "/*",
    " */ ",
    "; ",
    "'",
    '"',
    "\\",
    "- ",
    "1..5",
    ">= 3",
    "format x",
    "where",
    "\n",
    "\u202e",
    "\ud83d",
    "🙂",
    "日本",
    "see full schema",
)
texts = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(SPICE)), max_size=4).map("".join)
numbers = st.one_of(st.integers(-(10**20), 10**20), st.floats(allow_nan=False, allow_infinity=False))
values = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
sizes = st.integers(0, 99)
CONSTRAINTS = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), numbers),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), sizes),
    **dict.fromkeys(("minContains", "maxContains"), sizes),
    **dict.fromkeys(("pattern", "format", "contentEncoding", "contentMediaType"), texts),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly", "deprecated"), st.booleans()),
}
TOLD = {"default": values, "description": texts, "examples": st.lists(values, min_size=1, max_size=2), **CONSTRAINTS}
SCALARS = ("string", "integer", "number", "boolean", "null")
SINGLE = (
    "not",
    "contains",
    "propertyNames",
    "contentSchema",
    "unevaluatedItems",
    "additionalProperties",
    "items",
    "if",
)
LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


class Schemas:
    """Draws schemas in which every property has a name of its own, so that each fact belongs to one of them."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self.draw = draw
        self.names = 0
        self.definitions = {f"D{number}": {} for number in range(draw(st.integers(0, 3)))}

    def root(self) -> dict[str, Any]:
        for definition in self.definitions.values():
            definition.update(self.schema(1))
        return {**self.object(3), **self.told(), "$defs": self.definitions}

    def name(self) -> str:
        self.names += 1
        return f"{self.draw(texts)}{self.names}"

    def told(self) -> dict[str, Any]:
        words = self.draw(st.lists(st.sampled_from(sorted(TOLD)), max_size=3, unique=True))
        return {word: self.draw(TOLD[word]) for word in words}

    def schema(self, depth: int) -> dict[str, Any]:
        kinds = [self.scalar, self.listed, self.referring] + [self.nested, lambda: self.object(depth - 1)] * (depth > 0)
        kind = self.draw(st.sampled_from(range(len(kinds))))
        shape = kinds[kind]() if kinds[kind] != self.nested else self.nested(depth - 1)
        return {**shape, **self.told()}

    def scalar(self) -> dict[str, Any]:
        named = st.one_of(st.sampled_from(SCALARS), st.lists(st.sampled_from(SCALARS), min_size=1, unique=True))
        return {"type": self.draw(named)}

    def listed(self) -> dict[str, Any]:
        kept = self.draw(st.booleans())
        return {"enum": self.draw(st.lists(values, min_size=1, max_size=4))} if kept else {"const": self.draw(values)}

    def referring(self) -> dict[str, Any]:
        return {"$ref": f"#/$defs/{self.draw(st.sampled_from(sorted(self.definitions)))}"} if self.definitions else {}

    def nested(self, depth: int) -> dict[str, Any]:
        keyword = self.draw(st.sampled_from((*SINGLE, *LISTS)))
        if keyword in LISTS:
            return {keyword: [self.schema(depth) for _ in range(self.draw(st.integers(1, 3)))]}
        then = {"then": self.schema(depth)} if keyword == "if" else {}
        return {keyword: self.schema(depth), **then}

    def object(self, depth: int) -> dict[str, Any]:
        names = [self.name() for _ in range(self.draw(st.integers(0, 3)))]
        required = self.draw(st.lists(st.sampled_from(names), unique=True)) if names else []
        drawn = objects({name: self.schema(depth) for name in names}, required=required)
        if self.draw(st.booleans()):
            drawn["additionalProperties"] = self.draw(st.booleans())
        if self.draw(st.booleans()):
            drawn["patternProperties"] = {self.draw(texts): self.schema(0)}
        return drawn


def folded(text: str) -> str:
    line = " ".join(text.split())
    hidden = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return "".join(escape(one) if unicodedata.category(one) in hidden else one for one in line)


def escape(character: str) -> str:
    units = memoryview(character.encode("utf-16-le", "surrogatepass")).cast("H")
    return "".join(f"\\u{unit:04x}" for unit in units)


def facts(schema: Any, owner: str) -> Iterator[Fact]:
    """What a schema says, by the property that it says it of."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword in ("default", "examples") or (keyword in CONSTRAINTS and value is not False):
            yield owner, keyword, value_of(value)
        elif keyword in ("enum", "const"):
            yield from ((owner, "value", value_of(one)) for one in (value if keyword == "enum" else [value]))
        elif keyword == "description" and folded(value):
            yield owner, keyword, value_of(folded(value).replace("*\\/", "*/"))
        elif keyword == "additionalProperties":
            yield owner, keyword, value_of(value is not False)
        elif keyword == "type":
            yield from kinds(value, owner)
        yield from inner_facts(keyword, value, owner, schema)


def kinds(named: Any, owner: str) -> Iterator[Fact]:
    for kind in [named] if isinstance(named, str) else named:
        if kind != "object":
            yield (owner, "value", "null") if kind == "null" else (owner, "type", value_of(kind))


def inner_facts(keyword: str, value: Any, owner: str, schema: dict[str, Any]) -> Iterator[Fact]:
    if keyword == "properties":
        for name, child in value.items():
            yield name, "optional", value_of(name not in schema["required"])
            yield from facts(child, name)
    elif keyword == "patternProperties":
        for pattern, child in value.items():
            yield owner, keyword, value_of(pattern)
            yield from facts(child, owner)
    elif keyword in SINGLE or keyword == "then":
        yield from facts(value, owner)
    elif keyword in LISTS:
        for child in value:
            yield from facts(child, owner)


def used(schema: Any, definitions: dict[str, Any], seen: set[str]) -> set[str]:
    """The definitions that a schema needs."""
    text = json.dumps({keyword: value for keyword, value in schema.items() if keyword != "$defs"})
    for name, definition in definitions.items():
        if f'"$ref": "#/$defs/{name}"' in text and name not in seen:
            seen.add(name)
            used(definition, definitions, seen)
    return seen


@st.composite
def any_schemas(draw: Any) -> dict[str, Any]:
    return Schemas(draw).root()


@settings(max_examples=50)
@given(any_schemas())
def test_everything_a_schema_says_can_be_read_back_and_nothing_else(schema: dict[str, Any]):
    shown = whole_signature(schema)
    read = {fact for fact in Reader(shown).read() if not (fact[1] == "type" and fact[2] not in map(value_of, SCALARS))}
    said = set(facts(schema, ""))
    of_definitions = {
        fact for name in used(schema, schema["$defs"], set()) for fact in facts(schema["$defs"][name], "?")
    }
    anywhere = {fact[1:] for fact in read}
    assert said <= read
    assert {fact[1:] for fact in of_definitions} <= anywhere
    assert anywhere <= {fact[1:] for fact in said | of_definitions}
    assert "\n" not in shown
    assert is_visible(shown)


def is_visible(text: str) -> bool:
    return all(unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") for one in text)


# -- whatever comes

KEYWORDS = (
    *TOLD,
    *SINGLE,
    *LISTS,
    *("$ref", "$defs", "$id", "$anchor", "type", "enum", "const", "properties", "required", "patternProperties"),
    *("then", "else", "dependentRequired", "dependencies", "nullable", "title", "example", "additionalItems"),
)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.sampled_from(KEYWORDS), st.text(max_size=4)), inner, max_size=5),
    ),
    max_leaves=30,
)


@settings(max_examples=60)
@given(json_values)
def test_any_value_has_a_signature_of_one_visible_line(value: Any):
    shown = signature(value)
    assert shown.startswith("(")
    assert is_visible(shown)
    assert len(shown) <= SIGNATURE_LENGTH


@pytest.mark.parametrize("value", [None, 5, "string", [], objects({"a": 5})["properties"]["a"]])
def test_what_is_no_schema_is_an_object_with_a_note(value: Any):
    assert signature(value) == "(...(object /* see full schema */))"
    assert one(value) == "object /* see full schema */"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"type": "a b"},
        {"type": ["string", 5]},
        {"properties": []},
        {"required": "a"},
        {"required": [5]},
        {"enum": "ab"},
        {"anyOf": {}},
        {"allOf": 1},
        {"prefixItems": {}},
        {"patternProperties": 1},
        {"dependentRequired": []},
        {"description": ["a"]},
        {"const": 1, "enum": [1, 2]},
        {"default": 10**5000},
        {"minimum": 10**5000, "maximum": 10**5000},
        {"enum": [10**5000]},
        {"if": 5, "then": {"type": "null"}},
    ],
)
def test_what_of_a_schema_can_not_be_read_is_never_left_out_silently(schema: Any):
    assert "see full schema" in one(schema)


@pytest.mark.parametrize("schema", [{"type": 5}, {"enum": "ab"}, {"anyOf": {}}, {"properties": 1, "type": None}])
def test_what_can_not_be_read_at_all_is_an_object(schema: Any):
    assert one(schema) == "object /* see full schema */"


def nest(keyword: str, wrap: Callable[[Any], Any], depth: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(depth):
        schema = {keyword: wrap(schema)}
    return schema


WRAPS: dict[str, Callable[[Any], Any]] = {
    "properties": lambda inner: {"a": inner},
    "items": lambda inner: inner,
    "not": lambda inner: inner,
    "additionalProperties": lambda inner: inner,
    "anyOf": lambda inner: [inner, {"type": "null", "description": "d"}],
    "allOf": lambda inner: [inner, {"not": {"type": "null"}}],
    "dependentSchemas": lambda inner: {"a": inner},
}


@pytest.mark.parametrize("keyword", WRAPS)
def test_the_deepest_schema_that_is_accepted_is_told_to_its_end(keyword: str):
    depth = DEFAULTS.schema_depth - 2
    assert "string" in signature(nest(keyword, WRAPS[keyword], depth))


@pytest.mark.parametrize("keyword", WRAPS)
def test_a_deeper_one_ends_in_a_note(keyword: str):
    shown = whole_signature(nest(keyword, WRAPS[keyword], 400))
    assert "string" not in shown
    assert "see full schema" in shown


def test_a_long_chain_of_definitions_is_told_to_its_end():
    chain = {f"D{number}": objects({f"p{number}": ref(f"D{number + 1}")}) for number in range(500)}
    facts_read = Reader(
        whole_signature(objects({"a": ref("D0")}, **{"$defs": {**chain, "D500": {"const": "end"}}}))
    ).read()
    assert ("p499", "value", '"end"') in facts_read


def test_a_definition_that_refers_to_its_neighbour_twice_does_not_double_what_is_told():
    fan = {
        f"D{number}": {"prefixItems": [ref(f"D{number + 1}"), {"$ref": f"#/%24defs/D{number + 1}"}]}
        for number in range(60)
    }
    shown = defined({**fan, "D60": {"type": "null"}}, a=ref("D0"))
    assert len(shown) < 2000
    assert shown.endswith("D60 = null")


def test_a_definition_that_is_reached_within_itself_by_another_way_ends():
    schema = {"A": objects({"x": ref("A")})}
    assert defined(schema, a={"$ref": "#/$defs/A/properties/x"}) == "(a?: X) where X = {x?: X}"
    looped = {"A": objects({"x": ref("A")}), "B": ref("C"), "C": ref("B")}
    assert defined(looped, a=ref("A"), b=ref("B")) == "(a?: A, b?: B) where A = {x?: A}; B = B"


# -- no longer than allowed

LONG = objects({f"a{number}": objects({f"b{inner}": {"type": "string"} for inner in range(9)}) for number in range(9)})


def test_what_is_deepest_is_left_out_of_a_long_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SIGNATURE_LENGTH", len(signature(LONG)) - 1)
    cut = signature(LONG)
    assert cut == f"({', '.join(f'a{number}?: object /* see full schema */' for number in range(9))})"


def test_as_many_parameters_as_fit_are_left_of_a_longer_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SIGNATURE_LENGTH", 300)
    many = objects({f"p{number}": {"type": "string"} for number in range(100)}, required=["p0"])
    cut = signature(many)
    assert cut.startswith("(p0: string, p1?: string, ")
    assert cut.endswith("p18?: string, ... /* 81 more; see full schema */)")
    assert cut.count("string") == 19
    assert 300 - len("p19?: string, ") < len(cut) <= 300


def test_a_text_that_is_too_long_leaves_the_names():
    assert signature(objects({"a": {"type": "string", "description": "word " * 9000}})) == (
        "(a?: string, ... /* see full schema */)"
    )


def test_escapes_count_as_what_they_are():
    hidden = objects({"a": {"type": "string", "description": "\u200b" * (SIGNATURE_LENGTH // 2)}})
    assert signature(hidden) == "(a?: string, ... /* see full schema */)"


def test_an_intersection_of_very_many_is_not_merged():
    parts = [objects({f"p{number}": {}}) for number in range(SIGNATURE_MERGED_PARTS + 1)]
    assert signature({"allOf": parts}).startswith("(...{p0?}, ...{p1?}, ")
    assert signature({"allOf": parts[1:]}).startswith("(p1?, p2?, ")


def large(count: int, make: Callable[[int], Any]) -> dict[str, Any]:
    return {f"p{number}": make(number) for number in range(count)}


LARGE: dict[str, Callable[[], Any]] = {
    "properties": lambda: objects(large(100_000, lambda _: {})),
    "typed properties": lambda: objects(large(8000, lambda _: {"type": "string"}), required=list(large(8000, bool))),
    "definitions": lambda: {
        "$ref": "#/$defs/p0",
        "$defs": large(6000, lambda one: {"items": {"$ref": f"#/$defs/p{one + 1}"}}),
    },
    "fan": lambda: {
        "$ref": "#/$defs/p0",
        "$defs": large(3000, lambda one: {"anyOf": [{"$ref": f"#/$defs/p{one + 1}"}] * 2}),
    },
    "cycle": lambda: objects(large(7000, lambda one: {"$ref": f"#/properties/p{(one + 1) % 7000}"})),
    "values": lambda: objects({"a": {"enum": list(range(40_000))}}),
    "union": lambda: {"anyOf": [{"const": number} for number in range(14_000)]},
    "intersection": lambda: {"allOf": [{"properties": {f"p{number}": {}}} for number in range(8000)]},
    "conditions": lambda: {"dependentRequired": large(11_000, lambda _: ["a"])},
    "default": lambda: objects({"a": {"default": ["'"] * 60_000}}),
    "escapes": lambda: objects({"a": {"default": "'\"\u200b" * 40_000}}),
    "description": lambda: objects(large(20, lambda _: {"description": "\u200b \u200c" * 2000})),
    "name": lambda: objects({"a\n" * 100_000: {}}),
    "pointer": lambda: objects({"a": {"$ref": "#" + "/a" * 120_000}}),
    "arrays": lambda: objects(
        large(4000, lambda _: {"type": "array", "items": {"type": "array", "items": {"minimum": 1}}})
    ),
}


@pytest.mark.parametrize("kind", LARGE)
def test_the_largest_schemas_take_bounded_time(kind: str):
    """They take 10 to 60 ms on a quiet machine; without its bounds one of them takes seconds or for ever."""
    schema = LARGE[kind]()
    begin = time.process_time()
    shown = signature(schema)
    taken = time.process_time() - begin
    assert len(shown) <= SIGNATURE_LENGTH
    assert is_visible(shown)
    assert taken < 0.5


# -- entries


def definition(**fields: Any) -> Definition:
    return Definition("read_file", Raw(json.dumps({"name": "read_file", **fields}).encode()))


def shown_entry(**fields: Any) -> dict[str, Any]:
    return json.loads(bytes(entry(TOOL, definition(**fields))))


def test_an_entry_has_a_signature_in_the_place_of_the_schema_and_only_what_a_call_needs():
    given_fields = {
        "title": "Read",
        "description": "Reads\n    a file.",
        "inputSchema": objects({"path": {"type": "string"}}),
    }
    more = {
        "outputSchema": {"type": "object"},
        "annotations": {},
        "icons": [],
        "_meta": {},
        "x": 1,
        "toolbox_name": "liar",
    }
    assert list(shown_entry(**given_fields, **more).items()) == [
        ("toolbox_name", "dev"),
        ("source_server", "fs"),
        ("name", "read_file"),
        ("title", "Read"),
        ("description", "Reads a file."),
        ("signature", "(path?: string)"),
    ]


@pytest.mark.parametrize("fields", [{}, {"title": None, "description": 5}, {"title": "", "description": " "}])
def test_an_entry_without_words_or_schema_says_no_more_than_it_knows(fields: dict[str, Any]):
    assert list(shown_entry(**fields)) == ["toolbox_name", "source_server", "name", "signature"]
    assert shown_entry(**fields)["signature"] == "()"


def test_numbers_beyond_all_reading_do_not_take_the_signature_away():
    raw = b'{"name":"read_file","inputSchema":{"properties":{"a":{"maximum":1e400},"b":{"type":"string"}}}}'
    assert b"(a? /* <= Infinity */, b?: string)" in bytes(entry(TOOL, Definition("read_file", Raw(raw))))
    digits = raw.replace(b"1e400", b"1" * 5000)
    assert b"see full schema" in bytes(entry(TOOL, Definition("read_file", Raw(digits))))


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        ("Reads a file. Then more.", "Reads a file."),
        ("Reads files, e.g. text. More", "Reads files, e.g. text."),
        ("Reads files, e.g. Markdown, i.e. Text! More", "Reads files, e.g. Markdown, i.e. Text!"),
        ("Waits 5 min.  or so. More", "Waits 5 min. or so."),
        ("Reads v1.2 files", "Reads v1.2 files"),
        ("Is it\n  there? Yes", "Is it there?"),
        ("Reads\na file\n\nArgs: none", "Reads a file"),
        ("\u8bfb\u53d6\u6587\u4ef6\u3002\u66f4\u591a", "\u8bfb\u53d6\u6587\u4ef6\u3002"),
        ("  \n ", None),
        (5, None),
    ],
)
def test_the_shortest_entry_has_the_first_sentence(description: Any, expected: str | None):
    fields = json.loads(bytes(brief(TOOL, definition(description=description, inputSchema={}))))
    assert ToolIdentifier.of(fields) == TOOL
    assert fields.get("description") == expected
    assert len(fields) == 3 + (expected is not None)


@pytest.mark.parametrize("text", ["word " * 100, "x" * 1000])
def test_a_first_sentence_without_an_end_is_cut(text: str):
    said = json.loads(bytes(brief(TOOL, definition(description=text))))["description"]
    assert said.endswith(("word…", "x…"))
    assert len(said) <= BRIEF_LENGTH + 1
