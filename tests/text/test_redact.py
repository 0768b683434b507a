"""Secrets in text: nothing is left of them in any usual form, and nothing else is changed."""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_workbench.logger import Log
from mcp_workbench.text.redact import Redactor
from tests.support import canary

ANY_TEXT = st.text(st.characters())
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def redacting(*secrets: str) -> Redactor:
    redact = Redactor()
    redact.hide(secrets)
    return redact


def is_spared(value: str) -> bool:
    return value.startswith("/") and Path(value.split("\0", maxsplit=1)[0]).exists()


# What stands for a secret is no secret; characters that are no Unicode have a test of their own.
ANY_SECRET = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="*"), min_size=6, max_size=40).filter(
    lambda value: not is_spared(value)
)
ENCODERS = st.sampled_from([base64.b64encode, base64.urlsafe_b64encode])


@settings(deadline=None)
@given(ANY_SECRET, ANY_TEXT, ANY_TEXT, st.data())
def test_no_form_of_any_secret_is_left_in_any_text(secret: str, before: str, after: str, data: st.DataObject):
    all_forms = [form for form, kind in canary.forms(secret).items() if kind != "hex" and len(form) >= 6]
    form = data.draw(st.sampled_from(all_forms))
    hidden = redacting(secret)(f"{before} {form} {after}")  # `%4` before a secret may take its first character
    assert form not in hidden
    assert "***" in hidden


@settings(deadline=None)
@given(ANY_SECRET, st.binary(max_size=7), st.binary(max_size=7), ENCODERS)
def test_base64_of_a_text_with_a_secret_in_it_shows_no_more_of_it_than_two_characters(
    secret: str, before: bytes, after: bytes, encode: Callable[[bytes], bytes]
):
    """Where the secret begins and ends, a character of base64 belongs to it and to its neighbour."""
    hidden = redacting(secret)(encode(before + secret.encode() + after).decode())
    assert "***" in hidden
    assert len(hidden.replace("***", "").rstrip("=")) <= -(-8 * (len(before) + len(after)) // 6) + 2


@settings(deadline=None)
@given(
    st.lists(st.text(LETTERS, min_size=6, max_size=30)), st.text(st.characters(exclude_characters=LETTERS + "%\\+-_/"))
)
def test_a_text_without_secrets_is_left_as_it_is(secrets: list[str], text: str):
    assert redacting(*secrets)(text) == text


@settings(deadline=None)
@given(st.lists(ANY_TEXT), st.lists(ANY_TEXT | st.sampled_from(["%", "%4", "\\", "\\u", "\\ud83d", "\\x", "\\u00e"])))
def test_redacting_never_raises(secrets: list[str], pieces: list[str]):
    redact = redacting(*secrets, *(f"secret {piece}" for piece in pieces))
    assert isinstance(redact("".join(pieces)), str)
    assert all("***" in redact(f"a secret {piece}") for piece in pieces)


@settings(deadline=None)
@given(st.lists(st.text("ab", min_size=6, max_size=8), min_size=1, max_size=4), st.text("ab1", max_size=60))
def test_nothing_is_left_of_secrets_that_overlap(secrets: list[str], text: str):
    shown = list(text)
    for secret in secrets:
        for at in range(len(text)):
            if text.startswith(secret, at):
                shown[at : at + len(secret)] = "*" * len(secret)
    hidden = redacting(*secrets)(text)
    assert re.sub(r"\*+", "*", hidden) == re.sub(r"\*+", "*", "".join(shown))


@pytest.mark.parametrize("secret", ["trailing-token ", " leading", "\ttabbed token\r\n"])
def test_a_secret_is_hidden_from_whoever_strips_it_first(secret: str):
    assert redacting(secret)(f"bad key={secret.strip()}!") == "bad key=***!"


def test_a_secret_that_is_no_text_is_hidden_as_its_bytes_are_read():
    raw = "pässwörd-23".encode("latin-1")
    secret = os.fsdecode(raw)
    redact = redacting(secret)
    assert redact(f"key {raw.decode('utf-8', 'replace')}.") == "key ***."
    assert redact(f"key {secret}.") == "key ***."
    assert redact(f"key {quote(raw)}.") == "key ***."


@pytest.mark.parametrize(
    "text", [r"ab\u0026cd\/ef+g", r"ab\u0026cd/ef\u002Bg", "ab%26cd%2fef%2Bg", "ab&cd/ef%2bg", "ab&cd%2Fef+g"]
)
def test_a_secret_is_hidden_whatever_an_encoder_chooses_to_escape(text: str):
    assert redacting("ab&cd/ef+g")(f'key="{text}"') == 'key="***"'


def test_a_secret_in_a_representation_is_hidden_whichever_quotes_it_has():
    assert "ssword" not in redacting("pa'ssword")(repr("He said \"no\" to 'pa'ssword'"))


def test_a_secret_that_contains_another_one_disappears_whole():
    redact = Redactor()
    redact.hide(["secret"])
    redact.hide(["my-secret-key"])
    assert redact("a my-secret-key b secret c") == "a *** b *** c"


def test_short_values_and_plain_paths_are_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", "/home/nobody-here")
    redact = Redactor()
    redact.hide(["1", "true", "", str(tmp_path), "/home/nobody-here"])
    text = f"1 true {tmp_path} /home/nobody-here"
    assert redact(text) == text


@pytest.mark.parametrize("value", ["/not/a/path/but/a/secret", "a\0b-secret", "/a\0b-secret", "half\ud800-secret"])
def test_any_other_value_can_be_hidden(value: str):
    redact = Redactor()
    redact.hide([value])
    assert redact(f"x {value} y") == "x *** y"


def test_a_long_secret_costs_no_more_time_than_a_short_one():
    """A variable may have 128 KiB, and a server may send megabytes of escapes."""
    log = Log()
    log.redact.hide([secret := base64.b64encode(os.urandom(90_000)).decode()])
    began = time.process_time()
    shown = log.fit("%41\\u0041" * 500_000, 500)
    assert time.process_time() - began < 0.1
    assert shown.startswith("%41")
    assert log.fit(f"key {secret} and {'x' * 500}", 500) == "key ***…"
