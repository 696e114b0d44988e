"""Silence removal against pydub's results."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ggtts.core.audio.silence import (
    REFERENCE_SILENCE,
    SPEECH_SILENCE,
    SilenceRule,
    remove_silence,
    silence_removed,
    through_int16,
)
from support.data import load_golden

RATE = 24000
RULES = {"prompt": REFERENCE_SILENCE, "output": SPEECH_SILENCE, "edges": SilenceRule(0, 100, 300)}
GOLDEN = load_golden("omnivoice_audio")


def noise(seconds: float, level: float = 0.1, rate: int = RATE) -> np.ndarray:
    return (level * np.random.default_rng(1).standard_normal(round(seconds * rate))).astype(np.float32)


def silence(seconds: float, rate: int = RATE) -> np.ndarray:
    return np.zeros(round(seconds * rate), np.float32)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("signal", ["gaps", "zeros", "loud", "short", "tail"])
def test_result_is_that_of_the_official_package(signal: str, rule: str) -> None:
    result = through_int16(remove_silence(GOLDEN[f"{signal}_in"], RATE, RULES[rule]))
    np.testing.assert_array_equal(result, GOLDEN[f"{signal}_remove_silence_{rule}"])


@pytest.mark.parametrize("rule", RULES)
def test_a_voice_keeps_the_length_it_has_in_the_official_package(rule: str) -> None:
    samples = GOLDEN["voice_in"]
    result = remove_silence(samples, RATE, RULES[rule])
    assert len(result) == GOLDEN[f"voice_remove_silence_{rule}_length"]
    if len(result) == len(samples):
        np.testing.assert_array_equal(result, samples)


def test_samples_are_not_rounded() -> None:
    samples = noise(0.5)
    np.testing.assert_array_equal(remove_silence(samples, RATE, SPEECH_SILENCE), samples)


def test_samples_are_clipped_to_full_scale() -> None:
    result = remove_silence(3 * noise(0.5, 1.0), RATE, SPEECH_SILENCE)
    assert (result.min(), result.max()) == (-1.0, np.float32(32767 / 32768))


def test_silence_inside_keeps_a_margin_on_both_sides() -> None:
    samples = np.concatenate([noise(1), silence(3), noise(1)])
    assert len(remove_silence(samples, RATE, SPEECH_SILENCE)) == 3 * RATE
    assert len(remove_silence(samples, RATE, REFERENCE_SILENCE)) == 2.4 * RATE
    assert len(remove_silence(samples, RATE, RULES["edges"])) == 5 * RATE


def test_silence_up_to_the_end_has_speech_on_one_side_only() -> None:
    rule = SilenceRule(middle=100, leading=100, trailing=1000)
    for milliseconds in (1000, 1005):
        signal = np.concatenate([noise(1.0), silence(milliseconds / 1000)])
        assert len(remove_silence(signal, RATE, rule)) == pytest.approx(1.1 * RATE, abs=0.01 * RATE)


def test_the_length_is_in_whole_milliseconds() -> None:
    result = remove_silence(noise(0.1)[: 2400 - 11], RATE, SPEECH_SILENCE)
    assert len(result) == 2400
    assert not result[-11:].any()
    assert len(remove_silence(noise(0.1)[: 2400 - 13], RATE, SPEECH_SILENCE)) == 2400 - 24


@pytest.mark.parametrize("length", [0, 1, 11, 12, 13, 100])
def test_tiny_signals(length: int) -> None:
    assert len(remove_silence(noise(1)[:length], RATE, SPEECH_SILENCE)) == (
        24 * round(length / 24) if length else 0
    )


@given(
    lengths=st.lists(st.integers(0, 6000), min_size=1, max_size=8),
    levels=st.lists(st.sampled_from([0.0, 0.003, 0.004, 0.3]), min_size=8, max_size=8),
    rule=st.sampled_from(list(RULES.values())),
)
def test_nothing_loud_is_cut(lengths: list[int], levels: list[float], rule: SilenceRule) -> None:
    samples = np.concatenate([noise(1)[:n] * level * 10 for n, level in zip(lengths, levels, strict=False)])
    result = remove_silence(samples, 8000, rule)
    assert len(result) <= len(samples) + 8
    loud = np.sum(np.abs(samples) > 0.3)
    assert np.sum(np.abs(result) > 0.3) >= loud - 8


@given(
    lengths=st.lists(st.integers(0, 6000), min_size=1, max_size=8),
    levels=st.lists(st.sampled_from([0.0, 0.003, 0.3, 3.0]), min_size=8, max_size=8),
    cuts=st.lists(st.integers(0, 20000), max_size=6).map(sorted),
    rule=st.sampled_from(list(RULES.values())),
)
def test_a_stream_gives_the_same_samples(
    lengths: list[int], levels: list[float], cuts: list[int], rule: SilenceRule
) -> None:
    samples = np.concatenate([noise(1)[:n] * level * 10 for n, level in zip(lengths, levels, strict=False)])
    streamed = np.concatenate(list(silence_removed(np.split(samples, cuts), 8000, rule)))
    np.testing.assert_array_equal(streamed, remove_silence(samples, 8000, rule))


def test_a_stream_keeps_back_no_more_than_it_must() -> None:
    pieces = [noise(1), noise(1), silence(2), noise(1)]
    streamed = [round(1000 * len(part) / RATE) for part in silence_removed(pieces, RATE, SPEECH_SILENCE)]
    # In the pause one margin is certain; the other one comes with the speech behind it.
    assert streamed == pytest.approx([1000, 1000, 100, 1900, 0, 0], abs=20)


def test_milliseconds_must_be_whole() -> None:
    with pytest.raises(ValueError, match="22050 Hz"):
        remove_silence(noise(1), 22050, SPEECH_SILENCE)
