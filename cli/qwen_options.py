"""The options of `qwen-tts`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..core.limits import LARGEST_COUNT, LONGEST_SECONDS
from .options import INPUT_FILE, FiniteFloat, Whole, option_group
from .speech_options import SpeechOptions, device_list_option, line_options

REFERENCE_FLAGS = ("ref_wav", "ref_text", "ref_spk", "ref_rvq")
DEFAULT_CODEC_SECONDS = 24.0
MOST_PARALLEL = 256

SECTIONS = {
    "Model": ("model", "codec"),
    "Output": ("output", "format_name", "stream_by_line", "fail_fast", "stream_frames"),
    "Voice": ("lang", "speaker", "instruct", "ref_wav", "ref_text", "ref_spk", "ref_rvq"),
    "Length": ("max_new", "no_guard", "no_chunk", "codec_chunk_dur"),
    "Sampling": (
        *("seed", "greedy", "temp", "top_k", "top_p", "rep_pen"),
        *("sub_temp", "sub_top_k", "sub_top_p"),
    ),
    "Machine": ("device", "threads", "parallel", "kv_type", "no_fa", "clamp_fp16", "dump"),
    "Lists": ("list_speakers", "list_languages", "list_devices"),
}
"""The headings of `--help`."""


@dataclass(frozen=True)
class Options(SpeechOptions):
    """The command line, one field for each option."""

    lang: str
    speaker: str | None
    ref_spk: Path | None
    max_new: int
    codec_chunk_dur: float
    parallel: int
    stream_frames: int | None
    no_chunk: bool
    no_guard: bool
    greedy: bool
    temp: float | None
    top_k: int | None
    top_p: float | None
    rep_pen: float | None
    sub_temp: float | None
    sub_top_k: int | None
    sub_top_p: float | None
    kv_type: str
    list_speakers: bool

    @property
    def uses_demo(self) -> bool:
        """Neither model file was named."""
        return self.model is None and self.codec is None

    @property
    def lists(self) -> bool:
        """Something about the model is to be listed, and nothing spoken."""
        return self.list_speakers or self.list_languages

    @property
    def files_read(self) -> dict[str, Path | None]:
        """What is read, by the options that name it."""
        return {**super().files_read, "--ref-spk": self.ref_spk}

    @property
    def reference_flags(self) -> list[str]:
        """The clone options that were given, as they are typed."""
        return [flag_name(name) for name in REFERENCE_FLAGS if getattr(self, name) is not None]


def flag_name(field: str) -> str:
    """Return how the option of a field is typed."""
    return f"--{field.replace('_', '-')}"


def model_options() -> Callable[[Any], Any]:
    """Add the model files."""
    return option_group(
        click.option("--model", type=INPUT_FILE, help="Talker GGUF.  [default: the packaged demo voice]"),
        click.option("--codec", type=INPUT_FILE, help="Codec GGUF, together with --model."),
    )


def voice_options() -> Callable[[Any], Any]:
    """Add language, voice and reference options."""
    return option_group(
        click.option(
            "--lang", metavar="NAME", default="auto", show_default=True, help="Language of the text."
        ),
        click.option("--speaker", metavar="NAME", help="Voice of a custom voice model."),
        click.option(
            "--instruct", metavar="TEXT", help="How to speak (custom voice), or the voice to design."
        ),
        click.option("--ref-wav", type=INPUT_FILE, help="Voice to clone (base models): a recording."),
        click.option(
            "--ref-text",
            type=INPUT_FILE,
            help="Voice to clone: text file with what the recording says; the speech then goes on in its manner.",
        ),
        click.option(
            "--ref-spk",
            type=INPUT_FILE,
            help="Voice to clone: stored speaker embedding, instead of --ref-wav.",
        ),
        click.option(
            "--ref-rvq",
            type=INPUT_FILE,
            help="Voice to clone: stored codes of the recording, with --ref-spk and --ref-text.",
        ),
    )


def length_options() -> Callable[[Any], Any]:
    """Add limits, and the way text and audio are cut."""
    return option_group(
        click.option(
            "--max-new",
            metavar="N",
            type=Whole(min=1, max=LARGEST_COUNT),
            default=2048,
            show_default=True,
            help="Most frames of audio to make (12.5 are a second), for each piece of text.",
        ),
        click.option(
            "--no-guard",
            is_flag=True,
            help="Do not end speech that repeats itself or outlasts what its text can take.",
        ),
        click.option("--no-chunk", is_flag=True, help="Speak long text in one pass, not cut at sentences."),
        line_options(),
        click.option(
            "--stream-frames",
            metavar="N",
            type=Whole(min=1, max=LARGEST_COUNT),
            help="Most frames in one write to a pipe; the first writes are of 1, 2, 4 ...  [default: 4]",
        ),
        click.option(
            "--codec-chunk-dur",
            metavar="SECONDS",
            type=FiniteFloat(min=0, max=LONGEST_SECONDS),
            default=DEFAULT_CODEC_SECONDS,
            show_default=True,
            help="Most seconds of audio that the codec decodes at once; 0: the default.",
        ),
    )


def parallel_option() -> Callable[[Any], Any]:
    """Add `--parallel`."""
    return click.option(
        "--parallel",
        metavar="N",
        type=Whole(min=1, max=MOST_PARALLEL),
        default=1,
        show_default=True,
        help="How many lines, or pieces of a long text, to speak at once: more memory, far less time in all.",
    )


def list_options() -> Callable[[Any], Any]:
    """Add the options that print a list instead of speaking."""
    return option_group(
        click.option("--list-speakers", is_flag=True, help="Print the speakers of the model."),
        click.option("--list-languages", is_flag=True, help="Print the languages of the model."),
        device_list_option(),
    )
