"""What is said at the end of a run, and with `--verbose` after each utterance."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ..core.audio.formats import STANDARD_STREAM
from .progress import describe_speed, on_terminal

if TYPE_CHECKING:
    from ..core.speech.timings import Timings


@dataclass(frozen=True)
class Utterance:
    """One text that was spoken, on one seed.

    Attributes:
        samples, sample_rate: how much audio.
        frames: how many frames of codes it was made of.
        seed: repeats it when given again.
        stop: why it ended, as `SpeechStream.stop` says.
        timings: where the time went.
    """

    samples: int
    sample_rate: int
    frames: int
    seed: int
    stop: str | None
    timings: Timings

    @property
    def audio_seconds(self) -> float:
        """Length of the audio."""
        return self.samples / self.sample_rate


class Summary:
    """Adds up the utterances of a run."""

    def __init__(self, output: str, *, verbose: bool = False):
        """Start the clock. `output` is what `-o` named; `verbose` prints the times of each utterance."""
        self._output = output
        self._verbose = verbose
        self._started = time.monotonic()
        self._audio_seconds = 0.0
        self._frames = 0
        self._samples = 0
        self._lines: int | None = None

    def add(self, utterance: Utterance, *, line: int | None = None) -> None:
        """Count one utterance; `line` is the number of the line that it was, where lines are spoken one by one."""
        self._samples += utterance.samples
        self._audio_seconds += utterance.audio_seconds
        self._frames += utterance.frames
        if line is not None:
            self._lines = (self._lines or 0) + 1
        if self._verbose:
            if line is not None:
                click.echo(f"[Pipeline] Line {line}", err=True)
            for text in performance(utterance):
                click.echo(text, err=True)

    def report(self) -> None:
        """Print the totals, on standard error: a person at a terminal or `--verbose` sees them, a script does not."""
        if self._verbose:
            click.echo(self._destination(), err=True)
        elif on_terminal():
            seconds = time.monotonic() - self._started
            name = "standard output" if self._output == STANDARD_STREAM else self._output
            click.echo(f"{name}: {describe_speed(self._frames, self._audio_seconds, seconds)}", err=True)

    def _destination(self) -> str:
        if self._lines is not None:
            return f"[Pipeline] Streamed {self._lines} lines to <stdout>"
        if self._output == STANDARD_STREAM:
            return "[Pipeline] Streamed to <stdout>"
        return f"[Pipeline] Wrote {self._samples} samples ({self._audio_seconds:.2f} s) -> {self._output}"


def performance(utterance: Utterance) -> Iterator[str]:
    """Yield the seed and where the time went, in the lines that qwentts.cpp prints."""
    times, frames = utterance.timings, max(utterance.frames, 1)
    audio_seconds = utterance.audio_seconds
    loop = times.talker_seconds + times.predictor_seconds + times.host_seconds
    yield f"[Sample] seed={utterance.seed}"
    yield f"[Pipeline] Generation done : {utterance.frames} frames ({utterance.stop})"
    yield f"[Perf] PromptBuild {_ms(times.prompt_seconds)}"
    yield f"[Perf] Prefill {_ms(times.prefill_seconds)}"
    yield f"[Perf] TTFA {_ms(times.first_frame_seconds)} (first frame codes)"
    yield f"[Perf] TalkerDecode {_ms(times.talker_seconds)} ({frames} frames, {_each(times.talker_seconds, frames)})"
    yield f"[Perf] CodePredictor {_ms(times.predictor_seconds)} ({_each(times.predictor_seconds, frames)})"
    yield f"[Perf] HostCompose {_ms(times.host_seconds)} (c0 sample + next emb)"
    yield f"[Perf] CodecDecode {_ms(times.codec_seconds)}"
    yield f"[Perf] FirstAudio {_ms(times.first_audio_seconds)} (first samples)"
    yield (
        f"[Perf] Total {_ms(times.total_seconds)} ({frames} frames, {_each(loop, frames)} AR,"
        f" audio {audio_seconds:.2f} s, RTF {times.total_seconds / max(audio_seconds, 1e-9):.3f})"
    )


def _each(seconds: float, frames: int) -> str:
    return f"{1e3 * seconds / frames:.2f} ms/frame"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"
