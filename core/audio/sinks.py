"""Where audio goes: a file that appears only when it is complete, or a pipe that is written as sound is made.

A sink is a context manager: leaving it normally completes the output, leaving it by an exception abandons it, so
that a failure leaves no partial file and no header without sound.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import OutputError
from ..output_files import PartFile, write_errors
from . import wav
from .encoder import Encoder, is_rewritable_file
from .formats import STANDARD_STREAM, AudioFormat, Container, refuse_nameless

_COPY_BLOCK = 1 << 22


class AudioSink(Protocol):
    """Takes mono samples; `close` completes the output, `abandon` undoes it."""

    def write(self, samples: NDArray[np.floating]) -> None:
        """Append samples [n], full scale 1.0. Raises `OutputError`, or `BrokenPipeError` when the reader left."""

    def close(self) -> None:
        """Complete the output. Nothing is created when nothing was written."""

    def abandon(self) -> None:
        """Give up: remove what can be removed."""

    def __enter__(self) -> AudioSink: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def check_output(output: str) -> None:
    """Make sure, without touching anything, that `output` can be written.

    Raises:
        UsageError: the name is empty.
        OutputError: the folder is missing or not writable, or the file is a folder or is write-protected.
    """
    if output == STANDARD_STREAM:
        return
    refuse_nameless(output)
    with _write_errors(repr(output)):
        _check_file(output)


def _check_file(output: str) -> None:
    target, folder = Path(output), Path(os.path.realpath(output)).parent
    if output.endswith(("/", os.sep)) or target.is_dir():
        raise OutputError(f"cannot write {output!r}: it names a folder, not a file")
    if target.exists():
        if not os.access(target, os.W_OK):
            raise OutputError(f"cannot write {output!r}: the file is write-protected")
        if not target.is_file():
            return
    shown = str(folder if target.is_symlink() else target.parent)
    if not folder.is_dir():
        raise OutputError(f"cannot write {output!r}: there is no folder {shown!r}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {output!r}: the folder {shown!r} is not writable")


def open_sink(
    output: str, audio_format: AudioFormat, sample_rate: int, *, stdout: Callable[[], BinaryIO]
) -> AudioSink:
    """Return the sink for a file name, a special file such as a named pipe, or "-" for what `stdout` returns.

    Raises:
        OutputError: see `check_output`.
    """
    check_output(output)
    if output == STANDARD_STREAM:
        return _pipe_sink("standard output", stdout(), audio_format, sample_rate)
    if os.path.exists(output) and not os.path.isfile(output):
        with _write_errors(repr(output)):
            device = open(output, "wb")  # noqa: SIM115 (the sink closes it)
        return _pipe_sink(repr(output), device, audio_format, sample_rate, owned=True)
    if audio_format.container is Container.ENCODED:
        return EncodedFileSink(output, audio_format, sample_rate)
    return PcmFileSink(output, audio_format, sample_rate)


class _Sink(ABC):
    """The context manager that all sinks share."""

    @abstractmethod
    def write(self, samples: NDArray[np.floating]) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def abandon(self) -> None: ...

    def __enter__(self) -> AudioSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


class PipeSink(_Sink):
    """WAV or raw samples on a pipe, each write flushed; the header goes out with the first samples."""

    def __init__(
        self, name: str, stream: BinaryIO, audio_format: AudioFormat, sample_rate: int, *, owned: bool = False
    ):
        """`owned` says whether the sink closes the stream."""
        self._name = name
        self._stream = stream
        self._format = audio_format
        self._sample_rate = sample_rate
        self._owned = owned
        self._started = False

    def write(self, samples: NDArray[np.floating]) -> None:
        """Send samples [n] now."""
        if not samples.size:
            return
        data = wav.encode_samples(samples, self._format.coding)
        if not self._started and self._format.container is Container.WAV:
            data = wav.stream_header(self._format.coding, self._sample_rate) + data
        self._started = True
        with _write_errors(self._name):
            self._stream.write(data)
            self._stream.flush()

    def close(self) -> None:
        """Close the stream if it is the sink's own."""
        if self._owned:
            with _write_errors(self._name):
                self._stream.close()

    def abandon(self) -> None:
        """Close the stream if it is the sink's own; what was sent cannot be called back."""
        if self._owned:
            with suppress(OSError):
                self._stream.close()


