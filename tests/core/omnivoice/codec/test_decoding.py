"""Codes to samples against the official package, stage by stage, tile by tile, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from ggtts.core.engine import Engine, Weights
from ggtts.core.formats.omnivoice import OmniVoiceCodecFile
from ggtts.core.nn.stretch import Span
from ggtts.core.omnivoice.codec import OmniVoiceCodec
from ggtts.core.omnivoice.codec_decoder import OmniVoiceDecoder
from support.comparing import deviation, same
from support.data import Golden
from support.tolerances import CODEC_STAGE, WAVEFORM

Load = Callable[[str], Golden]


def random_codes(frames: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 64, (frames, 8))


@pytest.mark.parametrize("name", ["one", "short", "mid"])
def test_every_stage(codec: OmniVoiceCodec, golden: Load, name: str) -> None:
    case = golden(f"omnivoice_codec_decode_{name}")
    stages = codec.decode_stages(case["codes"].T)
    compared = [stage for stage in stages if stage in case and stage != "wav"]
    for stage in compared:
        expected = case[stage] if stage == "fc2" else case[stage].T  # convolutions: [channels, time]
        assert deviation(stages[stage], expected) < CODEC_STAGE, stage
    assert len(compared) >= {"one": 13, "short": 7, "mid": 2}[name]
    assert np.abs(stages["wav"][:, 0] - case["wav"]).max() < WAVEFORM


@pytest.mark.parametrize("name", ["one", "short", "mid"])
def test_samples(codec: OmniVoiceCodec, golden: Load, name: str) -> None:
    case = golden(f"omnivoice_codec_decode_{name}")
    samples = codec.decode(case["codes"].T)
    assert samples.dtype == np.float32
    assert samples.shape == case["wav"].shape
    assert np.abs(samples - case["wav"]).max() < WAVEFORM


def test_nothing_decodes_to_nothing(codec: OmniVoiceCodec) -> None:
    assert codec.decode(np.zeros((0, 8), np.int32)).shape == (0,)


@pytest.mark.parametrize("frames", [1, 2, 11, 12, 13, 23, 40])
@pytest.mark.parametrize("tile", [1, 3, 8, 16])
def test_tiles_equal_the_undivided_decode(
    codec_weights: Weights, codec_file: OmniVoiceCodecFile, engine: Engine, frames: int, tile: int
) -> None:
    """To the last bit."""
    decoder = OmniVoiceDecoder(codec_weights, codec_file, engine, tile=tile)
    codes = random_codes(frames, frames)
    pieces = list(decoder.pieces(codes))
    assert [len(piece) for piece in pieces[:-1]] == [tile * 960] * (len(pieces) - 1)
    assert same(np.concatenate(pieces), decoder.stages(codes)["wav"][:, 0])


def test_a_tile_depends_on_eleven_frames_around_it(
    codec_weights: Weights, codec_file: OmniVoiceCodecFile, engine: Engine
) -> None:
    decoder = OmniVoiceDecoder(codec_weights, codec_file, engine)
    needed = decoder.network.needs(Span(100, 120))
    assert 100 - needed.first <= 11
    assert needed.end - 120 <= 11


def test_threads_share_a_codec(codec: OmniVoiceCodec) -> None:
    codes = [random_codes(10 + seed, seed) for seed in range(4)]
    results: dict[int, np.ndarray] = {}

    def work(index: int) -> None:
        results[index] = codec.decode(codes[index])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, expected in enumerate(codes):
        assert same(results[index], codec.decode(expected))


@pytest.mark.parametrize("value", [-1, 64])
def test_codes_outside_the_codebooks(codec: OmniVoiceCodec, value: int) -> None:
    codes = np.zeros((3, 8), np.int32)
    codes[1, 5] = value
    with pytest.raises(ValueError, match="this codec has 0 to 63"):
        codec.decode(codes)


@pytest.mark.parametrize("codes", [np.zeros((3, 7), np.int32), np.zeros(8, np.int32), np.zeros((3, 8))])
def test_what_is_not_codes(codec: OmniVoiceCodec, codes: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"expected integers \[frames, 8\]"):
        codec.pieces(codes)
