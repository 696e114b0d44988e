"""Speech on its way to a file or a pipe, and who watches it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.audio.formats import AudioFormat
from ..core.audio.sinks import AudioSink, open_sink
from ..core.errors import GgttsError
from ..core.speech.dump import StageDump
from ..core.speech.observer import Observer, Observers
from .progress import SpeechProgress, speech_progress
from .streams import binary_output
from .summary import Utterance

if TYPE_CHECKING:
    from ..core.speech.stream import SpeechStream
    from ..core.text.decoding import Line


@dataclass(frozen=True)
class Delivery:
    """Where speech goes and who watches.

    Attributes:
        program: how the command calls itself in messages.
        output, audio_format: what `-o` named, and how it is written.
        dump: folder for the stages of the model.
        quiet, verbose: how much is reported.
        progress: whether a terminal shows how far the speech has come.
        stream_frames: most frames in one write, None for what the model finds best on a pipe.
        parallel: how many lines, or pieces of a long text, are spoken at once.
    """

    program: str
    output: str
    audio_format: AudioFormat
    dump: Path | None = None
    quiet: bool = False
    verbose: bool = False
    progress: bool = True
    stream_frames: int | None = None
    parallel: int = 1

    def sink(self, sample_rate: int) -> AudioSink:
        """Open the output.

        Raises:
            OutputError: it cannot be written.
        """
        return open_sink(self.output, self.audio_format, sample_rate, stdout=binary_output)

    @property
    def shows_progress(self) -> bool:
        """Whether a terminal shows how far the work has come, and nothing else is printed meanwhile."""
        return self.progress and not self.quiet and not self.verbose

    def speech_progress(self, frame_rate: float) -> SpeechProgress:
        """Return who shows it; `frame_rate` is in frames per second of audio."""
        return speech_progress(frame_rate, shown=self.shows_progress)

    def dump_of(self, line: Line) -> Path | None:
        """Folder for the stages of one line."""
        return None if self.dump is None else self.dump / f"line-{line.number}"


def deliver(
    stream: SpeechStream[Any], delivery: Delivery, progress: SpeechProgress | None = None
) -> Utterance:
    """Write one utterance to the output, chunk by chunk.

    `progress` is told of what is written, where no observer tells it of what is made.

    Raises:
        UsageError: the text does not fit the context of the model.
        EngineError: the device failed or ran out of memory.
        OutputError: the output or the dump cannot be written.
        GgttsError: the model said nothing at all.
        BrokenPipeError: nobody reads any more.
    """
    samples = frames = 0
    if progress is not None:
        progress.piece(1, 1)
    with stream, delivery.sink(stream.sample_rate) as sink:
        for chunk in stream:
            sink.write(chunk.samples)
            samples += len(chunk.samples)
            frames += chunk.frames
            if progress is not None:
                progress.frame(frames)
        if not samples:
            raise GgttsError(
                "the model ended before it said anything that can be heard: no audio was written"
            )
    return Utterance(
        samples, stream.sample_rate, stream.frames, stream.request.seed, stream.stop, stream.timings
    )


def showing(progress: SpeechProgress, dump: Path | None) -> Observer:
    """Return who watches a speech: shows how far it has come, and writes its stages to the folder `dump`."""
    return with_dump(_Shown(progress), dump)


def with_dump(observer: Observer, dump: Path | None) -> Observer:
    """Let the stages of the model be written to the folder `dump` as well."""
    return observer if dump is None else Observers(observer, StageDump(dump))


class _Shown(Observer):
    """Hands on how far the speech has come."""

    def __init__(self, progress: SpeechProgress):
        self._progress = progress

    def piece(self, number: int, count: int) -> None:
        self._progress.piece(number, count)

    def frame(self, frames: int) -> None:
        self._progress.frame(frames)
