"""The codec by itself: recordings to codes, codes to samples, recordings to speaker embeddings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...audio.reference import DEFAULT_LIMITS, ReferenceLimits, read_recording, resample, usable_samples
from ...closing import Closing
from ...engine import Engine, Weights
from ...errors import ModelFileError, UsageError
from ...formats import rvq
from ...formats.qwen import CodecFile, TalkerFile
from ..speaker_encoder import SpeakerEncoder
from .decoder import CodecDecoder
from .encoder import CodecEncoder

FloatArray = NDArray[np.float32]
Audio: TypeAlias = "str | PathLike[str] | NDArray[Any]"
"""An audio file, or samples [n] or [n, channels], full scale 1 (of integers: the largest of their type)."""

WHOLE_RECORDING = ReferenceLimits(shortest=0.001, longest=30 * 86400.0, silence=0.0)
"""A codec takes what there is: all of a long recording, and silence too."""
PIECE_FRAMES = 64
"""Frames of codes that `Codec.pieces` decodes before it hands out their samples (5 s)."""


class Codec(Closing):
    """The Qwen3-TTS codec, and the speaker encoder of a base talker beside it.

    Each network is loaded when it is first needed. Usable from several threads, which share the weights. A
    context manager that closes it.

    Attributes:
        engine: the device it runs on.
        info: sizes and rates, as the codec file states them.
    """

    def __init__(self, engine: Engine, weights: Weights, talker: Weights | None = None) -> None:
        """Assemble a codec from opened files; see `open`.

        Raises:
            ModelFileError: a file is of another kind, or the talker has no speaker encoder.
        """
        self.engine = engine
        self.info = CodecFile.from_metadata(weights.metadata, weights.path)
        self._weights = weights
        self._talker = talker
        self._talker_info: TalkerFile | None = None
        if talker is not None:
            self._talker_info = TalkerFile.from_metadata(talker.metadata, talker.path)
            _require_speaker_encoder(self._talker_info, talker.path)
        self._lock = Lock()

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        *,
        device: str | None = None,
        threads: int | None = None,
        talker: str | PathLike[str] | None = None,
    ) -> Codec:
        """Open a codec file.

        Args:
            path: GGUF file of architecture qwen3-tts-tokenizer.
            device: "cpu", "cuda0", ...; None takes $GGTTS_DEVICE, or the best one present.
            threads: CPU threads; None takes the cores that this process may use.
            talker: GGUF file of a base talker, whose speaker encoder `speaker` uses.

        Raises:
            ModelFileError: a file is missing, damaged or of another kind, or the talker has no speaker encoder.
            UsageError: unknown device, or a thread count below 1.
            EngineError: the device cannot be used.
        """
        engine = Engine(device, threads, files=(path,) if talker is None else (path, talker))
        return cls(engine, engine.weights(path), None if talker is None else engine.weights(talker))

    @property
    def sample_rate(self) -> int:
        """Samples per second of what `decode` returns."""
        return self.info.sample_rate

    @property
    def frame_rate(self) -> float:
        """Frames of codes per second."""
        return self.info.frame_rate

    @property
    def codebooks(self) -> int:
        """Codes per frame."""
        return self.info.codebooks

    @property
    def entries(self) -> int:
        """How many values a code may have: 0 to entries - 1."""
        return self.info.decoder.codebook_entries

    @property
    def has_speaker_encoder(self) -> bool:
        """Whether `speaker` can be called: a talker was given."""
        return self._talker is not None

    def encode(
        self,
        audio: Audio,
        sample_rate: int | None = None,
        *,
        name: str | None = None,
        on_progress: Callable[[float], None] = lambda part: None,
    ) -> NDArray[np.int32]:
        """Return the codes, int32 [frames, codebooks], of a recording; the last frame may be a partial one.

        Args:
            audio: a file in any format of libsndfile, or samples.
            sample_rate: of samples, in Hz; None is the codec's own rate.
            name: what errors call the recording.
            on_progress: told now and then which part of the work is done, up to 1.

        Raises:
            AudioFileError: the recording cannot be read, has no samples, or holds NaN or infinity.
            UsageError: a sample rate for a file, which has its own.
            EngineError: the device failed or ran out of memory.
        """
        samples = self._samples(audio, sample_rate, self.info.input_sample_rate, WHOLE_RECORDING, name)
        return self._encoder.encode(samples, on_progress)

    def decode(self, codes: str | PathLike[str] | NDArray[np.integer]) -> FloatArray:
        """Return the samples, float32 [frames * samples per frame] within [-1, 1], of codes.

        Args:
            codes: integers [frames, codebooks], or a .rvq file.

        Raises:
            AudioFileError: the file cannot be read, or holds codes that this codec does not have.
            ValueError: the array has another shape, or holds codes that this codec does not have.
            EngineError: the device failed or ran out of memory.
        """
        pieces = list(self.pieces(codes))
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def pieces(self, codes: str | PathLike[str] | NDArray[np.integer]) -> Iterator[FloatArray]:
        """Yield the samples of `decode` piece by piece, in memory that does not grow with them; it raises the same."""
        array = codes if isinstance(codes, np.ndarray) else self.read_codes(codes)
        self._decoder.check(array)
        return self._pieces(array)

    def read_codes(self, path: str | PathLike[str]) -> NDArray[np.int32]:
        """Return the codes [frames, codebooks] in a .rvq file.

        Raises:
            AudioFileError: the file cannot be read, or holds codes that this codec does not have.
        """
        return rvq.read(Path(path), self.codebooks, self.entries)

    def speaker(self, audio: Audio, sample_rate: int | None = None, *, name: str | None = None) -> FloatArray:
        """Return the speaker embedding (x-vector), float32 [width], of a recording; arguments as for `encode`.

        Of a recording longer than a minute the beginning is used, with a warning in the log.

        Raises:
            UsageError: this codec was opened without a talker.
            AudioFileError: the recording cannot be read, is too short or silent, or holds NaN or infinity.
            EngineError: the device failed or ran out of memory.
        """
        encoder = self._speaker_encoder
        return encoder.embed(self._samples(audio, sample_rate, encoder.mel.sample_rate, DEFAULT_LIMITS, name))

    def close(self) -> None:
        """Let go of the networks; the weights go with the last reference to the codec."""
        with self._lock:
            for name in ("_loaded_encoder", "_loaded_decoder", "_loaded_speaker_encoder"):
                self.__dict__.pop(name, None)

    def _samples(
        self,
        audio: Audio,
        rate: int | None,
        wanted: int,
        limits: ReferenceLimits,
        name: str | None,
    ) -> FloatArray:
        """Mono samples [n] at the wanted rate."""
        if isinstance(audio, np.ndarray):
            rate = self.info.input_sample_rate if rate is None else rate
            return resample(
                usable_samples(audio, rate, limits=limits, name=name or "the recording"), rate, wanted
            )
        if rate is not None:
            raise UsageError(f"{audio} is a file and has its own sample rate, it takes none from outside")
        samples, rate = read_recording(Path(audio), limits=limits, name=name)
        return resample(samples, rate, wanted)

    def _pieces(self, codes: NDArray[np.integer]) -> Iterator[FloatArray]:
        with self._decoder.stream() as stream:
            for begin in range(0, len(codes), PIECE_FRAMES):
                yield stream(codes[begin : begin + PIECE_FRAMES])

    @property
    def _encoder(self) -> CodecEncoder:
        with self._lock:
            return self._loaded_encoder

    @property
    def _decoder(self) -> CodecDecoder:
        with self._lock:
            return self._loaded_decoder

    @property
    def _speaker_encoder(self) -> SpeakerEncoder:
        with self._lock:
            return self._loaded_speaker_encoder

    @cached_property
    def _loaded_encoder(self) -> CodecEncoder:
        return CodecEncoder(self._weights, self.info, self.engine)

    @cached_property
    def _loaded_decoder(self) -> CodecDecoder:
        return CodecDecoder(self._weights, self.info, self.engine)

    @cached_property
    def _loaded_speaker_encoder(self) -> SpeakerEncoder:
        if self._talker is None or self._talker_info is None:
            raise UsageError(
                "a speaker embedding needs the speaker encoder of a base talker: open with talker=..."
            )
        return SpeakerEncoder(self._talker, self._talker_info, self.engine)


def _require_speaker_encoder(talker: TalkerFile, path: str) -> None:
    if talker.speaker_encoder is None:
        raise ModelFileError(
            f"{path} has no speaker encoder, it is a {talker.model_type} model: only base talkers have one"
        )
