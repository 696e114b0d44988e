"""Speech on its way from the model to a file or a pipe: a whole text, or line by line as lines arrive."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.audio.formats import AudioFormat
from ..core.audio.sinks import open_sink
from ..core.errors import GgttsError, OutputError, UsageError
from ..core.speech.dump import StageDump
from ..core.speech.observer import Observer, Observers
from .errors import explain, report
from .progress import SpeechProgress, speech_progress
from .streams import binary_output
from .summary import Summary, Utterance

if TYPE_CHECKING:
    from ..core.qwen.model import QwenTTS
    from ..core.qwen.requests import SpeechRequest
    from ..core.text.decoding import Line


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
    """

    program: str
    output: str
    audio_format: AudioFormat
    stream_frames: int | None = None
    dump: Path | None = None
    quiet: bool = False
    verbose: bool = False
    progress: bool = True


def speak_text(model: QwenTTS, request: SpeechRequest, delivery: Delivery) -> None:
    """Speak one text.

    Raises:
        GgttsError: see `_speak`.
        BrokenPipeError: nobody reads any more.
    """
    summary = Summary(delivery.output, verbose=delivery.verbose)
    with _progress(model, delivery) as progress:
        summary.add(_speak(model, request, delivery, progress))
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
    with _progress(model, delivery) as progress:
        for line in lines:
            try:
                folder = None if delivery.dump is None else delivery.dump / f"line-{line.number}"
                utterance = _speak(
                    model, replace(request, text=line.text), replace(delivery, dump=folder), progress
                )
            except (OutputError, BrokenPipeError):
                raise
            except Exception as error:
                message = f"line {line.number}: {explain(error)}"
                if fail_fast:
                    raise GgttsError(message) from error
                report(delivery.program, message)
                failed.append(line.number)
            else:
                spoken += 1
                summary.add(utterance, line=line.number)
    if failed:
        raise GgttsError(f"{len(failed)} of {spoken + len(failed)} lines could not be spoken")
    if not spoken:
        raise UsageError("standard input has nothing to say: no line with words in it")
    if not delivery.quiet:
        summary.report()


def _speak(model: QwenTTS, request: SpeechRequest, delivery: Delivery, progress: SpeechProgress) -> Utterance:
    """Write one utterance to the output, chunk by chunk.

    Raises:
        UsageError: the request does not suit the model.
        EngineError: the device failed or ran out of memory.
        OutputError: the output or the dump cannot be written.
        GgttsError: the model said nothing at all.
        BrokenPipeError: nobody reads any more.
    """
    samples = 0
    observer = _observer(progress, delivery.dump)
    with (
        open_sink(delivery.output, delivery.audio_format, model.sample_rate, stdout=binary_output) as sink,
        model.stream(request, stream_frames=delivery.stream_frames, observer=observer) as stream,
    ):
        for chunk in stream:
            sink.write(chunk.samples)
            samples += len(chunk.samples)
        if not samples:
            raise GgttsError("the model ended before it said anything: no audio was written")
    return Utterance(
        samples, model.sample_rate, stream.frames, stream.request.seed, stream.stop, stream.timings
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
