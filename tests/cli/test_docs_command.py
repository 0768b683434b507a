"""`mcp-workbench docs`: pages by name, sections, search, how they look at a terminal, and the pager."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_workbench.cli import manual
from mcp_workbench.cli.display import text_width
from mcp_workbench.cli.docs import show_lines
from mcp_workbench.cli.manual import ManualPage, search
from mcp_workbench.cli.markdown import render
from tests.docs.markdown import ROOT, prose
from tests.support.screens import COLOUR, at_terminal, piped, seen

DOCS = ROOT / "docs"
PAGES = manual.pages()
EACH = pytest.mark.parametrize("page", PAGES.values(), ids=lambda page: page.name)
SMALL = """# A page

Text.

## Keys

| key | meaning |
|---|---|
| `one`, `two` | The *first* ones. |
| `three` | The last. |

```sh
# not a heading
```

### Below

More.

## Keys

Again.
"""


@pytest.fixture
def small(tmp_path: Path) -> ManualPage:
    path = tmp_path / "small.md"
    path.write_text(SMALL, encoding="utf-8")
    return ManualPage("small", path)


# -- which page


def test_every_file_is_a_page():
    files = {path.relative_to(ROOT) for path in DOCS.rglob("*.md")}
    files |= {Path(name) for name in ("README.md", "SECURITY.md", "CHANGELOG.md")}
    assert {page.path.relative_to(ROOT) for page in PAGES.values()} == files


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("errors", "docs/errors.md"),
        ("ERRORS.md", "docs/errors.md"),
        ("docs/errors.md", "docs/errors.md"),
        ("commands/call", "docs/commands/call.md"),
        ("call", "docs/commands/call.md"),
        ("hosts/cursor", "docs/hosts/cursor.md"),
        ("cursor", "docs/hosts/cursor.md"),
        ("search", "docs/search.md"),
        ("commands/search", "docs/commands/search.md"),
        ("readme", "README.md"),
        ("SECURITY.md", "SECURITY.md"),
        ("changelog", "CHANGELOG.md"),
    ],
)
def test_a_page_has_a_name_with_and_without_its_folder(name: str, file: str):
    done = piped("docs", name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (ROOT / file).read_text(encoding="utf-8")
    assert piped("docs", name, "--path").stdout == f"{ROOT / file}\n"


@pytest.mark.parametrize(
    ("words", "problem", "hint"),
    [
        (["confg"], "There is no page 'confg'", "Did you mean 'configuration'"),
        (["trubleshooting"], "There is no page 'trubleshooting'", "Did you mean 'troubleshooting'"),
        (["../../etc/passwd"], "There is no page '../../etc/passwd'", "mcp-workbench docs lists the pages"),
        (["errors#server_refusd"], "Page 'errors' has no section 'server_refusd'", "'errors#server_refused'"),
        (["errors", "xyzzy"], "Page 'errors' has no section 'xyzzy'", "mcp-workbench docs errors"),
        (["call", "retries"], "Page 'commands/call' has no section 'retries'", "mcp-workbench docs --search retries"),
        (["how", "to", "log", "in"], "Invalid parameters: name one page", "docs --search how to log in"),
        (["--search"], "Invalid parameters: nothing to search for", "docs --search call timeout"),
    ],
)
def test_what_is_not_there_is_answered_with_what_is_near(words: list[str], problem: str, hint: str):
    done = piped("docs", *words)
    assert (done.returncode, done.stdout) == (2, "")
    told = done.stderr.splitlines()
    assert told[0] == f"error: {problem}"
    assert hint in told[1]


def test_an_installation_without_pages_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(manual, "__file__", str(tmp_path / "a" / "b" / "cli" / "manual.py"))
    with pytest.raises(manual.PageNotFound, match="no documentation"):
        manual.pages()


# -- sections


def test_a_section_goes_on_to_the_next_heading_of_its_level(small: ManualPage):
    assert small.section("below").text == "### Below\n\nMore.\n"
    text = small.section("keys").text
    assert text.startswith("## Keys\n")
    assert "### Below" in text
    assert "# not a heading" in text
    assert "Again" not in text
    assert small.section("keys-1").text == "## Keys\n\nAgain.\n"


def test_a_name_in_the_first_column_of_a_table_is_a_section(small: ManualPage):
    assert (
        small.section("TWO").text == "## Keys\n\n| key | meaning |\n|---|---|\n| `one`, `two` | The *first* ones. |\n"
    )
    assert list(small.anchors()) == ["keys", "below", "keys-1", "one", "two", "three"]


def test_a_section_is_named_behind_a_sharp_or_a_space():
    done = piped("docs", "errors#server_refused")
    assert done.stdout == piped("docs", "errors", "server_refused").stdout
    assert len([line for line in done.stdout.splitlines() if line.startswith("| `")]) == 1
    assert "| `server_refused` |" in done.stdout
    assert "`toolFilters`" in piped("docs", "configuration#toolfilters").stdout
    assert piped("docs", "configuration#variables").stdout.startswith("## Variables\n")


# -- all pages, and searching them


def test_the_overview_has_a_line_for_each_page():
    text = piped("docs").stdout
    listed = re.findall(r"^  (\S+) +\S", text, re.MULTILINE)
    assert sorted(listed) == sorted(set(PAGES) - {"index"})
    assert [line for line in text.splitlines() if re.fullmatch("[A-Z][a-z]+", line)] == [
        "Begin", "Use", "Know", "Change", "Commands", "Hosts",
    ]  # fmt: skip


def test_the_overview_and_a_page_are_json_too():
    told = json.loads(piped("docs", "--json").stdout)
    assert told["folder"] == str(ROOT)
    assert {one["page"]: one["path"] for one in told["pages"]}["errors"] == str(DOCS / "errors.md")
    assert all(one["about"] and one["title"] for one in told["pages"])
    page = json.loads(piped("docs", "errors#needs_auth", "--json").stdout)
    assert (page["page"], page["section"], page["path"]) == ("errors", "needs_auth", str(DOCS / "errors.md"))
    assert "`needs_auth`" in page["text"]
    assert json.loads(piped("docs", "no-such-page", "--json").stdout)["code"] == "page_not_found"
    assert piped("docs", "--path").stdout == f"{ROOT}\n"


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("server refused", "errors#server_refused"),
        ("TOOLFILTERS", "configuration#toolfilters"),
        ("conformance suite", "conformance"),
        ("wsl", "platforms#windows"),
        ("needs a login", "troubleshooting#a-server-needs-a-login"),
    ],
)
def test_a_search_finds_the_section_that_is_about_the_words(words: str, first: str):
    lines = piped("docs", "--search", *words.split()).stdout.splitlines()
    assert first in [line for line in lines if not line.startswith(" ")][:3]


def test_a_hit_has_all_words_and_shows_lines_that_have_some():
    hits = search(["idle", "timeout"], PAGES.values())
    assert hits
    for hit in hits:
        text = f"{PAGES[hit.page].title} {hit.section.own}".casefold()
        assert "idle" in text
        assert "timeout" in text
        assert all(re.search("idle|timeout", line, re.IGNORECASE) for line in hit.lines)
    assert len({hit.name for hit in hits}) == len(hits)
    for hit in hits:
        assert PAGES[hit.page].section(hit.section.anchor)


def test_a_search_that_finds_nothing_says_so():
    done = piped("docs", "--search", "xyzzy")
    assert (done.returncode, done.stdout) == (
        0,
        "No section has all of these words. mcp-workbench docs lists the pages.\n",
    )
    assert json.loads(piped("docs", "--search", "xyzzy", "--json").stdout)["found"] == []


# -- how a page looks


def rendered(page: ManualPage, width: int) -> list[str]:
    return render(page.text, width, lambda text, href: f"{text} ({href})", is_coloured=False)


def words(text: str) -> Iterator[str]:
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose(text))
    yield from re.findall(r"[A-Za-z]{4,}", plain)


@EACH
@pytest.mark.parametrize("width", [40, 80])
def test_a_page_fits_and_nothing_of_it_is_lost(page: ManualPage, width: int):
    lines = rendered(page, width)
    wide = [line for line in lines if text_width(line) > width and not line.startswith("    ")]
    assert wide == []
    left = re.sub(r"\s", "", "".join(lines))
    assert [word for word in words(page.text) if word not in left] == []


def test_a_table_of_sentences_becomes_records_and_a_narrow_one_stays_a_table():
    text = "\n".join(rendered(PAGES["errors"], 80))
    assert "\nserver_refused\n  when: It answered with a JSON-RPC error\n" in text
    assert re.search(r"^status +when$", text, re.MULTILINE)


def test_a_table_that_would_break_a_path_becomes_records():
    path = "/home/me/some/rather/long/path/to/a/file.json"
    table = f"| a | b |\n|---|---|\n| {'word ' * 12} | `{path}` |\n"
    assert f"  {path}" in render(table, 80, lambda text, _: text, is_coloured=False)
    assert any(
        line.endswith(path) and line.startswith("word")
        for line in render(table, 120, lambda text, _: text, is_coloured=False)
    )


def test_code_is_not_folded_but_usage_is():
    long = "mcp-workbench call " + "x " * 60
    for language, line in (("sh", long), ("text", f"$ {long}")):
        kept = render(f"```{language}\n{line}\n```", 80, lambda text, _: text, is_coloured=False)
        assert kept == [f"    {line}".rstrip()]
    folded = render(f"```text\n{long}\n```", 80, lambda text, _: text, is_coloured=False)
    assert len(folded) == 2
    assert all(len(line) <= 80 for line in folded)


@EACH
def test_every_link_to_a_page_can_be_followed(page: ManualPage):
    followed: list[str] = []

    def link(text: str, href: str) -> str:
        there, name = manual.reference(page, href, PAGES)
        if there is not None:
            anchor = name.partition("#")[2]
            assert manual.find(name.partition("#")[0] or page.name, PAGES) is there
            assert not anchor or there.section(anchor)
            followed.append(name)
        return text

    render(page.text, 80, link, is_coloured=False)
    assert followed or "](" not in prose(page.text) or page.name == "changelog"


def test_a_link_shows_what_to_pass_to_the_command():
    with at_terminal("docs", "hosts/cursor", "--no-pager", columns=80) as screen:
        assert screen.finish() == 0
    text = " ".join(" ".join(seen(screen.text)).split())
    assert "commands/doctor starts each server once" in text
    assert "the values (commands/install#the-values-of-variables)" in text
    assert "To follow a link: mcp-workbench docs commands/import" in text
    assert "](" not in text


def test_colours_are_for_terminals_that_have_them():
    with at_terminal("docs", "errors#server_refused", columns=80) as screen:
        screen.finish()
    assert COLOUR.search(screen.text)
    with at_terminal("docs", "errors#server_refused", env={"NO_COLOR": "1"}, columns=80) as screen:
        screen.finish()
    assert "\x1b" not in screen.text
    assert "The whole page: mcp-workbench docs errors" in screen.text


# -- the pager


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that keeps what it is given."""
    program = tmp_path / "pager"
    program.write_text(f'#!/bin/sh\necho "args: $*"\ncat > "{tmp_path / "paged"}"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def test_a_long_page_goes_to_the_pager_and_a_short_one_does_not(pager: Path):
    paged = pager.parent / "paged"
    env = {"PAGER": f"{pager} --its option"}
    with at_terminal("docs", "errors#server_refused", env=env, columns=80) as screen:
        assert screen.finish() == 0
    assert "server_refused" in screen.text
    assert not paged.exists()
    with at_terminal("docs", "errors", env=env, columns=80) as screen:
        assert screen.finish() == 0
    assert seen(screen.text) == ["args: --its option"]
    assert "What happened on the connection" in paged.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("pager", "words"), [("cat", []), ("", []), ("/no/such/pager", []), ("'unbalanced", []), ("false", ["--no-pager"])]
)
def test_without_a_usable_pager_the_page_is_printed(pager: str, words: list[str]):
    with at_terminal("docs", "security", *words, env={"PAGER": pager}, columns=80) as screen:
        assert screen.finish() == 0
    assert "Read this first" in screen.text
    assert "What we promise" in screen.text


def test_a_dumb_terminal_has_no_pager(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("PAGER", "false")
    monkeypatch.setattr("mcp_workbench.cli.docs.is_terminal", lambda _: True)
    show_lines(["x"] * 1000)
    assert capsys.readouterr().out == "x\n" * 1000


def test_a_person_may_leave_the_pager_early():
    with at_terminal("docs", "limits", env={"PAGER": "head -3"}, columns=80) as screen:
        assert screen.finish() == 0
    assert len(seen(screen.text)) == 3


def test_less_shows_colours_and_ends_with_q():
    if shutil.which("less") is None:
        pytest.skip("platform: less is not installed")
    with at_terminal("docs", "errors", env={"PAGER": "less"}, columns=80) as screen:
        screen.wait_for("How an error looks")
        screen.type("q")
        assert screen.finish() == 0
    with at_terminal("docs", "errors", columns=80) as screen:
        screen.wait_for("How an error looks")
        assert "ESC[" not in screen.text
        screen.type("q")
        assert screen.finish() == 0
