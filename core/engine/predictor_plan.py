"""The code predictor of Qwen3-TTS as one kernel for NVIDIA GPUs (`cuda/`), where a module was built with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ggtts import _native

from .engine import Engine
from .failures import native_failures
from .weights import Weights

FloatArray = NDArray[np.float32]

FrameDraw = _native.FrameDraw
"""How the codes of one frame are chosen: do_sample, temperature, top_k, top_p, seed, frame."""

choose_code = _native.choose_code
"""(logits [entries], draw, codebooks, codebook) -> what the kernel would choose, emulated: for tests."""

kernel_product = _native.kernel_product
"""(stored rows uint8 [rows, bytes], dtype, x [columns, width], gated) -> [columns, rows] of the kernel for many
columns, emulated: for tests."""


@dataclass(frozen=True)
class PredictorSizes:
    """Sizes of a code predictor; `entries` is what each codebook but the first has."""

    layers: int
    width: int
    ffn_width: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_theta: float
    norm_eps: float
    talker_width: int
    codebooks: int
    entries: int


@dataclass(frozen=True)
class ComputedFrames:
    """What the kernel returns.

    Attributes:
        codes: int32 [frames, codebooks - 1]; -1 where the logits of a code were no numbers.
        sums: [frames, talker width], the embeddings of all codes of a frame.
        logits: [frames, codebooks - 1, entries], no frames where they were not asked for.
    """

    codes: NDArray[np.int32]
    sums: FloatArray
    logits: FloatArray


class PredictorPlan:
    """Weights and memory of the kernel. Any number of threads may use it; the device takes them one at a time."""

    def __init__(
        self,
        engine: Engine,
        weights: Weights,
        scope: str,
        sizes: PredictorSizes,
        *,
        emulated: tuple[int, int] | None = None,
    ) -> None:
        """Bring the weights whose names begin with `scope` to the device.

        Args:
            engine: the device.
            weights: the file.
            scope: prefix of the names.
            sizes: what the file states.
            emulated: loops on the CPU that stand for so many blocks and warps of a GPU: for tests.

        Raises:
            ValueError: the kernel does not know these weights; `fits` tells beforehand.
            ModelFileError: weights and sizes contradict each other.
            EngineError: the device fails or has not enough memory.
        """
        with native_failures():
            self._plan = _native.PredictorPlan(
                engine.backend, weights.file, scope, **vars(sizes), emulated=emulated
            )

    @staticmethod
    def fits(engine: Engine, weights: Weights, scope: str) -> bool:
        """Tell whether this device runs the kernel, and the kernel knows the types and parts of these weights."""
        return _native.PredictorPlan.fits(engine.backend, weights.file, scope)

    @property
    def most_columns(self) -> int:
        """Frames that are computed together, at most; more are computed one part after the other."""
        return self._plan.most_columns

    def expand(
        self, inputs: FloatArray, draws: Sequence[_native.FrameDraw], *, with_logits: bool = False
    ) -> ComputedFrames:
        """Compute frames.

        Args:
            inputs: [frames, 2, talker width], the talker's normed state and the embedding of code 0.
            draws: for each frame, how its codes are chosen.
            with_logits: return the logits, too.

        Raises:
            EngineError: the device failed.
        """
        with native_failures():
            return ComputedFrames(*self._plan.expand(inputs, list(draws), with_logits))
