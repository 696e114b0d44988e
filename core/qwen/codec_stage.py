"""The codec as a stage of its own: what speeches ask of it is computed together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..speech.calls import Call, Stage
from .cadence import STREAM_FRAMES
from .codec import CodecBatch, DecoderSnapshot
from .codec.batch import BatchStream

FloatArray = NDArray[np.float32]
Codes = NDArray[np.int32]


class Place:
    """A stream of a batch. It begins when something is first asked of it, by the thread that computes."""

    def __init__(self, snapshot: DecoderSnapshot | None) -> None:
        self._snapshot = snapshot
        self._stream: BatchStream | None = None

    def stream(self, batch: CodecBatch) -> BatchStream:
        """Return the stream."""
        if self._stream is None:
            self._stream, self._snapshot = batch.stream(self._snapshot), None
        return self._stream

    def close(self) -> None:
        """End it. Closing twice is harmless."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


@dataclass(frozen=True, eq=False)
class Decode:
    """Asks for the samples of a stream's next codes [frames, codebooks]."""

    place: Place
    codes: Codes


@dataclass(frozen=True, eq=False)
class Prime:
    """Lets a stream go on behind codes [frames, codebooks] without samples; `last` asks where it stands then."""

    place: Place
    codes: Codes
    last: bool


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Asks where a stream stands."""

    place: Place


@dataclass(frozen=True, eq=False)
class Forget:
    """Ends a stream."""

    place: Place


CodecWork: TypeAlias = "Decode | Prime | Snapshot | Forget"
CodecAnswer: TypeAlias = "FloatArray | DecoderSnapshot | None"


class CodecStage(Stage[CodecWork, CodecAnswer]):
    """Computes for many streams, for each in the order in which it was asked.

    Wide pieces take so long that those who wait for narrow ones would miss them: few are computed in one go.
    """

    def __init__(self, batch: CodecBatch, wide_together: int) -> None:
        """`wide_together` is how many pieces of more than STREAM_FRAMES frames are computed at once, at most."""
        self.batch = batch
        self._wide_together = wide_together

    def pick(self, waiting: Sequence[Call[CodecWork, CodecAnswer]]) -> list[Call[CodecWork, CodecAnswer]]:
        """Return what is next of each stream, and of wide pieces the first ones only."""
        picked: list[Call[CodecWork, CodecAnswer]] = []
        seen: set[int] = set()
        wide = 0
        for call in waiting:
            stream = id(call.argument.place)
            if stream in seen:
                continue
            seen.add(stream)
            wide += is_wide(call.argument)
            if wide <= self._wide_together or not is_wide(call.argument):
                picked.append(call)
        return picked

    def run(self, arguments: Sequence[CodecWork]) -> list[CodecAnswer | Exception]:
        """Answer in order; no stream is asked for twice."""
        answers: list[CodecAnswer | Exception] = [None] * len(arguments)
        decoded = [(place, asked) for place, asked in enumerate(arguments) if isinstance(asked, Decode)]
        if decoded:
            streams = [asked.place.stream(self.batch) for _, asked in decoded]
            found = self.batch.decode(streams, [asked.codes for _, asked in decoded])
            for (place, _), samples in zip(decoded, found, strict=True):
                answers[place] = samples
        for place, asked in enumerate(arguments):
            if not isinstance(asked, Decode):
                answers[place] = self._answer(asked)
        return answers

    def _answer(self, asked: CodecWork) -> CodecAnswer | Exception:
        try:
            if isinstance(asked, Forget):
                asked.place.close()
                return None
            stream = asked.place.stream(self.batch)
            if isinstance(asked, Prime):
                stream.prime(asked.codes)
            return None if isinstance(asked, Prime) and not asked.last else stream.snapshot()
        except Exception as error:
            return error


def is_wide(asked: CodecWork) -> bool:
    """Tell whether it takes long."""
    return isinstance(asked, Decode | Prime) and len(asked.codes) > STREAM_FRAMES
