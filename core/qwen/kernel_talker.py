"""The talker's steps as one kernel on NVIDIA GPUs, where ggtts was built with it.

A step is then one launch rather than some 600 operations, which cost more to start than to run. Prompts run as
programs all the same: both work on the same weights, keys and values.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..engine import State, Weights
from ..engine.talker_plan import BegunSteps, TalkerPlan, TalkerSizes
from ..errors import EngineError
from ..formats.qwen import TalkerFile
from ..nn.config import USUAL, TransformerConfig

FloatArray = NDArray[np.float32]

SCOPE = "talker."

_logger = logging.getLogger("ggtts.engine")


def talker_sizes(file: TalkerFile) -> TalkerSizes:
    """Return what the kernel has to know of a file."""
    sizes = file.talker
    return TalkerSizes(
        layers=sizes.layers,
        width=sizes.width,
        ffn_width=sizes.ffn_width,
        heads=sizes.heads,
        kv_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        vocabulary=file.vocabulary,
        norm_eps=sizes.norm_eps,
    )


class KernelTalker:
    """Computes positions on the device. Any number of sequences and threads share one."""

    def __init__(self, plan: TalkerPlan) -> None:
        self._plan = plan

    @classmethod
    def open(cls, weights: Weights, file: TalkerFile, config: TransformerConfig) -> KernelTalker | None:
        """Return the kernel for a file, None where this device or this build has none for it."""
        sizes = talker_sizes(file)
        if config.window or config.arithmetic != USUAL or not TalkerPlan.fits(weights, SCOPE, sizes):
            return None
        try:
            return cls(TalkerPlan(weights, SCOPE, sizes, config.rope_theta))
        except EngineError as error:
            _logger.warning("%s: the talker goes on without its kernel, and slower", error)
            return None

    def takes(self, position: int) -> bool:
        """Tell whether the kernel reaches as far as a position."""
        return position < self._plan.most_positions

    def step(self, state: State, slot: int, position: int, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Add one position to a slot of keys and values; see `TalkerPlan.step`."""
        return self._plan.step(state, slot, position, row)

    @cached_property
    def takes_several(self) -> bool:
        """Whether the kernel adds positions of several slots at once; its memory is taken when this is first asked."""
        try:
            return self._plan.prepare_together()
        except EngineError as error:
            _logger.warning("%s: several utterances go on without the kernel, and slower", error)
            return False

    def begin_together(
        self, state: State, slots: Sequence[int], positions: Sequence[int], rows: FloatArray
    ) -> BegunSteps:
        """Begin to add one position to each of some slots of keys and values; see `TalkerPlan.begin_together`."""
        return self._plan.begin_together(state, slots, positions, rows)
