"""One request being spoken: text to pieces, and the samples of the pieces as they are to be heard."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..audio.joins import Joiner
from ..speech.observer import Observer
from ..speech.stream import Account, AudioChunk, Chunk, LaterChunk, Samples
from ..speech.timings import Stopwatch
from .cadence import Cadence
from .codec_lines import Done
from .long_text import Anchor, Piece, pieces_of
from .piece_speech import Equipment, PieceSpeech
from .requests import ResolvedRequest

FloatArray = NDArray[np.float32]
Codes = NDArray[np.int32]


def pieces_of_request(request: ResolvedRequest) -> list[Piece]:
    """Return the pieces that a request is spoken in."""
    return pieces_of(request.text, request.words, anchored=not request.own_voice)


class Speaking:
    """One request being spoken, piece by piece. Iterate over `frames` or over `chunks`, once.

    Both wait for what the sessions of the equipment wait for: nothing, unless they belong to a batch.
    """

    def __init__(
        self, equipment: Equipment, request: ResolvedRequest, account: Account, observer: Observer
    ) -> None:
        self._equipment = equipment
        self._request = request
        self._account = account
        self._observer = observer
        self._anchored = not request.own_voice
        self._pieces = pieces_of_request(request)
        self._anchor: Anchor | None = None

    async def frames(self) -> AsyncGenerator[Codes, None]:
        """Yield the codes [codebooks] of one frame after the other."""
        with self._equipment.sessions.lend() as session:
            for piece in self._pieces:
                speech = self._speech(piece)
                async with aclosing(speech.frames(session)) as frames:
                    async for frame in frames:
                        yield frame
                self._anchor = self._anchor or speech.anchor

    async def chunks(self, cadence: Cadence) -> AsyncGenerator[Chunk, None]:
        """Yield the audio, a chunk for each batch of frames."""
        chunks = JoinedChunks(self._equipment.sample_rate, self._account.stopwatch)
        self._note_voice()
        with self._equipment.sessions.lend() as session:
            for piece in self._pieces:
                speech = self._speech(piece)
                chunks.begin(piece)
                async with aclosing(speech.parts(session, cadence)) as parts:
                    async for frames, samples in parts:
                        chunk = self._passed_on(chunks.add(frames, samples))
                        if chunk is not None:
                            yield chunk
                chunks.end()
                self._anchor = self._anchor or speech.anchor
        rest = self._passed_on(chunks.rest())
        if rest is not None:
            yield rest

    def _passed_on(self, chunk: LaterChunk) -> Chunk | None:
        """Leave a chunk to its reader where the codec works apart; else there is nothing to wait for."""
        return chunk if self._equipment.lines.apart else chunk.finish()

    def _speech(self, piece: Piece) -> PieceSpeech:
        """Return a piece to be spoken in the voice of the first that came to its end before, if it needs one."""
        return PieceSpeech(
            self._equipment,
            self._request,
            piece,
            self._account,
            self._observer,
            voice=self._anchor,
            leaves_anchor=self._anchored and self._anchor is None and piece.number < piece.count,
        )

    def _note_voice(self) -> None:
        voice = self._request.voice
        if voice is None or not getattr(self._observer, "wants_stages", False):
            return
        self._observer.stage("spk-emb", voice.embedding)
        if voice.codes is not None:
            self._observer.stage("ref-codes", voice.codes.T)


class JoinedChunks:
    """Puts the samples of pieces one behind the other; what brings excess silence only goes with the next chunk.

    Nothing is done before the chunks are finished, in their order, perhaps by another thread.
    """

    def __init__(self, sample_rate: int, stopwatch: Stopwatch) -> None:
        """`stopwatch` is told of the first audio."""
        self._joiner = Joiner(sample_rate)
        self._stopwatch = stopwatch
        self._planned: list[Callable[[], None]] = []
        self._piece: Piece | None = None
        self._waiting: list[FloatArray] = []
        self._frames = 0

    def begin(self, piece: Piece) -> None:
        """Begin the next piece."""
        self._planned.append(partial(self._begin, piece))

    def add(self, frames: int, samples: Samples) -> LaterChunk:
        """Take the samples of some frames of the piece; return what can be heard by then."""
        planned, self._planned = self._planned, []
        return LaterChunk(samples, partial(self._joined, planned, frames))

    def end(self) -> None:
        """End the piece."""
        self._planned.append(self._end)

    def rest(self) -> LaterChunk:
        """Return what waits to be heard."""
        return self.add(0, Done(np.zeros(0, np.float32)))

    def _begin(self, piece: Piece) -> None:
        self._piece = piece
        self._joiner.begin(piece.gap)

    def _end(self) -> None:
        self._wait(self._joiner.end())

    def _joined(
        self, planned: list[Callable[[], None]], frames: int, samples: FloatArray
    ) -> AudioChunk | None:
        for step in planned:
            step()
        self._wait(self._joiner.feed(samples))
        self._frames += frames
        waiting = self._waiting
        if self._piece is None or not waiting:
            return None
        heard = waiting[0] if len(waiting) == 1 else np.concatenate(waiting)
        chunk = AudioChunk(heard, self._frames, self._piece.number, self._piece.count)
        self._waiting, self._frames = [], 0
        self._stopwatch.mark("first_audio")
        return chunk

    def _wait(self, samples: FloatArray) -> None:
        if len(samples):
            self._waiting.append(samples)
