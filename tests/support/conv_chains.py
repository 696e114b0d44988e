"""Chains of convolutions with random weights, as kernels compute them and as float64 does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ggtts.core.engine import Engine, State
from ggtts.core.engine.conv_chain import USUAL_PRODUCTS, ChainLayer, ConvChain, Products

DEVIATIONS: dict[Products, float] = {"f32": 2e-6, "tf32": 2e-3, "f16": 2e-3}
"""Largest deviation, of the largest value, by how factors are rounded (measured: 1.4e-6, 1.1e-3)."""

KINDS = list(DEVIATIONS)

SEVERAL = 16
"""How much larger a deviation may be behind several layers whose snakes make it larger (measured: 8)."""

NUMBERS = {"f32": np.float32, "f16": np.float16}

Array = np.ndarray


@dataclass
class Stream:
    """Inputs [streams, time, channels], and memories [lanes, length, channels] of the layers that have one."""

    engine: Engine
    layers: Sequence[ChainLayer]
    x: Array
    lanes: Sequence[int]
    memories: list[Array]

    def run(self, chain: ConvChain, memory: State, first: int, time: int) -> Array:
        """Return the outputs of some positions of all streams."""
        piece = np.ascontiguousarray(self.x[:, first : first + time], np.float32)
        state = self.engine.state({"x": ((piece.size,), chain.dtype)})
        state.write("x", piece.reshape(-1).astype(NUMBERS[chain.dtype]))
        return chain.run(state, time, memory, self.lanes)

    def memory(self, chain: ConvChain) -> State:
        """Return the memories on the device, as a chain keeps them."""
        layout = {str(i): (memory.shape[::-1], chain.dtype) for i, memory in enumerate(self.memories)}
        state = self.engine.state(layout or {"none": ((1,), "f32")})
        for number, memory in enumerate(self.memories):
            state.write(str(number), memory.astype(NUMBERS[chain.dtype]))
        return state


def build(
    engine: Engine,
    layers: Sequence[ChainLayer],
    products: Products = USUAL_PRODUCTS,
    processors: int | None = 132,
) -> ConvChain:
    """Return an emulation for so many processors; None is the device itself."""
    chain = ConvChain(engine, products, emulated=processors)
    for layer in layers:
        chain.add(layer)
    return chain


def make_layer(
    inputs: int,
    outputs: int,
    taps: int,
    dilation: int = 1,
    *,
    seed: int = 0,
    snake: bool = True,
    **more: object,
) -> ChainLayer:
    random = np.random.default_rng([seed, inputs, outputs, taps])
    stride = more.get("stride", 1)
    assert isinstance(stride, int)
    matrices = random.standard_normal((taps, outputs, inputs)).astype(np.float32)
    frequency, magnitude = np.exp(0.5 * random.standard_normal((2, outputs // stride))).astype(np.float32)
    return ChainLayer(
        matrices / np.float32(np.sqrt(taps * inputs)),
        random.standard_normal(outputs).astype(np.float32),
        dilation,
        snake=(frequency, 1 / magnitude) if snake else None,
        **more,  # type: ignore[arg-type]
    )


def make_stream(
    engine: Engine, layers: Sequence[ChainLayer], streams: int, time: int, seed: int = 1, spare: int = 2
) -> Stream:
    random = np.random.default_rng(seed)
    x = random.standard_normal((streams, time, layers[0].matrices.shape[2])).astype(np.float32)
    lanes = [int(lane) for lane in random.permutation(streams + spare)[:streams]]
    shapes = [layer.memory_shape for layer in layers if layer.memory_shape]
    memories = [
        random.standard_normal((streams + spare, length, width)).astype(np.float32)
        for width, length in shapes
    ]
    return Stream(engine, layers, x, lanes, memories)


def expected(stream: Stream) -> Array:
    """The definition of a chain, in float64."""
    x, memories, trunk = stream.x.astype(np.float64), iter(stream.memories), None
    for layer in stream.layers:
        taps = len(layer.matrices)
        if taps > 1:
            x = np.concatenate([next(memories)[stream.lanes].astype(np.float64), x], axis=1)
        time = x.shape[1] - (taps - 1) * layer.dilation
        y = np.zeros(()) if layer.bias is None else layer.bias.astype(np.float64)
        for tap, matrix in enumerate(layer.matrices):
            y = y + x[:, tap * layer.dilation :][:, :time] @ matrix.T.astype(np.float64)
        x = y.reshape(len(y), time * layer.stride, -1)
        if layer.trunk != "apart":
            trunk = x if trunk is None or layer.trunk == "begins" else trunk + x
            x = trunk
        if layer.snake:
            frequency, magnitude = layer.snake
            x = x + np.sin(x * frequency) ** 2 * magnitude
        x = np.clip(x, -1, 1) if layer.limited else x
    return x


def deviation(found: Array, reference: Array) -> float:
    assert found.shape == reference.shape
    return float(np.abs(found - reference).max() / np.abs(reference).max())


REAL = {
    "entry": (1024, 1536, 7, 1, 1, 2, 4),
    "block 1 up": (1536, 6144, 2, 1, 8, 1, 2),
    "block 1 dilated": (768, 768, 7, 9, 1, 2, 32),
    "block 1 pointwise": (768, 768, 1, 1, 1, 2, 32),
    "block 2 up": (768, 1920, 2, 1, 5, 1, 32),
    "block 2 dilated": (384, 384, 7, 3, 1, 1, 160),
    "block 3 up": (384, 768, 2, 1, 4, 1, 160),
    "block 3 dilated": (192, 192, 7, 9, 1, 2, 80),
    "block 4 up": (192, 288, 2, 1, 3, 1, 40),
    "block 4 dilated": (96, 96, 7, 9, 1, 3, 120),
    "exit": (96, 1, 7, 1, 1, 2, 333),
}
"""Inputs, outputs, taps, dilation, stride, streams and positions of layers of the codec of 12 Hz."""

ODD = {
    "two channels": (2, 6, 2, 1, 3, 3, 5),
    "odd channels": (5, 7, 3, 2, 1, 2, 9),
    "a chunk and a bit": (36, 100, 3, 5, 1, 1, 70),
    "no taps to speak of": (33, 9, 1, 1, 1, 3, 1),
    "four taps": (8, 12, 4, 3, 2, 5, 3),
    "streams within a tile": (32, 16, 7, 1, 1, 9, 4),
    "narrow and odd": (5, 3, 7, 2, 1, 2, 300),
}


def block(stride: int = 3) -> list[ChainLayer]:
    """Layers as those of a block of the codec's decoder, with as many chunks and segments as sums can be cut into."""
    width = 72
    return [
        make_layer(160, 3 * width, 7),
        make_layer(3 * width, stride * width, 2, stride=stride, trunk="begins"),
        make_layer(width, width, 7, 3, seed=1),
        make_layer(width, width, 1, seed=2, trunk="joins"),
        make_layer(width, width, 7, 9, seed=3),
        make_layer(width, width, 1, seed=4, trunk="joins"),
        make_layer(width, 1, 7, seed=5, snake=False, limited=True),
    ]
