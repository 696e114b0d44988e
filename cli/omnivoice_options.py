"""The options of `omnivoice-tts`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ..core.limits import (
    GUIDANCE,
    LAYER_PENALTY,
    LONGEST_SECONDS,
    MOST_STEPS,
    NOISE,
    SHIFT,
    SPEED,
)
from .options import INPUT_FILE, FiniteFloat, RangedFloat, Whole, option_group, seed_option
from .speech_options import SpeechOptions, device_list_option, dump_option, line_options

NAME = "omnivoice-tts"

SECTIONS = {
    "Required": ["model", "codec", "output"],
    "Voice and language": [
        *("lang", "instruct", "ref_wav", "ref_text", "ref_rvq", "no_denoise", "no_preprocess_prompt"),
    ],
    "Output": ["format_name", "no_postprocess", "stream_by_line", "fail_fast"],
    "Dubbing": ["srt", "srt_report"],
    "Length": ["duration", "speed", "chunk_duration", "chunk_threshold"],
    "Generation": [
        *(
            "seed",
            "steps",
            "guidance",
            "t_shift",
            "layer_penalty",
            "position_temp",
            "class_temp",
            "cfg_compat",
        ),
    ],
    "Machine": ["device", "threads", "no_fa", "clamp_fp16"],
    "Debug": ["dump", "llm_test", "maskgit_test"],
    "Lists": ["list_languages", "list_devices"],
}
"""The options by the headings that `--help` has."""


@dataclass(frozen=True)
class Options(SpeechOptions):
    """The command line, one field for each option."""

    lang: str | None
    no_preprocess_prompt: bool
    no_denoise: bool
    duration: float
    speed: float | None
    chunk_duration: float
    chunk_threshold: float
    no_postprocess: bool
    srt: Path | None
    srt_report: Path | None
    steps: int
    guidance: float
    t_shift: float
    layer_penalty: float
    position_temp: float
    class_temp: float
    cfg_compat: bool
    llm_test: Path | None
    maskgit_test: bool

    @property
    def has_reference(self) -> bool:
        """A voice to clone was named."""
        return self.ref_wav is not None or self.ref_rvq is not None

    @property
    def files_read(self) -> dict[str, Path | None]:
        """What is read, by the options that name it."""
        from ..core.formats.voice_notes import notes_path

        notes = None if self.ref_rvq is None else notes_path(self.ref_rvq)
        own = {"--ref-rvq (its notes)": notes, "--srt": self.srt, "--llm-test": self.llm_test}
        return {**super().files_read, **own}

    @property
    def debug_mode(self) -> str | None:
        """The debug option that was given, as it is typed."""
        if self.llm_test is not None:
            return "--llm-test"
        return "--maskgit-test" if self.maskgit_test else None


def model_options() -> Callable[[Any], Any]:
    """Add the model files."""
    return option_group(
        click.option("--model", type=INPUT_FILE, help="Language model GGUF (omnivoice-base-*.gguf)."),
        click.option("--codec", type=INPUT_FILE, help="Codec GGUF (omnivoice-tokenizer-*.gguf)."),
    )


def voice_options() -> Callable[[Any], Any]:
    """Add language, voice and reference options."""
    return option_group(
        click.option(
            "--lang",
            metavar="NAME",
            help="Language of the text: name or code of one of 646.  [default: None, the model finds out]",
        ),
        click.option(
            "--instruct",
            metavar="TEXT",
            help='Voice to design: "female, young adult, low pitch, british accent".  [default: None]',
        ),
        click.option("--ref-wav", type=INPUT_FILE, help="Voice to clone: a recording, best of 3 to 10 s."),
        click.option(
            "--ref-text", type=INPUT_FILE, help="Voice to clone: text file with what the recording says."
        ),
        click.option(
            "--ref-rvq",
            type=INPUT_FILE,
            help="Voice to clone: codes made by omnivoice-codec, instead of --ref-wav.",
        ),
        click.option(
            "--no-denoise", is_flag=True, help="Do not ask for clean speech from a noisy reference."
        ),
        click.option(
            "--no-preprocess-prompt",
            is_flag=True,
            help="Leave silence in the reference, and the end of its text as it is.",
        ),
    )


def length_options() -> Callable[[Any], Any]:
    """Add durations, and the way text and audio are cut."""
    return option_group(
        click.option(
            "--duration",
            type=FiniteFloat(min=0, max=LONGEST_SECONDS),
            default=0.0,
            metavar="SECONDS",
            help="How long the speech is.  [default: as the text usually takes]",
        ),
        click.option(
            "--speed",
            type=RangedFloat(SPEED),
            metavar="N",
            help="How many times faster than usual, instead of --duration.",
        ),
        click.option(
            "--chunk-duration",
            type=FiniteFloat(max=LONGEST_SECONDS),
            default=15.0,
            metavar="SECONDS",
            show_default=True,
            help="Length of the chunks that a long text is cut into; 0 or less cuts nothing.",
        ),
        click.option(
            "--chunk-threshold",
            type=FiniteFloat(max=LONGEST_SECONDS),
            default=30.0,
            metavar="SECONDS",
            show_default=True,
            help="Texts that take less are not cut.",
        ),
        click.option(
            "--no-postprocess", is_flag=True, help="Cut no silence, fade nothing: as the codec decodes it."
        ),
        line_options(),
        click.option(
            "--srt",
            type=INPUT_FILE,
            help="Subtitles to dub (SRT, VTT, ASS) instead of standard input: each cue in its slot.",
        ),
        click.option(
            "--srt-report",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="With --srt: write what became of each cue, as JSON.",
        ),
    )


def generation_options() -> Callable[[Any], Any]:
    """Add how the codes are found."""
    return option_group(
        seed_option(),
        click.option(
            "--steps",
            metavar="N",
            type=Whole(min=1, max=MOST_STEPS),
            default=32,
            show_default=True,
            help="Passes through the model; fewer are faster.",
        ),
        *(_number(*row) for row in _NUMBERS),
        click.option(
            "--cfg-compat",
            is_flag=True,
            help="Guidance as omnivoice.cpp computes it, for comparisons with it.",
        ),
    )


_NUMBERS = (
    ("--guidance", RangedFloat(GUIDANCE), 2.0, "How closely the text is followed; 0: without guidance."),
    ("--t-shift", RangedFloat(SHIFT), 0.1, "Below 1: fewer codes in the first steps."),
    ("--layer-penalty", RangedFloat(LAYER_PENALTY), 5.0, "Puts off codes of higher codebooks."),
    ("--position-temp", RangedFloat(NOISE), 5.0, "Randomness in the choice of places."),
    ("--class-temp", RangedFloat(NOISE), 0.0, "Randomness in the choice of codes."),
)


def _number(flag: str, kind: click.ParamType[Any], default: float, text: str) -> Callable[[Any], Any]:
    return click.option(flag, metavar="N", type=kind, default=default, show_default=True, help=text)


def debug_options() -> Callable[[Any], Any]:
    """Add dumps and tests of the language model."""
    return option_group(
        dump_option(),
        click.option(
            "--llm-test",
            type=INPUT_FILE,
            help="One run of the language model on this file (int32 K, S, ids[K][S], mask[S]); -o takes the logits.",
        ),
        click.option(
            "--maskgit-test",
            is_flag=True,
            help="Find the codes of the text without random numbers; -o takes them as int32 [K][T].",
        ),
    )


def list_options() -> Callable[[Any], Any]:
    """Add the options that print a list instead of speaking."""
    return option_group(
        click.option("--list-languages", is_flag=True, help="Print the languages: code, name, other names."),
        device_list_option(),
    )
