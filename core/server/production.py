"""One answer being made: a thread reads the speech, encodes it, and puts it where the event loop takes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from ..audio.time_stretch import Stretcher
from ..errors import GgttsError
from ..speech.stream import SpeechStream
from .encoding import EventEncoder, SpeechEncoder, done_event, open_encoder
from .outbox import Outbox, ReaderLeft
from .speech_calls import SpeechCall


class Speaks(Protocol):
    """What makes speech: a scheduler."""

    def submit(self, request: Any, *, stream_frames: int | None = None) -> SpeechStream[Any]:
        """Let a request be spoken."""


class Production:
    """A call being spoken into an outbox.

    Attributes:
        samples: made so far, before a change of speed.
        frames: of the speech.
        stop: why it ended.
        seconds: that it took from its beginning.
    """

    def __init__(
        self, call: SpeechCall, outbox: Outbox, sample_rate: int, *, whole: bool, stream_frames: int | None
    ) -> None:
        """`whole`: everything comes at the end. `stream_frames`: most frames of the speech made at once."""
        self._call = call
        self._outbox = outbox
        self._sample_rate = sample_rate
        self._whole = whole
        self._stream_frames = stream_frames
        self._lock = threading.Lock()
        self._stream: SpeechStream[Any] | None = None
        self._cancelled = False
        self.samples = 0
        self.frames = 0
        self.stop: str | None = None
        self.seconds = 0.0

    @property
    def audio_seconds(self) -> float:
        """Seconds of speech made so far."""
        return self.samples / self._sample_rate

    def run(self, scheduler: Speaks, done: Callable[[], None]) -> None:
        """Make all of it, in the thread that calls; `done` is called at its end, whatever that is."""
        begin, failure = time.perf_counter(), None
        try:
            self._make(scheduler)
        except ReaderLeft:
            pass
        except BaseException as error:  # whatever it is, it belongs to the client of this answer
            failure = error
        finally:
            self.seconds = time.perf_counter() - begin
            done()
            self._outbox.finish(failure)

    def cancel(self) -> None:
        """Stop as soon as possible: nobody wants the rest."""
        self._outbox.cancel()
        with self._lock:
            self._cancelled = True
            stream = self._stream
        if stream is not None:
            stream.close()

    def _make(self, scheduler: Speaks) -> None:
        stream = scheduler.submit(self._call.request, stream_frames=self._stream_frames)
        with self._lock:
            self._stream = stream
            cancelled = self._cancelled
        with stream:
            if cancelled:
                raise ReaderLeft
            encoder, stretcher = self._encoder(), Stretcher(self._call.stretch, self._sample_rate)
            for chunk in stream:
                self.samples += len(chunk.samples)
                self.frames = stream.frames
                self._outbox.put(encoder.write(stretcher.push(chunk.samples)))
            if not self.samples and not self._cancelled:
                raise GgttsError("the model ended before it said anything")
            self.frames, self.stop = stream.frames, stream.stop
            self._outbox.put(encoder.write(stretcher.finish()))
            self._outbox.put(encoder.close())
            if self._call.events:
                self._outbox.put(done_event(len(self._call.text), stream.frames))

    def _encoder(self) -> SpeechEncoder:
        kind = self._call.kind
        encoder = open_encoder(kind, self._sample_rate, whole=self._whole or not kind.streams)
        return EventEncoder(encoder) if self._call.events else encoder
