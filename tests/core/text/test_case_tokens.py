"""The reported texts reach the model as the ids that the official tokenizer gives them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ggtts.core.formats.qwen import TALKER_ARCHITECTURE
from ggtts.core.text.decoding import decode_text
from ggtts.core.text.tokenizer import TextTokenizer
from support.data import DATA, TALKERS, golden_json
from support.gguf_files import read_metadata

TOKENS: dict[str, list[int]] = golden_json("case_tokens")


@pytest.fixture(scope="module")
def tokenizer(tiny_gguf: Callable[..., Path]) -> TextTokenizer:
    metadata = read_metadata(tiny_gguf(TALKERS[0]))
    assert metadata["general.architecture"] == TALKER_ARCHITECTURE
    return TextTokenizer.from_metadata(metadata)


@pytest.mark.parametrize("name", TOKENS)
def test_ids_equal_the_official_ones(tokenizer: TextTokenizer, name: str) -> None:
    text = decode_text((DATA / "cases" / f"{name}.txt").read_bytes())
    assert tokenizer.encode(text) == TOKENS[name]
