"""Cloned speech, from the reference recording to the samples, against the official package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ggtts.core.qwen.codec import DecoderStream
from ggtts.core.qwen.model import QwenTTS, Speech, Voice
from support.comparing import same
from support.data import DATA, Golden, golden_names
from support.tolerances import WAVEFORM

Load = Callable[[str], Golden]
Open = Callable[..., QwenTTS]

CLONES = [
    *golden_names("qwen_0.6B-Base_icl"),
    *golden_names("qwen_0.6B-Base_xvec"),
    "1.7B-Base_icl",
    "1.7B-Base_xvec",
]


def asked(case: Golden) -> dict[str, Any]:
    """What a case asks for, besides the voice."""
    return {
        "language": case.meta["language"],
        "streamed_text": case.meta["streaming_text"],
        "greedy": True,
        "repetition_penalty": case.meta["repetition_penalty"],
        "max_frames": case.meta["max_new_tokens"] - 1,
    }


def heard(case: Golden, model: QwenTTS) -> Voice:
    text = None if case.meta["x_vector_only"] else case.meta["ref_text"]
    return model.voice(DATA / "golden" / "audio" / case.meta["ref"], text)


@pytest.mark.parametrize("name", CLONES)
def test_from_recording_to_samples(name: str, golden: Load, open_tiny: Open) -> None:
    case = golden(name)
    model = open_tiny(case.meta["checkpoint"], kv_type="f32")
    speech = model.speak(case.meta["text"], voice=heard(case, model), **asked(case))
    assert speech.codes.tolist() == case["codes"].tolist()
    assert speech.stop == {"eos": "end_of_speech", "max_new_tokens": "max_frames"}[case.meta["stop"]]
    assert len(speech.samples) == 1920 * len(speech.codes)
    if "wav" in case:
        close_to(speech, case["wav"])


def close_to(speech: Speech, wave: np.ndarray) -> None:
    """The official package cuts the reference off at a product of floats, now and then a sample too early."""
    assert len(speech.samples) - len(wave) in (0, 1)
    assert np.abs(speech.samples[-len(wave) :] - wave).max() < WAVEFORM


def test_enough_waveforms_are_compared(golden: Load) -> None:
    assert sum("wav" in golden(name) for name in CLONES) >= 4


@pytest.fixture(scope="module")
def base(open_tiny: Open) -> QwenTTS:
    return open_tiny("Qwen3-TTS-12Hz-0.6B-Base")


@pytest.fixture(scope="module")
def voice(base: QwenTTS) -> Voice:
    return base.voice(DATA / "golden" / "audio" / "ref_24k.wav", "Nice to meet you.")


def test_a_clone_is_decoded_behind_its_reference(base: QwenTTS, voice: Voice) -> None:
    speech = base.speak("Hello there.", voice=voice, seed=3, max_frames=9)
    assert voice.codes is not None
    together = base.decode(np.concatenate([voice.codes, speech.codes]))
    assert same(speech.samples, together[-len(speech.samples) :])


@pytest.mark.parametrize("stream_frames", [1, 3, 8])
def test_a_streamed_clone_equals_the_spoken_one(base: QwenTTS, voice: Voice, stream_frames: int) -> None:
    options: dict[str, Any] = {"voice": voice, "seed": 3, "max_frames": 9}
    with base.stream("Hello there.", stream_frames=stream_frames, **options) as stream:
        samples = np.concatenate([chunk.samples for chunk in stream])
    assert same(samples, base.speak("Hello there.", **options).samples)


def test_a_reference_primes_the_decoder_once(
    base: QwenTTS, voice: Voice, monkeypatch: pytest.MonkeyPatch
) -> None:
    primed: list[int] = []
    original = DecoderStream.prime

    def counted(self: DecoderStream, codes: np.ndarray) -> None:
        primed.append(len(codes))
        original(self, codes)

    monkeypatch.setattr(DecoderStream, "prime", counted)
    base.close()
    alike = Voice(voice.embedding, voice.codes, "Another text.")
    assert voice.codes is not None
    other = Voice(voice.embedding, voice.codes[::-1], voice.text)
    first = base.speak("Hello.", voice=voice, seed=1, max_frames=3)
    for spoken in (voice, alike, other, voice, other):
        base.speak("Hello.", voice=spoken, seed=1, max_frames=3)
    assert sum(primed) == 2 * 26, "once for each content, whatever is said with it"
    assert same(base.speak("Hello.", voice=voice, seed=1, max_frames=3).samples, first.samples)


def test_an_x_vector_alone_begins_at_silence(base: QwenTTS, voice: Voice) -> None:
    speech = base.speak("Hello.", voice=Voice(voice.embedding), seed=1, max_frames=4)
    assert same(speech.samples, base.decode(speech.codes))
