"""One request being spoken: text to pieces, pieces to frames, frames to samples, each when it is asked for."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..audio.joins import Joiner
from ..formats.qwen import TalkerFile
from ..speech.observer import Observer
from ..speech.stream import Account, AudioChunk
from .cadence import Cadence
from .codec import CodecDecoder, DecoderSnapshot, DecoderStream
from .content_cache import ContentCache
from .generation import FrameSampler, Session, Utterance
from .guard import Guard
from .long_text import Anchor, Piece, piece_seed, pieces_of
from .prompt import Prompt, PromptBuilder, PromptRequest, Reference
from .requests import ResolvedRequest
from .sessions import SessionPool
from .voice_encoders import VoiceEncoders

FloatArray = NDArray[np.float32]
Codes = NDArray[np.int32]

logger = logging.getLogger(__name__)

SNAPSHOTS_KEPT = 4
"""How many references' decoder memories are remembered, some 20 MB each with a full-size codec."""

_CUT_OFF = {
    "max_frames": "speech was cut off at the frame limit",
    "context": "speech was cut off where the context of the model ends",
    "runaway": "speech did not end by itself and was ended",
}


@dataclass(frozen=True)
class Equipment:
    """The parts of a model that speaking takes; all requests share them."""

    file: TalkerFile
    sample_rate: int
    frame_rate: float
    prompts: PromptBuilder
    sessions: SessionPool
    decoder: CodecDecoder
    encoders: VoiceEncoders
    snapshots: ContentCache[DecoderSnapshot] = field(default_factory=lambda: ContentCache(SNAPSHOTS_KEPT))


