"""The OmniVoice codec (Higgs Audio v2): 8 codes per frame, 25 frames per second, 24 kHz mono."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..closing import Closing
from ..engine import Engine, Weights
from ..formats.omnivoice import OmniVoiceCodecFile
from ..speech.observer import Observer
from .codec_decoder import OmniVoiceDecoder
from .codec_encoder import OmniVoiceEncoder
from .dump import reference_stages
from .reference import load_reference, prepare_reference, prepare_transcript
from .voice import OmniClonedVoice

FloatArray = NDArray[np.float32]

Recording: TypeAlias = "str | PathLike[str] | tuple[NDArray[Any], int]"
"""An audio file, or samples ([n] or [n, channels], full scale 1) and their rate in Hz."""


class OmniVoiceCodec(Closing):
    """Recordings to codes and codes to samples, in float32 whatever the file holds.

    Each of the two networks is loaded when it is first needed. Usable from several threads, which share the weights;
    a context manager that closes it.

    Attributes:
        info: sizes and rates, as the file states them.
    """

    def __init__(self, weights: Weights, file: OmniVoiceCodecFile, engine: Engine) -> None:
        self.info = file
        self._weights, self._engine = weights, engine
        self._lock = Lock()

    @classmethod
    def open(
        cls, path: str | PathLike[str], *, device: str | None = None, threads: int | None = None
    ) -> OmniVoiceCodec:
        """Open a codec file.

        Args:
            path: GGUF file of architecture omnivoice-tokenizer.
            device: "cpu", "cuda0", ...; None takes $GGTTS_DEVICE, or the best one present.
            threads: CPU threads; None takes the cores that this process may use.

        Raises:
            ModelFileError: it is missing, damaged or of another kind.
            UsageError: unknown device, or a thread count below 1.
            EngineError: the device cannot be used.
        """
        engine = Engine(device, threads, files=(path,))
        weights = engine.weights(path)
        file = OmniVoiceCodecFile.from_metadata(weights.metadata, weights.names(), weights.path)
        return cls(weights, file, engine)

    @property
    def sample_rate(self) -> int:
        """Samples per second of what it encodes and decodes."""
        return self.info.sample_rate

    @property
    def frame_rate(self) -> float:
        """Frames of codes per second."""
        return self.info.frame_rate

    def voice(
        self, recording: Recording, text: str, *, preprocess: bool = True, observer: Observer | None = None
    ) -> OmniClonedVoice:
        """Return the voice of a recording, which a language model of OmniVoice can speak with.

        Args:
            recording: an audio file, or (samples, rate).
            text: what is said in it, word for word.
            preprocess: cut silence out of it, and end the text with a punctuation mark.
            observer: is given the stages of the encoder, if it wants them.

        Raises:
            AudioFileError: the recording cannot be read, or is too short or silent.
            UsageError: the text is blank.
            EngineError: the device failed or ran out of memory.
        """
        source = recording if isinstance(recording, tuple) else Path(recording)
        name = "the recording" if isinstance(source, tuple) else str(source)
        samples = load_reference(source, self.sample_rate, name=name)
        prepared = prepare_reference(
            samples, self.sample_rate, self.info.frame_samples, cut_silence=preprocess, name=name
        )
        codes = self.encode(prepared.samples)
        if observer is not None and observer.wants_stages:
            margin = self.info.semantic_frame_samples // 2
            stages = reference_stages(self.encode_stages(prepared.samples), margin)
            for stage, values in (stages | {"ref-audio-codes": codes.T}).items():
                observer.stage(stage, values)
        return OmniClonedVoice(codes, prepare_transcript(text, preprocess=preprocess), prepared.rms)

    def encode(self, samples: FloatArray) -> NDArray[np.int32]:
        """Return the codes int32 [frames, codebooks] of mono samples [n] at the codec's rate.

        A last partial frame is kept unless too little of it (a few milliseconds) is there, as the official package
        does. Memory grows slowly with the recording (1.2 MB per second), work with the square of its length where
        it is very long: every moment of HuBERT's transformer sees every other.

        Raises:
            ValueError: the samples are not one channel, or too few for a frame.
            EngineError: the device failed or ran out of memory.
        """
        return self._encoder.encode(_mono(samples))

    def decode(self, codes: NDArray[np.integer]) -> FloatArray:
        """Return the samples float32 [frames * samples per frame] of codes [frames, codebooks].

        They are not limited to full scale, as the official package does not limit them.

        Raises:
            ValueError: the codes have another shape, or lie outside the codebooks.
            EngineError: the device failed or ran out of memory.
        """
        pieces = list(self.pieces(codes))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def pieces(self, codes: NDArray[np.integer]) -> Iterator[FloatArray]:
        """Yield the samples of `decode` piece by piece, in memory that does not grow with them; it raises the same."""
        return self._decoder.pieces(codes)

    def encode_stages(self, samples: FloatArray) -> dict[str, FloatArray]:
        """Return every stage of the undivided encoding by name, each [time, width], for dumps and comparisons."""
        return self._encoder.stages(_mono(samples))

    def decode_stages(self, codes: NDArray[np.integer]) -> dict[str, FloatArray]:
        """Return every stage of the undivided decoding by name, each [time, width], for dumps and comparisons."""
        return self._decoder.stages(codes)

    def close(self) -> None:
        """Let go of the networks; the weights go with the last reference to the codec."""
        with self._lock:
            for name in ("_loaded_encoder", "_loaded_decoder"):
                self.__dict__.pop(name, None)

    @property
    def _encoder(self) -> OmniVoiceEncoder:
        with self._lock:
            return self._loaded_encoder

    @property
    def _decoder(self) -> OmniVoiceDecoder:
        with self._lock:
            return self._loaded_decoder

    @cached_property
    def _loaded_encoder(self) -> OmniVoiceEncoder:
        return OmniVoiceEncoder(self._weights, self.info, self._engine)

    @cached_property
    def _loaded_decoder(self) -> OmniVoiceDecoder:
        return OmniVoiceDecoder(self._weights, self.info, self._engine)


def _mono(samples: FloatArray) -> FloatArray:
    if samples.ndim != 1:
        raise ValueError(f"the codec encodes mono samples [n], not an array of shape {samples.shape}")
    return samples.astype(np.float32, copy=False)
