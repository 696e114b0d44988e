"""Recordings to codes against the official package, stage by stage and tile by tile."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ggtts.core.engine import Engine, Weights
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile
from ggtts.core.nn.tiling import Applied, whole_in_tiles
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from ggtts.core.omnivoice.codec_encoder import EncoderNetwork, OmniVoiceEncoder
from support.comparing import deviation
from support.data import Golden
from support.tolerances import CODE_GAP, CODEC_STAGE, LAYER

Load = Callable[[str], Golden]

BY_TIME = ("hubert_projection", "hubert_pos_conv", "hubert_layer", "semantic_features", "fc")
"""Stages that the official package has as [time, channels]; the others are [channels, time]."""


def noise(samples: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.5, 0.5, samples).astype(np.float32)


@pytest.mark.parametrize(("name", "least"), [("even", 8), ("short", 6), ("ragged", 2)])
def test_every_stage(codec: OmniVoiceCodec, golden: Load, name: str, least: int) -> None:
    case = golden(f"omnivoice_codec_encode_{name}")
    stages = codec.encode_stages(case["wav"])
    margin = (len(stages["wav_16k"]) - len(case["wav_16k"])) // 2
    assert margin == 160
    assert np.abs(stages["wav_16k"][margin:-margin, 0] - case["wav_16k"]).max() < CODEC_STAGE
    compared = [stage for stage in stages if stage in case and stage != "wav_16k"]
    for stage in compared:
        expected = case[stage] if stage.startswith(BY_TIME) else case[stage].T
        assert deviation(stages[stage], expected) < CODEC_STAGE, stage
    assert len(compared) >= least


@pytest.mark.parametrize("name", ["even", "short"])
def test_hidden_states(codec: OmniVoiceCodec, golden: Load, name: str) -> None:
    case = golden(f"omnivoice_codec_encode_{name}")
    stages = codec.encode_stages(case["wav"])
    names = ["hubert_hidden0", *(stage for stage in stages if stage.startswith("hubert_layer"))]
    assert len(names) == len(case["hubert_hidden_states"])
    for stage, expected in zip(names, case["hubert_hidden_states"], strict=True):
        assert deviation(stages[stage], expected) < CODEC_STAGE, stage


@pytest.mark.parametrize("name", ["even", "short", "ragged"])
def test_codes(codec: OmniVoiceCodec, golden: Load, name: str) -> None:
    case = golden(f"omnivoice_codec_encode_{name}")
    codes = codec.encode(case["wav"])
    assert codes.dtype == np.int32
    assert case["code_gap"].min() > CODE_GAP
    assert (codes == case["codes"].T).all()


def test_reference_of_a_cloned_voice(codec: OmniVoiceCodec, golden: Load) -> None:
    """3.4 s, which is more than a tile."""
    case = golden("omnivoice_prompt_ref_gaps_stereo_44k1")
    assert (codec.encode(case["no_silence"]) == case["codes"].T).all()


@pytest.mark.parametrize("tile", [1, 4, 16])
def test_tiles_equal_the_undivided_encoding(
    codec_weights: Weights, codec_file: OmniVoiceCodecFile, engine: Engine, tile: int
) -> None:
    """What is quantised, with a ragged end. Attention rounds differently for few queries than for many."""
    samples = noise(57 * 960 + 400)
    encoder = OmniVoiceEncoder(codec_weights, codec_file, engine, tile=tile, long_tile=3 * tile)
    assert deviation(encoder.joint(samples), encoder.stages(samples)["fc"]) < LAYER


def test_the_acoustic_encoder_in_halves(
    codec_weights: Weights, codec_file: OmniVoiceCodecFile, engine: Engine
) -> None:
    acoustic, samples = EncoderNetwork(codec_weights, codec_file).acoustic, noise(31 * 960)[:, None]
    halfway = whole_in_tiles(engine, Applied(acoustic.quick, samples), 5 * acoustic.slow_stride)
    assert len(halfway) == 31 * acoustic.slow_stride
    assert acoustic.length(len(samples)) == 31


@pytest.mark.parametrize("offset", [0.0, 0.4])
def test_first_normalisation_is_that_of_the_whole_recording(
    codec_weights: Weights, codec_file: OmniVoiceCodecFile, offset: float
) -> None:
    """Against mean and variance of the convolution's outputs."""
    network, samples = EncoderNetwork(codec_weights, codec_file), noise(5000, 3) + np.float32(offset)
    scope = codec_weights.scope("semantic_model.feature_extractor.conv_layers.0.")
    weight = scope.array("conv.weight").reshape(-1, 10).astype(np.float64)
    outputs = np.lib.stride_tricks.sliding_window_view(samples.astype(np.float64), 10)[::5] @ weight.T
    norm = network.extractor.normalisation(samples)
    scaled = (outputs - outputs.mean(0)) / np.sqrt(outputs.var(0) + 1e-5)
    expected = scaled * scope.array("layer_norm.weight") + scope.array("layer_norm.bias")
    assert deviation(outputs * norm.scale + norm.shift, expected) < CODEC_STAGE


def test_silence(codec: OmniVoiceCodec) -> None:
    assert codec.encode(np.zeros(9600, np.float32)).shape == (10, 8)


@pytest.mark.parametrize(
    ("samples", "frames"), [(119, 1), (960, 1), (1078, 1), (1079, 2), (4799, 5), (4800, 5), (4801, 5)]
)
def test_how_many_frames(codec: OmniVoiceCodec, samples: int, frames: int) -> None:
    """A rest of 119 samples or more makes a frame, as in the official package."""
    assert codec.encode(noise(samples)).shape == (frames, 8)


@pytest.mark.parametrize("samples", [0, 1, 118])
def test_too_short(codec: OmniVoiceCodec, samples: int) -> None:
    with pytest.raises(ValueError, match=f"{samples} samples are too few"):
        codec.encode(noise(samples))


def test_not_mono(codec: OmniVoiceCodec) -> None:
    with pytest.raises(ValueError, match="mono samples"):
        codec.encode(np.zeros((2, 1920), np.float32))


def test_there_and_back_keeps_the_length(codec: OmniVoiceCodec) -> None:
    assert len(codec.decode(codec.encode(noise(12 * 960)))) == 12 * 960
