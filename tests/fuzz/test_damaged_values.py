"""Weights that are no numbers, or far too large: speech that cannot be computed is an error in one line, never noise of
impossible codes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from ggtts.core.engine import Engine
from support.data import CODEC, OMNIVOICE, OMNIVOICE_CODEC
from support.fuzzing import EXAMPLES, only_clear_errors
from support.limited_speaker import speak_omnivoice, speak_qwen

PAIRS = {
    "qwen": (speak_qwen, {"talker": "Qwen3-TTS-12Hz-0.6B-Base", "codec": CODEC}),
    "omnivoice": (speak_omnivoice, {"base": OMNIVOICE, "tokenizer": OMNIVOICE_CODEC}),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e38])
@pytest.mark.parametrize("pair", PAIRS)
def test_damaged_values(tiny_gguf: Callable[..., Path], tmp_path: Path, pair: str, value: float) -> None:
    speak, names = PAIRS[pair]
    files, engine = {role: tiny_gguf(name) for role, name in names.items()}, Engine("cpu", 1)
    for role, path in files.items():
        tensors = list(GGUFReader(path).tensors)
        chosen = random.Random(f"{role}{value}").sample(tensors, min(len(tensors), max(6, EXAMPLES // 20)))
        for tensor in chosen:
            damaged = bytearray(path.read_bytes())
            values = np.frombuffer(damaged, "<f4", tensor.n_bytes // 4, tensor.data_offset)
            values[: max(1, values.size // 3)] = value
            (tmp_path / "damaged.gguf").write_bytes(damaged)
            opened = files | {role: tmp_path / "damaged.gguf"}
            only_clear_errors(
                lambda opened=opened: speak(
                    engine, {name: engine.weights(file) for name, file in opened.items()}
                )
            )