class PcmFileSink(_Sink):
    """WAV or raw samples in a file. The header has exact sizes; past 4 GiB it becomes RF64."""

    def __init__(
        self,
        output: str,
        audio_format: AudioFormat,
        sample_rate: int,
        *,
        largest_riff: int = wav.LARGEST_RIFF,
    ):
        """`largest_riff` is the RIFF size beyond which the file is RF64."""
        self._path = PartFile(output)
        self._format = audio_format
        self._sample_rate = sample_rate
        self._largest_riff = largest_riff
        self._file: BinaryIO | None = None
        self._samples = 0

    def write(self, samples: NDArray[np.floating]) -> None:
        """Append samples [n]."""
        if not samples.size:
            return
        with _write_errors(repr(self._path.output)):
            if self._file is None:
                self._file = self._path.open()
                self._file.write(self._header())
            self._file.write(wav.encode_samples(samples, self._format.coding))
        self._samples += samples.size

    def close(self) -> None:
        """Complete the header and put the file in place."""
        if self._file is None:
            return
        try:
            with _write_errors(repr(self._path.output)):
                self._finish(self._file)
                self._path.publish()
        except BaseException:  # a Ctrl-C here would leave the part as well
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove the partial file."""
        try:
            if self._file is not None:
                with suppress(OSError):
                    self._file.close()
        finally:
            self._path.remove()  # a Ctrl-C may have come between its making and `_file`

    def _header(self) -> bytes:
        if self._format.container is not Container.WAV:
            return b""
        return wav.file_header(
            self._format.coding, self._sample_rate, self._samples, largest_riff=self._largest_riff
        )

    def _finish(self, file: BinaryIO) -> None:
        header = self._header()
        if header:
            file.write(wav.file_end(self._format.coding, self._samples))
        if len(header) > wav.HEADER_SIZE:
            _make_room(file, wav.HEADER_SIZE, len(header) - wav.HEADER_SIZE)
        file.seek(0)
        file.write(header)
        file.close()


class _EncodedSink(_Sink):
    """FLAC, MP3, Ogg Vorbis or Opus: the encoder begins with the first samples."""

    def __init__(self, name: str, audio_format: AudioFormat, sample_rate: int):
        self._name = name
        self._format = audio_format
        self._sample_rate = sample_rate
        self._encoder: Encoder | None = None

    @abstractmethod
    def _begin(self) -> Encoder: ...

    def write(self, samples: NDArray[np.floating]) -> None:
        """Append samples [n]."""
        if not samples.size:
            return
        with _write_errors(self._name):
            if self._encoder is None:
                self._encoder = self._begin()
            self._encoder.write(samples)


class EncodedFileSink(_EncodedSink):
    """FLAC, MP3, Ogg Vorbis or Opus in a file, through libsndfile."""

    def __init__(self, output: str, audio_format: AudioFormat, sample_rate: int):
        super().__init__(repr(output), audio_format, sample_rate)
        self._path = PartFile(output)
        self._file: BinaryIO | None = None

    def _begin(self) -> Encoder:
        self._file = self._path.open()
        return Encoder(self._file, self._format, self._sample_rate)

    def close(self) -> None:
        """Complete the file and put it in place."""
        if self._file is None or self._encoder is None:
            return
        try:
            with _write_errors(self._name):
                self._encoder.close()
                self._file.close()
                self._path.publish()
        except BaseException:  # a Ctrl-C here would leave the part as well
            self.abandon()
            raise

    def abandon(self) -> None:
        """Remove the partial file."""
        try:
            with suppress(Exception):
                if self._encoder is not None:
                    self._encoder.close()
            if self._file is not None:
                with suppress(OSError):
                    self._file.close()
        finally:
            self._path.remove()  # a Ctrl-C may have come between its making and `_file`


class EncodedPipeSink(_EncodedSink):
    """FLAC, MP3, Ogg Vorbis or Opus on a pipe, sent as the encoder completes its blocks.

    What a container says about its own length and contents can only be corrected where standard output is a file.
    """

    def __init__(
        self, name: str, stream: BinaryIO, audio_format: AudioFormat, sample_rate: int, *, owned: bool = False
    ):
        """`owned` says whether the sink closes the stream."""
        super().__init__(name, audio_format, sample_rate)
        self._stream = stream
        self._owned = owned

    def _begin(self) -> Encoder:
        correctable = is_rewritable_file(self._stream)
        return Encoder(self._stream, self._format, self._sample_rate, correctable=correctable)

    def write(self, samples: NDArray[np.floating]) -> None:
        """Encode samples [n], and send what that completes."""
        super().write(samples)
        with _write_errors(self._name):
            self._stream.flush()

    def close(self) -> None:
        """Complete the encoding and send the rest."""
        with _write_errors(self._name):
            if self._encoder is not None:
                self._encoder.close()
            self._stream.flush()
            if self._owned:
                self._stream.close()

    def abandon(self) -> None:
        """Give what was sent a proper end; it cannot be called back."""
        with suppress(Exception):
            if self._encoder is not None:
                self._encoder.close()
                self._stream.flush()
        if self._owned:
            with suppress(OSError):
                self._stream.close()


def _pipe_sink(
    name: str, stream: BinaryIO, audio_format: AudioFormat, sample_rate: int, *, owned: bool = False
) -> AudioSink:
    kind = EncodedPipeSink if audio_format.container is Container.ENCODED else PipeSink
    return kind(name, stream, audio_format, sample_rate, owned=owned)


def _make_room(file: BinaryIO, position: int, count: int) -> None:
    """Shift everything from `position` on by `count` bytes, last block first so that nothing is overwritten."""
    end = file.seek(0, os.SEEK_END)
    while end > position:
        start = max(position, end - _COPY_BLOCK)
        file.seek(start)
        block = file.read(end - start)
        file.seek(start + count)
        file.write(block)
        end = start


@contextmanager
def _write_errors(name: str) -> Iterator[None]:
    """Turn what the system or the encoder says into an `OutputError`; a reader that left stays what it is."""
    try:
        with write_errors(name):
            yield
    except RuntimeError as error:  # soundfile.LibsndfileError
        raise OutputError(f"cannot write {name}: {error}") from error
