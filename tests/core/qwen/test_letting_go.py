"""A model that nobody uses any more is gone at once: nothing in it waits for the garbage collector."""

from __future__ import annotations

import gc
import weakref

import numpy as np

from ggtts import Codec, QwenTTS, Sampling, SpeechRequest, demo_paths
from support.device import DEVICE


def test_the_memory_of_a_model_goes_with_it() -> None:
    gc.collect()
    gc.disable()
    try:
        model = QwenTTS.open(*demo_paths(), device=DEVICE, threads=1)
        model.speak(SpeechRequest("Hi.", speaker="eva", sampling=Sampling(greedy=True), max_frames=2))
        parts = [weakref.ref(part) for part in (model, model._equipment.decoder, model._equipment.sessions)]
        del model
        assert [part() for part in parts] == [None] * len(parts)
    finally:
        gc.enable()


def test_the_memory_of_a_codec_goes_with_it() -> None:
    gc.collect()
    gc.disable()
    try:
        codec = Codec.open(demo_paths()[1], device=DEVICE, threads=1)
        codec.decode(codec.encode(codec.decode(np.zeros((3, 16), np.int32))))
        decoder = weakref.ref(codec._decoder)
        del codec
        assert decoder() is None
    finally:
        gc.enable()
