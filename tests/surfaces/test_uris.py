"""URIs that name a server, and templates that an URI may be an expansion of."""

from __future__ import annotations

import re
import time
from typing import Annotated

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AnyUrl, TypeAdapter, UrlConstraints

from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.surfaces.resource_uris import (
    SCHEME,
    SCHEMES,
    Labelled,
    Located,
    ResourceIndex,
    fits,
    is_parsable,
    labelled,
    longest_match,
    qualified,
    read_labelled,
    read_qualified,
)

NAME = st.text(min_size=1, max_size=12)
URI = st.text(min_size=1, max_size=30)
A, B, C = (ServerIdentifier("dev", name) for name in "abc")
LITERAL = st.text(st.sampled_from("ab/:%"), max_size=4)
VALUE = st.text(st.sampled_from("abx/"), max_size=4)


# -- URIs that name a server


@given(NAME, NAME, URI)
@example("a/b%2F", "c/d", "/e")
def test_an_uri_that_names_a_server_leads_back_to_it(toolbox: str, server: str, uri: str):
    located = Located(ServerIdentifier(toolbox, server), uri)
    assert read_qualified(qualified(*located)) == located


@given(st.tuples(NAME, NAME, URI), st.tuples(NAME, NAME, URI))
@example(("a/b", "c", "d"), ("a", "b/c", "d"))
@example(("a", "b/c", "d"), ("a", "b", "c/d"))
def test_no_two_resources_have_one_uri(one: tuple[str, str, str], other: tuple[str, str, str]):
    names = {qualified(ServerIdentifier(toolbox, server), uri) for toolbox, server, uri in (one, other)}
    assert len(names) == len({one, other})


def test_the_servers_own_uri_follows_as_it_is():
    assert qualified(ServerIdentifier("my box", "a/b"), "file:///x y?z#f") == f"{SCHEME}my%20box/a%2Fb/file:///x y?z#f"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "file:///a",
        SCHEME,
        f"{SCHEME}t",
        f"{SCHEME}t/s",
        f"{SCHEME}t/s/",
        f"{SCHEME}/s/u",
        f"{SCHEME}t//u",
        SCHEME[1:],
    ],
)
def test_anything_else_names_no_server(uri: str):
    assert read_qualified(uri) is None


def test_an_uri_of_ours_within_one_of_ours_belongs_to_the_outer_server():
    inner = qualified(B, "file:///secret")
    assert read_qualified(qualified(A, inner)) == Located(A, inner)


# -- URIs that name a server in the scheme of their resource

KEPT = st.builds(str.__add__, st.sampled_from(SCHEMES), URI)


@given(NAME, NAME, KEPT, st.booleans())
@example("a+b", "c/d%2F", "ui:///main", True)  # noqa: FBT003 -- hypothesis takes it by position
@example("dev", "..", "skill://a/SKILL.md", False)  # noqa: FBT003
def test_every_form_of_a_labelled_uri_leads_back_to_its_server(toolbox: str, server: str, uri: str, with_toolbox: bool):  # noqa: FBT001
    forms = list(labelled(ServerIdentifier(toolbox, server), uri, with_toolbox=with_toolbox))
    assert len(forms) == 2
    for form in forms:
        assert form.startswith(uri[: uri.index("//") + 2])
        assert read_labelled(form) == Labelled(toolbox if with_toolbox else None, server, uri)


@pytest.mark.parametrize("uri", ["", "file:///a", "ui://", "ui://a", "ui://a/", "UI://a/b", "xui://a/b"])
def test_anything_else_has_no_label(uri: str):
    assert read_labelled(uri) is None


OWNED = st.dictionaries(
    st.builds(ServerIdentifier, st.sampled_from(["t", "u"]), st.sampled_from(["a", "b", "%61", "a/b"])),
    st.sets(st.sampled_from(["ui://m", "ui://a/m", "ui://%61/m", "ui://a/a/m", "ui://t+a/m", "x:m", f"{SCHEME}t/a/m"])),
    min_size=1,
)


@given(OWNED)
@example({A: {"ui://m", "ui://a/m", "ui://%61/m"}, B: {"ui://m"}})
def test_no_two_resources_are_shown_under_one_uri(owned: dict[ServerIdentifier, set[str]]):
    index = ResourceIndex(owned, owned)
    seen = [index.shown(server, uri) for server, found in owned.items() for uri in found]
    assert len(seen) == len(set(seen))


def test_a_server_is_named_with_its_toolbox_only_where_its_name_is_ambiguous():
    namesake = ServerIdentifier("ops", "a")
    shared = {server: {"ui://m"} for server in (A, B, namesake)}
    index = ResourceIndex(shared, shared)
    assert [index.shown(server, "ui://m") for server in shared] == ["ui://dev+a/m", "ui://b/m", "ui://ops+a/m"]


# -- templates


