#!/usr/bin/env python3
"""Measure the official package `omnivoice` (PyTorch) on the CPU, in a venv of its own; omnivoice.py calls this."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from measurement import peak_memory_mb
from omnivoice_measurement import report, timed
from omnivoice_options import SAMPLE_RATE, measured_options, random_codes, recording

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def main() -> None:
    """Warm up with two steps, then measure speech, then the codec."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", help="folder in the layout of the published checkpoint")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="of the language model")
    measured_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    os.environ["HF_HUB_OFFLINE"] = "1"
    warnings.filterwarnings("ignore")
    import_torchaudio()
    peer = Peer(options)
    peer.measure_speech()
    report("speech_memory_mb", peak_memory_mb())
    with torch.inference_mode():
        peer.measure_codec()
    report("codec_memory_mb", peak_memory_mb())


def import_torchaudio() -> None:
    """Import torchaudio, whose native part cannot be loaded where it was built for a PyTorch with CUDA.

    The package needs none of that part. torchaudio does without it where it does not find it.
    """
    with suppress(OSError):
        import torchaudio

        return
    for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
        del sys.modules[name]
    with patch.object(Path, "glob", lambda *_: iter(())):
        import torchaudio  # noqa: F401


def official_class() -> Any:
    """Return the class of the package rather than look into omnivoice.py, which lies beside this file."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [folder for folder in sys.path if folder != here]
    from omnivoice.models.omnivoice import OmniVoice
    from transformers import logging

    logging.set_verbosity_error()
    return OmniVoice


class Peer:
    """The package with the checkpoint loaded."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._model = official_class().from_pretrained(options.checkpoint, dtype=DTYPES[options.dtype])
        self._finding_seconds = 0.0
        self._find_codes = self._model._generate_iterative
        self._model._generate_iterative = self._timed_find_codes

    def measure_speech(self) -> None:
        """Speak as often as the options say, and report each time."""
        options = self._options
        self._speak(2)
        for _ in range(options.repeat):
            with timed("few_steps_seconds"):
                milliseconds = self._speak(options.few_steps)
            report("step_ms", milliseconds)
        for _ in range(options.repeat_many):
            with timed("many_steps_seconds"):
                milliseconds = self._speak(options.many_steps)
            report("step_ms", milliseconds)

    def _speak(self, steps: int) -> float:
        """Speak once in so many steps; return the milliseconds of a step."""
        torch.manual_seed(42)
        options = self._options
        self._model.generate(options.text, language="en", duration=options.seconds, num_step=steps)
        return 1000 * self._finding_seconds / steps

    def _timed_find_codes(self, *arguments: object) -> object:
        begin = time.perf_counter()
        codes = self._find_codes(*arguments)
        self._finding_seconds = time.perf_counter() - begin
        expected = round(self._options.seconds * self._model.audio_tokenizer.config.frame_rate)
        if codes[0].shape[-1] != expected:
            raise SystemExit(f"{codes[0].shape[-1]} frames instead of {expected}")
        return codes

    def measure_codec(self) -> None:
        """Encode and decode as often as the options say, after once to warm up, and report each time."""
        options, codec = self._options, self._model.audio_tokenizer
        samples = torch.from_numpy(recording(options.codec_seconds))[None]
        frames = round(options.codec_seconds * codec.config.frame_rate)
        codes = torch.from_numpy(random_codes(frames, codec.config.num_quantizers)).long().T[None]

        def encode() -> None:
            self._model.create_voice_clone_prompt(
                (samples, SAMPLE_RATE), options.text, preprocess_prompt=False
            )

        codec.decode(codes)
        encode()
        for _ in range(options.repeat):
            with timed("decode", options.codec_seconds):
                codec.decode(codes)
            with timed("encode", options.codec_seconds):
                encode()


if __name__ == "__main__":
    main()
