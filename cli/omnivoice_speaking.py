"""OmniVoice's speech on its way to a file or a pipe: a text, sentences or lines as they arrive, cues in their slots."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..core.audio.formats import STANDARD_STREAM
from ..core.errors import GgttsError
from ..core.output_files import write_file
from ..core.sampling.philox import resolve_seed
from ..core.speech.observer import Observer
from .begun_lines import BegunLine
from .delivery import Delivery, deliver, showing, with_dump
from .errors import report
from .lines import LineFailures, spoken_lines
from .progress import FileProgress, SpeechProgress, file_progress
from .summary import Summary, Utterance

if TYPE_CHECKING:
    from ..core.omnivoice.model import DubbedCue, Narrator, OmniSpeechRequest, OmniStream, OmniVoice
    from ..core.text.decoding import Line
    from ..core.text.subtitles import Cue


def speak_text(
    model: OmniVoice,
    request: OmniSpeechRequest,
    delivery: Delivery,
    chunks: Iterable[str] | None = None,
) -> None:
    """Speak one text; `chunks` are its parts where it still arrives, or else it is spoken as a whole.

    Raises:
        UsageError: the request does not suit the model.
        EngineError: the device failed or ran out of memory.
        OutputError: the output or the dump cannot be written.
        GgttsError: the model said nothing at all.
        BrokenPipeError: nobody reads any more.
    """
    summary = Summary(delivery.output)
    with delivery.speech_progress(model.frame_rate) as progress:
        stream = model.stream(
            request, chunks=chunks, whole=chunks is None, observer=showing(progress, delivery.dump)
        )
        utterance = deliver(stream, delivery)
        summary.add(utterance)
    if delivery.verbose:
        _tell(performance(utterance, request.generation.steps))
        _tell([_destination(delivery, utterance)])
    elif not delivery.quiet:
        summary.report()


def speak_lines(
    model: OmniVoice,
    request: OmniSpeechRequest,
    lines: Iterable[Line],
    delivery: Delivery,
    failures: LineFailures,
) -> None:
    """Speak each line as it arrives, as an utterance of its own; all in the voice of the first, on one seed.

    Raises:
        GgttsError: a line could not be spoken; see `spoken_lines`.
        UsageError: the request does not suit the model, or there is no line.
        OutputError: the output cannot be written.
        BrokenPipeError: nobody reads any more.
    """
    summary = Summary(delivery.output)
    request = replace(request, seed=resolve_seed(request.seed))
    with delivery.speech_progress(model.frame_rate) as progress:
        narration = _Narration(model, request, delivery, progress)
        begun = (BegunLine.of(line, narration.of) for line in lines)
        for number, utterance in spoken_lines(begun, lambda stream: deliver(stream, delivery), failures):
            summary.add(utterance, line=number)
            if delivery.verbose:
                _tell([f"[OmniVoice-TTS] line {number}"])
                _tell(performance(utterance, request.generation.steps))
    if not delivery.quiet and not delivery.verbose:
        summary.report()


class _Narration:
    """Lines in the voice of the first that can be spoken."""

    def __init__(
        self, model: OmniVoice, request: OmniSpeechRequest, delivery: Delivery, progress: SpeechProgress
    ) -> None:
        self._model = model
        self._request = request
        self._delivery = delivery
        self._progress = progress
        self._narrator: Narrator | None = None

    def of(self, line: Line) -> OmniStream:
        """Return the speech of a line."""
        request = replace(self._request, text=line.text)
        self._narrator = self._narrator or self._model.narrator(request)
        observer = showing(self._progress, self._delivery.dump_of(line))
        return self._model.stream(request, narrator=self._narrator, observer=observer)


def dub(
    model: OmniVoice,
    request: OmniSpeechRequest,
    cues: Sequence[Cue],
    delivery: Delivery,
    report_path: Path | None = None,
) -> None:
    """Speak cues onto one timeline, and write what became of them to `report_path`.

    Raises:
        UsageError: the request does not suit the model.
        OutputError: the output, the report or the dump cannot be written.
        GgttsError: no cue could be spoken.
    """
    dubbed: list[DubbedCue] = []
    seed = resolve_seed(request.seed)
    if delivery.verbose:
        _tell([_seed(seed)])
    with (
        delivery.sink(model.sample_rate) as sink,
        file_progress(len(cues), shown=delivery.shows_progress) as progress,
    ):
        watching = _CueObserver(progress, [cue.number for cue in cues])
        observer = with_dump(watching, delivery.dump)
        for cue in model.dub(cues, sink, replace(request, seed=seed), observer=observer):
            dubbed.append(cue)
            if delivery.verbose:
                _tell([f"[OmniVoice-TTS] dub {_placed(cue)}"])
        silent = [str(cue.cue.number) for cue in dubbed if cue.problem is not None]
        if len(silent) == len(cues):
            raise GgttsError(f"none of {len(cues)} cues could be spoken: {dubbed[0].problem}")
    if report_path is not None:
        _write_report(report_path, dubbed)
    if silent:
        report(
            delivery.program, f"{len(silent)} of {len(cues)} cues are silent: {', '.join(silent)}", "warning"
        )
    if delivery.verbose:
        end = max(cues[-1].end, dubbed[-1].end)
        _tell([f"[OmniVoice-TTS] dub: wrote {delivery.output} ({end:.2f} s, {len(cues)} cues)"])


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line, err=True)


def _destination(delivery: Delivery, utterance: Utterance) -> str:
    if delivery.output == STANDARD_STREAM:
        return f"[OmniVoice-TTS] streamed {utterance.samples} samples to stdout"
    return (
        f"[OmniVoice-TTS] TTS: wrote {delivery.output} ({utterance.samples} samples"
        f" @ {utterance.sample_rate} Hz, {utterance.audio_seconds:.2f} s)"
    )


def performance(utterance: Utterance, steps: int) -> Iterator[str]:
    """Yield the seed and where the time went, in the lines that omnivoice.cpp prints."""
    times = utterance.timings
    seconds = max(utterance.audio_seconds, 1e-9)
    yield _seed(utterance.seed)
    yield f"[Perf] Generate {1e3 * times.talker_seconds:.1f} ms (MaskGIT, {steps} steps)"
    yield f"[Perf] CodecDecode {1e3 * times.codec_seconds:.1f} ms"
    yield f"[Perf] FirstAudio {1e3 * times.first_audio_seconds:.1f} ms (first samples)"
    yield (
        f"[Perf] Total {1e3 * times.total_seconds:.1f} ms (T={utterance.frames},"
        f" audio {utterance.audio_seconds:.2f} s, RTF {times.total_seconds / seconds:.3f})"
    )


def _seed(seed: int) -> str:
    return f"[CLI] Seed: {seed}"


def _placed(cue: DubbedCue) -> str:
    slot = f"cue {cue.cue.number}: slot {cue.cue.start:.3f}-{cue.cue.end:.3f} s"
    return (
        f"{slot}, silent: {cue.problem}" if cue.problem else f"{slot}, spoken {cue.start:.3f}-{cue.end:.3f} s"
    )


def _write_report(path: Path, dubbed: Sequence[DubbedCue]) -> None:
    """Write what became of the cues as JSON, to standard output where the path is "-"."""
    text = json.dumps(_report(dubbed), ensure_ascii=False, indent=1) + "\n"
    if str(path) == STANDARD_STREAM:
        click.echo(text, nl=False)
    else:
        write_file(path, text.encode())


def _report(dubbed: Sequence[DubbedCue]) -> dict[str, Any]:
    """Return what became of the cues, for JSON; times are in seconds."""
    return {
        "cues": [
            {
                "cue": cue.cue.number,
                "text": cue.cue.text,
                "slot": {"start": cue.cue.start, "end": cue.cue.end},
                "spoken": None if cue.problem else {"start": cue.start, "end": round(cue.end, 6)},
                "ratio": round(cue.ratio, 3) if cue.ratio < math.inf else None,
                "stretched": round(cue.stretched, 3),
                "cut": round(cue.cut, 3),
                "problem": cue.problem,
            }
            for cue in dubbed
        ]
    }


class _CueObserver(Observer):
    """Shows how many cues are done."""

    def __init__(self, progress: FileProgress, numbers: Sequence[int]) -> None:
        self._progress, self._numbers = progress, numbers

    def piece(self, number: int, count: int) -> None:
        self._progress.file(f"cue {self._numbers[number - 1]}")
