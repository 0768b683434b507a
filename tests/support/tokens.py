"""What an agent pays for a text, as OpenAI's o200k counts."""

from __future__ import annotations

import functools
import warnings
from typing import Any


@functools.cache
def encoding() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its way to open its own data
        import bpe_openai  # noqa: PLC0415 -- large

        return bpe_openai.get_encoding("o200k_base")


def cost(text: str) -> int:
    return len(encoding().encode(text))
