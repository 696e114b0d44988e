"""Speech on its way from the model to a file or a pipe: a whole text, or line by line as lines arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.audio.formats import AudioFormat
from ..core.audio.sinks import open_sink
from ..core.errors import GgttsError, OutputError, UsageError
from ..core.speech.dump import StageDump
from ..core.speech.observer import Observer, Observers
from .begun_lines import BegunLine, BegunLines
from .errors import explain, report
from .progress import SpeechProgress, speech_progress
from .streams import binary_output
from .summary import Summary, Utterance

if TYPE_CHECKING:
    from ..core.qwen.model import QwenScheduler, QwenTTS
    from ..core.qwen.requests import SpeechRequest
    from ..core.speech.stream import SpeechStream
    from ..core.text.decoding import Line

LINES_AHEAD = 4
"""How many lines are begun before their turn, for each that is spoken at a time: short ones wait for a long one."""


@dataclass(frozen=True)
class Delivery:
    """Where speech goes and who watches.

    Attributes:
        program: how the command calls itself in messages.
        output, audio_format: what `-o` named, and how it is written.
        stream_frames: most frames in one write, None for what the model finds best on a pipe.
        dump: folder for the stages of the model.
        quiet, verbose: how much is reported.
        progress: whether a terminal shows how far the speech has come.
        parallel: how many lines, or pieces of a long text, are spoken at once.
    """

    program: str
    output: str
    audio_format: AudioFormat
    stream_frames: int | None = None
    dump: Path | None = None
    quiet: bool = False
    verbose: bool = False
    progress: bool = True
    parallel: int = 1


def speak_text(model: QwenTTS, request: SpeechRequest, delivery: Delivery) -> None:
    """Speak one text.

    Raises:
        GgttsError: see `_deliver`.
        BrokenPipeError: nobody reads any more.
    """
    summary = Summary(delivery.output, verbose=delivery.verbose)
    with _progress(model, delivery) as progress:
        summary.add(_deliver(_stream(model, request, delivery, progress), delivery))
    if not delivery.quiet:
        summary.report()


def speak_lines(
    model: QwenTTS, request: SpeechRequest, lines: Iterable[Line], delivery: Delivery, *, fail_fast: bool
) -> None:
    """Speak each line as it arrives, as an utterance of its own; a seed that was not given is drawn for each.

    Raises:
        GgttsError: a line could not be spoken. The others are spoken nevertheless, unless `fail_fast`.
        UsageError: the request does not suit the model; nothing is spoken then.
        OutputError: the output cannot be written.
        BrokenPipeError: nobody reads any more.
    """
    # Whatever is wrong with all lines alike is said once, before anybody waits for the first.
    model.resolve(replace(request, text="Line"))
    summary = Summary(delivery.output, verbose=delivery.verbose)
    failed: list[int] = []
    spoken = 0
    with (
        _progress(model, delivery) as progress,
        _begun(_LineSpeeches(model, request, delivery, progress), lines) as begun,
    ):
        for one in begun:
            number = one.line.number
            try:
                utterance = _deliver(one.speech(), delivery, progress if delivery.parallel > 1 else None)
            except (OutputError, BrokenPipeError):
                raise
            except Exception as error:
                message = f"line {number}: {explain(error)}"
                if fail_fast:
                    raise GgttsError(message) from error
                report(delivery.program, message)
                failed.append(number)
            else:
                spoken += 1
                summary.add(utterance, line=number)
    if failed:
        raise GgttsError(f"{len(failed)} of {spoken + len(failed)} lines could not be spoken")
    if not spoken:
        raise UsageError("standard input has nothing to say: no line with words in it")
    if not delivery.quiet:
        summary.report()


@dataclass(frozen=True)
class _LineSpeeches:
    """How the lines of a run become speech."""

    model: QwenTTS
    request: SpeechRequest
    delivery: Delivery
    progress: SpeechProgress

    def alone(self, line: Line) -> SpeechStream[Any]:
        """Return the speech of a line that is spoken by itself."""
        observer = _observer(self.progress, self._dump(line))
        return self.model.stream(
            replace(self.request, text=line.text),
            stream_frames=self.delivery.stream_frames,
            observer=observer,
        )

    def submitted(self, scheduler: QwenScheduler, line: Line) -> SpeechStream[Any]:
        """Return the speech of a line that is spoken together with others."""
        dump = self._dump(line)
        return scheduler.submit(
            replace(self.request, text=line.text),
            stream_frames=self.delivery.stream_frames,
            observer=None if dump is None else StageDump(dump),
            ahead=None,
        )

    def _dump(self, line: Line) -> Path | None:
        folder = self.delivery.dump
        return None if folder is None else folder / f"line-{line.number}"


@contextmanager
def _begun(speeches: _LineSpeeches, lines: Iterable[Line]) -> Iterator[Iterable[BegunLine]]:
    """Begin lines when they are asked for; or, where several are spoken at once, as they arrive."""
    parallel = speeches.delivery.parallel
    if parallel == 1:
        yield (BegunLine.of(line, speeches.alone) for line in lines)
    else:
        with (
            speeches.model.scheduler(parallel) as scheduler,
            BegunLines(lines, partial(speeches.submitted, scheduler), LINES_AHEAD * parallel) as begun,
        ):
            yield begun


def _stream(
    model: QwenTTS, request: SpeechRequest, delivery: Delivery, progress: SpeechProgress
) -> SpeechStream[Any]:
    return model.stream(
        request,
        stream_frames=delivery.stream_frames,
        observer=_observer(progress, delivery.dump),
        parallel=delivery.parallel,
    )


def _deliver(
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
    with (
        stream,
        open_sink(delivery.output, delivery.audio_format, stream.sample_rate, stdout=binary_output) as sink,
    ):
        for chunk in stream:
            sink.write(chunk.samples)
            samples += len(chunk.samples)
            frames += chunk.frames
            if progress is not None:
                progress.frame(frames)
        if not samples:
            raise GgttsError("the model ended before it said anything: no audio was written")
    return Utterance(
        samples, stream.sample_rate, stream.frames, stream.request.seed, stream.stop, stream.timings
    )


def _observer(progress: SpeechProgress, dump: Path | None) -> Observer:
    shown = _Shown(progress)
    return shown if dump is None else Observers(shown, StageDump(dump))


class _Shown(Observer):
    """Hands on how far the speech has come."""

    def __init__(self, progress: SpeechProgress):
        self._progress = progress

    def piece(self, number: int, count: int) -> None:
        self._progress.piece(number, count)

    def frame(self, frames: int) -> None:
        self._progress.frame(frames)


def _progress(model: QwenTTS, delivery: Delivery) -> SpeechProgress:
    shown = delivery.progress and not delivery.quiet and not delivery.verbose
    return speech_progress(model.frame_rate, shown=shown)
