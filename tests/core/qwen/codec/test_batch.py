"""Streams of the codec that are decoded together: each is what it is alone, whoever else takes part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError
from ggtts.core.formats.qwen import CodecFile
from ggtts.core.qwen.codec import CodecBatch, CodecDecoder
from ggtts.core.qwen.codec.lanes import DecoderLanes
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


def test_lanes_of_others_are_silent_for_those_who_begin(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 4)
    reference = codes_of(9, 30)
    with batch.stream() as first:
        first.prime(reference)
        snapshot = first.snapshot()
    for beginnings in ([None] * 4, [None, snapshot, None], [snapshot, None], [None] * 3):
        streams = [batch.stream(beginning) for beginning in beginnings]
        for number, piece in enumerate(
            batch.decode(streams, [codes_of(number, 3) for number in range(len(streams))])
        ):
            before = reference[:0] if beginnings[number] is None else reference
            whole = decoder.decode(np.concatenate([before, codes_of(number, 3)]))
            assert not isinstance(piece, Exception)
            assert same(piece, whole[-len(piece) :])
        for stream in streams:
            stream.close()
    unheard = batch.stream()
    unheard.snapshot()  # of silence, in a lane that others have left
    (heard,) = batch.decode([unheard], [codes_of(0, 2)])
    assert not isinstance(heard, Exception)
    assert same(heard, decoder.decode(codes_of(0, 2)))


def test_one_that_fails_fails_alone(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 2)
    streams = [batch.stream() for _ in range(3)]
    wrong = np.full((2, 16), decoder.entries, np.int32)
    heard = batch.decode(streams, [codes_of(0)[:2], wrong, codes_of(2)[:3]])
    assert isinstance(heard[1], ValueError)
    assert same(heard[0], decoder.decode(codes_of(0)[:2]))
    assert same(heard[2], decoder.decode(codes_of(2)[:3]))


def test_more_streams_than_one_run_takes(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 8)
    lengths = [1 + number % 5 * 4 for number in range(21)]
    streams = [batch.stream() for _ in lengths]
    heard = batch.decode(streams, [codes_of(number)[:length] for number, length in enumerate(lengths)])
    for number, length in enumerate(lengths):
        assert same(heard[number], decoder.decode(codes_of(number)[:length]))


def test_streams_come_and_go(decoder: CodecDecoder) -> None:
    """Newcomers take the lanes of those that have left, and there is room for more whenever it is needed."""
    batch = CodecBatch(decoder, 2)
    stays = batch.stream()
    heard = [stays(codes_of(0)[:3])]
    for turn in range(6):
        guests = [batch.stream() for _ in range(turn % 4 + 1)]
        turns = [codes_of(0)[3 + 2 * turn :][:2], *(codes_of(1 + n)[:2] for n in range(len(guests)))]
        piece, *others = batch.decode([stays, *guests], turns)
        assert not isinstance(piece, Exception)
        heard.append(piece)
        for number, (guest, other) in enumerate(zip(guests, others, strict=True)):
            assert same(other, decoder.decode(codes_of(1 + number)[:2]))
            guest.close()
            guest.close()
    assert same(np.concatenate(heard), decoder.decode(codes_of(0)[:15]))


def test_a_snapshot_of_one_among_others(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 4)
    streams = [batch.stream() for _ in range(3)]
    batch.decode(streams, [codes_of(number)[:7] for number in range(3)])
    snapshot = streams[1].snapshot()
    batch.decode(streams, [codes_of(number)[7:9] for number in range(3)])
    with batch.stream(snapshot) as twin, decoder.stream(snapshot) as alone:
        expected = decoder.decode(codes_of(1)[:12])[7 * decoder.frame_samples :]
        assert same(twin(codes_of(1)[7:12]), expected)
        assert same(alone(codes_of(1)[7:12]), expected)


def test_a_stream_begins_where_a_lone_one_was(decoder: CodecDecoder) -> None:
    with decoder.stream() as lone:
        lone.prime(codes_of(3)[:6])
        snapshot = lone.snapshot()
    batch = CodecBatch(decoder, 2)
    heard = batch.decode([batch.stream(), batch.stream(snapshot)], [codes_of(2)[:4], codes_of(3)[6:10]])
    assert same(heard[0], decoder.decode(codes_of(2)[:4]))
    assert same(heard[1], decoder.decode(codes_of(3)[:10])[6 * decoder.frame_samples :])


def test_what_is_refused_harms_nobody(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 2)
    good, closed = batch.stream(), batch.stream()
    closed.close()
    heard = batch.decode([closed, good, good], [codes_of(0)[:1], codes_of(1)[:2], codes_of(1)[:2]])
    assert isinstance(heard[0], ValueError)
    assert "closed" in str(heard[0])
    assert isinstance(heard[2], ValueError)
    assert "two pieces" in str(heard[2])
    assert same(heard[1], decoder.decode(codes_of(1)[:2]))
    with pytest.raises(ValueError, match="closed"):
        closed(codes_of(0)[:1])


def test_a_device_that_fails_fails_those_of_its_run(
    decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = CodecBatch(decoder, 2)
    streams = [batch.stream() for _ in range(3)]
    run = DecoderLanes.run

    def failing(self: DecoderLanes, lanes: Sequence[int], codes: np.ndarray) -> np.ndarray:
        if codes.shape[1] == 2:
            raise EngineError("out of memory")
        return run(self, lanes, codes)

    monkeypatch.setattr(DecoderLanes, "run", failing)
    heard = batch.decode(streams, [codes_of(0)[:2], codes_of(1)[:4], codes_of(2)[:2]])
    assert isinstance(heard[0], EngineError)
    assert isinstance(heard[2], EngineError)
    assert same(heard[1], decoder.decode(codes_of(1)[:4]))


def test_memory_is_given_back(decoder: CodecDecoder) -> None:
    batch = CodecBatch(decoder, 2)
    with batch.stream() as stream:
        stream(codes_of(0)[:2])
    batch.clear()
    batch.clear()
    with batch.stream() as stream:
        assert same(stream(codes_of(1)[:2]), decoder.decode(codes_of(1)[:2]))


def test_many_streams_and_those_that_begin_go_first(
    decoder: CodecDecoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU the frames of others would leave them the gaps only, and somebody waits for the first samples."""
    taken: list[str] = []
    run = DecoderLanes._decode

    @contextmanager
    def noted(self: Engine) -> Iterator[None]:
        taken.append("taken")
        yield
        taken.append("left")

    def decoded(self: DecoderLanes, *arguments: Any) -> np.ndarray:
        taken.append("run")
        return run(self, *arguments)

    monkeypatch.setattr(Engine, "right_of_way", noted)
    monkeypatch.setattr(DecoderLanes, "_decode", decoded)
    batch = CodecBatch(decoder, 2)
    with batch.stream() as first:
        batch.decode([first], [codes_of(0)[:1]])
        batch.decode([first], [codes_of(0)[1:2]])  # alone, it fits between frames
        assert taken == ["taken", "run", "left", "run"]
        taken.clear()
        with batch.stream() as second:
            for frame in (2, 3):
                batch.decode([first, second], [codes_of(0)[frame : frame + 1]] * 2)
    assert taken == ["taken", "run", "left"] * 2
