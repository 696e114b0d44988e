"""One piece of text being spoken: text to frames, frames to samples, each when it is asked for."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..formats.qwen import TalkerFile
from ..speech.observer import Observer
from ..speech.stream import Account, AudioChunk, LaterChunk, StopReason
from .cadence import Cadence
from .codec import CodecDecoder, DecoderSnapshot
from .codec_lines import CodecLine, CodecLines, Handed
from .content_cache import ContentCache
from .decoding import Decoding
from .frames import FrameSampler
from .generation import AnySession, Utterance
from .guard import Guard
from .long_text import Anchor, Piece, piece_seed
from .prompt import Prompt, PromptRequest, Reference
from .prompt_stage import Prompts
from .requests import ResolvedRequest
from .sessions import Sessions
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
    """The parts of a model that speaking takes; all requests share them.

    Attributes:
        lines: begins streams of the decoder, for speeches by themselves or for those of a batch.
    """

    file: TalkerFile
    sample_rate: int
    frame_rate: float
    prompts: Prompts
    sessions: Sessions
    decoder: CodecDecoder
    lines: CodecLines
    encoders: VoiceEncoders
    snapshots: ContentCache[DecoderSnapshot] = field(default_factory=lambda: ContentCache(SNAPSHOTS_KEPT))


class PieceSpeech:
    """A piece being spoken. Iterate over `frames` or over `parts`, once.

    Attributes:
        anchor: what it leaves to later pieces so that they sound alike: nothing until it has come to its end, nor if
            it was cut off, nor if that is not wanted.
        stop: why it ended; None as long as it goes on.
    """

    def __init__(
        self,
        equipment: Equipment,
        request: ResolvedRequest,
        piece: Piece,
        account: Account,
        observer: Observer,
        *,
        voice: Anchor | None = None,
        leaves_anchor: bool = False,
    ) -> None:
        """`voice` is what an earlier piece has left; `leaves_anchor` whether this one is to leave something."""
        self.anchor: Anchor | None = None
        self.stop: StopReason | None = None
        self._equipment = equipment
        self._request = request
        self._piece = piece
        self._account = account
        self._observer = observer
        self._voice = voice
        self._leaves_anchor = leaves_anchor
        self._noting = getattr(observer, "wants_stages", False)
        self._stopwatch = account.stopwatch
        self._frames = 0

    async def frames(self, session: AnySession) -> AsyncGenerator[Codes, None]:
        """Yield the codes [codebooks] of one frame after the other, and decode none but for an anchor."""
        codes: list[Codes] = []
        utterance = await self._utterance(session)
        async for frame in utterance:
            self._count(frame)
            codes.append(frame)
            yield frame
        self._end(utterance)
        if self._leaves_anchor and codes:
            await self._decode_for_anchor(np.stack(codes))

    async def parts(self, session: AnySession, cadence: Cadence) -> AsyncGenerator[tuple[int, Handed], None]:
        """Yield how many frames there are and their samples, batch by batch; see `Decoding.next`."""
        kept: list[tuple[Codes, FloatArray]] = []
        keeping = self._noting or self._leaves_anchor
        with await self._line(session) as line:
            apart = self._equipment.lines.apart and not keeping
            decoding = Decoding(line, cadence, self._stopwatch, apart=apart)

            def listen(codes: Codes) -> bool:
                self._count(codes)
                decoding.add(codes)
                return decoding.due

            utterance = await self._utterance(session)
            while not decoding.ended:
                if utterance.stop is None:
                    await utterance.go_on(listen)
                else:
                    self._end(utterance)
                    decoding.end()
                while decoding.due:
                    codes, handed = await decoding.next()
                    if keeping:  # the samples themselves belong to whoever hears them
                        kept.append((codes, handed.result().copy()))
                    yield len(codes), handed
            await decoding.finish()
            if kept:
                all_codes, all_samples = (np.concatenate(values) for values in zip(*kept, strict=True))
                await self._finish(all_codes, all_samples, line)

    async def chunks(self, cadence: Cadence) -> AsyncGenerator[LaterChunk, None]:
        """Yield the samples of the parts as chunks, with a session of its own."""
        with self._equipment.sessions.lend() as session:
            async with aclosing(self.parts(session, cadence)) as parts:
                async for frames, samples in parts:
                    yield LaterChunk(samples, partial(self._chunk, frames))

    def _chunk(self, frames: int, samples: FloatArray) -> AudioChunk:
        return AudioChunk(samples, frames, self._piece.number, self._piece.count)

    async def _finish(self, codes: Codes, samples: FloatArray, line: CodecLine) -> None:
        if self._noting:
            self._observer.stage("codes-full", codes)
            self._observer.stage("output-audio", samples)
        if self._leaves_anchor:
            await self._leave_anchor(codes, samples, line)

    async def _decode_for_anchor(self, codes: Codes) -> None:
        widest = self._equipment.decoder.widest
        with self._equipment.lines.line() as line:
            pieces = [
                await line.hand_over(codes[begin : begin + widest], awaited=True)
                for begin in range(0, len(codes), widest)
            ]
            await self._leave_anchor(codes, np.concatenate(pieces), line)

    async def _utterance(self, session: AnySession) -> Utterance:
        """Begin to speak."""
        request, piece = self._request, self._piece
        self._observer.piece(piece.number, piece.count)
        sampler = FrameSampler(
            self._equipment.file, request.talker, request.predictor, piece_seed(request.seed, piece.number)
        )
        return Utterance(
            session,
            await self._prompt(),
            sampler,
            request.max_frames,
            self._stopwatch,
            guard=Guard(piece.text, self._equipment.frame_rate) if request.guard else None,
            note=self._observer.stage if self._noting else None,
        )

    def _count(self, codes: Codes) -> None:
        """Tell of a frame [codebooks].

        Raises:
            Cancelled: nobody wants the rest.
        """
        self._frames += 1
        self._account.add(codes)
        self._observer.frame(self._frames)
        self._account.require_listener()

    def _end(self, utterance: Utterance) -> None:
        """Tell why there are no more frames."""
        assert utterance.stop is not None
        self.stop = utterance.stop
        self._account.end_piece(self.stop, last=self._piece.number == self._piece.count)
        if self.stop != "end_of_speech":
            logger.warning("%s", _cut_off(utterance, self._frames, self._piece))

    async def _prompt(self) -> Prompt:
        request, voice, anchor = self._request, self._request.voice, self._voice
        speaker: int | FloatArray | None = request.speaker_id
        reference: Reference | None = None
        if voice is not None:
            speaker = voice.embedding
            if voice.codes is not None and voice.text is not None:
                reference = Reference(voice.codes, voice.text)
        elif anchor is not None:
            speaker, reference = anchor.embedding, anchor.reference
        with self._stopwatch.measure("prompt"):
            prompt = await self._equipment.prompts.prompt(
                PromptRequest(
                    text=self._piece.text,
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

    async def _line(self, session: AnySession) -> CodecLine:
        """Begin to decode where the reference ends, as one recording that goes on; without one, at silence."""
        equipment, voice = self._equipment, self._request.voice
        if self._voice is not None:
            return equipment.lines.line(self._voice.decoder)
        if voice is None or voice.codes is None:
            return equipment.lines.line()
        return equipment.lines.line(await self._behind(voice.codes, session))

    async def _behind(self, codes: Codes, session: AnySession) -> DecoderSnapshot:
        """Return the codec's memory behind a reference, computed piece by piece unless it is known."""
        equipment, key = self._equipment, (codes.shape, codes.tobytes())
        widest = equipment.decoder.widest
        snapshot: DecoderSnapshot | None = None
        with equipment.lines.line() as line:
            for begin in range(0, len(codes), widest):
                await session.give_way()
                known = equipment.snapshots.find(key)
                if known is not None:
                    return known
                with self._stopwatch.measure("codec"):
                    piece = codes[begin : begin + widest]
                    snapshot = await line.prime(piece, last=begin + widest >= len(codes))
            if snapshot is None:  # there is no reference to speak of
                snapshot = await line.snapshot()
        made = snapshot
        return equipment.snapshots.get(key, lambda: made)

    async def _leave_anchor(self, codes: Codes, samples: FloatArray, line: CodecLine) -> None:
        """Become the voice of the next pieces, decoded by `line`, unless this one was cut off."""
        if self.stop != "end_of_speech":
            return
        with self._stopwatch.measure("prompt"):
            embedding = self._equipment.encoders.own_embedding(samples)
        self.anchor = Anchor(Reference(codes, self._piece.text), embedding, await line.snapshot())

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
