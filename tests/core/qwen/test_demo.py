"""The packaged demo voice."""

from __future__ import annotations

import numpy as np
from ggtts.core.qwen.demo import demo_paths
from ggtts.core.qwen.model import QwenTTS, Sampling, SpeechRequest


def test_it_speaks_without_being_told_how() -> None:
    with QwenTTS.open(*demo_paths(), device="cpu", default_to_first_speaker=True) as voice:
        assert voice.speakers
        assert voice.languages == ["english"]
        speech = voice.speak(SpeechRequest("The weather is nice today.", sampling=Sampling(seed=1)))
    assert speech.stop == "end_of_speech"
    assert 1 < speech.seconds < 4
    assert 0.1 < np.abs(speech.samples).max() <= 1
