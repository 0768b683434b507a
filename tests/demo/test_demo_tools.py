"""The demo servers' tools, called as plain functions."""

import atexit
import json
import re
from itertools import count

import jsonschema
import pytest

from mcp_workbench.demo.server import ToolError, check, object_schema
from mcp_workbench.demo.servers import calculator, calendar, database, notes, text

SERVERS = {
    server.name: server for server in (notes.SERVER, text.SERVER, calculator.SERVER, calendar.SERVER, database.SERVER)
}
EVERY_TOOL = [(server.name, tool) for server in SERVERS.values() for tool in server.tools.values()]
atexit.register(database.CONNECTION.close)


@pytest.fixture(autouse=True)
def empty_notebook(monkeypatch):
    monkeypatch.setattr(notes, "NOTES", {})
    monkeypatch.setattr(notes, "_ids", count(1))


def ignore(_done: int, _total: int, _message: str) -> None:
    """A client that asked for no progress."""


EXAMPLES = [
    ("notes", "add_note", {"title": "a", "text": "b"}),
    ("notes", "list_notes", {}),
    ("notes", "search", {"query": "a"}),
    ("notes", "delete_note", {"id": 1}),
    ("text", "count_words", {"text": "one two\nthree"}),
    ("text", "slugify", {"text": "Hello, World"}),
    ("text", "wrap_text", {"text": "one two three", "width": 10}),
    ("text", "diff_texts", {"before": "a", "after": "b"}),
    ("text", "search", {"text": "a\nb", "query": "B"}),
    ("calculator", "evaluate", {"expression": "1 + 1"}),
    ("calculator", "statistics", {"numbers": [1, 2.5]}),
    ("calculator", "convert_units", {"value": 1, "source": "km", "target": "m"}),
    ("calculator", "count_primes", {"limit": 100}),
    ("calendar", "now", {"time_zone": "Europe/Berlin"}),
    ("calendar", "days_between", {"start": "2026-01-01", "end": "2026-01-31"}),
    ("calendar", "add_days", {"date": "2026-01-31", "days": -31}),
    ("calendar", "weekday", {"date": "2026-07-28"}),
    ("database", "list_tables", {}),
    ("database", "query", {"sql": "SELECT name, moons, NULL, 1.5 FROM planets"}),
]


def test_every_tool_has_an_example_here():
    assert {(server, name) for server, name, _ in EXAMPLES} == {
        (server, tool.definition["name"]) for server, tool in EVERY_TOOL
    }


def test_every_result_fits_the_output_schema_that_its_tool_declares():
    for server, name, arguments in EXAMPLES:
        tool = SERVERS[server].tools[name]
        jsonschema.validate(arguments, tool.definition["inputSchema"])
        result = tool.result(arguments, ignore)
        assert "isError" not in result, (name, result)
        if "outputSchema" in tool.definition:
            structured = json.loads(bytes(result["structuredContent"]))
            jsonschema.validate(structured, tool.definition["outputSchema"])
            assert json.loads(result["content"][0]["text"]) == structured


def test_every_definition_is_complete_and_its_schemas_are_valid():
    for _, tool in EVERY_TOOL:
        definition = tool.definition
        assert re.fullmatch(r"[a-z_]+", definition["name"])
        assert len(definition["description"]) > 30
        assert definition["annotations"]["openWorldHint"] is False
        assert len(definition["annotations"]) == 4
        for key in definition.keys() & {"inputSchema", "outputSchema"}:
            jsonschema.Draft202012Validator.check_schema(definition[key])


def test_arguments_with_a_default_are_optional():
    schema = notes.SERVER.tools["add_note"].definition["inputSchema"]
    assert (schema["required"], schema["additionalProperties"]) == (["title", "text"], False)


def test_only_deleting_a_note_is_destructive_and_only_the_notes_change_anything():
    annotations = [(server, tool.definition["name"], tool.definition["annotations"]) for server, tool in EVERY_TOOL]
    assert [name for _, name, hints in annotations if hints["destructiveHint"]] == ["delete_note"]
    assert {server for server, _, hints in annotations if not hints["readOnlyHint"]} == {"notes"}


def test_two_servers_share_a_tool_name():
    names = [tool.definition["name"] for _, tool in EVERY_TOOL]
    assert sorted({name for name in names if names.count(name) > 1}) == ["search"]


