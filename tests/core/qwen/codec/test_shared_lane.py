"""Streams of the codec that take turns: each decodes what it decodes alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.engine import Engine
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.qwen.codec import CodecDecoder, SharedLane
from support.comparing import same
from support.device import DEVICE


@pytest.fixture(scope="module")
def decoder(tiny_gguf: Callable[..., Path]) -> CodecDecoder:
    engine = Engine(DEVICE, threads=1)
    weights = engine.weights(tiny_gguf())
    return CodecDecoder(weights, CodecFile.from_metadata(weights.metadata, weights.path), engine)


def codes_of(stream: int, frames: int = 60) -> np.ndarray:
    return np.random.default_rng(stream).integers(0, 64, (frames, 16)).astype(np.int32)


@settings(max_examples=20, deadline=None)
@given(turns=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 18)), min_size=1, max_size=12))
def test_whoever_has_a_turn(decoder: CodecDecoder, turns: list[tuple[int, int]]) -> None:
    lane = SharedLane(decoder)
    streams = [lane.stream() for _ in range(4)]
    done, heard = [0] * 4, [[np.zeros(0, np.float32)] for _ in range(4)]
    for number, frames in turns:
        codes = codes_of(number)[done[number] : done[number] + frames]
        if len(codes):
            heard[number].append(streams[number](codes))
            done[number] += len(codes)
    for number in range(4):
        assert same(np.concatenate(heard[number]), decoder.decode(codes_of(number)[: done[number]]))


def test_many_begin_behind_the_same_reference(decoder: CodecDecoder) -> None:
    reference = codes_of(9, 30)
    lane = SharedLane(decoder)
    with lane.stream() as first:
        first.prime(reference)
        snapshot = first.snapshot()
    streams = [lane.stream(snapshot) for _ in range(3)]
    heard: list[list[np.ndarray]] = [[] for _ in streams]
    for begin in range(0, 20, 5):
        for number, stream in enumerate(streams):
            heard[number].append(stream(codes_of(number)[begin : begin + 5]))
    for number, pieces in enumerate(heard):
        whole = decoder.decode(np.concatenate([reference, codes_of(number)[:20]]))
        assert same(np.concatenate(pieces), whole[30 * decoder.frame_samples :])


def test_programs_are_shared(decoder: CodecDecoder) -> None:
    decoder.clear()
    lane = SharedLane(decoder)
    streams = [lane.stream() for _ in range(5)]
    for stream in streams:
        stream(codes_of(1)[:4])
    for stream in streams:
        stream.close()
        stream.close()
    assert len(decoder._idle) == 0
    lane.clear()
    lane.clear()
    assert len(decoder._idle) == 1
