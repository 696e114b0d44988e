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

    @property
    def begun(self) -> bool:
        """Whether something was asked of it."""
        return self._stream is not None

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
CodecCall: TypeAlias = "Call[CodecWork, CodecAnswer]"


class CodecStage(Stage[CodecWork, CodecAnswer]):
    """Computes for many streams, for each in the order in which it was asked.

    In a step of a scheduler, all that waits is computed, but for wide pieces: those take so long that others would miss
    the step, and there is one at a time. A thread of its own takes what one run computes, so that it can be heard, and
    the beginnings of streams before all else: somebody waits in silence for these.
    """

    def __init__(self, batch: CodecBatch, *, beside: bool) -> None:
        """`beside`: on a thread of its own."""
        self.batch = batch
        self._beside = beside

    def pick(self, waiting: Sequence[CodecCall]) -> list[CodecCall]:
        """Return some of what is next of each stream."""
        firsts: dict[int, CodecCall] = {}
        for call in waiting:
            firsts.setdefault(id(call.argument.place), call)
        calls = list(firsts.values())
        if self._beside:
            return self._one_run(calls)
        return _with_one_wide(calls)

    def _one_run(self, calls: Sequence[CodecCall]) -> list[CodecCall]:
        decoded = [call for call in calls if isinstance(call.argument, Decode)]
        others = _with_one_wide([call for call in calls if not isinstance(call.argument, Decode)])
        decoded = [call for call in decoded if not call.argument.place.begun] or decoded
        if not decoded:
            return others
        frames = frames_of(decoded[0])
        alike = [call for call in decoded if frames_of(call) == frames]
        return [*others, *alike[: self.batch.together(len(alike), frames)]]

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


def _with_one_wide(calls: Sequence[CodecCall]) -> list[CodecCall]:
    wide = [call for call in calls if is_wide(call.argument)]
    return [call for call in calls if call not in wide[1:]]


def frames_of(call: CodecCall) -> int:
    """Return how many frames a call is about."""
    return len(call.argument.codes) if isinstance(call.argument, Decode | Prime) else 0


def is_wide(asked: CodecWork) -> bool:
    """Tell whether it takes long."""
    return isinstance(asked, Decode | Prime) and len(asked.codes) > STREAM_FRAMES
