"""The codec decoder whose waveform decoder is kernels of our own, emulated on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from ggtts.core.engine import Engine
from ggtts.core.engine.engine import EXACT_VARIABLE, STOCK_VARIABLE
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.nn.conv_chain import open_chain
from ggtts.core.qwen.codec import CodecBatch, CodecDecoder
from support.comparing import same
from support.data import Golden
from support.tolerances import WAVEFORM

pytestmark = pytest.mark.cpu_only

PROCESSORS = 5

ROUNDED = 2e-2
"""Largest deviation of a sample where factors have 10 bits, in full scale (measured: 8e-3, random weights)."""


def open_decoder(
    path: Path, monkeypatch: pytest.MonkeyPatch, exact: bool, widest: int = 8, processors: int = PROCESSORS
) -> CodecDecoder:
    """Return a decoder as a GPU has it: GGML's operations, and then the chain."""
    monkeypatch.setenv(STOCK_VARIABLE, "1")
    monkeypatch.setenv(EXACT_VARIABLE, "1" if exact else "0")
    monkeypatch.setattr("ggtts.core.qwen.codec.decoder.open_chain", partial(open_chain, emulated=processors))
    engine = Engine("cpu", threads=1)
    weights = engine.weights(path)
    return CodecDecoder(
        weights, CodecFile.from_metadata(weights.metadata, weights.path), engine, widest=widest
    )


@pytest.fixture
def decoder(tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> CodecDecoder:
    return open_decoder(tiny_gguf(), monkeypatch, exact=False)


def codes_of(stream: int, frames: int) -> np.ndarray:
    return np.random.default_rng(stream).integers(0, 64, (frames, 16)).astype(np.int32)


@pytest.mark.parametrize(("exact", "tolerance"), [(True, WAVEFORM), (False, ROUNDED)])
@pytest.mark.parametrize("name", ["short", "one", "window"])
def test_samples_of_the_official_package(
    tiny_gguf: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[str], Golden],
    name: str,
    exact: bool,
    tolerance: float,
) -> None:
    case = golden(f"codec_decode_{name}")
    samples = open_decoder(tiny_gguf(), monkeypatch, exact).decode(case["codes"])
    assert samples.shape == case["wav"].shape
    assert np.abs(samples - case["wav"]).max() < tolerance


def test_stages_have_the_operations_of_ggml(decoder: CodecDecoder, golden: Callable[[str], Golden]) -> None:
    case = golden("codec_decode_short")
    for _ in range(2):  # what only they need is loaded once
        stages = decoder.stages(case["codes"])
    assert np.abs(stages["samples"][:, 0] - case["wav"]).max() < WAVEFORM
    assert np.abs(stages["samples"][:, 0] - decoder.decode(case["codes"])).max() < ROUNDED


def test_where_a_stream_is_cut(tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it matter over how many processors tiles and segments are spread."""
    codes = codes_of(0, 13)
    whole = open_decoder(tiny_gguf(), monkeypatch, exact=False, widest=8, processors=1).decode(codes)
    single = open_decoder(tiny_gguf(), monkeypatch, exact=False, widest=1, processors=132).decode(codes)
    assert np.abs(whole).max() > 0.01
    assert np.abs(whole - single).max() < ROUNDED


def test_streams_side_by_side(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 4)
    streams = [batch.stream() for _ in range(5)]
    heard = batch.decode(streams, [codes_of(number, 3 + number) for number in range(5)])
    streams[1].close()
    guest = batch.stream()
    later = batch.decode([streams[3], guest], [codes_of(9, 2), codes_of(7, 4)])
    for number, piece in enumerate(heard):
        assert not isinstance(piece, Exception)
        assert np.abs(piece - decoder.decode(codes_of(number, 3 + number))).max() < ROUNDED
    assert np.abs(later[1] - decoder.decode(codes_of(7, 4))).max() < ROUNDED
    both = np.concatenate([codes_of(3, 6), codes_of(9, 2)])
    assert np.abs(later[0] - decoder.decode(both)[-len(later[0]) :]).max() < ROUNDED


def test_streams_go_on_from_a_snapshot(decoder: CodecDecoder) -> None:
    with decoder.stream() as stream:
        stream.prime(codes_of(1, 5))
        snapshot = stream.snapshot()
        expected = stream(codes_of(2, 3))
    with decoder.stream(snapshot) as other:
        assert same(other(codes_of(2, 3)), expected)
    with decoder.stream() as fresh:
        assert same(fresh(codes_of(2, 3)), decoder.decode(codes_of(2, 3)))


def test_weights_of_half_precision(tiny_gguf: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    codes = codes_of(4, 5)
    exact = open_decoder(tiny_gguf(outtype="f16"), monkeypatch, exact=True)
    assert np.abs(exact.decode(codes) - exact.stages(codes)["samples"][:, 0]).max() < WAVEFORM
