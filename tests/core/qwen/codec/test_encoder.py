"""The codec encoder against the official package."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ggtts.core.qwen.codec import CodecDecoder, CodecEncoder
from support.comparing import deviation, same
from support.data import Golden
from support.tolerances import CODE_GAP, CODEC_STAGE

Load = Callable[[str], Golden]


def comparable(gap: np.ndarray) -> np.ndarray:
    """Which codes have no near tie, in themselves or before them in their chain."""
    return np.logical_and.accumulate(gap > CODE_GAP, axis=1)


@pytest.mark.parametrize("name", ["exact", "ragged", "tiny"])
def test_every_stage(encoder: CodecEncoder, golden: Load, name: str) -> None:
    case = golden(f"codec_encode_{name}")
    stages = encoder.stages(case["wav"])
    compared = [stage for stage in stages if stage in case]
    for stage in compared:
        expected = case[stage]
        expected = expected if stage.startswith("enc_tfm") else expected.T  # convolutions: [channels, time]
        assert deviation(stages[stage], expected) < CODEC_STAGE, stage
    assert len(compared) >= 7


@pytest.mark.parametrize("name", ["exact", "ragged", "tiny"])
def test_codes(encoder: CodecEncoder, golden: Load, name: str) -> None:
    case = golden(f"codec_encode_{name}")
    codes = encoder.encode(case["wav"])
    assert codes.dtype == np.int32
    sure = comparable(case["code_gap"])
    assert sure.all()
    assert (codes == case["codes"])[sure].all()


def test_reference_of_a_cloned_voice(encoder: CodecEncoder, golden: Load) -> None:
    case = golden("0.6B-Base_icl_full")
    assert (encoder.encode(case["ref_wav_24k"]) == case["ref_codes"]).all()


@pytest.mark.parametrize("samples", [1, 959, 1919, 1920, 1921, 16 * 1920, 16 * 1920 + 1, 33 * 1920 - 1])
def test_a_partial_frame_is_kept(encoder: CodecEncoder, samples: int) -> None:
    signal = np.random.default_rng(samples).uniform(-0.5, 0.5, samples).astype(np.float32)
    assert encoder.encode(signal).shape == (-(-samples // 1920), 16)


def test_pieces_equal_the_undivided_encoding(encoder: CodecEncoder) -> None:
    """Two whole pieces and a ragged one, against SEANet over everything at once."""
    signal = np.random.default_rng(4).uniform(-0.5, 0.5, 33 * 1920 + 700).astype(np.float32)
    stages = encoder.stages(signal)
    features = np.concatenate(list(encoder.features(signal)))
    assert same(features, stages["seanet"])


@pytest.mark.parametrize("shape", [(0,), (2, 1920)])
def test_not_mono_samples(encoder: CodecEncoder, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="mono samples"):
        encoder.encode(np.zeros(shape, np.float32))


def test_round_trip_has_the_length_of_the_recording(
    encoder: CodecEncoder, decoder: CodecDecoder, golden: Load
) -> None:
    case = golden("codec_encode_ragged")
    assert len(decoder.decode(encoder.encode(case["wav"]))) == len(case["codes"]) * 1920