class Speaking:
    """One request being spoken. Iterate over `frames` or over `chunks`, once."""

    def __init__(
        self, equipment: Equipment, request: ResolvedRequest, account: Account, observer: Observer
    ) -> None:
        self._equipment = equipment
        self._request = request
        self._account = account
        self._observer = observer
        self._noting = getattr(observer, "wants_stages", False)
        self._stopwatch = account.stopwatch
        self._anchored = not request.own_voice
        self._pieces = pieces_of(request.text, request.words, anchored=self._anchored)
        self._anchor: Anchor | None = None
        self._complete = False  # whether the piece before came to its end

    def frames(self) -> Generator[Codes, None, None]:
        """Yield the codes [codebooks] of one frame after the other."""
        with self._equipment.sessions.lend() as session:
            for piece in self._pieces:
                codes: list[Codes] = []
                for frame in self._utter(session, piece):
                    codes.append(frame)
                    yield frame
                if self._wants_anchor(piece):
                    with self._equipment.decoder.stream() as stream:
                        self._keep_anchor(piece, np.stack(codes), stream(np.stack(codes)), stream)

    def chunks(self, cadence: Cadence) -> Generator[AudioChunk, None, None]:
        """Yield the audio, a chunk for each batch of frames; what brings excess silence only goes with the next one."""
        joiner, frames = Joiner(self._equipment.sample_rate), 0
        waiting: list[FloatArray] = []
        self._note_voice()
        with self._equipment.sessions.lend() as session:
            for piece in self._pieces:
                joiner.begin(piece.gap)
                with closing(self._speak(session, piece, cadence, joiner)) as parts:
                    for count, samples in parts:
                        waiting.append(samples)
                        frames += count
                        if count and any(map(len, waiting)):
                            self._stopwatch.mark("first_audio")
                            yield AudioChunk(np.concatenate(waiting), frames, piece.number, piece.count)
                            waiting, frames = [], 0
        if any(map(len, waiting)):
            yield AudioChunk(np.concatenate(waiting), frames, len(self._pieces), len(self._pieces))

    def _speak(
        self, session: Session, piece: Piece, cadence: Cadence, joiner: Joiner
    ) -> Generator[tuple[int, FloatArray], None, None]:
        """Yield (frames, samples to be heard) of a piece, batch by batch, and what its end leaves."""
        kept: list[tuple[Codes, FloatArray]] = []
        keeping = self._noting or self._wants_anchor(piece)
        with self._decoder_stream() as stream:
            for codes in cadence.batches(self._utter(session, piece)):
                with self._stopwatch.measure("codec"):
                    samples = stream(codes)
                if keeping:
                    kept.append((codes, samples))
                yield len(codes), joiner.feed(samples)
            yield 0, joiner.end()
            if keeping:
                codes = np.concatenate([codes for codes, _ in kept])
                self._finish(piece, codes, np.concatenate([samples for _, samples in kept]), stream)

    def _finish(self, piece: Piece, codes: Codes, samples: FloatArray, stream: DecoderStream) -> None:
        if self._noting:
            self._observer.stage("codes-full", codes)
            self._observer.stage("output-audio", samples)
        if self._wants_anchor(piece):
            self._keep_anchor(piece, codes, samples, stream)

    def _utter(self, session: Session, piece: Piece) -> Iterator[Codes]:
        """Yield the codes [codebooks] of the frames of a piece."""
        request, account = self._request, self._account
        self._observer.piece(piece.number, piece.count)
        utterance = Utterance(
            session,
            self._prompt(piece),
            FrameSampler(
                self._equipment.file,
                request.talker,
                request.predictor,
                piece_seed(request.seed, piece.number),
            ),
            request.max_frames,
            self._stopwatch,
            guard=Guard(piece.text, self._equipment.frame_rate) if request.guard else None,
            note=self._observer.stage if self._noting else None,
        )
        count = 0
        for count, codes in enumerate(utterance, start=1):
            account.add(codes)
            self._observer.frame(count)
            account.require_listener()
            yield codes
        assert utterance.stop is not None
        account.end_piece(utterance.stop, last=piece.number == piece.count)
        self._complete = utterance.stop == "end_of_speech"
        if not self._complete:
            logger.warning("%s", _cut_off(utterance, count, piece))

    def _prompt(self, piece: Piece) -> Prompt:
        request, voice, anchor = self._request, self._request.voice, self._anchor
        speaker: int | FloatArray | None = request.speaker_id
        reference: Reference | None = None
        if voice is not None:
            speaker = voice.embedding
            if voice.codes is not None and voice.text is not None:
                reference = Reference(voice.codes, voice.text)
        elif anchor is not None:
            speaker, reference = anchor.embedding, anchor.reference
        with self._stopwatch.measure("prompt"):
            prompt = self._equipment.prompts.build(
                PromptRequest(
                    text=piece.text,
                    language=request.language_id,
                    speaker=speaker,
                    instruct=request.instruct,
                    reference=reference,
                    streamed_text=request.streamed_text,
                )
            )
        if self._noting:
            self._note_prompt(prompt)
        return prompt

    def _decoder_stream(self) -> DecoderStream:
        """Begin to decode where the reference ends, as one recording that goes on; without one, at silence."""
        equipment, voice = self._equipment, self._request.voice
        if self._anchor is not None:
            return equipment.decoder.stream(self._anchor.decoder)
        if voice is None or voice.codes is None:
            return equipment.decoder.stream()
        codes = voice.codes
        with self._stopwatch.measure("codec"):
            snapshot = equipment.snapshots.get((codes.shape, codes.tobytes()), lambda: self._primed(codes))
        return equipment.decoder.stream(snapshot)

    def _primed(self, codes: Codes) -> DecoderSnapshot:
        with self._equipment.decoder.stream() as stream:
            stream.prime(codes)
            return stream.snapshot()

    def _wants_anchor(self, piece: Piece) -> bool:
        """Tell whether later pieces learn their voice from this one: no other has come to its end before."""
        return self._anchored and self._anchor is None and piece.number < piece.count

    def _keep_anchor(self, piece: Piece, codes: Codes, samples: FloatArray, stream: DecoderStream) -> None:
        """Remember a piece, decoded by `stream`, as the voice of the next ones, unless it was cut off."""
        if not self._complete:
            return
        with self._stopwatch.measure("prompt"):
            embedding = self._equipment.encoders.own_embedding(samples)
        self._anchor = Anchor(Reference(codes, piece.text), embedding, stream.snapshot())

    def _note_voice(self) -> None:
        voice = self._request.voice
        if not self._noting or voice is None:
            return
        self._observer.stage("spk-emb", voice.embedding)
        if voice.codes is not None:
            self._observer.stage("ref-codes", voice.codes.T)

    def _note_prompt(self, prompt: Prompt) -> None:
        note = self._observer.stage
        note("prompt-ids", prompt.tokens)
        if len(prompt.instruct_tokens):
            note("instruct-ids", prompt.instruct_tokens)
        if len(prompt.reference_tokens):
            note("ref-ids", prompt.reference_tokens)
        note("talker-input-embed", prompt.rows)
        note("trailing-text-hidden", prompt.trailing)
        note("tts-pad-embed", prompt.padding)


def _cut_off(utterance: Utterance, frames: int, piece: Piece) -> str:
    """Say why an utterance came to no natural end."""
    assert utterance.stop is not None
    reason = f", {utterance.runaway}" if utterance.runaway else ""
    text = piece.text if len(piece.text) <= 60 else f"{piece.text[:57]}..."
    return f"{_CUT_OFF[utterance.stop]} after {frames} frames{reason}: {text!r}"
