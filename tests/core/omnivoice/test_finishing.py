"""What is heard of decoded chunks: equal to the official package as a whole, and the same as a stream."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ggtts.core.audio.levels import Edges
from ggtts.core.errors import UsageError
from ggtts.core.omnivoice.finishing import (
    RAW_FINISHING,
    USUAL_FINISHING,
    Finishing,
    finish,
    finish_flat,
    finish_stream,
)

RATE = 24_000


def chunk(seconds: float, level: float, seed: int = 1) -> NDArray[np.float32]:
    """Noise between silences."""
    noise = np.random.default_rng(seed).uniform(-level, level, round(seconds * RATE))
    return np.pad(noise, (RATE // 10, RATE // 3)).astype(np.float32)


def streamed(
    chunks: list[NDArray[np.float32]], loudness: float | None, finishing: Finishing = USUAL_FINISHING
) -> NDArray[np.float32]:
    return np.concatenate([np.zeros(0, np.float32), *finish_stream(chunks, RATE, loudness, finishing)])


CHUNKS = st.lists(
    st.tuples(st.floats(0.0, 1.2), st.sampled_from([0.0, 0.02, 0.3, 1.5])), min_size=1, max_size=4
)


@given(CHUNKS, st.sampled_from([0.02, 0.1, 0.4]), st.booleans())
@settings(max_examples=50, deadline=None)
def test_a_stream_in_the_voice_of_a_reference_is_the_whole(
    chunks: list[tuple[float, float]], loudness: float, cut_silence: bool
) -> None:
    signals = [chunk(seconds, level, seed) for seed, (seconds, level) in enumerate(chunks)]
    finishing = Finishing(cut_silence=cut_silence)
    np.testing.assert_array_equal(
        streamed(signals, loudness, finishing), finish(signals, RATE, loudness, finishing)
    )


@pytest.mark.parametrize("level", [0.05, 0.9, 1.4])
@pytest.mark.parametrize("finishing", [USUAL_FINISHING, RAW_FINISHING])
def test_a_stream_of_one_chunk_is_the_whole(level: float, finishing: Finishing) -> None:
    signal = chunk(1.0, level)
    np.testing.assert_array_equal(
        streamed([signal], None, finishing), finish([signal], RATE, None, finishing)
    )


@given(CHUNKS, st.sampled_from([None, 0.05]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_flat_memory_changes_nothing(
    chunks: list[tuple[float, float]], loudness: float | None, cut_silence: bool
) -> None:
    signals = [chunk(seconds, level, seed) for seed, (seconds, level) in enumerate(chunks)]
    finishing = Finishing(cut_silence=cut_silence)
    pieces = finish_flat(iter(signals), RATE, loudness, finishing)
    flat = np.concatenate([np.zeros(0, np.float32), *pieces])
    np.testing.assert_array_equal(flat, finish(signals, RATE, loudness, finishing))


def test_a_stream_without_a_reference_takes_the_level_of_its_first_chunk_and_never_clips() -> None:
    quiet, loud = chunk(0.5, 0.1, 1), chunk(0.5, 1.0, 2)
    result = streamed([quiet, loud], None)
    assert np.abs(result[: len(quiet)]).max() == pytest.approx(0.5, abs=1e-3)
    assert 0.9 < np.abs(result).max() <= 1.0


def test_chunks_are_heard_before_the_next_is_made() -> None:
    made: list[int] = []

    def chunks() -> object:
        for number in range(3):
            made.append(number)
            yield chunk(1.0, 0.3, number)

    heard = next(finish_stream(chunks(), RATE, None))  # type: ignore[arg-type]
    assert made == [0]
    assert len(heard) > 0.8 * RATE


def test_nothing_stays_nothing() -> None:
    assert len(finish([np.zeros(RATE, np.float32)], RATE, None)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cut_silence": "yes"}, "cut_silence is 'yes', which is no True or False"),
        ({"edges": 0.1}, "edges is 0.1, which is no Edges"),
        ({"edges": Edges(fade="long")}, "fade is 'long', which is no number"),  # type: ignore[arg-type]
        ({"edges": Edges(pad=-0.1)}, "pad -0.1 is not usable: it must be 0 to 86400"),
        ({"edges": Edges(fade=float("nan"))}, "fade nan is not usable"),
    ],
)
def test_what_is_no_finishing_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Finishing(**options)
