"""Speech while it is being made: passages of text to codes, codes to samples, samples as they are to be heard."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..speech.observer import Observer, Observers
from ..speech.stream import Account, AudioChunk, SpeechStream
from .finishing import finish_flat, finish_stream
from .narrator import Equipment, Narrator
from .requests import ResolvedOmniRequest

FloatArray = NDArray[np.float32]
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Passage:
    """A chunk of text.

    Attributes:
        number: counted from 1.
        count: how many there are, as far as is known.
        text: what to say.
        frames: how long it is; None as long as it usually takes in this voice.
    """

    number: int
    count: int
    text: str
    frames: int | None = None


def numbered(texts: Iterable[str]) -> Iterator[Passage]:
    """Yield passages of texts whose number is not known."""
    for number, text in enumerate(texts, start=1):
        yield Passage(number, number, text)


class OmniStream(SpeechStream[ResolvedOmniRequest]):
    """Audio chunks, each made when it is asked for. An iterator, and a context manager that closes it.

    Closed by another thread, or by an observer, it ends with the step of the model at hand.
    """


class Speaking:
    """One request being spoken, passage by passage. Iterate over `codes`, `decoded` or `chunks`, once."""

    def __init__(
        self,
        equipment: Equipment,
        request: ResolvedOmniRequest,
        narrator: Narrator,
        account: Account,
        observer: Observer,
    ) -> None:
        self._equipment = equipment
        self._request = request
        self._narrator = narrator
        self._account = account
        self._observer = Observers(observer, _Listening(account))
        self._passage: Passage | None = None

    def codes(self, passages: Iterable[Passage]) -> Iterator[Codes]:
        """Yield the codes [frames, codebooks] of one passage after the other."""
        account, observer = self._account, self._observer
        for passage in self._awaited(passages):
            self._passage = passage
            observer.piece(passage.number, passage.count)
            speed = self._request.length.speed
            frames = passage.frames or self._narrator.frames_of(passage.text, speed)
            codes = self._narrator.say(passage.text, frames, observer, account.stopwatch)
            for frame in codes:
                account.add(frame)
            yield codes
        account.end_piece("end_of_speech", last=True)

    def _awaited(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Hand passages on; the time that text takes to arrive is not that of its speech."""
        arriving, stopwatch = iter(passages), self._account.stopwatch
        while True:
            stopwatch.pause()
            passage = next(arriving, None)
            stopwatch.resume()
            if passage is None:
                return
            yield passage

    def decoded(self, passages: Iterable[Passage]) -> Iterator[FloatArray]:
        """Yield the samples [n] of one passage after the other as the codec makes them."""
        for codes in self.codes(passages):
            with self._account.stopwatch.measure("codec"):
                samples = np.concatenate(list(self._heeded(self._equipment.codec.pieces(codes))))
            if self._observer.wants_stages:
                self._observer.stage("output-audio", samples)
            yield samples

    def _heeded(self, pieces: Iterable[FloatArray]) -> Iterator[FloatArray]:
        """Hand pieces on as long as somebody wants them."""
        for piece in pieces:
            self._account.require_listener()
            yield piece

    def chunks(
        self, passages: Iterable[Passage], *, whole: bool = False
    ) -> Generator[AudioChunk, None, None]:
        """Yield what is heard: a chunk for each passage, and one for the end.

        `whole`: at the level of the whole, which may not be known before the end.
        """
        request, frames = self._request, 0
        finish = finish_flat if whole else finish_stream
        heard = finish(
            self.decoded(passages), self._equipment.sample_rate, request.loudness, request.finishing
        )
        for samples in heard:
            if len(samples) and self._passage is not None:
                self._account.stopwatch.mark("first_audio")
                before, frames = frames, self._account.frames
                yield AudioChunk(samples, frames - before, self._passage.number, self._passage.count)


class _Listening(Observer):
    """Ends the making of a speech at the step at hand when nobody wants the rest."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def frame(self, frames: int) -> None:
        """Raise Cancelled if nobody does."""
        self._account.require_listener()
