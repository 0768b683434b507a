"""Words of a text, as search compares them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.catalog.search.words import SEARCH_WORD_LENGTH, pieces, stem, words


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("read_file", ["read", "file"]),
        ("read-file.now", ["read", "file", "now"]),
        ("getFileInfo", ["get", "file", "info"]),
        ("parseHTMLPage", ["parse", "html", "page"]),
        ("HTTP server", ["http", "server"]),
        ("tools/list", ["tools", "list"]),
        ("", []),
        (" \t\n", []),
        ("!?…", []),
    ],
)
def test_identifiers_are_taken_apart(text: str, found: list[str]):
    assert pieces(text) == found


@pytest.mark.parametrize("text", ["GitHub", "gitHub"])
def test_a_name_of_two_words_is_found_as_one_and_as_two(text: str):
    assert pieces(text) == ["git", "hub", "github"]


def test_a_name_that_begins_with_a_word_that_says_nothing_keeps_its_whole():
    assert words("youtube")[0] in words("YouTube")


@pytest.mark.parametrize(("text", "found"), [("s3", ["s3"]), ("base64", ["base64", "base"]), ("v2", ["v2"])])
def test_digits_belong_to_their_word_and_may_be_left_away(text: str, found: list[str]):
    assert pieces(text) == found


@pytest.mark.parametrize(
    "forms",
    [
        ("file", "files", "filing", "filed"),
        ("search", "searches", "searching", "searched"),
        ("query", "queries", "queried", "querying"),
        ("create", "creates", "creating", "created"),
        ("stop", "stops", "stopping", "stopped"),
        ("box", "boxes"),
        ("class", "classes"),
        ("delete", "deletes", "deleted", "deleting"),
        ("directory", "directories"),
        ("embed", "embeds", "embedding", "embedded"),
        ("speed", "speeds", "speeding"),
        ("plan", "plans", "planning", "planned"),
        ("rate", "rates", "rating", "rated"),
        ("read", "reads", "reading"),
        ("edit", "edits", "editing", "edited"),
        ("type", "typing", "typed"),
        ("файл", "файлы", "файла", "файлов", "файлами", "файле"),
    ],
)
def test_forms_of_a_word_have_one_stem(forms: tuple[str, ...]):
    assert len(set(map(stem, forms))) == 1, [stem(form) for form in forms]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("status", "state"),
        ("new", "news"),
        ("thing", "the"),
        ("bed", "be"),
        ("canvas", "canva"),
        ("speed", "spe"),
        ("plane", "plan"),
        ("site", "sit"),
    ],
)
def test_different_words_keep_different_stems(one: str, other: str):
    assert stem(one) != stem(other)


@pytest.mark.parametrize("word", ["sing", "red", "is", "s3", "gas", "bus", "это", "h264"])
def test_a_short_word_is_left_as_it_is(word: str):
    assert stem(word) == word


def test_words_that_say_nothing_are_left_out():
    assert words("What is in the file of the user?") == [stem("file"), stem("user")]


def test_a_text_of_such_words_alone_keeps_them():
    assert words("to be or not to be") == ["to", "be", "or", "not", "to", "be"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "cafe"),
        ("\uff26\uff29\uff2c\uff25", "file"),
        ("straße", "STRASSE"),
        ("ёлка", "елка"),
        ("naïve", "naive"),
    ],
)
def test_case_accents_and_forms_of_characters_do_not_count(one: str, other: str):
    assert words(one) == words(other)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("天气预报", ["天气", "气预", "预报"]),
        ("查询weather天气", ["查询", "weather", "天气"]),
        ("山", ["山"]),
        ("ファイル", ["ファ", "ァイ", "イル"]),
        ("날씨", ["날씨"]),
        ("ไฟล์", ["ไฟ", "ฟล"]),
    ],
)
def test_scripts_without_spaces_give_pairs_of_characters(text: str, found: list[str]):
    assert pieces(text) == found


@pytest.mark.parametrize("text", ["прочитай файл", "διάβασε αρχείο", "קרא קובץ", "اقرأ ملف", "फ़ाइल पढ़ें"])
def test_other_alphabets_give_their_words(text: str):
    assert len(words(text)) == len(text.split())


def test_data_is_not_taken_for_words():
    assert words("decode " + "iVBORw0KGgo/AAAN+" * 1000 + " please now") == [stem("decode")]


@pytest.mark.parametrize("letter", ["e", "é", "ж", "ß", "\ufdfa", "天", "א"])
def test_no_word_is_longer_than_one_may_be(letter: str):
    assert all(len(word) <= 2 * SEARCH_WORD_LENGTH for word in words(letter * 1000))


def test_a_long_name_is_no_data():
    assert words("a_very_" * 20 + "long_name")[-2:] == ["long", "name"]


@given(st.text())
def test_any_text_gives_words_that_are_never_empty_nor_longer_than_a_word(text: str):
    for word in words(text):
        assert 0 < len(word) <= 2 * SEARCH_WORD_LENGTH


@given(st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126)))
def test_case_does_not_count_in_a_text_that_has_only_one(text: str):
    assert words(text.lower()) == words(text.lower().capitalize())
