"""Decoding piece by piece: every way of cutting a sequence gives the samples of the undivided decode."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ggtts.core.qwen.codec import CodecDecoder
from ggtts.core.qwen.codec.decoder import widths
from support.comparing import same


def random_codes(frames: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 64, (frames, 16))


def in_pieces(decoder: CodecDecoder, codes: np.ndarray, lengths: Sequence[int]) -> np.ndarray:
    with decoder.stream() as stream:
        bounds = np.cumsum([0, *lengths])
        return np.concatenate([stream(codes[begin:end]) for begin, end in pairwise(bounds)])


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_any_cut_equals_the_undivided_decode(decoder: CodecDecoder, lengths: list[int], seed: int) -> None:
    codes = random_codes(max(1, sum(lengths)), seed)
    lengths = lengths if sum(lengths) else [1]
    undivided = decoder.stages(codes)["samples"][:, 0]
    assert same(in_pieces(decoder, codes, lengths), undivided)


def test_every_way_to_cut_six_frames(decoder: CodecDecoder) -> None:
    codes = random_codes(6, 11)
    undivided = decoder.stages(codes)["samples"][:, 0]
    for cuts in range(1 << 5):
        bounds = [0, *(place for place in range(1, 6) if cuts >> (place - 1) & 1), 6]
        assert same(in_pieces(decoder, codes, np.diff(bounds).tolist()), undivided), bounds


def test_one_frame_at_a_time(decoder: CodecDecoder) -> None:
    codes = random_codes(20, 1)
    assert same(in_pieces(decoder, codes, [1] * 20), decoder.stages(codes)["samples"][:, 0])


def test_beyond_the_window(decoder: CodecDecoder) -> None:
    """The cache has moved on twice, at different places for different cuts."""
    codes = random_codes(330, 2)
    assert same(in_pieces(decoder, codes, [3, 8, 100, 1, 218]), decoder.decode(codes))


def test_a_new_stream_begins_at_silence(decoder: CodecDecoder) -> None:
    codes = random_codes(5, 3)
    with decoder.stream() as stream:
        first = stream(codes)
    with decoder.stream() as stream:
        assert same(stream(codes), first)


def test_streams_do_not_disturb_each_other(decoder: CodecDecoder) -> None:
    one, two = random_codes(12, 4), random_codes(12, 5)
    with decoder.stream() as first, decoder.stream() as second:
        pieces = [(first(one[i : i + 3]), second(two[i : i + 3])) for i in range(0, 12, 3)]
    assert same(np.concatenate([piece[0] for piece in pieces]), decoder.decode(one))
    assert same(np.concatenate([piece[1] for piece in pieces]), decoder.decode(two))


def test_streams_in_threads(decoder: CodecDecoder) -> None:
    codes = [random_codes(10, seed) for seed in range(4)]
    results: dict[int, np.ndarray] = {}

    def work(index: int) -> None:
        results[index] = in_pieces(decoder, codes[index], [1, 2, 4, 3])

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, expected in enumerate(codes):
        assert same(results[index], decoder.decode(expected))


def test_priming_with_a_reference(decoder: CodecDecoder) -> None:
    reference, codes = random_codes(11, 6), random_codes(5, 7)
    with decoder.stream() as stream:
        stream.prime(reference)
        primed = stream(codes)
    together = decoder.decode(np.concatenate([reference, codes]))
    assert same(primed, together[len(reference) * decoder.frame_samples :])


def test_going_on_from_a_snapshot(decoder: CodecDecoder) -> None:
    reference, codes, other = random_codes(9, 8), random_codes(6, 9), random_codes(6, 10)
    with decoder.stream() as stream:
        stream.prime(reference)
        snapshot = stream.snapshot()
        expected = stream(codes)
    with decoder.stream(snapshot) as stream:
        stream(other)
    with decoder.stream(snapshot) as stream:
        assert same(stream(codes), expected)


def test_a_closed_stream(decoder: CodecDecoder) -> None:
    stream = decoder.stream()
    stream.close()
    stream.close()
    with pytest.raises(ValueError, match="closed"):
        stream(random_codes(1, 0))


@pytest.mark.parametrize(
    ("frames", "pieces"), [(0, []), (1, [1]), (7, [4, 2, 1]), (8, [8]), (21, [8, 8, 4, 1])]
)
def test_widths(frames: int, pieces: list[int]) -> None:
    assert list(widths(frames, 8)) == pieces
