"""An observer that remembers everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from ggtts.core.speech.observer import Observer


class Recorder(Observer):
    """Keeps what it is told: pieces as (number, count), frame counts, stages by piece and name."""

    def __init__(self, *, stages: bool = True) -> None:
        self.wants_stages = stages
        self.pieces: list[tuple[int, int]] = []
        self.frames: list[int] = []
        self.stages: dict[int, dict[str, np.ndarray]] = {0: {}}

    def piece(self, number: int, count: int) -> None:
        self.pieces.append((number, count))
        self.stages[number] = {}

    def frame(self, frames: int) -> None:
        self.frames.append(frames)

    def stage(self, name: str, values: np.ndarray[Any, Any]) -> None:
        piece = self.pieces[-1][0] if self.pieces else 0
        assert name not in self.stages[piece], f"stage {name} is given twice"
        self.stages[piece][name] = np.array(values)
