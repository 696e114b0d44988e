"""Cues in their slots: how fast they are spoken, and what becomes of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ggtts.core.audio.timeline import Slot
from ggtts.core.engine import Engine
from ggtts.core.errors import EngineError, OutputError, UsageError
from ggtts.core.omnivoice.dubbing import BRISK, FASTEST, SLOWEST, target_of
from ggtts.core.omnivoice.model import Cue, DubbedCue, Observer, OmniClonedVoice, OmniVoice
from ggtts.core.text.subtitles import read_subtitles
from support.data import DATA, OMNIVOICE, OMNIVOICE_CODEC

RATE = 25.0
AUDIO = DATA / "golden" / "audio"


@pytest.fixture(scope="session")
def model(engine: Engine, tiny_gguf: Callable[..., Path]) -> OmniVoice:
    return OmniVoice(engine, engine.weights(tiny_gguf(OMNIVOICE)), engine.weights(tiny_gguf(OMNIVOICE_CODEC)))


class Tape:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.parts: list[NDArray[np.float32]] = []

    def write(self, samples: NDArray[np.float32]) -> None:
        self.parts.append(samples)

    @property
    def samples(self) -> NDArray[np.float32]:
        return np.concatenate(self.parts)


def dub(model: OmniVoice, cues: list[Cue], **options: object) -> tuple[list[DubbedCue], NDArray[np.float32]]:
    tape = Tape()
    dubbed = list(model.dub(cues, tape, steps=1, seed=1, **options))
    return dubbed, tape.samples


@pytest.mark.parametrize(
    ("usual", "slot", "frames", "hopeless"),
    [
        (25, Slot(0.0, 1.0, 3.0), 25, False),  # just right
        (20, Slot(0.0, 1.0, 3.0), 25, False),  # a little slower
        (20, Slot(0.0, 4.0, 9.0), 30, False),  # not as slow as the slot would have it
        (30, Slot(0.0, 1.0, 3.0), 25, False),  # a little faster
        (50, Slot(0.0, 1.0, 3.0), 40, False),  # into the gap
        (50, Slot(0.0, 1.0, 1.5), 37, False),  # fast, through all of the gap
        (50, Slot(0.0, 1.0, 1.0), 32, True),  # hopeless
        (50, Slot(0.0, 0.0, inf), 40, False),  # no slot, but room
        (50, Slot(0.0, 0.0, 0.0), 32, True),
    ],
)
def test_how_a_cue_is_spoken(usual: int, slot: Slot, frames: int, hopeless: bool) -> None:
    target = target_of(usual, slot, RATE)
    assert (target.frames, target.hopeless) == (frames, hopeless)
    assert target.ratio == (pytest.approx(usual / 25 / slot.seconds) if slot.seconds else inf)


@given(st.integers(1, 500), st.floats(0, 10), st.floats(0, 5))
def test_the_model_is_never_asked_for_more_than_it_can(usual: int, length: float, gap: float) -> None:
    slot = Slot(1.0, 1.0 + length, 1.0 + length + gap)
    target = target_of(usual, slot, RATE)
    assert usual / FASTEST - 1 <= target.frames <= usual * SLOWEST + 1
    assert target.hopeless == (usual > max(BRISK * int(slot.seconds * RATE), FASTEST * int(slot.room * RATE)))
    if not target.hopeless:
        assert target.frames <= max(1, int(slot.room * RATE), int(slot.seconds * RATE))


def test_a_plain_film(model: OmniVoice, caplog: pytest.LogCaptureFixture) -> None:
    cues = read_subtitles(DATA / "cases" / "plain.srt")
    dubbed, samples = dub(model, cues)
    assert not caplog.records
    assert len(samples) == round(max(7.2, dubbed[-1].end) * 24_000)
    assert [cue.cue for cue in dubbed] == cues
    heard = np.zeros(len(samples), bool)
    for cue in dubbed:
        assert cue.start == cue.cue.start
        assert (cue.stretched, cue.cut, cue.problem) == (1.0, 0.0, None)
        begin, end = round(cue.start * 24_000), round(cue.end * 24_000)
        assert samples[begin:end].any()
        heard[begin:end] = True
    assert not samples[~heard].any()
    assert 0.3 < np.abs(samples).max() <= 1.0


def test_slots_that_are_too_short(model: OmniVoice, caplog: pytest.LogCaptureFixture) -> None:
    cues = read_subtitles(DATA / "cases" / "too_short_slots.srt")
    (first, second), samples = dub(model, cues)
    assert first.end <= second.start
    assert first.stretched == 2.0
    assert first.cut > 0
    assert len(samples) == 2 * 24_000
    (record,) = caplog.records
    assert "cue 1 does not fit its slot of 0.30 s" in record.getMessage()
    assert "2.00 times faster" in record.getMessage()


def test_a_cue_that_fails_leaves_its_slot_silent(
    model: OmniVoice, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    decode, calls = model._equipment.codec.decode, []

    def failing(codes: NDArray[np.int32]) -> NDArray[np.float32]:
        calls.append(codes)
        if len(calls) == 2:
            raise EngineError("out of memory")
        return decode(codes)

    monkeypatch.setattr(model._equipment.codec, "decode", failing)
    cues = read_subtitles(DATA / "cases" / "plain.srt")
    dubbed, samples = dub(model, cues)
    assert [cue.problem for cue in dubbed] == [None, "out of memory", None]
    assert not samples[round(2.5 * 24_000) : 6 * 24_000].any()
    assert samples[6 * 24_000 :].any()
    assert "cue 2 is left silent: out of memory" in caplog.text


def test_a_dump_that_cannot_be_written_ends_the_dubbing(model: OmniVoice) -> None:
    class FullDisk(Observer):
        wants_stages = True

        def stage(self, name: str, values: NDArray[np.float32]) -> None:
            raise OutputError("no space left on device")

    with pytest.raises(OutputError, match="no space left"):
        dub(model, [Cue(1, 0.0, 1.0, "Yes."), Cue(2, 2.0, 3.0, "No.")], observer=FullDisk())


def test_the_timeline_is_as_long_as_its_last_slot(model: OmniVoice) -> None:
    (dubbed,), samples = dub(model, [Cue(1, 0.5, 20.0, "A few words.")])
    assert dubbed.end < 10
    assert len(samples) == 20 * 24_000


def test_silence_is_cut_at_the_ends_of_a_cue_and_nowhere_else(
    model: OmniVoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    tone = np.full(12_000, 0.5, np.float32)
    spoken = np.concatenate([np.zeros(24_000), tone, np.zeros(36_000), tone, np.zeros(24_000)])
    monkeypatch.setattr(model._equipment.codec, "decode", lambda codes: spoken.astype(np.float32))
    (dubbed,), samples = dub(model, [Cue(1, 0.0, 10.0, "A few words.")])
    first, last = np.flatnonzero(np.abs(samples) > 0.1)[[0, -1]]
    assert first == pytest.approx(0.04 * 24_000, abs=300)
    assert last - first == pytest.approx(60_000, abs=300)
    assert dubbed.end == pytest.approx(0.04 + 2.5 + 0.1, abs=0.02)


def test_all_cues_have_one_voice(model: OmniVoice, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = []
    generate = model._equipment.maskgit.generate
    monkeypatch.setattr(
        model._equipment.maskgit,
        "generate",
        lambda prompt, *rest: prompts.append(prompt) or generate(prompt, *rest),
    )
    logging.disable(logging.WARNING)
    hurried = Cue(1, 0.0, 0.1, "Far too many words for this.")
    dub(model, [hurried, Cue(2, 0.1, 6.0, "These have all the time they want.")])
    dub(
        model,
        [
            Cue(1, 0.0, 4.0, "These have all the time they want."),
            Cue(2, 4.0, 8.0, "These have time as well."),
        ],
    )
    logging.disable(logging.NOTSET)
    assert [prompt.reference is None for prompt in prompts] == [True, True, True, False]


def test_a_cloned_voice_is_as_loud_as_its_reference(model: OmniVoice) -> None:
    voice: OmniClonedVoice = model.voice(AUDIO / "ref_quiet_16k.flac", "你好，世界")
    cues = [Cue(1, 0.0, 2.0, "Good morning to you.")]
    _, samples = dub(model, cues, voice=voice)
    _, louder = dub(model, cues, voice=OmniClonedVoice(voice.codes, voice.text))
    assert voice.rms is not None
    np.testing.assert_allclose(samples, louder * (voice.rms / 0.1), atol=1e-6)


def test_cues_have_durations_of_their_own(model: OmniVoice) -> None:
    with pytest.raises(UsageError, match="durations of their own"):
        model.dub([Cue(1, 0.0, 1.0, "Yes.")], Tape(), duration=2.0)
