"""Qwen3-TTS from end to end: a request in, frames or speech out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, Weights
from ..errors import ModelFileError, UsageError
from ..formats.qwen import CodecFile, TalkerFile
from ..nn.config import USUAL, Arithmetic
from ..text.tokenizer import TextTokenizer
from .code_embeddings import CodeEmbeddings
from .code_predictor import CodePredictor
from .codec.decoder import CodecDecoder
from .generation import FrameSampler, Session, StopReason, Utterance
from .prompt import PromptBuilder, PromptRequest
from .requests import ResolvedRequest, Sampling, SpeechRequest, resolve_request
from .talker import Talker
from .text_projection import TextProjection
from .timings import Stopwatch, Timings

__all__ = ["QwenTTS", "ResolvedRequest", "Sampling", "Speech", "SpeechRequest", "Timings"]

KV_TYPES = ("f16", "f32")


@dataclass(frozen=True)
class Speech:
    """What was spoken.

    Attributes:
        samples: float32 [n], within [-1, 1].
        sample_rate: samples per second.
        frames: how many frames of codes it was made of.
        codes: int32 [frames, codebooks].
        seed: repeats this speech when given again.
        stop: "end_of_speech", or "max_frames" or "context" when it was cut off.
        timings: where the time went.
    """

    samples: NDArray[np.float32]
    sample_rate: int
    frames: int
    codes: NDArray[np.int32]
    seed: int
    stop: StopReason
    timings: Timings

    @property
    def seconds(self) -> float:
        """Length of the audio."""
        return len(self.samples) / self.sample_rate


class QwenTTS:
    """A talker and its codec, ready to speak.

    Usable from several threads: each utterance has a session of its own, and all share the weights. As a context
    manager it lets go of both files at the end.
    """

    def __init__(
        self,
        engine: Engine,
        talker: Weights,
        codec: Weights,
        *,
        kv_type: str = "f16",
        arithmetic: Arithmetic = USUAL,
        default_to_first_speaker: bool = False,
    ) -> None:
        """Assemble a model from opened files; see `open`.

        Raises:
            ModelFileError: a file is of another kind, or the two do not belong together.
            UsageError: unknown `kv_type`.
        """
        if kv_type not in KV_TYPES:
            raise UsageError(f"unknown kv_type {kv_type!r}; accepted: {', '.join(KV_TYPES)}")
        self.engine = engine
        self.info = TalkerFile.from_metadata(talker.metadata, talker.path)
        self.codec_info = CodecFile.from_metadata(codec.metadata, codec.path)
        _require_pair(self.info, self.codec_info)
        embeddings = CodeEmbeddings(talker, self.info.codebooks)
        tokenizer = TextTokenizer.from_metadata(talker.metadata, source=talker.path)
        self._prompts = PromptBuilder(self.info, tokenizer, TextProjection(talker, engine), embeddings)
        self._talker = Talker(talker, self.info, engine, arithmetic)
        self._predictor = CodePredictor(talker, self.info, embeddings, engine, arithmetic)
        self._codec = CodecDecoder(codec, self.codec_info, engine)
        self._kv_type = kv_type
        self._default_to_first_speaker = default_to_first_speaker
        self._idle_sessions: list[Session] = []
        self._lock = threading.Lock()

    @classmethod
    def open(
        cls,
        talker: Path | str,
        codec: Path | str,
        *,
        device: str | None = None,
        threads: int | None = None,
        kv_type: str = "f16",
        plain_attention: bool = False,
        clamp_fp16: bool = False,
        default_to_first_speaker: bool = False,
    ) -> QwenTTS:
        """Open two GGUF files.

        Args:
            talker: file of architecture qwen3-tts.
            codec: file of architecture qwen3-tts-tokenizer.
            device: "cpu", "cuda0", ...; None takes $GGTTS_DEVICE, or the best one present.
            threads: CPU threads; None takes the cores that this process may use.
            kv_type: precision of keys and values, "f16" or "f32".
            plain_attention: matrix products and a softmax in talker and code predictor, no fused operation.
            clamp_fp16: keep talker and code predictor within the range of float16.
            default_to_first_speaker: a custom_voice request without a speaker takes the first one of the file
                (for the demo voice) rather than being an error.

        Raises:
            ModelFileError: a file is missing, damaged or of another kind, or the two do not belong together.
            UsageError: unknown `device` or `kv_type`, or a thread count below 1.
            EngineError: the device cannot be used.
        """
        engine = Engine(device, threads)
        return cls(
            engine,
            engine.weights(talker),
            engine.weights(codec),
            kv_type=kv_type,
            arithmetic=Arithmetic(plain_attention, clamp_fp16),
            default_to_first_speaker=default_to_first_speaker,
        )

    @property
    def sample_rate(self) -> int:
        """Samples per second of what is spoken."""
        return self.codec_info.sample_rate

    @property
    def frame_rate(self) -> float:
        """Frames of codes per second."""
        return self.codec_info.frame_rate

    @property
    def languages(self) -> list[str]:
        """Names that `SpeechRequest.language` accepts besides "auto"."""
        return list(self.info.languages)

    @property
    def speakers(self) -> list[str]:
        """Names that `SpeechRequest.speaker` accepts; empty unless this is a custom_voice model."""
        return list(self.info.speakers)

    def resolve(self, request: SpeechRequest) -> ResolvedRequest:
        """Check a request and fill in defaults and seed; nothing is computed.

        Raises:
            UsageError: the request cannot be right for this model.
        """
        return resolve_request(request, self.info, default_to_first_speaker=self._default_to_first_speaker)

    def frames(self, request: SpeechRequest | ResolvedRequest) -> Iterator[NDArray[np.int32]]:
        """Return the codes of one frame after the other, int32 [codebooks], each computed when asked for.

        Raises:
            UsageError: the request cannot be right for this model. Raised before the first frame is asked for.
            EngineError: the device failed or ran out of memory.
        """
        return self._frames(self._resolved(request))

    def speak(
        self, request: SpeechRequest | ResolvedRequest, on_frame: Callable[[int], None] | None = None
    ) -> Speech:
        """Speak, and return the whole utterance.

        Args:
            request: what to say and how.
            on_frame: called with the number of frames so far after each of them.

        Raises:
            UsageError: the request cannot be right for this model.
            EngineError: the device failed or ran out of memory.
        """
        resolved = self._resolved(request)
        stopwatch = Stopwatch()
        frames: list[NDArray[np.int32]] = []
        with self._session() as session:
            utterance = self._utterance(session, resolved, stopwatch)
            for frame in utterance:
                frames.append(frame)
                if on_frame:
                    on_frame(len(frames))
        codes = np.stack(frames)
        with stopwatch.measure("codec"):
            samples = self.decode(codes)
        assert utterance.stop is not None
        return Speech(
            samples, self.sample_rate, len(codes), codes, resolved.seed, utterance.stop, stopwatch.timings()
        )

    def decode(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the samples, float32 [frames * samples per frame], of codes [frames, codebooks].

        Raises:
            ValueError: the codes have another shape, or lie outside the codebooks.
        """
        return self._codec.decode(codes)

    def close(self) -> None:
        """Let go of the memory of idle sessions. The weights go with the last reference to the model."""
        with self._lock:
            self._idle_sessions.clear()

    def __enter__(self) -> QwenTTS:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _resolved(self, request: SpeechRequest | ResolvedRequest) -> ResolvedRequest:
        return request if isinstance(request, ResolvedRequest) else self.resolve(request)

    def _frames(self, request: ResolvedRequest) -> Iterator[NDArray[np.int32]]:
        with self._session() as session:
            yield from self._utterance(session, request, Stopwatch())

    def _utterance(self, session: Session, request: ResolvedRequest, stopwatch: Stopwatch) -> Utterance:
        with stopwatch.measure("prompt"):
            prompt = self._prompts.build(
                PromptRequest(
                    text=request.text,
                    language=request.language_id,
                    speaker=request.speaker_id,
                    instruct=request.instruct,
                )
            )
        sampler = FrameSampler(self.info, request.talker, request.predictor, request.seed)
        return Utterance(session, prompt, sampler, request.max_frames, stopwatch)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        """Lend an idle session, or a new one: its memory and programs outlive the utterance."""
        with self._lock:
            session = self._idle_sessions.pop() if self._idle_sessions else None
        if session is None:
            session = Session(self._talker.session(self._kv_type), self._predictor.session(self._kv_type))
        try:
            yield session
        finally:
            with self._lock:
                self._idle_sessions.append(session)


def _require_pair(talker: TalkerFile, codec: CodecFile) -> None:
    """Check that a codec can decode what a talker says."""
    if talker.codebooks != codec.codebooks:
        raise ModelFileError(
            f"talker and codec do not belong together: {talker.codebooks} codebooks against {codec.codebooks}"
        )
    if talker.codebook_entries > codec.decoder.codebook_entries:
        raise ModelFileError(
            "talker and codec do not belong together: codebooks of "
            f"{talker.codebook_entries} entries against {codec.decoder.codebook_entries}"
        )
