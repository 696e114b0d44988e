"""Models whose keys say what their tensors do not: they speak, or say in one line why not, in limited memory."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import limited_speaker
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC
from support.fuzzing import EXAMPLES, cases_file, read_in_limited_process
from support.gguf_files import read_metadata
from support.patience import PATIENCE

Gguf = Callable[..., Path]
# One line for each kind.
# fmt: off
VALUES: tuple[Any, ...] = (
    "remove", "", "text", True, [],
    0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 64, 100, 1024, 1025, 65535, 2**31 - 1, 2**32 - 1, 2**64 - 1, -1,
    "nan", "inf", 0.5, -0.5, 1e-45, 1e38,
    [0], [1], [2, 2], [8, 5, 4, 3], [3, 4, 5, 8], [2**31 - 1], [1] * 2000, [-1, 2], ["a"], ["a", "a"],
)
# fmt: on
"""What stands in the place of a key's value; `limited_speaker.changed` says what the words do."""
PAIRS = {
    "base talker": {"talker": "Qwen3-TTS-12Hz-0.6B-Base", "codec": CODEC},
    "speakers": {"talker": "Qwen3-TTS-12Hz-1.7B-CustomVoice", "codec": CODEC},
    "omnivoice": {"base": OMNIVOICE, "tokenizer": OMNIVOICE_CODEC},
}
ROOM = 400
"""Megabytes: a tiny model needs a tenth of them, and a lie that is believed far more."""


def changes(files: dict[str, Path], seed: str) -> list[tuple[str, str, Any]]:
    """Every key with every value, or as many of them as there is time for."""
    found = [
        (role, key, value) for role, path in files.items() for key in read_metadata(path) for value in VALUES
    ]
    random.Random(seed).shuffle(found)
    return found if "GGTTS_FUZZ_EXAMPLES" in os.environ else found[:EXAMPLES]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of memory as Linux has them")
@pytest.mark.parametrize("pair", PAIRS)
def test_lying_keys(tiny_gguf: Gguf, tmp_path: Path, pair: str) -> None:
    files = {role: tiny_gguf(name) for role, name in PAIRS[pair].items()}
    wanted = changes(files, pair)
    cases = {"files": {role: str(path) for role, path in files.items()}, "changes": wanted}
    arguments = [cases_file(tmp_path, cases)]
    results = list(
        read_in_limited_process(
            Path(limited_speaker.__file__), arguments, megabytes=ROOM, seconds=PATIENCE + len(wanted)
        )
    )
    assert len(results) == len(wanted)
    wrong = [result for result in results if result["kind"] not in (None, "GgttsError")]
    assert not wrong, wrong[:5]
    assert all("\n" not in (result["error"] or "") for result in results)
