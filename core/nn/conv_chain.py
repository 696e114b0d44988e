"""Causal convolutions as kernels of our own: the one place that knows which devices have them.

A GPU computes the convolutions of `conv` as operations of GGML, which copies the windows of inputs to memory first, and
whose snakes and sums are launches of their own. Here a layer is one launch for all streams of a run: snake, bias and
residual are done where a result is at hand, and inputs are read where they lie.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from ..engine import Engine, State, WeightScope
from ..engine.conv_chain import ChainLayer, ConvChain, Trunk
from ..errors import EngineError
from .snake import snake_beta
from .streaming import Allocate, Memory
from .taps import bias_of, kernel_matrices, transposed_bias, transposed_matrices

_logger = logging.getLogger("ggtts.engine")

ChainMemory = tuple[Memory, ...]
Snaked = tuple[WeightScope | None, ChainLayer]
"""A layer, and the weights of the SnakeBeta before it."""


def causal_layer(
    scope: WeightScope, *, dilation: int = 1, trunk: Trunk = "apart", limited: bool = False
) -> ChainLayer:
    """What `CausalConv1d` of these weights computes, without its activation."""
    return ChainLayer(kernel_matrices(scope), bias_of(scope), dilation, trunk=trunk, limited=limited)


def transposed_layer(scope: WeightScope, *, stride: int, trunk: Trunk = "apart") -> ChainLayer:
    """What `CausalConvTranspose1d` of these weights computes, without its activation."""
    bias = transposed_bias(scope, stride)
    return ChainLayer(transposed_matrices(scope, stride), bias, stride=stride, trunk=trunk)


class ChainedConvolutions:
    """Layers one after the other, and what streams of them keep.

    Attributes:
        dtype: of the inputs, and of what streams keep.
    """

    def __init__(self, kernels: ConvChain, layers: Iterable[ChainLayer]) -> None:
        """Bring the layers to the device, one by one.

        Raises:
            EngineError: the device has not enough memory.
        """
        self._kernels = kernels
        self.dtype = kernels.dtype
        self._kept: list[tuple[int, int]] = []
        for layer in layers:
            kernels.add(layer)
            if layer.memory_shape:
                self._kept.append(layer.memory_shape)

    @property
    def layers(self) -> int:
        """How many launches a run has, about."""
        return self._kernels.layers

    def memory(self, allocate: Allocate) -> ChainMemory:
        """Ask for what a stream keeps."""
        return tuple(allocate(shape) for shape in self._kept)

    def run(self, x: State, time: int, memory: State, lanes: Sequence[int]) -> NDArray[np.float32]:
        """Compute the next positions of some streams; see `ConvChain.run`."""
        return self._kernels.run(x, time, memory, lanes)


def open_chain(
    engine: Engine, layers: Callable[[], Iterable[Snaked]], *, emulated: int | None = None
) -> ChainedConvolutions | None:
    """Return the kernels for layers with the snakes before them, None where this device or this build has none.

    `emulated`: loops on the CPU that stand for so many processors, for tests.
    """
    if emulated is None and not ConvChain.fits(engine):
        return None
    try:
        return ChainedConvolutions(ConvChain(engine, emulated=emulated), _snaked_behind(layers()))
    except EngineError as error:
        _logger.warning("%s: the codec goes on without its kernels, and slower", error)
        return None


def _snaked_behind(layers: Iterable[Snaked]) -> Iterator[ChainLayer]:
    """Put snakes behind the layers before: there each value is at hand once."""
    nothing: tuple[None, None] = (None, None)
    for (_, layer), (snake, _) in pairwise(chain(layers, [nothing])):
        assert layer is not None
        yield replace(layer, snake=None if snake is None else snake_beta(snake))
