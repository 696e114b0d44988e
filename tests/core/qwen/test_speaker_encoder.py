"""The speaker encoder against the official package."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.errors import AudioFileError, ModelFileError
from ggtts.core.formats.qwen import TalkerFile
from ggtts.core.qwen.speaker_encoder import SpeakerEncoder
from support.comparing import deviation
from support.data import Golden
from support.tolerances import CODEC_STAGE, SPEAKER_EMBEDDING

Load = Callable[[str], Golden]
Encoders = Callable[[str], SpeakerEncoder]


@pytest.fixture(scope="module")
def encoders(engine: Engine, tiny_gguf: Callable[..., Path]) -> Encoders:
    """Speaker encoders by the size of their talker."""

    @cache
    def encoder(size: str) -> SpeakerEncoder:
        weights = engine.weights(tiny_gguf(f"Qwen3-TTS-12Hz-{size}-Base"))
        return SpeakerEncoder(weights, TalkerFile.from_metadata(weights.metadata), engine)

    return encoder


@pytest.mark.parametrize("size", ["0.6B", "1.7B"])
@pytest.mark.parametrize("name", ["a", "b", "silence", "short"])
def test_embedding(encoders: Encoders, golden: Load, size: str, name: str) -> None:
    case = golden(f"speaker_{size}-Base")
    embedding = encoders(size).embed(case[f"{name}_wav"])
    assert embedding.dtype == np.float32
    assert deviation(embedding, case[f"{name}_xvector"]) < SPEAKER_EMBEDDING


@pytest.mark.parametrize("size", ["0.6B", "1.7B"])
def test_every_stage(encoders: Encoders, golden: Load, size: str) -> None:
    case = golden(f"speaker_{size}-Base")
    stages = encoders(size).stages(case["b_wav"])
    compared = [stage for stage in stages if f"b_{stage}" in case]
    for stage in compared:
        assert deviation(stages[stage], case[f"b_{stage}"].T) < CODEC_STAGE, stage
    assert len(compared) >= 6


def test_reference_of_a_cloned_voice(encoders: Encoders, golden: Load) -> None:
    case = golden("0.6B-Base_xvec_24k")
    assert deviation(encoders("0.6B").embed(case["ref_wav_24k"]), case["ref_xvector"]) < SPEAKER_EMBEDDING


def test_shortest_recording(encoders: Encoders) -> None:
    signal = np.random.default_rng(2).uniform(-0.5, 0.5, 1280).astype(np.float32)
    assert np.isfinite(encoders("0.6B").embed(signal)).all()
    with pytest.raises(AudioFileError, match="1279 samples are too few"):
        encoders("0.6B").embed(signal[:-1])


def test_talker_without_a_speaker_encoder(engine: Engine, tiny_gguf: Callable[..., Path]) -> None:
    weights = engine.weights(tiny_gguf("Qwen3-TTS-12Hz-0.6B-CustomVoice"))
    with pytest.raises(
        ModelFileError, match="no speaker encoder, which only base models have; it is a custom_voice model"
    ):
        SpeakerEncoder(weights, TalkerFile.from_metadata(weights.metadata), engine)
