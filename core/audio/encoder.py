"""Compressed audio through libsndfile: into a file, or onto a pipe where nobody can go back."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from . import wav
from .formats import AudioFormat

_ENCODER_BLOCK = 1 << 14
"""Samples handed to libsndfile at once; its Vorbis encoder needs stack in proportion."""
_SET_PAGE_LATENCY = 0x1302
_PAGE_MILLISECONDS = 100.0


class _Target:
    """What libsndfile writes into: a stream from where it stands, or one that only goes forward.

    libsndfile goes back to correct its headers. Where that is impossible the correction is dropped: every container
    here can be played without it. It also swallows exceptions, so they are kept for `check`.
    """

    def __init__(self, stream: BinaryIO, *, correctable: bool):
        self._stream = stream
        self._correctable = correctable
        self._start = stream.tell() if correctable else 0
        self._position = 0
        self._end = 0
        self._failure: BaseException | None = None

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        self._position = origin + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def write(self, data: bytes) -> int:
        """Return how much was written: all, or nothing after a failure."""
        try:
            if self._correctable:
                self._stream.seek(self._start + self._position)
            if self._correctable or self._position == self._end:
                self._stream.write(data)
        except BaseException as failure:  # a Ctrl-C that arrives here would be lost as well
            self._failure = self._failure or failure
            return 0
        self._position += len(data)
        self._end = max(self._end, self._position)
        return len(data)

    def check(self) -> None:
        """Raise what went wrong since the last time."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def finish(self) -> None:
        """Leave the stream at the end of what was written."""
        if self._correctable:
            self._stream.seek(self._start + self._end)


class Encoder:
    """A libsndfile encoder of mono samples.

    Every method raises what the stream raises (`OSError`), and `soundfile.LibsndfileError` where the encoder fails.
    """

    def __init__(
        self, stream: BinaryIO, audio_format: AudioFormat, sample_rate: int, *, correctable: bool = True
    ):
        """Begin; `correctable` says that the stream can go back and rewrite headers."""
        # Loading libsndfile takes time that WAV output need not spend.
        import soundfile

        self._target = _Target(stream, correctable=correctable)
        with self._failures():
            self._sound = soundfile.SoundFile(
                self._target,
                "w",
                samplerate=sample_rate,
                channels=1,
                format=audio_format.library_format,
                subtype=audio_format.library_subtype,
                **audio_format.encoder_options,
            )
        if not correctable:
            _send_soon(self._sound)

    def write(self, samples: NDArray[np.floating]) -> None:
        """Append samples [n], clipped at full scale."""
        clean = np.clip(wav.finite(samples), -1.0, 1.0)
        for start in range(0, clean.size, _ENCODER_BLOCK):
            with self._failures():
                self._sound.write(clean[start : start + _ENCODER_BLOCK])

    def close(self) -> None:
        """Write the rest, and correct the headers where that is possible; the stream stays open."""
        with self._failures():
            self._sound.close()
        self._target.finish()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise what happened in the stream rather than what libsndfile makes of it."""
        try:
            yield
        finally:
            self._target.check()


def _send_soon(sound: Any) -> None:
    """Have Ogg Opus sent in pages of a tenth of a second: somebody listens, and by default they take a second.

    soundfile has no name for that command of libsndfile (SFC_SET_OGG_PAGE_LATENCY_MS), and versions of either without
    it keep their long pages. Other formats do not know it.
    """
    import soundfile

    with suppress(AttributeError, TypeError):
        library, values = soundfile._snd, soundfile._ffi
        milliseconds = values.new("double *", _PAGE_MILLISECONDS)
        library.sf_command(sound._file, _SET_PAGE_LATENCY, milliseconds, values.sizeof("double"))


def is_rewritable_file(stream: BinaryIO) -> bool:
    """Tell whether a stream is a file in which one can go back and write: not a pipe, not one that only grows."""
    try:
        import fcntl

        descriptor = stream.fileno()
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return regular and not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
    except (ImportError, OSError):  # Windows; a stream without a file
        return False
