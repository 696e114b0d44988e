"""One long text whose pieces are spoken several at a time.

In the voice of the request all pieces can be. A voice that the model makes up is known when a first piece has come to
its end, and so the others are spoken together from there on. The samples are those of one piece after the other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ..speech.ahead import Ahead
from ..speech.lockstep import Task
from ..speech.observer import Observer
from ..speech.scheduler import ScheduledStream, Scheduler
from ..speech.stream import Account, AudioChunk, LaterChunk, finished
from .cadence import Cadence
from .codec_lines import Done
from .long_text import Anchor, Piece
from .piece_speech import Equipment, PieceSpeech
from .requests import ResolvedRequest
from .speaking import JoinedChunks, pieces_of_request


@dataclass(frozen=True)
class PieceStream:
    """A piece on its way."""

    piece: Piece
    speech: PieceSpeech
    stream: ScheduledStream[ResolvedRequest]


class LockstepSpeaking:
    """One request being spoken, several pieces at a time. Iterate over `chunks`, once."""

    def __init__(
        self,
        equipment: Equipment,
        scheduler: Scheduler[Any, ResolvedRequest],
        request: ResolvedRequest,
        account: Account,
        observer: Observer,
    ) -> None:
        """`equipment` is that of the batch which `scheduler` runs; it serves this request alone."""
        self._equipment = equipment
        self._scheduler = scheduler
        self._request = request
        self._account = account
        self._observer = observer

    def chunks(self, most_frames: int | None) -> Generator[AudioChunk, None, None]:
        """Yield the audio, a chunk for each batch of frames, of `most_frames` at most."""
        yield from finished(self._joined(most_frames))

    def _joined(self, most_frames: int | None) -> Generator[LaterChunk, None, None]:
        joined = JoinedChunks(self._equipment.sample_rate, self._account.stopwatch)
        with self._scheduler:
            for spoken, parts in self._in_order(most_frames):
                joined.begin(spoken.piece)
                for part in self._noted(spoken, parts):
                    yield joined.add(part.frames, Done(part.samples))
                joined.end()
        yield joined.rest()

    def _in_order(self, most_frames: int | None) -> Iterator[tuple[PieceStream, Iterable[AudioChunk]]]:
        """Yield the pieces in order with their chunks, and begin them before their turn where their voice is known."""
        pieces, anchor = pieces_of_request(self._request), None
        first = 0
        while first < len(pieces) and anchor is None and not self._request.own_voice:
            spoken = self._begun(pieces[first], None, most_frames)
            yield spoken, spoken.stream
            anchor, first = spoken.speech.anchor, first + 1
        begun: list[PieceStream] = []

        def begin(piece: Piece) -> ScheduledStream[ResolvedRequest]:
            begun.append(self._begun(piece, anchor, most_frames))
            return begun[-1].stream

        ahead = Ahead(self._scheduler, pieces[first:], begin)
        while (stream := ahead.next()) is not None:
            yield begun.pop(0), ahead.chunks(stream)

    def _begun(self, piece: Piece, anchor: Anchor | None, most_frames: int | None) -> PieceStream:
        # Closing the whole speech ends its pieces with the next step of the batch.
        account = Account(codes=[], cancelled=self._account.cancelled)
        leaves_anchor = anchor is None and not self._request.own_voice and piece.number < piece.count
        speech = PieceSpeech(
            self._equipment,
            self._request,
            piece,
            account,
            Observer(),
            voice=anchor,
            leaves_anchor=leaves_anchor,
        )
        chunks = speech.chunks(Cadence.of_batch(most_frames, account))
        task = Task(self._request, self._equipment.sample_rate, account, chunks)
        return PieceStream(piece, speech, self._scheduler.add(task, ahead=None))

    def _noted(self, spoken: PieceStream, chunks: Iterable[AudioChunk]) -> Iterator[AudioChunk]:
        """Hand on the chunks of a piece, and tell of its frames as if they were made now."""
        piece, made = spoken.piece, spoken.stream.account.codes
        assert made is not None
        self._observer.piece(piece.number, piece.count)
        frames = 0
        for chunk in chunks:
            for codes in made[frames : frames + chunk.frames]:
                frames += 1
                self._account.stopwatch.mark("first_frame")
                self._account.add(codes)
                self._observer.frame(frames)
                self._account.require_listener()
            yield chunk
        self._account.require_listener()
        assert spoken.speech.stop is not None
        self._account.end_piece(spoken.speech.stop, last=piece.number == piece.count)
