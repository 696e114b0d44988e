"""OmniVoice from end to end: a request in, codes, speech or a dubbed timeline out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..audio.audio import Audio
from ..audio.timeline import Writer
from ..engine import Engine, Weights
from ..errors import ModelFileError, UsageError
from ..formats import rvq
from ..formats.omnivoice import OmniVoiceCodecFile, OmniVoiceFile
from ..formats.voice_notes import read_notes
from ..nn.config import USUAL, Arithmetic
from ..speech.observer import Observer, Observers
from ..speech.stream import Account, AudioChunk
from ..speech.timings import Timings
from ..text.sentences import split_sentences
from ..text.subtitles import Cue
from ..text.tokenizer import TextTokenizer
from .backbone import Backbone
from .chunks import StreamedChunks, chunks_of
from .codec import OmniVoiceCodec
from .dubbing import DubbedCue, Dubbing
from .dump import reference_stages
from .finishing import Finishing, finish
from .languages import languages
from .maskgit import MaskGit, MaskGitOptions
from .narrator import ANCHOR_SECONDS, Equipment, Narrator
from .reference import load_reference, prepare_reference, prepare_transcript
from .requests import (
    Chunking,
    OmniSpeechRequest,
    ResolvedOmniRequest,
    check_voice,
    omni_request,
    resolve_omni_request,
)
from .stream import OmniStream, Passage, Speaking, numbered
from .voice import Voice

__all__ = [
    "AudioChunk",
    "Chunking",
    "Cue",
    "DubbedCue",
    "Finishing",
    "MaskGitOptions",
    "Narrator",
    "Observer",
    "OmniSpeech",
    "OmniSpeechRequest",
    "OmniStream",
    "OmniVoice",
    "ResolvedOmniRequest",
    "Voice",
]

logger = logging.getLogger(__name__)

Request: TypeAlias = "str | OmniSpeechRequest | ResolvedOmniRequest"
Recording: TypeAlias = "str | PathLike[str] | tuple[NDArray[Any], int]"
"""An audio file, or samples ([n] or [n, channels], full scale 1) and their rate in Hz."""


@dataclass(frozen=True)
class OmniSpeech(Audio):
    """What was spoken.

    Attributes:
        codes: int32 [frames, codebooks], of all chunks one behind the other.
        chunks: the texts of the chunks.
        seed: repeats this speech when given again.
        timings: where the time went; the talker is the language model here.
    """

    codes: NDArray[np.int32]
    chunks: tuple[str, ...]
    seed: int
    timings: Timings

    @property
    def frames(self) -> int:
        """How many frames of codes it was made of."""
        return len(self.codes)


class OmniVoice:
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
    ) -> Voice:
        """Return the voice of a recording.

        Args:
            recording: an audio file, or (samples, rate).
            text: what is said in it, word for word.
            preprocess: cut silence out of it, and end the text with a punctuation mark.
            observer: is given the stages of the encoder, if it wants them.

        Raises:
            AudioFileError: the recording cannot be read, or is too short or silent.
            UsageError: the text is blank.
        """
        source = recording if isinstance(recording, tuple) else Path(recording)
        name = "the recording" if isinstance(source, tuple) else str(source)
        samples = load_reference(source, self.sample_rate, name=name)
        prepared = prepare_reference(
            samples, self.sample_rate, self.codec_info.frame_samples, cut_silence=preprocess, name=name
        )
        codes = self._equipment.codec.encode(prepared.samples)
        if observer is not None and observer.wants_stages:
            margin = self.codec_info.semantic_frame_samples // 2
            stages = reference_stages(self._equipment.codec.encode_stages(prepared.samples), margin)
            for stage, values in (stages | {"ref-audio-codes": codes.T}).items():
                observer.stage(stage, values)
        return Voice(codes, prepare_transcript(text, preprocess=preprocess), prepared.rms)

    def stored_voice(
        self, path: str | PathLike[str], text: str | None = None, *, preprocess: bool = True
    ) -> Voice:
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
        path = Path(path)
        notes = read_notes(path)
        if text is None:
            text = notes.text
        if text is None:
            raise UsageError(f"{path} needs --ref-text: a text file with what the recording says")
        if notes.model is not None and notes.model != self.codec_info.name:
            logger.warning(
                "%s was made by the codec of %s, not of %s", path, notes.model, self.codec_info.name
            )
        codes = rvq.read(path, self.info.codebooks, self.codec_info.codebook_entries)
        voice = Voice(codes, prepare_transcript(text, preprocess=preprocess), notes.rms)
        check_voice(voice, self.info)
        return voice

    def narrator(self, request: str | OmniSpeechRequest | ResolvedOmniRequest, **options: Any) -> Narrator:
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
        resolved = self._resolved(request, options)
        account, observer = Account(), observer or Observer()
        if chunks is not None:
            passages: Iterable[Passage] = numbered(chunks)
        elif whole or resolved.length.fixed:
            passages = self._passages(resolved)
        else:
            passages = self._short_passages(resolved)
        if narrator is None and not whole:
            narrator = self.narrator(resolved)
        speaking = self._speaking(resolved, account, observer, narrator)
        return OmniStream(resolved, self.sample_rate, speaking.chunks(passages, whole=whole), account)

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

    def decode(self, codes: NDArray[np.integer]) -> NDArray[np.float32]:
        """Return the samples, float32 [frames * samples per frame], of codes [frames, codebooks].

        Raises:
            ValueError: the codes have another shape, or lie outside the codebooks.
        """
        return self._equipment.codec.decode(codes)

    def close(self) -> None:
        """Nothing is kept open beyond the files, which go with the last reference to the model."""

    def __enter__(self) -> OmniVoice:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _resolved(self, request: Request, options: dict[str, Any]) -> ResolvedOmniRequest:
        if not isinstance(request, ResolvedOmniRequest):
            return self.resolve(request, **options)
        if options:
            raise TypeError(f"a resolved request is complete: {', '.join(options)} cannot be given besides")
        return request

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
