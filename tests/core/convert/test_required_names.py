"""What counts as complete: exactly the tensors that the C++ converter's files hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from ggtts.core.convert import omnivoice_base, omnivoice_codec, qwen_codec, qwen_talker
from ggtts.core.convert.config_reader import read_json
from support.gguf_files import Listing


@pytest.mark.parametrize(
    ("family", "folder", "listing"),
    [
        (qwen_talker, "talker", "qwen-talker-0.6b-base-F32"),
        (qwen_codec, "codec", "qwen-tokenizer-12hz-F32"),
        (omnivoice_base, "omnivoice", "omnivoice-base-F32"),
        (omnivoice_codec, "omnivoice_codec", "omnivoice-tokenizer-F32"),
    ],
)
def test_required_names(data: Path, family, folder: str, listing: str) -> None:
    names = list(family.required_names(read_json(data / "fullsize" / folder / "config.json")))
    assert len(names) == len(set(names))
    assert set(names) == set(Listing.read(data / "gguf" / f"{listing}.txt").tensors)
