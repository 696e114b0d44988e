#!/usr/bin/env python3
"""Measure OmniVoice of ggtts in a process of its own; omnivoice.py calls this."""

from __future__ import annotations

import argparse

from measurement import peak_memory_mb
from omnivoice_measurement import report, timed
from omnivoice_options import SAMPLE_RATE, measured_options, random_codes, recording

from ggtts.core.omnivoice.model import OmniVoice


def main() -> None:
    """Warm up with two steps, then measure speech, then the codec."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="language model GGUF")
    parser.add_argument("codec", help="codec GGUF")
    parser.add_argument("--device", default=None, help="cpu, cuda0, ... (default: the best)")
    measured_options(parser)
    options = parser.parse_args()
    with OmniVoice.open(options.base, options.codec, device=options.device, threads=options.threads) as model:
        measure_speech(model, options)
        report("speech_memory_mb", peak_memory_mb())
        measure_codec(model, options)
        report("codec_memory_mb", peak_memory_mb())


def measure_speech(model: OmniVoice, options: argparse.Namespace) -> None:
    """Speak as often as the options say, and report each time."""
    speak(model, options, 2)
    for _ in range(options.repeat):
        with timed("few_steps_seconds"):
            milliseconds = speak(model, options, options.few_steps)
        report("step_ms", milliseconds)
    for _ in range(options.repeat_many):
        with timed("many_steps_seconds"):
            milliseconds = speak(model, options, options.many_steps)
        report("step_ms", milliseconds)


def speak(model: OmniVoice, options: argparse.Namespace, steps: int) -> float:
    """Speak once in so many steps; return the milliseconds of a step."""
    speech = model.speak(options.text, language="en", duration=options.seconds, steps=steps, seed=42)
    expected = round(options.seconds * model.frame_rate)
    if speech.frames != expected:
        raise SystemExit(f"{speech.frames} frames instead of {expected}")
    return 1000 * speech.timings.talker_seconds / steps


def measure_codec(model: OmniVoice, options: argparse.Namespace) -> None:
    """Encode and decode as often as the options say, after once to warm up, and report each time."""
    samples = recording(options.codec_seconds)
    codes = random_codes(round(options.codec_seconds * model.frame_rate), model.info.codebooks)

    def encode() -> None:
        model.voice((samples, SAMPLE_RATE), options.text, preprocess=False)

    model.decode(codes)
    encode()
    for _ in range(options.repeat):
        with timed("decode", options.codec_seconds):
            model.decode(codes)
        with timed("encode", options.codec_seconds):
            encode()


if __name__ == "__main__":
    main()
