"""Search by meaning: how it is mixed with words, and the embedder of the extra where it is installed."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.search import semantic
from mcp_workbench.catalog.search.index import Index
from mcp_workbench.catalog.search.meanings import Meanings
from mcp_workbench.identity import ServerIdentifier
from mcp_workbench.limits import Limits

TOPICS = {"feline": 0, "cat": 0, "kitten": 0, "invoice": 1, "bill": 1, "rocket": 2, "spaceship": 2}
needs_the_extra = pytest.mark.skipif(find_spec("wordllama") is None, reason="the extra [semantic] is not installed")


class Topics:
    """An embedder that knows three topics: a text is as near to a query as it is about the same ones."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.embedded += texts
        return [self._vector(text) for text in texts]

    def join(self, groups: Sequence[list[list[float]]]) -> list[list[float]]:
        return [vector for group in groups for vector in group]

    def nearness(self, query: str, vectors: list[list[float]]) -> list[float]:
        wanted = self._vector(query)
        return [sum(a * b for a, b in zip(wanted, one, strict=True)) for one in vectors]

    def _vector(self, text: str) -> list[float]:
        counts = [0.0, 0.0, 0.0]
        for word in text.lower().split():
            if word in TOPICS:
                counts[TOPICS[word]] += 1
        length = sum(count * count for count in counts) ** 0.5
        return [count / length for count in counts] if length else counts


def definition(name: str, description: str = "") -> Definition:
    return Definition(name, Raw(json.dumps({"name": name, "description": description}).encode()))


def index_of(*tools: Definition, embed: Any = None, **limits: Any) -> Index:
    index = Index(Limits(**limits), embed=embed or Topics())
    index.put("box", "server", tools)
    return index


def found(index: Index, query: str, **where: Any) -> list[str]:
    return [hit.identifier.tool for hit in index.search(query, 10, **where)]


def test_what_shares_no_word_is_found_by_its_meaning():
    tools = [definition("groom", "Brush a feline"), definition("pay", "Settle an invoice")]
    assert found(index_of(*tools), "kitten") == ["groom"]
    assert Index().search("kitten", 10) == []


def test_what_is_near_too_little_does_not_fit():
    tools = [definition("groom", "Brush a feline beside a rocket with an invoice invoice invoice")]
    assert found(index_of(*tools, search_meaning_least=0.2), "kitten") == ["groom"]
    assert found(index_of(*tools, search_meaning_least=0.9), "kitten") == []


def test_words_and_meaning_are_mixed_as_they_are_weighed():
    tools = [definition("kitten_rocket_invoice", "invoice rocket"), definition("groom", "feline")]
    assert found(index_of(*tools, search_meaning_weight=0.2), "kitten")[0] == "kitten_rocket_invoice"
    assert found(index_of(*tools, search_meaning_weight=0.9), "kitten")[0] == "groom"


def test_both_kinds_of_finds_are_shown():
    tools = [definition("kitten_list"), definition("groom", "feline"), definition("launch", "rocket")]
    assert sorted(found(index_of(*tools), "kitten")) == ["groom", "kitten_list"]


def test_a_find_by_meaning_has_a_score():
    hits = index_of(definition("groom", "Brush a feline")).search("kitten", 10)
    assert hits[0].score > 0


def test_the_best_by_meaning_are_looked_at_however_many_there_are():
    tools = [definition(f"tool{number}", "rocket feline") for number in range(20)]
    index = index_of(*tools, definition("groom", "feline"), search_candidates=1)
    assert found(index, "kitten") == ["groom"]


def test_a_search_by_meaning_stays_in_its_toolbox():
    index = index_of(definition("groom", "feline"))
    index.put("other", "server", [definition("brush", "feline")])
    assert found(index, "kitten", toolbox="other") == ["brush"]


