"""The rows of run.py's table: what is measured, with which goals, in which groups."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

import soundfile
from competitor import busy_process
from least_work import bytes_of_a_frame, decoder_operations, operations_of_a_step
from machine import Machine
from measurement import Measurement, parse
from measurement import medians as medians_of_qwen
from omnivoice_measurement import medians as medians_of_omnivoice
from omnivoice_options import SAMPLE_RATE, recording

Measured = TypeVar("Measured")

HERE = Path(__file__).resolve().parent
KINDS = ("Q8_0", "Q4_K_M")
PROMPT_POSITIONS = 50
"""Of OmniVoice before its frames, with the benchmark's text."""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        label: what it is, with its unit. Less is better.
        ours: of ggtts.
        goal: the most that it should be; None where there is no goal.
        peer: of the PyPI package; None where it was not measured.
        official: of the official package; None where it was not measured.
        bound: what the machine would take at its measured best; None where that is not known.
    """

    label: str
    ours: float
    goal: float | None = None
    peer: float | None = None
    official: float | None = None
    bound: float | None = None


class Unavailable(Exception):
    """A group cannot be measured; the message says what is missing, and how to get it."""


class Options(argparse.Namespace):
    """The command line of run.py, the files that it means, and the machine."""

    models: Path
    peer: str | None
    official: str | None
    threads: int
    frames: int
    seconds: float
    codec_seconds: float
    steps: int
    repeat: int
    machine: Machine | None = None

    def measured(self, machine: Machine | None) -> Options:
        """Return the options with a machine."""
        return Options(**{**vars(self), "machine": machine})

    def talker(self, kind: str) -> Path:
        """Return the random 0.6B talker of a type."""
        return self.models / f"random-talker-0.6b-base-{kind}.gguf"

    @property
    def codec(self) -> Path:
        """The random codec of Qwen3-TTS in float32."""
        return self.models / "random-tokenizer-12hz-F32.gguf"

    def base(self, kind: str) -> Path:
        """Return the random language model of OmniVoice of a type."""
        return self.models / f"random-omnivoice-base-{kind}.gguf"

    @property
    def omnivoice_codec(self) -> Path:
        """The random codec of OmniVoice in float32."""
        return self.models / "random-omnivoice-tokenizer-F32.gguf"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of which OmniVoice's files were made."""
        return self.models / "OmniVoice"

    def require(self, paths: Sequence[Path], script: str, *arguments: str) -> None:
        """Raise Unavailable with the command that makes the first file that is missing."""
        missing = [path for path in paths if not path.exists()]
        if missing:
            command = " ".join(("python benchmarks/" + script, *arguments, "--out", str(self.models)))
            raise Unavailable(f"{missing[0]} is missing; to make it: {command}")


@dataclass(frozen=True)
class Group:
    """Rows that are measured together."""

    name: str
    measure: Callable[[Options], Iterator[Row]]


def qwen(kind: str, speaking_goal: float, factor_goal: float) -> Callable[[Options], Iterator[Row]]:
    """Return what measures Qwen3-TTS with a talker of a type, in milliseconds a frame and seconds per second."""

    def measure(options: Options) -> Iterator[Row]:
        ours, peer = _qwen_programs(options, kind)
        machine = options.machine
        if kind == KINDS[0]:  # the codec is the same for all talkers
            yield _decoding(options, ours, peer)
        yield Row(
            f"Qwen 0.6B {kind}, talker + predictor, ms/frame",
            _speaking(ours),
            speaking_goal,
            peer and _speaking(peer),
            bound=machine and 1000 * bytes_of_a_frame(options.talker(kind)) / machine.memory,
        )
        yield Row(
            f"Qwen 0.6B {kind}, real-time factor",
            ours.real_time_factor,
            factor_goal,
            peer and peer.real_time_factor,
        )
        if kind == KINDS[0]:
            yield Row(
                "Qwen 0.6B Q8_0 + float32 codec, peak memory, GB",
                ours.peak_memory_mb * 2**20 / 1e9,
                1.6,
                peer and peer.peak_memory_mb * 2**20 / 1e9,
            )

    return measure


def _decoding(options: Options, ours: Measurement, peer: Measurement | None) -> Row:
    machine = options.machine
    return Row(
        "Qwen codec decode, s per s of audio",
        ours.codec_seconds_per_second,
        0.35,
        peer and peer.codec_seconds_per_second,
        bound=machine and decoder_operations(options.codec) / machine.float32,
    )


def _speaking(measurement: Measurement) -> float:
    return measurement.talker_ms_per_frame + measurement.predictor_ms_per_frame


def _qwen_programs(options: Options, kind: str) -> tuple[Measurement, Measurement | None]:
    files = options.talker(kind), options.codec
    arguments = ("--size", "0.6b", "--type", kind.lower(), "--codec-type", "f32")
    options.require(files, "make_model.py", *arguments)
    common = (*files, "--frames", options.frames, "--repeat", options.repeat, "--threads", options.threads)
    ours = _run_qwen([sys.executable, HERE / "run_ggtts.py", *common])
    if not options.peer:
        return ours, None
    return ours, _if_possible(lambda: _run_qwen([options.peer, HERE / "run_peer.py", *common]))


