"""The code predictor with the frames of several utterances at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine import Program
from ..nn.slot_cache import SlotCache
from .choices import Choices, Choose
from .code_predictor import CodePredictor
from .expanded_frame import ExpandedFrame
from .kernel_predictor import FrameBatch, KernelBatch

FloatArray = NDArray[np.float32]


def predictor_batch(predictor: CodePredictor, kv_type: str, capacity: int) -> FrameBatch:
    """Return what expands up to `capacity` frames together: the kernel of this device, or programs."""
    kernel = predictor.kernel
    if kernel is None:
        return CodePredictorBatch(predictor, kv_type, capacity)
    return KernelBatch(kernel, lambda: CodePredictorBatch(predictor, kv_type, capacity))


class CodePredictorBatch:
    """Expands up to `capacity` frames together. A frame remembers nothing, so whose they are does not matter."""

    def __init__(self, predictor: CodePredictor, kv_type: str, capacity: int) -> None:
        self._predictor = predictor
        self._capacity = capacity
        self._cache = SlotCache(predictor.engine, predictor.config, kv_type)
        self._programs: dict[int, list[Program]] = {}

    def expand(
        self, hiddens: FloatArray, firsts: Sequence[int], choices: Sequence[Choose]
    ) -> list[ExpandedFrame | Exception]:
        """Return the frames that begin with some codes; where a choice fails, what it raised.

        Args:
            hiddens: [frames, talker width], the talker's normed states.
            firsts: code 0 of each frame.
            choices: for each frame, what picks code 1, 2, ... from its logits.
        """
        embeddings, codebooks, count = self._predictor.embeddings, self._predictor.codebooks, len(firsts)
        codes = np.zeros((count, codebooks), np.int32)
        codes[:, 0] = firsts
        rows = embeddings.rows(codes[:, 0])
        totals = rows.copy()
        chosen = Choices(choices)
        programs = self._programs_for(count)
        x = np.stack([hiddens, rows], axis=1).reshape(2 * count, -1)
        for codebook in range(1, codebooks):
            logits = programs[codebook - 1](x=x)["logits"].reshape(count, -1)
            codes[:, codebook] = chosen.codes(logits, codebook)
            x = embeddings.rows(codes[:, codebook], codebook)
            totals += x
        frames: list[ExpandedFrame | Exception] = list(map(ExpandedFrame, codes, totals))
        for index, error in chosen.failures.items():
            frames[index] = error
        return frames

    def clear(self) -> None:
        """Let go of memory and programs."""
        self._cache.clear()
        self._programs.clear()

    def _programs_for(self, frames: int) -> list[Program]:
        """Return the runs of a frame: two positions, then one at a time."""
        if self._cache.slots == 0:
            self._cache.resize(self._capacity, self._predictor.codebooks)
        programs = self._programs.get(frames)
        if programs is None:
            runs = [(0, 2), *((start, 1) for start in range(2, self._predictor.codebooks))]
            programs = self._programs[frames] = [self._build(frames, start, tokens) for start, tokens in runs]
        return programs

    def _build(self, frames: int, start: int, tokens: int) -> Program:
        return self._predictor.program(
            start, tokens, lambda graph: self._cache.fixed_view(graph, frames, tokens, start), frames=frames
        )
