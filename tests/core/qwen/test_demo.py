"""The packaged demo voice."""

from __future__ import annotations

import numpy as np

from ggtts.core.qwen.demo import demo_paths
from ggtts.core.qwen.guard import most_frames
from ggtts.core.qwen.model import QwenTTS, Sampling, SpeechRequest
from support.comparing import same
from support.device import DEVICE

STORY = (
    "The river was calm that morning, and the boat moved slowly. Nobody said a word. "
    "We reached the village before noon, tired but happy."
)


def test_it_speaks_without_being_told_how() -> None:
    with QwenTTS.open(*demo_paths(), device=DEVICE) as voice:
        assert voice.speakers
        assert voice.languages == ["english"]
        speech = voice.speak(SpeechRequest("The weather is nice today.", sampling=Sampling(seed=1)))
    assert speech.stop == "end_of_speech"
    assert 1 < speech.seconds < 4
    assert 0.1 < np.abs(speech.samples).max() <= 1


def test_long_texts_are_cut_for_it_and_sound_the_same_however_they_are_made() -> None:
    """Threads, chunks and streaming change no bit of a speech in two pieces."""
    heard = []
    for threads, stream_frames in ((1, 1), (2, 5), (3, 300)):
        voice = QwenTTS.open(*demo_paths(), device=DEVICE, threads=threads)
        with voice.stream(STORY, seed=4, stream_frames=stream_frames) as stream:
            chunks = list(stream)
        assert {chunk.pieces for chunk in chunks} == {2}
        assert stream.stop == "end_of_speech"
        heard.append(np.concatenate([chunk.samples for chunk in chunks]))
        assert same(voice.speak(STORY, seed=4).samples, heard[0])
    assert same(heard[1], heard[0])
    assert same(heard[2], heard[0])


def test_the_guard_is_far_from_what_it_says() -> None:
    voice = QwenTTS.open(*demo_paths(), device=DEVICE)
    for text in ("Huh?", "It rained.", "One hundred and twenty three.", "1234567890", STORY):
        for seed in range(3):
            speech = voice.speak(text, seed=seed, split=False, guard=False)
            assert speech.frames < 0.6 * most_frames(text, voice.frame_rate), text
