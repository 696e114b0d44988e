"""Qwen3-TTS from end to end: a request in, frames or speech out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..closing import Closing
from ..engine import Engine, Weights
from ..errors import ModelFileError, UsageError
from ..formats.layout import require_layout
from ..formats.qwen import CodecFile, TalkerFile
from ..formats.qwen_layout import talker_layout
from ..nn.config import USUAL, Arithmetic
from ..parameters import CODES, EMBEDDING, RECORDING
from ..speech.calls import alone
from ..speech.lockstep import Task
from ..speech.observer import Observer, Observers
from ..speech.requests import require_no_options, require_transcript
from ..speech.scheduler import Scheduler
from ..speech.speeches import Speeches
from ..speech.stream import Account, AudioChunk, SpeechStream, finished
from ..speech.timings import Timings
from ..text.tokenizer import TextTokenizer
from .cadence import CHUNK_FRAMES, STREAM_FRAMES, Cadence
from .code_embeddings import CodeEmbeddings
from .code_predictor import CodePredictor
from .codec import CodecDecoder
from .codec_lines import BatchLines, OwnLines
from .demo import DEMO_HABITS, is_demo
from .lockstep_speaking import LockstepSpeaking
from .piece_speech import Equipment
from .prompt import PromptBuilder
from .prompt_stage import PromptStage
from .requests import (
    USUAL_HABITS,
    Habits,
    ResolvedRequest,
    Sampling,
    SpeechRequest,
    check_voice,
    require_base_model,
    resolve_request,
    speech_request,
)
from .sessions import SessionPool
from .speaking import Speaking, pieces_of_request
from .speech import Speech, whole_speech
from .talker import Talker
from .text_projection import TextProjection
from .voice import Voice
from .voice_encoders import Recording, VoiceEncoders

__all__ = [
    "AudioChunk",
    "Observer",
    "QwenTTS",
    "ResolvedRequest",
    "Sampling",
    "Speech",
    "SpeechRequest",
    "SpeechStream",
    "Timings",
    "Voice",
]

Request: TypeAlias = "str | SpeechRequest | ResolvedRequest"
QwenScheduler: TypeAlias = "Scheduler[Request, ResolvedRequest]"
"""Speaks many requests at once; see `QwenTTS.scheduler`."""

KV_TYPES = ("f16", "f32")


class QwenTTS(Closing):
    """A talker and its codec, ready to speak.

    Usable from several threads: each utterance has a session of its own, and all share the weights. A context manager
    that closes it.
    """

    def __init__(
        self,
        engine: Engine,
        talker: Weights,
        codec: Weights,
        *,
        kv_type: str = "f16",
        arithmetic: Arithmetic = USUAL,
        habits: Habits | None = None,
        overlap: bool | None = None,
    ) -> None:
        """Assemble a model from opened files; see `open`.

        `habits` are what it does where a request leaves something open; None takes those of the demo voice or of all
        other models.

        Raises:
            ModelFileError: a file is of another kind, or the two do not belong together.
            UsageError: unknown `kv_type`.
        """
        if kv_type not in KV_TYPES:
            raise UsageError(f"unknown kv_type {kv_type!r}; accepted: {', '.join(KV_TYPES)}")
        self.engine = engine
        self._beside = None if overlap is False else engine.beside(always=overlap is True)
        self.info = TalkerFile.from_metadata(talker.metadata, talker.path)
        self.codec_info = CodecFile.from_metadata(codec.metadata, codec.path)
        _require_pair(self.info, self.codec_info)
        require_layout(talker, talker_layout(self.info), talker.path, "a Qwen3-TTS talker")
        self.habits = habits or (DEMO_HABITS if is_demo(self.info) else USUAL_HABITS)
        embeddings = CodeEmbeddings(talker, self.info.codebooks)
        self._sessions = SessionPool(
            Talker(talker, self.info, engine, arithmetic),
            CodePredictor(talker, self.info, embeddings, engine, arithmetic),
            kv_type,
        )
        self._equipment = self._equip(talker, codec, embeddings)

    def _equip(self, talker: Weights, codec: Weights, embeddings: CodeEmbeddings) -> Equipment:
        file, engine = self.info, self.engine
        tokenizer = TextTokenizer.from_metadata(talker.metadata, source=talker.path)
        decoder = CodecDecoder(codec, self.codec_info, self._beside or engine)
        self._prompts = PromptBuilder(file, tokenizer, TextProjection(talker, engine), embeddings)
        return Equipment(
            file=file,
            sample_rate=self.codec_info.sample_rate,
            frame_rate=self.codec_info.frame_rate,
            prompts=self._prompts,
            sessions=self._sessions,
            decoder=decoder,
            lines=OwnLines(decoder, self._beside),
            encoders=VoiceEncoders(talker, file, codec, self.codec_info, engine),
        )

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
        default_to_first_speaker: bool | None = None,
        overlap: bool | None = None,
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
                rather than being an error; None: only with the demo voice.
            overlap: let the codec decode while the next frames are made; None: where that is faster, on an NVIDIA GPU
                and on a CPU with at least 4 threads. The samples are the same.

        Raises:
            ModelFileError: a file is missing, damaged or of another kind, or the two do not belong together.
            UsageError: unknown `device` or `kv_type`, or a thread count below 1.
            EngineError: the device cannot be used.
        """
        engine = Engine(device, threads, files=(talker, codec))
        model = cls(
            engine,
            engine.weights(talker),
            engine.weights(codec),
            kv_type=kv_type,
            arithmetic=Arithmetic(plain_attention, clamp_fp16),
            overlap=overlap,
        )
        if default_to_first_speaker is not None:
            model.habits = replace(model.habits, first_speaker=default_to_first_speaker)
        return model

    @property
    def sample_rate(self) -> int:
        """Samples per second of what is spoken."""
        return self.codec_info.sample_rate

    @property
    def keeps_programs(self) -> bool:
        """Whether a scheduler keeps programs for certain numbers of speeches, as they are dear on this device."""
        return not self.engine.is_cpu

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

    def resolve(self, request: str | SpeechRequest, **options: Any) -> ResolvedRequest:
        """Check a request and fill in defaults and seed; nothing is computed.

        Args:
            request: what to say and how, or the text alone.
            options: with a text, the fields of `SpeechRequest` and `Sampling`: `speaker="eva", seed=7`.

        Raises:
            UsageError: the request cannot be right for this model.
            TypeError: an option is called like no field.
        """
        return resolve_request(speech_request(request, **options), self.info, self.habits)

    def voice(
        self,
        recording: Recording | None = None,
        text: str | None = None,
        *,
        embedding: NDArray[np.float32] | None = None,
        codes: NDArray[np.int32] | None = None,
        observer: Observer | None = None,
    ) -> Voice:
        """Return the voice of a recording, to be spoken with; or one from stored parts, checked against this model.

        Args:
            recording: an audio file, or (samples, rate). Its embedding and codes are remembered by content.
            text: what is said in it, word for word: the model then goes on in the manner of the recording. Without
                it, it only imitates the speaker.
            embedding, codes: instead of a recording: a speaker embedding [width] and, with a text, codes
                [frames, codebooks].
            observer: is given the stages of the encoders, if it wants them.

        Raises:
            UsageError: the model cannot clone, or the arguments do not go together.
            ModelFileError: the talker file has no speaker encoder.
            AudioFileError: the recording cannot be read, or is too short or silent.
        """
        require_base_model(self.info)
        require_transcript(text)
        if recording is None:
            if embedding is None:
                raise UsageError(
                    f"{CODES} needs {EMBEDDING}: the speaker embedding of the same recording"
                    if codes is not None
                    else f"a voice needs a recording ({RECORDING}) or a speaker embedding ({EMBEDDING})"
                )
            voice = Voice(embedding, codes, text)
        elif embedding is not None or codes is not None:
            raise UsageError(f"{RECORDING} excludes {EMBEDDING} and {CODES}: the recording says all of it")
        else:
            voice = self._equipment.encoders.voice(recording, text, observer)
        check_voice(voice, self.info)
        return voice

    def frames(self, request: Request, **options: Any) -> Iterator[NDArray[np.int32]]:
        """Return the codes of one frame after the other, int32 [codebooks], each computed when asked for.

        Raises:
            UsageError: the request cannot be right for this model. Raised before the first frame is asked for.
            EngineError: the device failed or ran out of memory.
        """
        speaking = Speaking(self._equipment, self._resolved(request, options), Account(), Observer())
        return alone(speaking.frames())

    def stream(
        self,
        request: Request,
        *,
        stream_frames: int | None = None,
        observer: Observer | None = None,
        parallel: int = 1,
        **options: Any,
    ) -> SpeechStream[ResolvedRequest]:
        """Return the speech chunk by chunk, each made when it is asked for, the first after one frame.

        Args:
            request: what to say and how, or the text alone, with `options` as in `resolve`.
            stream_frames: chunks grow from 1 over 2 and 4 frames up to that many.  [4]
            observer: is told about pieces, frames and, if it wants them, stages of the model.
            parallel: how many pieces of a long text are spoken at once, by another thread and before they are asked
                for. The samples are the same. An observer that wants stages gets one piece after the other.

        Raises:
            UsageError: the request cannot be right for this model.
        """
        cadence = self._cadence(STREAM_FRAMES if stream_frames is None else stream_frames, ramp=True)
        resolved, watcher = self._resolved(request, options), observer or Observer()
        if _in_lockstep(resolved, watcher, parallel):
            return self._lockstep(resolved, stream_frames, watcher, Account(), parallel)
        return self._stream(resolved, cadence, watcher, Account())

    def speak(
        self,
        request: Request,
        on_frame: Callable[[int], None] | None = None,
        *,
        observer: Observer | None = None,
        codec_chunk_frames: int | None = None,
        parallel: int = 1,
        **options: Any,
    ) -> Speech:
        """Speak, and return the whole speech: the samples of `stream`, to the last bit on the CPU.

        Args:
            request: what to say and how, or the text alone, with `options` as in `resolve`.
            on_frame: called with the number of frames so far after each of them.
            observer: is told about pieces, frames and, if it wants them, stages of the model.
            codec_chunk_frames: how many frames go to the codec at once, 16 at most where it works meanwhile; changes
                memory and nothing else.  [300]
            parallel: how many pieces of a long text are spoken at once; see `stream`.

        Raises:
            UsageError: the request cannot be right for this model.
            EngineError: the device failed or ran out of memory.
        """
        cadence = self._cadence(
            CHUNK_FRAMES if codec_chunk_frames is None else codec_chunk_frames, ramp=False
        )
        watching = [*([observer] if observer else []), *([_FrameCounter(on_frame)] if on_frame else [])]
        resolved, watcher, account = self._resolved(request, options), Observers(*watching), Account(codes=[])
        if _in_lockstep(resolved, watcher, parallel):
            stream = self._lockstep(resolved, codec_chunk_frames, watcher, account, parallel)
        else:
            stream = self._stream(resolved, cadence, watcher, account)
        with stream:
            return whole_speech(stream, stream)

    def speak_many(
        self,
        requests: Iterable[Request],
        *,
        parallel: int = 8,
        observe: Callable[[int], Observer] | None = None,
        **options: Any,
    ) -> Speeches[Request, Speech]:
        """Return the speech of each request in turn, up to `parallel` being spoken at once: what `speak` says of each.

        Args:
            requests: any number, taken when there is a place for the next one, by the thread that asks for speeches.
                Each is a request, or a text with `options` as in `resolve`.
            parallel: how many are spoken at once. Together they take far less time than one after the other.
            observe: is given the number of each request, counted from 1, and returns who watches it; observers are
                called by another thread.

        Returns:
            An iterator. Where a request cannot be spoken, it raises that in its turn, and can then go on with the next
            one. It is a context manager, too; left to itself, it lets go of everything at its end.

        Raises:
            UsageError: `parallel` is below 1.
        """
        scheduler = self.scheduler(parallel)
        return Speeches(scheduler, requests, whole_speech, observe=observe, options=options)

    def scheduler(self, max_batch: int = 8) -> QwenScheduler:
        """Return a scheduler that speaks up to `max_batch` requests at once, on a thread of its own.

        What each of them says does not depend on the others: it is what `speak` says with the same seed. Chunks grow as
        those of `stream` do, and up to 16 frames while some wait to be read.

        Raises:
            UsageError: `max_batch` is below 1.
        """
        return self._batch(max_batch)[1]

    def decode(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """Return the samples, float32 [frames * samples per frame], of codes [frames, codebooks].

        Raises:
            ValueError: the codes have another shape, or lie outside the codebooks.
        """
        return self._equipment.decoder.decode(codes)

    def close(self) -> None:
        """Let go of the memory of idle sessions and streams, and of what is remembered of voices.

        The weights go with the last reference to the model.
        """
        self._sessions.clear()
        self._equipment.decoder.clear()
        self._equipment.snapshots.clear()
        self._equipment.encoders.clear()

    def _resolved(self, request: Request, options: dict[str, Any]) -> ResolvedRequest:
        if not isinstance(request, ResolvedRequest):
            return self.resolve(request, **options)
        require_no_options(options, "a resolved request")
        return request

    def _cadence(self, most: int, *, ramp: bool) -> Cadence:
        """Return that of a speech by itself: a codec that works meanwhile should not have to wait for more frames than
        it decodes at once."""
        widest = most if self._beside is None else self._equipment.decoder.widest
        return Cadence(min(most, widest), ramp=ramp)

    def _batch(self, size: int) -> tuple[Equipment, QwenScheduler]:
        """Return equipment whose sessions make their calls together, and the scheduler that makes them."""
        batch = self._sessions.batch(size)
        lines = BatchLines(self._equipment.decoder, size, self._beside)
        prompts = PromptStage(self._prompts)
        equipment = replace(self._equipment, prompts=prompts, sessions=batch, lines=lines)

        def release() -> None:
            lines.clear()
            batch.clear()

        begin = partial(self._task, equipment)
        stages = (prompts, *batch.stages, *([lines.stage] if lines.background is None else []))
        scheduler = Scheduler(begin, size, stages=stages, release=release, background=lines.background)
        return equipment, scheduler

    def _task(
        self,
        equipment: Equipment,
        request: Request,
        *,
        stream_frames: int | None,
        observer: Observer | None,
        **options: Any,
    ) -> Task[ResolvedRequest]:
        """Return a speech on the equipment of a batch, for `Scheduler.submit`."""
        account = Account(codes=[])
        resolved = self._resolved(request, options)
        cadence = Cadence.of_batch(stream_frames, account)
        chunks = Speaking(equipment, resolved, account, observer or Observer()).chunks(cadence)
        return Task(resolved, self.sample_rate, account, chunks)

    def _stream(
        self, request: ResolvedRequest, cadence: Cadence, observer: Observer, account: Account
    ) -> SpeechStream[ResolvedRequest]:
        chunks = Speaking(self._equipment, request, account, observer).chunks(cadence)
        return SpeechStream(request, self.sample_rate, finished(alone(chunks)), account)

    def _lockstep(
        self,
        request: ResolvedRequest,
        most_frames: int | None,
        observer: Observer,
        account: Account,
        parallel: int,
    ) -> SpeechStream[ResolvedRequest]:
        """Return a stream whose pieces are spoken `parallel` at a time."""
        equipment, scheduler = self._batch(parallel)
        chunks = LockstepSpeaking(equipment, scheduler, request, account, observer).chunks(most_frames)
        return SpeechStream(request, self.sample_rate, chunks, account)


def _in_lockstep(request: ResolvedRequest, observer: Observer, parallel: int) -> bool:
    """Tell whether there are pieces to be spoken at once."""
    if parallel < 1:
        raise UsageError(f"{parallel} pieces cannot be spoken at once: at least 1 is needed")
    noting = getattr(observer, "wants_stages", False)
    return parallel > 1 and not noting and len(pieces_of_request(request)) > 1


class _FrameCounter(Observer):
    """Tells a function how many frames there are."""

    def __init__(self, on_frame: Callable[[int], None]) -> None:
        self._on_frame = on_frame
        self._frames = 0

    def frame(self, frames: int) -> None:
        """Count the frames of all pieces."""
        self._frames += 1
        self._on_frame(self._frames)


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