def test_the_description_of_the_search_names_how_many_lines_it_shows():
    assert f"the first {text.MAX_MATCHES} are shown" in text.SERVER.tools["search"].definition["description"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "title is missing"),
        ({"title": 1, "text": ""}, "title must be a string"),
        ({"title": "", "text": ""}, "title cannot be empty"),
        ({"title": "a", "text": "b", "tags": "c"}, "tags must be a list"),
        ({"title": "a", "text": "b", "tags": [1]}, "tags[0] must be a string"),
        ({"title": "a" * 201, "text": "b"}, "title can have at most 200 characters"),
        ({"title": "a", "text": "b", "colour": 1}, "Unknown argument 'colour'. Expected: title, text, tags"),
    ],
)
def test_bad_arguments_are_a_result_that_says_what_to_change(arguments, text):
    result = notes.SERVER.tools["add_note"].result(arguments, ignore)
    assert result == {"content": [{"type": "text", "text": text}], "isError": True}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, True),
        ({"type": "integer"}, 1.0),
        ({"type": "number"}, False),
        ({"type": "number"}, float("inf")),
        ({"type": "number"}, float("nan")),
        ({"type": "number"}, 10**400),
        ({"type": "integer", "minimum": 2}, 1),
        ({"type": "integer", "maximum": 2}, 3),
        ({"type": "string", "minLength": 3}, "ab"),
        ({"type": "string", "enum": ["a"]}, "b"),
        ({"type": "string", "minLength": 3}, ""),
        ({"type": "array", "items": {"type": "string"}, "maxItems": 1}, ["a", "b"]),
        ({"type": "array", "items": {"type": "string"}, "minItems": 1}, []),
        (object_schema({}), []),
    ],
)
def test_a_value_outside_its_schema_is_refused(schema, value):
    with pytest.raises(ToolError):
        check(schema, value)


def test_notes_are_found_by_every_word_in_any_case_and_gone_when_deleted():
    first = notes.add_note("Launch", "Ship on Friday", ["work"])
    second = notes.add_note("Shopping", "Fish on Friday")
    assert notes.search("FRIDAY ship")["notes"] == [first]
    assert notes.list_notes(tag="work")["notes"] == [first]
    assert notes.delete_note(1) == first
    assert notes.list_notes()["notes"] == [second]
    with pytest.raises(ToolError, match="There is no note 1"):
        notes.delete_note(1)


def test_a_full_notebook_refuses_more(monkeypatch):
    monkeypatch.setattr(notes, "MAX_NOTES", 1)
    notes.add_note("a", "b")
    with pytest.raises(ToolError, match="Delete one first"):
        notes.add_note("c", "d")


def test_text_is_counted_slugified_wrapped_compared_and_searched():
    assert text.count_words("one two\nthree") == {"words": 3, "characters": 13, "lines": 2, "reading_minutes": 0.0}
    assert text.slugify("  Crème Brûlée, 2 ways!") == {"slug": "creme-brulee-2-ways"}
    assert text.wrap_text("one two\nthree\n\nfour", 10) == "one two\nthree\n\nfour"
    assert text.diff_texts("a\nb", "a\nc").splitlines()[-2:] == ["-b", "+c"]
    assert text.diff_texts("a", "a") == "The texts are the same, line by line."
    assert text.search("Plan\nSHIP it", "ship") == {"matches": [{"line": 2, "text": "SHIP it"}], "total": 1}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-2 ** 2", -4),
        ("7 // 2 + 7 % 2", 4),
        ("sqrt(2) ** 2", pytest.approx(2)),
        ("cos(pi)", -1),
        ("2 ** 1000", 2**1000),
        ("1e3 / 4", 250),
        (" round(2.6) ", 3),
    ],
)
def test_arithmetic_has_its_value(expression, value):
    assert calculator.evaluate(expression) == {"value": value}


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("1 / 0", "Division by zero"),
        ("9 ** 9 ** 9", "too large"),
        ("2 ** 1025", "too large"),
        ("1e999", "too large"),
        ("exp(1000)", "too large"),
        ("(-8) ** 0.5", "no real root"),
        ("sqrt(-1)", "not defined"),
        ("1 +", "not an arithmetic expression"),
        ("(" * 300, "not an arithmetic expression"),
        ("-" * 400 + "1", "nested too deeply"),
        ("__import__('os').system('true')", "Not understood"),
        ("().__class__", "Not understood"),
        ("open", "Not understood"),
        ("True + 1", "Not understood"),
        ("'a' * 9", "Not understood"),
        ("sqrt(x=1)", "Not understood"),
        ("[1 for _ in (1,)]", "Not understood"),
        ("1 < 2", "Not understood"),
    ],
)
def test_what_is_not_bounded_arithmetic_is_refused(expression, text):
    with pytest.raises(ToolError, match=text):
        calculator.evaluate(expression)


