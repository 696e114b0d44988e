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
from ..core.audio.sinks import AudioSink, open_sink
from ..core.errors import GgttsError, OutputError, UsageError
from ..core.output_files import write_file
from ..core.sampling.philox import resolve_seed
from ..core.speech.dump import StageDump
from ..core.speech.observer import Observer, Observers
from .errors import explain, report
from .progress import FileProgress, SpeechProgress, file_progress, speech_progress
from .speaking import Delivery
from .streams import binary_output
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
    with _speech_progress(model, delivery) as progress:
        stream = model.stream(
            request, chunks=chunks, whole=chunks is None, observer=_observer(progress, delivery.dump)
        )
        utterance = _deliver(model, stream, delivery)
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
    *,
    fail_fast: bool,
) -> None:
    """Speak each line as it arrives, as an utterance of its own; all in the voice of the first, on one seed.

    Raises:
        GgttsError: a line could not be spoken. The others are spoken nevertheless, unless `fail_fast`.
        UsageError: the request does not suit the model, or there is no line.
        OutputError: the output cannot be written.
        BrokenPipeError: nobody reads any more.
    """
    summary = Summary(delivery.output)
    narrator: Narrator | None = None
    failed, spoken = 0, 0
    request = replace(request, seed=resolve_seed(request.seed))
    with _speech_progress(model, delivery) as progress:
        for line in lines:
            own = replace(request, text=line.text)
            folder = None if delivery.dump is None else delivery.dump / f"line-{line.number}"
            try:
                if line.problem is not None:
                    raise line.problem
                narrator = narrator or model.narrator(own)
                stream = model.stream(own, narrator=narrator, observer=_observer(progress, folder))
                utterance = _deliver(model, stream, delivery)
                summary.add(utterance, line=line.number)
                spoken += 1
                if delivery.verbose:
                    _tell([f"[OmniVoice-TTS] line {line.number}"])
                    _tell(performance(utterance, own.generation.steps))
            except (OutputError, BrokenPipeError):
                raise
            except Exception as error:
                message = f"line {line.number}: {explain(error)}"
                if fail_fast:
                    raise GgttsError(message) from error
                report(delivery.program, message)
                failed += 1
    if failed:
        raise GgttsError(f"{failed} of {spoken + failed} lines could not be spoken")
    if not spoken:
        raise UsageError("standard input has nothing to say: no line with words in it")
    if not delivery.quiet and not delivery.verbose:
        summary.report()


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
        _sink(model, delivery) as sink,
        file_progress(len(cues), shown=not delivery.quiet and not delivery.verbose) as progress,
    ):
        watching = _CueObserver(progress, [cue.number for cue in cues])
        observer = _with_dump(watching, delivery.dump)
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


def _deliver(model: OmniVoice, stream: OmniStream, delivery: Delivery) -> Utterance:
    """Write one utterance to the output, chunk by chunk."""
    samples = 0
    with _sink(model, delivery) as sink, stream:
        for chunk in stream:
            sink.write(chunk.samples)
            samples += len(chunk.samples)
        if not samples:
            raise GgttsError("the model said nothing that can be heard: no audio was written")
    return Utterance(
        samples, model.sample_rate, stream.frames, stream.request.seed, stream.stop, stream.timings
    )


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


def _sink(model: OmniVoice, delivery: Delivery) -> AudioSink:
    return open_sink(delivery.output, delivery.audio_format, model.sample_rate, stdout=binary_output)


def _speech_progress(model: OmniVoice, delivery: Delivery) -> SpeechProgress:
    shown = delivery.progress and not delivery.quiet and not delivery.verbose
    return speech_progress(model.frame_rate, shown=shown)


def _observer(progress: SpeechProgress, dump: Path | None) -> Observer:
    return _with_dump(_SpeechObserver(progress), dump)


def _with_dump(observer: Observer, dump: Path | None) -> Observer:
    return observer if dump is None else Observers(observer, StageDump(dump))


class _SpeechObserver(Observer):
    """Shows how far the speech has come."""

    def __init__(self, progress: SpeechProgress) -> None:
        self._progress = progress

    def piece(self, number: int, count: int) -> None:
        self._progress.piece(number, count)

    def frame(self, frames: int) -> None:
        self._progress.frame(frames)


class _CueObserver(Observer):
    """Shows how many cues are done."""

    def __init__(self, progress: FileProgress, numbers: Sequence[int]) -> None:
        self._progress, self._numbers = progress, numbers

    def piece(self, number: int, count: int) -> None:
        self._progress.file(f"cue {self._numbers[number - 1]}")