@given(st.lists(LITERAL, min_size=1, max_size=4), st.data())
def test_every_expansion_of_a_template_fits_it(literals: list[str], data: st.DataObject):
    values = [data.draw(VALUE) for _ in literals[1:]]
    template = "{v}".join(literals)
    uri = literals[0] + "".join(value + literal for value, literal in zip(values, literals[1:], strict=True))
    assert fits(uri, template)


@given(st.lists(LITERAL, min_size=1, max_size=4), st.text(st.sampled_from("abx/:%"), max_size=12))
def test_an_uri_fits_if_and_only_if_there_is_something_to_put_in(literals: list[str], uri: str):
    possible = re.fullmatch("(?s:.*)".join(map(re.escape, literals)), uri) is not None
    assert fits(uri, "{v}".join(literals)) is possible


@pytest.mark.parametrize(
    ("uri", "template", "expected"),
    [
        ("file:///a", "file:///a", True),
        ("file:///b", "file:///a", False),
        ("file:///a/b.txt", "file:///{path}.txt", True),
        ("file:///a/b.md", "file:///{path}.txt", False),
        ("db://t/1", "db://{table}/{+id}", True),
        ("ab", "ab{x}b", False),
        ("aa", "a{x}a{y}a", False),
        ("{x}", "{x", False),
        ("{x", "{x", True),
    ],
)
def test_templates_of_the_usual_kinds(uri: str, template: str, *, expected: bool):
    assert fits(uri, template) is expected


@pytest.mark.parametrize(
    "template", ["a{x}" * 20_000 + "b", "{" * 100_000, "{}" * 100_000 + "b", "{x}" + "a{x}" * 20_000]
)
def test_no_template_takes_more_than_linear_time(template: str):
    since = time.process_time()
    assert not fits("a" * 8192, template)
    assert time.process_time() - since < 1


def test_the_server_whose_template_has_the_most_text_of_its_own_is_meant():
    templates = [Located(A, "file:///{path}"), Located(B, "file:///x/{name}.txt"), Located(C, "file:///x/{n}.md")]
    assert longest_match("file:///x/y.txt", templates, 1000)[1] == {B}
    assert longest_match("file:///z", templates, 1000)[1] == {A}
    assert longest_match("http://z", templates, 1000)[1] == set()


def test_where_two_fit_equally_well_both_are_meant():
    templates = [Located(A, "x:{a}"), Located(B, "x:{bbb}"), Located(C, "{x}")]
    assert longest_match("x:y", templates, 1000)[1] == {A, B}


def test_what_is_all_variable_fits_everything():
    assert longest_match("x:y", [Located(A, "{uri}")], 1000)[1] == {A}


def test_templates_beyond_a_bound_are_not_looked_at():
    templates = [Located(A, "x:{aaaa}"), Located(B, "x:y{bbbb}")]
    assert longest_match("x:y1", templates, 17)[1] == {B}
    assert longest_match("x:y1", templates, 16)[1] == {A}


# -- URIs that clients read

STRICTEST = TypeAdapter[AnyUrl](Annotated[AnyUrl, UrlConstraints(host_required=False)])
"""How the Python SDK 1.x reads the URI of a resource."""
PIECES = st.lists(
    st.sampled_from([*"aZ09.:/@[]%?#-_~é <>^|\\{}+\t\n", "xn--", "::1", "1.2.3.4", "0x", "127.1", "//"]), max_size=8
)
ODD_URI = st.builds(
    "{}{}{}".format,
    st.sampled_from(["http", "https", "file", "foo", "ui", "a.b", "1a", "é", "HTTP", ""]),
    st.sampled_from([":", "://", ":///", ":/", "//", ""]),
    PIECES.map("".join),
)


@settings(max_examples=500)
@given(ODD_URI | st.text(max_size=20))
def test_an_uri_that_counts_as_readable_is_read_by_the_strictest_client(uri: str):
    if is_parsable(uri):
        STRICTEST.validate_python(uri)


@given(NAME, NAME, ODD_URI | URI)
def test_an_uri_that_names_a_server_is_read_by_the_strictest_client(toolbox: str, server: str, uri: str):
    STRICTEST.validate_python(qualified(ServerIdentifier(toolbox, server), uri))


@pytest.mark.parametrize(
    "uri",
    ["file:///a b", "demo://resource/1", "https://example.org:8080/x?y#z", "http://[::1]/x", "http://10.0.0.1/", "ui://é/x",
     "mem:a", "urn:x:y", "test://x", "file://localhost/a", "C:\\x"],
)  # fmt: skip
def test_usual_uris_count_as_readable(uri: str):
    assert is_parsable(uri)


@pytest.mark.parametrize("uri", ["README.md", "/etc/hosts", "http://", "foo://a b/c", "foo://a:99999/", "http://[::1"])
def test_what_is_no_uri_to_the_strictest_client_counts_as_unreadable(uri: str):
    assert not is_parsable(uri)
