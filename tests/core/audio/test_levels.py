"""Loudness, fades and joints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.audio.levels import (
    DEFAULT_EDGES,
    Edges,
    cross_fade,
    cross_faded,
    fade_and_pad,
    faded_and_padded,
    match_level,
    raise_quiet,
    rms,
)
from support.data import load_golden

RATE = 24000
GOLDEN = load_golden("omnivoice_audio")
STORED = 2**-15
"""Relative error of samples stored with 17 bits."""

PIECES = st.lists(st.integers(0, 70), max_size=6).map(
    lambda lengths: [np.full(length, 1 + number, np.float32) for number, length in enumerate(lengths)]
)


@pytest.mark.parametrize(
    ("case", "edges"),
    [
        ("default", DEFAULT_EDGES),
        ("nofade", Edges(fade=0)),
        ("nopad", Edges(pad=0)),
        ("long", Edges(fade=10, pad=0.25)),
    ],
)
def test_fades_and_padding_are_those_of_the_official_package(case: str, edges: Edges) -> None:
    result = fade_and_pad(GOLDEN["voice_in"], RATE, edges)
    np.testing.assert_allclose(result, GOLDEN[f"voice_fade_pad_{case}"], rtol=STORED)


def test_fades_shrink_to_short_clips() -> None:
    result = fade_and_pad(GOLDEN["short_in"], RATE)
    np.testing.assert_allclose(result, GOLDEN["short_fade_pad_default"], rtol=STORED)


def test_joints_are_those_of_the_official_package() -> None:
    pieces = [GOLDEN[f"cross_{name}"] for name in "abc"]
    np.testing.assert_allclose(cross_fade(pieces, RATE), GOLDEN["cross_fade_abc"], rtol=STORED)
    np.testing.assert_allclose(cross_fade(pieces[:2], RATE), GOLDEN["cross_fade_ab"], rtol=STORED)
    assert cross_fade(pieces[:1], RATE) is not pieces[0]
    np.testing.assert_array_equal(cross_fade(pieces[:1], RATE), pieces[0])


@given(pieces=PIECES, edges=st.builds(Edges, st.sampled_from([0, 0.01, 0.02]), st.sampled_from([0, 0.01])))
def test_fading_pieces_is_fading_the_whole(pieces: list[np.ndarray], edges: Edges) -> None:
    whole = np.concatenate([np.zeros(0, np.float32), *pieces])
    result = np.concatenate([np.zeros(0, np.float32), *faded_and_padded(pieces, 1000, edges)])
    np.testing.assert_array_equal(result, fade_and_pad(whole, 1000, edges))
    assert len(result) == (len(whole) + 2 * round(edges.pad * 1000) if len(whole) else 0)


def test_only_the_end_is_held_back() -> None:
    stream = faded_and_padded(
        iter([np.ones(500, np.float32), np.ones(10, np.float32)]), 1000, Edges(0.1, 0.05)
    )
    assert [len(part) for part in stream] == [450, 10, 150]
    assert [len(part) for part in cross_faded(iter([np.ones(500, np.float32)] * 2), 1000)] == [
        400,
        100,
        500,
        100,
    ]


@given(pieces=PIECES)
def test_a_joint_adds_a_third_of_the_pause(pieces: list[np.ndarray]) -> None:
    joined = cross_fade(pieces, 1000, 0.06)
    assert len(joined) == sum(map(len, pieces)) + 20 * max(0, len(pieces) - 1)


def test_inputs_stay_as_they_are() -> None:
    pieces = [np.ones(50, np.float32), np.ones(50, np.float32)]
    cross_fade(pieces, 1000)
    fade_and_pad(pieces[0], 1000)
    raise_quiet(pieces[0], 0.01)
    match_level(pieces[0], 0.01)
    assert all((piece == 1).all() for piece in pieces)


def test_quiet_references_are_raised_and_their_speech_is_lowered() -> None:
    quiet = np.float32([0.01, -0.03])
    level = rms(quiet)
    assert rms(raise_quiet(quiet, level)) == pytest.approx(0.1)
    np.testing.assert_allclose(match_level(raise_quiet(quiet, level), level), quiet, rtol=1e-6)
    loud = np.float32([0.3, -0.5])
    assert raise_quiet(loud, rms(loud)) is loud
    assert match_level(loud, rms(loud)) is loud


def test_speech_without_reference_has_a_peak_of_one_half() -> None:
    assert np.abs(match_level(np.float32([0.1, -0.2]), None)).max() == 0.5
    np.testing.assert_array_equal(match_level(np.float32([1e-7]), None), np.float32([1e-7]))


def test_nothing_stays_nothing() -> None:
    nothing = np.zeros(0, np.float32)
    assert rms(nothing) == 0
    for result in (match_level(nothing, None), fade_and_pad(nothing, RATE), raise_quiet(nothing, 0.0)):
        assert len(result) == 0
    assert len(cross_fade([], RATE)) == 0
