"""The codec decoder against the official package, stage by stage, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.qwen.codec import CodecDecoder
from support.comparing import deviation, same
from support.data import Golden
from support.tolerances import CODEC_STAGE, WAVEFORM

Load = Callable[[str], Golden]


@pytest.mark.parametrize("name", ["short", "one", "window"])
def test_every_stage(decoder: CodecDecoder, golden: Load, name: str) -> None:
    case = golden(f"codec_decode_{name}")
    stages = decoder.stages(case["codes"])
    compared = [stage for stage in stages if stage in case]
    for stage in compared:
        expected = case[stage]
        expected = expected if stage.startswith("pre_tfm") else expected.T  # convolutions: [channels, time]
        assert deviation(stages[stage], expected) < CODEC_STAGE, stage
    assert len(compared) >= (2 if name == "window" else 13)
    assert np.abs(stages["samples"][:, 0] - case["wav"]).max() < WAVEFORM


@pytest.mark.parametrize("name", ["short", "one", "window"])
def test_samples(decoder: CodecDecoder, golden: Load, name: str) -> None:
    case = golden(f"codec_decode_{name}")
    samples = decoder.decode(case["codes"])
    assert samples.dtype == np.float32
    assert samples.shape == case["wav"].shape
    assert np.abs(samples - case["wav"]).max() < WAVEFORM


def test_long_sequence_equals_the_undivided_decode(decoder: CodecDecoder, golden: Load) -> None:
    """340 frames: more than the cache of the window holds, so it has to move on several times."""
    case = golden("codec_decode_chunked")
    begin = int(case["window_start"])
    window = slice(begin, begin + len(case["unchunked_window"]))
    assert np.abs(decoder.decode(case["codes"])[window] - case["unchunked_window"]).max() < WAVEFORM


def test_left_context_as_the_official_package_decodes_long_sequences(
    decoder: CodecDecoder, golden: Load
) -> None:
    """The seam between its chunks is off by far more than any tolerance, which is why it is no way to decode."""
    case = golden("codec_decode_chunked")
    samples = decoder.decode_with_left_context(
        case["codes"], int(case["chunk_size"]), int(case["left_context"])
    )
    begin = int(case["window_start"])
    window = slice(begin, begin + len(case["chunked_window"]))
    assert samples.shape == (340 * 1920,)
    assert np.abs(samples[window] - case["chunked_window"]).max() < WAVEFORM
    assert np.abs(case["unchunked_window"] - case["chunked_window"]).max() > 10 * WAVEFORM


def test_left_context_of_a_short_sequence(decoder: CodecDecoder, golden: Load) -> None:
    codes = golden("codec_decode_short")["codes"]
    assert same(decoder.decode_with_left_context(codes), decoder.decode(codes))
    assert decoder.decode_with_left_context(codes[:0]).shape == (0,)


def test_frames_that_the_official_package_decodes_in_a_batch(decoder: CodecDecoder, golden: Load) -> None:
    case = golden("codec_decode_batch")
    for index in range(2):
        assert np.abs(decoder.decode(case[f"codes{index}"]) - case[f"wav{index}"]).max() < WAVEFORM


def test_nothing_decodes_to_nothing(decoder: CodecDecoder) -> None:
    assert decoder.decode(np.zeros((0, 16), np.int32)).shape == (0,)


@pytest.mark.parametrize("value", [-1, 64])
def test_codes_outside_the_codebooks(decoder: CodecDecoder, value: int) -> None:
    codes = np.zeros((3, 16), np.int32)
    codes[1, 5] = value
    with pytest.raises(ValueError, match="this codec has 0 to 63"):
        decoder.decode(codes)


def test_codes_that_are_no_integers(decoder: CodecDecoder) -> None:
    with pytest.raises(ValueError, match="codes are float32, expected integers"):
        decoder.decode(np.zeros((3, 16), np.float32))  # type: ignore[arg-type]


def test_another_number_of_codebooks(decoder: CodecDecoder) -> None:
    with pytest.raises(ValueError, match=r"shape \(3, 8\), expected \[frames, 16\]"):
        decoder.decode(np.zeros((3, 8), np.int32))


def test_half_precision_file(engine: Engine, tiny_gguf: Callable[..., Path], golden: Load) -> None:
    """Only the weights are rounded, which the measured deviation shows: activations stay float32."""
    weights = engine.weights(tiny_gguf(outtype="f16"))
    decoder = CodecDecoder(weights, CodecFile.from_metadata(weights.metadata), engine)
    case = golden("codec_decode_short")
    assert np.abs(decoder.decode(case["codes"]) - case["wav"]).max() < 0.02
