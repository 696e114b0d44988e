"""The OmniVoice codec (Higgs Audio v2): 8 codes per frame, 25 frames per second, 24 kHz mono."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..formats.omnivoice import OmniVoiceCodecFile
from .codec_decoder import OmniVoiceDecoder
from .codec_encoder import OmniVoiceEncoder

FloatArray = NDArray[np.float32]


class OmniVoiceCodec:
    """Recordings to codes and codes to samples, in float32 whatever the file holds.

    Each of the two networks is loaded when it is first needed. Usable from several threads, which share the weights.

    Attributes:
        info: sizes and rates, as the file states them.
    """

    def __init__(self, weights: Weights, file: OmniVoiceCodecFile, engine: Engine) -> None:
        self.info = file
        self._weights, self._engine = weights, engine
        self._lock = Lock()

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
