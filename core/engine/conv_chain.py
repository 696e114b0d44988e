"""Convolutions one after the other as kernels for NVIDIA GPUs (`cuda/`), where a module was built with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ggtts import _native

from .engine import Engine
from .failures import native_failures
from .state import State

FloatArray = NDArray[np.float32]

Trunk = Literal["apart", "begins", "joins"]
Products = Literal["tf32", "f16", "f32"]

USUAL_PRODUCTS: Products = "f16"
"""How factors are rounded as a rule. Both float16 and TF32 have 10 bits of mantissa; float16 is twice as fast, and
sums are float32 with either. What lies beyond its range (65504) is cut off."""


@dataclass(frozen=True)
class ChainLayer:
    """One causal convolution of a chain.

    Attributes:
        matrices: [taps, stride * channels, inputs], of the oldest input first.
        bias: [stride * channels], or None.
        dilation: inputs between two taps, plus one.
        stride: samples that come out for each that goes in, side by side in the outputs.
        snake: frequency and magnitude [channels] of x + sin^2(x frequency) magnitude behind it; None for none.
        trunk: whether the result, before its snake, is what later layers are added to, or is added to that itself and
            takes its place.
        limited: whether samples are limited to -1 to 1.
    """

    matrices: FloatArray
    bias: FloatArray | None
    dilation: int = 1
    stride: int = 1
    snake: tuple[FloatArray, FloatArray] | None = None
    trunk: Trunk = "apart"
    limited: bool = False

    @property
    def memory_shape(self) -> tuple[int, int] | None:
        """[inputs, length] of what a stream keeps, None where it keeps nothing."""
        taps, _, inputs = self.matrices.shape
        return (inputs, (taps - 1) * self.dilation) if taps > 1 else None


class ConvChain:
    """Kernels, weights and memory for intermediate results of a chain.

    Any number of threads may use it; the device takes them one at a time. What a stream is computed to does not depend
    on which others take part, nor on where its sequence is cut.

    Attributes:
        dtype: of the inputs, and of what streams keep.
    """

    def __init__(
        self, engine: Engine, products: Products | None = None, *, emulated: int | None = None
    ) -> None:
        """Begin a chain without layers.

        Args:
            engine: its device.
            products: how factors are rounded; None keeps all bits where the engine does, else `USUAL_PRODUCTS`.
            emulated: loops on the CPU that stand for so many processors of a GPU: for tests.

        Raises:
            EngineError: the device has no such kernels; `fits` tells beforehand.
        """
        products = products or ("f32" if engine.exact else USUAL_PRODUCTS)
        self.dtype = "f16" if products == "f16" else "f32"
        with native_failures():
            self._chain = _native.ConvChain(engine.backend, products, emulated=emulated)

    @staticmethod
    def fits(engine: Engine) -> bool:
        """Tell whether this device runs such kernels."""
        return _native.ConvChain.fits(engine.backend)

    def add(self, layer: ChainLayer) -> None:
        """Bring one more layer to the device.

        Raises:
            ValueError: it does not go with those before.
            EngineError: the device has not enough memory.
        """
        frequency, magnitude = layer.snake or (None, None)
        with native_failures():
            self._chain.add(
                np.ascontiguousarray(layer.matrices, np.float32),
                layer.bias,
                dilation=layer.dilation,
                stride=layer.stride,
                frequency=frequency,
                magnitude=magnitude,
                trunk=layer.trunk,
                limited=layer.limited,
            )

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return self._chain.layers

    def run(self, x: State, time: int, memory: State, lanes: Sequence[int]) -> FloatArray:
        """Compute the next `time` positions of some streams.

        Args:
            x: on the device, a tensor "x" that begins with [inputs, time, streams].
            time: positions of each stream.
            memory: on the device, "0", "1", ...: [inputs, length, lanes] for each layer that keeps something.
            lanes: where each stream has its memory, which is renewed; no two the same, unless nobody wants them.

        Returns:
            [streams, time * product of strides, channels].

        Raises:
            EngineError: the device failed or ran out of memory.
        """
        with native_failures():
            return self._chain.run(x.native, time, memory.native, list(lanes))