def _if_possible(measure: Callable[[], Measured]) -> Measured | None:
    """Measure another program; one that fails costs its column, not the row."""
    try:
        return measure()
    except Unavailable as error:
        print(error, file=sys.stderr)
        return None


def _run_qwen(command: Sequence[object]) -> Measurement:
    return medians_of_qwen(parse(_lines(command)))


def busy(options: Options) -> Iterator[Row]:
    """Measure how much slower speaking is while another process keeps one core busy."""
    quiet, quiet_peer = _qwen_programs(options, "Q8_0")
    with busy_process():
        ours, peer = _qwen_programs(options, "Q8_0")
    yield Row(
        "Qwen 0.6B Q8_0, real-time factor beside a busy process",
        ours.real_time_factor,
        peer=peer and peer.real_time_factor,
    )
    yield Row(
        "the same, times as slow as alone",
        ours.real_time_factor / quiet.real_time_factor,
        2.2,
        peer.real_time_factor / quiet_peer.real_time_factor if peer and quiet_peer else None,
    )


def omnivoice(options: Options) -> Iterator[Row]:
    """Measure a step of OmniVoice with both types of its language model, in milliseconds."""
    official = None
    for kind in KINDS:
        files = options.base(kind), options.omnivoice_codec
        _require_omnivoice(options, files, kind)
        ours = _run_omnivoice(options, [sys.executable, HERE / "run_omnivoice.py", *files])
        if options.official and official is None:
            official = _if_possible(lambda: _official_step(options))
        positions = PROMPT_POSITIONS + 2 * round(options.seconds * 25)
        work, machine = operations_of_a_step(files[0], positions), options.machine
        yield Row(
            f"OmniVoice {kind}, {options.seconds:g} s, ms/step",
            ours["step_ms"],
            750 * options.seconds / 6,
            official=official,
            bound=machine and 1000 * work / machine.q8_0,
        )


def _official_step(options: Options) -> float:
    _require_omnivoice(options, [options.checkpoint], KINDS[0])
    command = [options.official, HERE / "run_omnivoice_peer.py", options.checkpoint]
    return _run_omnivoice(options, command)["step_ms"]


def _require_omnivoice(options: Options, paths: Sequence[Path], kind: str) -> None:
    options.require(paths, "make_omnivoice.py", "--type", kind.lower())


def _run_omnivoice(options: Options, command: Sequence[object]) -> dict[str, float]:
    arguments = ("--seconds", options.seconds, "--threads", options.threads, "--repeat", options.repeat)
    steps = ("--few-steps", options.steps, "--repeat-many", 0, "--codec-seconds", 1)
    return medians_of_omnivoice(_lines([*command, *arguments, *steps]))


def qwen_codec(options: Options) -> Iterator[Row]:
    """Time the command qwen-codec both ways."""
    options.require(
        [options.codec], "make_model.py", "--size", "0.6b", "--type", "q8_0", "--codec-type", "f32"
    )
    yield from _codec_command(options, "qwen_codec", options.codec, "qwen-codec", (1.0, 3.5))


def omnivoice_codec(options: Options) -> Iterator[Row]:
    """Time the command omnivoice-codec both ways."""
    _require_omnivoice(options, [options.omnivoice_codec], KINDS[0])
    yield from _codec_command(
        options, "omnivoice_codec", options.omnivoice_codec, "omnivoice-codec", (3.0, 1.5)
    )


def _codec_command(
    options: Options, module: str, codec: Path, name: str, goals: tuple[float, float]
) -> Iterator[Row]:
    seconds = options.codec_seconds
    with tempfile.TemporaryDirectory() as folder:
        sound, codes, back = (Path(folder) / part for part in ("sound.wav", "codes.rvq", "back.wav"))
        soundfile.write(sound, recording(seconds), SAMPLE_RATE)
        common = [sys.executable, "-m", f"ggtts.cli.{module}", "--model", codec, "--quiet"]
        common += ["--threads", options.threads]
        for way, source, target, goal in (
            ("encode", sound, codes, goals[0]),
            ("decode", codes, back, goals[1]),
        ):
            command = [*common, "-i", source, "-o", target]
            label = f"{name}, {seconds:g} s: {way}, s"
            yield Row(label, _command_seconds(command, options.repeat), goal * seconds / 10)


def _command_seconds(command: Sequence[object], repeat: int) -> float:
    """Return the median wall time of a command, after one that fills the page cache."""
    times = []
    for _ in range(repeat + 1):
        begin = perf_counter()
        _lines(command)
        times.append(perf_counter() - begin)
    return median(times[1:])


def _lines(command: Sequence[object]) -> list[str]:
    """Run a program and return what it printed; Unavailable where it fails."""
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, command))} failed:\n{result.stderr[-2000:]}")
    return result.stdout.splitlines()


GROUPS = (
    Group("qwen-q8_0", qwen("Q8_0", 70, 1.2)),
    Group("qwen-q4_k_m", qwen("Q4_K_M", 45, 0.9)),
    Group("qwen-codec", qwen_codec),
    Group("omnivoice", omnivoice),
    Group("omnivoice-codec", omnivoice_codec),
    Group("busy", busy),
)
"""All that run.py measures, in the order of its table."""
