"""The command line that the runners of OmniVoice share, and the recording that they encode."""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt
from texts import LONGER_TEXT

SAMPLE_RATE = 24000
CODES_OF_A_BOOK = 1024
LOUDNESS = 0.2


def measured_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say what is measured; omnivoice.py passes them on."""
    measured_text(parser)
    parser.add_argument("--codec-seconds", type=float, default=10.0, help="to encode and decode (default 10)")
    parser.add_argument("--few-steps", type=int, default=8, help="default 8")
    parser.add_argument("--many-steps", type=int, default=32, help="default 32")
    parser.add_argument("--repeat", type=int, default=3, help="measured runs, after a short one (default 3)")
    parser.add_argument("--repeat-many", type=int, default=1, help="measured runs of many steps (default 1)")


def measured_text(parser: argparse.ArgumentParser) -> None:
    """Add what is spoken, how long it is, and the threads."""
    parser.add_argument("--text", default=LONGER_TEXT)
    parser.add_argument("--seconds", type=float, default=6.0, help="of speech to make (default 6)")
    parser.add_argument("--threads", type=int, default=2)


def passed_on(options: argparse.Namespace) -> list[str]:
    """Return the arguments of the options of `measured_options`."""
    parser = argparse.ArgumentParser()
    measured_options(parser)
    return [
        argument
        for name in vars(parser.parse_args([]))
        for argument in (f"--{name.replace('_', '-')}", str(getattr(options, name)))
    ]


def recording(seconds: float) -> npt.NDArray[np.float32]:
    """Return mono noise, float32 [n], loud enough to be taken for speech."""
    noise = np.random.default_rng(1).standard_normal(int(seconds * SAMPLE_RATE), np.float32)
    return LOUDNESS * noise


def random_codes(frames: int, codebooks: int) -> npt.NDArray[np.int32]:
    """Return codes int32 [frames, codebooks]."""
    return np.random.default_rng(2).integers(0, CODES_OF_A_BOOK, (frames, codebooks), np.int32)
