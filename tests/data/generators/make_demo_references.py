#!/usr/bin/env python3
"""Write tests/data/demo/references.npz: what the teacher of the demo voice sounds like, as cepstra.

    PYTHONPATH=tests python tests/data/generators/make_demo_references.py

Needs the program espeak-ng (1.51 was used for the voice and for these). Only features of its output are stored: 12
rounded numbers for each 20 ms, from which no recording can be made again.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

import numpy as np

from support.cepstra import cepstra
from support.listening import REFERENCES, STEPS_PER_DEVIATION, sentences

WORDS_PER_MINUTE = 155
RATE = 22050
WAV_HEADER_BYTES = 44
AUDIBLE = 120
"""Least sample value, of 32768, that counts as sound."""
SILENCE_BEFORE, SILENCE_AFTER = 0.05, 0.11
"""Seconds around the sound, as in the audio that the voice learnt from."""


@dataclass(frozen=True)
class Teacher:
    """A speaker of the demo voice, and the options of espeak-ng that taught it."""

    name: str
    voice: str
    pitch: int
    amplitude: int

    def say(self, text: str) -> np.ndarray:
        """Return the samples [n], int16 at RATE, with little silence around them."""
        options = ["-v", self.voice, "-p", str(self.pitch), "-a", str(self.amplitude)]
        command = ["espeak-ng", *options, "-s", str(WORDS_PER_MINUTE), "--stdout", text]
        output = subprocess.run(command, capture_output=True, check=True).stdout
        samples = np.frombuffer(output[WAV_HEADER_BYTES:], "<i2")
        audible = np.flatnonzero(np.abs(samples.astype(int)) > AUDIBLE)
        around = round(SILENCE_BEFORE * RATE), round(SILENCE_AFTER * RATE)
        return np.pad(samples[audible[0] : audible[-1] + 1], around)


TEACHERS = (
    Teacher("adam", "en-us", pitch=45, amplitude=62),
    Teacher("eva", "en-us+f2", pitch=50, amplitude=75),
    Teacher("dario", "en-us+Diogo", pitch=50, amplitude=105),
    Teacher("nora", "en-us+steph", pitch=50, amplitude=75),
)


def main() -> None:
    features = [[cepstra(teacher.say(text) / 32768, RATE) for text in sentences()] for teacher in TEACHERS]
    frames = np.concatenate([frames for row in features for frames in row])
    np.savez_compressed(
        REFERENCES,
        voices=np.array([teacher.name for teacher in TEACHERS]),
        lengths=np.array([[len(frames) for frames in row] for row in features], np.int16),
        frames=np.clip(np.round(frames * STEPS_PER_DEVIATION), -127, 127).astype(np.int8),
    )
    print(f"{REFERENCES}: {REFERENCES.stat().st_size} bytes")


if __name__ == "__main__":
    main()
