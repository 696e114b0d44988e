"""Many requests by turns: what each says does not depend on the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError, UsageError
from ggtts.core.omnivoice.model import (
    Chunking,
    MaskGitOptions,
    Observer,
    OmniClonedVoice,
    OmniSpeechRequest,
    OmniVoice,
)
from ggtts.core.speech.stream import AudioChunk
from support.data import DATA, OMNIVOICE, OMNIVOICE_CODEC
from support.patience import PATIENCE

FAST = {"steps": 2}
SHORT = "One sentence and no more of them."
LONG = "This is a sentence of some length. And another one follows it. " * 4
TEXTS = [SHORT, LONG, "And this is what a third one says.", LONG[64:]]


@pytest.fixture(scope="session")
def model(engine: Engine, tiny_gguf: Callable[..., Path]) -> OmniVoice:
    base, codec = engine.weights(tiny_gguf(OMNIVOICE)), engine.weights(tiny_gguf(OMNIVOICE_CODEC))
    return OmniVoice(engine, base, codec)


@pytest.fixture(scope="session")
def voice(model: OmniVoice) -> OmniClonedVoice:
    return model.voice(DATA / "golden" / "audio" / "ref_quiet_16k.flac", "你好，世界")


def joined(stream: Iterable[AudioChunk]) -> NDArray[np.float32]:
    return np.concatenate([chunk.samples for chunk in stream])


def test_streams_are_what_they_are_alone(model: OmniVoice) -> None:
    alone = [joined(model.stream(text, seed=seed, **FAST)) for seed, text in enumerate(TEXTS)]
    with model.scheduler(3) as scheduler, ThreadPoolExecutor(len(TEXTS)) as pool:
        streams = [scheduler.submit(text, seed=seed, **FAST) for seed, text in enumerate(TEXTS)]
        together = list(pool.map(joined, streams))
        assert scheduler.occupancy.capacity == 3
    for one, other, stream in zip(alone, together, streams, strict=True):
        np.testing.assert_array_equal(one, other)
        assert stream.stop == "end_of_speech"


def test_a_short_request_does_not_wait_for_the_end_of_a_long_one(model: OmniVoice) -> None:
    order: list[str] = []

    class Named(Observer):
        def __init__(self, name: str) -> None:
            self._name = name

        def piece(self, number: int, count: int) -> None:
            order.append(self._name)

    held = threading.Event()

    class Held(Named):
        def frame(self, frames: int) -> None:
            assert held.wait(PATIENCE)  # until the short one is there as well

    with model.scheduler(2) as scheduler:
        long = scheduler.submit(LONG, seed=1, observer=Held("long"), **FAST)
        short = scheduler.submit(SHORT, seed=1, observer=Named("short"), **FAST)
        held.set()
        assert joined(short).any()
        assert joined(long).any()
    assert order.index("short") <= 2
    assert order.count("long") > 2


def test_a_closed_stream_ends_with_the_step_at_hand_and_leaves_its_place(model: OmniVoice) -> None:
    steps: list[int] = []
    begun = threading.Event()

    class Slow(Observer):
        def frame(self, frames: int) -> None:
            steps.append(frames)
            begun.set()
            assert closed.wait(PATIENCE)

    closed = threading.Event()
    with model.scheduler(1) as scheduler:
        stream = scheduler.submit(LONG, steps=50, seed=1, observer=Slow())
        assert begun.wait(PATIENCE)
        stream.close()
        closed.set()
        assert list(stream) == []
        assert joined(scheduler.submit(SHORT, seed=1, **FAST)).any()
    assert len(steps) <= 2


def test_closing_a_scheduler_does_not_wait_for_the_end_of_a_chunk(model: OmniVoice) -> None:
    steps: list[int] = []
    begun, submitted = threading.Event(), threading.Event()

    class Waiting(Observer):
        def frame(self, frames: int) -> None:
            steps.append(frames)
            begun.set()
            assert submitted.wait(PATIENCE)
            assert stream.account.cancelled.wait(PATIENCE)

    with model.scheduler(1) as scheduler:
        stream = scheduler.submit(LONG, steps=500, seed=1, observer=Waiting())
        submitted.set()
        assert begun.wait(PATIENCE)
    assert len(steps) == 1
    with pytest.raises(EngineError, match="the scheduler was closed"):
        list(stream)


def test_what_cannot_be_right_is_told_at_once(model: OmniVoice) -> None:
    with model.scheduler() as scheduler:
        with pytest.raises(UsageError, match="unknown language"):
            scheduler.submit(SHORT, language="Klingonese")
        assert scheduler.occupancy.active == 0
    with pytest.raises(EngineError, match="closed"):
        scheduler.submit(SHORT)
    with pytest.raises(UsageError):
        model.scheduler(0)


@pytest.mark.parametrize("cloned", [False, True])
def test_many_speeches_are_those_that_speak_makes(
    model: OmniVoice, voice: OmniClonedVoice, cloned: bool
) -> None:
    requests = [
        OmniSpeechRequest(
            text,
            voice=voice if cloned else None,
            seed=seed,
            generation=MaskGitOptions(**FAST),
            chunking=Chunking(2.0, 3.0),
        )
        for seed, text in enumerate(TEXTS)
    ]
    expected = [model.speak(request) for request in requests]
    found = list(model.speak_many(requests, parallel=3))
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one.samples, other.samples)
        np.testing.assert_array_equal(one.codes, other.codes)
        assert (one.chunks, one.seed, one.sample_rate) == (other.chunks, other.seed, other.sample_rate)
        assert len(one.chunks) > 1 or one.chunks[0] != LONG


def test_one_of_many_that_fails_raises_in_its_turn(model: OmniVoice) -> None:
    numbers: list[int] = []

    def observe(number: int) -> Observer:
        numbers.append(number)
        return Observer()

    with model.speak_many([SHORT, "  ", SHORT], parallel=2, observe=observe, seed=4, **FAST) as speeches:
        first = next(speeches)
        with pytest.raises(UsageError, match="nothing to say"):
            next(speeches)
        assert (next(speeches).samples == first.samples).all()
        with pytest.raises(StopIteration):
            next(speeches)
    assert numbers == [1, 2, 3]


def test_requests_are_taken_when_there_is_a_place_for_them(model: OmniVoice) -> None:
    taken: list[int] = []

    def requests() -> Iterator[str]:
        for number in range(100):
            taken.append(number)
            yield SHORT

    with model.speak_many(requests(), parallel=2, seed=1, **FAST) as speeches:
        assert not taken
        next(speeches)
        assert len(taken) < 20
