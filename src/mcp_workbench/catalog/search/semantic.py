"""Search by meaning: how near texts are though they share no word. An extra, imported only where it is asked for.

The vectors of words come with the package `wordllama`, as a file. Its code is not imported, since that looks for files
on the network; nothing here opens a connection.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mcp_workbench.catalog.search.meanings import Embedder, Vectors
from mcp_workbench.limits import DEFAULTS, Limits

__all__ = ["Embedder", "StaticEmbedder", "Unavailable", "load"]

_PACKAGE = "wordllama"
_WEIGHTS = Path("weights", "l2_supercat_256.safetensors")
_TOKENIZER = Path("tokenizers", "l2_supercat_tokenizer_config.json")
_TENSOR = "embedding.weight"


class Unavailable(Exception):
    """Search by meaning can't be used here; the message says why."""


class StaticEmbedder:
    """The mean of a text's word vectors, which were learned once and are looked up."""

    def __init__(self, numpy: Any, tokenizer: Any, table: Any) -> None:
        self._numpy = numpy
        self._tokenizer = tokenizer
        self._table = table

    def embed(self, texts: Sequence[str]) -> Vectors:
        numpy = self._numpy
        means = numpy.zeros((len(texts), self._table.shape[1]), dtype=numpy.float16)
        for row, text in enumerate(texts):
            means[row] = self._mean(text)
        return means

    def join(self, groups: Sequence[Vectors]) -> Vectors:
        return self._numpy.concatenate(groups).astype(self._numpy.float32)

    def nearness(self, query: str, vectors: Vectors) -> list[float]:
        return (vectors @ self._mean(query)).tolist()

    def _mean(self, text: str) -> Any:
        """A vector of length 1, or 0 for a text without words."""
        numpy = self._numpy
        found = self._tokenizer.encode(text, add_special_tokens=False).ids
        if not found:
            return numpy.zeros(self._table.shape[1], dtype=numpy.float32)
        mean = self._table[numpy.asarray(found)].astype(numpy.float32).mean(axis=0)
        return mean / (numpy.linalg.norm(mean) or 1.0)


def load(limits: Limits = DEFAULTS) -> Embedder:
    """The embedder of the extra, from files on this machine. Raises `Unavailable`. It takes a quarter of a second."""
    found = find_spec(_PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise Unavailable(f"the package {_PACKAGE} is not installed; pip install 'mcp-workbench[semantic]' has it")
    folder = Path(found.submodule_search_locations[0])
    try:
        numpy: Any = importlib.import_module("numpy")
        tokenizers: Any = importlib.import_module("tokenizers")
        tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
        return StaticEmbedder(numpy, tokenizer, _table(numpy, folder / _WEIGHTS, limits))
    except (ImportError, OSError, ValueError, KeyError) as error:
        raise Unavailable(f"the package {_PACKAGE} can't be used: {error}") from error


def _table(numpy: Any, file: Path, limits: Limits) -> Any:
    """The word vectors, read from the file as they are needed."""
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if size > limits.semantic_head_bytes:
            raise ValueError("its file of word vectors has another form")
        head = json.loads(opened.read(size))[_TENSOR]
    if head["dtype"] != "F16":
        raise ValueError("its word vectors are of another kind")
    start = 8 + size + head["data_offsets"][0]
    return numpy.memmap(file, dtype=numpy.float16, mode="r", offset=start, shape=tuple(head["shape"]))
