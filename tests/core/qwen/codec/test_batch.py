"""Streams of the codec that are decoded together: each is what it is alone, whoever else takes part."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.engine import Engine
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.qwen.codec import CodecBatch, CodecDecoder
from support.comparing import same
from support.device import DEVICE

STREAMS = 4


@pytest.fixture(scope="module")
def decoder(tiny_gguf: Callable[..., Path]) -> CodecDecoder:
    engine = Engine(DEVICE, threads=1)
    weights = engine.weights(tiny_gguf())
    return CodecDecoder(weights, CodecFile.from_metadata(weights.metadata, weights.path), engine)


def codes_of(stream: int, frames: int = 60) -> np.ndarray:
    return np.random.default_rng(stream).integers(0, 64, (frames, 16)).astype(np.int32)


Runs = st.lists(
    st.dictionaries(st.integers(0, STREAMS - 1), st.integers(0, 18), min_size=1), min_size=1, max_size=6
)


@settings(max_examples=20, deadline=None)
@given(runs=Runs)
def test_whoever_takes_part(decoder: CodecDecoder, runs: list[dict[int, int]]) -> None:
    batch = CodecBatch(decoder, STREAMS)
    streams = [batch.stream() for _ in range(STREAMS)]
    done, heard = [0] * STREAMS, [[np.zeros(0, np.float32)] for _ in range(STREAMS)]
    for run in runs:
        codes = [codes_of(number)[done[number] : done[number] + frames] for number, frames in run.items()]
        pieces = batch.decode([streams[number] for number in run], codes)
        for number, taken, piece in zip(run, codes, pieces, strict=True):
            assert not isinstance(piece, Exception)
            heard[number].append(piece)
            done[number] += len(taken)
    for number in range(STREAMS):
        assert same(np.concatenate(heard[number]), decoder.decode(codes_of(number)[: done[number]]))


def test_a_snapshot_is_where_several_streams_begin(decoder: CodecDecoder) -> None:
    reference = codes_of(9, 30)
    batch = CodecBatch(decoder, 2)
    with batch.stream() as first:
        first.prime(reference)
        snapshot = first.snapshot()
    streams = [batch.stream(snapshot) for _ in range(3)]
    heard = batch.decode(streams, [codes_of(number)[:20] for number in range(3)])
    for number, piece in enumerate(heard):
        assert not isinstance(piece, Exception)
        whole = decoder.decode(np.concatenate([reference, codes_of(number)[:20]]))
        assert same(piece, whole[30 * decoder.frame_samples :])


def test_one_that_fails_fails_alone(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 2)
    streams = [batch.stream() for _ in range(3)]
    wrong = np.full((2, 16), decoder.entries, np.int32)
    heard = batch.decode(streams, [codes_of(0)[:2], wrong, codes_of(2)[:3]])
    assert isinstance(heard[1], ValueError)
    assert same(heard[0], decoder.decode(codes_of(0)[:2]))
    assert same(heard[2], decoder.decode(codes_of(2)[:3]))
