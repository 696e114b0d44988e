"""The stages of the two encoders under the names of the qwentts.cpp validation harness."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..audio.mel import hann_window, magnitudes, mel_filters
from ..speech.observer import Observer
from .codec import CodecEncoder
from .speaker_encoder import SpeakerEncoder

FloatArray = NDArray[np.float32]

_SPEAKER_NAMES = {
    "mel": "mel-spk",
    "block0": "spk-frontend",
    "block3": "spk-block3",
    "mfa": "spk-mfa",
    "asp": "spk-asp",
}
_CODEC_NAMES = {"enc_tfm": "enc-transformer-out", "downsample": "codec-pre-fsq"}


def note_speaker_stages(encoder: SpeakerEncoder, samples: FloatArray, observer: Observer) -> None:
    """Compute and report the stages of the speaker encoder for mono samples [n], each [frames, width]."""
    settings = encoder.mel
    observer.stage("mel-hann", hann_window(settings.window))
    observer.stage("mel-basis", mel_filters(settings))
    observer.stage("mel-mag", magnitudes(samples, settings))
    stages = encoder.stages(samples)
    for stage, name in _SPEAKER_NAMES.items():
        observer.stage(name, stages[stage])


def note_codec_stages(encoder: CodecEncoder, samples: FloatArray, observer: Observer) -> None:
    """Compute and report the stages of the codec encoder for mono samples [n], each [time, width]."""
    observer.stage("audio-input", samples)
    stages = encoder.stages(samples)
    for name, values in _seanet_stages(stages).items():
        observer.stage(name, values)
    for stage, name in _CODEC_NAMES.items():
        observer.stage(name, stages[stage])


def _seanet_stages(stages: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Name the stages of SEANet: the entry, the first residual unit, every convolution that strides, the result."""
    layers = [values for stage, values in stages.items() if stage.startswith("seanet_")]
    strided = [after for before, after in pairwise(layers) if len(after) < len(before)]
    return {
        "seanet-init": layers[0],
        "seanet-resnet0": layers[1],
        **{f"seanet-stage{index}": values for index, values in enumerate(strided)},
        "seanet-out": stages["seanet"],
    }