def test_statistics_describe_numbers_and_refuse_those_that_overflow():
    result = calculator.statistics([1, 2, 3, 4])
    assert (result["mean"], result["median"], result["standard_deviation"]) == (2.5, 2.5, pytest.approx(1.29099, 1e-4))
    assert calculator.statistics([5])["standard_deviation"] == 0
    for numbers in ([1.7e308, 1.7e308], [-1e308, 0.9e308, 0.9e308, 0.9e308]):  # the sum, the median alone
        with pytest.raises(ToolError, match="too large"):
            calculator.statistics(numbers)


def test_units_convert_within_a_quantity_only():
    assert calculator.convert_units(26.2, "mi", "km") == {"value": pytest.approx(42.1648, 1e-5), "unit": "km"}
    with pytest.raises(ToolError, match=r"'kg' cannot be converted to 'm'\. It can be: kg, g, t, oz, lb"):
        calculator.convert_units(1, "kg", "m")
    with pytest.raises(ToolError, match="too large"):
        calculator.convert_units(1e308, "week", "s")


@pytest.mark.parametrize(
    ("limit", "count", "largest"),
    [(2, 1, 2), (3, 2, 3), (4, 2, 3), (100, 25, 97), (250_001, 22_044, 249_989), (1_000_000, 78_498, 999_983)],
)
def test_primes_are_counted_and_the_last_report_is_the_limit(limit, count, largest):
    done = []
    found = calculator.count_primes(lambda reached, _total, _message: done.append(reached), limit)
    assert found == {"count": count, "largest": largest}
    assert done == sorted(set(done))
    assert done[-1] == limit


def test_dates_are_calculated():
    assert calendar.days_between("2026-07-28", "2026-12-24") == {"days": 149, "working_days": 107}
    assert calendar.days_between("2026-12-24", "2026-07-28") == {"days": -149, "working_days": 107}
    assert calendar.add_days("2028-02-28", 1) == {"date": "2028-02-29", "weekday": "Tuesday"}
    assert calendar.weekday("2026-07-28") == {"weekday": "Tuesday", "iso_week": "2026-W31"}
    assert calendar.now("UTC")["time"].endswith("+00:00")


@pytest.mark.parametrize("zone", ["Mars/Base", "/etc/passwd", "../zone", "Europe", "a\0b", "\ud800"])
def test_an_unknown_time_zone_is_refused_with_an_example(zone):
    with pytest.raises(ToolError, match="Europe/Berlin"):
        calendar.now(zone)


@pytest.mark.parametrize("date", ["2026-02-30", "tomorrow??", "2026-W31-1", "20260728xx"])
def test_a_bad_date_is_refused_with_an_example(date):
    with pytest.raises(ToolError, match="YYYY-MM-DD"):
        calendar.weekday(date)


def test_a_date_outside_the_calendar_is_refused():
    with pytest.raises(ToolError, match="years 1 to 9999"):
        calendar.add_days("9999-12-31", 1)


def test_a_query_returns_columns_rows_and_whether_there_are_more():
    sql = "SELECT name, moons FROM planets ORDER BY moons DESC"
    assert database.query(sql, 2) == {
        "columns": ["name", "moons"],
        "rows": [["Saturn", 146], ["Jupiter", 95]],
        "more": True,
    }
    assert database.query(sql, 8)["more"] is False
    assert [table["name"] for table in database.list_tables()["tables"]] == ["missions", "planets"]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("DELETE FROM planets", "read-only"),
        ("DROP TABLE planets", "read-only"),
        ("CREATE TABLE t (a)", "read-only"),
        ("ATTACH DATABASE '/tmp/x' AS x", "read-only"),
        ("PRAGMA writable_schema = 1", "read-only"),
        ("BEGIN", "read-only"),
        ("SELECT * FROM stars", "no such table: stars"),
        ("SELECT 1; SELECT 2", "one statement"),
        ("SELECT '\0'", "failed"),
        ("SELECT '\ud800'", "failed"),
        ("SELECT zeroblob(1000000)", "too big"),
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) SELECT count(*) FROM n", "takes too long"),
    ],
)
def test_a_query_can_neither_change_anything_nor_run_away(sql, text):
    with pytest.raises(ToolError, match=text):
        database.query(sql)
    assert database.query("SELECT count(*) FROM planets")["rows"] == [[8]]


def test_cells_that_json_cannot_hold_are_named():
    assert database.query("SELECT x'0102', 9e999")["rows"] == [["<2 bytes>", "inf"]]
