"""The pictures of the terminal are there, in the gallery, made by what is said to make them, and tell no secrets."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pyte import Stream

from docs.pictures import home as people
from docs.pictures.emulator import Screen
from docs.pictures.make import FOLDER, make
from docs.pictures.recipes import RECIPES
from docs.pictures.svg import WIDTH, picture
from tests.docs.markdown import ROOT, links, sections

GALLERY = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
PICTURES = sorted(FOLDER.glob("*"))
OF_THIS_MACHINE = re.compile(rf"/(tmp|root|work)/|/usr/local|{re.escape(sys.prefix)}|\.venv|Traceback")
SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str) -> list[tuple[float, float, str]]:
    """Every text: where it begins, where it ends, and what it says."""
    found = ET.fromstring(svg).iter(f"{SVG}text")  # noqa: S314 -- our own
    return [(float(one.get("x", "")), float(one.get("textLength", "")), one.text or "") for one in found]


def screen(written: str, columns: int = 30) -> Screen:
    shown = Screen(columns, 4)
    Stream(shown).feed(f"\x1b[32m$\x1b[0m x\r\n{written}")
    return shown


def test_every_picture_has_a_recipe_and_every_recipe_its_picture():
    assert {path.stem for path in PICTURES} == set(RECIPES)
    assert {path.suffix for path in PICTURES} == {".svg"}


def test_the_gallery_shows_every_picture_once_with_a_sentence_about_it():
    shown = [link for link in links(GALLERY) if link.endswith(".svg")]
    assert sorted(shown) == [f"pictures/terminal/{path.name}" for path in PICTURES]
    for section in sections(GALLERY):
        for before in re.split(r"^!\[.*$", section.text, flags=re.MULTILINE)[:-1]:
            assert before.strip().endswith("."), before


def test_the_readme_shows_one():
    shown = re.findall(r"!\[[^\]]+\]\(docs/pictures/terminal/([\w-]+)\.svg\)", (ROOT / "README.md").read_text("utf-8"))
    assert len(shown) == 1
    assert set(shown) <= set(RECIPES)


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.stem)
def test_a_picture_shows_a_command_whole_and_nothing_of_this_machine(path: Path):
    svg = path.read_text(encoding="utf-8")
    texts = drawn(svg)
    is_full_screen = path.stem == "status-watch"
    assert "mcp-workbench" in " ".join(text for _, _, text in texts[: 4 if is_full_screen else 2])
    assert max(x + length for x, length, _ in texts) <= 100 * WIDTH + 0.1
    assert not OF_THIS_MACHINE.search(svg)
    assert "not-a-real" not in svg


def test_what_the_pictures_must_not_show_is_in_the_files_that_were_read():
    assert "not-a-real" in people.CURSOR
    assert "not-a-real" in people.CLAUDE_CODE


@pytest.mark.skipif(sys.platform != "linux", reason="platform: they are made on Linux")
@pytest.mark.parametrize("name", ["add", "import", "install", "trust"])
def test_a_picture_is_what_the_command_shows_today(tmp_path: Path, name: str):
    made = make(name, tmp_path).read_text(encoding="utf-8")
    assert made == (FOLDER / f"{name}.svg").read_text(encoding="utf-8"), "make pictures, and look at them"


def test_what_follows_a_wide_character_stands_where_the_terminal_has_it():
    texts = [one for one in drawn(picture(screen("日本 ok"), "t")) if one[2] != "$"]
    assert texts[1:] == [(0, 16.8, "日"), (16.8, 16.8, "本"), (42, 16.8, "ok")]


def test_a_gap_between_words_is_where_the_terminal_has_it_whatever_a_viewer_makes_of_spaces():
    texts = [one for one in drawn(picture(screen("  a b   c"), "t")) if one[2] != "$"]
    assert texts[1:] == [(16.8, 25.2, "a b"), (67.2, 8.4, "c")]


def test_bold_faint_coloured_and_reversed_text_looks_so():
    svg = picture(screen("\x1b[2mfaint\x1b[22m \x1b[1;31mred\x1b[0m \x1b[38;5;2mnot\x1b[0m \x1b[7mback\x1b[0m"), "t")
    by_text = {text: look for look, text in re.findall(r'textLength="[\d.]+"([^>]*)>(\w+)<', svg)}
    assert by_text["faint"] == ' class="f"'
    assert by_text["red"] == ' class="b" style="fill:#ff7b72"'
    assert 'class="f"' not in by_text["not"]
    assert by_text["back"] == ' style="fill:#0d1117"'
    assert 'fill="#e6edf3"/>' in svg


def test_text_that_means_something_in_svg_is_text():
    assert drawn(picture(screen("a <b> & c"), '<"t">'))[-1][2] == "a <b> & c"


def test_a_screen_whose_beginning_is_gone_is_no_picture():
    with pytest.raises(ValueError, match="too small"):
        picture(screen("1\r\n2\r\n3\r\n4"), "t")
