"""OmniVoice from end to end: a request in, codes, speech or a dubbed timeline out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..audio.timeline import Writer
from ..closing import Closing
from ..engine import Engine, Weights
from ..errors import ModelFileError, UsageError
from ..formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from ..nn.config import USUAL, Arithmetic
from ..speech.lockstep import Task
from ..speech.observer import Observer, Observers
from ..speech.requests import require_no_options
from ..speech.scheduler import Scheduler
from ..speech.speeches import Speeches
from ..speech.stream import Account, AudioChunk, SpeechStream
from ..text.sentences import split_sentences
from ..text.subtitles import Cue
from ..text.tokenizer import TextTokenizer
from .backbone import Backbone
from .chunks import StreamedChunks, chunks_of
from .codec import OmniVoiceCodec, Recording
from .dubbing import DubbedCue, Dubbing
from .finishing import Finishing, finish
from .languages import languages
from .maskgit import MaskGit, MaskGitOptions
from .narrator import ANCHOR_SECONDS, Equipment, Narrator
from .requests import (
    Chunking,
    OmniSpeechRequest,
    ResolvedOmniRequest,
    omni_request,
    resolve_omni_request,
)
from .speech import OmniSpeech, whole_speech
from .stream import OmniStream, Passage, Speaking, numbered
from .voice import OmniClonedVoice
from .voices import stored_voice

__all__ = [
    "AudioChunk",
    "Chunking",
    "Cue",
    "DubbedCue",
    "Finishing",
    "MaskGitOptions",
    "Narrator",
    "Observer",
    "OmniClonedVoice",
    "OmniSpeech",
    "OmniSpeechRequest",
    "OmniStream",
    "OmniVoice",
    "ResolvedOmniRequest",
]

Request: TypeAlias = "str | OmniSpeechRequest | ResolvedOmniRequest"
OmniScheduler: TypeAlias = "Scheduler[Request, ResolvedOmniRequest]"
"""Speaks many requests by turns; see `OmniVoice.scheduler`."""
OmniTask: TypeAlias = "Task[ResolvedOmniRequest]"


class OmniVoice(Closing):
    """A language model and its codec, ready to speak.

    Usable from several threads, which share the weights and take turns on the language model.
    """

    def __init__(
        self, engine: Engine, base: Weights, codec: Weights, *, arithmetic: Arithmetic = USUAL
    ) -> None:
        """Assemble a model from opened files; see `open`.

        Raises:
            ModelFileError: a file is of another kind, or the two do not belong together.
        """
        self.engine = engine
        self.info = OmniVoiceFile.from_metadata(base.metadata, base.path)
        self.codec_info = OmniVoiceCodecFile.from_metadata(codec.metadata, codec.names(), codec.path)
        _require_pair(self.info, self.codec_info)
        self._equipment = Equipment(
            self.info,
            self.codec_info,
            TextTokenizer.from_metadata(base.metadata, source=base.path),
            MaskGit(Backbone(base, self.info, engine, arithmetic)),
            OmniVoiceCodec(codec, self.codec_info, engine),
        )

    @classmethod
    def open(
        cls,
        base: str | PathLike[str],
        codec: str | PathLike[str],
        *,
        device: str | None = None,
        threads: int | None = None,
        plain_attention: bool = False,
        clamp_fp16: bool = False,
    ) -> OmniVoice:
        """Open two GGUF files.

        Args:
            base: file of architecture omnivoice-lm.
            codec: file of architecture omnivoice-tokenizer.
            device: "cpu", "cuda0", ...; None takes $GGTTS_DEVICE, or the best one present.
            threads: CPU threads; None takes the cores that this process may use.
            plain_attention: matrix products and a softmax in the language model, no fused operation.
            clamp_fp16: keep the language model within the range of float16.

        Raises:
            ModelFileError: a file is missing, damaged or of another kind, or the two do not belong together.
            UsageError: unknown `device`, or a thread count below 1.
            EngineError: the device cannot be used.
        """
        engine = Engine(device, threads, files=(base, codec))
        arithmetic = Arithmetic(plain_attention, clamp_fp16)
        return cls(engine, engine.weights(base), engine.weights(codec), arithmetic=arithmetic)

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
        """Names of the languages."""
        return [language.name for language in languages()]

    def resolve(self, request: str | OmniSpeechRequest, **options: Any) -> ResolvedOmniRequest:
        """Check a request and fill in defaults and seed; nothing is computed.

        Args:
            request: what to say and how, or the text alone.
            options: with a text, the fields of `OmniSpeechRequest` and `MaskGitOptions`: `language="en", steps=8`.

        Raises:
            UsageError: the request cannot be right for this model.
            TypeError: an option is called like no field.
        """
        return resolve_omni_request(omni_request(request, **options), self.info, self.frame_rate)

    def voice(
        self,
        recording: Recording,
        text: str,
        *,
        preprocess: bool = True,
        observer: Observer | None = None,
    ) -> OmniClonedVoice:
        """Return the voice of a recording; see `OmniVoiceCodec.voice`."""
        return self._equipment.codec.voice(recording, text, preprocess=preprocess, observer=observer)

    def stored_voice(
        self, path: str | PathLike[str], text: str | None = None, *, preprocess: bool = True
    ) -> OmniClonedVoice:
        """Return the voice in a .rvq file, with what the notes beside it say (`core.formats.voice_notes`).

        Without notes the loudness of the recording is not known: speech is then as loud as the codes themselves, which
        is right for recordings that were not raised (an RMS of 0.1 or more), and louder than a quieter recording was.

        Args:
            path: of the .rvq file.
            text: what is said in the recording; None takes it from the notes.
            preprocess: end the text with a punctuation mark.

        Raises:
            AudioFileError: a file cannot be read, or holds codes that this model does not have.
            UsageError: there is no text.
        """
        return stored_voice(path, text, self.info, self.codec_info, preprocess=preprocess)

    def narrator(self, request: Request, **options: Any) -> Narrator:
        """Return one voice for several calls of `stream`: what it says first is what it keeps sounding like.

        Raises:
            UsageError: the request cannot be right for this model.
        """
        return Narrator(self._equipment, self._resolved(request, options), anchor_seconds=ANCHOR_SECONDS)

    def codes(self, request: Request, **options: Any) -> Iterator[NDArray[np.int32]]:
        """Return the codes [frames, codebooks] of one chunk of the text after the other, each made when asked for.

        Raises:
            UsageError: the request cannot be right for this model. Raised before the first chunk is asked for.
            EngineError: the device failed or ran out of memory.
        """
        resolved = self._resolved(request, options)
        return self._speaking(resolved, Account(), Observer()).codes(self._passages(resolved))

    def stream(
        self,
        request: Request,
        *,
        chunks: Iterable[str] | None = None,
        narrator: Narrator | None = None,
        whole: bool = False,
        observer: Observer | None = None,
        **options: Any,
    ) -> OmniStream:
        """Return the speech chunk by chunk, each made when it is asked for, the first one a short one.

        Without a reference the loudest sample of the first chunk sets the level of all.

        Args:
            request: what to say and how, or the text alone, with `options` as in `resolve`.
            chunks: what to say, as it arrives; the text of the request stands for its beginning.
            narrator: a voice that has spoken before.
            whole: the samples of `speak`, to the last bit, in flat memory. The first may come at the end.
            observer: is told about chunks, frames and, if it wants them, stages of the model.

        Raises:
            UsageError: the request cannot be right for this model.
        """
        resolved, account = self._resolved(request, options), Account()
        passages = None if chunks is None else numbered(chunks)
        audio = self._audio(resolved, account, observer, narrator, passages, whole=whole)
        return OmniStream(resolved, self.sample_rate, audio, account)

    def speak(
        self,
        request: Request,
        on_frame: Callable[[int], None] | None = None,
        *,
        observer: Observer | None = None,
        **options: Any,
    ) -> OmniSpeech:
        """Speak, and return the whole speech, as the official package makes it.

        Args:
            request: what to say and how, or the text alone, with `options` as in `resolve`.
            on_frame: called with the number of frames of the chunk that are found, after each step.
            observer: is told about chunks, frames and, if it wants them, stages of the model.

        Raises:
            UsageError: the request cannot be right for this model.
            EngineError: the device failed or ran out of memory.
        """
        resolved = self._resolved(request, options)
        watching = [*([observer] if observer else []), *([_FrameTeller(on_frame)] if on_frame else [])]
        account, passages = Account(codes=[]), self._passages(resolved)
        decoded = list(self._speaking(resolved, account, Observers(*watching)).decoded(passages))
        samples = finish(decoded, self.sample_rate, resolved.loudness, resolved.finishing)
        assert account.codes is not None
        return OmniSpeech(
            samples,
            self.sample_rate,
            np.stack(account.codes),
            tuple(passage.text for passage in passages),
            resolved.seed,
            account.stopwatch.timings(),
        )

    def dub(
        self,
        cues: Sequence[Cue],
        writer: Writer,
        request: OmniSpeechRequest | None = None,
        *,
        observer: Observer | None = None,
        **options: Any,
    ) -> Iterator[DubbedCue]:
        """Speak cues in their slots onto one timeline; yield what became of each once it is written.

        Args:
            cues: in order, without overlaps, as `core.text.subtitles` reads them; at least one.
            writer: takes the timeline, an audio sink for example.
            request: how to speak; its text is that of the cues. Or `options` as in `resolve`.
            observer: is told about cues, frames and, if it wants them, stages of the model.

        Raises:
            UsageError: the request cannot be right for this model, or sets a duration: cues have their own.
            OutputError: the writer cannot write.
        """
        text = "\n".join(cue.text for cue in cues)
        said = text if request is None else replace(request, text=text)
        resolved = self.resolve(said, **options)
        if resolved.length.fixed:
            raise UsageError("cues have durations of their own: a duration cannot be given besides")
        dubbing = Dubbing(self._equipment, resolved, self.narrator(resolved), observer or Observer())
        return dubbing.onto(cues, writer)

    def speak_many(
        self,
        requests: Iterable[Request],
        *,
        parallel: int = 8,
        observe: Callable[[int], Observer] | None = None,
        **options: Any,
    ) -> Speeches[Request, OmniSpeech]:
        """Return the speech of each request in turn: what `speak` says of each, to the last bit on a CPU.

        Args:
            requests: any number, taken when there is a place for the next one, by the thread that asks for speeches.
                Each is a request, or a text with `options` as in `resolve`.
            parallel: how many are spoken by turns, as `scheduler` has it.
            observe: is given the number of each request, counted from 1, and returns who watches it; observers are
                called by another thread.

        Returns:
            An iterator. Where a request cannot be spoken, it raises that in its turn, and can then go on with the next
            one. It is a context manager, too; left to itself, it lets go of everything at its end.

        Raises:
            UsageError: `parallel` is below 1.
        """
        frame_rate = self.frame_rate

        def complete(stream: SpeechStream[ResolvedOmniRequest], chunks: Iterable[AudioChunk]) -> OmniSpeech:
            return whole_speech(stream, chunks, chunks_of(stream.request, frame_rate))

        settings = {"whole": True, "keep_codes": True}
        return Speeches(
            self.scheduler(parallel), requests, complete, observe=observe, options=options, settings=settings
        )

    def scheduler(self, max_batch: int = 8) -> OmniScheduler:
        """Return a scheduler that speaks up to `max_batch` requests by turns, on a thread of its own.

        After each chunk of one the next one has its turn, so that a short text need not wait for the end of a long one.
        What each says is what `stream` says with the same seed, whoever else speaks; `submit` takes its options too,
        but for the chunks of a text that is still arriving. All of them together take as long as one after the other:
        a step of one is work for the whole device.

        Raises:
            UsageError: `max_batch` is below 1.
        """
        return Scheduler(self._task, max_batch)

    def decode(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the samples, float32 [frames * samples per frame], of codes [frames, codebooks].

        Raises:
            ValueError: the codes have another shape, or lie outside the codebooks.
        """
        return self._equipment.codec.decode(codes)

    def close(self) -> None:
        """Nothing is kept open beyond the files, which go with the last reference to the model."""

    def _resolved(self, request: Request, options: dict[str, Any]) -> ResolvedOmniRequest:
        if not isinstance(request, ResolvedOmniRequest):
            return self.resolve(request, **options)
        require_no_options(options, "a resolved request")
        return request

    def _task(
        self,
        request: Request,
        *,
        stream_frames: int | None = None,
        observer: Observer | None = None,
        narrator: Narrator | None = None,
        whole: bool = False,
        keep_codes: bool = False,
        **options: Any,
    ) -> OmniTask:
        """Return a speech that has not begun, for `Scheduler.submit`; its chunks are those of its text, not of
        `stream_frames`."""
        resolved = self._resolved(request, options)
        account = Account(codes=[] if keep_codes else None)
        audio = self._audio(resolved, account, observer, narrator, whole=whole)
        return Task(resolved, self.sample_rate, account, audio)

    def _audio(
        self,
        request: ResolvedOmniRequest,
        account: Account,
        observer: Observer | None,
        narrator: Narrator | None,
        passages: Iterable[Passage] | None = None,
        *,
        whole: bool,
    ) -> Generator[AudioChunk, None, None]:
        """Return what is heard of a request, of passages that are still to come or of its text."""
        if passages is None and (whole or request.length.fixed):
            passages = self._passages(request)
        elif passages is None:
            passages = self._short_passages(request)
        if narrator is None and not whole:
            narrator = self.narrator(request)
        speaking = self._speaking(request, account, observer or Observer(), narrator)
        return speaking.chunks(passages, whole=whole)

    def _speaking(
        self,
        request: ResolvedOmniRequest,
        account: Account,
        observer: Observer,
        narrator: Narrator | None = None,
    ) -> Speaking:
        narrator = narrator or Narrator(self._equipment, request)
        return Speaking(self._equipment, request, narrator, account, observer)

    def _passages(self, request: ResolvedOmniRequest) -> list[Passage]:
        texts = chunks_of(request, self.frame_rate)
        frames = request.length.frames if len(texts) == 1 else None
        return [Passage(number, len(texts), text, frames) for number, text in enumerate(texts, start=1)]

    def _short_passages(self, request: ResolvedOmniRequest) -> list[Passage]:
        """Cut a text for somebody who waits for its beginning."""
        chunks = StreamedChunks(request.chunking, request.length.speed)
        texts = list(chunks.all_of(split_sentences(request.text)))
        return [Passage(number, len(texts), text) for number, text in enumerate(texts, start=1)]


class _FrameTeller(Observer):
    """Tells a function how many frames are found."""

    def __init__(self, on_frame: Callable[[int], None]) -> None:
        self._on_frame = on_frame

    def frame(self, frames: int) -> None:
        """Hand it on."""
        self._on_frame(frames)


def _require_pair(base: OmniVoiceFile, codec: OmniVoiceCodecFile) -> None:
    """Check that the codes of the language model are those of the codec.

    Raises:
        ModelFileError: they are not.
    """
    if (base.codebooks, base.mask_code) != (codec.codebooks, codec.codebook_entries):
        raise ModelFileError(
            f"the model and the codec do not belong together: {base.codebooks} codebooks of {base.mask_code} codes"
            f" against {codec.codebooks} of {codec.codebook_entries}"
        )
