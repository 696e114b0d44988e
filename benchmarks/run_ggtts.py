#!/usr/bin/env python3
"""Measure ggtts in a process of its own; qwen.py calls this."""

from __future__ import annotations

from dataclasses import replace

from measurement import Measurement, peak_memory_mb, report
from runner_options import runner_options

from ggtts.core.qwen.model import QwenTTS, Sampling, Speech, SpeechRequest


def main() -> None:
    """Speak once to warm up, then `--repeat` times, and report each."""
    parser = runner_options(__doc__ or "")
    parser.add_argument("--device", default=None, help="cpu, cuda0, ... (default: the best)")
    options = parser.parse_args()
    with QwenTTS.open(options.talker, options.codec, device=options.device, threads=options.threads) as model:
        request = SpeechRequest(
            options.text, language="english", sampling=Sampling(seed=42), max_frames=options.frames
        )
        for run in range(options.repeat + 1):
            speech = model.speak(replace(request, guard=False))
            if speech.frames != options.frames:
                raise SystemExit(
                    f"{speech.frames} frames instead of {options.frames}: the model ended by itself"
                )
            if run > 0:
                report(measured(speech))


def measured(speech: Speech) -> Measurement:
    """Return the measurement of one utterance."""
    timings = speech.timings
    return Measurement(
        prefill_ms=1000 * timings.prefill_seconds,
        talker_ms_per_frame=1000 * timings.talker_seconds / speech.frames,
        predictor_ms_per_frame=1000 * timings.predictor_seconds / speech.frames,
        codec_seconds_per_second=timings.codec_seconds / speech.seconds,
        real_time_factor=timings.total_seconds / speech.seconds,
        peak_memory_mb=peak_memory_mb(),
    )


if __name__ == "__main__":
    main()