def test_what_is_dropped_or_replaced_is_not_found_by_its_meaning():
    index = index_of(definition("groom", "feline"))
    assert found(index, "kitten") == ["groom"]
    index.put("box", "server", [definition("pay", "invoice")])
    assert found(index, "kitten") == []
    index.put("box", "other", [definition("brush", "feline")])
    assert found(index, "kitten") == ["brush"]
    index.drop("box", "other")
    assert found(index, "kitten") == []
    index.drop("box", "server")
    index.drop("box", "server")
    assert found(index, "bill") == []


def test_what_is_put_in_the_place_of_something_is_all_that_is_there():
    meanings, server = Meanings(Topics()), ServerIdentifier("box", "server")
    meanings.put(server, range(2), ["feline", "invoice"])
    assert meanings.near("kitten", None) == {0: 1.0}
    meanings.put(server, range(2, 4), ["rocket", "feline"])
    assert meanings.near("kitten", None) == {3: 1.0}
    assert meanings.near("kitten", "other") == {}


def test_only_what_is_put_is_embedded_and_only_as_far_as_it_is_read():
    topics = Topics()
    index = index_of(definition("brushCats", "feline " * 50), embed=topics, search_gist_length=13)
    assert topics.embedded == ["server brush cats brushcats feline feline"]
    index.put("box", "more", [definition("pay")])
    assert len(topics.embedded) == 2


def test_an_empty_server_can_be_put():
    index = index_of()
    assert found(index, "kitten") == []


def test_nothing_of_the_extra_is_imported_unless_it_is_loaded():
    assert "numpy" not in sys.modules or find_spec("wordllama") is not None
    assert "wordllama" not in sys.modules


def test_without_the_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(semantic, "find_spec", lambda _name: None)
    with pytest.raises(semantic.Unavailable, match=r"mcp-workbench\[semantic\]"):
        semantic.load()


@pytest.mark.parametrize("head", [b"", b"\xff" * 16, b"\x02\0\0\0\0\0\0\0{}", b"\x02\0\0\0\0\0\0\0{]"])
def test_a_package_with_other_files_can_not_be_used(head: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    class Spec:
        submodule_search_locations = (str(tmp_path),)

    class Tokenizers:
        class Tokenizer:
            from_file = staticmethod(Path)

    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "l2_supercat_256.safetensors").write_bytes(head)
    (tmp_path / "tokenizers").mkdir()
    (tmp_path / "tokenizers" / "l2_supercat_tokenizer_config.json").write_text("{}")
    monkeypatch.setattr(semantic, "find_spec", lambda _name: Spec)
    monkeypatch.setattr(semantic.importlib, "import_module", lambda _name: Tokenizers)
    with pytest.raises(semantic.Unavailable, match="wordllama can't be used"):
        semantic.load()


@needs_the_extra
def test_the_embedder_needs_no_network_and_not_the_code_of_the_package(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_arguments: Any) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    embedder = semantic.load()
    texts = ["photo of a kitten", "interest rates of banks"]
    known = embedder.join([embedder.embed(texts), embedder.embed(["a picture of a cat"])])
    near, far, same = embedder.nearness("a picture of a cat", known)
    assert same == pytest.approx(1.0, abs=1e-2)
    assert same > near > far
    assert "wordllama" not in sys.modules


@needs_the_extra
@pytest.mark.parametrize("text", ["", " ", "\x00", "🙂", "天气", "x" * 10_000])
def test_the_embedder_takes_any_text(text: str):
    embedder = semantic.load()
    [value] = embedder.nearness(text, embedder.join([embedder.embed([text])]))
    assert value == pytest.approx(1.0, abs=1e-2) or value == 0.0


@needs_the_extra
def test_real_tools_are_found_by_their_meaning():
    tools = [
        definition("get_forecast", "Weather forecast for a place"),
        definition("send_email", "Send an email to people"),
        definition("resize_image", "Change width and height of an image"),
    ]
    index = index_of(*tools, embed=semantic.load())
    assert found(index, "rain and snow tomorrow")[:1] == ["get_forecast"]
