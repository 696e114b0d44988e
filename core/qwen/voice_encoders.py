"""From a recording to a voice: the speaker encoder of the talker file, and the encoder of the codec file."""

from __future__ import annotations

import hashlib
import threading
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..audio.reference import read_recording, resample, usable_samples
from ..engine import Engine, Weights
from ..formats.qwen import CodecFile, TalkerFile
from ..speech.observer import Observer
from .codec import CodecEncoder
from .content_cache import ContentCache
from .speaker_encoder import SpeakerEncoder
from .voice import Voice
from .voice_stages import note_codec_stages, note_speaker_stages

FloatArray = NDArray[np.float32]

Recording: TypeAlias = "str | PathLike[str] | tuple[NDArray[Any], int]"
"""An audio file, or samples ([n] or [n, channels], full scale 1) and their rate in Hz."""

RECORDINGS_KEPT = 16
"""How many recordings' embeddings and codes are remembered: a few hundred kilobytes together."""


class VoiceEncoders:
    """Makes voices. Both encoders are loaded when they are first needed; results are remembered by content."""

    def __init__(
        self, talker: Weights, file: TalkerFile, codec: Weights, codec_file: CodecFile, engine: Engine
    ) -> None:
        self._talker, self._file = talker, file
        self._codec, self._codec_file = codec, codec_file
        self._engine = engine
        self._embeddings: ContentCache[FloatArray] = ContentCache(RECORDINGS_KEPT)
        self._codes: ContentCache[NDArray[np.int32]] = ContentCache(RECORDINGS_KEPT)
        self._lock = threading.Lock()

    def voice(self, recording: Recording, text: str | None, observer: Observer | None = None) -> Voice:
        """Return the voice of a recording, in context if there is a text.

        Raises:
            ModelFileError: the talker file has no speaker encoder.
            AudioFileError: the recording cannot be used.
        """
        stages = observer if observer is not None and observer.wants_stages else None
        samples, rate = _read(recording)
        embedding = self.embedding(resample(samples, rate, self._speaker_rate), stages)
        if text is None:
            return Voice(embedding)
        return Voice(embedding, self.codes(resample(samples, rate, self._codec_rate), stages), text)

    def embedding(self, samples: FloatArray, observer: Observer | None = None) -> FloatArray:
        """Return the speaker embedding [width] of mono samples [n] at the encoder's rate."""
        if observer:
            note_speaker_stages(self._speaker_encoder, samples, observer)
        return self._embeddings.get(_content(samples), lambda: self._speaker_encoder.embed(samples))

    def codes(self, samples: FloatArray, observer: Observer | None = None) -> NDArray[np.int32]:
        """Return the codes [frames, codebooks] of mono samples [n] at the codec's rate."""
        if observer:
            note_codec_stages(self._codec_encoder, samples, observer)
        return self._codes.get(_content(samples), lambda: self._codec_encoder.encode(samples))

    def own_embedding(self, samples: FloatArray) -> FloatArray | None:
        """Return the speaker embedding [width] of speech [n] that the model made; None without a speaker encoder."""
        sizes = self._file.speaker_encoder
        if sizes is None:
            return None
        return self._speaker_encoder.embed(resample(samples, self._codec_file.sample_rate, sizes.sample_rate))

    def clear(self) -> None:
        """Forget all recordings."""
        self._embeddings.clear()
        self._codes.clear()

    @property
    def _codec_rate(self) -> int:
        return self._codec_file.input_sample_rate

    @property
    def _speaker_rate(self) -> int:
        sizes = self._file.speaker_encoder
        return self._codec_rate if sizes is None else sizes.sample_rate

    @property
    def _speaker_encoder(self) -> SpeakerEncoder:
        with self._lock:
            return self._loaded_speaker_encoder

    @property
    def _codec_encoder(self) -> CodecEncoder:
        with self._lock:
            return self._loaded_codec_encoder

    @cached_property
    def _loaded_speaker_encoder(self) -> SpeakerEncoder:
        return SpeakerEncoder(self._talker, self._file, self._engine)

    @cached_property
    def _loaded_codec_encoder(self) -> CodecEncoder:
        return CodecEncoder(self._codec, self._codec_file, self._engine)


def _read(recording: Recording) -> tuple[FloatArray, int]:
    """Return mono samples [n] and their rate."""
    if isinstance(recording, (str, PathLike)):
        return read_recording(Path(recording))
    samples, rate = recording
    return usable_samples(np.asarray(samples), rate), rate


def _content(samples: FloatArray) -> tuple[int, bytes]:
    """Stand for samples [n] in a cache: their length and SHA-256, which no two recordings share."""
    return len(samples), hashlib.sha256(samples.tobytes()).digest()
