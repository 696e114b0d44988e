"""A listener who knows twenty sentences in the voices of the demo voice's teacher, and says what it heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from support.cepstra import FRAMES_PER_SECOND, alignment_costs, cepstra
from support.data import DATA

REFERENCES = DATA / "demo" / "references.npz"
SENTENCES = DATA / "demo" / "sentences.txt"
STEPS_PER_DEVIATION = 31
"""References are stored as 8-bit integers, in these parts of a standard deviation; 4 deviations are the most."""


def sentences() -> list[str]:
    """The sentences that the listener knows."""
    return SENTENCES.read_text(encoding="utf-8").splitlines()


@dataclass(frozen=True)
class Heard:
    """What an utterance sounded like: the nearest sentence and voice of all, and how it differs from what was meant.

    Attributes:
        meant, sentence: indices of the sentence that was to be said and of the nearest one.
        voice: name of the nearest voice.
        distance: from the sentence that was meant, in the voice that was meant (see `alignment_costs`).
        length: of the utterance, as a part of the reference's.
    """

    meant: int
    sentence: int
    voice: str
    distance: float
    length: float


@dataclass(frozen=True)
class Listener:
    """Knows references by (voice, sentence): cepstra [frames, coefficients]."""

    voices: tuple[str, ...]
    references: dict[tuple[str, int], npt.NDArray[np.floating]]

    @classmethod
    def load(cls, path: Path = REFERENCES) -> Listener:
        """Read what make_demo_references.py wrote."""
        with np.load(path) as file:
            voices = tuple(str(name) for name in file["voices"])
            lengths = file["lengths"]
            frames = file["frames"].astype(np.float32) / STEPS_PER_DEVIATION
        ends = np.cumsum(lengths)[:-1]
        keys = [(voice, index) for voice in voices for index in range(lengths.shape[1])]
        return cls(voices, dict(zip(keys, np.split(frames, ends), strict=True)))

    def hear(self, samples: npt.NDArray[np.float32], rate: int, *, voice: str, sentence: int) -> Heard:
        """Compare an utterance [n] that was to be `sentence` in `voice` with everything that is known."""
        spoken = cepstra(samples, rate)
        keys = list(self.references)
        costs = alignment_costs(spoken, [self.references[key] for key in keys])
        nearest_voice, nearest = keys[int(np.argmin(costs))]
        return Heard(
            meant=sentence,
            sentence=nearest,
            voice=nearest_voice,
            distance=float(costs[keys.index((voice, sentence))]),
            length=len(samples) / rate * FRAMES_PER_SECOND / len(self.references[voice, sentence]),
        )


def complaints(heard: Iterable[Heard], voice: str, clarity: float, lengths: tuple[float, float]) -> list[str]:
    """Return what is wrong with utterances in `voice`, one line each; nothing when they say what was meant.

    Args:
        heard: the utterances.
        voice: who was to speak.
        clarity: greatest mean distance from the references.
        lengths: least and greatest length of an utterance, as a part of the reference's.
    """
    utterances = list(heard)
    mean = float(np.mean([each.distance for each in utterances]))
    tests: tuple[tuple[str, Callable[[Heard], bool]], ...] = (
        ("another sentence is heard", lambda each: each.sentence != each.meant),
        ("another voice is heard", lambda each: each.voice != voice),
        ("too short or too long", lambda each: not lengths[0] <= each.length <= lengths[1]),
    )
    found = [f"{what}: {each}" for what, wrong in tests for each in utterances if wrong(each)]
    return found + ([f"unclear: mean distance {mean:.3f} > {clarity}"] if mean > clarity else [])
