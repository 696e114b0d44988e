"""A step of the talker of Qwen3-TTS as one kernel for NVIDIA GPUs (`cuda/`), where a module was built with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ggtts import _native

from .failures import native_failures
from .state import State
from .weights import Weights

FloatArray = NDArray[np.float32]


@dataclass(frozen=True)
class TalkerSizes:
    """Sizes of a talker; `vocabulary` is that of the first code of a frame."""

    layers: int
    width: int
    ffn_width: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    norm_eps: float

    def native(self) -> _native.TalkerSizes:
        """Return them as the kernel takes them."""
        return _native.TalkerSizes(**vars(self))


class BegunSteps:
    """Positions that a device computes meanwhile. Whatever is next on that device waits for them."""

    def __init__(self, native: _native.BegunSteps) -> None:
        """See `TalkerPlan.begin_together`."""
        self._native = native

    def result(self) -> tuple[FloatArray, FloatArray]:
        """Wait for the normed last states [slots, width] and the logits [slots, vocabulary].

        Raises:
            EngineError: the device failed.
        """
        with native_failures():
            return self._native.result()


class TalkerPlan:
    """Memory of the kernel, which shares matrices, keys and values with the programs of the same weights.

    Any number of threads may use it; the device takes them one at a time.
    """

    def __init__(
        self,
        weights: Weights,
        scope: str,
        sizes: TalkerSizes,
        rope_theta: float,
        *,
        emulated: tuple[int, int] | None = None,
    ) -> None:
        """Bring the weights whose names begin with `scope` to the device, unless they are there.

        Args:
            weights: the file on its device.
            scope: prefix of the names.
            sizes: what the file states.
            rope_theta: base of the rotary frequencies.
            emulated: loops on the CPU that stand for so many blocks and warps of a GPU: for tests.

        Raises:
            ValueError: the kernel does not know these weights; `fits` tells beforehand.
            ModelFileError: weights and sizes contradict each other.
            EngineError: the device fails or has not enough memory.
        """
        with native_failures():
            self._plan = _native.TalkerPlan(
                weights.native, scope, sizes.native(), rope_theta, emulated=emulated
            )

    @staticmethod
    def fits(weights: Weights, scope: str, sizes: TalkerSizes) -> bool:
        """Tell whether this device runs the kernel, and the kernel knows the types and parts of these weights."""
        return _native.TalkerPlan.fits(weights.native, scope, sizes.native())

    @property
    def most_positions(self) -> int:
        """Positions that it can attend to."""
        return self._plan.most_positions

    def step(self, state: State, slot: int, position: int, row: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute one more position.

        Args:
            state: keys and values of `KVCache` or `SlotCache`.
            slot: of the state, which the keys and values of this position are added to.
            position: how many positions the slot has.
            row: the input, [width].

        Returns:
            The normed last state [width] and the logits [vocabulary].

        Raises:
            EngineError: the device failed.
        """
        with native_failures():
            return self._plan.step(state.native, slot, position, np.ascontiguousarray(row, np.float32))

    def prepare_together(self) -> bool:
        """Take memory for steps of several slots; tell whether the kernel has such steps here.

        Raises:
            EngineError: the device failed or has not enough memory; there are none from then on.
        """
        with native_failures():
            return self._plan.prepare_together()

    def begin_together(
        self, state: State, slots: Sequence[int], positions: Sequence[int], rows: FloatArray
    ) -> BegunSteps:
        """Begin to compute one more position of each of some slots; bits do not depend on the other ones.

        Args:
            state: keys and values of `SlotCache`.
            slots: those that go on, none twice.
            positions: how many positions each of them has.
            rows: the inputs, [slots, width].

        Raises:
            EngineError: the device failed.
        """
        which, where = np.asarray(slots, np.int32), np.asarray(positions, np.int32)
        with native_failures():
            return BegunSteps(
                self._plan.begin_together(state.native, which, where, np.ascontiguousarray(rows, np.float32))
            )

    def step_together(
        self, state: State, slots: Sequence[int], positions: Sequence[int], rows: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Compute one more position of each of some slots: `begin_together`, and `BegunSteps.result`."""
        return self.begin_together(state, slots, positions, rows).result()
