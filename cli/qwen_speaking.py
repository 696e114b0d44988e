"""Speech of a Qwen model on its way to a file or a pipe: a whole text, or line by line as lines arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..core.speech.dump import StageDump
from .begun_lines import BegunLine, BegunLines
from .delivery import Delivery, deliver, showing
from .lines import LineFailures, spoken_lines
from .progress import SpeechProgress
from .summary import Summary

if TYPE_CHECKING:
    from ..core.qwen.model import QwenScheduler, QwenTTS
    from ..core.qwen.requests import SpeechRequest
    from ..core.speech.stream import SpeechStream
    from ..core.text.decoding import Line

LINES_AHEAD = 4
"""How many lines are begun before their turn, for each that is spoken at a time: short ones wait for a long one."""


def speak_text(model: QwenTTS, request: SpeechRequest, delivery: Delivery) -> None:
    """Speak one text.

    Raises:
        GgttsError: see `deliver`.
        BrokenPipeError: nobody reads any more.
    """
    summary = Summary(delivery.output, verbose=delivery.verbose)
    with delivery.speech_progress(model.frame_rate) as progress:
        stream = model.stream(
            request,
            stream_frames=delivery.stream_frames,
            observer=showing(progress, delivery.dump),
            parallel=delivery.parallel,
        )
        summary.add(deliver(stream, delivery))
    if not delivery.quiet:
        summary.report()


def speak_lines(
    model: QwenTTS, request: SpeechRequest, lines: Iterable[Line], delivery: Delivery, failures: LineFailures
) -> None:
    """Speak each line as it arrives, as an utterance of its own; a seed that was not given is drawn for each.

    Raises:
        GgttsError: a line could not be spoken; see `spoken_lines`.
        UsageError: the request does not suit the model; nothing is spoken then.
        OutputError: the output cannot be written.
        BrokenPipeError: nobody reads any more.
    """
    # Whatever is wrong with all lines alike is said once, before anybody waits for the first.
    model.resolve(replace(request, text="Line"))
    summary = Summary(delivery.output, verbose=delivery.verbose)
    with (
        delivery.speech_progress(model.frame_rate) as progress,
        _begun(_LineSpeeches(model, request, delivery, progress), lines) as begun,
    ):
        watching = progress if delivery.parallel > 1 else None
        for number, utterance in spoken_lines(
            begun, lambda stream: deliver(stream, delivery, watching), failures
        ):
            summary.add(utterance, line=number)
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
        return self.model.stream(
            replace(self.request, text=line.text),
            stream_frames=self.delivery.stream_frames,
            observer=showing(self.progress, self.delivery.dump_of(line)),
        )

    def submitted(self, scheduler: QwenScheduler, line: Line) -> SpeechStream[Any]:
        """Return the speech of a line that is spoken together with others."""
        dump = self.delivery.dump_of(line)
        return scheduler.submit(
            replace(self.request, text=line.text),
            stream_frames=self.delivery.stream_frames,
            observer=None if dump is None else StageDump(dump),
            ahead=None,
        )


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
